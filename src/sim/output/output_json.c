/* SPDX-License-Identifier: Apache-2.0 */
/* output_json.c - one run as JSON. See output.h; keys: docs/report.md. Keys are only ever added. */
#include <inttypes.h>
#include <math.h>

#include "model/trace.h"
#include "sim/metrics/metrics_share.h"
#include "sim/output/output.h"
#include "wire/text/json_write.h"

#define RUN_BYTES_MAX ((size_t)1 << 18) /* names are bounded, so this is far more than a run needs */

enum { VCS_SHOWN_MAX = 256 };

/* Six decimals are microseconds; what lies behind them is noise of the division. */
static void put_real(struct json_write *json, const char *key, double value)
{
    double scaled = value * 1e6;

    json_write_double(json, key, fabs(scaled) < 0x1.0p53 ? round(scaled) / 1e6 + 0.0 : value);
}

static void put_summary(struct json_write *json, const struct summary *summary)
{
    char digest[17];

    json_write_u64(json, "jobs", summary->jobs);
    json_write_u64(json, "finished", summary->finished);
    json_write_u64(json, "failed", summary->failed);
    json_write_u64(json, "refused", summary->refused);
    put_real(json, "avg_jct_seconds", summary->avg_jct);
    put_real(json, "p50_jct_seconds", summary->p50_jct);
    put_real(json, "p95_jct_seconds", summary->p95_jct);
    put_real(json, "p99_jct_seconds", summary->p99_jct);
    put_real(json, "max_jct_seconds", summary->max_jct);
    put_real(json, "sum_jct_seconds", summary->sum_jct);
    put_real(json, "makespan_seconds", summary->makespan);
    put_real(json, "avg_queue_seconds", summary->avg_queue);
    put_real(json, "avg_fair_share_seconds", summary->avg_fair_share);
    put_real(json, "avg_fragmentation_seconds", summary->avg_fragmentation_delay);
    put_real(json, "gpu_utilization_ratio", summary->gpu_utilization);
    put_real(json, "fragmentation_ratio", summary->fragmentation);
    json_write_u64(json, "preemptions", summary->preemptions);
    json_write_u64(json, "migrations", summary->migrations);
    json_write_u64(json, "splices", summary->splices);
    put_real(json, "deadline_miss_ratio", summary->deadline_miss);
    put_real(json, "weighted_miss_ratio", summary->weighted_miss);
    put_real(json, "best_effort_avg_jct_seconds", summary->best_effort_jct);
    json_write_u64(json, "admitted", summary->admitted);
    json_write_u64(json, "broken_promises", summary->broken_promises);
    put_real(json, "lost_gpu_seconds", summary->lost_gpu_seconds);
    put_real(json, "overhead_gpu_seconds", summary->overhead_gpu_seconds);
    json_write_u64(json, "events", summary->events);
    json_write_u64(json, "decisions", summary->decisions);
    put_real(json, "decisions_per_second", summary->decisions_per_second);
    put_real(json, "wall_seconds", summary->wall_seconds);
    json_write_u64(json, "peak_rss_bytes", summary->peak_rss_bytes);
    (void)snprintf(digest, sizeof(digest), "%016" PRIx64, summary->digest);
    json_write_text(json, "digest", digest);
}

static void put_size(struct json_write *json, const char *key, const struct size_summary *size)
{
    json_write_object(json, key);
    json_write_u64(json, "jobs", size->jobs);
    json_write_u64(json, "finished", size->finished);
    put_real(json, "avg_jct_seconds", size->avg_jct);
    put_real(json, "avg_queue_seconds", size->avg_queue);
    put_real(json, "p95_queue_seconds", size->p95_queue);
    put_real(json, "wait_seconds", size->waited);
    put_real(json, "fair_share_seconds", size->fair_share);
    put_real(json, "fragmentation_seconds", size->fragmentation);
    put_real(json, "p50_slowdown_ratio", size->p50_slowdown);
    put_real(json, "p95_slowdown_ratio", size->p95_slowdown);
    json_write_close(json);
}

