/* SPDX-License-Identifier: Apache-2.0 */
/* follow.c - see follow.h. The controller answers when the job has come so far: a job of a moment is noticed at once,
 * one of days costs a small request every few seconds. */
#include "cli/client/follow.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/fmt.h"

enum {
    PAUSE_FIRST_MS = 20,
    PAUSE_MOST_MS = 500,
    TASKS_MAX = 4096,
    AWAY_MOST = 240,
    UNTIL_MAX = 192,
    REST_TRIES = 60,
    STATUS_MAX = 512
};

static volatile sig_atomic_t interrupts;

static void on_interrupt(int number)
{
    (void)number;
    interrupts++;
}

static void pause_ms(int *ms)
{
    (void)poll(NULL, 0, *ms);
    *ms = *ms * 3 / 2 > PAUSE_MOST_MS ? PAUSE_MOST_MS : *ms * 3 / 2;
}

int job_get(struct client *client, int64_t id, json_t **ret_job, struct problem *problem)
{
    CLEANUP_ANSWER struct answer answer = { 0 };
    char path[64];
    int r;

    (void)snprintf(path, sizeof(path), "/jobs/%lld", (long long)id);
    r = client_call(client, "GET", path, NULL, &answer, problem);
    if (r == 0)
        *ret_job = json_incref(answer.json);
    return r;
}

bool job_over(json_t *job)
{
    static const char *const ends[] = { "COMPLETED", "FAILED",    "CANCELLED",     "TIMEOUT",
                                        "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE" };

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (strcmp(fmt_text(job, "state"), ends[i]) == 0)
            return true;
    return false;
}

int job_exit_code(json_t *job)
{
    const char *state = fmt_text(job, "state");
    int64_t signal = fmt_i64(job, "signal"), code = fmt_i64(job, "exit_code");

    if (strcmp(state, "COMPLETED") == 0)
        return 0;
    if (strcmp(state, "CANCELLED") == 0)
        return JOB_CANCELLED;
    if (strcmp(state, "PREEMPTED") == 0)
        return JOB_PREEMPTED;
    if (strcmp(state, "TIMEOUT") == 0 || strcmp(state, "DEADLINE") == 0)
        return JOB_TIMEOUT;
    if (strcmp(state, "NODE_FAIL") == 0)
        return JOB_NODE_FAIL;
    if (signal > 0)
        return 128 + (int)signal;
    return code > 0 && code < 256 ? (int)code : JOB_MUSTER;
}

/* One line that is written over on a terminal; elsewhere one line a change. */
static void status_say(json_t *job, char *last, size_t size)
{
    json_t *reason = json_object_get(job, "reason");
    char text[STATUS_MAX], id[FMT_MAX], when[FMT_MAX];

    if (fmt_time(job, "kept_until"))
        (void)snprintf(
            text, sizeof(text),
            "job %.60s: %.200s until %.40s; muster exec %.60s -- bash goes in, muster release %.60s lets it go",
            fmt_id(job, id), fmt_text(reason, "message"), fmt_clock(fmt_time(job, "kept_until"), fmt_now(), when), id,
            id);
    else
        (void)snprintf(text, sizeof(text), "job %s %s%s%s%s", fmt_id(job, id), fmt_text(job, "state"),
                       json_is_object(reason) ? " (" : "", json_is_object(reason) ? fmt_text(reason, "code") : "",
                       json_is_object(reason) ? ")" : "");
    if (strcmp(text, last) == 0)
        return;
    (void)snprintf(last, size, "%s", text);
    (void)fprintf(stderr, isatty(STDERR_FILENO) ? "\r\033[Kmuster: %s" : "muster: %s\n", text);
}

/* How long the controller may keep the answer: at first a moment, then somebody is told what is waited for. */
enum { LIMIT_FIRST = 1, LIMIT_MOST = 10 };

static void until_path(const char *id, enum job_until until, int limit, char path[UNTIL_MAX])
{
    static const char *const words[] = { [JOB_STARTED] = "started", [JOB_ENDED] = "ended", [JOB_OVER] = "over" };

    /* What is looked at here; where its output is, only when it has begun. */
    (void)snprintf(
        path, UNTIL_MAX,
        "/jobs/%s?until=%s&limit=%d&fields=id,array,state,reason,kept_until,attempt,exit_code,signal,end_text%s", id,
        words[until], limit, until == JOB_STARTED ? ",placement,nodelist,spec" : "");
}

