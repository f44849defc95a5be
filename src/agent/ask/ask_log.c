/* SPDX-License-Identifier: Apache-2.0 */
/* ask_log.c - output of a task from the node's spool, once or as it grows. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/ask/ask.h"
#include "agent/task/log_times.h"
#include "agent/task/spool.h"
#include "agent/util.h"
#include "base/alloc.h"

enum { PART_BYTES = 192 << 10, PARTS_A_TURN = 8 };

struct log_ask {
    struct ask ask;
    struct task_id task;
    char file[TASK_NAME_MAX + 16];
    int64_t offset, left; /* left: bytes still wanted; below 0 = all there is */
    int64_t end;          /* of what was written up to `until`; below 0 = of the file */
    usec_t since, until;  /* 0 = not told */
    int fd;
    bool follow, placed;
};

static void log_close(struct ask *ask)
{
    struct log_ask *log = (struct log_ask *)ask;

    ask_remove(ask);
    if (log->fd >= 0)
        close(log->fd);
    mem_free(log);
}

/* Reads one part and answers with it. 1: there may be more now; 0: not now; -1: it was the last and is gone. */
static int log_part(struct log_ask *log, bool over)
{
    static char data[PART_BYTES];
    CLEANUP_BUF struct buf text = BUF_INIT(PART_BYTES * 2);
    size_t want = log->left >= 0 && log->left < PART_BYTES ? (size_t)log->left : PART_BYTES;
    struct stat st = { 0 };
    ssize_t n = want ? pread(log->fd, data, want, log->offset) : 0;
    bool last;

    if (n < 0)
        n = 0;
    (void)fstat(log->fd, &st);
    if (log->left >= 0)
        log->left -= n;
    last = log->left == 0 || (!log->follow && log->offset + n >= st.st_size) ||
           (log->follow && over && log->offset + n >= st.st_size);
    if (n == 0 && !last)
        return 0;
    util_base64_put(&text, data, (size_t)n);
    ask_answer(&log->ask,
               json_pack("{sI,ss,sI,sb}", "offset", (json_int_t)log->offset, "data", text.data ? text.data : "", "size",
                         (json_int_t)(log->end >= 0 && log->end < st.st_size ? log->end : st.st_size), "end",
                         over && log->offset + n >= st.st_size),
               !last);
    log->offset += n;
    if (!last)
        return 1;
    log_close(&log->ask);
    return -1;
}

/* From when to when: which bytes that is. */
static void log_window(struct log_ask *log)
{
    int dir = log->ask.agent->dir;

    if (log->since) {
        int64_t from = log_times_find(dir, log->file, log->since, false);

        log->offset = from > log->offset ? from : log->offset;
    }
    if (log->until) {
        log->end = log_times_find(dir, log->file, log->until, true);
        if (log->left < 0 || log->left > log->end - log->offset)
            log->left = log->end > log->offset ? log->end - log->offset : 0;
    }
}

static void log_turn(struct ask *ask)
{
    struct log_ask *log = (struct log_ask *)ask;
    const struct task *task = task_find(ask->agent, &log->task);
    /* Asked before reading: what was written until then is there. */
    bool over = !task || task_over(task) || task->state == TASK_KEPT;
    struct stat st;

    if (log->fd < 0)
        log->fd = openat(ask->agent->dir, log->file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (log->fd < 0) {
        if (over || !log->follow) {
            ask_answer(
                ask,
                json_pack("{sI,ss,sI,sb}", "offset", (json_int_t)0, "data", "", "size", (json_int_t)0, "end", over),
                false);
            log_close(ask);
        }
        return;
    }
    if (!log->placed && fstat(log->fd, &st) == 0) {
        /* Below zero: so far from the end. */
        if (log->offset < 0)
            log->offset = st.st_size + log->offset > 0 ? st.st_size + log->offset : 0;
        log_window(log);
        log->placed = true;
    }
    for (int i = 0; i < PARTS_A_TURN && ask_room(ask); i++)
        if (log_part(log, over) <= 0)
            return;
}

static const struct ask_ops log_ops = { .name = "log", .turn = log_turn, .close = log_close };

/* It ran here and never wrote anything: there is no file, and nothing is missing. */
static bool was_silent(const struct agent *agent, const json_t *frame, int64_t job)
{
    int dir = openat(agent->dir, "logs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool silent = dir >= 0 && util_flag(frame, "ran") && job > spool_trimmed(dir);

    if (dir >= 0)
        close(dir);
    return silent;
}

void ask_log(struct agent *agent, json_t *frame)
{
    const char *stream = util_text(frame, "stream");
    int64_t id = util_i64(frame, "id", 0);
    struct log_ask *log;
    struct stat st;

    if (stream && strcmp(stream, "out") != 0 && strcmp(stream, "err") != 0) {
        ask_refuse(agent, id, "NotFound", "a stream is 'out' or 'err'");
        return;
    }
    log = mem_zalloc(1, sizeof(*log));
    if (!log) {
        ask_refuse(agent, id, "Internal", "no memory");
        return;
    }
    log->ask = (struct ask){ .id = id, .ops = &log_ops };
    log->task = (struct task_id){ util_i64(frame, "job", 0), (uint32_t)util_i64(frame, "attempt", 0),
                                  (uint32_t)util_i64(frame, "rank", 0) };
    log->fd = -1;
    log->offset = util_i64(frame, "offset", 0);
    log->left = util_i64(frame, "limit", -1);
    log->end = -1;
    log->since = util_i64(frame, "since", 0);
    log->until = util_i64(frame, "until", 0);
    log->follow = util_flag(frame, "follow");
    (void)snprintf(log->file, sizeof(log->file), "logs/%lld.%u.%u.%s", (long long)log->task.job, log->task.attempt,
                   log->task.rank, stream ? stream : "out");
    if (!task_find(agent, &log->task) && fstatat(agent->dir, log->file, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
        !was_silent(agent, frame, log->task.job)) {
        mem_free(log);
        ask_refuse(agent, id, "NotFound", "this node has no output of that task");
        return;
    }
    ask_add(agent, &log->ask);
    log_turn(&log->ask);
}
