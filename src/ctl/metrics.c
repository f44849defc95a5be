/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - GET /metrics in OpenMetrics: muster-metrics(7). Labels are bounded: nodes, types, virtual clusters,
 * states, reasons and routes, never jobs or users. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "core/ledger.h"
#include "ctl/feed.h"
#include "ctl/links.h"
#include "ctl/rest.h"
#include "ctl/stats.h"

static void family(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# TYPE %s %s\n# HELP %s %s\n", name, type, name, help);
}

/* A label value: backslash, quote and line break escaped. */
static void label(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            buf_char(out, '\\');
        if (*text == '\n')
            buf_text(out, "\\n");
        else
            buf_char(out, *text);
    }
}

static void sample(struct buf *out, const char *name, const char *key, const char *value, double number)
{
    buf_text(out, name);
    if (key) {
        buf_printf(out, "{%s=\"", key);
        label(out, value);
        buf_text(out, "\"}");
    }
    buf_printf(out, " %.12g\n", number);
}

static void sample_two(struct buf *out, const char *name, const char *const *keys, const char *const *values,
                       double number)
{
    buf_printf(out, "%s{%s=\"", name, keys[0]);
    label(out, values[0]);
    buf_printf(out, "\",%s=\"", keys[1]);
    label(out, values[1]);
    buf_printf(out, "\"} %.12g\n", number);
}

/* labels: "a=\"b\",c=\"d\"", escaped already. */
static void histogram_put(struct buf *out, const char *name, const char *labels, const struct histogram *histogram)
{
    const char *comma = *labels ? "," : "";
    uint64_t sum = 0;

    for (size_t i = 0; i < STATS_CLASSES; i++) {
        sum += histogram->count[i];
        buf_printf(out, "%s_bucket{%s%sle=\"%.12g\"} %" PRIu64 "\n", name, labels, comma, stats_bounds[i], sum);
    }
    sum += histogram->count[STATS_CLASSES];
    buf_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, sum);
    buf_printf(out, *labels ? "%s_count{%s} %" PRIu64 "\n" : "%s_count%s %" PRIu64 "\n", name, labels, sum);
    buf_printf(out, *labels ? "%s_sum{%s} %.12g\n" : "%s_sum%s %.12g\n", name, labels, (double)histogram->sum / 1e6);
}

static uint64_t histogram_all(const struct histogram *histogram)
{
    uint64_t sum = 0;

    for (size_t i = 0; i <= STATS_CLASSES; i++)
        sum += histogram->count[i];
    return sum;
}

static void put_nodes(const struct scene *scene, struct buf *out)
{
    static const char *const states[] = { "idle", "mixed", "alloc", "drain", "draining", "down", "unknown" };
    unsigned count[7] = { 0 };

    for (size_t i = 0; i < scene->book->node_count; i++) {
        struct node_use use;

        if (scene->book->nodes[i].forgotten)
            continue;
        node_use(scene, &scene->book->nodes[i], &use);
        for (size_t s = 0; s < 7; s++)
            count[s] += strcmp(states[s], node_state(&scene->book->nodes[i], &use)) == 0;
    }
    family(out, "muster_nodes", "gauge", "Nodes by state.");
    for (size_t s = 0; s < 7; s++)
        sample(out, "muster_nodes", "state", states[s], count[s]);
    family(out, "muster_node_up", "gauge", "1 while the node's agent is heard.");
    for (size_t i = 0; i < scene->book->node_count; i++)
        if (!scene->book->nodes[i].forgotten)
            sample(out, "muster_node_up", "node", node_name(scene, (uint32_t)i),
                   scene->book->nodes[i].connected && !scene->book->nodes[i].silent);
    family(out, "muster_node_heartbeat_age_seconds", "gauge", "Since the last beat of the node's agent.");
    for (size_t i = 0; i < scene->book->node_count; i++)
        if (!scene->book->nodes[i].forgotten && scene->book->nodes[i].seen)
            sample(out, "muster_node_heartbeat_age_seconds", "node", node_name(scene, (uint32_t)i),
                   (double)(scene->now - scene->book->nodes[i].seen) / 1e6);
}

/* One figure of every GPU. */
enum gpu_figure {
    FIGURE_UTIL,
    FIGURE_MEMORY,
    FIGURE_MEMORY_ALL,
    FIGURE_POWER,
    FIGURE_TEMP,
    FIGURE_HEALTH,
    FIGURE_FOREIGN,
    FIGURES
};