/* What its policies told; null where they have nothing to tell. */
static void put_told(struct json_write *json, const struct run_result *run)
{
    const struct told *told = &run->told;
    int levels = told->levels < TOLD_LEVELS ? told->levels : TOLD_LEVELS;
    struct told_summary sum;

    told_summarize(run, &sum);
    put_real(json, "promotions", told->promotions >= 0 && told->levels ? (double)told->promotions : (double)NAN);
    json_write_array(json, "levels");
    for (int k = 0; k < levels; k++) {
        json_write_object(json, NULL);
        put_real(json, "mean_jobs", sum.mean_jobs[k]);
        json_write_u64(json, "max_jobs", sum.max_jobs[k]);
        json_write_close(json);
    }
    json_write_close(json);
    json_write_u64(json, "predictions", sum.predictions);
    put_real(json, "prediction_error_ratio", sum.error);
    json_write_array(json, "prediction_error_ratio_by_quarter");
    for (int q = 0; q < TOLD_QUARTERS && sum.predictions; q++)
        put_real(json, NULL, sum.error_quarter[q]);
    json_write_close(json);
}

static void put_shares(struct json_write *json, const struct run_result *run, const struct shares *shares)
{
    put_real(json, "p50_queue_seconds", shares->p50_queue);
    put_real(json, "p95_queue_seconds", shares->p95_queue);
    put_real(json, "p99_queue_seconds", shares->p99_queue);
    put_real(json, "fairness_ratio", shares->fairness);
    json_write_object(json, "by_vc");
    for (size_t i = 0; run->trace && i < shares->vc_count && i < VCS_SHOWN_MAX; i++) {
        const struct share *share = &shares->vcs[i];

        json_write_object(json, names_get(&run->trace->vcs, share->name));
        json_write_u64(json, "jobs", share->jobs);
        json_write_u64(json, "finished", share->finished);
        put_real(json, "avg_queue_seconds", share->avg_queue);
        put_real(json, "avg_jct_seconds", share->avg_jct);
        put_real(json, "avg_slowdown_ratio", share->avg_slowdown);
        put_real(json, "gpu_seconds", share->gpu_seconds);
        json_write_close(json);
    }
    json_write_close(json);
}

/* The run over time in at most `most` stretches, and percentiles of waiting and completion. */
static void put_series(struct json_write *json, const struct run_result *run, const struct curves *curves, size_t most)
{
    const struct timeline *line = &run->timeline;
    size_t step = most ? (line->count + most - 1) / most : 1;

    json_write_object(json, "series");
    put_real(json, "start_seconds", (double)line->start / (double)USEC_SEC);
    put_real(json, "step_seconds", (double)line->width * (double)(step ? step : 1) / (double)USEC_SEC);
    json_write_array(json, "gpus_used_total_jobs_waiting");
    for (size_t i = 0; i < line->count; i += step) {
        double held = 0, total = 0, waiting = 0, span = 0;

        for (size_t b = i; b < i + step && b < line->count; b++) {
            held += line->bins[b].held;
            total += line->bins[b].total;
            waiting += line->bins[b].waiting;
            span += (double)line->bins[b].span;
        }
        json_write_array(json, NULL);
        put_real(json, NULL, span > 0 ? held / span / MGPU_ONE : 0);
        put_real(json, NULL, span > 0 ? total / span / MGPU_ONE : 0);
        put_real(json, NULL, span > 0 ? waiting / span : 0);
        json_write_close(json);
    }
    json_write_close(json);
    json_write_close(json);
    json_write_array(json, "queue_seconds_by_percentile");
    for (int p = 0; p < CURVE_POINTS; p++)
        put_real(json, NULL, curves->queue[p]);
    json_write_close(json);
    json_write_array(json, "jct_seconds_by_percentile");
    for (int p = 0; p < CURVE_POINTS; p++)
        put_real(json, NULL, curves->jct[p]);
    json_write_close(json);
}

/* Everything that is computed for the output alone. */
struct extras {
    struct wait_summary waits;
    struct shares shares;
    struct curves curves;
    size_t series; /* stretches; 0 = none */
};

static int extras_init(struct extras *extras, const struct run_result *run, size_t series)
{
    int r = metrics_waits(run, &extras->waits);

    extras->series = series;
    if (r == 0)
        r = curves_fill(&extras->curves, run);
    return r < 0 ? r : shares_init(&extras->shares, run);
}

/* What was done to running jobs, and searches, where there are any. */
static void put_reshaped(struct json_write *json, const struct run_result *run)
{
    static const char *const names[RESHAPE_KINDS] = { NULL, "packings", "migrations", "resizes", "suspensions" };

    json_write_object(json, "reshaped");
    for (int i = RESHAPE_PACK; i < RESHAPE_KINDS; i++) {
        json_write_object(json, names[i]);
        json_write_u64(json, "count", run->reshaped[i].count);
        put_real(json, "cost_gpu_seconds", (double)run->reshaped[i].cost / (double)USEC_SEC);
        put_real(json, "gained_gpu_seconds", (double)run->reshaped[i].gain / (double)USEC_SEC);
        if (i == RESHAPE_RESIZE)
            put_real(json, "left_gpu_seconds", (double)run->reshaped[i].left / (double)USEC_SEC);
        json_write_close(json);
    }
    json_write_close(json);
    if (!run->searches)
        return;
    json_write_object(json, "searches");
    json_write_u64(json, "count", run->searches);
    json_write_u64(json, "winners", run->winners);
    put_real(json, "avg_winner_seconds", (double)run->winner_mean / (double)USEC_SEC);
    put_real(json, "max_winner_seconds", (double)run->winner_max / (double)USEC_SEC);
    json_write_close(json);
}

