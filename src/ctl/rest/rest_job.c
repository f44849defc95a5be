/* SPDX-License-Identifier: Apache-2.0 */
/* rest_job.c - one job: what it is, and what people do to it. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/insight/feed.h"
#include "ctl/insight/watch.h"
#include "ctl/rest/common/access.h"
#include "ctl/rest/common/job_waiters.h"
#include "ctl/rest/rest.h"
#include "wire/text/duration.h"

enum { WAIT_SECONDS = 30, WAIT_SECONDS_MAX = 300 };

static void etag_put(struct request *request, const struct ctl_job *job)
{
    reply_header_number(request, "ETag", "\"v", (int64_t)job->version, "\"");
}

/* W/"v12", "v12" and lists of them. */
static bool etag_has(const char *list, uint64_t version)
{
    char mine[32];

    (void)snprintf(mine, sizeof(mine), "\"v%" PRIu64 "\"", version);
    return strstr(list, mine) != NULL || strcmp(list, "*") == 0;
}

bool match_check(struct request *request, const struct ctl_job *job)
{
    const char *wanted = http_header(request->message, "if-match");

    if (!wanted || etag_has(wanted, job->version))
        return true;
    etag_put(request, job);
    reply_problem(request, 412, "Changed", "read it again", "job %" PRId64 " has changed meanwhile", job->id);
    return false;
}

const struct ctl_job *request_governed(struct request *request)
{
    const struct ctl_job *job = request_job(request);
    struct scene scene;

    if (!job)
        return NULL;
    scene_fill(&scene, request);
    if (!auth_governs(&request->who, scene.registry, job, scene.cluster)) {
        reply_problem(request, 403, "NotAllowed", NULL, "job %" PRId64 " is not yours", job->id);
        return NULL;
    }
    return match_check(request, job) ? job : NULL;
}

/* One that can still be changed. That it is over is said alike whether the registry or only the store has it. */
static const struct ctl_job *request_changed(struct request *request)
{
    const struct ctl_job *job = request_governed(request);

    if (!job || !phase_over(job->phase))
        return job;
    reply_problem(request, 409, "Conflict", NULL, "job %" PRId64 " is over", job->id);
    return NULL;
}

static void job_reply(struct request *request, const struct ctl_job *job)
{
    struct buf out = BUF_INIT((size_t)8 << 20);
    struct json_write json;
    struct scene scene;

    scene_fill(&scene, request);
    scene.eta = true;
    if (request->message && scene_fields(&scene, request, JOB_FIELDS_ALL) < 0)
        return;
    scene.eta = true;
    etag_put(request, job);
    json_write_init(&json, &out, false);
    render_job(&scene, &json, job, "Job");
    reply_buf(request, 200, &out);
}

void rest_job_get(struct request *request)
{
    const struct ctl_job *job = request_job(request);
    const char *none = job ? http_header(request->message, "if-none-match") : NULL; /* answered, it may be gone */
    int64_t limit = WAIT_SECONDS;
    struct scene scene;
    char until[16];
    int what = -1;

    if (!job || query_i64(request, "limit", 1, WAIT_SECONDS_MAX, &limit) < 0)
        return;
    if (query_word(request, "until", until, sizeof(until)) < 0)
        return;
    if (until[0] && (what = wait_for_find(until)) < 0) {
        reply_problem(request, 400, "BadRequest", NULL, "until: expected started, ended or over");
        return;
    }
    scene_fill(&scene, request);
    if (!render_shows(&scene, job)) {
        reply_problem(request, 404, "NotFound", NULL, "no job %" PRId64, job->id);
        return;
    }
    if (none && etag_has(none, job->version)) {
        etag_put(request, job);
        reply(request, 304, NULL, NULL, 0);
        return;
    }
    if (what >= 0)
        waits_hold(request_server(request)->waits, request, job, (enum wait_for)what, limit * USEC_SEC, job_reply);
    else
        job_reply(request, job);
}

void offered_job(struct request *request, const struct entry_result *result)
{
    const struct ctl_job *job;

    if (result->code < 0) {
        reply_refused(request, result);
        return;
    }
    job = request_job(request);
    if (job)
        job_reply(request, job);
}

