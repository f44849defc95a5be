/* SPDX-License-Identifier: Apache-2.0 */
/* output_json.c - one run as JSON. See output.h; keys: docs/report.md. Keys are only ever added. */
#include <inttypes.h>

#include "sim/metrics.h"
#include "sim/output.h"
#include "sim/output_text.h"

/* Where the writer stands: how deep, and whether a comma is due. */
struct writer {
    FILE *out;
    const char *indent;
    bool first;
};

static void put_key(struct writer *writer, const char *key)
{
    fprintf(writer->out, "%s\n%s", writer->first ? "" : ",", writer->indent);
    writer->first = false;
    text_json(writer->out, key);
    fputs(": ", writer->out);
}

static void put_text(struct writer *writer, const char *key, const char *value)
{
    put_key(writer, key);
    text_json(writer->out, value);
}

static void put_count(struct writer *writer, const char *key, uint64_t value)
{
    put_key(writer, key);
    fprintf(writer->out, "%" PRIu64, value);
}

static void put_real(struct writer *writer, const char *key, double value)
{
    put_key(writer, key);
    text_real(writer->out, value);
}

static void put_summary(struct writer *writer, const struct summary *summary)
{
    put_count(writer, "jobs", summary->jobs);
    put_count(writer, "finished", summary->finished);
    put_count(writer, "failed", summary->failed);
    put_count(writer, "refused", summary->refused);
    put_real(writer, "avg_jct_seconds", summary->avg_jct);
    put_real(writer, "p50_jct_seconds", summary->p50_jct);
    put_real(writer, "p95_jct_seconds", summary->p95_jct);
    put_real(writer, "p99_jct_seconds", summary->p99_jct);
    put_real(writer, "max_jct_seconds", summary->max_jct);
    put_real(writer, "sum_jct_seconds", summary->sum_jct);
    put_real(writer, "makespan_seconds", summary->makespan);
    put_real(writer, "avg_queue_seconds", summary->avg_queue);
    put_real(writer, "avg_fair_share_seconds", summary->avg_fair_share);
    put_real(writer, "avg_fragmentation_seconds", summary->avg_fragmentation_delay);
    put_real(writer, "gpu_utilization_ratio", summary->gpu_utilization);
    put_real(writer, "fragmentation_ratio", summary->fragmentation);
    put_count(writer, "preemptions", summary->preemptions);
    put_count(writer, "migrations", summary->migrations);
    put_real(writer, "deadline_miss_ratio", summary->deadline_miss);
    put_real(writer, "lost_gpu_seconds", summary->lost_gpu_seconds);
    put_real(writer, "overhead_gpu_seconds", summary->overhead_gpu_seconds);
    put_count(writer, "events", summary->events);
    put_count(writer, "decisions", summary->decisions);
    put_real(writer, "decisions_per_second", summary->decisions_per_second);
    put_real(writer, "wall_seconds", summary->wall_seconds);
    put_count(writer, "peak_rss_bytes", summary->peak_rss_bytes);
    put_key(writer, "digest");
    fprintf(writer->out, "\"%016" PRIx64 "\"", summary->digest);
}

static void put_size(struct writer *writer, const char *key, const struct size_summary *size)
{
    FILE *out = writer->out;

    put_key(writer, key);
    fprintf(out, "{\"jobs\": %" PRIu64 ", \"finished\": %" PRIu64 ", \"avg_jct_seconds\": ", size->jobs,
            size->finished);
    text_real(out, size->avg_jct);
    fputs(", \"avg_queue_seconds\": ", out);
    text_real(out, size->avg_queue);
    fputs(", \"p95_queue_seconds\": ", out);
    text_real(out, size->p95_queue);
    fputs(", \"waited_seconds\": ", out);
    text_real(out, size->waited);
    fputs(", \"fair_share_seconds\": ", out);
    text_real(out, size->fair_share);
    fputs(", \"fragmentation_seconds\": ", out);
    text_real(out, size->fragmentation);
    fputs(", \"p50_slowdown\": ", out);
    text_real(out, size->p50_slowdown);
    fputs(", \"p95_slowdown\": ", out);
    text_real(out, size->p95_slowdown);
    fputc('}', out);
}

static void put_waits(struct writer *writer, const struct wait_summary *waits)
{
    const char *outer = writer->indent;

    put_key(writer, "wait_seconds_by_reason");
    fputc('{', writer->out);
    writer->indent = "    ";
    writer->first = true;
    for (int reason = REASON_NONE + 1; reason < REASON_COUNT; reason++)
        put_real(writer, reason_name((enum reason)reason), waits->by_reason[reason]);
    fprintf(writer->out, "\n%s}", outer);
    writer->indent = outer;
    put_key(writer, "by_size");
    fputc('{', writer->out);
    writer->indent = "    ";
    writer->first = true;
    for (int bucket = 0; bucket < SIZE_COUNT; bucket++)
        put_size(writer, size_bucket_name((enum size_bucket)bucket), &waits->by_size[bucket]);
    fprintf(writer->out, "\n%s}", outer);
    writer->indent = outer;
}

static int put_run(FILE *out, const struct run_result *run)
{
    struct writer writer = { .out = out, .indent = "  ", .first = true };
    struct wait_summary waits;
    int r = metrics_waits(run, &waits);

    if (r < 0)
        return r;
    fputc('{', out);
    put_text(&writer, "apiVersion", "v1");
    put_text(&writer, "kind", "SimRun");
    put_text(&writer, "policy", run->policy);
    put_text(&writer, "cluster", run->cluster_name);
    put_text(&writer, "trace", run->trace_name);
    put_text(&writer, "settings", run->settings);
    put_count(&writer, "seed", run->seed);
    put_count(&writer, "gpus", run->gpu_count);
    put_count(&writer, "nodes", run->node_count);
    put_summary(&writer, &run->summary);
    put_waits(&writer, &waits);
    fputs("\n}", out);
    return 0;
}

int output_json(FILE *out, const struct run_result *run)
{
    int r = put_run(out, run);

    if (r == 0)
        fputc('\n', out);
    return r;
}

int output_json_list(FILE *out, const struct run_result *const *runs, size_t count)
{
    fputs("{\"apiVersion\": \"v1\", \"kind\": \"SimRunList\", \"items\": [", out);
    for (size_t i = 0; i < count; i++) {
        int r;

        fputs(i ? ",\n" : "\n", out);
        r = put_run(out, runs[i]);
        if (r < 0)
            return r;
    }
    fputs("], \"next\": null}\n", out);
    return 0;
}
