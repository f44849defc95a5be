/* SPDX-License-Identifier: Apache-2.0 */
/* dir.c - see dir.h. */
#include "io/dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"

bool dir_is(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int compare(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static int read_all(DIR *dir, struct names *names)
{
    struct dirent *entry;
    uint32_t index;
    int r = 0;

    while (r == 0 && (errno = 0, entry = readdir(dir))) {
        if (entry->d_name[0] != '.')
            r = names_put(names, entry->d_name, strlen(entry->d_name), &index);
    }
    return r < 0 ? r : -errno;
}

int dir_list(const char *path, struct names *ret_names, struct error *err)
{
    struct names found = { 0 }, sorted = { 0 };
    DIR *dir = opendir(path);
    uint32_t index;
    int r;

    if (!dir) {
        r = -errno;
        return error_set(err, r, "%s: %s", path, strerrordesc_np(-r));
    }
    r = read_all(dir, &found);
    closedir(dir);
    if (r == 0 && found.count)
        qsort(found.text, found.count, sizeof(*found.text), compare);
    for (size_t i = 0; r == 0 && i < found.count; i++)
        r = names_put(&sorted, found.text[i], strlen(found.text[i]), &index);
    names_done(&found);
    if (r < 0) {
        names_done(&sorted);
        return error_set(err, r, "%s: %s", path, strerrordesc_np(-r));
    }
    *ret_names = sorted;
    return 0;
}
