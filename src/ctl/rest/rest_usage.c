/* SPDX-License-Identifier: Apache-2.0 */
/* rest_usage.c - GET /usage, /vcs/{name}/usage: use over time. */
#include <errno.h>

#include "base/alloc.h"
#include "ctl/insight/watch.h"
#include "ctl/rest/rest.h"

enum { POINTS_MAX = 3000 };

/* A window of the past and the steps it is told in. */
struct window {
    usec_t from, to, step;
    unsigned tier;
};

/* ?from ?to; an hour unless told. -EINVAL, answered. */
static int window_read(struct request *request, const struct scene *scene, struct window *ret)
{
    ret->to = scene->now;
    ret->from = scene->now - USEC_HOUR;
    if (query_time(request, "from", &ret->from) < 0 || query_time(request, "to", &ret->to) < 0)
        return -EINVAL;
    if (ret->to > scene->now)
        ret->to = scene->now;
    if (ret->from >= ret->to || ret->from < 0) {
        reply_problem(request, 400, "BadRequest", NULL, "from: must be before to");
        return -EINVAL;
    }
    ret->tier = series_tier_for(ret->from, scene->now);
    ret->step = series_tiers[ret->tier].step;
    if ((ret->to - ret->from) / ret->step > POINTS_MAX)
        ret->from = ret->to - POINTS_MAX * ret->step;
    ret->from = ret->from / ret->step * ret->step;
    return 0;
}

struct figure {
    const char *line, *key; /* last part of the line's name; key in the answer */
};

/* One object an instant at which anything was measured. */
static void series_put_json(const struct scene *scene, struct json_write *json, const char *base,
                            const struct figure *figures, const struct window *window)
{
    const struct series *series = watch_series(scene->server->watch);
    const struct series_line *lines[8] = { 0 };
    size_t count = 0;

    for (; figures[count].line; count++) {
        char name[SERIES_NAME_MAX];

        (void)snprintf(name, sizeof(name), "%s/%s", base, figures[count].line);
        for (char *at = name; *at; at++)
            *at = *at == ' ' ? '_' : *at;
        lines[count] = series_find(series, name);
    }
    json_write_array(json, "series");
    for (usec_t at = window->from; at <= window->to; at += window->step) {
        int32_t value = lines[0] ? series_at(lines[0], window->tier, at) : SERIES_NONE;

        if (value == SERIES_NONE)
            continue;
        json_write_object(json, NULL);
        put_time(json, "time", at);
        for (size_t i = 0; i < count; i++) {
            value = lines[i] ? series_at(lines[i], window->tier, at) : SERIES_NONE;
            if (value == SERIES_NONE)
                json_write_null(json, figures[i].key);
            else
                json_write_double(json, figures[i].key, value / 1000.0);
        }
        json_write_close(json);
    }
    json_write_close(json);
}

/* GPUs and jobs of each user in a virtual cluster. */
static void users_put(const struct scene *scene, struct json_write *json, uint32_t vc)
{
    struct use {
        int64_t gpus, running, pending;
    } *use = mem_zalloc(scene->registry->users.count + 1, sizeof(*use));

    for (size_t i = 0; use && i < scene->registry->live_count; i++) {
        const struct ctl_job *job = scene->registry->live[i];

        if (job->vc != vc || job->user >= scene->registry->users.count || !render_shows(scene, job))
            continue;
        if (job->phase == PHASE_JOB_PENDING) {
            use[job->user].pending++;
        } else {
            use[job->user].running++;
            use[job->user].gpus += jobspec_gpus(&job->wants);
        }
    }
    for (uint32_t u = 0; use && u < scene->registry->users.count; u++) {
        if (use[u].running + use[u].pending == 0)
            continue;
        json_write_object(json, NULL);
        json_write_text(json, "user", user_name(scene, u));
        json_write_i64(json, "gpus", use[u].gpus);
        json_write_i64(json, "running_jobs", use[u].running);
        json_write_i64(json, "pending_jobs", use[u].pending);
        json_write_close(json);
    }
    mem_free(use);
}

void rest_vc_usage(struct request *request)
{
    static const char *const known[] = { "from", "to", NULL };
    static const struct figure figures[] = { { "guaranteed", "guaranteed" },
                                             { "used", "used" },
                                             { "borrowed", "borrowed" },
                                             { "lent", "lent" },
                                             { "oppo", "opportunistic" },
                                             { "pending", "pending_gpus" },
                                             { NULL, NULL } };
    struct buf out = BUF_INIT((size_t)16 << 20);
    struct json_write json;
    struct window window;
    struct scene scene;
    char base[SERIES_NAME_MAX];
    uint32_t vc = request_vc(request, &scene);

    if (vc == UINT32_MAX || !query_known(request, known) || window_read(request, &scene, &window) < 0)
        return;
    list_begin(&json, &out, "VcUsageList");
    users_put(&scene, &json, vc);
    json_write_close(&json);
    json_write_null(&json, "next");
    json_write_i64(&json, "step_seconds", window.step / USEC_SEC);
    (void)snprintf(base, sizeof(base), "vc/%s", vc_name(&scene, vc));
    series_put_json(&scene, &json, base, figures, &window);
    json_write_close(&json);
    reply_buf(request, 200, &out);
}

void rest_usage(struct request *request)
{
    static const char *const known[] = { "from", "to", NULL };
    static const struct figure figures[] = { { "used", "used" },
                                             { "free", "free" },
                                             { "down", "down" },
                                             { "foreign", "foreign" },
                                             { "busy", "busy" },
                                             { "largest_gang", "largest_gang" },
                                             { "fragmentation", "fragmentation" },
                                             { NULL, NULL } };
    struct buf out = BUF_INIT((size_t)32 << 20);
    struct json_write json;
    struct window window;
    struct scene scene;

    scene_fill(&scene, request);
    if (!query_known(request, known) || window_read(request, &scene, &window) < 0)
        return;
    list_begin(&json, &out, "UsageList");
    for (uint32_t sku = 0; sku < scene.cluster->sku_count; sku++) {
        const char *name = names_get(&scene.cluster->names, scene.cluster->skus[sku].name);
        char base[SERIES_NAME_MAX];

        json_write_object(&json, NULL);
        json_write_text(&json, "sku", name);
        (void)snprintf(base, sizeof(base), "sku/%s", name);
        series_put_json(&scene, &json, base, figures, &window);
        json_write_close(&json);
    }
    json_write_close(&json);
    json_write_null(&json, "next");
    json_write_i64(&json, "step_seconds", window.step / USEC_SEC);
    json_write_close(&json);
    reply_buf(request, 200, &out);
}
