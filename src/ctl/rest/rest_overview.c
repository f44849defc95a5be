/* SPDX-License-Identifier: Apache-2.0 */
/* rest_overview.c - GET /overview: states of jobs and reasons for waiting, counted. */
#include <string.h>

#include "ctl/insight/alerts.h"
#include "ctl/insight/stats.h"
#include "ctl/insight/watch.h"
#include "ctl/rest/rest.h"

enum { REASON_CODES_MAX = 64, WAITS_MAX = 512 };

/* Who waits, counted. */
struct waiting_sum {
    const char *code;
    int64_t jobs, gpus;
    usec_t oldest;
};

static void waiting_add(struct waiting_sum *sum, const struct ctl_job *job)
{
    sum->jobs++;
    sum->gpus += jobspec_gpus(&job->wants);
    if (!sum->oldest || job->submit < sum->oldest)
        sum->oldest = job->submit;
}

static void waiting_put(const struct scene *scene, struct json_write *json, const char *key,
                        const struct waiting_sum *sum)
{
    json_write_object(json, NULL);
    json_write_text(json, key, sum->code);
    json_write_i64(json, "jobs", sum->jobs);
    json_write_i64(json, "gpus", sum->gpus);
    json_write_i64(json, "oldest_seconds", sum->oldest ? (scene->now - sum->oldest) / USEC_SEC : 0);
    json_write_close(json);
}

static void waiting_summary(const struct scene *scene, struct json_write *json)
{
    struct waiting_sum reasons[REASON_CODES_MAX] = { 0 }, sizes[SIZE_CLASSES] = { 0 };
    size_t count = 0;

    for (int s = 0; s < SIZE_CLASSES; s++)
        sizes[s].code = stats_sizes[s];
    for (size_t i = 0; i < scene->registry->live_count; i++) {
        const struct ctl_job *job = scene->registry->live[i];
        const char *code;
        char text[256];
        size_t r = 0;

        if (job->phase != PHASE_JOB_PENDING || !render_reason(scene, job, &code, text, sizeof(text)))
            continue;
        waiting_add(&sizes[size_class(jobspec_gpus(&job->wants))], job);
        while (r < count && strcmp(reasons[r].code, code) != 0)
            r++;
        if (r == count && count < REASON_CODES_MAX)
            reasons[count++].code = code;
        if (r < count)
            waiting_add(&reasons[r], job);
    }
    json_write_array(json, "waiting_by_reason");
    for (size_t r = 0; r < count; r++)
        waiting_put(scene, json, "code", &reasons[r]);
    json_write_close(json);
    json_write_array(json, "waiting_by_size");
    for (int s = 0; s < SIZE_CLASSES; s++)
        waiting_put(scene, json, "size", &sizes[s]);
    json_write_close(json);
}

/* How long jobs that started lately had waited. */
static void waits_put(const struct scene *scene, struct json_write *json)
{
    double waits[WAITS_MAX];

    json_write_array(json, "wait_by_size");
    for (unsigned s = 0; s < SIZE_CLASSES; s++) {
        size_t n = watch_waits(scene->server->watch, s, waits, WAITS_MAX);

        json_write_object(json, NULL);
        json_write_text(json, "size", stats_sizes[s]);
        json_write_i64(json, "jobs", (int64_t)n);
        if (n) {
            json_write_double(json, "p50_seconds", waits[n / 2]);
            json_write_double(json, "p95_seconds", waits[n * 95 / 100]);
        } else {
            json_write_null(json, "p50_seconds");
            json_write_null(json, "p95_seconds");
        }
        json_write_close(json);
    }
    json_write_close(json);
}

static void states_put(const struct scene *scene, struct json_write *json)
{
    int64_t all[PHASE_JOB_COUNT] = { 0 }, mine[PHASE_JOB_COUNT] = { 0 };

    for (size_t i = 0; i < scene->registry->live_count; i++) {
        const struct ctl_job *job = scene->registry->live[i];

        all[job->phase]++;
        mine[job->phase] += strcmp(user_name(scene, job->user), scene->who->user) == 0;
    }
    for (int turn = 0; turn < 2; turn++) {
        json_write_object(json, turn ? "my_jobs" : "jobs");
        for (int p = 0; p < PHASE_JOB_COMPLETED; p++)
            json_write_i64(json, phase_name((enum phase_of_job)p), turn ? mine[p] : all[p]);
        json_write_close(json);
    }
}

void rest_overview(struct request *request)
{
    struct buf out = BUF_INIT((size_t)8 << 20);
    struct json_write json;
    struct scene scene;

    scene_fill(&scene, request);
    json_write_init(&json, &out, false);
    json_write_object(&json, NULL);
    json_write_text(&json, "apiVersion", "v1");
    json_write_text(&json, "kind", "Overview");
    json_write_text(&json, "cluster", scene.server->conf->cluster);
    put_time(&json, "time", scene.now);
    json_write_bool(&json, "paused", scene.registry->paused);
    json_write_array(&json, "gpus");
    render_gpu_summary(&scene, &json);
    json_write_close(&json);
    json_write_array(&json, "vcs");
    for (uint32_t v = 0; scene.core && v < core_vc_count(scene.core); v++)
        if (vc_open(&scene, v))
            render_vc(&scene, &json, v, NULL);
    json_write_close(&json);
    states_put(&scene, &json);
    waiting_summary(&scene, &json);
    waits_put(&scene, &json);
    alerts_put(&scene, &json, "alerts");
    json_write_close(&json);
    reply_buf(request, 200, &out);
}