static int ask_until(struct client *client, int64_t id, enum job_until until, int limit, json_t **ret_job,
                     struct problem *problem)
{
    CLEANUP_ANSWER struct answer answer = { 0 };
    char path[UNTIL_MAX], number[24];
    int r;

    (void)snprintf(number, sizeof(number), "%lld", (long long)id);
    until_path(number, until, limit, path);
    r = client_call(client, "GET", path, NULL, &answer, problem);
    if (r == 0)
        *ret_job = json_incref(answer.json);
    return r;
}

struct wait {
    enum job_until until;
    int64_t attempt; /* JOB_ENDED: this one, of which another may have followed already; -1 = the present one */
    bool quiet;
};

static bool job_reached(json_t *job, const struct wait *what)
{
    const char *state = fmt_text(job, "state");

    if (job_over(job))
        return true;
    if (what->until == JOB_STARTED)
        return strcmp(state, "PENDING") != 0 && strcmp(state, "STARTING") != 0;
    if (what->until != JOB_ENDED)
        return false;
    return strcmp(state, "PENDING") == 0 || (what->attempt >= 0 && fmt_i64(job, "attempt") > what->attempt);
}

static int wait_run(struct client *client, int64_t id, const struct wait *what, json_t **ret_job,
                    struct problem *problem)
{
    char last[STATUS_MAX] = "";
    int ms = PAUSE_FIRST_MS, away = 0, limit = LIMIT_FIRST, r;

    for (;;) {
        json_t *job = NULL;

        r = ask_until(client, id, what->until, limit, &job, problem);
        if (interrupts) {
            json_decref(job);
            r = CODE_FAILED;
            break;
        }
        if (r == CODE_UNREACHABLE && client_met(client) && ++away < AWAY_MOST) {
            if (away == 1 && !what->quiet)
                (void)fprintf(stderr, "muster: %s; asking again for two minutes\n", problem->text);
            pause_ms(&ms); /* a controller that restarts has forgotten nothing */
            continue;
        }
        if (r)
            break;
        away = 0;
        if (job_reached(job, what)) {
            *ret_job = job;
            break;
        }
        if (!what->quiet) /* what is over in a moment need not be spoken of */
            status_say(job, last, sizeof(last));
        json_decref(job);
        limit = LIMIT_MOST;
    }
    if (last[0] && isatty(STDERR_FILENO))
        (void)fputs("\r\033[K", stderr);
    return r;
}

int job_wait(struct client *client, int64_t id, enum job_until until, bool quiet, json_t **ret_job,
             struct problem *problem)
{
    return wait_run(client, id, &(struct wait){ until, -1, quiet }, ret_job, problem);
}

int job_wait_attempt(struct client *client, int64_t id, int64_t attempt, bool quiet, json_t **ret_job,
                     struct problem *problem)
{
    return wait_run(client, id, &(struct wait){ JOB_ENDED, attempt, quiet }, ret_job, problem);
}

/* What is read of one task. */
struct reader {
    int64_t id; /* 0: the job that is being submitted */
    int task, attempt;
    bool err, many; /* many: lines say whose they are */
    long lines;
    int64_t offset;
    usec_t since, until;
    bool middle; /* of a line */
};

static int on_text(void *arg, const char *data, size_t size)
{
    struct reader *reader = arg;

    reader->offset += (int64_t)size;
    for (size_t at = 0; at < size;) {
        const char *end = memchr(data + at, '\n', size - at);
        size_t length = end ? (size_t)(end - data) + 1 - at : size - at;

        if (reader->many && !reader->middle)
            (void)printf("%d: ", reader->task);
        (void)fwrite(data + at, 1, length, stdout);
        reader->middle = !end;
        at += length;
    }
    (void)fflush(stdout);
    return interrupts ? 1 : 0;
}

/* Only what is not so by itself: the first task, what it says on standard output, from the beginning. */
static void path_of(const struct reader *reader, bool follow, char *path, size_t size)
{
    char id[24] = "new", task[32] = "", attempt[32] = "", lines[32] = "", when[96] = "", *first;

    if (reader->id)
        (void)snprintf(id, sizeof(id), "%lld", (long long)reader->id);
    if (reader->task > 0)
        (void)snprintf(task, sizeof(task), "&task=%d", reader->task);
    if (reader->attempt >= 0)
        (void)snprintf(attempt, sizeof(attempt), "&attempt=%d", reader->attempt);
    if (reader->lines >= 0)
        (void)snprintf(lines, sizeof(lines), "&tail=%ld", reader->lines);
    else if (reader->offset > 0)
        (void)snprintf(lines, sizeof(lines), "&offset=%lld", (long long)reader->offset);
    fmt_query(when, sizeof(when), "since", reader->since);
    fmt_query(when, sizeof(when), "until", reader->until);
    (void)snprintf(path, size, "/jobs/%s/logs%s%s%s%s%s%s", id, task, reader->err ? "&stream=err" : "", attempt, lines,
                   when, follow ? "&follow=1" : "");
    first = strchr(path, '&');
    if (first)
        *first = '?';
}

