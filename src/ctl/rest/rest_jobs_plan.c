/* SPDX-License-Identifier: Apache-2.0 */
/* rest_jobs_plan.c - what would happen to a job that is not submitted yet: asked of a copy of the core. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/insight/forecast_internal.h"
#include "ctl/rest/common/access.h"
#include "ctl/rest/rest.h"

static bool stopped_before(const struct future *future, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (future->stops[i].by == future->stops[at].by && future->stops[i].job == future->stops[at].job)
            return true;
    return false;
}

/* Jobs that are stopped for this one; those that the policy stops for others until then are not its doing. */
static void preempts_put(const struct scene *scene, struct json_write *json, const struct future *future, int64_t id)
{
    json_write_array(json, "preempts");
    for (size_t i = 0; i < future->stop_count; i++) {
        const struct ctl_job *job = registry_find(scene->registry, future->stops[i].job);

        if (future->stops[i].by == id && job && render_shows(scene, job) && !stopped_before(future, i))
            json_write_i64(json, NULL, job->id);
    }
    json_write_close(json);
}

static uint32_t vc_find(const struct scene *scene, const char *name)
{
    if (!name)
        return 0;
    for (uint32_t i = 0; i < scene->cluster->vc_count; i++)
        if (strcmp(vc_name(scene, i), name) == 0)
            return i;
    return UINT32_MAX;
}

/* What would keep it out of the queue, as gate.c has it; code NULL: nothing. */
struct outside {
    const char *code;
    char text[128];
    usec_t until; /* 0: nobody can tell */
    bool never;
};

/* A job that is over, of which it is known how it ended. */
static bool ended_wrong(const struct ctl_job *job, enum after_kind kind)
{
    return kind != AFTER_ANY && (kind == AFTER_OK) != (job->phase == PHASE_JOB_COMPLETED);
}

static void after_look(const struct scene *scene, const struct submission *s, struct outside *ret)
{
    for (size_t i = 0; i < s->after_count; i++) {
        const struct after *after = &s->after[i];
        const struct ctl_job *job = registry_find(scene->registry, after->job);
        bool over = job ? phase_over(job->phase) : registry_array(scene->registry, after->job, NULL, 0) == 0;

        if (over && (!job || !ended_wrong(job, after->kind)))
            continue;
        ret->code = over ? "DependencyNeverSatisfied" : "Dependency";
        ret->never = over;
        ret->until = 0;
        (void)snprintf(ret->text, sizeof(ret->text),
                       over ? "job %lld did not end as asked" : "waits for job %lld to end", (long long)after->job);
        if (over)
            return;
    }
}

static void limit_look(const struct scene *scene, const struct jobspec *spec, struct outside *ret)
{
    const char *user = scene->who->user;
    int64_t most = limits_gpus(scene->registry, user), held = 0;

    for (size_t i = 0; most >= 0 && i < scene->registry->live_count; i++) {
        const struct ctl_job *job = scene->registry->live[i];

        if (job_in_core(job) && strcmp(names_get(&scene->registry->users, job->user), user) == 0)
            held += (int64_t)jobspec_gpus(&job->wants) * job->wants.share;
    }
    if (most < 0 || held + (int64_t)jobspec_gpus(spec) * spec->share <= most * MGPU_ONE)
        return;
    ret->code = "UserLimit";
    (void)snprintf(ret->text, sizeof(ret->text), "its user may have %lld GPUs, and has or waits for %g",
                   (long long)most, (double)held / MGPU_ONE);
}

static void outside_look(const struct scene *scene, const struct submission *s, const struct jobspec *spec,
                         struct outside *ret)
{
    const struct ctl_resv *resv = s->reservation ? resv_find(scene->registry, s->reservation) : NULL;
    usec_t opens = resv ? resv->start : 0;

