/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* stats.h - what was counted: requests by route and status, times from submission to start and of runs. */
#include "ctl/http/http_server.h"

struct stats;
struct ctl_event;

/* Upper ends of the classes of a histogram, in seconds. The last class has none. */
enum { STATS_CLASSES = 15 };
extern const double stats_bounds[STATS_CLASSES];

struct histogram {
    uint64_t count[STATS_CLASSES + 1];
    usec_t sum;
};

void histogram_add(struct histogram *histogram, usec_t value);

enum { SIZE_CLASSES = 4, STATS_VCS_MAX = 64, STATS_ROUTES_MAX = 128 };
extern const char *const stats_sizes[SIZE_CLASSES];

/* What ended an attempt from outside, and what the job could do about it. */
enum { STOP_CAUSES = 4, STOP_STEPS = 4 };
extern const char *const stats_causes[STOP_CAUSES]; /* preempt drain migrate node */
extern const char *const stats_steps[STOP_STEPS];   /* suspend checkpoint requeue cancel */

/* Status classes 1xx .. 5xx. */
struct route_stats {
    struct histogram took[6];
};

struct stats {
    struct route_stats routes[STATS_ROUTES_MAX];
    struct histogram wait[STATS_VCS_MAX][SIZE_CLASSES], run[STATS_VCS_MAX][SIZE_CLASSES];
    uint64_t finished[STATS_VCS_MAX][16]; /* by phase_of_job */
    struct histogram cycle, decide;       /* batches: with their commit, and without */
    struct histogram eta_error[STATS_VCS_MAX];
    uint64_t preempted[STATS_VCS_MAX][STOP_CAUSES][STOP_STEPS];
    double lost[STATS_VCS_MAX][STOP_CAUSES]; /* GPU-seconds */
    uint64_t requests, events, orders, reports, frames_bad;
};

/* A "job.preempted" event. */
void stats_preempted(struct stats *stats, uint32_t vc, const struct ctl_event *event);
void stats_request(struct stats *stats, const struct request *request, usec_t took);
static inline unsigned size_class(int64_t gpus)
{
    return gpus <= 1 ? 0 : gpus <= 8 ? 1 : gpus <= 64 ? 2 : 3;
}