/* Reads once, and knows where to go on: the answer says where it began. */
static int reader_read(struct client *client, struct reader *reader, bool follow, int64_t *ret_got,
                       struct problem *problem)
{
    int64_t before = reader->offset;
    const char *began;
    char path[400];
    int r;

    path_of(reader, follow, path, sizeof(path));
    r = client_stream(client, path, NULL, on_text, reader, problem);
    *ret_got = reader->offset - before;
    began = client_header(client, "X-Log-Offset");
    if (*began)
        reader->offset = strtoll(began, NULL, 10) + *ret_got;
    reader->lines = -1;
    return r;
}

/* What there is now. */
static int reader_poll(struct client *client, struct reader *reader, struct problem *problem)
{
    int64_t got;
    int r;

    do
        r = reader_read(client, reader, false, &got, problem);
    while (r == 0 && got > 0 && !interrupts);
    return r;
}

/* How many tasks have output of their own: a script runs on the first node only. */
static int tasks_of(json_t *job)
{
    json_t *spec = json_object_get(job, "spec");
    size_t count = json_array_size(json_object_get(job, "placement"));
    const char *launch = fmt_text(spec, "launch");

    if (json_is_object(spec) && (!*launch || strcmp(launch, "once") == 0))
        return 1;

    return count > TASKS_MAX ? TASKS_MAX : (int)count;
}

/* Several tasks in turn until the job is over, and once more after that. */
static int tasks_follow(struct client *client, int64_t id, struct reader *readers, int count, struct problem *problem)
{
    int ms = PAUSE_FIRST_MS * 5, r = 0;
    bool over = false;

    while (r == 0 && !interrupts) {
        json_t *job = NULL;

        r = job_get(client, id, &job, problem);
        over = r == 0 && job_over(job);
        json_decref(job);
        for (int i = 0; r == 0 && i < count; i++) {
            r = reader_poll(client, &readers[i], problem);
            if (r == CODE_NOT_FOUND || problem->status == 503) /* nothing yet, or its node is away for a moment */
                r = 0;
        }
        if (over)
            break;
        pause_ms(&ms);
    }
    return r;
}

/* The job is over: whether there is no more of its output to be had. Its node may come back with the controller. */
static bool rest_given_up(json_t *job, bool broken, int *tries)
{
    if (!broken)
        return true;
    if (++*tries < REST_TRIES && strcmp(fmt_text(job, "state"), "NODE_FAIL") != 0)
        return false;
    (void)fprintf(stderr, "muster: the node that has the rest of the output does not answer; later: muster logs %lld\n",
                  (long long)fmt_i64(job, "id"));
    return true;
}

/* One task: its output as it comes, from one attempt to the next, until the job is over. *job: as it was last heard of;
 * the last word about it afterwards. */
static int task_follow(struct client *client, struct reader *reader, json_t **job, struct problem *problem)
{
    int64_t attempt = fmt_i64(*job, "attempt");
    bool fixed = reader->attempt >= 0;
    char path[UNTIL_MAX], number[24];
    int ms = PAUSE_FIRST_MS, tries = 0, r = 0;
    int64_t got;

    (void)snprintf(number, sizeof(number), "%lld", (long long)reader->id);
    until_path(number, JOB_ENDED, LIMIT_FIRST, path);
    while (!interrupts) {
        json_t *next = NULL;
        bool broken;

        reader->attempt = fixed ? reader->attempt : (int)attempt;
        client_ahead(client, path); /* the next question is known: job_wait()'s */
        r = reader_read(client, reader, true, &got, problem);
        if (r && r != CODE_UNREACHABLE && r != CODE_NOT_FOUND && r != CODE_CONFLICT)
            return r;
        /* Broken off: its node or the controller is away for a moment; then on from where it was. */
        broken = r == CODE_UNREACHABLE;
        if (broken && got == 0)
            pause_ms(&ms);
        else
            ms = PAUSE_FIRST_MS;
        if (broken)
            r = job_wait(client, reader->id, JOB_STARTED, false, &next, problem);
        else
            r = job_wait_attempt(client, reader->id, fixed ? -1 : attempt, false, &next, problem);
        if (r == 0 && strcmp(fmt_text(next, "state"), "PENDING") == 0) {
            json_decref(next);
            next = NULL;
            r = job_wait(client, reader->id, JOB_STARTED, false, &next, problem);
        }
        if (r)
            return r;
        json_decref(*job);
        *job = next;
        if (fixed || fmt_i64(next, "attempt") == attempt) {
            if (job_over(next) && rest_given_up(next, broken, &tries))
                return 0;
            continue;
        }
        attempt++; /* each has output of its own */
        reader->offset = 0;
    }
    return r;
}

