/* SPDX-License-Identifier: Apache-2.0 */
/* test_metrics.c - the numbers of a run, against values worked out by hand. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "sim/metrics/metrics.h"

static struct job_result job_of(int64_t id, int32_t gpus, int64_t submit, int64_t start, int64_t end)
{
    struct job_result job = { .id = id,
                              .submit = submit * USEC_SEC,
                              .start = start * USEC_SEC,
                              .end = end * USEC_SEC,
                              .gpus = gpus,
                              .share = MGPU_ONE,
                              .attempts = 1,
                              .outcome = OUTCOME_DONE,
                              .deadline_met = -1 };

    job.run = job.alone = job.end - job.start;
    return job;
}

static void give(struct run_result *result, const struct job_result *jobs, size_t count)
{
    result->jobs = mem_zalloc(count, sizeof(*jobs));
    assert_non_null(result->jobs);
    memcpy(result->jobs, jobs, count * sizeof(*jobs));
    result->job_count = count;
}

static void sample_at(struct run_result *result, int64_t at, int64_t held, uint32_t waiting, int64_t asked)
{
    struct sample sample = { .at = at * USEC_SEC,
                             .mgpu_held = held * MGPU_ONE,
                             .mgpu_total = 4 * MGPU_ONE,
                             .waiting = waiting,
                             .mgpu_waiting = asked * MGPU_ONE };

    assert_int_equal(run_result_sample(result, &sample), 0);
}

/* Example Y1 of YARN-CS, strict: 4 GPUs, J0 0-10 with 3, J1 10-20 with 4, J2 20-21 with 1. */
static void strict_fifo_by_hand(void **state)
{
    struct run_result result = { .gpu_count = 4 };
    const struct job_result jobs[] = { job_of(0, 3, 0, 0, 10), job_of(1, 4, 1, 10, 20), job_of(2, 1, 2, 20, 21) };

    (void)state;
    give(&result, jobs, 3);
    sample_at(&result, 0, 3, 0, 0);
    sample_at(&result, 1, 3, 1, 4);
    sample_at(&result, 2, 3, 2, 5);
    sample_at(&result, 10, 4, 1, 1);
    sample_at(&result, 20, 1, 0, 0);
    sample_at(&result, 21, 0, 0, 0);
    result.summary.decisions = 7;
    result.summary.digest = 99;
    assert_int_equal(metrics_compute(&result), 0);
    assert_true(result.summary.sum_jct == 48);
    assert_true(result.summary.avg_jct == 16);
    assert_true(result.summary.p50_jct == 19);
    assert_true(result.summary.p95_jct == 19);
    assert_true(result.summary.max_jct == 19);
    assert_true(result.summary.makespan == 21);
    assert_true(result.summary.avg_queue == 9); /* 0, 9 and 18 */
    assert_true(fabs(result.summary.gpu_utilization - 71.0 / 84) < 1e-12);
    assert_true(fabs(result.summary.fragmentation - 9 * 0.25 / 19) < 1e-12); /* one GPU idle from 1 to 10 */
    assert_true(isnan(result.summary.deadline_miss));
    assert_int_equal(result.summary.decisions, 7);
    assert_int_equal(result.summary.digest, 99);
    run_result_done(&result);
}

static void percentiles_are_elements(void **state)
{
    struct run_result result = { .gpu_count = 1 };
    struct job_result jobs[100];

    (void)state;
    assert_int_equal(percentile_index(1, 95), 0);
    assert_int_equal(percentile_index(20, 95), 18);
    assert_int_equal(percentile_index(21, 95), 19);
    assert_int_equal(percentile_index(100, 99), 98);
    assert_int_equal(percentile_index(480, 95), 455);
    for (int i = 0; i < 100; i++)
        jobs[i] = job_of(i, 1, 0, 0, 100 - i);
    give(&result, jobs, 100);
    assert_int_equal(metrics_compute(&result), 0);
    assert_true(result.summary.p50_jct == 50);
    assert_true(result.summary.p95_jct == 95);
    assert_true(result.summary.p99_jct == 99);
    run_result_done(&result);
}

