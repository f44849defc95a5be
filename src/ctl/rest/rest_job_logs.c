/* SPDX-License-Identifier: Apache-2.0 */
/* rest_job_logs.c - the output of a task, asked of the agent that has it and passed on as it comes.
 *
 * `tail` needs the size first: a question without data, then one from where the last lines may begin. What is followed
 * is asked for in pieces, the next when this one is on its way to the reader, so that a slow reader waits and nothing
 * is lost; an answer that cannot go on is broken off, so that nobody takes it for all there is. Who follows a job that
 * is being started waits until it runs: there is nothing before, and a task that ended without a word has said so.
 */
#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/daemon/links.h"
#include "ctl/rest/common/job_waiters.h"
#include "ctl/rest/rest.h"
#include "wire/text/decimal.h"

#define START_TIME USEC_SEC /* then its node is asked all the same */

enum { LOG_LIMIT = 1 << 20, TAIL_BYTES = 256 << 10, TAIL_LINE = 512, TAIL_MAX = 3 << 20, LOG_QUEUE_MAX = 4 << 20 };

struct log_read {
    struct request *request; /* held */
    struct server *server;
    char node[256], stream[8];
    int64_t job, offset, limit, tail, ask;
    int64_t cut; /* bytes before the last lines */
    usec_t since, until;
    uint32_t attempt, rank;
    int64_t piece; /* bytes of this question that have come */
    bool follow, bounded, sizing, tailing, begun, more, over, broken;
    bool silent;     /* nothing was ever written */
    struct buf data; /* came, not handed over yet */
};

static void log_free(struct log_read *log)
{
    if (log->ask > 0)
        links_unask(log->server->links, log->node, log->ask);
    request_drop(log->request);
    buf_done(&log->data);
    mem_free(log);
}

static int log_ask(struct log_read *log);

static int log_next(void *arg, struct buf *out)
{
    struct log_read *log = arg;

    buf_put(out, log->data.data, log->data.size);
    buf_clear(&log->data);
    if (log->more) {
        log->more = false;
        log->offset += log->piece;
        log->piece = 0;
        log->limit = LOG_LIMIT;
        log->broken = log_ask(log) < 0;
    }
    return log->broken ? -EPIPE : log->over ? 0 : -EAGAIN;
}

static void log_gone(void *arg)
{
    log_free(arg);
}

static const struct stream_ops log_stream = { .next = log_next, .gone = log_gone };

/* Appends what base64 says; false: it is none. */
static bool base64_add(struct buf *out, const char *text)
{
    size_t length = strlen(text), pad = 0;
    unsigned char *plain = mem_zalloc(length / 4 * 3 + 4, 1);
    int n = plain ? EVP_DecodeBlock(plain, (const unsigned char *)text, (int)length) : -1;

    while (length > pad && pad < 2 && text[length - 1 - pad] == '=')
        pad++;
    if (n >= (int)pad)
        buf_put(out, plain, (size_t)n - pad);
    mem_free(plain);
    return n >= 0;
}

/* Only the last lines of what was read. Where they are longer than what is read for them, the first is the end of one.
 */
static void tail_cut(struct log_read *log)
{
    size_t at = log->data.size;
    int64_t lines = 0;

    if (at && log->data.data[at - 1] == '\n')
        at--;
    while (at && (log->data.data[at - 1] != '\n' || ++lines < log->tail))
        at--;
    if (at) {
        memmove(log->data.data, log->data.data + at, log->data.size - at);
        log->data.size -= at;
        log->cut = (int64_t)at;
    }
}

static void on_log(void *arg, json_t *answer, bool last);

