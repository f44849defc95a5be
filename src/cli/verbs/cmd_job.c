/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_job.c - muster show, why, logs, wait: one job, looked at. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/client/follow.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/verbs/live.h"
#include "cli/verbs/why.h"

static void line(const char *label, const char *text)
{
    CLEANUP(mem_free) char *safe = text_harmless(text ? text : ""); /* keys may be anybody's words too */

    if (safe && *safe)
        (void)printf("  %-12s %s\n", label, safe);
}

static void roles_show(json_t *roles)
{
    const char *name;
    json_t *role;

    json_object_foreach(roles, name, role)
    {
        json_t *node = json_object_get(role, "per_node");
        char *each = json_is_object(node) ? json_dumps(node, JSON_COMPACT) : NULL, text[FMT_MAX];

        (void)snprintf(text, sizeof(text), "%.63s: %lld x %.100s", name, (long long)fmt_i64(role, "nodes"),
                       each ? each : "{}");
        line("role", text);
        mem_free(each);
    }
}

static void spec_show(json_t *spec)
{
    const char *key;
    json_t *value;

    if (!json_is_object(spec))
        return;
    (void)puts("Asked for");
    json_object_foreach(spec, key, value)
    {
        char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

        if (strcmp(key, "roles") == 0)
            roles_show(value);
        if (strcmp(key, "roles") == 0 || strcmp(key, "run") == 0 || strcmp(key, "env") == 0) {
            mem_free(text);
            continue;
        }
        line(key, text ? text : json_string_value(value));
        mem_free(text);
    }
}

static void attempts_show(json_t *attempts)
{
    json_t *attempt;
    size_t i;

    json_array_foreach(attempts, i, attempt)
    {
        char from[FMT_MAX], to[FMT_MAX], ran[FMT_MAX];

        (void)printf("Attempt %lld  %s  %s to %s  ran %s", (long long)fmt_i64(attempt, "number"),
                     fmt_text(attempt, "state"), fmt_stamp(fmt_time(attempt, "start_time"), from),
                     fmt_stamp(fmt_time(attempt, "end_time"), to), fmt_seconds(fmt_i64(attempt, "ran_seconds"), ran));
        if (*fmt_text(attempt, "stop_kind"))
            (void)printf("  (%s)", fmt_text(attempt, "stop_kind"));
        if (*fmt_text(attempt, "refusal"))
            (void)printf("  (not started on %s)", fmt_text(attempt, "refusal"));
        (void)putchar('\n');
    }
}

static void times_show(json_t *job)
{
    char text[FMT_MAX];

    line("submitted", fmt_stamp(fmt_time(job, "submit_time"), text));
    line("started", fmt_stamp(fmt_time(job, "start_time"), text));
    line("ended", fmt_stamp(fmt_time(job, "end_time"), text));
    line("elapsed", fmt_seconds(fmt_i64(job, "elapsed_seconds"), text));
    line("limit", fmt_limit(fmt_i64(job, "limit_seconds"), text));
}

/* Of an elastic job: what it may have, and what was set. */
static void show_size(json_t *size)
{
    char text[FMT_MAX];
    int used;

    if (!json_is_object(size))
        return;
    used = snprintf(text, sizeof(text), "%lld..%lld GPUs", (long long)fmt_i64(size, "min"),
                    (long long)fmt_i64(size, "max"));
    if (!fmt_null(size, "set"))
        (void)snprintf(text + used, sizeof(text) - (size_t)used, ", set to %lld%s", (long long)fmt_i64(size, "set"),
                       json_is_true(json_object_get(size, "waits")) ? " (when there is room)" : "");
    line("elastic", text);
}

