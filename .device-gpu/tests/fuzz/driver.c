/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c - runs a fuzz target over the files of a folder, in order of name, without libFuzzer.
 *
 * So the corpus is an ordinary test in every build, with any compiler. Prints TAP, a line a file before the next is
 * tried: after a crash the file is the one that is missing. An empty folder is a failure, not a success.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define INPUT_MAX ((size_t)16 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int file_run(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = NULL;
    size_t size = 0, capacity = 0;

    if (!file)
        return -errno;
    for (;;) {
        size_t got;
        int r = mem_grow((void **)&data, &capacity, size + 65536, INPUT_MAX, 1);

        if (r < 0) {
            mem_free(data);
            (void)fclose(file);
            return r;
        }
        got = fread(data + size, 1, 65536, file);
        if (got == 0)
            break;
        size += got;
    }
    (void)fclose(file);
    /* Exactly as large as the input, so that a read past its end is seen. */
    data = mem_resize(data, size > 0 ? size : 1, 1);
    if (!data)
        return -ENOMEM;
    (void)LLVMFuzzerTestOneInput(data, size);
    mem_free(data);
    return 0;
}

static int not_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    struct dirent **entries = NULL;
    int count, failed = 0;

    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
        return 2;
    }
    count = scandir(argv[1], &entries, not_hidden, alphasort);
    if (count <= 0) {
        (void)fprintf(stderr, "%s: no corpus: %s\n", argv[1], count < 0 ? strerror(errno) : "the folder is empty");
        return 1;
    }
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        char path[4096];
        int r = -ENAMETOOLONG;

        if (snprintf(path, sizeof(path), "%s/%s", argv[1], entries[i]->d_name) < (int)sizeof(path))
            r = file_run(path);
        printf("%s %d - %s\n", r < 0 ? "not ok" : "ok", i + 1, entries[i]->d_name);
        (void)fflush(stdout);
        failed += r < 0;
        free(entries[i]);
    }
    free(entries);
    return failed > 0;
}