    *ret = (struct outside){ 0 };
    if (s->hold) {
        ret->code = "Held";
        (void)snprintf(ret->text, sizeof(ret->text), "until somebody releases it");
    } else if (s->begin > scene->now) {
        ret->code = "BeginTime";
        ret->until = s->begin > opens ? s->begin : opens;
        (void)snprintf(ret->text, sizeof(ret->text), "waits for the time it asks for");
    } else if (opens > scene->now) {
        ret->code = "ReservationNotStarted";
        ret->until = opens;
        (void)snprintf(ret->text, sizeof(ret->text), "its reservation has not begun");
    }
    if (!s->hold)
        after_look(scene, s, ret);
    if (!ret->code && scene->registry->paused) {
        ret->code = "SchedulerPaused";
        (void)snprintf(ret->text, sizeof(ret->text), "an administrator has paused the scheduler");
    }
    if (!ret->code)
        limit_look(scene, spec, ret);
}

/* It does not enter the queue now: what the queue is like then, nobody knows. */
static void outside_reply(struct request *request, const struct scene *scene, const struct jobspec *spec,
                          const struct outside *outside)
{
    struct buf out = BUF_INIT(65536);
    struct eta eta = { .at = outside->until, .low = outside->until, .high = outside->until };
    struct json_write json;

    (void)snprintf(eta.basis, sizeof(eta.basis), "not before");
    json_write_init(&json, &out, false);
    json_write_object(&json, NULL);
    json_write_text(&json, "apiVersion", "v1");
    json_write_text(&json, "kind", "Plan");
    json_write_bool(&json, "feasible", !outside->never);
    json_write_text(&json, "code", outside->code);
    json_write_text(&json, "message", outside->text);
    put_time(&json, "startsAt", outside->until);
    why_eta(&json, "eta", outside->until ? &eta : NULL);
    why_asks(scene, &json, spec);
    why_licenses(scene, &json, spec);
    json_write_text(&json, "nodelist", "");
    json_write_array(&json, "preempts");
    json_write_close(&json);
    json_write_array(&json, "alternatives");
    json_write_close(&json);
    json_write_array(&json, "warnings");
    json_write_close(&json);
    json_write_close(&json);
    reply_buf(request, 200, &out);
}

/* It would start where others' reservation begins before it is over. */
static void warn_resv(const struct scene *scene, struct json_write *json, const struct jobspec *spec, const char *nodes,
                      usec_t start)
{
    const struct ctl_resv *resv =
        resv_next(scene->registry, nodes, spec->kept, scene->now, spec->time_limit ? start + spec->time_limit : 0);
    usec_t begins = resv ? resv->start : 0;
    char text[640];

    if (!resv)
        return;
    (void)snprintf(
        text, sizeof(text),
        "reservation '%.60s' of %.200s begins in %lld min: it would be told to leave then; -x %.200s keeps it off",
        resv->name, resv->nodes, (long long)((begins - scene->now + USEC_MIN - 1) / USEC_MIN), resv->nodes);
    json_write_text(json, NULL, text);
}

