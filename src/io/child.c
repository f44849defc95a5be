/* SPDX-License-Identifier: Apache-2.0 */
/* child.c - see child.h. Over libuv's processes; the end is told when the process is gone and both pipes are empty. */
#include "io/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/buf.h"

enum { ERR_MAX = 4096, HANDLES = 4, GONE_TRIES = 1000, GONE_NAP_NS = 1000000 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

struct child {
    uv_process_t process;
    uv_pipe_t out_pipe, err_pipe;
    uv_timer_t timer;
    struct buf out, err;
    size_t out_max;
    child_done_fn done;
    void *arg;
    int code, signal;
    const char *why;
    unsigned open;  /* handles */
    unsigned wants; /* ends that have not come: of the process, of two pipes */
    bool running;
    char piece[16384];
};

static void on_closed(uv_handle_t *handle)
{
    struct child *child = handle->data;

    if (--child->open)
        return;
    buf_put(&child->out, "", 1);
    buf_put(&child->err, "", 1);
    if (child->done) {
        struct child_end end = { .code = child->code,
                                 .signal = child->signal,
                                 .why = child->why,
                                 .out = child->out.error ? "" : child->out.data,
                                 .out_size = child->out.error ? 0 : child->out.size - 1,
                                 .err = child->err.error ? "" : child->err.data };

        child->done(child->arg, &end);
    }
    buf_done(&child->out);
    buf_done(&child->err);
    mem_free(child);
}

static void ended(struct child *child)
{
    if (--child->wants)
        return;
    uv_close((uv_handle_t *)&child->process, on_closed);
    uv_close((uv_handle_t *)&child->out_pipe, on_closed);
    uv_close((uv_handle_t *)&child->err_pipe, on_closed);
    uv_close((uv_handle_t *)&child->timer, on_closed);
}

/* It and what it has started: they are a group of processes of their own. */
static void group_kill(const struct child *child)
{
    if (child->running)
        (void)kill(-child->process.pid, SIGKILL);
}

/* Nothing more is read. */
static void pipe_end(struct child *child, uv_pipe_t *pipe)
{
    if (!uv_is_active((uv_handle_t *)pipe))
        return;
    (void)uv_read_stop((uv_stream_t *)pipe);
    ended(child);
}

/* Whoever has left the group may hold the pipes for as long as it likes: they are not waited for. */
static void child_end_by(struct child *child, const char *why)
{
    if (!child->why)
        child->why = why;
    group_kill(child);
    pipe_end(child, &child->out_pipe);
    pipe_end(child, &child->err_pipe);
}

static void on_exit_of(uv_process_t *process, int64_t status, int number)
{
    struct child *child = process->data;

    child->running = false;
    child->code = (int)status;
    child->signal = number;
    ended(child);
}

static void on_late(uv_timer_t *timer)
{
    child_end_by(timer->data, "took too long");
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *ret)
{
    struct child *child = handle->data;

    (void)wanted;
    *ret = uv_buf_init(child->piece, sizeof(child->piece));
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *piece)
{
    struct child *child = stream->data;

    if (count < 0) {
        (void)uv_read_stop(stream);
        ended(child);
    } else if (stream == (uv_stream_t *)&child->err_pipe) {
        size_t room = ERR_MAX - child->err.size; /* the beginning says what went wrong */

        buf_put(&child->err, piece->base, (size_t)count < room ? (size_t)count : room);
    } else if (child->out.size + (size_t)count > child->out_max) {
        child_end_by(child, "printed too much");
    } else {
        buf_put(&child->out, piece->base, (size_t)count);
    }
}

static void limits_set(const struct child *child, const struct child_limits *limits)
{
    pid_t pid = child->process.pid;
    struct rlimit memory = { limits->memory, limits->memory }, cpu = { limits->cpu, limits->cpu + 1 };
    struct rlimit core = { 0, 0 };

    if (limits->memory && !SANITIZED)
        (void)prlimit(pid, RLIMIT_AS, &memory, NULL);
    if (limits->cpu)
        (void)prlimit(pid, RLIMIT_CPU, &cpu, NULL);
    (void)prlimit(pid, RLIMIT_CORE, &core, NULL);
    if (limits->nice)
        (void)setpriority(PRIO_PROCESS, (id_t)pid, getpriority(PRIO_PROCESS, 0) + limits->nice);
}

static void handles_open(struct child *child, uv_loop_t *uv)
{
    (void)uv_pipe_init(uv, &child->out_pipe, 0);
    (void)uv_pipe_init(uv, &child->err_pipe, 0);
    (void)uv_timer_init(uv, &child->timer);
    child->process.data = child->out_pipe.data = child->err_pipe.data = child->timer.data = child;
    child->open = HANDLES;
}

/* A pipe that holds all of it already; -1: nothing is to be read, or -errno. */
static int input_open(const struct child_spec *spec)
{
    int ends[2];
    ssize_t n;

    if (!spec->in)
        return -1;
    if (spec->in_size > CHILD_IN_MAX)
        return -E2BIG;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    n = write(ends[1], spec->in, spec->in_size);
    close(ends[1]);
    if (n == (ssize_t)spec->in_size)
        return ends[0];
    close(ends[0]);
    return -EIO;
}

int child_start(struct loop *loop, const struct child_spec *spec, struct child **ret_child, struct error *err)
{
    uv_loop_t *uv = loop_uv(loop);
    struct child *child = mem_zalloc(1, sizeof(*child));
    uv_stdio_container_t stdio[3] = { { .flags = UV_IGNORE },
                                      { .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE },
                                      { .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE } };
    uv_process_options_t options = { .exit_cb = on_exit_of,
                                     .file = spec->argv[0],
                                     .args = (char **)(uintptr_t)spec->argv,
                                     .cwd = spec->folder,
                                     .stdio = stdio,
                                     .stdio_count = 3,
                                     .flags = UV_PROCESS_DETACHED };
    int r, input = input_open(spec);

    if (!child || input < -1) {
        mem_free(child);
        return error_set(err, input < -1 ? input : -ENOMEM, "no memory or no pipe for a process");
    }
    if (input >= 0)
        stdio[0] = (uv_stdio_container_t){ .flags = UV_INHERIT_FD, .data.fd = input };
    child->out = (struct buf)BUF_INIT(spec->limits.out_max + 1);
    child->err = (struct buf)BUF_INIT(ERR_MAX + 1);
    child->out_max = spec->limits.out_max;
    child->done = spec->done;
    child->arg = spec->arg;
    handles_open(child, uv);
    stdio[1].data.stream = (uv_stream_t *)&child->out_pipe;
    stdio[2].data.stream = (uv_stream_t *)&child->err_pipe;
    r = uv_spawn(uv, &child->process, &options);
    if (input >= 0)
        close(input);
    if (r < 0) {
        child->done = NULL;
        child->wants = 1;
        ended(child);
        return error_set(err, r, "%s: %s", spec->argv[0], uv_strerror(r));
    }
    child->running = true;
    child->wants = 3;
    limits_set(child, &spec->limits);
    (void)uv_read_start((uv_stream_t *)&child->out_pipe, on_room, on_read);
    (void)uv_read_start((uv_stream_t *)&child->err_pipe, on_room, on_read);
    if (spec->limits.wall)
        (void)uv_timer_start(&child->timer, on_late, (uint64_t)(spec->limits.wall / USEC_MSEC), 0);
    *ret_child = child;
    return 0;
}

void child_kill(struct child *child)
{
    child_end_by(child, "was ended");
}

/* A killed program may be in the middle of a write, and who ends removes its files: not before it is gone. A second at
 * most; the loop collects it. */
static void gone_wait(const struct child *child)
{
    struct timespec nap = { 0, GONE_NAP_NS };
    siginfo_t info;

    for (int i = 0; child->running && i < GONE_TRIES; i++) {
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)child->process.pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid)
            return;
        (void)nanosleep(&nap, NULL);
    }
}

void child_abandon(struct child *child)
{
    child->done = NULL;
    group_kill(child);
    gone_wait(child);
    if (child->wants) {
        child->wants = 1;
        ended(child);
    }
}
