/* SPDX-License-Identifier: Apache-2.0 */
/* rest_schedule.c - GET /schedule: past and planned occupancy of nodes. */
#include "ctl/insight/forecast.h"
#include "ctl/rest/rest.h"

static void interval_put(struct json_write *json, int64_t job, const char *node, usec_t start, usec_t end)
{
    json_write_object(json, NULL);
    json_write_i64(json, "job", job);
    json_write_text(json, "node", node);
    put_time(json, "start", start);
    put_time(json, "end", end);
}

/* Attempts that touched the window; of one that runs, when it is expected to leave its GPUs. */
static void past_put(const struct scene *scene, struct json_write *json, const struct ctl_job *job, usec_t from,
                     usec_t to)
{
    usec_t until = phase_over(job->phase) ? 0 : forecast_leave(scene->server->forecast, job->id);

    for (uint32_t a = 0; a < job->attempt_count; a++) {
        const struct ctl_attempt *attempt = &job->attempts[a];

        if (!attempt->started || attempt->started > to || (attempt->ended && attempt->ended < from))
            continue;
        for (uint32_t t = 0; t < attempt->task_count; t++) {
            interval_put(json, job->id, node_name(scene, attempt->tasks[t].node), attempt->started, attempt->ended);
            json_write_array(json, "gpus");
            for (uint16_t g = 0; g < attempt->tasks[t].gpu_count; g++)
                json_write_i64(json, NULL, attempt->tasks[t].gpus[g]);
            json_write_close(json);
            json_write_i64(json, "attempt", attempt->number);
            json_write_text(json, "user", user_name(scene, job->user));
            json_write_text(json, "vc", vc_name(scene, job->vc));
            json_write_text(json, "state", phase_name(attempt->phase));
            json_write_bool(json, "planned", false);
            put_time(json, "until", attempt->ended ? 0 : until);
            json_write_close(json);
        }
    }
}

/* The node of the registry that is this node of the core. */
static const char *core_node_name(const struct scene *scene, uint32_t node)
{
    for (size_t i = 0; i < scene->registry->node_count; i++)
        if (scene->registry->nodes[i].core_node == node)
            return node_name(scene, (uint32_t)i);
    return "";
}

static void planned_put(const struct scene *scene, struct json_write *json, usec_t to)
{
    const struct ledger *ledger = scene->core ? core_ledger(scene->core) : NULL;
    const uint32_t *gpus;
    size_t count;
    const struct planned *planned = forecast_planned(scene->server->forecast, &count, &gpus);

    for (size_t i = 0; ledger && i < count && planned[i].start <= to; i++) {
        const struct ctl_job *job = registry_find(scene->registry, planned[i].job);
        uint32_t at = 0;

        while (job && render_shows(scene, job) && at < planned[i].gpu_count) {
            uint32_t node = ledger->gpus[gpus[planned[i].gpu_first + at]].node;

            interval_put(json, planned[i].job, core_node_name(scene, node), planned[i].start, planned[i].end);
            json_write_array(json, "gpus");
            for (; at < planned[i].gpu_count && ledger->gpus[gpus[planned[i].gpu_first + at]].node == node; at++)
                json_write_i64(json, NULL, gpus[planned[i].gpu_first + at] - ledger->topo.nodes[node].first_gpu);
            json_write_close(json);
            json_write_i64(json, "attempt", job->attempt_count);
            json_write_text(json, "user", user_name(scene, job->user));
            json_write_text(json, "vc", vc_name(scene, job->vc));
            json_write_text(json, "state", "PENDING");
            json_write_bool(json, "planned", true);
            put_time(json, "until", 0);
            json_write_close(json);
        }
    }
}

void rest_schedule(struct request *request)
{
    static const char *const known[] = { "from", "to", NULL };
    struct buf out = BUF_INIT((size_t)64 << 20);
    struct json_write json;
    struct scene scene;
    usec_t from, to;

    scene_fill(&scene, request);
    from = scene.now - 6 * USEC_HOUR;
    to = scene.now + USEC_DAY;
    if (!query_known(request, known) || query_time(request, "from", &from) < 0 || query_time(request, "to", &to) < 0)
        return;
    list_begin(&json, &out, "ScheduleList");
    for (size_t i = 0; i < scene.registry->finished_capacity; i++)
        if (scene.registry->finished[i] && render_shows(&scene, scene.registry->finished[i]))
            past_put(&scene, &json, scene.registry->finished[i], from, to);
    for (size_t i = 0; i < scene.registry->live_count; i++)
        if (render_shows(&scene, scene.registry->live[i]))
            past_put(&scene, &json, scene.registry->live[i], from, to);
    planned_put(&scene, &json, to);
    json_write_close(&json);
    json_write_null(&json, "next");
    json_write_array(&json, "nodes");
    for (size_t i = 0; i < scene.registry->node_count; i++)
        if (!scene.registry->nodes[i].forgotten)
            json_write_text(&json, NULL, node_name(&scene, (uint32_t)i));
    json_write_close(&json);
    put_time(&json, "now", scene.now);
    json_write_close(&json);
    reply_buf(request, 200, &out);
}