static double figure_of(const struct book_node *node, uint32_t index, enum gpu_figure figure)
{
    const struct book_gpu *gpu = &node->gpus[index];

    switch (figure) {
    case FIGURE_UTIL:
        return gpu->util / 100.0;
    case FIGURE_MEMORY:
        return (double)gpu->memory_mib * 1048576.0;
    case FIGURE_MEMORY_ALL:
        return (double)json_integer_value(json_object_get(node->inventory, "memory_mib")) * 1048576.0;
    case FIGURE_POWER:
        return gpu->power;
    case FIGURE_TEMP:
        return gpu->temp;
    case FIGURE_HEALTH:
        return gpu->ok;
    case FIGURE_FOREIGN:
        return gpu->foreign;
    case FIGURES:
        break;
    }
    return 0;
}

static void put_gpus(const struct scene *scene, struct buf *out)
{
    static const char *const names[FIGURES][2] = {
        { "muster_gpu_utilization_ratio", "How busy the GPU is." },
        { "muster_gpu_memory_used_bytes", "GPU memory in use." },
        { "muster_gpu_memory_total_bytes", "GPU memory there is." },
        { "muster_gpu_power_watts", "Power drawn." },
        { "muster_gpu_temperature_celsius", "Temperature." },
        { "muster_gpu_health", "1 while the GPU is in order." },
        { "muster_gpu_foreign", "1 while processes that muster did not start use it." },
    };

    for (int f = 0; f < FIGURES; f++) {
        family(out, names[f][0], "gauge", names[f][1]);
        for (size_t i = 0; i < scene->book->node_count; i++) {
            const struct book_node *node = &scene->book->nodes[i];
            const char *sku = json_string_value(json_object_get(node->inventory, "sku"));

            for (uint32_t g = 0; !node->forgotten && g < node->gpu_count; g++) {
                buf_printf(out, "%s{node=\"", names[f][0]);
                label(out, node_name(scene, (uint32_t)i));
                buf_printf(out, "\",gpu=\"%u\",sku=\"", g);
                label(out, sku ? sku : "");
                buf_printf(out, "\"} %.12g\n", figure_of(node, g, (enum gpu_figure)f));
            }
        }
    }
}

/* GPUs of each type by state, the largest hole, and how broken the free ones are. */
static void put_types(const struct scene *scene, struct buf *out)
{
    static const char *const keys[] = { "sku", "state" }, *const states[] = { "used", "free", "down", "foreign" };
    double total[SKUS_MAX][4] = { 0 }, biggest[SKUS_MAX] = { 0 };

    for (size_t i = 0; i < scene->book->node_count; i++) {
        const struct book_node *node = &scene->book->nodes[i];
        const char *type = json_string_value(json_object_get(node->inventory, "sku"));
        struct node_use use;

        for (uint32_t sku = 0; type && !node->forgotten && sku < scene->cluster->sku_count; sku++) {
            if (strcmp(type, names_get(&scene->cluster->names, scene->cluster->skus[sku].name)) != 0)
                continue;
            node_use(scene, node, &use);
            total[sku][0] += use.used;
            total[sku][1] += use.free;
            total[sku][2] += use.down;
            total[sku][3] += use.foreign;
            biggest[sku] = use.free > biggest[sku] ? use.free : biggest[sku];
        }
    }
    family(out, "muster_gpus", "gauge", "GPUs by type and state.");
    for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++)
        for (int s = 0; s < 4; s++)
            sample_two(
                out, "muster_gpus", keys,
                (const char *const[]){ names_get(&scene->cluster->names, scene->cluster->skus[sku].name), states[s] },
                total[sku][s]);
    family(out, "muster_largest_gang_gpus", "gauge", "GPUs of the largest job that would start now.");
    for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++)
        sample(out, "muster_largest_gang_gpus", "sku",
               names_get(&scene->cluster->names, scene->cluster->skus[sku].name), total[sku][1]);
    family(out, "muster_fragmentation_ratio", "gauge", "Part of the free GPUs outside the node that has most.");
    for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++)
        sample(out, "muster_fragmentation_ratio", "sku",
               names_get(&scene->cluster->names, scene->cluster->skus[sku].name),
               total[sku][1] > 0 ? 1 - biggest[sku] / total[sku][1] : 0);
}

