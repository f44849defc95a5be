/* SPDX-License-Identifier: Apache-2.0 */
/* ask_exec.c - a command inside a running task, its streams carried as answers.
 *
 * With a terminal there is one stream both ways; without, three. It is over when its status came and its output ended,
 * or a second after its status when something in the background keeps the output open. A connection to a port of the
 * task is carried the same way: one stream, and no status but its end.
 *
 * How much of the input was taken is told at the beginning and then in pieces (`took`): who sends it waits when too
 * much is under way, so a command that reads nothing fills nobody's memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "agent/ask/ask.h"
#include "agent/util.h"
#include "base/alloc.h"

enum { S_IN, S_OUT, S_ERR, S_STATUS, STREAMS };
enum { TOOK_BYTES = 1 << 18 };
#define LINGER USEC_SEC

struct exec_ask {
    struct ask ask;
    uv_pipe_t pipes[STREAMS];
    bool open[STREAMS], reading[STREAMS];
    int handles, tty; /* tty: the master; -1 */
    bool port;        /* a connection, no command */
    bool closed, ended, input_over;
    uv_shutdown_t shutdown;
    size_t took; /* of the input, not told yet */
    usec_t ended_at;
    int code, number;
    char status[32];
    size_t status_size;
};

struct input_request {
    uv_write_t write;
    size_t size;
    char data[];
};

static void on_pipe_closed(uv_handle_t *handle)
{
    struct exec_ask *exec = handle->data;

    if (--exec->handles == 0 && exec->closed)
        mem_free(exec);
}

static void stream_close(struct exec_ask *exec, int stream)
{
    if (!exec->open[stream])
        return;
    exec->open[stream] = exec->reading[stream] = false;
    uv_close((uv_handle_t *)&exec->pipes[stream], on_pipe_closed);
}

static void exec_close(struct ask *ask)
{
    struct exec_ask *exec = (struct exec_ask *)ask;

    ask_remove(ask);
    if (exec->closed)
        return;
    exec->closed = true;
    exec->handles++; /* none of the closings below may be the last */
    for (int i = 0; i < STREAMS; i++)
        stream_close(exec, i);
    if (--exec->handles == 0)
        mem_free(exec);
}

static void exec_finish(struct exec_ask *exec)
{
    ask_answer(&exec->ask, json_pack("{si,si}", "exit", exec->code, "signal", exec->number), false);
    exec_close(&exec->ask);
}

static void finish_maybe(struct exec_ask *exec)
{
    if (!exec->closed && exec->ended && !exec->open[S_OUT] && !exec->open[S_ERR])
        exec_finish(exec);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    static char in[65536];

    (void)handle;
    (void)size;
    *buf = uv_buf_init(in, sizeof(in));
}

static void status_take(struct exec_ask *exec, const char *data, size_t size)
{
    if (exec->status_size + size < sizeof(exec->status)) {
        memcpy(exec->status + exec->status_size, data, size);
        exec->status_size += size;
    }
    if (sscanf(exec->status, "%d %d", &exec->code, &exec->number) != 2) /* NOLINT(cert-err34-c): our own words */
        exec->code = 125;
}

static void output_take(struct exec_ask *exec, int stream, const char *data, size_t size)
{
    CLEANUP_BUF struct buf text = BUF_INIT(1 << 20);

    util_base64_put(&text, data, size);
    ask_answer(&exec->ask, json_pack("{ss,ss}", "stream", stream == S_ERR ? "err" : "out", "data", text.data), true);
}

static void on_read(uv_stream_t *handle, ssize_t n, const uv_buf_t *buf)
{
    struct exec_ask *exec = handle->data;
    int stream = 0;

    while (stream < STREAMS && (uv_stream_t *)&exec->pipes[stream] != handle)
        stream++;
    if (n == 0 || exec->closed || stream == STREAMS)
        return;
    if (n > 0 && stream == S_STATUS) {
        status_take(exec, buf->base, (size_t)n);
        return;
    }
    if (n > 0) {
        output_take(exec, stream, buf->base, (size_t)n);
        if (!ask_room(&exec->ask)) {
            (void)uv_read_stop(handle);
            exec->reading[stream] = false;
        }
        return;
    }
    stream_close(exec, stream);
    if (stream == S_STATUS || exec->port) {
        exec->ended = true;
        exec->ended_at = clock_boot();
        if (exec->status_size == 0 && (!exec->port || n != UV_EOF))
            exec->code = 125;
    }
    finish_maybe(exec);
}

