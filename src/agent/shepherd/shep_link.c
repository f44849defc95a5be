/* SPDX-License-Identifier: Apache-2.0 */
/* shep_link.c - the agent's end of the line to a shepherd.
 *
 * The socket is in the task's directory, so an agent that was started anew finds it there. It is made here and handed
 * to the shepherd ready to be connected to: no moment in which somebody would have to wait for the other. A line that
 * breaks without the end having been told means that the shepherd died, if it cannot be made again: what it left is
 * killed, and the task is lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/task/task_enforce.h"
#include "agent/util.h"
#include "base/alloc.h"
#include "io/beneath.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_read.h"

struct line_request {
    uv_write_t write;
    char *text;
};

static struct sockaddr_un ctl_address(int dir)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/ctl", dir);
    return address;
}

static void on_link_closed(uv_handle_t *handle)
{
    struct shep_link *link = handle->data;

    buf_done(&link->heard);
    mem_free(link);
}

void shep_detach(struct task *task)
{
    struct shep_link *link = task->link;

    if (!link)
        return;
    task->link = NULL;
    link->task = NULL;
    uv_close((uv_handle_t *)&link->pipe, on_link_closed);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    static char in[16384];

    (void)handle;
    (void)size;
    *buf = uv_buf_init(in, sizeof(in));
}

static void lines_take(struct shep_link *link)
{
    size_t used = 0;
    char *end;

    while (link->task && (end = memchr(link->heard.data + used, '\n', link->heard.size - used))) {
        char *line = link->heard.data + used;
        json_t *news = NULL;

        used = (size_t)(end - link->heard.data) + 1;
        if (json_read("shepherd", line, (size_t)(end - line), &news, NULL) == 0)
            task_news(link->task, news);
    }
    memmove(link->heard.data, link->heard.data + used, link->heard.size - used);
    link->heard.size -= used;
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct shep_link *link = stream->data;
    struct task *task = link->task;

    if (!task || n == 0)
        return;
    if (n > 0) {
        buf_put(&link->heard, buf->base, (size_t)n);
        if (!link->heard.error) {
            lines_take(link);
            return;
        }
    }
    shep_detach(task);
    /* It may have hung up because this process was stopped and did not listen: it tells again how things stand. */
    if (!task_over(task) && shep_attach(task) < 0)
        task_give_up(task);
    else if (task->clean)
        task_remove(task);
}

static int link_open(struct task *task, int dir)
{
    struct sockaddr_un address = ctl_address(dir);
    struct shep_link *link;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;

    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        r = -errno;
        close(fd);
        return r;
    }
    link = mem_zalloc(1, sizeof(*link));
    if (!link) {
        close(fd);
        return -ENOMEM;
    }
    link->heard.max = 1 << 20;
    (void)uv_pipe_init(loop_uv(task->agent->set->loop), &link->pipe, 0);
    link->pipe.data = link;
    link->task = task;
    task->link = link;
    r = uv_pipe_open(&link->pipe, fd);
    if (r == 0)
        r = uv_read_start((uv_stream_t *)&link->pipe, on_alloc, on_read);
    if (r < 0)
        shep_detach(task);
    return r;
}

int shep_start(struct task *task, struct error *err)
{
    int dir = task_dir(task), listener = -1, r = 0;
    struct sockaddr_un address;

    if (dir < 0)
        return error_set(err, dir, "directory of the task: %s", strerror(-dir));
    r = plan_write(task, dir, err);
    if (r == 0) {
        (void)beneath_unlink(dir, "ctl");
        address = ctl_address(dir);
        listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (listener < 0 || bind(listener, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
            fchmodat(dir, "ctl", 0600, 0) < 0 || listen(listener, 8) < 0)
            r = error_set(err, -errno, "socket of the task: %s", strerror(errno));
    }
    /* Connected before there is a shepherd: one whose task lasts a moment finds somebody to tell of its end. */
    if (r == 0) {
        r = link_open(task, dir);
        if (r < 0)
            (void)error_set(err, r, "socket of the task: %s", strerror(-r));
    }
    if (r == 0) {
        r = forker_task(&task->agent->set->forker, dir, listener);
        if (r < 0) {
            (void)error_set(err, r, "cannot fork: %s", strerror(-r));
            shep_detach(task);
        }
    }
    if (listener >= 0)
        close(listener);
    close(dir);
    return r;
}

int shep_attach(struct task *task)
{
    int dir = task_dir(task), r;

    if (dir < 0)
        return dir;
    r = link_open(task, dir);
    close(dir);
    return r;
}

static void on_told(uv_write_t *write, int status)
{
    struct line_request *request = (struct line_request *)write;

    (void)status;
    mem_free(request->text);
    mem_free(request);
}

void shep_tell(struct task *task, json_t *order)
{
    struct line_request *request;
    CLEANUP_BUF struct buf line = BUF_INIT(1 << 20);
    struct bytes bytes = { 0 };
    uv_buf_t buf;
    char *text = task->link && order ? json_text(order, NULL) : NULL;

    json_decref(order);
    if (!text)
        return;
    buf_text(&line, text);
    buf_char(&line, '\n');
    mem_free(text);
    buf = uv_buf_init(line.data, (unsigned int)line.size);
    if (line.error || uv_try_write((uv_stream_t *)&task->link->pipe, &buf, 1) == (int)line.size)
        return;
    request = mem_zalloc(1, sizeof(*request));
    if (!request || buf_take(&line, &bytes, NULL) < 0) {
        mem_free(request);
        return;
    }
    request->text = bytes.data;
    buf = uv_buf_init(bytes.data, (unsigned int)bytes.size);
    if (uv_write(&request->write, (uv_stream_t *)&task->link->pipe, &buf, 1, on_told) < 0) {
        mem_free(request->text);
        mem_free(request);
    }
}