static void put_vcs(const struct scene *scene, struct buf *out)
{
    static const char *const keys[] = { "vc", "sku" };
    static const char *const names[2] = { "muster_vc_gpus_guaranteed", "muster_vc_gpus_used" };
    static const char *const help[2] = { "GPUs owed.", "GPUs held by guaranteed jobs." };
    uint32_t count = scene->core ? core_vc_count(scene->core) : 0;

    for (int n = 0; n < 2; n++) {
        family(out, names[n], "gauge", help[n]);
        for (uint32_t v = 0; v < count; v++)
            for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++)
                sample_two(out, names[n], keys,
                           (const char *const[]){ vc_name(scene, v),
                                                  names_get(&scene->cluster->names, scene->cluster->skus[sku].name) },
                           (double)(n ? core_vc(scene->core, v)->used[sku] : core_vc(scene->core, v)->quota[sku]) /
                               MGPU_ONE);
    }
    family(out, "muster_vc_gpus_borrowed", "gauge", "GPUs used beyond what is owed.");
    for (uint32_t v = 0; v < count; v++)
        sample(out, "muster_vc_gpus_borrowed", "vc", vc_name(scene, v),
               (double)core_vc(scene->core, v)->borrowed / MGPU_ONE);
}

/* Jobs by virtual cluster and state; those that wait also by reason. */
static void put_jobs(const struct scene *scene, struct buf *out)
{
    static const char *const by_state[] = { "vc", "state" }, *const by_reason[] = { "vc", "reason" };
    enum { REASONS_SEEN = REASON_COUNT + GATE_COUNT + 2 };
    uint32_t vcs = scene->cluster->vc_count;
    uint32_t(*state)[PHASE_JOB_COUNT] = mem_zalloc(vcs + 1, sizeof(*state));
    struct wait_sum {
        const char *code;
        uint32_t vc, jobs;
        int64_t gpus;
    } *sums = mem_zalloc((size_t)(vcs + 1) * REASONS_SEEN, sizeof(*sums));
    size_t sum_count = 0;

    for (size_t i = 0; state && sums && i < scene->book->live_count; i++) {
        const struct book_job *job = scene->book->live[i];
        uint32_t vc = job->vc < vcs ? job->vc : vcs;
        const char *code;
        char text[256];
        size_t s = 0;

        state[vc][job->phase]++;
        if (job->phase != PHASE_JOB_PENDING || !render_reason(scene, job, &code, text, sizeof(text)))
            continue;
        while (s < sum_count && (sums[s].vc != vc || strcmp(sums[s].code, code) != 0))
            s++;
        if (s == sum_count && sum_count < (size_t)(vcs + 1) * REASONS_SEEN)
            sums[sum_count++] = (struct wait_sum){ code, vc, 0, 0 };
        if (s < sum_count) {
            sums[s].jobs++;
            sums[s].gpus += job->wants.gpus;
        }
    }
    family(out, "muster_jobs", "gauge", "Jobs that are not over, by state.");
    for (uint32_t v = 0; state && v < vcs; v++)
        for (int p = 0; p < PHASE_JOB_COMPLETED; p++)
            sample_two(out, "muster_jobs", by_state,
                       (const char *const[]){ vc_name(scene, v), phase_name((enum phase_of_job)p) }, state[v][p]);
    family(out, "muster_jobs_pending", "gauge", "Jobs that wait, by reason.");
    for (size_t s = 0; s < sum_count; s++)
        sample_two(out, "muster_jobs_pending", by_reason,
                   (const char *const[]){ vc_name(scene, sums[s].vc), sums[s].code }, sums[s].jobs);
    family(out, "muster_gpus_pending", "gauge", "GPUs that waiting jobs ask for, by reason.");
    for (size_t s = 0; s < sum_count; s++)
        sample_two(out, "muster_gpus_pending", by_reason,
                   (const char *const[]){ vc_name(scene, sums[s].vc), sums[s].code }, (double)sums[s].gpus);
    mem_free(state);
    mem_free(sums);
}