static void unfinished_jobs_count_apart(void **state)
{
    struct run_result result = { .gpu_count = 4 };
    struct job_result jobs[4] = { job_of(0, 2, 0, 0, 10), job_of(1, 2, 0, 0, 6), job_of(2, 2, 1, 10, 12),
                                  job_of(3, 9, 3, 0, 0) };

    (void)state;
    jobs[0].deadlines = 2;
    jobs[0].deadline_met = 1; /* the first was missed */
    jobs[1].outcome = OUTCOME_FAILED;
    jobs[1].lost = 3 * USEC_SEC;
    jobs[2].deadlines = 1;
    jobs[2].deadline_met = 0;
    jobs[2].overhead = 2 * USEC_SEC;
    jobs[2].preemptions = 3;
    jobs[3].outcome = OUTCOME_REFUSED;
    jobs[3].start = jobs[3].end = -1;
    jobs[3].run = jobs[3].alone = 0;
    give(&result, jobs, 4);
    assert_int_equal(metrics_compute(&result), 0);
    assert_int_equal(result.summary.jobs, 4);
    assert_int_equal(result.summary.finished, 2);
    assert_int_equal(result.summary.failed, 1);
    assert_int_equal(result.summary.refused, 1);
    assert_int_equal(result.summary.preemptions, 3);
    assert_true(result.summary.sum_jct == 21);
    assert_true(result.summary.makespan == 12);
    assert_true(result.summary.lost_gpu_seconds == 6);
    assert_true(result.summary.overhead_gpu_seconds == 4);
    assert_true(result.summary.deadline_miss == 0.5);
    assert_true(result.summary.gpu_utilization == 36.0 / 48); /* no samples: all GPUs, all the time */
    run_result_done(&result);
}

static void nothing_at_all(void **state)
{
    struct run_result result = { .gpu_count = 4 };
    struct wait_summary waits;

    (void)state;
    assert_int_equal(metrics_compute(&result), 0);
    assert_true(result.summary.makespan == 0);
    assert_true(result.summary.avg_jct == 0);
    assert_int_equal(metrics_waits(&result, &waits), 0);
    run_result_done(&result);
}

static void waits_by_reason_and_size(void **state)
{
    struct run_result result = { .gpu_count = 4 };
    struct job_result jobs[3] = { job_of(0, 1, 0, 4, 8), job_of(1, 4, 0, 8, 10), job_of(2, 3, 0, 10, 20) };
    struct wait_summary waits;

    (void)state;
    jobs[0].waited[REASON_PRIORITY] = 4 * USEC_SEC;
    jobs[1].waited[REASON_PRIORITY] = 3 * USEC_SEC;
    jobs[1].waited[REASON_FRAGMENTED] = 5 * USEC_SEC;
    jobs[1].fragmentation = 8 * USEC_SEC;
    jobs[2].waited[REASON_VC_LIMIT] = 10 * USEC_SEC;
    jobs[2].fair_share = 10 * USEC_SEC;
    give(&result, jobs, 3);
    assert_int_equal(metrics_waits(&result, &waits), 0);
    assert_true(waits.by_reason[REASON_PRIORITY] == 7);
    assert_true(waits.by_reason[REASON_FRAGMENTED] == 5);
    assert_int_equal(waits.by_size[SIZE_1].jobs, 1);
    assert_int_equal(waits.by_size[SIZE_2_4].jobs, 2);
    assert_int_equal(waits.by_size[SIZE_MORE].jobs, 0);
    assert_true(waits.by_size[SIZE_2_4].waited == 18);
    assert_true(waits.by_size[SIZE_2_4].avg_queue == 9);
    assert_true(waits.by_size[SIZE_2_4].fair_share == 10);
    assert_true(waits.by_size[SIZE_2_4].fragmentation == 8);
    assert_true(waits.by_size[SIZE_1].p50_slowdown == 2);   /* 8 s instead of 4 */
    assert_true(waits.by_size[SIZE_2_4].p95_slowdown == 5); /* 10 s instead of 2 */
    run_result_done(&result);
}

