/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - GET /metrics in OpenMetrics: muster-metrics(7). Labels are bounded: nodes, types, virtual clusters,
 * states, reasons and routes, never jobs or users. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "core/ledger/ledger.h"
#include "ctl/daemon/links.h"
#include "ctl/insight/feed.h"
#include "ctl/insight/metrics_internal.h"
#include "ctl/insight/watch.h"

void metrics_family(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# TYPE %s %s\n# HELP %s %s\n", name, type, name, help);
}

void metrics_label(struct buf *out, const char *text)
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

/* {a="b",c="d"}, with le where it is told; nothing where there is none. */
static void labels_put(struct buf *out, const char *const *labels, const char *le)
{
    const char *mark = "{";

    for (; labels && labels[0]; labels += 2) {
        buf_printf(out, "%s%s=\"", mark, labels[0]);
        metrics_label(out, labels[1]);
        buf_char(out, '"');
        mark = ",";
    }
    if (le) {
        buf_printf(out, "%sle=\"%s\"", mark, le);
        mark = ",";
    }
    if (*mark == ',')
        buf_char(out, '}');
}

void metrics_sample(struct buf *out, const char *name, const char *const *labels, double number)
{
    buf_text(out, name);
    labels_put(out, labels, NULL);
    buf_printf(out, " %.12g\n", number);
}

void metrics_histogram(struct buf *out, const char *name, const char *const *labels, const struct histogram *histogram)
{
    uint64_t sum = 0;
    char bound[32];

    for (size_t i = 0; i <= STATS_CLASSES; i++) {
        sum += histogram->count[i];
        if (i < STATS_CLASSES)
            (void)snprintf(bound, sizeof(bound), "%.12g", stats_bounds[i]);
        else
            (void)snprintf(bound, sizeof(bound), "+Inf");
        /* A bound is a float, and is written as one. */
        if (i < STATS_CLASSES && !strchr(bound, '.') && !strchr(bound, 'e'))
            (void)strncat(bound, ".0", sizeof(bound) - strlen(bound) - 1);
        buf_printf(out, "%s_bucket", name);
        labels_put(out, labels, bound);
        buf_printf(out, " %" PRIu64 "\n", sum);
    }
    buf_printf(out, "%s_count", name);
    labels_put(out, labels, NULL);
    buf_printf(out, " %" PRIu64 "\n%s_sum", sum, name);
    labels_put(out, labels, NULL);
    buf_printf(out, " %.12g\n", (double)histogram->sum / 1e6);
}

uint64_t histogram_all(const struct histogram *histogram)
{
    uint64_t sum = 0;

    for (size_t i = 0; i <= STATS_CLASSES; i++)
        sum += histogram->count[i];
    return sum;
}