/* How far it says it is, and where that number is from. */
static void progress_show(json_t *progress)
{
    CLEANUP_BUF struct buf text = BUF_INIT(512);
    char when[FMT_MAX];

    if (!json_is_object(progress))
        return;
    if (!fmt_null(progress, "step"))
        buf_printf(&text, "step %lld", (long long)fmt_i64(progress, "step"));
    if (!fmt_null(progress, "step") && !fmt_null(progress, "total"))
        buf_printf(&text, " of %lld", (long long)fmt_i64(progress, "total"));
    if (!fmt_null(progress, "epoch"))
        buf_printf(&text, ", epoch %.2f", json_number_value(json_object_get(progress, "epoch")));
    if (!fmt_null(progress, "loss"))
        buf_printf(&text, ", loss %.6g", json_number_value(json_object_get(progress, "loss")));
    if (!fmt_null(progress, "rate"))
        buf_printf(&text, ", %.3g steps/s", json_number_value(json_object_get(progress, "rate")));
    if (fmt_time(progress, "end"))
        buf_printf(&text, ", ends about %s", fmt_clock(fmt_time(progress, "end"), fmt_now(), when));
    buf_printf(&text, " (%s%s)", fmt_text(progress, "source"),
               strcmp(fmt_text(progress, "state"), "stalled") == 0 ? ", stalled" : "");
    buf_char(&text, '\0');
    if (!text.error)
        line("progress", text.data + (text.data[0] == ',' ? 2 : 0));
}

static void job_show(json_t *job)
{
    json_t *reason = json_object_get(job, "reason"), *place;
    char text[FMT_MAX], id[FMT_MAX];
    int64_t attempts;
    size_t i;

    json_harmless(job);
    (void)printf("Job %s %s (%s, vc %s, %s)  %s\n", fmt_id(job, id), fmt_text(job, "name"), fmt_text(job, "user"),
                 fmt_text(job, "vc"), fmt_text(job, "priority_class"), fmt_text(job, "state"));
    if (json_is_object(reason)) {
        (void)snprintf(text, sizeof(text), "%s: %s", fmt_text(reason, "code"), fmt_text(reason, "message"));
        line("reason", text);
    }
    if (fmt_time(job, "kept_until")) {
        char when[FMT_MAX];

        (void)snprintf(text, sizeof(text),
                       "until %.40s; go in: muster exec %.40s -- bash; let go: muster release %.40s",
                       fmt_clock(fmt_time(job, "kept_until"), fmt_now(), when), id, id);
        line("kept", text);
    }
    line("gpus", fmt_gpus(job, text));
    show_size(json_object_get(job, "size"));
    if (json_is_object(json_object_get(job, "promise")))
        line("deadline", fmt_promise(json_object_get(job, "promise"), text));
    if (json_is_object(json_object_get(job, "licenses")))
        line("licenses", fmt_licenses(job, text));
    line("nodes", fmt_text(job, "nodelist"));
    json_array_foreach(json_object_get(job, "placement"), i, place)
    {
        char *gpus = json_dumps(json_object_get(place, "gpus"), JSON_COMPACT);

        (void)snprintf(text, sizeof(text), "%s GPUs %s", fmt_text(place, "node"), gpus ? gpus : "");
        line(i ? " " : "placement", text);
        mem_free(gpus);
    }
    times_show(job);
    progress_show(json_object_get(job, "progress"));
    if (!fmt_null(job, "exit_code") || fmt_i64(job, "signal")) { /* the job's own, as in `muster history` */
        int64_t by = fmt_i64(job, "signal");

        (void)snprintf(text, sizeof(text), "%lld%s%s", (long long)(by ? 128 + by : fmt_i64(job, "exit_code")),
                       *fmt_text(job, "end_text") ? ": " : "", fmt_text(job, "end_text"));
        line("exit", text);
    } else {
        line("end", fmt_text(job, "end_text"));
    }
    /* The first is number 0, also of a job that has had none. */
    attempts = fmt_i64(job, "attempt") +
               (fmt_i64(job, "attempt") || fmt_time(job, "start_time") || *fmt_text(job, "nodelist") ? 1 : 0);
    (void)snprintf(text, sizeof(text), "%lld attempt%s, %lld preemptions, %lld failures, %.2f GPU-hours",
                   (long long)attempts, attempts == 1 ? "" : "s", (long long)fmt_i64(job, "preemptions"),
                   (long long)fmt_i64(job, "failures"), (double)fmt_i64(job, "gpu_seconds") / 3600.0);
    line("so far", text);
    spec_show(json_object_get(job, "spec"));
}