static void capacity_counts_from_the_first_submit(void **state)
{
    struct run_result result = { .gpu_count = 4 };
    const struct job_result jobs[] = { job_of(0, 4, 100, 100, 200) };

    (void)state;
    give(&result, jobs, 1);
    sample_at(&result, 0, 0, 0, 0);
    sample_at(&result, 100, 4, 0, 0);
    sample_at(&result, 200, 0, 0, 0);
    assert_int_equal(metrics_compute(&result), 0);
    assert_true(result.summary.gpu_utilization == 1);
    run_result_done(&result);
}

/* The bins cover the run without a gap, and their sums are those of the samples. */
static void check_timeline(const struct timeline *line)
{
    double held = 0, waiting = 0;
    usec_t span = 0;
    uint32_t peak = 0;
    int64_t dip = INT64_MAX;

    assert_in_range(line->count, TIMEBINS / 2, TIMEBINS);
    for (size_t i = 0; i < line->count; i++) {
        assert_true(i + 1 == line->count || line->bins[i].span == line->width);
        span += line->bins[i].span;
        held += line->bins[i].held;
        waiting += line->bins[i].waiting;
        peak = line->bins[i].waiting_max > peak ? line->bins[i].waiting_max : peak;
        dip = line->bins[i].held_min < dip ? line->bins[i].held_min : dip;
    }
    assert_int_equal(span, 1000000 * USEC_SEC);
    assert_true(fabs(held / (double)span / MGPU_ONE - (3.5 - 4e-6)) < 1e-9);
    assert_true(fabs(waiting / (double)span - (1 + 76e-6)) < 1e-9);
    assert_int_equal(peak, 77);
    assert_int_equal(dip, 0);
}

static void many_samples_stay_bounded_and_exact(void **state)
{
    struct run_result result = { .gpu_count = 4 };
    const struct job_result jobs[] = { job_of(0, 4, 0, 0, 1000000) };

    (void)state;
    give(&result, jobs, 1);
    for (int i = 0; i <= 1000000; i++) /* 1 GPU idle and wanted every other second; one peak of the queue */
        sample_at(&result, i, i == 600001 ? 0 : 3 + i % 2, i == 500000 ? 77 : 1, 1);
    assert_int_equal(metrics_compute(&result), 0);
    assert_true(fabs(result.summary.fragmentation - (500000 * 0.25 + 0.25) / 1000000) < 1e-9);
    check_timeline(&result.timeline);
    run_result_done(&result);
}

static void spans_end_at_a_clean_cut(void **state)
{
    struct run_result result = { .gpu_count = 2 };
    struct span span = { .share = MGPU_ONE };
    usec_t until = 0;

    (void)state;
    for (int i = 0; i < SPANS_MAX + 100; i++) {
        span.from = i;
        span.to = i + 1;
        assert_int_equal(run_result_span(&result, &span), 0);
        if (result.spans_until && !until)
            until = result.spans_until;
    }
    span.from = 5; /* was running all the time, and ends after the cut */
    span.to = 10 * (usec_t)SPANS_MAX;
    span.gpu = 1;
    assert_int_equal(run_result_span(&result, &span), 0);
    assert_int_equal(result.spans_until, until);
    assert_int_equal(until, SPANS_MAX + 1);
    assert_int_equal(result.span_count, SPANS_MAX + 2);
    assert_int_equal(result.spans[result.span_count - 1].gpu, 1);
    run_result_done(&result);
    result.gpu_count = SPAN_GPUS_MAX + 1;
    assert_int_equal(run_result_span(&result, &span), 0);
    assert_int_equal(result.span_count, 0);
}

