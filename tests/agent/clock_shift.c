/* SPDX-License-Identifier: Apache-2.0 */
/* clock_shift.c - preloaded: the clock that people set is ahead by the seconds in the file CLOCK_SHIFT, as if somebody
 * had just set it. The clocks that count since the start are as they are. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    const char *path = clock == CLOCK_REALTIME ? getenv("CLOCK_SHIFT") : NULL;
    int r = (int)syscall(SYS_clock_gettime, clock, ts), fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char text[32];
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    ts->tv_sec += n > 0 ? strtol(text, NULL, 10) : 0;
    return r;
}