static int outputs(struct client *client, int64_t id, const struct follow *how, json_t **job, struct problem *problem)
{
    int count = how->task >= 0 ? 1 : tasks_of(*job), r = 0;
    struct reader *readers;

    if (count == 0)
        count = 1; /* over: its first task has what there is */
    readers = mem_zalloc((size_t)count, sizeof(*readers));
    if (!readers)
        return problem_set(problem, CODE_FAILED, "", "out of memory");
    for (int i = 0; i < count; i++)
        readers[i] = (struct reader){ .id = id,
                                      .task = how->task >= 0 ? how->task : i,
                                      .attempt = how->attempt,
                                      .err = how->err,
                                      .many = count > 1,
                                      .lines = how->lines,
                                      .since = how->since,
                                      .until = how->until };
    if (how->follow && count == 1) {
        r = task_follow(client, readers, job, problem);
    } else if (how->follow) {
        r = tasks_follow(client, id, readers, count, problem);
    } else {
        for (int i = 0; r == 0 && i < count; i++)
            r = reader_poll(client, &readers[i], problem);
    }
    mem_free(readers);
    return r;
}

int job_output(struct client *client, int64_t id, const struct follow *how, struct problem *problem)
{
    json_t *job = NULL;
    int r = how->follow ? job_wait(client, id, JOB_STARTED, false, &job, problem) : job_get(client, id, &job, problem);

    if (r == 0)
        r = outputs(client, id, how, &job, problem);
    json_decref(job);
    return r;
}

/* Its processes have a node: there will be output. */
static bool job_placed(json_t *job)
{
    return strcmp(fmt_text(job, "state"), "PENDING") != 0 && json_array_size(json_object_get(job, "placement")) > 0;
}

void job_ahead(struct client *client)
{
    const struct reader first = { .lines = -1 };
    char path[400];

    path_of(&first, true, path, sizeof(path));
    client_ahead(client, path);
    until_path("new", JOB_ENDED, LIMIT_FIRST, path);
    client_ahead(client, path);
}

int job_follow_to_end(struct client *client, json_t *submitted, struct problem *problem)
{
    struct follow how = { .task = -1, .attempt = -1, .follow = true, .lines = -1 };
    struct sigaction action = { .sa_handler = on_interrupt }, before;
    int64_t id = fmt_i64(submitted, "id");
    json_t *job = job_placed(submitted) ? json_incref(submitted) : NULL;
    int r = 0, code = JOB_MUSTER;

    (void)sigaction(SIGINT, &action, &before);
    if (!job)
        r = job_wait(client, id, JOB_STARTED, false, &job, problem);
    if (r == 0)
        r = outputs(client, id, &how, &job, problem);
    if (interrupts) {
        CLEANUP_ANSWER struct answer answer = { 0 };
        char path[64];

        (void)fprintf(stderr, "muster: cancelling job %lld; once more leaves it running\n", (long long)id);
        interrupts = 0;
        (void)snprintf(path, sizeof(path), "/jobs/%lld", (long long)id);
        r = client_call(client, "DELETE", path, NULL, &answer, problem);
    }
    if (r == 0 && !job_over(job)) {
        json_decref(job);
        job = NULL;
        r = job_wait(client, id, JOB_OVER, true, &job, problem);
    }
    (void)sigaction(SIGINT, &before, NULL);
    if (r == 0) {
        code = job_exit_code(job);
        if (code && *fmt_text(job, "end_text"))
            (void)fprintf(stderr, "muster: job %lld %s: %s\n", (long long)id, fmt_text(job, "state"),
                          fmt_text(job, "end_text"));
    } else {
        code = problem->text[0] ? problem_print(problem) : JOB_MUSTER;
    }
    json_decref(job);
    return code;
}