/* An array, where the number is that of one. */
static int array_show(const struct command_args *args, struct client *client, int64_t id)
{
    struct problem problem;
    json_t *jobs = NULL, *job, *states = json_object(), *whole, *value;
    const char *state;
    size_t i;
    int r = client_array(client, id, &jobs, &problem);

    if (r || json_array_size(jobs) == 0) {
        json_decref(jobs);
        json_decref(states);
        return CODE_NOT_FOUND;
    }
    json_array_foreach(jobs, i, job)(void)
        json_object_set_new(states, fmt_text(job, "state"), json_integer(fmt_i64(states, fmt_text(job, "state")) + 1));
    whole = json_pack("{s:s, s:s, s:I, s:s, s:I, s:O, s:O}", "apiVersion", "v1", "kind", "Array", "id", (json_int_t)id,
                      "name", fmt_text(json_array_get(jobs, 0), "name"), "size", (json_int_t)json_array_size(jobs),
                      "states", states, "jobs", jobs);
    if (!show_object(args, whole)) {
        json_harmless(whole);
        (void)printf("Array %lld %s  %zu jobs\n", (long long)id, fmt_text(whole, "name"), json_array_size(jobs));
        json_object_foreach(states, state, value)(void)
            printf("  %-12s %lld\n", state, (long long)json_integer_value(value));
    }
    json_decref(whole);
    json_decref(states);
    json_decref(jobs);
    return CODE_DONE;
}

int cmd_show(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct job_ref_text ref;
    struct problem problem, other;
    json_t *job = NULL, *attempts = NULL;
    char path[64];
    int r = live_client(args, &client);

    if (r)
        return r;
    r = client_whole_job(client, args->words[0], &ref, &problem);
    if (r)
        return problem_print(&problem);
    r = job_get(client, ref.id, &job, &problem);
    if (r == CODE_NOT_FOUND && array_show(args, client, ref.id) == CODE_DONE)
        return CODE_DONE;
    if (r)
        return problem_print(&problem);
    if (!show_object(args, job)) {
        job_show(job);
        (void)snprintf(path, sizeof(path), "/jobs/%lld/attempts", (long long)ref.id);
        if (client_list(client, path, &attempts, &other) == 0)
            attempts_show(attempts);
        json_decref(attempts);
    }
    json_decref(job);
    return CODE_DONE;
}

/* The element of an array that speaks for it: the first that waits, else its first. 0: the number is not that of an
 * array. */
static int64_t array_speaker(struct client *client, int64_t id, char *ref, size_t size)
{
    struct problem problem;
    json_t *jobs = NULL, *job, *found = NULL;
    int64_t speaker = 0;
    size_t i;

    if (client_array(client, id, &jobs, &problem))
        return 0;
    json_array_foreach(jobs, i, job) if (!found || (strcmp(fmt_text(job, "state"), "PENDING") == 0 &&
                                                    strcmp(fmt_text(found, "state"), "PENDING") != 0)) found = job;
    if (found) {
        speaker = fmt_i64(found, "id");
        (void)snprintf(ref, size, "%lld_%lld", (long long)id,
                       (long long)fmt_i64(json_object_get(found, "array"), "index"));
    }
    json_decref(jobs);
    return speaker;
}

