/* SPDX-License-Identifier: Apache-2.0 */
/* report_vcs.c - virtual clusters in the report's data. See report.h.
 *
 * Two views. By the name the trace gives a job: how much it used, how long it waited. By the virtual clusters the
 * cluster was divided into: GPUs held over time, against the quota.
 */
#include <errno.h>
#include <math.h>

#include "base/alloc.h"
#include "model/cluster.h"
#include "model/trace.h"
#include "sim/metrics.h"
#include "sim/report.h"
#include "wire/json_write.h"

enum { VCS_SHOWN_MAX = 24, VC_SERIES_MAX = 8, VC_BINS = 512 };

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

/* GPUs of one virtual cluster, mean of each bin. */
static void vc_series(const struct run_result *run, uint32_t vc, double *bins, usec_t width)
{
    usec_t start = run->timeline.start, end = run->tally.last.at, from = start;
    int64_t held = 0;

    for (size_t i = 0; i <= run->vc_sample_count; i++) {
        usec_t to = i < run->vc_sample_count ? run->vc_samples[i].at : end;

        if (i < run->vc_sample_count && run->vc_samples[i].vc != vc)
            continue;
        while (from < to && held) {
            size_t bin = (size_t)((from - start) / width);
            usec_t edge = start + (usec_t)(bin + 1) * width, stop = edge < to ? edge : to;

            if (bin < VC_BINS)
                bins[bin] += (double)held * (double)(stop - from);
            from = stop;
        }
        from = to > from ? to : from;
        if (i < run->vc_sample_count)
            held = run->vc_samples[i].mgpu_held;
    }
}

static void put_series(struct json_write *json, const struct cluster_spec *cluster, const struct run_result *run,
                       uint32_t vc, usec_t width)
{
    double bins[VC_BINS] = { 0 };
    int64_t quota = 0;

    vc_series(run, vc, bins, width);
    json_write_object(json, NULL);
    json_write_text(json, "name", names_get(&cluster->names, cluster->vcs[vc].name));
    for (uint32_t sku = 0; sku < cluster->sku_count; sku++)
        quota += cluster->vcs[vc].quota[sku];
    json_write_i64(json, "quota", quota);
    json_write_array(json, "held");
    for (size_t i = 0; i < VC_BINS; i++)
        json_write_double(json, NULL, round(bins[i] / (double)width) / MGPU_ONE);
    json_write_close(json);
    json_write_close(json);
}

static void put_usage(struct json_write *json, const struct cluster_spec *cluster, const struct run_result *run)
{
    usec_t end = run->tally.last.at, width = (end - run->timeline.start) / VC_BINS + 1;
    uint32_t shown = cluster->vc_count < VC_SERIES_MAX ? cluster->vc_count : VC_SERIES_MAX;

    json_write_object(json, "vcTime");
    json_write_double(json, "step", (double)width / (double)USEC_SEC);
    json_write_u64(json, "left", cluster->vc_count - shown);
    json_write_array(json, "series");
    for (uint32_t vc = 0; vc < shown; vc++)
        put_series(json, cluster, run, vc, width);
    json_write_close(json);
    json_write_close(json);
}

int report_data_vcs(struct json_write *json, const struct report_input *input, const struct run_result *run)
{
    const struct trace *trace = report_trace(input, run);
    const struct cluster_spec *cluster = report_cluster(input, run);

    if (cluster && cluster->vc_count > 1 && run->vc_sample_count && run->timeline.count)
        put_usage(json, cluster, run);
    return trace ? put_uses(json, trace, run) : 0;
}
