/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - see metrics.h. Sums are taken in integers (128 bits where needed) and divided once, so that the order
 * of jobs cannot change a digit. */
#include "sim/metrics/metrics.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

typedef __int128 wide_t;

static inline void values_free(usec_t *values)
{
    mem_free(values);
}
DEFINE_CLEANUP(usec_t *, values_free)

static const char *const size_names[SIZE_COUNT] = { "1", "2-4", "5-8", ">8" };

enum size_bucket size_bucket_of(int32_t gpus)
{
    if (gpus <= 1)
        return SIZE_1;
    if (gpus <= 4)
        return SIZE_2_4;
    return gpus <= 8 ? SIZE_5_8 : SIZE_MORE;
}

const char *size_bucket_name(enum size_bucket bucket)
{
    assert(bucket < SIZE_COUNT);
    return size_names[bucket];
}

usec_t job_result_jct(const struct job_result *job)
{
    return job->outcome == OUTCOME_DONE && job->end >= 0 ? job->end - job->submit : -1;
}

usec_t job_result_queue(const struct job_result *job)
{
    usec_t jct = job_result_jct(job);

    if (jct < 0)
        return -1;
    return jct > job->alone ? jct - job->alone : 0; /* an elastic job may beat its own request */
}

size_t percentile_index(size_t count, unsigned percent)
{
    assert(count > 0);
    assert(percent > 0 && percent <= 100);
    return (count * percent + 99) / 100 - 1;
}

static int compare_usec(const void *left, const void *right)
{
    usec_t a = *(const usec_t *)left, b = *(const usec_t *)right;

    return a < b ? -1 : a > b;
}

static double seconds(wide_t usec)
{
    return (double)usec / (double)USEC_SEC;
}

int metrics_sorted(const struct run_result *result, int jct, usec_t **ret_values, size_t *ret_count)
{
    usec_t *values = mem_zalloc(result->job_count, sizeof(*values));
    size_t count = 0;

    if (!values)
        return -ENOMEM;
    for (size_t i = 0; i < result->job_count; i++) {
        usec_t value = jct ? job_result_jct(&result->jobs[i]) : job_result_queue(&result->jobs[i]);

        if (value >= 0)
            values[count++] = value;
    }
    if (count)
        qsort(values, count, sizeof(*values), compare_usec);
    *ret_values = values;
    *ret_count = count;
    return 0;
}

/* What is summed over all jobs in one pass. */
struct sums {
    wide_t jct, queue, fair_share, fragmentation; /* microseconds, finished jobs */
    wide_t busy, lost, overhead;                  /* thousandths of GPUs x microseconds, all jobs */
    usec_t first, last;
    uint64_t deadlines, missed, best_effort;
    wide_t best_effort_jct;
    double weighted;
};

static void sums_add(struct sums *sums, struct summary *summary, const struct job_result *job)
{
    wide_t mgpu = (wide_t)job->gpus * job->share;
    usec_t jct = job_result_jct(job);

    if (job->submit < sums->first)
        sums->first = job->submit;
    if (job->end > sums->last)
        sums->last = job->end;
    summary->finished += job->outcome == OUTCOME_DONE;
    summary->failed += job->outcome == OUTCOME_FAILED;
    summary->refused += job->outcome == OUTCOME_REFUSED || job->offer;
    summary->admitted += job->promise != 0;
    summary->broken_promises += job->breach != 0;
    summary->preemptions += job->preemptions;
    summary->migrations += job->migrations;
    summary->splices += job->splices;
    sums->busy += job->service ? (wide_t)job->service * MGPU_ONE : mgpu * job->run;
    sums->lost += mgpu * job->lost;
    sums->overhead += mgpu * job->overhead;
    if (job->deadlines) {
        sums->deadlines++;
        sums->missed += job->deadline_met != 0;
        sums->weighted += job->worth > 0 ? 1 - (double)job->kept / job->worth : job->deadline_met != 0;
    } else if (jct >= 0) {
        sums->best_effort++;
        sums->best_effort_jct += jct;
    }
    if (jct < 0)
        return;
    sums->jct += jct;
    sums->queue += job_result_queue(job);
    sums->fair_share += job->fair_share;
    sums->fragmentation += job->fragmentation;
}

/* GPU-time of healthy GPUs from the first submit to the last end. The tally stops at the last sample; a run that was
 * cut short, or whose driver took no samples, is filled up with what was there last. */
static double capacity_of(const struct run_result *result, const struct sums *sums)
{
    const struct tally *tally = &result->tally;

    if (!tally->has_last)
        return (double)result->gpu_count * MGPU_ONE * (double)(sums->last - sums->first);
    if (sums->last > tally->last.at)
        return tally->capacity + (double)tally->last.mgpu_total * (double)(sums->last - tally->last.at);
    return tally->capacity;
}

static void fill_percentiles(struct summary *summary, const usec_t *jct, size_t count)
{
    if (!count)
        return;
    summary->p50_jct = seconds(jct[(count - 1) / 2]);
    summary->p95_jct = seconds(jct[percentile_index(count, 95)]);
    summary->p99_jct = seconds(jct[percentile_index(count, 99)]);
    summary->max_jct = seconds(jct[count - 1]);
}

static void fill_means(struct summary *summary, const struct sums *sums, size_t count)
{
    double n = (double)count;

    summary->sum_jct = seconds(sums->jct);
    if (!count)
        return;
    summary->avg_jct = seconds(sums->jct) / n;
    summary->avg_queue = seconds(sums->queue) / n;
    summary->avg_fair_share = seconds(sums->fair_share) / n;
    summary->avg_fragmentation_delay = seconds(sums->fragmentation) / n;
}

