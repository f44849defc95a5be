/* SPDX-License-Identifier: Apache-2.0 */
/* forker.c - see forker.h. One message a fork, with the descriptors in it. */
#include "agent/forker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/embed.h"
#include "agent/shepherd.h"

#define MODE "--muster-forker"
enum { FDS_MAX = 5, CHILD_FD = 3, NAME_MAX_LENGTH = 64 };

static int fork_ask(struct forker *forker, const int *fds, size_t count, const char *text)
{
    char control[CMSG_SPACE(FDS_MAX * sizeof(int))] = { 0 };
    struct iovec part = { .iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text) + 1 };
    struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control };
    struct cmsghdr *c;

    if (forker->fd < 0)
        return -ENOTCONN;
    m.msg_controllen = CMSG_SPACE(count * sizeof(int));
    c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(count * sizeof(int)),
                           .cmsg_level = SOL_SOCKET,
                           .cmsg_type = SCM_RIGHTS };
    memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    return sendmsg(forker->fd, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int forker_task(struct forker *forker, int dir, int listener)
{
    const int fds[] = { dir, listener };

    return fork_ask(forker, fds, 2, "task");
}

int forker_exec(struct forker *forker, const int fds[5], const char *plan)
{
    char text[NAME_MAX_LENGTH];

    if (snprintf(text, sizeof(text), "exec %s", plan) >= (int)sizeof(text))
        return -ENAMETOOLONG;
    return fork_ask(forker, fds, FDS_MAX, text);
}

static void on_closed(uv_handle_t *handle)
{
    struct forker *forker = handle->data;

    if (--forker->handles > 0)
        return;
    if (forker->stopping) {
        if (forker->closed)
            forker->closed(forker->arg);
        return;
    }
    /* It died: another one. */
    (void)forker_start(forker, forker->loop, NULL);
}

static void forker_close(struct forker *forker)
{
    if (forker->watch_open) {
        (void)uv_poll_stop(&forker->watch);
        uv_close((uv_handle_t *)&forker->watch, on_closed);
    }
    if (forker->process_open)
        uv_close((uv_handle_t *)&forker->process, on_closed);
    forker->watch_open = forker->process_open = false;
    if (forker->fd >= 0)
        close(forker->fd);
    forker->fd = -1;
}

static void on_exit_of_it(uv_process_t *process, int64_t status, int number)
{
    (void)status;
    (void)number;
    forker_close(process->data);
}

static void on_readable(uv_poll_t *watch, int status, int events)
{
    /* It never speaks: this is its end. The exit callback does the rest. */
    (void)status;
    (void)events;
    (void)uv_poll_stop(watch);
}

int forker_start(struct forker *forker, uv_loop_t *loop, struct error *err)
{
    uv_stdio_container_t stdio[CHILD_FD + 1] = { { .flags = UV_IGNORE },
                                                 { .flags = UV_INHERIT_FD, .data.fd = 1 },
                                                 { .flags = UV_INHERIT_FD, .data.fd = 2 },
                                                 { .flags = UV_INHERIT_FD } };
    char exe[] = "/proc/self/exe", mode[] = MODE, name[] = "muster-forker";
    char *args[] = { name, mode, NULL };
    uv_process_options_t options = { .exit_cb = on_exit_of_it,
                                     .file = exe,
                                     .args = args,
                                     .stdio = stdio,
                                     .stdio_count = CHILD_FD + 1,
                                     .flags = UV_PROCESS_DETACHED };
    int ends[2], r;

    *forker = (struct forker){ .loop = loop, .fd = -1 };
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return error_set(err, -errno, "socketpair: %s", strerror(errno));
    stdio[CHILD_FD].data.fd = ends[1];
    forker->process.data = forker->watch.data = forker;
    r = uv_spawn(loop, &forker->process, &options);
    close(ends[1]);
    if (r < 0) {
        close(ends[0]);
        uv_close((uv_handle_t *)&forker->process, NULL);
        return error_set(err, r, "cannot start this program again: %s", uv_strerror(r));
    }
    forker->process_open = true;
    forker->handles = 1;
    forker->fd = ends[0];
    if (uv_poll_init(loop, &forker->watch, ends[0]) == 0) {
        forker->watch_open = true;
        forker->handles++;
        (void)uv_poll_start(&forker->watch, UV_READABLE | UV_DISCONNECT, on_readable);
    }
    return 0;
}

void forker_stop(struct forker *forker, void (*closed)(void *arg), void *arg)
{
    forker->stopping = true;
    forker->closed = closed;
    forker->arg = arg;
    if (forker->handles == 0) {
        if (closed)
            closed(arg);
        return;
    }
    forker_close(forker);
}

/* The other side. */

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
    (void)setsid();
    (void)signal(SIGCHLD, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
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

int agent_child(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], MODE) == 0)
        return forker_main(CHILD_FD);
    return -1;
}