static void put_finished(const struct scene *scene, struct buf *out)
{
    const struct stats *stats = scene->server->stats;
    static const char *const keys[] = { "vc", "result" };
    uint32_t vcs = scene->cluster->vc_count < STATS_VCS_MAX ? scene->cluster->vc_count : STATS_VCS_MAX;

    family(out, "muster_jobs_finished", "counter", "Jobs that ended since the controller started.");
    for (uint32_t v = 0; v < vcs; v++)
        for (int p = PHASE_JOB_COMPLETED; p < PHASE_JOB_COUNT; p++)
            if (stats->finished[v][p])
                sample_two(out, "muster_jobs_finished_total", keys,
                           (const char *const[]){ vc_name(scene, v), phase_name((enum phase_of_job)p) },
                           (double)stats->finished[v][p]);
    for (int n = 0; n < 2; n++) {
        const char *name = n ? "muster_job_run_seconds" : "muster_job_wait_seconds";

        family(out, name, "histogram", n ? "From the last start to the end." : "From submission to the first start.");
        for (uint32_t v = 0; v < vcs; v++)
            for (int s = 0; s < SIZE_CLASSES; s++) {
                const struct histogram *h = n ? &stats->run[v][s] : &stats->wait[v][s];
                char labels[300];

                if (histogram_all(h) == 0)
                    continue;
                (void)snprintf(labels, sizeof(labels), "vc=\"%s\",size=\"%s\"", vc_name(scene, v), stats_sizes[s]);
                histogram_put(out, name, labels, h);
            }
    }
}

static void put_self(const struct scene *scene, struct buf *out)
{
    const struct server *server = scene->server;
    const struct stats *stats = server->stats;

    family(out, "muster_build_info", "gauge", "The version, as a label.");
    sample(out, "muster_build_info", "version", MUSTER_VERSION, 1);
    family(out, "muster_leader", "gauge", "1 on the controller that decides.");
    sample(out, "muster_leader", NULL, NULL, 1);
    family(out, "muster_sched_cycles", "counter", "Batches applied.");
    sample(out, "muster_sched_cycles_total", NULL, NULL, (double)ctl_seq(drive_ctl(server->drive)));
    family(out, "muster_sched_last_cycle_timestamp_seconds", "gauge", "When the last batch was applied.");
    sample(out, "muster_sched_last_cycle_timestamp_seconds", NULL, NULL,
           (double)ctl_now(drive_ctl(server->drive)) / 1e6);
    family(out, "muster_sched_decisions", "counter", "Decisions of the core.");
    sample(out, "muster_sched_decisions_total", NULL, NULL, scene->core ? (double)core_decisions(scene->core) : 0);
    family(out, "muster_agents_connected", "gauge", "Agents with a connection.");
    sample(out, "muster_agents_connected", NULL, NULL, (double)links_count(server->links));
    family(out, "muster_agent_reports", "counter", "Reports taken from agents.");
    sample(out, "muster_agent_reports_total", NULL, NULL, (double)stats->reports);
    family(out, "muster_agent_frames_bad", "counter", "Connections of agents dropped for what they sent.");
    sample(out, "muster_agent_frames_bad_total", NULL, NULL, (double)stats->frames_bad);
    family(out, "muster_clients", "gauge", "Connections that speak HTTP.");
    sample(out, "muster_clients", NULL, NULL, (double)http_server_clients(server->http));
    family(out, "muster_event_streams", "gauge", "Who listens to events.");
    sample(out, "muster_event_streams", NULL, NULL, (double)feed_listeners(server->feed));
    family(out, "muster_submitted_jobs", "counter", "Jobs accepted.");
    sample(out, "muster_submitted_jobs_total", NULL, NULL, (double)scene->book->submitted);
    family(out, "muster_api_request_seconds", "histogram", "From the last byte of a request to its answer.");
    for (size_t r = 0; r < route_count && r < STATS_ROUTES_MAX; r++)
        for (int c = 1; c < 6; c++)
            if (histogram_all(&stats->routes[r].took[c])) {
                char labels[300];

                (void)snprintf(labels, sizeof(labels), "route=\"%s\",method=\"%s\",code=\"%dxx\"",
                               routes[r].path + (strncmp(routes[r].path, "//", 2) == 0), routes[r].method, c);
                histogram_put(out, "muster_api_request_seconds", labels, &stats->routes[r].took[c]);
            }
}

void rest_metrics(struct request *request)
{
    struct buf out = BUF_INIT((size_t)64 << 20);
    struct scene scene;

    scene_fill(&scene, request);
    put_self(&scene, &out);
    put_nodes(&scene, &out);
    put_types(&scene, &out);
    put_vcs(&scene, &out);
    put_jobs(&scene, &out);
    put_finished(&scene, &out);
    put_gpus(&scene, &out);
    buf_text(&out, "# EOF\n");
    if (out.error)
        reply_problem(request, 500, "Internal", NULL, "too many figures");
    else
        reply(request, 200, "application/openmetrics-text; version=1.0.0; charset=utf-8", out.data, out.size);
    buf_done(&out);
}
