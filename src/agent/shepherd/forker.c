/* SPDX-License-Identifier: Apache-2.0 */
/* forker.c - see forker.h. One message a fork, with the descriptors in it. */
#include "agent/shepherd/forker.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/embed.h"
#include "io/beside.h"

enum { FDS_MAX = 5, NAME_MAX_LENGTH = 64 };

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

void forker_replace(struct forker *forker)
{
    if (!forker->process_open)
        return;
    (void)shutdown(forker->fd, SHUT_RDWR);
    (void)uv_process_kill(&forker->process, SIGKILL);
}

int forker_task(struct forker *forker, int dir, int listener)
{
    const int fds[] = { dir, listener };

    return fork_ask(forker, fds, 2, "task");
}

int forker_watch(struct forker *forker, int state, int tasks)
{
    const int fds[] = { state, tasks };

    return fork_ask(forker, fds, 2, "watch");
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

/* muster-shepherd beside this program or where it was installed; else this program, which can do the same but has many
 * libraries to copy at each fork. */
static void program_find(char *path, size_t size)
{
    if (beside_find(FORKER_PROGRAM, path, size) < 0)
        (void)snprintf(path, size, "/proc/self/exe");
}

int forker_start(struct forker *forker, uv_loop_t *loop, struct error *err)
{
    uv_stdio_container_t stdio[FORKER_FD + 1] = { { .flags = UV_IGNORE },
                                                  { .flags = UV_INHERIT_FD, .data.fd = 1 },
                                                  { .flags = UV_INHERIT_FD, .data.fd = 2 },
                                                  { .flags = UV_INHERIT_FD } };
    char exe[PATH_MAX], mode[] = FORKER_MODE, name[] = "muster-forker";
    char *args[] = { name, mode, NULL };
    uv_process_options_t options = { .exit_cb = on_exit_of_it,
                                     .file = exe,
                                     .args = args,
                                     .stdio = stdio,
                                     .stdio_count = FORKER_FD + 1,
                                     .flags = UV_PROCESS_DETACHED };
    int ends[2], r;

    program_find(exe, sizeof(exe));
    *forker = (struct forker){ .loop = loop, .fd = -1 };
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return error_set(err, -errno, "socketpair: %s", strerror(errno));
    stdio[FORKER_FD].data.fd = ends[1];
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

int agent_child(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], FORKER_MODE) == 0)
        return forker_main(FORKER_FD);
    return -1;
}