/* Of the right kind; what they say is judged with the job. False: answered. */
static bool patch_good(struct request *request, const json_t *body)
{
    const json_t *priority = json_object_get(body, "priority"), *time = json_object_get(body, "time_seconds");
    const json_t *vc = json_object_get(body, "vc"), *comment = json_object_get(body, "comment");
    const json_t *tags = json_object_get(body, "tags"), *size = json_object_get(body, "size");
    const char *wrong = NULL;

    if (priority && !json_is_string(priority) && !json_is_integer(priority))
        wrong = "priority: expected a class or a number";
    else if (time && (!json_is_integer(time) || json_integer_value(time) < 0 ||
                      json_integer_value(time) > INT64_MAX / USEC_SEC))
        wrong = "time_seconds: expected a number of seconds";
    else if (size && !json_is_null(size) && (!json_is_integer(size) || json_integer_value(size) < 1))
        wrong = "size: expected a number of GPUs, or null";
    else if (vc && !json_is_string(vc))
        wrong = "vc: expected a name";
    else if (comment && !json_is_string(comment) && !json_is_null(comment))
        wrong = "comment: expected words, or null";
    else if (tags && !json_is_object(tags))
        wrong = "tags: expected {NAME: VALUE}, null for one that goes";
    if (wrong)
        reply_problem(request, 400, "BadRequest", NULL, "%s", wrong);
    return !wrong;
}

void rest_job_patch(struct request *request)
{
    static const char *const keys[] = { "priority", "time_seconds", "size", "vc", "comment", "tags", NULL };
    const struct ctl_job *job = request_changed(request);
    json_t *body, *entry, *value;
    int priority = 0;

    if (!job)
        return;
    body = request_object(request, keys);
    if (!body || !patch_good(request, body)) {
        json_decref(body);
        return;
    }
    entry = json_pack("{s:I, s:s}", "job", (json_int_t)job->id, "by", request->who.user);
    value = json_object_get(body, "priority");
    if (json_is_string(value) && priority_parse(json_string_value(value), &priority) < 0) {
        reply_problem(request, 400, "BadRequest", NULL, "priority: expected a class or a number");
        json_decref(body);
        json_decref(entry);
        return;
    }
    if (value)
        (void)json_object_set_new(entry, "priority",
                                  json_integer(json_is_string(value) ? priority : json_integer_value(value)));
    value = json_object_get(body, "time_seconds");
    if (value)
        (void)json_object_set_new(entry, "time", json_integer(json_integer_value(value) * USEC_SEC));
    value = json_object_get(body, "size");
    if (value)
        (void)json_object_set_new(entry, "size", json_integer(json_integer_value(value))); /* null: 0 */
    for (size_t i = 3; keys[i]; i++)                                                       /* as they are */
        if (json_object_get(body, keys[i]))
            (void)json_object_set(entry, keys[i], json_object_get(body, keys[i]));
    if (json_object_get(entry, "priority") && request->who.role == ROLE_USER &&
        json_integer_value(json_object_get(entry, "priority")) > job->wants.priority)
        reply_problem(request, 403, "NotAllowed", NULL, "only a vc-admin or admin may raise a priority");
    if (!request->answered && (json_object_get(entry, "vc") || json_object_get(entry, "time"))) {
        const struct cluster_spec *cluster = ctl_cluster(batcher_ctl(request_server(request)->batcher));
        const char *vc = json_string_value(json_object_get(entry, "vc"));
        struct jobspec wants = job->wants;

        if (json_object_get(entry, "priority"))
            wants.priority = (int16_t)json_integer_value(json_object_get(entry, "priority"));
        if (json_object_get(entry, "time"))
            wants.time_limit = json_integer_value(json_object_get(entry, "time"));
        (void)access_allowed(request, vc ? vc : names_get(&cluster->names, cluster->vcs[job->vc].name), &wants);
    }
    json_decref(body);
    if (request->answered)
        json_decref(entry);
    else
        request_offer_json(request, ENTRY_SET, entry, offered_job);
}

