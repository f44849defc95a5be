/* SPDX-License-Identifier: Apache-2.0 */
/* render_job.c - a job as JSON. Fields are chosen by bits, so that a list of ten thousand writes only what is shown. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/insight/forecast.h"
#include "ctl/log/job_record.h"
#include "ctl/rest/render/render.h"
#include "ctl/state/attempt/attempt_machine.h"
#include "wire/job/roles.h"
#include "wire/text/hostlist.h"

enum { AFTER_SHOWN = 4 };

/* Why it waits, as it is by now: the decision it was told of is as old as its wait, and what stood in its way then may
 * be gone while something else has come. */
enum reason render_reason_now(const struct scene *scene, const struct ctl_job *job)
{
    enum reason reason = job->reason;

    if (job_in_core(job) && scene->core && job_waits((enum job_state)core_job(scene->core, job->slot)->state))
        reason = core_reason(scene->core, job->slot);
    return reason == REASON_NONE ? REASON_SCHEDULING : reason;
}

/* Reasons that are about numbers of GPUs. */
static bool reason_counts(enum reason reason)
{
    return reason == REASON_VC_LIMIT || reason == REASON_BORROW_LIMIT || reason == REASON_INSUFFICIENT_GPUS ||
           reason == REASON_FRAGMENTED || reason == REASON_NODES_UNHEALTHY || reason == REASON_RESERVED ||
           reason == REASON_PRIORITY || reason == REASON_CPU_MEM || reason == REASON_TOPOLOGY;
}

/* " (needs 8, free 3; 2 are reserved for others)". Where GPUs are free inside the cells of a guarantee only, of those.
 */
static void counts_put(const struct scene *scene, const struct ctl_job *job, enum reason now, char *text, size_t size)
{
    int64_t needs = (int64_t)jobspec_gpus(&job->wants) * job->wants.share, own, count;
    uint32_t reserved;

    if (job->wants.gpus == 0 || job->wants.share != MGPU_ONE || job->wants.side_count)
        return;
    count = scene_free(scene, job, &reserved);
    own = scene_free_own(scene, job);
    (void)snprintf(text + strlen(text), size - strlen(text), " (needs %g, ", (double)needs / MGPU_ONE);
    if (now == REASON_FRAGMENTED && count < needs && own >= 0)
        (void)snprintf(text + strlen(text), size - strlen(text), "free in the cells of its guarantee %g",
                       (double)own / MGPU_ONE);
    else
        (void)snprintf(text + strlen(text), size - strlen(text), "free %g", (double)count / MGPU_ONE);
    if (reserved)
        (void)snprintf(text + strlen(text), size - strlen(text), "; %u are reserved for others", reserved);
    (void)snprintf(text + strlen(text), size - strlen(text), ")");
}

/* " (matlab: asks for 2, 1 of 4 free)" of the first that is short. */
static void short_put(const struct scene *scene, const struct ctl_job *job, char *text, size_t size)
{
    for (uint32_t i = 0; i < job->wants.license_count; i++) {
        const struct license_need *need = &job->wants.licenses[i];
        uint64_t held;
        uint32_t total = core_license(scene->core, need->license, &held);

        if (held + need->count <= total)
            continue;
        (void)snprintf(text + strlen(text), size - strlen(text), " (%s: asks for %u, %u of %u free)",
                       license_name(scene, need->license), need->count, held < total ? (uint32_t)(total - held) : 0,
                       total);
        return;
    }
}

/* Whom it comes after and how they are to end, as far as that is not so yet. */
static void after_put(const struct ctl_job *job, char *text, size_t size)
{
    static const char *const how[] = { [AFTER_OK] = " (well)", [AFTER_ANY] = "", [AFTER_NOTOK] = " (not well)" };
    size_t count = 0, more = 0;

    for (size_t i = 0; i < job->spec->after_count && i < REGISTRY_AFTER_MAX; i++) {
        const struct after *after = &job->spec->after[i];
        size_t at = strlen(text);

        if (job->after_met >> i & 1)
            continue;
        if (count++ < AFTER_SHOWN)
            (void)snprintf(text + at, size - at, "%s %" PRId64 "%s", count == 1 ? ":" : ",", after->job,
                           how[after->kind]);
        else
            more++;
    }
    if (more)
        (void)snprintf(text + strlen(text), size - strlen(text), " and %zu more", more);
}

