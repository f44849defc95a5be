/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* trace_stat.h - a trace in numbers, and those for people or programs. */
#include <stdio.h>

#include "base/buf.h"
#include "model/trace.h"

enum { STAT_SIZES_MAX = 64, STAT_SPANS = 10 };

struct trace_stat {
    uint64_t jobs, timed; /* timed: with a duration */
    double first_submit, last_submit;
    double duration_p50, duration_mean, duration_p95, duration_max; /* seconds, over timed jobs */
    double gpu_hours;
    double demand; /* mean GPUs asked for while jobs arrive: GPU-seconds / span; 0 = all arrive at once */
    uint64_t users, vcs, models, shared, elastic, deadlines, strict, soft, opportunistic, failing;
    struct stat_size {
        int32_t gpus;
        uint64_t jobs;
        double gpu_hours;
    } sizes[STAT_SIZES_MAX]; /* by GPUs, ascending; the last gathers the rest when there are more */
    size_t size_count;
    struct stat_span {
        const char *name;
        uint64_t jobs;
        double gpu_hours;
    } spans[STAT_SPANS]; /* by duration */
};

/* -ENOMEM. */
int trace_stat(const struct trace *trace, struct trace_stat *ret_stat, struct error *err)
    __attribute__((warn_unused_result));

/* `gpus`: of the cluster it is to be judged against, 0 = none; `name` and `cluster` are what the user called them. */
void trace_stat_print(FILE *out, const struct trace_stat *stat, const char *name, const char *cluster, int64_t gpus);
void trace_stat_json(struct buf *out, const struct trace_stat *stat, const char *name, int64_t gpus);
