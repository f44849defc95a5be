/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* log_times.h - when output was written: beside FILE a FILE.times, for `muster logs --since`.
 *
 * A record for each second in which something was written, later for each 3600th of the time since the first byte: a
 * task of a year has some 40,000. What was all written within a second has no such file; when that was the file's own
 * time tells.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

struct log_times {
    int fd;             /* -1 = not opened */
    usec_t first, last; /* the first byte; the last record; since 1970, 0 = none */
    usec_t written;     /* the last byte */
};

/* Called before bytes go behind the `size` there are in the file of that name below `dir`. */
void log_times_note(struct log_times *times, int dir, const char *file, usec_t now, uint64_t size);
void log_times_close(struct log_times *times);

/* Where output from `at` on begins in dir/file, or, with `until`, where output up to `at` ends. To the second, and for
 * the older part of a long task to a 3600th of its age; in doubt it is more rather than less. */
int64_t log_times_find(int dir, const char *file, usec_t at, bool until);