bool render_reason(const struct scene *scene, const struct ctl_job *job, const char **ret_code, char *text, size_t size)
{
    static const char *const codes[GATE_COUNT] = {
        "", "Held", "BeginTime", "Dependency", "ArrayLimit", "SchedulerPaused", "UserLimit", "ReservationNotStarted"
    };
    static const char *const words[GATE_COUNT] = { "",
                                                   "held by a person",
                                                   "waits for the time it asked for",
                                                   "waits for other jobs to end",
                                                   "its array runs as many as it may",
                                                   "an administrator has paused the scheduler",
                                                   "its user has as many GPUs as one may have",
                                                   "its reservation has not begun" };
    enum reason now;

    text[0] = '\0';
    if (job->phase != PHASE_JOB_PENDING && job->phase != PHASE_JOB_SUSPENDED)
        return false;
    if (job->gate != GATE_NONE) {
        *ret_code = codes[job->gate];
        (void)snprintf(text, size, "%s", words[job->gate]);
        if (job->gate == GATE_DEPENDENCY)
            after_put(job, text, size);
        return true;
    }
    if (job_paused(job)) {
        *ret_code = "Held";
        (void)snprintf(text, size, "suspended by a person");
        return true;
    }
    if (scene->registry->paused && job->phase == PHASE_JOB_PENDING) {
        *ret_code = "SchedulerPaused";
        (void)snprintf(text, size, "an administrator has paused the scheduler");
        return true;
    }
    now = render_reason_now(scene, job);
    *ret_code = reason_name(now);
    (void)snprintf(text, size, "%s",
                   now == REASON_CPU_MEM && job->wants.gpus == 0 ? "fewer CPUs or less memory are free than it asks for"
                                                                 : reason_text(now));
    if (reason_counts(now))
        counts_put(scene, job, now, text, size);
    if (now == REASON_LICENSE_LIMIT && scene->core)
        short_put(scene, job, text, size);
    return true;
}

bool render_starting(const struct ctl_job *job, const char **ret_code, const char **ret_text, usec_t *ret_since)
{
    const struct ctl_attempt *attempt = attempt_last(job);

    if (job->phase != PHASE_JOB_STARTING || !attempt)
        return false;
    *ret_since = attempt->placed;
    if (job_waits_for_place(job)) {
        *ret_code = reason_name(REASON_PREEMPTING);
        *ret_text = reason_text(REASON_PREEMPTING);
    } else if (roles_image(job->spec)) {
        *ret_code = "Starting.Image";
        *ret_text = "its nodes prepare it and its image";
    } else {
        *ret_code = "Starting.Prolog";
        *ret_text = "its nodes prepare it";
    }
    return true;
}

usec_t render_kept(const struct ctl_job *job, const char **ret_code, char *text, size_t size)
{
    const struct ctl_attempt *attempt = attempt_last(job);
    int code, number;
    bool oom = false;

    if (!attempt_in(attempt, ATTEMPT_SET(KEPT)))
        return 0;
    code = attempt->role_exit;
    number = attempt->role_signal;
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        const struct ctl_task *task = &attempt->tasks[t];

        oom |= task->oom;
        if (!code && !number && task->cause != TASK_CAUSE_PEER) {
            code = task->exit;
            number = task->signal;
        }
    }
    *ret_code = "KeptOnFail";
    if (oom)
        (void)snprintf(text, size, "it ran out of memory, and its place is kept");
    else if (number)
        (void)snprintf(text, size, "it was killed by signal %d, and its place is kept", number);
    else
        (void)snprintf(text, size, "it failed with exit code %d, and its place is kept", code);
    return attempt->kept_until;
}

static void put_reason(const struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    const char *code, *words;
    char text[320];
    usec_t since = job->reason_since ? job->reason_since : job->submit;

    if (render_node_silent(scene, job, &code, text, sizeof(text))) {
        since = job->last_start ? job->last_start : since;
    } else if (render_starting(job, &code, &words, &since)) {
        (void)snprintf(text, sizeof(text), "%s", words);
    } else if (!render_kept(job, &code, text, sizeof(text)) && !render_reason(scene, job, &code, text, sizeof(text))) {
        json_write_null(json, "reason");
        return;
    }
    json_write_object(json, "reason");
    json_write_text(json, "code", code);
    json_write_text(json, "message", text);
    put_time(json, "since", since);
    json_write_close(json);
}

