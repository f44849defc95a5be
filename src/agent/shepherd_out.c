/* SPDX-License-Identifier: Apache-2.0 */
/* shepherd_out.c - output of a task: always into the node's spool, and into the file the user named, each with an end.
 *
 * The spool is what `muster logs` shows: it is ours, so nobody can put a link in its place. A file of the user is
 * opened with the user's rights, and is a file or a device: a pipe that nobody reads would hold this process up for
 * good, where no order, time limit or lease reaches it. Where a limit is reached a line says so once, and what follows
 * is read and dropped: a job must not stall because nobody keeps what it prints.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/child.h"
#include "agent/shepherd.h"
#include "agent/util.h"
#include "base/alloc.h"

enum { COPY_BYTES = 65536 };

static void sink_full(struct sink *sink)
{
    char mark[96];
    int n = snprintf(mark, sizeof(mark), "\n[muster: output cut here: the limit is %llu bytes]\n",
                     (unsigned long long)sink->max);

    (void)util_write_all(sink->fd, mark, (size_t)n);
}

static void sink_write(struct sink *sink, const char *data, size_t size)
{
    size_t room = sink->size < sink->max ? (size_t)(sink->max - sink->size) : 0, part = size < room ? size : room;

    if (sink->late) { /* most tasks of a moment say nothing: their file is not made */
        sink->late = false;
        sink->fd = open(sink->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0600);
        sink->spool = true;
    }
    if (sink->fd < 0)
        return;
    if (sink->spool)
        log_times_note(&sink->times, sink->path, clock_real(), sink->size);
    if (part > 0 && util_write_all(sink->fd, data, part) < 0) {
        sink->dropped += size; /* the disk is full, or the server of it gone: the job goes on */
        return;
    }
    sink->size += part;
    if (part == size)
        return;
    if (sink->dropped == 0)
        sink_full(sink);
    sink->dropped += size - part;
}

bool shepherd_copy(struct shepherd *s, struct outlet *outlet)
{
    static char data[COPY_BYTES];
    ssize_t n = read(outlet->fd, data, sizeof(data));

    if (n > 0) {
        if (outlet->log != UINT32_MAX)
            sink_write(&s->sinks[outlet->log], data, (size_t)n);
        if (outlet->file != UINT32_MAX)
            sink_write(&s->sinks[outlet->file], data, (size_t)n);
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

/* The rights of the user while a file is opened. One thread, so nobody sees us in between. */
static int as_user(const struct shepherd *s, bool begin)
{
    gid_t groups[CHILD_GROUPS_MAX];

    if (!util_flag(s->plan, "owned"))
        return 0;
    if (!begin)
        return seteuid(0) < 0 || setegid(0) < 0 || setgroups(0, NULL) < 0 ? -errno : 0;
    if (setgroups(child_groups(s->plan, groups), groups) < 0 || setegid((gid_t)util_i64(s->plan, "gid", 0)) < 0 ||
        seteuid((uid_t)util_i64(s->plan, "uid", 0)) < 0)
        return -errno;
    return 0;
}

static void attempt_header(const struct shepherd *s, int fd)
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

static int sink_open(const struct shepherd *s, const char *path)
{
    /* The first attempt begins the file anew; ranks share it, so only one of them does. */
    bool fresh = s->id.attempt == 0 && s->id.rank == 0;
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (fresh ? O_TRUNC : 0);
    int fd, r = as_user(s, true);
    struct stat st;

    if (r < 0)
        return r;
    fd = open(path, flags, 0644);
    r = fd < 0 ? -errno : 0;
    if (as_user(s, false) < 0)
        _exit(1); /* neither user nor root: nothing may follow */
    if (r == 0 && (fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode)))) {
        close(fd);
        r = -ENXIO;
    }
    return r < 0 ? r : fd;
}

uint32_t shepherd_sink(struct shepherd *s, const char *path, uint64_t max, bool user)
{
    struct sink *sink;
    int fd;

    if (!path)
        return UINT32_MAX;
    for (uint32_t i = 0; i < s->sink_count; i++)
        if (strcmp(s->sinks[i].path, path) == 0)
            return i;
    fd = user ? sink_open(s, path) : -1;
    if (user && fd < 0) {
        (void)shepherd_fail(s, fd, "user", "output %s: %s", path,
                            fd == -ENXIO ? "neither a file nor a device" : strerror(-fd));
        return UINT32_MAX;
    }
    if (user && s->id.attempt > 0)
        attempt_header(s, fd);
    sink = &s->sinks[s->sink_count];
    *sink = (struct sink){ .path = mem_strdup(path), .fd = fd, .late = !user, .max = max };
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

void shepherd_close_sinks(struct shepherd *s)
{
    for (uint32_t i = 0; i < s->sink_count; i++) {
        struct sink *sink = &s->sinks[i];

        if (sink->dropped > 0 && sink->fd >= 0) {
            char mark[96];
            int n =
                snprintf(mark, sizeof(mark), "[muster: %llu bytes were dropped]\n", (unsigned long long)sink->dropped);

            (void)util_write_all(sink->fd, mark, (size_t)n);
        }
        if (sink->fd >= 0)
            close(sink->fd);
        sink->fd = -1;
        if (sink->spool)
            log_times_close(&sink->times);
    }
}