static void exec_turn(struct ask *ask)
{
    struct exec_ask *exec = (struct exec_ask *)ask;

    for (int i = S_OUT; i <= S_ERR; i++)
        if (exec->open[i] && !exec->reading[i] && ask_room(ask)) {
            exec->reading[i] = true;
            (void)uv_read_start((uv_stream_t *)&exec->pipes[i], on_alloc, on_read);
        }
    if (!ask_room(ask))
        exec->ended_at = clock_boot(); /* its last words wait for us, not we for them */
    if (exec->ended && clock_boot() > exec->ended_at + LINGER)
        exec_finish(exec);
}

static void on_input_over(uv_shutdown_t *shutdown, int status)
{
    (void)shutdown, (void)status;
}

/* Where its input goes: a terminal and a connection have one stream both ways. */
static int input_stream(const struct exec_ask *exec)
{
    return exec->tty >= 0 || exec->port ? S_OUT : S_IN;
}

/* The end of the input comes after all of it. */
static void input_close_maybe(struct exec_ask *exec)
{
    if (exec->input_over && !exec->port && exec->open[S_IN] &&
        uv_stream_get_write_queue_size((const uv_stream_t *)&exec->pipes[S_IN]) == 0)
        stream_close(exec, S_IN);
}

static void on_input_written(uv_write_t *write, int status)
{
    const struct input_request *request = (const struct input_request *)write;
    struct exec_ask *exec = write->handle->data;
    size_t size = request->size;

    mem_free(write);
    if (status != 0)
        return;
    exec->took += size;
    if (exec->took >= TOOK_BYTES) {
        ask_answer(&exec->ask, json_pack("{sI}", "took", (json_int_t)exec->took), true);
        exec->took = 0;
    }
    input_close_maybe(exec);
}

static void input_write(struct exec_ask *exec, const char *data, size_t size)
{
    struct input_request *request = mem_zalloc(1, sizeof(*request) + size);
    uv_stream_t *to = (uv_stream_t *)&exec->pipes[input_stream(exec)];
    uv_buf_t buf;

    if (!request)
        return;
    memcpy(request->data, data, size);
    request->size = size;
    buf = uv_buf_init(request->data, (unsigned int)size);
    if (uv_write(&request->write, to, &buf, 1, on_input_written) < 0)
        mem_free(request);
}

static void exec_input(struct ask *ask, json_t *frame)
{
    struct exec_ask *exec = (struct exec_ask *)ask;
    const char *data = util_text(frame, "data");
    CLEANUP_BUF struct buf bytes = BUF_INIT(FRAME_BYTES_MAX);

    if (exec->tty >= 0 && json_object_get(frame, "rows")) {
        struct winsize size = { .ws_row = (unsigned short)util_i64(frame, "rows", 24),
                                .ws_col = (unsigned short)util_i64(frame, "cols", 80) };

        (void)ioctl(exec->tty, TIOCSWINSZ, &size);
    }
    if (!exec->open[input_stream(exec)] || exec->input_over)
        return;
    if (data && util_base64_get(data, strlen(data), &bytes) == 0 && bytes.size)
        input_write(exec, bytes.data, bytes.size);
    if (!util_flag(frame, "eof"))
        return;
    if (exec->tty >= 0) {
        input_write(exec, "\x04", 1);
        return;
    }
    exec->input_over = true;
    if (exec->port)
        (void)uv_shutdown(&exec->shutdown, (uv_stream_t *)&exec->pipes[S_OUT], on_input_over);
    else
        input_close_maybe(exec);
}

static const struct ask_ops exec_ops = { .name = "exec", .turn = exec_turn, .input = exec_input, .close = exec_close };

