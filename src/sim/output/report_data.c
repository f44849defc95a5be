/* SPDX-License-Identifier: Apache-2.0 */
/* report_data.c - what the report's script draws, as compact JSON. See report.h.
 *
 * Times are seconds since the first submit of the run. Times of a series are never written: its start and step are.
 */
#include <errno.h>
#include <math.h>

#include "base/alloc.h"
#include "model/trace.h"
#include "sim/metrics/metrics.h"
#include "sim/output/report.h"
#include "wire/text/json_write.h"

enum { CDF_POINTS_MAX = 800 };

/* Three decimals are enough for a plot, and short. */
static void put_milli(struct json_write *json, const char *key, double value)
{
    double scaled = round(value * 1e3);

    json_write_double(json, key, fabs(scaled) < 0x1.0p53 ? scaled / 1e3 + 0.0 : value);
}

/* Points (value, how many jobs have at most it). Every distinct value when there are few; else evenly by rank, with
 * the least and the greatest. A point is always exact. */
static int put_cdf(struct json_write *json, const char *key, const struct run_result *run, int jct)
{
    usec_t *values;
    size_t count, stride;
    int r = metrics_sorted(run, jct, &values, &count);

    if (r < 0)
        return r;
    stride = count / CDF_POINTS_MAX + 1;
    json_write_array(json, key);
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;

        while (end < count && values[end] == values[i])
            end++;
        put_milli(json, NULL, (double)values[i] / (double)USEC_SEC);
        json_write_u64(json, NULL, end);
        i = end > i + stride ? end : i + stride;
        if (i >= count && end < count)
            i = count - 1;
    }
    json_write_close(json);
    mem_free(values);
    return 0;
}

/* Which column of the timeline. */
enum column { HELD_MEAN, HELD_MIN, HELD_MAX, TOTAL, WAITING_MEAN, WAITING_MIN, WAITING_MAX, COLUMN_COUNT };

static double bin_value(const struct timebin *bin, enum column column)
{
    double span = (double)bin->span;

    switch (column) {
    case HELD_MEAN:
        return bin->held / span / MGPU_ONE;
    case HELD_MIN:
        return (double)bin->held_min / MGPU_ONE;
    case HELD_MAX:
        return (double)bin->held_max / MGPU_ONE;
    case TOTAL:
        return bin->total / span / MGPU_ONE;
    case WAITING_MEAN:
        return bin->waiting / span;
    case WAITING_MIN:
        return bin->waiting_min;
    case WAITING_MAX:
        return bin->waiting_max;
    case COLUMN_COUNT:
        break;
    }
    return 0;
}

static void put_timeline(struct json_write *json, const struct run_result *run)
{
    static const char *const names[COLUMN_COUNT] = { "held",    "heldMin",    "heldMax",   "total",
                                                     "waiting", "waitingMin", "waitingMax" };
    const struct timeline *line = &run->timeline;

    if (!line->count)
        return;
    json_write_object(json, "time");
    put_milli(json, "step", (double)line->width / (double)USEC_SEC);
    json_write_double(json, "end", (double)(run->tally.last.at - line->start) / (double)USEC_SEC);
    for (int column = 0; column < COLUMN_COUNT; column++) {
        json_write_array(json, names[column]);
        for (size_t i = 0; i < line->count; i++)
            put_milli(json, NULL, line->bins[i].span ? bin_value(&line->bins[i], (enum column)column) : 0);
        json_write_close(json);
    }
    json_write_close(json);
}

static int put_waits(struct json_write *json, const struct run_result *run)
{
    struct wait_summary waits;
    int r = metrics_waits(run, &waits);

    if (r < 0)
        return r;
    json_write_object(json, "reasons");
    for (int reason = REASON_NONE + 1; reason < REASON_COUNT; reason++)
        if (waits.by_reason[reason] > 0)
            put_milli(json, reason_name((enum reason)reason), waits.by_reason[reason]);
    json_write_close(json);
    json_write_array(json, "sizes");
    for (int bucket = 0; bucket < SIZE_COUNT; bucket++) {
        const struct size_summary *size = &waits.by_size[bucket];

        json_write_object(json, NULL);
        json_write_u64(json, "jobs", size->jobs);
        json_write_u64(json, "done", size->finished);
        put_milli(json, "queue", size->avg_queue);
        put_milli(json, "queue95", size->p95_queue);
        put_milli(json, "slow50", size->p50_slowdown);
        put_milli(json, "slow95", size->p95_slowdown);
        put_milli(json, "frag", size->fragmentation);
        put_milli(json, "share", size->fair_share);
        json_write_close(json);
    }
    json_write_close(json);
    return 0;
}

static int put_run(struct json_write *json, const struct report_input *input, const struct run_group *group, bool gantt)
{
    const struct run_result *run = group->runs[0];
    int r;

    json_write_object(json, NULL);
    json_write_text(json, "label", group->label);
    json_write_u64(json, "seed", run->seed);
    json_write_u64(json, "seeds", group->count);
    json_write_u64(json, "jobs", run->summary.jobs);
    json_write_u64(json, "done", run->summary.finished);
    json_write_u64(json, "gpus", run->gpu_count);
    put_milli(json, "makespan", run->summary.makespan);
    put_milli(json, "submitted", /* when the last job came */
              run->job_count ? (double)(run->jobs[run->job_count - 1].submit - run->jobs[0].submit) / (double)USEC_SEC
                             : 0);
    r = put_cdf(json, "jct", run, 1);
    if (r == 0)
        r = put_cdf(json, "queue", run, 0);
    if (r == 0)
        r = put_waits(json, run);
    if (r < 0)
        return r;
    put_timeline(json, run);
    report_data_told(json, run);
    r = report_data_vcs(json, input, run);
    if (r == 0 && gantt)
        r = report_data_gantt(json, input, run);
    json_write_close(json);
    return r;
}

int report_data(struct buf *out, const struct report_input *input, const struct report_detail *detail)
{
    size_t shown = input->groups->count < detail->runs ? input->groups->count : detail->runs;
    struct json_write json;

    json_write_init(&json, out, false);
    json_write_object(&json, NULL);
    json_write_u64(&json, "left", input->groups->count - shown);
    json_write_object(&json, "reasonText");
    for (int reason = REASON_NONE + 1; reason < REASON_COUNT; reason++)
        json_write_text(&json, reason_name((enum reason)reason), reason_text((enum reason)reason));
    json_write_close(&json);
    json_write_array(&json, "runs");
    for (size_t i = 0; i < shown && !out->error; i++) {
        int r = put_run(&json, input, &input->groups->items[i], detail->gantt);

        if (r < 0)
            return r;
    }
    json_write_close(&json);
    json_write_close(&json);
    return out->error;
}
