/* SPDX-License-Identifier: Apache-2.0 */
/* ask_input.c - standard input of a running task, carried to those of its processes that take it (shepherd_in.c).
 *
 * All of them read the same bytes; the slowest sets the pace. What was taken is told as in ask_exec.c, so that whoever
 * sends waits while nobody reads. It is over when there is no more, or when nobody is left who would read. Where it
 * ends in between, because whoever sent it is gone, the processes meet the end of their input there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/ask/ask.h"
#include "agent/util.h"
#include "base/alloc.h"
#include "io/beneath.h"

enum { TOOK_BYTES = 1 << 18 };

struct input_end {
    uv_pipe_t pipe;
    bool open;
};

struct input_ask {
    struct ask ask;
    struct task_id which;
    size_t took;                 /* not told yet */
    uint32_t count, open, lives; /* ends; those that are read; handles that are not closed */
    uint32_t chunks;             /* under way */
    bool closed, over;           /* over: there is no more */
    struct input_end *ends;
};

/* Some bytes, until every process has them. */
struct input_chunk {
    struct input_ask *input;
    uint32_t left;
    size_t size;
    char *data; /* behind the writes */
    uv_write_t writes[];
};

static void input_free(struct input_ask *input)
{
    if (!input->closed || input->lives || input->chunks)
        return;
    mem_free(input->ends);
    mem_free(input);
}

static void on_end_closed(uv_handle_t *handle)
{
    struct input_ask *input = handle->data;

    input->lives--;
    input_free(input);
}

static void end_close(struct input_ask *input, struct input_end *end)
{
    if (!end->open)
        return;
    end->open = false;
    input->open--;
    uv_close((uv_handle_t *)&end->pipe, on_end_closed);
}

static void input_close(struct ask *ask)
{
    struct input_ask *input = (struct input_ask *)ask;
    struct agent *agent = ask->agent;
    struct task *task = agent ? task_find(agent, &input->which) : NULL;

    ask_remove(ask);
    if (input->closed)
        return;
    input->closed = true;
    input->lives++; /* none of the closings below may be the last */
    for (uint32_t i = 0; i < input->count; i++)
        end_close(input, &input->ends[i]);
    if (task)
        shep_tell(task, json_pack("{ss}", "do", "eof"));
    input->lives--;
    input_free(input);
}

static void finish_maybe(struct input_ask *input)
{
    if (input->closed || (input->open && (!input->over || input->chunks)))
        return;
    ask_answer(&input->ask, json_pack("{si,si}", "exit", 0, "signal", 0), false);
    input_close(&input->ask);
}

static void took_tell(struct input_ask *input, size_t size)
{
    input->took += size;
    if (input->took < TOOK_BYTES || input->closed)
        return;
    ask_answer(&input->ask, json_pack("{sI}", "took", (json_int_t)input->took), true);
    input->took = 0;
}

static void on_written(uv_write_t *write, int status)
{
    struct input_chunk *chunk = write->data;
    struct input_ask *input = chunk->input;

    input->lives++;                   /* while we are in here */
    if (status < 0 && !input->closed) /* it reads no more */
        for (uint32_t i = 0; i < input->count; i++)
            if ((uv_stream_t *)&input->ends[i].pipe == write->handle)
                end_close(input, &input->ends[i]);
    if (--chunk->left == 0) {
        input->chunks--;
        took_tell(input, chunk->size);
        mem_free(chunk);
    }
    finish_maybe(input);
    input->lives--;
    input_free(input);
}

static void input_write(struct input_ask *input, const char *data, size_t size)
{
    size_t head = sizeof(struct input_chunk) + input->open * sizeof(uv_write_t);
    struct input_chunk *chunk = mem_zalloc(1, head + size);
    uv_buf_t buf;

    if (!chunk) { /* nothing may be missing in the middle */
        input->over = true;
        return;
    }
    chunk->input = input;
    chunk->size = size;
    chunk->data = (char *)chunk + head;
    memcpy(chunk->data, data, size);
    buf = uv_buf_init(chunk->data, (unsigned int)size);
    input->chunks++;
    for (uint32_t i = 0; i < input->count; i++) {
        uv_write_t *write = &chunk->writes[chunk->left];

        write->data = chunk;
        if (input->ends[i].open && uv_write(write, (uv_stream_t *)&input->ends[i].pipe, &buf, 1, on_written) == 0)
            chunk->left++;
    }
    if (chunk->left == 0) {
        input->chunks--;
        mem_free(chunk);
    }
}