/* ends[stream]: ours; fds of the forked process in child[]. */
static int streams_make(const json_t *frame, bool tty, int *ours, int *child)
{
    int ends[2];

    for (int i = 0; i < STREAMS; i++)
        ours[i] = child[i] = -1;
    if (tty) {
        struct winsize size = { .ws_row = (unsigned short)util_i64(frame, "rows", 24),
                                .ws_col = (unsigned short)util_i64(frame, "cols", 80) };
        char name[64];

        ours[S_OUT] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (ours[S_OUT] < 0 || grantpt(ours[S_OUT]) < 0 || unlockpt(ours[S_OUT]) < 0 ||
            ptsname_r(ours[S_OUT], name, sizeof(name)) != 0)
            return -errno;
        child[S_OUT] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (child[S_OUT] < 0)
            return -errno;
        (void)ioctl(ours[S_OUT], TIOCSWINSZ, &size);
    } else {
        for (int i = S_IN; i <= S_ERR; i++) {
            if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
            ours[i] = ends[i == S_IN ? 1 : 0];
            child[i] = ends[i == S_IN ? 0 : 1];
        }
    }
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    ours[S_STATUS] = ends[0];
    child[S_STATUS] = ends[1];
    return 0;
}

/* The command as it was asked for; inside a container through the runtime that started it, never beside it. */
static json_t *exec_argv(const json_t *plan, const char *container, const json_t *frame, const json_t *more)
{
    const json_t *inside = json_object_get(plan, "inside"), *value;
    json_t *argv;
    size_t i;

    if (!inside)
        return json_incref(json_object_get(frame, "argv"));
    argv = json_copy((json_t *)(uintptr_t)inside);
    if (util_flag(frame, "tty"))
        (void)json_array_append_new(argv, json_string("--tty"));
    json_array_foreach(more, i, value)
    {
        (void)json_array_append_new(argv, json_string("--env"));
        (void)json_array_append(argv, (json_t *)(uintptr_t)value);
    }
    (void)json_array_append(argv, json_object_get(plan, container));
    (void)json_array_extend(argv, json_object_get(frame, "argv"));
    return argv;
}

/* What the command needs of the task's own plan, and what was asked. */
static json_t *exec_plan(const struct task *task, const json_t *frame, int dir)
{
    static const char *const kept[] = { "cgroup", "dir",         "uid",         "gid", "groups", "user",
                                        "switch", "private_tmp", "private_shm", "env", "owned",  "no_new_privs" };
    json_t *plan = util_json_get(dir, "plan.json"), *exec, *more = json_array(), *value;
    const char *key;

    if (!plan) {
        json_decref(more);
        return NULL;
    }
    exec = json_object();
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        if (json_object_get(plan, kept[i]))
            (void)json_object_set(exec, kept[i], json_object_get(plan, kept[i]));
    json_object_foreach(json_object_get(frame, "env"), key, value) if (json_is_string(value))(void)
        json_array_append_new(more, json_sprintf("%s=%s", key, json_string_value(value)));
    (void)json_object_set_new(exec, "argv",
                              exec_argv(plan, task->state == TASK_KEPT ? "container_kept" : "container", frame, more));
    /* Inside a container the command has them from its runtime, which is root's and must not hear of them. */
    if (json_object_get(plan, "inside"))
        (void)json_array_clear(more);
    (void)json_object_set_new(exec, "more", more);
    (void)json_object_set_new(exec, "tty", json_boolean(util_flag(frame, "tty")));
    (void)json_object_set_new(exec, "shepherd", json_integer(task->shepherd));
    json_decref(plan);
    return exec;
}

/* Its terminal, or its pipes, are its user's: who names /dev/stdout opens it anew. */
static int streams_give(const json_t *plan, const int *child)
{
    for (int i = S_IN; i <= S_ERR; i++)
        if (child[i] >= 0 && util_flag(plan, "owned") &&
            fchown(child[i], (uid_t)util_i64(plan, "uid", 0), (gid_t)util_i64(plan, "gid", 0)) < 0)
            return -errno;
    return 0;
}

static int exec_fork(struct task *task, const json_t *frame, const int *child)
{
    bool tty = util_flag(frame, "tty");
    const int fds[5] = { task_dir(task), child[tty ? S_OUT : S_IN], child[S_OUT], child[tty ? S_OUT : S_ERR],
                         child[S_STATUS] };
    json_t *plan = fds[0] >= 0 ? exec_plan(task, frame, fds[0]) : NULL;
    char name[48];
    int r = plan ? 0 : -ENOENT;

    (void)snprintf(name, sizeof(name), "exec-%lld.json", (long long)util_i64(frame, "id", 0));
    if (r == 0)
        r = streams_give(plan, child);
    if (r == 0)
        r = util_json_put(fds[0], name, plan, false);
    if (r == 0)
        r = forker_exec(&task->agent->set->forker, fds, name);
    json_decref(plan);
    if (fds[0] >= 0)
        close(fds[0]);
    return r;
}