static void put_nodes(const struct scene *scene, struct buf *out)
{
    static const char *const states[] = { "idle", "mixed", "alloc", "drain", "draining", "down", "maint", "unknown" };
    unsigned count[sizeof(states) / sizeof(states[0])] = { 0 };

    for (size_t i = 0; i < scene->registry->node_count; i++) {
        struct node_use use;

        if (scene->registry->nodes[i].forgotten)
            continue;
        node_use(scene, &scene->registry->nodes[i], &use);
        for (size_t s = 0; s < sizeof(states) / sizeof(states[0]); s++)
            count[s] += strcmp(states[s], node_state(&scene->registry->nodes[i], &use)) == 0;
    }
    metrics_family(out, "muster_nodes", "gauge", "Nodes by state.");
    for (size_t s = 0; s < sizeof(states) / sizeof(states[0]); s++)
        metrics_sample(out, "muster_nodes", LABELS("state", states[s]), count[s]);
    metrics_family(out, "muster_node_up", "gauge", "1 while the node's agent is heard.");
    for (size_t i = 0; i < scene->registry->node_count; i++)
        if (!scene->registry->nodes[i].forgotten)
            metrics_sample(out, "muster_node_up", LABELS("node", node_name(scene, (uint32_t)i)),
                           scene->registry->nodes[i].connected && !scene->registry->nodes[i].silent);
    metrics_family(out, "muster_node_heartbeat_age_seconds", "gauge", "Since the last beat of the node's agent.");
    for (size_t i = 0; i < scene->registry->node_count; i++)
        if (!scene->registry->nodes[i].forgotten && scene->registry->nodes[i].seen)
            metrics_sample(out, "muster_node_heartbeat_age_seconds", LABELS("node", node_name(scene, (uint32_t)i)),
                           (double)(scene->now - scene->registry->nodes[i].seen) / 1e6);
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

static double figure_of(const struct ctl_node *node, uint32_t index, enum gpu_figure figure)
{
    const struct ctl_gpu *gpu = &node->gpus[index];

    switch (figure) {
    case FIGURE_UTIL:
        return gpu->util / 100.0;
    case FIGURE_MEMORY:
        return (double)gpu->memory_mib * 1048576.0;
    case FIGURE_MEMORY_ALL:
        return (double)inventory_number(node->inventory.memory_mib, 0) * 1048576.0;
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
        metrics_family(out, names[f][0], "gauge", names[f][1]);
        for (size_t i = 0; i < scene->registry->node_count; i++) {
            const struct ctl_node *node = &scene->registry->nodes[i];
            const char *sku = node->inventory.sku;

            for (uint32_t g = 0; !node->forgotten && g < node->gpu_count; g++) {
                char number[16];

                (void)snprintf(number, sizeof(number), "%u", g);
                metrics_sample(out, names[f][0],
                               LABELS("node", node_name(scene, (uint32_t)i), "gpu", number, "sku", sku ? sku : ""),
                               figure_of(node, g, (enum gpu_figure)f));
            }
        }
    }
}

static const char *sku_name(const struct scene *scene, uint32_t sku)
{
    return names_get(&scene->cluster->names, scene->cluster->skus[sku].name);
}

/* GPUs of each type by state, the largest hole, and how broken the free ones are. */
static void put_types(const struct scene *scene, struct buf *out)
{
    static const char *const states[] = { "used", "free", "down", "foreign" };
    double total[SKUS_MAX][4] = { 0 }, biggest[SKUS_MAX] = { 0 }, drained[SKUS_MAX] = { 0 }, ill[SKUS_MAX] = { 0 };

    for (size_t i = 0; i < scene->registry->node_count; i++) {
        const struct ctl_node *node = &scene->registry->nodes[i];
        uint32_t sku = node_sku(scene, node);
        struct node_use use;

        if (node->forgotten || sku >= SKUS_MAX)
            continue;
        node_use(scene, node, &use);
        total[sku][0] += use.used;
        total[sku][1] += use.free;
        total[sku][2] += use.down;
        total[sku][3] += use.foreign;
        drained[sku] += use.drained;
        ill[sku] += use.unhealthy;
        biggest[sku] = use.free > biggest[sku] ? use.free : biggest[sku];
    }
    metrics_family(out, "muster_gpus", "gauge", "GPUs by type and state.");
    for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++)
        for (int s = 0; s < 4; s++)
            metrics_sample(out, "muster_gpus", LABELS("sku", sku_name(scene, sku), "state", states[s]), total[sku][s]);
    metrics_family(out, "muster_gpus_drained", "gauge", "GPUs that are drained, or whose node is, in use or not.");
    for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++)
        metrics_sample(out, "muster_gpus_drained", LABELS("sku", sku_name(scene, sku)), drained[sku]);
    metrics_family(out, "muster_gpus_unhealthy", "gauge", "GPUs that are out of order, in use or not.");
    for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++)
        metrics_sample(out, "muster_gpus_unhealthy", LABELS("sku", sku_name(scene, sku)), ill[sku]);
    metrics_family(out, "muster_largest_gang_gpus", "gauge", "GPUs that nobody holds or keeps, on nodes that are up.");
    for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++)
        metrics_sample(out, "muster_largest_gang_gpus", LABELS("sku", sku_name(scene, sku)), largest_gang(scene, sku));
    metrics_family(out, "muster_fragmentation_ratio", "gauge", "Part of the free GPUs outside the node that has most.");
    for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++)
        metrics_sample(out, "muster_fragmentation_ratio", LABELS("sku", sku_name(scene, sku)),
                       total[sku][1] > 0 ? 1 - biggest[sku] / total[sku][1] : 0);
}

static void put_faults(const struct scene *scene, struct buf *out)
{
    size_t count;
    const struct gpu_fault *faults = watch_faults(scene->server->watch, &count);

    metrics_family(out, "muster_gpu_xid", "counter", "Times a GPU went out of order, by the error it told.");
    for (size_t i = 0; i < count; i++) {
        char number[16];

        (void)snprintf(number, sizeof(number), "%u", faults[i].gpu);
        metrics_sample(out, "muster_gpu_xid_total",
                       LABELS("node", node_name(scene, faults[i].node), "gpu", number, "xid", faults[i].xid),
                       faults[i].count);
    }
}

