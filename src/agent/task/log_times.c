/* SPDX-License-Identifier: Apache-2.0 */
/* log_times.c - see log_times.h. */
#include "agent/task/log_times.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/util.h"
#include "io/beneath.h"

enum { NAME_BYTES = 4096, PARTS = 3600, RECORDS_READ = 1024 };

/* What lies before `offset` was written by `before`, what follows from `after` on. Of this machine, for this machine:
 * as it lies in memory. */
struct record {
    int64_t before, after;
    uint64_t offset;
};

static void record_put(const struct log_times *times, usec_t before, usec_t after, uint64_t offset)
{
    struct record record = { before, after, offset };

    (void)util_write_all(times->fd, (const char *)&record, sizeof(record));
}

void log_times_note(struct log_times *times, int dir, const char *file, usec_t now, uint64_t size)
{
    usec_t step = (now - times->first) / PARTS, before = times->written;
    char name[NAME_BYTES];

    times->written = now;
    if (times->first == 0) {
        times->first = times->last = now;
        times->fd = -1;
        return;
    }
    if (now - times->last < (step > USEC_SEC ? step : USEC_SEC))
        return;
    if (times->fd < 0) {
        if (snprintf(name, sizeof(name), "%s.times", file) >= (int)sizeof(name))
            return;
        times->fd = beneath_open(dir, name, O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY, 0600);
        if (times->fd < 0)
            return;
        record_put(times, times->first, times->first, 0);
    }
    record_put(times, before, now, size);
    times->last = now;
}

void log_times_close(struct log_times *times)
{
    if (times->first && times->fd >= 0)
        close(times->fd);
    times->fd = -1;
}

/* The place that the records tell; -1: none of them does. */
static int64_t records_find(int fd, usec_t at, bool until)
{
    struct record records[RECORDS_READ];
    int64_t found = -1;
    ssize_t n;

    while ((n = read(fd, records, sizeof(records))) >= (ssize_t)sizeof(*records))
        for (size_t i = 0; i < (size_t)n / sizeof(*records); i++) {
            if (until && records[i].after > at)
                return (int64_t)records[i].offset;
            if (!until && records[i].before < at)
                found = (int64_t)records[i].offset;
        }
    return found;
}

int64_t log_times_find(int dir, const char *file, usec_t at, bool until)
{
    struct stat st = { 0 };
    char name[NAME_BYTES];
    int64_t found;
    usec_t last;
    int fd;

    if (fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    last = (usec_t)st.st_mtim.tv_sec * USEC_SEC + st.st_mtim.tv_nsec / 1000;
    if (until ? last <= at : last < at)
        return st.st_size;
    (void)snprintf(name, sizeof(name), "%s.times", file);
    fd = beneath_open(dir, name, O_RDONLY, 0);
    if (fd < 0) /* all of it within a second, the last one */
        return until && last - USEC_SEC <= at ? st.st_size : 0;
    found = records_find(fd, at, until);
    close(fd);
    return found >= 0 ? found : until ? st.st_size : 0;
}