int cmd_why(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 }, again = { 0 };
    struct job_ref_text ref;
    struct problem problem, other;
    char path[64], element[64];
    int64_t speaker = 0;
    int r = live_client(args, &client);

    if (r)
        return r;
    r = client_whole_job(client, args->words[0], &ref, &problem);
    if (r == 0) {
        (void)snprintf(path, sizeof(path), "/jobs/%lld/why", (long long)ref.id);
        r = client_call(client, "GET", path, NULL, &answer, &problem);
        speaker = r == CODE_NOT_FOUND ? array_speaker(client, ref.id, element, sizeof(element)) : 0;
        if (speaker) {
            (void)snprintf(path, sizeof(path), "/jobs/%lld/why", (long long)speaker);
            r = client_call(client, "GET", path, NULL, &again, &other);
            if (r == 0 && !cli_json)
                (void)fprintf(stderr, "%lld is an array; of its element %s:\n", (long long)ref.id, element);
        }
    }
    if (r)
        return problem_print(&problem);
    if (!show_object(args, speaker ? again.json : answer.json))
        why_show(speaker ? again.json : answer.json);
    return CODE_DONE;
}

int cmd_logs(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    const char *lines = args_value(args, "lines"), *attempt = args_value(args, "attempt");
    struct follow how = { .task = -1, .attempt = -1, .lines = -1 };
    struct job_ref_text ref;
    struct problem problem;
    char element[64];
    int r = live_client(args, &client);

    if (r)
        return r;
    r = client_job(client, args->words[0], &ref, &problem);
    if (r)
        return problem_print(&problem);
    how.task = ref.rank;
    how.attempt = attempt ? (int)strtol(attempt, NULL, 10) : ref.attempt;
    how.follow = args_has(args, "follow");
    how.err = args_has(args, "err");
    how.lines = lines ? strtol(lines, NULL, 10) : -1;
    if (lines && (how.lines < 0 || *lines < '0' || *lines > '9'))
        return args_wrong(args, "--lines: expected a number, got '%.20s'", lines);
    r = when_arg(args, "since", &how.since);
    if (r == 0)
        r = when_arg(args, "until", &how.until);
    if (r)
        return r;
    if (how.follow && how.until)
        return args_wrong(args, "--follow goes on as output comes: it has no --until");
    r = job_output(client, ref.id, &how, &problem);
    if (r == CODE_NOT_FOUND && array_speaker(client, ref.id, element, sizeof(element)))
        problem_hint(&problem, "%lld is an array, and each element has its own output: muster logs %s",
                     (long long)ref.id, element);
    return r ? problem_print(&problem) : CODE_DONE;
}

int wait_one(struct client *client, int64_t id, json_t *done, int *ret_code, struct problem *problem)
{
    json_t *job = NULL;
    int r = job_wait(client, id, JOB_OVER, false, &job, problem);

    if (r == 0) {
        *ret_code = job_exit_code(job);
        if (done)
            (void)json_array_append(done, job);
        json_decref(job);
    }
    return r;
}

/* A job, or all of an array. */
static int wait_ref(struct client *client, int64_t id, json_t *done, int *ret_code, struct problem *problem)
{
    struct problem other;
    json_t *jobs = NULL, *job;
    size_t i;
    int r = wait_one(client, id, done, ret_code, problem);

    if (r != CODE_NOT_FOUND || client_array(client, id, &jobs, &other))
        return r;
    if (json_array_size(jobs))
        r = 0;
    json_array_foreach(jobs, i, job)
    {
        int code = 0;

        r = wait_one(client, fmt_i64(job, "id"), done, &code, problem);
        if (r)
            break;
        *ret_code = code > *ret_code ? code : *ret_code;
    }
    json_decref(jobs);
    return r;
}

int cmd_wait(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct problem problem;
    int worst = 0, r = live_client(args, &client);
    json_t *done = json_array();

    for (int i = 0; r == 0 && i < args->word_count; i++) {
        struct job_ref_text ref;
        int code = 0;

        r = client_whole_job(client, args->words[i], &ref, &problem);
        if (r == 0)
            r = wait_ref(client, ref.id, done, &code, &problem);
        if (r)
            r = problem_print(&problem);
        worst = code > worst ? code : worst;
    }
    if (r == 0 && cli_json) {
        json_t *list = json_pack("{s:s, s:s, s:O, s:n}", "apiVersion", "v1", "kind", "JobList", "items", done, "next");

        show_json(list);
        json_decref(list);
    }
    json_decref(done);
    return r ? r : worst;
}