static int log_ask(struct log_read *log)
{
    json_t *body = json_pack(
        "{s:s, s:b, s:I, s:i, s:i, s:s, s:I, s:I, s:b}", "do", "log", "ran", 1, "job", (json_int_t)log->job, "attempt",
        (int)log->attempt, "rank", (int)log->rank, "stream", log->stream, "offset", (json_int_t)log->offset, "limit",
        (json_int_t)(log->sizing ? 0 : log->limit), "follow", log->follow && !log->sizing && !log->tailing);
    int64_t r;

    if (log->since)
        (void)json_object_set_new(body, "since", json_integer(log->since));
    if (log->until)
        (void)json_object_set_new(body, "until", json_integer(log->until));
    r = links_ask(log->server->links, log->node, body, on_log, log);

    log->ask = r > 0 ? r : 0;
    return r < 0 ? (int)r : 0;
}

static void log_refuse(struct log_read *log, json_t *answer)
{
    const char *code = json_string_value(json_object_get(answer, "code"));
    const char *text = json_string_value(json_object_get(answer, "error"));

    log->ask = 0;
    if (log->begun) {
        log->broken = true;
        request_poke(log->request);
        return;
    }
    if (code && strcmp(code, "NotFound") == 0)
        reply_problem(log->request, 404, "NotFound", NULL, "%s", text ? text : "no output is kept");
    else
        reply_problem(log->request, 503, "NodeUnreachable", NULL, "%s",
                      text ? text : "the node that has the output does not answer");
    log_free(log);
}

static void log_begin(struct log_read *log, json_t *answer)
{
    reply_header(log->request, "X-Log-Offset", "%" PRId64, log->offset + log->cut);
    reply_header(log->request, "X-Log-Size", "%" PRId64, (int64_t)json_integer_value(json_object_get(answer, "size")));
    reply_header(log->request, "Cache-Control", "no-store");
    log->begun = true;
    reply_stream(log->request, 200, "text/plain; charset=utf-8", &log_stream, log);
}

static void on_log(void *arg, json_t *answer, bool last)
{
    struct log_read *log = arg;
    const char *data;
    size_t had;

    if (!answer || json_is_false(json_object_get(answer, "ok"))) {
        log_refuse(log, answer);
        return;
    }
    if (last)
        log->ask = 0;
    if (log->sizing) {
        int64_t size = json_integer_value(json_object_get(answer, "size"));

        log->sizing = false;
        log->tailing = true;
        log->limit = log->tail * TAIL_LINE < TAIL_BYTES ? TAIL_BYTES
                     : log->tail * TAIL_LINE < TAIL_MAX ? log->tail * TAIL_LINE
                                                        : TAIL_MAX;
        log->offset = size > log->limit ? size - log->limit : 0;
        if (log_ask(log) < 0)
            log_refuse(log, NULL);
        return;
    }
    data = json_string_value(json_object_get(answer, "data"));
    had = log->data.size;
    if (data && (!base64_add(&log->data, data) || log->data.error)) {
        log_refuse(log, NULL); /* nonsense */
        return;
    }
    if (log->piece == 0) /* where it began, where the agent was to find that by the time */
        log->offset = json_integer_value(json_object_get(answer, "offset"));
    log->piece += (int64_t)(log->data.size - had);
    if (log->tailing && !last)
        return; /* which are the last lines is known when all is there */
    if (log->tailing)
        tail_cut(log);
    log->more = last && log->follow && (log->tailing || (!log->bounded && log->piece >= LOG_LIMIT));
    log->tailing = false;
    log->over = last && !log->more;
    if (log->begun)
        request_poke(log->request);
    else
        log_begin(log, answer);
}

