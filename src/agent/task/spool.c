/* SPDX-License-Identifier: Apache-2.0 */
/* spool.c - see spool.h. */
#include "agent/task/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/util.h"
#include "base/alloc.h"

#define MARK ".trimmed" /* the newest job whose output is gone */

enum { NAME_BYTES = 96, FILES_MAX = 1 << 20 };

struct spooled {
    char name[NAME_BYTES];
    usec_t written;
    uint64_t size;
};

static int by_age(const void *a, const void *b)
{
    const struct spooled *x = a, *y = b;

    return x->written < y->written ? -1 : x->written > y->written ? 1 : strcmp(x->name, y->name);
}

static struct spooled *spool_list(int dir, size_t *ret_count, uint64_t *ret_bytes)
{
    struct spooled *list = NULL;
    size_t count = 0, capacity = 0;
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    *ret_bytes = 0;
    while (stream && (entry = readdir(stream))) {
        struct stat st;

        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= NAME_BYTES ||
            fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        if (mem_grow((void **)&list, &capacity, count + 1, FILES_MAX, sizeof(*list)) < 0)
            break;
        list[count] = (struct spooled){ .written = (usec_t)st.st_mtim.tv_sec * USEC_SEC + st.st_mtim.tv_nsec / 1000,
                                        .size = (uint64_t)st.st_size };
        memcpy(list[count].name, entry->d_name, strlen(entry->d_name) + 1);
        *ret_bytes += list[count++].size;
    }
    if (stream)
        (void)closedir(stream);
    else if (fd >= 0)
        close(fd);
    *ret_count = count;
    return list;
}

static int64_t job_of(const char *name)
{
    return strtoll(name, NULL, 10);
}

int64_t spool_trimmed(int dir)
{
    CLEANUP_BYTES struct bytes text = { 0 };

    return util_file_get(dir, MARK, 64, &text, NULL) == 0 ? strtoll(text.data, NULL, 10) : 0;
}

static void mark_put(int dir, int64_t job)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%lld\n", (long long)job);

    (void)util_file_put(dir, MARK, text, (size_t)n, false);
}

int spool_trim(int dir, usec_t age, uint64_t bytes, bool (*busy)(void *arg, const char *name), void *arg)
{
    size_t count;
    uint64_t all;
    struct spooled *list = spool_list(dir, &count, &all);
    int64_t before = spool_trimmed(dir), last = before;
    usec_t now = clock_real();
    int gone = 0;

    if (count)
        qsort(list, count, sizeof(*list), by_age);
    for (size_t i = 0; i < count && (all > bytes || now - list[i].written > age); i++) {
        if (busy(arg, list[i].name) || unlinkat(dir, list[i].name, 0) < 0)
            continue;
        all -= list[i].size;
        last = job_of(list[i].name) > last ? job_of(list[i].name) : last;
        gone++;
    }
    if (last > before)
        mark_put(dir, last);
    mem_free(list);
    return gone;
}
