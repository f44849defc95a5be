/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* result.h - what one simulated run leaves behind: per job, over time, and in sum.
 *
 * The driver fills it while it runs; metrics, CSV, JSON and the HTML report only read it.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/units.h"
#include "model/reason.h"
#include "sim/driver/told.h"

struct trace;
struct cluster_spec;

enum outcome { OUTCOME_WAITING, OUTCOME_RUNNING, OUTCOME_DONE, OUTCOME_FAILED, OUTCOME_REFUSED, OUTCOME_COUNT };

/* One job of the trace, same index as in the trace. Spans and instants in microseconds, -1 = never happened. */
struct job_result {
    int64_t id;
    usec_t submit, start, end;
    usec_t run;                       /* time it held all its GPUs and made progress */
    svc_t service;                    /* GPU-time of it; 0 = `run` on the GPUs it asked for */
    usec_t overhead;                  /* time it held GPUs without progress: start, restart, migration */
    usec_t lost;                      /* progress thrown away: since the last checkpoint, or by failures */
    usec_t alone;                     /* run time alone on its requested GPUs (queueing = end - submit - alone) */
    usec_t waited[REASON_COUNT];      /* seconds of waiting by cause */
    usec_t fair_share, fragmentation; /* the same waiting, split as YARN-CS splits it */
    int32_t gpus;
    mgpu_t share;
    uint32_t user, vc, model; /* names of the trace, NAME_NONE = none */
    usec_t promise,
        offer;           /* promised to end by; no promise, but the earliest possible (USEC_NEVER none); 0 = neither */
    int32_t worth, kept; /* value of its first deadline, and of the one its end keeps */
    uint32_t preemptions, migrations, splices, attempts;
    uint16_t nodes;      /* nodes of its last placement */
    uint8_t locality;    /* 0 fewest nodes possible, 1 one rack, 2 across racks; of its last placement */
    uint8_t outcome;     /* enum outcome */
    uint8_t deadlines;   /* how many it had */
    uint8_t breach;      /* enum breach: its promise was broken */
    int8_t deadline_met; /* index of the first deadline that its end keeps, -1 = none */
};

/* The cluster from `at` on, until the next sample. Taken at every change; goes into the tally and the timeline. */
struct sample {
    usec_t at;
    int64_t mgpu_held;  /* thousandths of GPUs held by jobs */
    int64_t mgpu_total; /* of healthy nodes */
    int64_t mgpu_twice; /* held by guests on GPUs that somebody has already */
    uint32_t waiting, running;
    int64_t mgpu_waiting; /* asked for by waiting jobs */
};

struct vc_sample {
    usec_t at;
    uint32_t vc; /* index into cluster_spec.vcs */
    int64_t mgpu_held;
    uint32_t waiting;
};

/* One job on one GPU for a while: the rows of the Gantt chart. Kept for small clusters only. */
struct span {
    usec_t from, to;
    uint32_t job; /* index into jobs */
    uint32_t gpu; /* index over the whole cluster */
    mgpu_t share;
    uint8_t kind;  /* 0 running, 1 starting or restoring */
    uint8_t how;   /* SPAN_... */
    uint16_t size; /* GPUs the job has in all; 0 = not told */
};

enum { SPAN_PAIR = 1, SPAN_GUEST = 2, SPAN_SPLICED = 4 }; /* not for itself, or fewer than it has workers */

/* What was done to a running job, at an instant; `before` and `after` are GPUs, but of PACK and UNPACK the other job
 * (index into jobs) in `before`, and of LIMIT MiB (0 = all it likes) and percent. Kept with the bars. */
enum mark_kind { MARK_MOVE, MARK_SIZE, MARK_SPLICE, MARK_PACK, MARK_UNPACK, MARK_LIMIT };
struct mark {
    usec_t at;
    uint32_t job;
    uint8_t kind; /* enum mark_kind */
    int64_t before, after;
};

struct summary {
    uint64_t jobs, finished, failed, refused;
    double avg_jct, p50_jct, p95_jct, p99_jct, max_jct, sum_jct; /* seconds */
    double makespan, avg_queue;                                  /* seconds */
    double gpu_utilization, fragmentation;                       /* ratios */
    double weighted_miss; /* mean of 1 - value kept / value of the first deadline; NaN = none has one */
    uint64_t admitted, broken_promises;
    double best_effort_jct; /* mean of those without a deadline; NaN = none finished */
    double deadline_miss;   /* ratio of jobs that have one; NaN = none has */
    double lost_gpu_seconds, overhead_gpu_seconds;
    double avg_fair_share, avg_fragmentation_delay; /* seconds */
    uint64_t preemptions, migrations, splices, decisions, events;
    double decisions_per_second, wall_seconds;
    uint64_t peak_rss_bytes;
    uint64_t digest;
};