static void put_self(const struct scene *scene, struct buf *out)
{
    const struct server *server = scene->server;
    const struct stats *stats = server->stats;
    usec_t due = ctl_next_wake(batcher_ctl(server->batcher));

    metrics_family(out, "muster_build_info", "gauge", "The version, as a label.");
    metrics_sample(out, "muster_build_info", LABELS("version", MUSTER_VERSION), 1);
    metrics_family(out, "muster_leader", "gauge", "1 on the controller that decides.");
    metrics_sample(out, "muster_leader", NULL, 1);
    metrics_family(out, "muster_sched_cycles", "counter", "Batches applied.");
    metrics_sample(out, "muster_sched_cycles_total", NULL, (double)ctl_seq(batcher_ctl(server->batcher)));
    metrics_family(out, "muster_sched_last_cycle_timestamp_seconds", "gauge", "When the last batch was applied.");
    metrics_sample(out, "muster_sched_last_cycle_timestamp_seconds", NULL,
                   (double)ctl_now(batcher_ctl(server->batcher)) / 1e6);
    metrics_family(out, "muster_sched_overdue_seconds", "gauge",
                   "How long the next batch is late; 0 while none is due.");
    metrics_sample(out, "muster_sched_overdue_seconds", NULL, due < scene->now ? (double)(scene->now - due) / 1e6 : 0);
    metrics_family(out, "muster_sched_decisions", "counter", "Decisions of the core.");
    metrics_sample(out, "muster_sched_decisions_total", NULL, scene->core ? (double)core_decisions(scene->core) : 0);
    metrics_family(out, "muster_agents_connected", "gauge", "Agents with a connection.");
    metrics_sample(out, "muster_agents_connected", NULL, (double)links_count(server->links));
    metrics_family(out, "muster_agent_reports", "counter", "Reports taken from agents.");
    metrics_sample(out, "muster_agent_reports_total", NULL, (double)stats->reports);
    metrics_family(out, "muster_agent_frames_bad", "counter", "Connections of agents dropped for what they sent.");
    metrics_sample(out, "muster_agent_frames_bad_total", NULL, (double)stats->frames_bad);
    metrics_family(out, "muster_clients", "gauge", "Connections that speak HTTP.");
    metrics_sample(out, "muster_clients", NULL, (double)http_server_clients(server->http));
    metrics_family(out, "muster_event_streams", "gauge", "Who listens to events.");
    metrics_sample(out, "muster_event_streams", NULL, (double)feed_listeners(server->feed));
    metrics_family(out, "muster_submitted_jobs", "counter", "Jobs accepted.");
    metrics_sample(out, "muster_submitted_jobs_total", NULL, (double)scene->registry->submitted);
    metrics_family(out, "muster_api_request_seconds", "histogram", "From the last byte of a request to its answer.");
    for (size_t r = 0; r < route_count && r < STATS_ROUTES_MAX; r++)
        for (int c = 1; c < 6; c++) {
            char code[8];

            if (histogram_all(&stats->routes[r].took[c]) == 0)
                continue;
            (void)snprintf(code, sizeof(code), "%dxx", c);
            metrics_histogram(out, "muster_api_request_seconds",
                              LABELS("route", routes[r].path + (strncmp(routes[r].path, "//", 2) == 0), "method",
                                     routes[r].method, "code", code),
                              &stats->routes[r].took[c]);
        }
    metrics_family(out, "muster_sched_cycle_seconds", "histogram",
                   "From taking a batch up to its effects, with the commit.");
    metrics_histogram(out, "muster_sched_cycle_seconds", NULL, &stats->cycle);
    metrics_family(out, "muster_sched_decision_seconds", "histogram", "Applying a batch: the decisions alone.");
    metrics_histogram(out, "muster_sched_decision_seconds", NULL, &stats->decide);
}

static void metrics_reply(struct request *request, struct buf *out)
{
    buf_text(out, "# EOF\n");
    if (out->error)
        reply_problem(request, 500, "Internal", NULL, "too many figures");
    else
        reply(request, 200, "application/openmetrics-text; version=1.0.0; charset=utf-8", out->data, out->size);
    buf_done(out);
}

