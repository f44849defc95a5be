/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* metrics_share.h - how a run treated those who share the cluster, and its curves.
 *
 *   slowdown   JCT / run time alone on the requested GPUs; 1 = never waited, never slowed
 *   fairness   Jain's index over the mean slowdowns of users (of virtual clusters where the trace names no users):
 *              1 = all are slowed alike, 1/n = one of n bears everything. NaN with fewer than two of them
 */
#include "sim/metrics/metrics.h"

struct share {
    uint32_t name; /* of the trace */
    uint64_t jobs, finished;
    double avg_queue, avg_jct, avg_slowdown; /* over finished jobs; 0 where there are none */
    double gpu_seconds;
};

struct shares {
    struct share *vcs; /* owned; by name, of virtual clusters that jobs name */
    size_t vc_count;
    double fairness;
    double p50_queue, p95_queue, p99_queue; /* seconds */
};

enum { CURVE_POINTS = 101 };

/* Percentiles 0 to 100 of the finished jobs, in seconds; all 0 where there are none. */
struct curves {
    double queue[CURVE_POINTS], jct[CURVE_POINTS];
};

/* -ENOMEM. */
int shares_init(struct shares *shares, const struct run_result *result);
void shares_done(struct shares *shares);
int curves_fill(struct curves *curves, const struct run_result *result);
