/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* naive.h - a second simulator, written to be obviously right and nothing else.
 *
 * It shares no code with the project. GPUs of a type are only counted. At every event it looks at every job, sorts
 * everything anew and walks the order from the front, as rules S1 to S5 of the simulation say. Whole GPUs, whole
 * microseconds.
 */
#include <stdint.h>

enum naive_policy { NAIVE_STRICT, NAIVE_SKIP, NAIVE_SRTF, NAIVE_SRSF };

enum { NAIVE_TYPES_MAX = 4 };

struct naive_job {
    int64_t submit, run; /* microseconds; ids are positions in the array */
    int64_t gpus;
    unsigned types; /* bit mask of GPU types it may use */
    /* what came of it */
    int64_t start, end;
    int preemptions;
};

struct naive_cluster {
    int64_t gpus[NAIVE_TYPES_MAX];
    int types;
};

/* Fills start, end and preemptions of every job. `restart`: what every start but the first costs. */
void naive_run(struct naive_job *jobs, int count, const struct naive_cluster *cluster, enum naive_policy policy,
               int64_t restart);
