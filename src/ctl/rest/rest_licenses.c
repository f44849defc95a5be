/* SPDX-License-Identifier: Apache-2.0 */
/* rest_licenses.c - licences: how many there are, who holds them, which of them a job waits for. */
#include <stdio.h>

#include "ctl/insight/forecast_internal.h"
#include "ctl/insight/metrics_internal.h"
#include "ctl/rest/rest.h"

enum { HOLDERS_MAX = 16 };

const char *license_name(const struct scene *scene, uint32_t number)
{
    return number < scene->cluster->license_count
               ? names_get(&scene->cluster->names, scene->cluster->licenses[number].name)
               : "";
}

static uint32_t count_of(const struct jobspec *spec, uint32_t number)
{
    for (uint32_t i = 0; i < spec->license_count; i++)
        if (spec->licenses[i].license == number)
            return spec->licenses[i].count;
    return 0;
}

/* Its licences are counted as its: it has GPUs, leaves them, or takes turns on them. */
static bool holds(const struct scene *scene, const struct ctl_job *job)
{
    uint8_t state = job_in_core(job) && scene->core ? core_job(scene->core, job->slot)->state : JOB_FREE;

    return job_holds((enum job_state)state) || state == JOB_STOPPING || state == JOB_SUSPENDED;
}

static void holders_put(const struct scene *scene, struct json_write *json, uint32_t number)
{
    int shown = 0;

    json_write_array(json, "heldBy");
    for (size_t i = 0; i < scene->registry->live_count && shown < HOLDERS_MAX; i++) {
        const struct ctl_job *job = scene->registry->live[i];
        const struct ctl_attempt *attempt = attempt_last(job);
        uint32_t count = count_of(&job->wants, number);

        if (!count || !holds(scene, job))
            continue;
        json_write_object(json, NULL);
        json_write_i64(json, "job", job->id);
        json_write_text(json, "user", user_name(scene, job->user));
        json_write_i64(json, "count", count);
        put_time(json, "until",
                 job->wants.time_limit && attempt && attempt->started ? attempt->started + job->wants.time_limit : 0);
        json_write_close(json);
        shown++;
    }
    json_write_close(json);
}

static void numbers_put(const struct scene *scene, struct json_write *json, uint32_t number)
{
    uint64_t held = 0;
    uint32_t total = scene->core ? core_license(scene->core, number, &held) : 0;

    json_write_text(json, "name", license_name(scene, number));
    json_write_i64(json, "total", total);
    json_write_u64(json, "used", held);
    json_write_i64(json, "free", held < total ? (int64_t)(total - held) : 0);
}

void why_licenses(const struct scene *scene, struct json_write *json, const struct jobspec *spec)
{
    json_write_array(json, "licenses");
    for (uint32_t i = 0; i < spec->license_count; i++) {
        uint32_t number = spec->licenses[i].license;
        uint64_t held = 0;
        uint32_t total = scene->core ? core_license(scene->core, number, &held) : 0;

        json_write_object(json, NULL);
        numbers_put(scene, json, number);
        json_write_i64(json, "asks", spec->licenses[i].count);
        json_write_bool(json, "short", held + spec->licenses[i].count > total);
        holders_put(scene, json, number);
        json_write_close(json);
    }
    json_write_close(json);
}

void rest_licenses(struct request *request)
{
    struct buf out = BUF_INIT((size_t)4 << 20);
    struct json_write json;
    struct scene scene;

    scene_fill(&scene, request);
    list_begin(&json, &out, "LicenseList");
    for (uint32_t n = 0; scene.core && n < scene.cluster->license_count; n++) {
        int64_t jobs = 0;
        uint64_t held = 0;

        for (size_t i = 0; i < scene.registry->live_count; i++)
            jobs += scene.registry->live[i]->phase == PHASE_JOB_PENDING && count_of(&scene.registry->live[i]->wants, n);
        if (core_license(scene.core, n, &held) == 0 && held == 0 && jobs == 0)
            continue; /* a name of the past */
        json_write_object(&json, NULL);
        numbers_put(&scene, &json, n);
        json_write_i64(&json, "pending_jobs", jobs);
        holders_put(&scene, &json, n);
        json_write_close(&json);
    }
    list_end(&json, NULL);
    reply_buf(request, 200, &out);
}

void metrics_licenses(const struct scene *scene, struct buf *out)
{
    static const char *const names[2][2] = {
        { "muster_licenses", "Licences there are." },
        { "muster_licenses_used", "Licences that jobs hold." },
    };

    for (int f = 0; f < 2; f++) {
        metrics_family(out, names[f][0], "gauge", names[f][1]);
        for (uint32_t n = 0; scene->core && n < scene->cluster->license_count; n++) {
            uint64_t held;
            uint32_t total = core_license(scene->core, n, &held);

            if (total || held)
                metrics_sample(out, names[f][0], LABELS("license", license_name(scene, n)),
                               f ? (double)held : (double)total);
        }
    }
}
