/* SPDX-License-Identifier: Apache-2.0 */
/* crowd.c - crowd COUNT: so many processes make their first driver call at the same moment. Prints how many of them are
 * registered, how many were at that call, and the milliseconds it took until the last one was; then all stay until
 * standard input ends.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"

#define MOST 512
#define PATIENCE_MS 60000
#define NAP_MS 10 /* hundreds of them that look more often keep the machine busy by that */

struct report {
    int32_t at_once, later;
};

/* One of them: `go` closes when all are there, `done` is where it says how it went. */
static int one(int go, int done, int end)
{
    struct report report = { 0, 0 };
    struct timespec nap = { 0, NAP_MS * 1000000 };
    uint64_t (*stat)(const char *) = NULL;
    CUcontext ctx;
    char c;

    (void)!read(go, &c, 1);
    *(void **)&stat = dlsym(RTLD_DEFAULT, "muster_gpu_stat");
    if (!stat || cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0))
        return 1;
    report.at_once = stat("registered") == 1;
    for (int i = 0; i < PATIENCE_MS / NAP_MS && !stat("registered"); i++)
        (void)nanosleep(&nap, NULL);
    report.later = stat("registered") == 1;
    if (write(done, &report, sizeof(report)) != (ssize_t)sizeof(report))
        return 1;
    (void)!read(end, &c, 1);
    _exit(0);
}

static uint64_t now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 300, go[2], done[2], end[2], at_once = 0, later = 0;
    struct report report;
    uint64_t start;
    char c;

    if (count < 1 || count > MOST || pipe(go) || pipe(done) || pipe(end))
        return 2;
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();

        if (pid < 0)
            return 1;
        if (pid == 0) {
            (void)close(go[1]);
            (void)close(end[1]);
            _exit(one(go[0], done[1], end[0]));
        }
    }
    (void)close(done[1]);
    start = now_ms();
    (void)close(go[1]);
    for (int i = 0; i < count && read(done[0], &report, sizeof(report)) == (ssize_t)sizeof(report); i++) {
        at_once += report.at_once;
        later += report.later;
    }
    (void)printf("%d registered, %d at their first call, %llu ms\n", later, at_once,
                 (unsigned long long)(now_ms() - start));
    (void)fflush(stdout);
    (void)!read(STDIN_FILENO, &c, 1);
    return later == count ? 0 : 1; /* the others end as `end` closes */
}