/* One stretch of time: sums over it, and the extremes. */
struct timebin {
    usec_t span;                       /* how much of it was seen */
    double held, total, waiting;       /* thousandths of GPUs (jobs, for waiting) x microseconds */
    int64_t held_min, held_max;        /* thousandths of GPUs */
    uint32_t waiting_min, waiting_max; /* jobs */
};

/* The whole run in at most TIMEBINS stretches of equal width. When time goes on past the last, neighbours are joined
 * and the width doubles: means and extremes stay exact however long the run. */
enum { TIMEBINS = 1024 };
struct timeline {
    usec_t start, width; /* of bin 0; width of each */
    size_t count;
    struct timebin *bins; /* owned, TIMEBINS; NULL before the first sample */
};

/* Sums over time. Kept by run_result_sample(). */
struct tally {
    usec_t waiting_span;    /* time with at least one job waiting */
    double capacity;        /* thousandths of healthy GPUs x microseconds, from the first submit on */
    double twice;           /* what guests held beside others, x microseconds */
    double wanted_idle;     /* of waiting_span: idle share of the GPUs that waiting jobs ask for, x microseconds */
    struct sample last;     /* in force since last.at */
    unsigned char has_last; /* bool */
};

/* What a planner counted, by name. */
enum { COUNTERS_MAX = 32 };
struct counter {
    const char *name; /* of the planner's table: lives as long as the program */
    int64_t value;
};

/* What sharing GPUs has cost and gained; GPU-microseconds. */
struct shared_use {
    double busy;       /* GPUs computed: work that was done, by the part of a GPU it uses; untold counts as all */
    double guests;     /* held by guests */
    double guest_work; /* done by them: what it takes alone */
    double owner_lost; /* by which owners were slower for them */
    uint64_t guest_starts, limits;
};

/* What was done to running jobs: how often, and the GPU time it cost and brought; see reshape.c. */
enum reshape { RESHAPE_NONE, RESHAPE_PACK, RESHAPE_MIGRATE, RESHAPE_RESIZE, RESHAPE_SUSPEND, RESHAPE_KINDS };
struct reshaping {
    uint64_t count;
    svc_t cost, gain, left; /* GPU-microseconds; left to others by jobs smaller than they asked to be */
};

struct run_result {
    struct shared_use shared;
    struct reshaping reshaped[RESHAPE_KINDS];
    struct counter counters[COUNTERS_MAX];
    uint32_t counter_count;
    uint32_t searches, winners; /* hyper-parameter searches, and those whose winner was found; see search.h */
    usec_t winner_mean, winner_max;
    char policy[64], trace_name[256], cluster_name[256];
    char settings[512];                 /* "key=value" pairs, one space between */
    const struct trace *trace;          /* borrowed; where names of users, vcs and models come from. NULL = none */
    const struct cluster_spec *cluster; /* borrowed; NULL = not told */
    uint64_t seed;
    struct tally tally;
    struct timeline timeline; /* kept by run_result_sample() */
    struct job_result *jobs;
    size_t job_count;
    struct vc_sample *vc_samples;
    size_t vc_sample_count, vc_sample_capacity;
    struct span *spans;
    size_t span_count, span_capacity;
    struct mark *marks;
    size_t mark_count, mark_capacity;
    struct told told;   /* what its policies told; kept where the driver was asked to */
    usec_t spans_until; /* bars that began later were not kept; 0 = all were */
    char warning[256];  /* what was asked for and could not be had, though the run went on; "" = nothing */
    usec_t idle_gap;    /* GPUs idle between two jobs although the second had come; summed */
    uint64_t idle_gaps; /* how many such gaps */
    uint32_t gpu_count, node_count, vc_count;
    struct summary summary;
};

enum { VC_SAMPLES_MAX = 1 << 16, VC_SERIES_MAX = 64, SPANS_MAX = 40000, RUN_MARKS_MAX = 20000, SPAN_GPUS_MAX = 256 };

void run_result_done(struct run_result *result);

/* Notes the state of the cluster from sample->at on. Instants ascend; a second sample of one instant replaces the
 * first. Memory stays bounded and sums exact. -ENOMEM. */
int run_result_sample(struct run_result *result, const struct sample *sample);

/* The same for one virtual cluster. Those numbered VC_SERIES_MAX and up are not kept: no plot has room. -ENOMEM. */
int run_result_vc_sample(struct run_result *result, const struct vc_sample *sample);

/* Notes one bar of the Gantt chart, when it has ended. Does nothing when the cluster has more than SPAN_GPUS_MAX GPUs
 * (gpu_count). Past SPANS_MAX only bars that began before that moment are kept: the chart then shows the time up to
 * it (spans_until), without holes. -ENOMEM. */
int run_result_span(struct run_result *result, const struct span *span);

/* The same for a mark; instants ascend. Past RUN_MARKS_MAX the chart ends there. -ENOMEM. */
int run_result_mark(struct run_result *result, const struct mark *mark);
