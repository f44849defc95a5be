/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* metrics.h - the numbers of one finished run.
 *
 * Definitions, the same in the JSON, the table and the report (docs/report.md):
 *   JCT              end - submit, over jobs that finished (OUTCOME_DONE)
 *   median           element (n-1)/2 of the sorted list; p95 element ceil(0.95 n) - 1; p99 alike; all from zero
 *   makespan         last end - first submit
 *   queueing         JCT - run time alone on the requested GPUs. Sharing and slow placements count as queueing
 *   gpu_utilization  GPU-time held with progress / GPU-time of healthy GPUs during the makespan
 *   fragmentation    mean, over the time in which some job waits, of the share of GPUs that are idle although
 *                    waiting jobs ask for them: min(idle, asked for) / healthy
 *   deadline_miss    jobs whose end does not keep their first deadline / jobs that have one
 */
#include <stddef.h>

#include "sim/result.h"

/* Jobs by GPUs asked for: 1, 2-4, 5-8, more. As YARN-CS reports delays. */
enum size_bucket { SIZE_1, SIZE_2_4, SIZE_5_8, SIZE_MORE, SIZE_COUNT };

enum size_bucket size_bucket_of(int32_t gpus);

/* "1", "2-4", "5-8", ">8". */
const char *size_bucket_name(enum size_bucket bucket);

/* Means are over finished jobs; sums of waiting over all jobs. Seconds. 0 where there is no job. */
struct size_summary {
    uint64_t jobs, finished;
    double avg_jct, avg_queue, p95_queue;
    double waited, fair_share, fragmentation;
    double p50_slowdown, p95_slowdown; /* JCT / run time alone; 1 = never waited */
};

struct wait_summary {
    double by_reason[REASON_COUNT]; /* seconds, summed over all jobs */
    struct size_summary by_size[SIZE_COUNT];
};

/* Fills result->summary from jobs, samples and tally. Leaves alone what only the driver knows: decisions, events,
 * wall time, memory, digest. -ENOMEM. */
int metrics_compute(struct run_result *result);

/* Waiting, by cause and by size. -ENOMEM. */
int metrics_waits(const struct run_result *result, struct wait_summary *ret_waits);

/* What is measured of one job. Negative = the job has no such number (it never ended). */
usec_t job_result_jct(const struct job_result *job);
usec_t job_result_queue(const struct job_result *job);

/* The element of sorted values (count > 0) that is the percentile: ceil(percent/100 x count) - 1. */
size_t percentile_index(size_t count, unsigned percent);

/* Sorted values of the finished jobs: JCT when `jct`, else queueing. Owned by the caller; *ret_count may be 0.
 * -ENOMEM. */
int metrics_sorted(const struct run_result *result, int jct, usec_t **ret_values, size_t *ret_count);