static void put_placement(const struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    const struct ctl_attempt *attempt = attempt_last(job);

    json_write_array(json, "placement");
    for (uint32_t i = 0; attempt && job->phase != PHASE_JOB_PENDING && i < attempt->task_count; i++) {
        json_write_object(json, NULL);
        json_write_text(json, "node", node_name(scene, attempt->tasks[i].node));
        json_write_array(json, "gpus");
        for (uint16_t g = 0; g < attempt->tasks[i].gpu_count; g++)
            json_write_i64(json, NULL, attempt->tasks[i].gpus[g]);
        json_write_close(json);
        json_write_close(json);
    }
    json_write_close(json);
}

static void put_nodelist(const struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    const struct ctl_attempt *attempt = attempt_last(job);
    CLEANUP_BUF struct buf out = BUF_INIT((size_t)1 << 20);
    const char *few[16], **names = few;
    uint32_t count = attempt && job->phase != PHASE_JOB_PENDING ? attempt->task_count : 0;

    if (count == 1) {
        json_write_text(json, "nodelist", node_name(scene, attempt->tasks[0].node));
        return;
    }
    if (count > 16)
        names = mem_zalloc(count, sizeof(*names));
    for (uint32_t i = 0; names && i < count; i++)
        names[i] = node_name(scene, attempt->tasks[i].node);
    if (names && count)
        hostlist_put(&out, names, count);
    buf_char(&out, '\0');
    json_write_text(json, "nodelist", out.data ? out.data : "");
    if (names != few)
        mem_free(names);
}

static void put_type(const struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    const struct ctl_attempt *attempt = attempt_last(job);
    const struct ctl_node *node = NULL;
    CLEANUP_BUF struct buf types = BUF_INIT(1024);

    if (job->spec->role_count)
        record_types(scene->registry, job, &types);
    if (job->wants.gpus && attempt && attempt->task_count && attempt->tasks[0].node < scene->registry->node_count)
        node = &scene->registry->nodes[attempt->tasks[0].node];
    if (types.size)
        json_write_text(json, "gpu_type", types.data);
    else if (node && node->inventory.sku)
        json_write_text(json, "gpu_type", node->inventory.sku);
    else if (job->spec->gpu_selector)
        json_write_text(json, "gpu_type", job->spec->gpu_selector);
    else
        json_write_null(json, "gpu_type");
}

static usec_t elapsed_of(const struct scene *scene, const struct ctl_job *job)
{
    const struct ctl_attempt *attempt = attempt_last(job);

    if (!attempt || !attempt->started)
        return 0;
    return (attempt->ended                  ? attempt->ended
            : scene->now > attempt->started ? scene->now
                                            : attempt->started) -
           attempt->started;
}

/* Up to now, also of the attempt that is not over: its GPUs are counted as they are booked when it is. */
static int64_t gpu_time(const struct scene *scene, const struct ctl_job *job)
{
    const struct ctl_attempt *attempt = attempt_last(job);
    int64_t gpus = 0;

    for (uint32_t t = 0; attempt && !attempt->ended && t < attempt->task_count; t++)
        gpus += attempt->tasks[t].gpu_count;
    return job->gpu_usec + (gpus ? svc_of(gpus * job->wants.share, elapsed_of(scene, job)) : 0);
}

static void put_eta(const struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    struct eta eta;

    if (!scene->eta || job->phase != PHASE_JOB_PENDING || !forecast_eta(scene->server->forecast, job->id, &eta)) {
        json_write_null(json, "eta");
        return;
    }
    json_write_object(json, "eta");
    put_time(json, "at", eta.at);
    put_time(json, "low", eta.low);
    put_time(json, "high", eta.high);
    json_write_text(json, "basis", eta.basis);
    json_write_close(json);
}

/* Takes the tree. */
static void put_spec(const struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    CLEANUP_BUF struct buf text = BUF_INIT((size_t)4 << 20);

    if (!auth_sees(scene->who, scene->registry, job, scene->cluster) ||
        submission_to_json(job->spec, &text, NULL) < 0) {
        json_write_null(json, "spec");
        return;
    }
    json_write_raw(json, "spec", text.data, text.size);
}

