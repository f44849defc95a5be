/* SPDX-License-Identifier: Apache-2.0 */
/* forker_main.c - the process that forks: muster-shepherd, or the program itself in another mode. See forker.h. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/shepherd/forker.h"
#include "agent/shepherd/shepherd.h"

enum { FDS_MAX = 5, NAME_MAX_LENGTH = 64 };
static const char taken = 't', over = 'o'; /* what a spare tells */

static void fds_close_other(int keep)
{
    if (keep > 3)
        (void)syscall(SYS_close_range, 3U, (unsigned int)keep - 1, 0U);
    (void)syscall(SYS_close_range, (unsigned int)keep + 1, ~0U, 0U);
}

static void streams_to_null(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int i = 0; i < 3 && null >= 0; i++)
        (void)dup2(null, i);
    if (null > 2)
        close(null);
}

static size_t fds_take(struct msghdr *m, int *fds)
{
    size_t count = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || n > FDS_MAX)
            continue;
        memcpy(fds, CMSG_DATA(c), n * sizeof(int));
        count = n;
    }
    return count;
}

/* The next message; how many descriptors came with it, or -1: nobody will send any more. */
static int order_read(int fd, char text[NAME_MAX_LENGTH + 1], int fds[FDS_MAX])
{
    char control[CMSG_SPACE(FDS_MAX * sizeof(int))];
    struct iovec part = { .iov_base = text, .iov_len = NAME_MAX_LENGTH };
    struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
    ssize_t n;

    do
        n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    return (int)fds_take(&m, fds);
}

/* Ready for the task that is to come, so that it need not wait for a fork. */
static _Noreturn void spare_main(int fd, int parent)
{
    char text[NAME_MAX_LENGTH + 1];
    int fds[FDS_MAX], count, r = 1;

    (void)setsid();
    (void)signal(SIGCHLD, SIG_DFL);
    streams_to_null();
    count = order_read(fd, text, fds);
    (void)!write(parent, count < 0 ? &over : &taken, 1);
    close(parent);
    close(fd);
    if (count == 2 && strcmp(text, "task") == 0)
        r = shepherd_run(fds[0], fds[1]);
    else if (count == 2 && strcmp(text, "watch") == 0)
        r = watchdog_run(fds[0], fds[1]);
    else if (count == FDS_MAX && strncmp(text, "exec ", 5) == 0)
        r = exec_run(fds, text + 5);
    exit(r); /* NOLINT(concurrency-mt-unsafe): one thread */
}

/* Until it has something to do. False: there will be nothing more. */
static bool spare_run(int fd)
{
    const struct timespec nap = { 0, 10 * 1000 * 1000 };
    int ends[2] = { -1, -1 };
    pid_t pid = pipe2(ends, O_CLOEXEC) < 0 ? -1 : fork();
    char said = 0;

    if (pid == 0) {
        close(ends[0]);
        spare_main(fd, ends[1]);
    }
    if (ends[1] >= 0)
        close(ends[1]);
    if (pid < 0)
        (void)nanosleep(&nap, NULL); /* too many processes: what is to come waits in the socket */
    else
        while (read(ends[0], &said, 1) < 0 && errno == EINTR)
            ;
    if (ends[0] >= 0)
        close(ends[0]);
    return said != over;
}

int forker_main(int fd)
{
    (void)prctl(PR_SET_NAME, "muster-forker", 0, 0, 0);
    (void)prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); /* a controller we are in may not want huge pages; jobs do */
    (void)setsid();
    /* Done once here and not in each task: no signal is ignored in it that was ignored where the agent was started. */
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL);
    (void)signal(SIGCHLD, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    json_object_seed(0); /* likewise: it reads from a file */
    fds_close_other(fd);
    while (spare_run(fd))
        ;
    return 0;
}
