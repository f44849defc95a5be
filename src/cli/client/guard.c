/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c - see guard.h. */
#include "cli/client/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GUARD_TRIES = 120 };

int job_cancel(struct client *client, int64_t id, bool now, struct problem *problem)
{
    CLEANUP_ANSWER struct answer answer = { 0 };
    char path[64];
    int r;

    (void)snprintf(path, sizeof(path), "/jobs/%lld%s", (long long)id, now ? "?now=1" : "");
    r = client_call(client, "DELETE", path, NULL, &answer, problem);
    return r == CODE_CONFLICT || r == CODE_NOT_FOUND ? 0 : r; /* it is over */
}

/* Until the other end of the pipe is closed; with a word, all is well. Does not come back. */
static _Noreturn void guard_run(const struct command_args *args, int64_t id, int end)
{
    struct problem problem;
    char word;
    int null = open("/dev/null", O_RDWR);
    ssize_t got;

    (void)setsid();
    (void)signal(SIGHUP, SIG_IGN);
    if (null < 0 || dup2(end, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 ||
        close_range(STDERR_FILENO + 1, ~0U, 0) < 0)
        _exit(1);
    while ((got = read(STDIN_FILENO, &word, 1)) < 0 && errno == EINTR)
        ;
    for (int i = 0; got == 0 && i < GUARD_TRIES; i++) {
        struct client *client = NULL;
        int r = client_new(args, &client, &problem);

        if (r == 0)
            r = job_cancel(client, id, false, &problem);
        client_free(client);
        if (r != CODE_UNREACHABLE)
            break;
        (void)sleep(1);
    }
    _exit(0);
}

int guard_start(const struct command_args *args, int64_t id, struct guard *guard)
{
    int ends[2];

    *guard = (struct guard){ .end = -1 };
    if (args_has(args, "detach") || pipe2(ends, O_CLOEXEC) < 0)
        return 0;
    (void)fflush(NULL);
    guard->pid = fork();
    if (guard->pid == 0) {
        (void)close(ends[1]);
        guard_run(args, id, ends[0]);
    }
    (void)close(ends[0]);
    guard->end = ends[1];
    return guard->pid < 0 ? -errno : 0;
}

void guard_stop(struct guard *guard)
{
    if (guard->end < 0)
        return;
    (void)!write(guard->end, "k", 1);
    (void)close(guard->end);
    while (guard->pid > 0 && waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    guard->end = -1;
}