/* Nodes of a gang that says how many GPUs it has on each, its parts on other types too. */
static int64_t nodes_of(const struct jobspec *wants)
{
    int64_t nodes = wants->gpus / wants->per_node;

    for (uint32_t i = 0; i < wants->side_count; i++)
        nodes += wants->sides[i].gpus / wants->sides[i].per_node;
    return nodes;
}

/* Of one that is on GPUs, how many it has there: its size may be another than it asked for. */
static int64_t gpus_now(const struct ctl_job *job)
{
    const struct ctl_attempt *attempt = attempt_last(job);
    int64_t sum = 0;

    if (!jobspec_elastic(&job->wants) || !attempt || (job->phase != PHASE_JOB_RUNNING && !phase_over(job->phase)))
        return jobspec_gpus(&job->wants);
    for (uint32_t t = 0; t < attempt->task_count; t++)
        sum += attempt->tasks[t].gpu_count;
    return sum ? sum : job->wants.gpus;
}

/* {name: count}; nothing of a job that asks for none. */
static void put_licenses(const struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    if (job->wants.license_count == 0)
        return;
    json_write_object(json, "licenses");
    for (uint32_t i = 0; i < job->wants.license_count; i++)
        json_write_i64(json, license_name(scene, job->wants.licenses[i].license), job->wants.licenses[i].count);
    json_write_close(json);
}

/* What an elastic job may have, and what a person has set. */
static void put_size(const struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    const struct jobspec *wants = &job->wants;
    bool set = wants->range_max != 0;

    if (!jobspec_elastic(wants)) {
        json_write_null(json, "size");
        return;
    }
    json_write_object(json, "size");
    json_write_i64(json, "min", set ? wants->range_min : wants->gpus_min);
    json_write_i64(json, "max", set ? wants->range_max : wants->gpus_max);
    if (set)
        json_write_i64(json, "set", wants->gpus);
    else
        json_write_null(json, "set");
    json_write_bool(json, "waits", job_in_core(job) && core_job(scene->core, job->slot)->size != 0);
    json_write_close(json);
}

void put_array(const struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    if (job->array_id == 0) {
        json_write_null(json, "array");
        return;
    }
    json_write_object(json, "array");
    json_write_i64(json, "id", job->array_id);
    json_write_i64(json, "index", job->array_index);
    if (scene->indices)
        json_write_text(json, "indices", scene->indices);
    if (scene->alike > 1)
        json_write_i64(json, "count", (int64_t)scene->alike);
    json_write_close(json);
}

/* Who, what, how much. */
static void put_request(const struct scene *scene, struct json_write *json, const struct ctl_job *job, int field)
{
    const struct submission *spec = job->spec;

    switch (field) {
    case FIELD_ID:
        json_write_i64(json, "id", job->id);
        break;
    case FIELD_NAME:
        if (spec->name && render_names(scene, job))
            json_write_text(json, "name", spec->name);
        else
            json_write_null(json, "name");
        break;
    case FIELD_USER:
        json_write_text(json, "user", user_name(scene, job->user));
        break;
    case FIELD_VC:
        json_write_text(json, "vc", vc_name(scene, job->vc));
        break;
    case FIELD_PRIORITY:
        json_write_i64(json, "priority", job->wants.priority);
        break;
    case FIELD_PRIORITY_CLASS:
        json_write_text(json, "priority_class", priority_class(job->wants.priority));
        break;
    case FIELD_ARRAY:
        put_array(scene, json, job);
        break;
    case FIELD_GPUS:
        json_write_i64(json, "gpus", gpus_now(job));
        break;
    case FIELD_GPU_SHARE:
        json_write_i64(json, "gpu_share", job->wants.share);
        break;
    case FIELD_GPU_TYPE:
        put_type(scene, json, job);
        break;
    case FIELD_NODES:
        json_write_i64(json, "nodes",
                       spec->role_count && job->wants.per_node ? nodes_of(&job->wants)
                       : job->wants.gpus == 0 && !spec->nodes  ? 1 /* without GPUs it is never spread */
                                                               : spec->nodes);
        break;
    case FIELD_LIMIT:
        json_write_i64(json, "limit_seconds", job->wants.time_limit / USEC_SEC);
        break;
    default:
        break;
    }
}

