/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* told.h - what a policy tells of itself while it runs: in which queue its jobs are, how many it promoted, how long it
 * thought a job would still take. For JSON and the report; memory stays bounded however long the run. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/units.h"

struct run_result;

/* Queues told apart; the last takes all behind it as well. */
enum { TOLD_LEVELS = 8, TOLD_SAMPLES = 1024, TOLD_PREDICTIONS = 16384, TOLD_QUARTERS = 4 };

/* Jobs in each queue, running or waiting, at an instant. */
struct level_sample {
    usec_t at;
    uint32_t jobs[TOLD_LEVELS];
};

struct prediction {
    uint32_t job; /* index into jobs */
    usec_t at, left;
};

struct told {
    int32_t levels;     /* of the policy with the most; 0 = none has any */
    int64_t promotions; /* -1 = no policy promotes */
    usec_t gap;         /* least time between two samples */
    struct level_sample *samples;
    struct prediction *predictions;
    size_t sample_count, prediction_count;
    uint32_t stride, skipped; /* every stride-th prediction is kept */
};

void told_done(struct told *told);

/* Whether another sample is wanted now. Samples come in ascending order; with too many every second is dropped. */
bool told_due(const struct told *told, usec_t now);
int told_levels(struct told *told, const struct level_sample *sample); /* -ENOMEM */

/* Keeps it, or every so many of them. -ENOMEM. */
int told_predicted(struct told *told, const struct prediction *prediction);

struct told_summary {
    double mean_jobs[TOLD_LEVELS]; /* over time */
    uint32_t max_jobs[TOLD_LEVELS];
    uint64_t predictions;                /* of jobs that finished */
    double error;                        /* mean |predicted - true time left| / run from first start to end */
    double error_quarter[TOLD_QUARTERS]; /* the same by quarters of that run; NaN where there is none */
    uint64_t count_quarter[TOLD_QUARTERS];
};

void told_summarize(const struct run_result *run, struct told_summary *ret);

/* How long the job did take from then on; -1 where it is not known. */
usec_t told_truth(const struct run_result *run, const struct prediction *prediction);
