/* SPDX-License-Identifier: Apache-2.0 */
/* report_vcs.c - virtual clusters in the report's data. See report.h.
 *
 * Two views. By the name the trace gives a job: how much it used, how long it waited. By the virtual clusters the
 * cluster was divided into: GPUs held over time, against the quota.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/cluster.h"
#include "model/trace.h"
#include "sim/metrics/metrics.h"
#include "sim/output/report.h"
#include "wire/text/json_write.h"

enum { VCS_SHOWN_MAX = 24, VC_SERIES_SHOWN = 8, VC_BINS = 512 };

struct vc_use {
    uint32_t vc;
    uint64_t jobs, finished;
    double gpu_seconds, queue;
};

static size_t uses_sum(const struct run_result *run, struct vc_use *uses, size_t count)
{
    size_t used = 0;

    for (size_t i = 0; i < run->job_count; i++) {
        const struct job_result *job = &run->jobs[i];
        struct vc_use *use = &uses[job->vc < count - 1 ? job->vc : count - 1]; /* the last: no name */
        usec_t queue = job_result_queue(job);

        used += use->jobs == 0;
        use->jobs++;
        use->gpu_seconds += (double)job->gpus * job->share / MGPU_ONE * (double)job->run / (double)USEC_SEC;
        if (queue < 0)
            continue;
        use->finished++;
        use->queue += (double)queue / (double)USEC_SEC;
    }
    return used;
}

/* The largest VCS_SHOWN_MAX come first, in order of GPU time; ties by number. */
static void uses_select(struct vc_use *uses, size_t count)
{
    for (size_t i = 0; i < count && i < VCS_SHOWN_MAX; i++)
        for (size_t k = i + 1; k < count; k++)
            if (uses[k].gpu_seconds > uses[i].gpu_seconds) {
                struct vc_use swap = uses[i];

                uses[i] = uses[k];
                uses[k] = swap;
            }
}

static void put_use(struct json_write *json, const char *name, const struct vc_use *use)
{
    json_write_object(json, NULL);
    json_write_text(json, "name", name);
    json_write_u64(json, "jobs", use->jobs);
    json_write_u64(json, "done", use->finished);
    json_write_double(json, "gpuHours", round(use->gpu_seconds / 3.6) / 1000);
    json_write_double(json, "queue", use->finished ? round(use->queue / (double)use->finished * 1e3) / 1e3 : 0);
    json_write_close(json);
}

static int put_uses(struct json_write *json, const struct trace *trace, const struct run_result *run)
{
    size_t count = trace->vcs.count + 1;
    struct vc_use *uses = mem_zalloc(count, sizeof(*uses)), rest = { 0 };

    if (!uses)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        uses[i].vc = (uint32_t)i;
    if (uses_sum(run, uses, count) > 1) {
        uses_select(uses, count);
        json_write_array(json, "vcs");
        for (size_t i = 0; i < count; i++) {
            if (!uses[i].jobs)
                continue;
            if (i < VCS_SHOWN_MAX) {
                put_use(json, uses[i].vc + 1 < count ? names_get(&trace->vcs, uses[i].vc) : "(none)", &uses[i]);
                continue;
            }
            rest.jobs += uses[i].jobs;
            rest.finished += uses[i].finished;
            rest.gpu_seconds += uses[i].gpu_seconds;
            rest.queue += uses[i].queue;
        }
        if (rest.jobs)
            put_use(json, "(all others)", &rest);
        json_write_close(json);
    }
    mem_free(uses);
    return 0;
}

/* GPUs of one virtual cluster over time. */
struct vc_series {
    uint32_t vc;
    double sum;           /* GPU-microseconds, to sort by */
    double bins[VC_BINS]; /* thousandths of GPUs x microseconds */
};