/* It has begun: input is counted from here on. */
static void exec_begun(struct exec_ask *exec)
{
    ask_answer(&exec->ask, json_pack("{si}", "took", 0), true);
}

static int exec_open(struct exec_ask *exec, uv_loop_t *loop, int *ours)
{
    int r = 0;

    for (int i = 0; i < STREAMS; i++) {
        if (ours[i] < 0)
            continue;
        (void)uv_pipe_init(loop, &exec->pipes[i], 0);
        exec->pipes[i].data = exec;
        exec->open[i] = true;
        exec->handles++;
        if (r == 0)
            r = uv_pipe_open(&exec->pipes[i], ours[i]);
        if (r < 0)
            continue;
        ours[i] = -1;
        if (i != S_IN) {
            exec->reading[i] = true;
            r = uv_read_start((uv_stream_t *)&exec->pipes[i], on_alloc, on_read);
        }
    }
    return r;
}

const char *ask_enterable(const struct task *task)
{
    if (!task)
        return "no such task on this node";
    if (task->emulated)
        return "an emulated task has no processes";
    if (task->state != TASK_RUNNING && task->state != TASK_STOPPING && task->state != TASK_KEPT)
        return "the task is not running";
    return NULL;
}

static const char *exec_check(const struct task *task, const json_t *frame)
{
    const json_t *argv = json_object_get(frame, "argv"), *one;
    const char *wrong = ask_enterable(task);
    size_t i;

    if (wrong)
        return wrong;
    if (json_array_size(argv) == 0)
        return "argv: expected a list of texts";
    json_array_foreach(argv, i, one) if (!json_is_string(one)) return "argv: expected a list of texts";
    return NULL;
}

void ask_exec(struct agent *agent, json_t *frame)
{
    const struct task_id which = { util_i64(frame, "job", 0), (uint32_t)util_i64(frame, "attempt", 0),
                                   (uint32_t)util_i64(frame, "rank", 0) };
    struct task *task = task_find(agent, &which);
    const char *words = exec_check(task, frame);
    int64_t id = util_i64(frame, "id", 0);
    int ours[STREAMS], child[STREAMS], r;
    struct exec_ask *exec;

    if (words) {
        ask_refuse(agent, id, task ? "Conflict" : "NotFound", words);
        return;
    }
    r = streams_make(frame, util_flag(frame, "tty"), ours, child);
    exec = r == 0 ? mem_zalloc(1, sizeof(*exec)) : NULL;
    if (exec) {
        exec->ask = (struct ask){ .id = id, .ops = &exec_ops };
        exec->tty = util_flag(frame, "tty") ? ours[S_OUT] : -1;
        ask_add(agent, &exec->ask);
        r = exec_fork(task, frame, child);
        if (r == 0)
            r = exec_open(exec, loop_uv(agent->set->loop), ours);
        if (r < 0)
            exec_close(&exec->ask);
        else
            exec_begun(exec);
    }
    for (int i = 0; i < STREAMS; i++) {
        if (child[i] >= 0)
            close(child[i]);
        if (ours[i] >= 0)
            close(ours[i]);
    }
    if (!exec || r < 0)
        ask_refuse(agent, id, "Internal", strerror(r < 0 ? -r : ENOMEM));
}

int ask_carry(struct agent *agent, int64_t id, int64_t job, int fd)
{
    struct exec_ask *exec = mem_zalloc(1, sizeof(*exec));
    int ours[STREAMS] = { -1, fd, -1, -1 }, r;

    if (!exec) {
        close(fd);
        return -ENOMEM;
    }
    exec->ask = (struct ask){ .id = id, .forwards = job, .ops = &exec_ops };
    exec->tty = -1;
    exec->port = true;
    ask_add(agent, &exec->ask);
    r = exec_open(exec, loop_uv(agent->set->loop), ours);
    if (ours[S_OUT] >= 0)
        close(ours[S_OUT]);
    if (r < 0)
        exec_close(&exec->ask);
    else
        exec_begun(exec);
    return r;
}