void rest_job_delete(struct request *request)
{
    const struct ctl_job *job = request_changed(request);

    if (job)
        request_offer(
            request,
            &(struct entry){
                .kind = ENTRY_CANCEL,
                .cancel = { .job = job->id, .by = entry_text(request->who.user), .now = query_flag(request, "now") } },
            offered_job);
}

/* What an action is to be told; answered where it is not said. */
static void action_size(struct request *request, const json_t *body, struct entry_set *ret)
{
    const json_t *size = json_object_get(body, "size");

    if (!size)
        reply_problem(request, 400, "BadRequest", NULL, "size: expected a number of GPUs, or null");
    else if (patch_good(request, body))
        ret->size = (struct opt_number){ GIVEN_VALUE, json_integer_value(size) }; /* null: 0 */
}

static void action_signal(struct request *request, const json_t *body, struct entry_signal *ret)
{
    const json_t *value = json_object_get(body, "signal");
    int number = (int)json_integer_value(value);
    const char *text = json_string_value(value);

    if ((text && signal_parse(text, strlen(text), &number) < 0) || number < 1 || number > 64)
        reply_problem(request, 400, "BadRequest", NULL, "signal: expected a number or a name like USR1");
    ret->signal = number;
}

void rest_job_action(struct request *request)
{
    static const char *const names[] = { "hold",   "release", "suspend",    "resume", "requeue",
                                         "signal", "cancel",  "checkpoint", "resize" };
    static const enum entry_kind kinds[] = { ENTRY_HOLD,   ENTRY_RELEASE, ENTRY_SUSPEND, ENTRY_RESUME, ENTRY_REQUEUE,
                                             ENTRY_SIGNAL, ENTRY_CANCEL,  ENTRY_SIGNAL,  ENTRY_SET };
    const size_t count = sizeof(names) / sizeof(names[0]);
    static const char *const keys[] = { "signal", "size", NULL };
    const struct ctl_job *job;
    struct entry entry;
    json_t *body;
    size_t i = 0;

    while (i < count && strcmp(request->params[1], names[i]) != 0)
        i++;
    if (i == count) {
        reply_problem(request, 404, "NotFound", NULL, "no action '%.40s'", request->params[1]);
        return;
    }
    job = request_changed(request);
    body = job ? request_object(request, keys) : NULL;
    if (!body)
        return;
    entry = entry_of_job(kinds[i], job->id, request->who.user);
    if (strcmp(names[i], "checkpoint") == 0 && job->spec->ckpt_signal <= 0)
        reply_problem(request, 409, "Conflict", "submit it with --ckpt-signal",
                      "job %" PRId64 " has told no signal that makes it save itself", job->id);
    else if (strcmp(names[i], "checkpoint") == 0)
        entry.signal.signal = job->spec->ckpt_signal;
    else if (kinds[i] == ENTRY_SET)
        action_size(request, body, &entry.set);
    else if (kinds[i] == ENTRY_SIGNAL)
        action_signal(request, body, &entry.signal);
    json_decref(body);
    if (request->answered)
        entry_done(&entry);
    else
        request_offer(request, &entry, offered_job);
}

void rest_job_attempts(struct request *request)
{
    const struct ctl_job *job = request_job(request);
    struct buf out = BUF_INIT((size_t)32 << 20);
    struct json_write json;
    struct scene scene;

    if (!job)
        return;
    scene_fill(&scene, request);
    list_begin(&json, &out, "AttemptList");
    for (uint32_t i = 0; i < job->attempt_count; i++)
        render_attempt(&scene, &json, job, &job->attempts[i], true);
    list_end(&json, NULL);
    reply_buf(request, 200, &out);
}

void rest_job_tasks(struct request *request)
{
    const struct ctl_job *job = request_job(request);
    const struct ctl_attempt *attempt;
    struct buf out = BUF_INIT((size_t)32 << 20);
    struct json_write json;
    struct scene scene;
    int64_t number = -1;

    if (!job || query_i64(request, "attempt", 0, UINT32_MAX, &number) < 0)
        return;
    attempt = number < 0 ? attempt_last(job) : number < job->attempt_count ? &job->attempts[number] : NULL;
    scene_fill(&scene, request);
    json_write_init(&json, &out, false);
    json_write_object(&json, NULL);
    json_write_text(&json, "apiVersion", "v1");
    json_write_text(&json, "kind", "TaskList");
    render_tasks(&scene, &json, "items", job, attempt);
    json_write_null(&json, "next");
    json_write_close(&json);
    reply_buf(request, 200, &out);
}

