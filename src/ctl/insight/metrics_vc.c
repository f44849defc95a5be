/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_vc.c - figures of virtual clusters and of jobs: what is owed, used, borrowed, lent, waited for and lost. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "core/ledger/ledger.h"
#include "ctl/insight/metrics_internal.h"
#include "ctl/insight/watch.h"

static const char *sku_name(const struct scene *scene, uint32_t sku)
{
    return names_get(&scene->cluster->names, scene->cluster->skus[sku].name);
}

enum vc_figure { VC_GUARANTEED, VC_USED, VC_BORROWED, VC_LENT, VC_LIMIT, VC_FIGURES };

static double vc_figure_of(const struct scene *scene, uint32_t v, uint32_t sku, enum vc_figure figure)
{
    const struct vc *vc = core_vc(scene->core, v);

    switch (figure) {
    case VC_GUARANTEED:
        return (double)vc->quota[sku] / MGPU_ONE;
    case VC_USED:
        return (double)vc->used[sku] / MGPU_ONE;
    case VC_BORROWED:
        return vc->used[sku] > vc->quota[sku] ? (double)(vc->used[sku] - vc->quota[sku]) / MGPU_ONE : 0;
    case VC_LENT:
        return (double)vc_lent(scene, v, sku) / MGPU_ONE;
    case VC_LIMIT: /* borrowing has one bound for all types; no bound: all there are */
        if (vc->borrow_max < 0)
            return core_ledger(scene->core)->topo.sku_gpus[sku];
        return (double)(vc->quota[sku] + vc->borrow_max) / MGPU_ONE;
    case VC_FIGURES:
        break;
    }
    return 0;
}

static void entitlement_put(const struct scene *scene, struct buf *out, uint32_t count)
{
    static const char *const names[VC_FIGURES][2] = {
        { "muster_vc_gpus_guaranteed", "GPUs owed." },
        { "muster_vc_gpus_used", "GPUs held by guaranteed jobs." },
        { "muster_vc_gpus_borrowed", "GPUs used beyond what is owed." },
        { "muster_vc_gpus_lent", "GPUs owed and used by others." },
        { "muster_vc_gpus_limit", "GPUs it may use at most, with all it may borrow." },
    };

    for (int f = 0; f < VC_FIGURES; f++) {
        metrics_family(out, names[f][0], "gauge", names[f][1]);
        for (uint32_t v = 0; v < count; v++)
            for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++)
                metrics_sample(out, names[f][0], LABELS("vc", vc_name(scene, v), "sku", sku_name(scene, sku)),
                               vc_figure_of(scene, v, sku, (enum vc_figure)f));
    }
    metrics_family(out, "muster_vc_share_ratio", "gauge", "GPUs used over GPUs owed, mean of the last seven days.");
    for (uint32_t v = 0; v < count; v++)
        metrics_sample(out, "muster_vc_share_ratio", LABELS("vc", vc_name(scene, v)), watch_share(scene, v));
}

