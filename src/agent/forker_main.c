/* SPDX-License-Identifier: Apache-2.0 */
/* forker_main.c - the process that forks: muster-shepherd, or the program itself in another mode. See forker.h. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/forker.h"
#include "agent/shepherd.h"

enum { FDS_MAX = 5, NAME_MAX_LENGTH = 64 };

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

static _Noreturn void child_main(int fd, const char *text, const int *fds, size_t count)
{
    int r = 1;

    close(fd);
    (void)setsid();
    (void)signal(SIGCHLD, SIG_DFL);
    streams_to_null();
    if (strcmp(text, "task") == 0 && count == 2)
        r = shepherd_run(fds[0], fds[1]);
    else if (strncmp(text, "exec ", 5) == 0 && count == FDS_MAX)
        r = exec_run(fds, text + 5);
    exit(r); /* NOLINT(concurrency-mt-unsafe): one thread */
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
    for (;;) {
        char control[CMSG_SPACE(FDS_MAX * sizeof(int))], text[NAME_MAX_LENGTH + 1] = "";
        struct iovec part = { .iov_base = text, .iov_len = NAME_MAX_LENGTH };
        struct msghdr m = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
        int fds[FDS_MAX];
        size_t count;
        pid_t pid;

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 0;
        count = fds_take(&m, fds);
        pid = fork();
        if (pid == 0)
            child_main(fd, text, fds, count);
        for (size_t i = 0; i < count; i++)
            close(fds[i]);
    }
}