void rest_job_events(struct request *request)
{
    const struct ctl_job *job = request_job(request);

    if (job)
        feed_reply(request_server(request)->feed, request, job->id);
}

/* What its GPUs do now, by rank. */
/* What a GPU measured while the attempt had it, oldest first; every n-th look where there are too many. */
static void looks_put(const struct scene *scene, struct json_write *json, const struct ctl_attempt *attempt,
                      const struct ctl_node *node, uint32_t gpu)
{
    const struct gpu_past *past = watch_gpu(scene->server->watch, node, gpu);
    usec_t end = attempt->ended ? attempt->ended : scene->now;

    json_write_array(json, "series");
    for (uint32_t i = 0; past && past->looks && i < past->count; i++) {
        const struct gpu_look *look = gpu_past_at(past, i);

        if (look->at < attempt->started || look->at > end + WATCH_EVERY)
            continue;
        json_write_object(json, NULL);
        put_time(json, "time", look->at);
        json_write_i64(json, "util", look->util);
        json_write_i64(json, "memory_used_mib", look->memory_mib);
        json_write_i64(json, "power_watts", look->power);
        json_write_close(json);
    }
    json_write_close(json);
}

static void metric_put(const struct scene *scene, struct json_write *json, const struct ctl_attempt *attempt,
                       uint32_t rank, uint32_t index)
{
    const struct ctl_task *task = &attempt->tasks[rank];
    const struct ctl_node *node = &scene->registry->nodes[task->node];
    const struct ctl_gpu *gpu = &node->gpus[index];

    json_write_object(json, NULL);
    json_write_i64(json, "rank", rank);
    json_write_text(json, "node", node_name(scene, task->node));
    json_write_i64(json, "gpu", index);
    if (attempt->ended) { /* others may be there now */
        json_write_null(json, "util");
        json_write_null(json, "memory_used_mib");
        json_write_null(json, "power_watts");
        json_write_null(json, "temperature_celsius");
    } else {
        json_write_i64(json, "util", gpu->util);
        json_write_i64(json, "memory_used_mib", gpu->memory_mib);
        json_write_i64(json, "power_watts", gpu->power);
        json_write_i64(json, "temperature_celsius", gpu->temp);
    }
    put_time(json, "time", node->seen);
    looks_put(scene, json, attempt, node, index);
    json_write_close(json);
}

void rest_job_metrics(struct request *request)
{
    static const char *const known[] = { "attempt", NULL };
    const struct ctl_job *job = request_job(request);
    const struct ctl_attempt *attempt = job ? attempt_last(job) : NULL;
    struct buf out = BUF_INIT((size_t)64 << 20);
    int64_t number = attempt ? attempt->number : 0;
    struct json_write json;
    struct scene scene;

    if (!job || !query_known(request, known) || query_i64(request, "attempt", 0, UINT32_MAX, &number) < 0)
        return;
    if (attempt && number >= job->attempt_count) {
        reply_problem(request, 404, "NotFound", NULL, "job %" PRId64 " has no attempt %" PRId64, job->id, number);
        return;
    }
    scene_fill(&scene, request);
    attempt = attempt ? &job->attempts[number] : NULL;
    list_begin(&json, &out, "JobMetricList");
    for (uint32_t t = 0; attempt && t < attempt->task_count; t++)
        for (uint16_t g = 0; g < attempt->tasks[t].gpu_count; g++)
            if (attempt->tasks[t].gpus[g] < scene.registry->nodes[attempt->tasks[t].node].gpu_count)
                metric_put(&scene, &json, attempt, t, attempt->tasks[t].gpus[g]);
    json_write_close(&json);
    json_write_null(&json, "next");
    json_write_i64(&json, "step_seconds", WATCH_EVERY / USEC_SEC);
    json_write_close(&json);
    reply_buf(request, 200, &out);
}