/* GPUs that jobs have and do not use, or that are busy and cold. */
static void lazy_put(const struct scene *scene, struct buf *out, uint32_t count)
{
    uint32_t(*idle)[SKUS_MAX] = mem_zalloc(count + 1, sizeof(*idle));
    uint32_t *stalled = mem_zalloc(count + 1, sizeof(*stalled));

    for (size_t i = 0; idle && stalled && i < scene->registry->live_count; i++) {
        const struct ctl_job *job = scene->registry->live[i];
        const struct ctl_attempt *attempt = attempt_last(job);
        bool hangs = false;

        for (uint32_t t = 0; attempt && !attempt->ended && job->vc < count && t < attempt->task_count; t++) {
            const struct ctl_node *node = &scene->registry->nodes[attempt->tasks[t].node];
            uint32_t sku = node_sku(scene, node);

            for (uint16_t g = 0; g < attempt->tasks[t].gpu_count; g++) {
                const struct gpu_past *past = watch_gpu(scene->server->watch, node, attempt->tasks[t].gpus[g]);

                if (past && sku < SKUS_MAX && past->idle_since && scene->now - past->idle_since >= IDLE_AFTER)
                    idle[job->vc][sku]++;
                hangs |= past && past->stall_since && scene->now - past->stall_since >= STALL_AFTER;
            }
        }
        if (hangs)
            stalled[job->vc]++;
    }
    metrics_family(out, "muster_gpu_idle_allocated", "gauge", "GPUs allocated and below 5 % for 15 minutes.");
    for (uint32_t v = 0; idle && v < count; v++)
        for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++)
            metrics_sample(out, "muster_gpu_idle_allocated",
                           LABELS("vc", vc_name(scene, v), "sku", sku_name(scene, sku)), idle[v][sku]);
    metrics_family(out, "muster_job_stalled", "gauge", "Jobs with a GPU that is busy at little power for 10 minutes.");
    for (uint32_t v = 0; stalled && v < count; v++)
        metrics_sample(out, "muster_job_stalled", LABELS("vc", vc_name(scene, v)), stalled[v]);
    mem_free(idle);
    mem_free(stalled);
}

void metrics_vcs(const struct scene *scene, struct buf *out)
{
    static const char *const classes[USE_CLASSES] = { "guaranteed", "borrowed", "oppo" };
    uint32_t count = scene->core ? core_vc_count(scene->core) : 0;

    entitlement_put(scene, out, count);
    lazy_put(scene, out, count);
    metrics_family(out, "muster_gpu_seconds", "counter", "GPU time used since the controller started.");
    for (uint32_t v = 0; v < count; v++)
        for (uint32_t sku = 0; sku < scene->cluster->sku_count; sku++)
            for (int c = 0; c < USE_CLASSES; c++)
                metrics_sample(out, "muster_gpu_seconds_total",
                               LABELS("vc", vc_name(scene, v), "sku", sku_name(scene, sku), "class", classes[c]),
                               (double)watch_used(scene->server->watch, v, sku, (enum use_class)c) / 1e6);
}

/* Jobs by virtual cluster and state; those that wait also by reason. */
struct wait_sum {
    const char *code;
    uint32_t vc, jobs;
    int64_t gpus;
};

enum { REASONS_SEEN = REASON_COUNT + GATE_COUNT + 2 };

static void waiting_put(const struct scene *scene, struct buf *out, const struct wait_sum *sums, size_t count)
{
    metrics_family(out, "muster_jobs_pending", "gauge", "Jobs that wait, by reason.");
    for (size_t s = 0; s < count; s++)
        metrics_sample(out, "muster_jobs_pending", LABELS("vc", vc_name(scene, sums[s].vc), "reason", sums[s].code),
                       sums[s].jobs);
    metrics_family(out, "muster_gpus_pending", "gauge", "GPUs that waiting jobs ask for, by reason.");
    for (size_t s = 0; s < count; s++)
        metrics_sample(out, "muster_gpus_pending", LABELS("vc", vc_name(scene, sums[s].vc), "reason", sums[s].code),
                       (double)sums[s].gpus);
}

void metrics_jobs(const struct scene *scene, struct buf *out)
{
    uint32_t vcs = scene->cluster->vc_count;
    uint32_t(*state)[PHASE_JOB_COUNT] = mem_zalloc(vcs + 1, sizeof(*state));
    struct wait_sum *sums = mem_zalloc((size_t)(vcs + 1) * REASONS_SEEN, sizeof(*sums));
    size_t count = 0;

    for (size_t i = 0; state && sums && i < scene->registry->live_count; i++) {
        const struct ctl_job *job = scene->registry->live[i];
        uint32_t vc = job->vc < vcs ? job->vc : vcs;
        const char *code;
        char text[256];
        size_t s = 0;

        state[vc][job->phase]++;
        if (job->phase != PHASE_JOB_PENDING || !render_reason(scene, job, &code, text, sizeof(text)))
            continue;
        while (s < count && (sums[s].vc != vc || strcmp(sums[s].code, code) != 0))
            s++;
        if (s == count && count < (size_t)(vcs + 1) * REASONS_SEEN)
            sums[count++] = (struct wait_sum){ code, vc, 0, 0 };
        if (s < count) {
            sums[s].jobs++;
            sums[s].gpus += jobspec_gpus(&job->wants);
        }
    }
    metrics_family(out, "muster_jobs", "gauge", "Jobs that are not over, by state.");
    for (uint32_t v = 0; state && v < vcs; v++)
        for (int p = 0; p < PHASE_JOB_COMPLETED; p++)
            metrics_sample(out, "muster_jobs",
                           LABELS("vc", vc_name(scene, v), "state", phase_name((enum phase_of_job)p)), state[v][p]);
    waiting_put(scene, out, sums, count);
    mem_free(state);
    mem_free(sums);
}