/* Spreads `held` from `from` to `to` over the bins. */
static void series_add(struct vc_series *series, double held, usec_t from, usec_t to, usec_t width)
{
    series->sum += held * (double)(to - from);
    while (from < to) {
        usec_t bin = from / width, edge = (bin + 1) * width, stop = edge < to ? edge : to;

        if (bin < VC_BINS)
            series->bins[bin] += held * (double)(stop - from);
        from = stop;
    }
}

static void series_fill(struct vc_series *all, uint32_t count, const struct run_result *run, usec_t width)
{
    usec_t start = run->timeline.start, end = run->tally.last.at - start, since[VC_SERIES_MAX] = { 0 };
    int64_t held[VC_SERIES_MAX] = { 0 };

    for (size_t i = 0; i < run->vc_sample_count; i++) {
        const struct vc_sample *sample = &run->vc_samples[i];
        usec_t at = sample->at > start ? sample->at - start : 0;

        if (sample->vc >= count)
            continue;
        series_add(&all[sample->vc], (double)held[sample->vc], since[sample->vc], at, width);
        since[sample->vc] = at;
        held[sample->vc] = sample->mgpu_held;
    }
    for (uint32_t vc = 0; vc < count; vc++) {
        all[vc].vc = vc;
        series_add(&all[vc], (double)held[vc], since[vc], end, width);
    }
}

/* The largest come first; equal ones by number. */
static int compare_series(const void *left, const void *right)
{
    const struct vc_series *a = left, *b = right;

    if (a->sum > b->sum || a->sum < b->sum)
        return a->sum > b->sum ? -1 : 1;
    return a->vc < b->vc ? -1 : a->vc > b->vc;
}

static void put_series(struct json_write *json, const struct cluster_spec *cluster, const struct vc_series *series,
                       usec_t width)
{
    const struct vc_spec *vc = &cluster->vcs[series->vc];
    int64_t quota = 0;

    json_write_object(json, NULL);
    json_write_text(json, "name", names_get(&cluster->names, vc->name));
    for (uint32_t sku = 0; sku < cluster->sku_count; sku++)
        quota += vc->quota[sku];
    json_write_i64(json, "quota", quota);
    json_write_array(json, "held");
    for (size_t i = 0; i < VC_BINS; i++)
        json_write_double(json, NULL, round(series->bins[i] / (double)width) / MGPU_ONE);
    json_write_close(json);
    json_write_close(json);
}

/* A cluster may have a thousand; those that held most are shown. */
static int put_usage(struct json_write *json, const struct cluster_spec *cluster, const struct run_result *run)
{
    usec_t width = (run->tally.last.at - run->timeline.start) / VC_BINS + 1;
    uint32_t count = cluster->vc_count < VC_SERIES_MAX ? cluster->vc_count : VC_SERIES_MAX;
    uint32_t shown = count < VC_SERIES_SHOWN ? count : VC_SERIES_SHOWN;
    struct vc_series *all = mem_zalloc(count, sizeof(*all));

    if (!all)
        return -ENOMEM;
    series_fill(all, count, run, width);
    if (count > shown)
        qsort(all, count, sizeof(*all), compare_series);
    json_write_object(json, "vcTime");
    json_write_double(json, "step", (double)width / (double)USEC_SEC);
    json_write_u64(json, "left", cluster->vc_count - shown);
    json_write_array(json, "series");
    for (uint32_t i = 0; i < shown; i++)
        put_series(json, cluster, &all[i], width);
    json_write_close(json);
    json_write_close(json);
    mem_free(all);
    return 0;
}

int report_data_vcs(struct json_write *json, const struct report_input *input, const struct run_result *run)
{
    const struct trace *trace = report_trace(input, run);
    const struct cluster_spec *cluster = report_cluster(input, run);

    int r = 0;

    if (cluster && cluster->vc_count > 1 && run->vc_sample_count && run->timeline.count)
        r = put_usage(json, cluster, run);
    if (r < 0)
        return r;
    return trace ? put_uses(json, trace, run) : 0;
}