/* How far it is. */
static void put_life(const struct scene *scene, struct json_write *json, const struct ctl_job *job, int field)
{
    const struct ctl_attempt *attempt = attempt_last(job);
    const char *code;
    char text[128];

    switch (field) {
    case FIELD_STATE:
        json_write_text(json, "state", phase_name(job->phase));
        break;
    case FIELD_STATE_LETTERS:
        json_write_text(json, "state_letters", phase_letters(job->phase));
        break;
    case FIELD_SUBMIT_TIME:
        put_time(json, "submit_time", job->submit);
        break;
    case FIELD_ELIGIBLE_TIME:
        put_time(json, "eligible_time", job->eligible);
        break;
    case FIELD_START_TIME:
        put_time(json, "start_time", attempt ? attempt->started : 0);
        break;
    case FIELD_END_TIME:
        put_time(json, "end_time", job->end);
        break;
    case FIELD_ELAPSED:
        json_write_i64(json, "elapsed_seconds", elapsed_of(scene, job) / USEC_SEC);
        break;
    case FIELD_GPU_SECONDS:
        json_write_i64(json, "gpu_seconds", gpu_time(scene, job) / USEC_SEC);
        break;
    case FIELD_REASON:
        put_reason(scene, json, job);
        break;
    case FIELD_ETA:
        put_eta(scene, json, job);
        break;
    case FIELD_PLACEMENT:
        put_placement(scene, json, job);
        break;
    case FIELD_NODELIST:
        put_nodelist(scene, json, job);
        break;
    case FIELD_KEPT:
        put_time(json, "kept_until", render_kept(job, &code, text, sizeof(text)));
        break;
    case FIELD_CHECKPOINT:
        put_time(json, "last_checkpoint_time", job->last_ckpt);
        break;
    case FIELD_PROGRESS:
        put_progress(scene, json, job);
        break;
    default:
        break;
    }
}

static void put_rest(const struct scene *scene, struct json_write *json, const struct ctl_job *job, int field)
{
    bool over = phase_over(job->phase);

    switch (field) {
    case FIELD_ATTEMPT:
        json_write_i64(json, "attempt", job->attempt_count ? job->attempt_count - 1 : 0);
        break;
    case FIELD_PREEMPTIONS:
        json_write_i64(json, "preemptions", job->preemptions);
        break;
    case FIELD_FAILURES:
        json_write_i64(json, "failures", job->failures);
        break;
    case FIELD_EXIT_CODE:
        if (over && job->attempt_count)
            json_write_i64(json, "exit_code", job->exit);
        else
            json_write_null(json, "exit_code");
        break;
    case FIELD_SIGNAL:
        if (over && job->signal)
            json_write_i64(json, "signal", job->signal);
        else
            json_write_null(json, "signal");
        break;
    case FIELD_END_TEXT:
        if (over)
            json_write_text(json, "end_text", job->end_text);
        else
            json_write_null(json, "end_text");
        break;
    case FIELD_LICENSES:
        put_licenses(scene, json, job);
        break;
    case FIELD_VERSION:
        json_write_u64(json, "version", job->version);
        break;
    case FIELD_SPEC:
        put_spec(scene, json, job);
        break;
    case FIELD_UID:
        json_write_i64(json, "uid", job->uid);
        break;
    case FIELD_GID:
        json_write_i64(json, "gid", job->gid);
        break;
    case FIELD_PREDICTED:
        record_write_predicted(json, "predicted", job, 6);
        break;
    case FIELD_USED:
        record_write_used(json, "used", job, 6);
        break;
    case FIELD_SIZE:
        put_size(scene, json, job);
        break;
    case FIELD_PROMISE:
        put_promise(scene, json, job);
        break;
    case FIELD_HELD:
        json_write_bool(json, "held", job->held);
        break;
    default:
        break;
    }
}

static void put_fields(const struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    for (int field = 0; field < JOB_FIELD_COUNT; field++)
        if (scene->fields & FIELD_BIT(field)) {
            put_request(scene, json, job, field);
            put_life(scene, json, job, field);
            put_rest(scene, json, job, field);
        }
}

void render_job_begin(const struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    json_write_object(json, NULL);
    put_fields(scene, json, job);
}

void render_job(const struct scene *scene, struct json_write *json, const struct ctl_job *job, const char *kind)
{
    json_write_object(json, NULL);
    if (kind) {
        json_write_text(json, "apiVersion", "v1");
        json_write_text(json, "kind", kind);
    }
    put_fields(scene, json, job);
    json_write_close(json);
}