void metrics_finished(const struct scene *scene, struct buf *out)
{
    const struct stats *stats = scene->server->stats;
    uint32_t vcs = scene->cluster->vc_count < STATS_VCS_MAX ? scene->cluster->vc_count : STATS_VCS_MAX;

    metrics_family(out, "muster_jobs_finished", "counter", "Jobs that ended since the controller started.");
    for (uint32_t v = 0; v < vcs; v++)
        for (int p = PHASE_JOB_COMPLETED; p < PHASE_JOB_COUNT; p++)
            if (stats->finished[v][p])
                metrics_sample(out, "muster_jobs_finished_total",
                               LABELS("vc", vc_name(scene, v), "result", phase_name((enum phase_of_job)p)),
                               (double)stats->finished[v][p]);
    for (int n = 0; n < 2; n++) {
        const char *name = n ? "muster_job_run_seconds" : "muster_job_wait_seconds";

        metrics_family(out, name, "histogram",
                       n ? "From the last start to the end." : "From submission to the first start.");
        for (uint32_t v = 0; v < vcs; v++)
            for (int s = 0; s < SIZE_CLASSES; s++) {
                const struct histogram *h = n ? &stats->run[v][s] : &stats->wait[v][s];

                if (histogram_all(h))
                    metrics_histogram(out, name, LABELS("vc", vc_name(scene, v), "size", stats_sizes[s]), h);
            }
    }
    metrics_family(out, "muster_eta_error_seconds", "histogram",
                   "Between the start first foreseen for a job that waited and the real one.");
    for (uint32_t v = 0; v < vcs; v++)
        if (histogram_all(&stats->eta_error[v]))
            metrics_histogram(out, "muster_eta_error_seconds", LABELS("vc", vc_name(scene, v)), &stats->eta_error[v]);
}

void metrics_lost(const struct scene *scene, struct buf *out)
{
    const struct stats *stats = scene->server->stats;
    uint32_t vcs = scene->cluster->vc_count < STATS_VCS_MAX ? scene->cluster->vc_count : STATS_VCS_MAX;

    metrics_family(out, "muster_preemptions", "counter", "Attempts that something outside of the job ended.");
    for (uint32_t v = 0; v < vcs; v++)
        for (int c = 0; c < STOP_CAUSES; c++)
            for (int s = 0; s < STOP_STEPS; s++)
                if (stats->preempted[v][c][s])
                    metrics_sample(out, "muster_preemptions_total",
                                   LABELS("vc", vc_name(scene, v), "step", stats_steps[s], "cause", stats_causes[c]),
                                   (double)stats->preempted[v][c][s]);
    metrics_family(out, "muster_lost_gpu_seconds", "counter", "GPU time since the last checkpoint, thrown away.");
    for (uint32_t v = 0; v < vcs; v++)
        for (int c = 0; c < STOP_CAUSES; c++)
            if (stats->lost[v][c] > 0)
                metrics_sample(out, "muster_lost_gpu_seconds_total",
                               LABELS("vc", vc_name(scene, v), "cause", stats_causes[c]), stats->lost[v][c]);
}