/* Which task of which attempt; -errno, answered. */
static int log_fill(struct request *request, const struct ctl_job *job, struct log_read *log)
{
    const struct ctl_attempt *attempt, *last;
    int64_t number = -1, rank = 0;
    struct scene scene;
    char stream[8];

    if (query_i64(request, "attempt", 0, UINT32_MAX, &number) < 0 ||
        query_i64(request, "task", 0, UINT32_MAX, &rank) < 0 ||
        query_i64(request, "offset", 0, INT64_MAX, &log->offset) < 0 ||
        query_i64(request, "limit", 1, LOG_LIMIT, &log->limit) < 0 ||
        query_i64(request, "tail", 1, 100000, &log->tail) < 0 || query_time(request, "since", &log->since) < 0 ||
        query_time(request, "until", &log->until) < 0)
        return -EINVAL;
    log->bounded = log->limit > 0;
    log->limit = log->bounded ? log->limit : LOG_LIMIT;
    (void)snprintf(log->stream, sizeof(log->stream), "out");
    if (query_word(request, "stream", stream, sizeof(stream)) < 0)
        return -EINVAL;
    if (stream[0]) {
        if (strcmp(stream, "out") != 0 && strcmp(stream, "err") != 0) {
            reply_problem(request, 400, "BadRequest", NULL, "stream: expected out or err");
            return -EINVAL;
        }
        (void)snprintf(log->stream, sizeof(log->stream), "%s", stream);
    }
    last = attempt_last(job);
    attempt = number < 0 ? last : number < job->attempt_count ? &job->attempts[number] : NULL;
    if (!attempt && last) {
        reply_problem(request, 404, "NotFound", NULL, "job %" PRId64 " has no attempt %" PRId64 "; the last is %u",
                      job->id, number, last->number);
        return -ENOENT;
    }
    if (!attempt || rank >= attempt->task_count) {
        reply_problem(request, attempt ? 404 : 409, attempt ? "NotFound" : "NotStarted", NULL,
                      attempt ? "job %" PRId64 " has no task %" PRId64 " there" : "job %" PRId64 " has not started",
                      job->id, rank);
        return -ENOENT;
    }
    scene_fill(&scene, request);
    (void)snprintf(log->node, sizeof(log->node), "%s", node_name(&scene, attempt->tasks[rank].node));
    log->job = job->id;
    log->attempt = attempt->number;
    log->rank = (uint32_t)rank;
    log->follow = query_flag(request, "follow");
    log->sizing = log->tail > 0;
    log->silent = attempt->tasks[rank].silent;
    return 0;
}

static void nothing_reply(struct request *request)
{
    reply_header(request, "X-Log-Offset", "0");
    reply_header(request, "X-Log-Size", "0");
    reply_header(request, "Cache-Control", "no-store");
    reply(request, 200, "text/plain; charset=utf-8", "", 0);
}

static void logs_go(struct request *request, const struct ctl_job *job)
{
    struct log_read *log = mem_zalloc(1, sizeof(*log));

    if (!log) {
        reply_problem(request, 503, "Busy", NULL, "out of memory");
        return;
    }
    log->data.max = LOG_QUEUE_MAX;
    log->server = request_server(request);
    log->request = request_hold(request);
    if (log_fill(request, job, log) < 0) {
        log_free(log);
        return;
    }
    if (log->silent) {
        nothing_reply(request);
        log_free(log);
    } else if (log_ask(log) < 0) {
        log_refuse(log, NULL);
    }
}

/* Of the attempt that is being started, or of the present one, which is the same then. */
static bool before_start(struct request *request, const struct ctl_job *job)
{
    int64_t number = -1;
    char text[24];

    if (job->phase != PHASE_JOB_STARTING || !query_flag(request, "follow"))
        return false;
    return !query_text(request, "attempt", text, sizeof(text)) ||
           (decimal_parse_i64(text, strlen(text), &number) == 0 && number + 1 == job->attempt_count);
}

void rest_job_logs(struct request *request)
{
    static const char *const known[] = { "task", "attempt", "stream", "offset", "limit",
                                         "tail", "follow",  "since",  "until",  NULL };
    const struct ctl_job *job = request_job(request);
    struct scene scene;

    if (!job || !query_known(request, known))
        return;
    scene_fill(&scene, request);
    if (!auth_sees(&request->who, scene.registry, job, scene.cluster))
        reply_problem(request, 403, "NotAllowed", NULL, "job %" PRId64 " is not yours", job->id);
    else if (before_start(request, job))
        waits_hold(request_server(request)->waits, request, job, WAIT_STARTED, START_TIME, logs_go);
    else
        logs_go(request, job);
}