int metrics_compute(struct run_result *result)
{
    const struct summary *old = &result->summary;
    struct summary fresh = { .jobs = result->job_count,
                             .decisions = old->decisions,
                             .events = old->events,
                             .decisions_per_second = old->decisions_per_second,
                             .wall_seconds = old->wall_seconds,
                             .peak_rss_bytes = old->peak_rss_bytes,
                             .digest = old->digest };
    struct sums sums = { .first = INT64_MAX, .last = -1 };
    CLEANUP(values_free) usec_t *jct = NULL;
    size_t count;
    int r = metrics_sorted(result, 1, &jct, &count);

    if (r < 0)
        return r;
    for (size_t i = 0; i < result->job_count; i++)
        sums_add(&sums, &fresh, &result->jobs[i]);
    fill_percentiles(&fresh, jct, count);
    fill_means(&fresh, &sums, count);
    fresh.lost_gpu_seconds = seconds(sums.lost) / MGPU_ONE;
    fresh.overhead_gpu_seconds = seconds(sums.overhead) / MGPU_ONE;
    fresh.deadline_miss = sums.deadlines ? (double)sums.missed / (double)sums.deadlines : (double)NAN;
    fresh.weighted_miss = sums.deadlines ? sums.weighted / (double)sums.deadlines : (double)NAN;
    fresh.best_effort_jct = sums.best_effort ? seconds(sums.best_effort_jct) / (double)sums.best_effort : (double)NAN;
    if (sums.last >= sums.first) {
        double capacity = capacity_of(result, &sums);

        fresh.makespan = seconds(sums.last - sums.first);
        fresh.gpu_utilization = capacity > 0 ? ((double)sums.busy - result->tally.twice) / capacity : 0;
    }
    if (result->tally.waiting_span > 0)
        fresh.fragmentation = result->tally.wanted_idle / (double)result->tally.waiting_span;
    result->summary = fresh;
    return 0;
}

/* The finished jobs of one size, as two columns to sort. */
struct size_columns {
    usec_t *queue;
    usec_t *slowdown; /* millionths */
    size_t count;
};

static void size_columns_free(struct size_columns *columns)
{
    mem_free(columns->queue);
    mem_free(columns->slowdown);
}

static void size_fill(struct size_summary *size, struct size_columns *columns)
{
    size_t n = columns->count, p95 = n ? percentile_index(n, 95) : 0;

    if (!n)
        return;
    qsort(columns->queue, n, sizeof(*columns->queue), compare_usec);
    qsort(columns->slowdown, n, sizeof(*columns->slowdown), compare_usec);
    size->p95_queue = seconds(columns->queue[p95]);
    size->p50_slowdown = (double)columns->slowdown[(n - 1) / 2] / 1e6;
    size->p95_slowdown = (double)columns->slowdown[p95] / 1e6;
}

static int waits_of_size(const struct run_result *result, enum size_bucket bucket, struct size_summary *ret)
{
    struct size_summary size = { 0 };
    struct size_columns columns = { .queue = mem_zalloc(result->job_count, sizeof(usec_t)),
                                    .slowdown = mem_zalloc(result->job_count, sizeof(usec_t)) };
    wide_t jct = 0, queue = 0, waited = 0, fair_share = 0, fragmentation = 0;

    if (!columns.queue || !columns.slowdown) {
        size_columns_free(&columns);
        return -ENOMEM;
    }
    for (size_t i = 0; i < result->job_count; i++) {
        const struct job_result *job = &result->jobs[i];

        if (size_bucket_of(job->gpus) != bucket)
            continue;
        size.jobs++;
        for (int reason = 0; reason < REASON_COUNT; reason++)
            waited += job->waited[reason];
        fair_share += job->fair_share;
        fragmentation += job->fragmentation;
        if (job_result_jct(job) < 0)
            continue;
        jct += job_result_jct(job);
        queue += job_result_queue(job);
        columns.queue[columns.count] = job_result_queue(job);
        columns.slowdown[columns.count++] = muldiv_floor(job_result_jct(job), PPM_ONE, job->alone > 0 ? job->alone : 1);
    }
    size.finished = columns.count;
    size.avg_jct = columns.count ? seconds(jct) / (double)columns.count : 0;
    size.avg_queue = columns.count ? seconds(queue) / (double)columns.count : 0;
    size.waited = seconds(waited);
    size.fair_share = seconds(fair_share);
    size.fragmentation = seconds(fragmentation);
    size_fill(&size, &columns);
    size_columns_free(&columns);
    *ret = size;
    return 0;
}

int metrics_waits(const struct run_result *result, struct wait_summary *ret_waits)
{
    struct wait_summary waits = { 0 };
    wide_t by_reason[REASON_COUNT] = { 0 };

    for (size_t i = 0; i < result->job_count; i++)
        for (int reason = 0; reason < REASON_COUNT; reason++)
            by_reason[reason] += result->jobs[i].waited[reason];
    for (int reason = 0; reason < REASON_COUNT; reason++)
        waits.by_reason[reason] = seconds(by_reason[reason]);
    for (int bucket = 0; bucket < SIZE_COUNT; bucket++) {
        int r = waits_of_size(result, (enum size_bucket)bucket, &waits.by_size[bucket]);

        if (r < 0)
            return r;
    }
    *ret_waits = waits;
    return 0;
}