static void plan_reply(struct request *request, const struct scene *scene, const struct jobspec *spec, uint32_t vc)
{
    CLEANUP_BUF struct buf nodes = BUF_INIT(65536);
    struct buf out = BUF_INIT((size_t)8 << 20);
    const struct foreseen *start = NULL;
    struct future future = { 0 };
    struct error err = { 0 };
    char code[32] = "Infeasible";
    struct json_write json;
    struct eta eta = { 0 };
    int r = why_start(scene, spec, vc, NULL, &future, &err);

    if (r == 0)
        start = future_find(&future, spec->id);
    if (start) {
        why_place(scene, &future, start, &nodes);
        eta = (struct eta){ .at = start->start, .low = start->start, .high = start->start };
        (void)snprintf(eta.basis, sizeof(eta.basis), "estimates and time limits");
    }
    submit_words(err.text, code, sizeof(code));
    json_write_init(&json, &out, false);
    json_write_object(&json, NULL);
    json_write_text(&json, "apiVersion", "v1");
    json_write_text(&json, "kind", "Plan");
    json_write_bool(&json, "feasible", r == 0);
    json_write_text(&json, "code", r < 0 ? code : start && start->start <= clock_now() ? "Now" : "Later");
    json_write_text(&json, "message", r < 0 ? err.text : start ? "" : "nobody can tell when");
    put_time(&json, "startsAt", start ? start->start : 0);
    why_eta(&json, "eta", start ? &eta : NULL);
    why_asks(scene, &json, spec);
    why_licenses(scene, &json, spec);
    json_write_text(&json, "nodelist", start ? nodes.data : "");
    preempts_put(scene, &json, &future, spec->id);
    why_shapes(scene, &json, "alternatives", spec, vc, NULL);
    json_write_array(&json, "warnings");
    if (spec->time_limit == 0 && spec->estimate == 0)
        json_write_text(&json, NULL,
                        "without a time limit nobody behind it can be told when to start, and it is never backfilled");
    if (start && nodes.data)
        warn_resv(scene, &json, spec, nodes.data, start->start);
    json_write_close(&json);
    json_write_close(&json);
    future_done(&future);
    reply_buf(request, 200, &out);
}

/* Whether it would be accepted, by the very check that submitting it would meet; false, answered. Takes its words. */
static bool accepted(struct request *request, char *doc)
{
    struct entry entry = { .kind = ENTRY_SUBMIT,
                           .submit = { .user = entry_text(request->who.user),
                                       .uid = request->who.uid,
                                       .gid = request->who.gid,
                                       .spec = doc } };
    struct entry_result result = { 0 };
    int r = ctl_check(batcher_ctl(request_server(request)->batcher), &entry, &result);

    entry_done(&entry);
    if (r < 0 && !result.of_core)
        reply_refused(request, &result);
    return r == 0 || result.of_core;
}

void forecast_plan(struct request *request)
{
    struct submission submission;
    struct infeasible why = { 0 };
    struct error err = { 0 };
    struct jobspec spec;
    struct scene scene;
    const struct ctl_resv *resv;
    struct outside outside;
    uint32_t vc;
    char *doc = NULL;
    struct forecast *forecast = request_server(request)->forecast;
    usec_t began = clock_now(), wait = forecast_wait(forecast, request->who.user);
    json_t *tree;
    bool good;

    if (wait) {
        reply_problem(request, 429, "TooManyOfYours", "muster queue tells when jobs are expected to start",
                      "so many jobs wait that a plan takes long; ask again in %lld s",
                      (long long)(wait / USEC_SEC) + 1);
        return;
    }
    tree = request_submission(request, &submission, &doc);

    if (tree && !access_submission(request, &submission)) {
        submission_done(&submission);
        json_decref(tree);
        mem_free(doc);
        return;
    }
    good = tree && accepted(request, doc);
    json_decref(tree);
    if (!good) {
        if (tree)
            submission_done(&submission);
        return;
    }
    scene_fill(&scene, request);
    vc = vc_find(&scene, submission.vc);
    if (!scene.core || vc == UINT32_MAX || submission_bind(&submission, scene.cluster, &spec, &why, &err) < 0) {
        reply_problem(request, 503, "NotReady", NULL, "%s", err.text[0] ? err.text : "no node has joined yet");
    } else {
        resv = submission.reservation ? resv_find(scene.registry, submission.reservation) : NULL;
        spec.kept = resv ? (uint8_t)resv->number : 0;
        if (submission.nodelist || submission.exclude || submission.constraint) {
            scene.choice = &submission;
            spec.mark = PLAN_MARK;
        }
        spec.id = PLAN_ID;
        spec.submit = core_now(scene.core);
        spec.user = NAME_NONE;
        spec.vc = vc;
        outside_look(&scene, &submission, &spec, &outside);
        if (outside.code)
            outside_reply(request, &scene, &spec, &outside);
        else
            plan_reply(request, &scene, &spec, vc);
    }
    forecast_pay(forecast, request->who.user, clock_now() - began);
    submission_done(&submission);
}