void rest_metrics(struct request *request)
{
    struct buf out = BUF_INIT((size_t)64 << 20);
    struct scene scene;

    scene_fill(&scene, request);
    put_self(&scene, &out);
    put_nodes(&scene, &out);
    put_types(&scene, &out);
    metrics_vcs(&scene, &out);
    metrics_licenses(&scene, &out);
    metrics_jobs(&scene, &out);
    metrics_finished(&scene, &out);
    metrics_lost(&scene, &out);
    put_gpus(&scene, &out);
    put_faults(&scene, &out);
    metrics_reply(request, &out);
}

static bool switched_on(struct request *request, bool on, const char *what)
{
    if (!on)
        reply_problem(request, 404, "NotFound", "metrics: [jobs, users] in muster.yaml switches them on",
                      "figures of each %s are not kept here: their number has no bound", what);
    return on;
}

/* Mean of what the GPUs of a job measure now. */
static double job_util(const struct scene *scene, const struct ctl_job *job)
{
    const struct ctl_attempt *attempt = attempt_last(job);
    double sum = 0, count = 0;

    for (uint32_t t = 0; attempt && t < attempt->task_count; t++) {
        const struct ctl_node *node = &scene->registry->nodes[attempt->tasks[t].node];

        for (uint16_t g = 0; g < attempt->tasks[t].gpu_count; g++)
            if (attempt->tasks[t].gpus[g] < node->gpu_count) {
                sum += node->gpus[attempt->tasks[t].gpus[g]].util / 100.0;
                count++;
            }
    }
    return count > 0 ? sum / count : 0;
}

void rest_metrics_jobs(struct request *request)
{
    static const char *const names[3] = { "muster_job_gpus", "muster_job_gpu_utilization_ratio",
                                          "muster_job_elapsed_seconds" };
    static const char *const help[3] = { "GPUs it asks for.", "Mean of its GPUs.", "Since its attempt started." };
    struct buf out = BUF_INIT((size_t)64 << 20);
    struct scene scene;

    if (!switched_on(request, request_server(request)->conf->metrics_jobs, "job"))
        return;
    scene_fill(&scene, request);
    for (int n = 0; n < 3; n++) {
        metrics_family(&out, names[n], "gauge", help[n]);
        for (size_t i = 0; i < scene.registry->live_count; i++) {
            const struct ctl_job *job = scene.registry->live[i];
            const struct ctl_attempt *attempt = attempt_last(job);
            bool runs = job->phase == PHASE_JOB_RUNNING && attempt && attempt->started;
            char id[24];

            if ((n && !runs) || !render_shows(&scene, job))
                continue;
            (void)snprintf(id, sizeof(id), "%" PRId64, job->id);
            metrics_sample(&out, names[n],
                           LABELS("job", id, "user", user_name(&scene, job->user), "vc", vc_name(&scene, job->vc),
                                  "state", phase_name(job->phase)),
                           n == 0   ? jobspec_gpus(&job->wants)
                           : n == 1 ? job_util(&scene, job)
                                    : (double)(scene.now - (attempt ? attempt->started : 0)) / 1e6);
        }
    }
    metrics_reply(request, &out);
}

void rest_metrics_users(struct request *request)
{
    static const char *const names[3] = { "muster_user_gpus", "muster_user_jobs_running", "muster_user_jobs_pending" };
    static const char *const help[3] = { "GPUs of jobs that are not waiting.", "Jobs that have GPUs.",
                                         "Jobs that wait." };
    struct buf out = BUF_INIT((size_t)64 << 20);
    struct scene scene;
    double(*sums)[3];

    if (!switched_on(request, request_server(request)->conf->metrics_users, "user"))
        return;
    scene_fill(&scene, request);
    sums = mem_zalloc(scene.registry->users.count + 1, sizeof(*sums));
    for (size_t i = 0; sums && i < scene.registry->live_count; i++) {
        const struct ctl_job *job = scene.registry->live[i];

        if (job->phase == PHASE_JOB_PENDING) {
            sums[job->user][2]++;
        } else {
            sums[job->user][0] += (double)jobspec_gpus(&job->wants) * job->wants.share / MGPU_ONE;
            sums[job->user][1]++;
        }
    }
    for (int n = 0; n < 3; n++) {
        metrics_family(&out, names[n], "gauge", help[n]);
        for (uint32_t u = 0; sums && u < scene.registry->users.count; u++)
            metrics_sample(&out, names[n], LABELS("user", user_name(&scene, u)), sums[u][n]);
    }
    mem_free(sums);
    metrics_reply(request, &out);
}
