/* SPDX-License-Identifier: Apache-2.0 */
/* shepherd_out.c - output of a task: always into the node's spool, and into the file the user named, each with an end.
 *
 * The spool is what `muster logs` shows: it is ours, so nobody can put a link in its place. A file of the user is
 * opened with the user's rights, and is a plain file or a device; another process writes there (output_writer.c), so
 * that this one, which keeps orders, time limit and lease, never waits for a file system of a user. Where a limit is
 * reached a line says so once, and what follows is read and dropped: a job must not stall because nobody keeps what it
 * prints.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/shepherd/child.h"
#include "agent/shepherd/shepherd.h"
#include "agent/util.h"
#include "base/alloc.h"
#include "io/beneath.h"

enum { COPY_BYTES = 65536 };

static int sink_put(struct shepherd *s, uint32_t number, const char *data, size_t size)
{
    if (!s->sinks[number].user)
        return util_write_all(s->sinks[number].fd, data, size);
    output_writer_put(s, number, data, size);
    return 0;
}

static void sink_full(struct shepherd *s, uint32_t number)
{
    char mark[96];
    int n = snprintf(mark, sizeof(mark), "\n[muster: output cut here: the limit is %llu bytes]\n",
                     (unsigned long long)s->sinks[number].max);

    (void)sink_put(s, number, mark, (size_t)n);
}

static void sink_write(struct shepherd *s, uint32_t number, const char *data, size_t size)
{
    struct sink *sink = &s->sinks[number];
    size_t room = sink->size < sink->max ? (size_t)(sink->max - sink->size) : 0, part = size < room ? size : room;

    if (sink->late) { /* most tasks of a moment say nothing: their file is not made */
        sink->late = false;
        sink->fd = beneath_open(s->logs, sink->path, O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY, 0600);
        sink->spool = true;
    }
    if (sink->fd < 0 && !sink->user)
        return;
    if (sink->spool)
        log_times_note(&sink->times, s->logs, sink->path, clock_real(), sink->size);
    if (part > 0 && sink_put(s, number, data, part) < 0) {
        sink->dropped += size; /* the disk is full, or the server of it gone: the job goes on */
        return;
    }
    sink->size += part;
    if (part == size)
        return;
    if (sink->dropped == 0)
        sink_full(s, number);
    sink->dropped += size - part;
}

bool shepherd_copy(struct shepherd *s, struct outlet *outlet)
{
    static char data[COPY_BYTES];
    ssize_t n;

    if (outlet->file != UINT32_MAX && s->unwritten.size > 0)
        return false; /* its file takes no more now */
    n = read(outlet->fd, data, sizeof(data));
    if (n > 0) {
        if (outlet->log != UINT32_MAX)
            sink_write(s, outlet->log, data, (size_t)n);
        if (outlet->file != UINT32_MAX)
            sink_write(s, outlet->file, data, (size_t)n);
        shepherd_progress_output(s, outlet, data, (size_t)n);
        return true;
    }
    if (n < 0 && errno == EINTR)
        return true;
    if (n < 0 && errno == EAGAIN)
        return false;
    close(outlet->fd);
    outlet->fd = -1;
    return false;
}

void shepherd_attempt_header(const struct shepherd *s, int fd)
{
    char line[128], when[32] = "";
    time_t now = (time_t)(clock_real() / USEC_SEC);
    struct tm tm;
    int n;

    if (gmtime_r(&now, &tm))
        (void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
    n = snprintf(line, sizeof(line), "[muster: attempt %u of job %lld begins %s]\n", s->id.attempt,
                 (long long)s->id.job, when);
    (void)util_write_all(fd, line, (size_t)n);
}

uint32_t shepherd_sink(struct shepherd *s, const char *path, uint64_t max, bool user)
{
    struct sink *sink;
    int r;

    if (!path)
        return UINT32_MAX;
    for (uint32_t i = 0; i < s->sink_count; i++)
        if (strcmp(s->sinks[i].path, path) == 0)
            return i;
    r = user ? output_writer_open(s, s->sink_count, path) : 0;
    if (r < 0) {
        (void)shepherd_fail(s, r, r == -ETIMEDOUT || r == -EPIPE ? "system" : "user", "output %s: %s", path,
                            r == -ENXIO       ? "neither a file nor a device"
                            : r == -ETIMEDOUT ? "its file system does not answer"
                                              : strerror(-r));
        return UINT32_MAX;
    }
    sink = &s->sinks[s->sink_count];
    *sink = (struct sink){ .path = mem_strdup(path), .fd = -1, .user = user, .late = !user, .max = max };
    return s->sink_count++;
}

int shepherd_open_sinks(struct shepherd *s)
{
    json_t *procs = json_object_get(s->plan, "procs"), *proc;
    uint64_t log_max = (uint64_t)util_i64(s->plan, "log_max", 64 << 20);
    uint64_t file_max = (uint64_t)util_i64(s->plan, "output_max", INT64_MAX);
    size_t i;

    s->sinks = mem_zalloc(2 + 2 * json_array_size(procs), sizeof(*s->sinks));
    if (!s->sinks)
        return shepherd_fail(s, -ENOMEM, "system", "no memory");
    json_array_foreach(procs, i, proc)
    {
        struct proc *p = &s->procs[i];

        p->out.log = shepherd_sink(s, util_text(s->plan, "log_out"), log_max, false);
        p->out.file = shepherd_sink(s, util_text(proc, "out"), file_max, true);
        p->err.log = shepherd_sink(s, util_text(s->plan, "log_err"), log_max, false);
        p->err.file = shepherd_sink(s, util_text(proc, "err"), file_max, true);
    }
    return s->blame[0] ? -EIO : 0;
}

static void sink_end(struct shepherd *s, uint32_t number)
{
    struct sink *sink = &s->sinks[number];

    if (sink->dropped > 0 && (sink->fd >= 0 || sink->user)) {
        char mark[96];
        int n = snprintf(mark, sizeof(mark), "[muster: %llu bytes were dropped]\n", (unsigned long long)sink->dropped);

        (void)sink_put(s, number, mark, (size_t)n);
    }
    if (sink->fd >= 0)
        close(sink->fd);
    sink->fd = -1;
    if (sink->spool)
        log_times_close(&sink->times);
}

/* What users named goes first: of what did not get there the log says so. */
void shepherd_close_sinks(struct shepherd *s)
{
    uint64_t lost;

    for (uint32_t i = 0; i < s->sink_count; i++)
        if (s->sinks[i].user)
            sink_end(s, i);
    lost = output_writer_end(s);
    for (uint32_t i = 0; i < s->sink_count; i++) {
        struct sink *sink = &s->sinks[i];

        if (sink->user) {
            sink->user = false;
            continue;
        }
        if (lost > 0 && i == 0 && sink->fd >= 0) {
            char mark[160];
            int n = snprintf(
                mark, sizeof(mark),
                "\n[muster: the last %llu bytes are not in the output file: its file system does not answer]\n",
                (unsigned long long)lost);

            (void)util_write_all(sink->fd, mark, (size_t)n);
        }
        sink_end(s, i);
    }
}