static void put_run(struct json_write *json, const struct run_result *run, const struct extras *extras)
{
    const struct wait_summary *waits = &extras->waits;

    json_write_object(json, NULL);
    json_write_text(json, "apiVersion", "v1");
    json_write_text(json, "kind", "SimRun");
    json_write_text(json, "policy", run->policy);
    json_write_text(json, "cluster", run->cluster_name);
    json_write_text(json, "trace", run->trace_name);
    json_write_text(json, "settings", run->settings);
    json_write_u64(json, "seed", run->seed);
    json_write_u64(json, "gpus", run->gpu_count);
    json_write_u64(json, "nodes", run->node_count);
    put_summary(json, &run->summary);
    put_told(json, run);
    json_write_u64(json, "idle_gaps", run->idle_gaps);
    put_real(json, "avg_idle_gap_seconds",
             run->idle_gaps ? (double)run->idle_gap / (double)USEC_SEC / (double)run->idle_gaps : 0);
    json_write_object(json, "sharing");
    put_real(json, "busy_gpu_seconds", run->shared.busy / (double)USEC_SEC);
    put_real(json, "guest_gpu_seconds", run->shared.guests / (double)USEC_SEC);
    put_real(json, "guest_work_gpu_seconds", run->shared.guest_work / (double)USEC_SEC);
    put_real(json, "owner_lost_gpu_seconds", run->shared.owner_lost / (double)USEC_SEC);
    json_write_u64(json, "guest_starts", run->shared.guest_starts);
    json_write_u64(json, "limits", run->shared.limits);
    json_write_close(json);
    put_reshaped(json, run);
    json_write_object(json, "planner");
    for (uint32_t i = 0; i < run->counter_count; i++)
        json_write_i64(json, run->counters[i].name, run->counters[i].value);
    json_write_close(json);
    json_write_object(json, "wait_seconds_by_reason");
    for (int reason = REASON_NONE + 1; reason < REASON_COUNT; reason++)
        put_real(json, reason_name((enum reason)reason), waits->by_reason[reason]);
    json_write_close(json);
    json_write_object(json, "by_size");
    for (int bucket = 0; bucket < SIZE_COUNT; bucket++)
        put_size(json, size_bucket_name((enum size_bucket)bucket), &waits->by_size[bucket]);
    json_write_close(json);
    put_shares(json, run, &extras->shares);
    if (extras->series)
        put_series(json, run, &extras->curves, extras->series);
    json_write_close(json);
}

int output_json(FILE *out, const struct run_result *run, size_t series)
{
    CLEANUP_BUF struct buf buf = BUF_INIT(RUN_BYTES_MAX);
    struct json_write json;
    struct extras extras;
    int r = extras_init(&extras, run, series);

    if (r < 0)
        return r;
    json_write_init(&json, &buf, true);
    put_run(&json, run, &extras);
    shares_done(&extras.shares);
    if (buf.error < 0)
        return buf.error;
    (void)fwrite(buf.data, 1, buf.size, out);
    return 0;
}

int output_json_list(FILE *out, const struct run_result *const *runs, size_t count, size_t series)
{
    CLEANUP_BUF struct buf buf = BUF_INIT(RUN_BYTES_MAX * (count + 1));
    struct json_write json;

    json_write_init(&json, &buf, true);
    json_write_object(&json, NULL);
    json_write_text(&json, "apiVersion", "v1");
    json_write_text(&json, "kind", "SimRunList");
    json_write_array(&json, "items");
    for (size_t i = 0; i < count; i++) {
        struct extras extras;
        int r = extras_init(&extras, runs[i], series);

        if (r < 0)
            return r;
        put_run(&json, runs[i], &extras);
        shares_done(&extras.shares);
    }
    json_write_close(&json);
    json_write_null(&json, "next");
    json_write_close(&json);
    if (buf.error < 0)
        return buf.error;
    (void)fwrite(buf.data, 1, buf.size, out);
    return 0;
}