static void input_take(struct ask *ask, json_t *frame)
{
    struct input_ask *input = (struct input_ask *)ask;
    const char *data = util_text(frame, "data");
    CLEANUP_BUF struct buf bytes = BUF_INIT(FRAME_BYTES_MAX);

    if (!input->over && data && util_base64_get(data, strlen(data), &bytes) == 0 && bytes.size)
        input_write(input, bytes.data, bytes.size);
    input->over = input->over || util_flag(frame, "eof");
    finish_maybe(input);
}

static void input_turn(struct ask *ask)
{
    struct input_ask *input = (struct input_ask *)ask;
    const struct task *task = task_find(ask->agent, &input->which);

    if (task && !task_over(task))
        return;
    for (uint32_t i = 0; i < input->count; i++)
        end_close(input, &input->ends[i]);
    finish_maybe(input);
}

static const struct ask_ops input_ops = {
    .name = "stdin", .turn = input_turn, .input = input_take, .close = input_close
};

/* One that nobody reads any more is left out. */
static int end_open(struct input_ask *input, int dir, size_t number)
{
    struct input_end *end = &input->ends[input->count];
    char name[32];
    int fd, r;

    (void)snprintf(name, sizeof(name), "in.%zu", number);
    fd = beneath_open(dir, name, O_WRONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return fd == -ENXIO || fd == -ENOENT ? 0 : fd;
    (void)uv_pipe_init(loop_uv(input->ask.agent->set->loop), &end->pipe, 0);
    end->pipe.data = input;
    end->open = true;
    input->count++;
    input->open++;
    input->lives++;
    r = uv_pipe_open(&end->pipe, fd);
    if (r < 0)
        close(fd);
    return r;
}

static int ends_open(struct input_ask *input, struct task *task)
{
    int dir = task_dir(task), r = dir < 0 ? dir : 0;
    json_t *plan = r == 0 ? util_json_get(dir, "plan.json") : NULL, *proc;
    json_t *procs = json_object_get(plan, "procs");
    size_t i;

    input->ends = mem_zalloc(json_array_size(procs) + 1, sizeof(*input->ends));
    if (r == 0 && !input->ends)
        r = -ENOMEM;
    json_array_foreach(procs, i, proc) if (r == 0 && util_flag(proc, "input")) r = end_open(input, dir, i);
    json_decref(plan);
    if (dir >= 0)
        close(dir);
    return r;
}

void ask_input(struct agent *agent, const json_t *frame)
{
    const struct task_id which = { util_i64(frame, "job", 0), (uint32_t)util_i64(frame, "attempt", 0),
                                   (uint32_t)util_i64(frame, "rank", 0) };
    struct task *task = task_find(agent, &which);
    const char *words = ask_enterable(task);
    int64_t id = util_i64(frame, "id", 0);
    struct input_ask *input = words ? NULL : mem_zalloc(1, sizeof(*input));
    int r;

    if (!input) {
        ask_refuse(agent, id, task ? "Conflict" : "NotFound", words ? words : strerror(ENOMEM));
        return;
    }
    input->ask = (struct ask){ .id = id, .ops = &input_ops };
    input->which = which;
    ask_add(agent, &input->ask);
    r = ends_open(input, task);
    if (r == 0 && input->open) {
        shep_tell(task, json_pack("{ss}", "do", "input"));
        ask_answer(&input->ask, json_pack("{si}", "took", 0), true);
        return;
    }
    ask_refuse(agent, id, "Conflict", r < 0 ? strerror(-r) : "the task reads no input");
    ask_remove(&input->ask); /* what is in use stays as it is: another may be carrying */
    input_close(&input->ask);
}