static void vc_samples_stay_bounded(void **state)
{
    struct run_result result = { .vc_count = 3 };
    int seen[3] = { 0 };

    (void)state;
    for (int i = 0; i < 5 * VC_SAMPLES_MAX; i++) {
        struct vc_sample sample = { .at = i, .vc = (uint32_t)i % 3, .mgpu_held = i };

        assert_int_equal(run_result_vc_sample(&result, &sample), 0);
    }
    assert_true(result.vc_sample_count <= VC_SAMPLES_MAX);
    for (size_t i = 0; i < result.vc_sample_count; i++) {
        assert_true(i == 0 || result.vc_samples[i].at >= result.vc_samples[i - 1].at);
        seen[result.vc_samples[i].vc]++;
    }
    assert_true(seen[0] > 1000 && seen[1] > 1000 && seen[2] > 1000);
    run_result_done(&result);
}

static void failed_allocations_are_told(void **state)
{
    struct run_result result = { .gpu_count = 4 };
    const struct job_result jobs[] = { job_of(0, 1, 0, 0, 1) };
    struct wait_summary waits;

    (void)state;
    give(&result, jobs, 1);
    mem_fail_at(1);
    assert_int_equal(metrics_compute(&result), -ENOMEM);
    for (size_t nth = 1; nth <= 2 * SIZE_COUNT; nth++) {
        mem_fail_at(nth);
        assert_int_equal(metrics_waits(&result, &waits), -ENOMEM);
    }
    mem_fail_at(0);
    assert_int_equal(metrics_waits(&result, &waits), 0);
    run_result_done(&result);
}

/* C9 of Chronus: kept values 10, 8, 0 and 10 of 10 miss 0, 0.2, 1 and 0. Promises, broken ones, and offers instead. */
static void weighted_misses(void **state)
{
    static const int32_t kept[4] = { 10, 8, 0, 10 };
    struct job_result jobs[4];
    struct run_result result = { .jobs = jobs, .job_count = 4 };

    (void)state;
    for (int i = 0; i < 4; i++)
        jobs[i] = (struct job_result){ .id = i,
                                       .start = 0,
                                       .end = USEC_SEC,
                                       .gpus = 1,
                                       .share = MGPU_ONE,
                                       .outcome = OUTCOME_DONE,
                                       .deadlines = 2,
                                       .deadline_met = (int8_t)(kept[i] == 10 ? 0
                                                                : kept[i]     ? 1
                                                                              : -1),
                                       .worth = 10,
                                       .kept = kept[i],
                                       .promise = i < 3 ? USEC_SEC : 0,
                                       .offer = i == 3 ? 5 * USEC_SEC : 0,
                                       .breach = i == 2 ? 1 : 0 };
    assert_int_equal(metrics_compute(&result), 0);
    assert_true(result.summary.weighted_miss > 0.2999 && result.summary.weighted_miss < 0.3001);
    assert_true(result.summary.deadline_miss == 0.5);
    assert_int_equal(result.summary.admitted, 3);
    assert_int_equal(result.summary.refused, 1);
    assert_int_equal(result.summary.broken_promises, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weighted_misses),
        cmocka_unit_test(strict_fifo_by_hand),
        cmocka_unit_test(percentiles_are_elements),
        cmocka_unit_test(unfinished_jobs_count_apart),
        cmocka_unit_test(nothing_at_all),
        cmocka_unit_test(waits_by_reason_and_size),
        cmocka_unit_test(capacity_counts_from_the_first_submit),
        cmocka_unit_test(many_samples_stay_bounded_and_exact),
        cmocka_unit_test(spans_end_at_a_clean_cut),
        cmocka_unit_test(vc_samples_stay_bounded),
        cmocka_unit_test(failed_allocations_are_told),
    };

    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
