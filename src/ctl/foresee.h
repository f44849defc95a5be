/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* foresee.h - a core stepped into a future in which nothing new happens.
 *
 * Jobs that hold GPUs end when they are expected to; the core decides what follows, exactly as it would. No clock, no
 * I/O: the same state and the same expectations give the same future.
 */
#include "core/core.h"

/* How long a job is expected to need from its (next) start, or has left if it runs: > 0. */
typedef usec_t (*foresee_left_fn)(void *arg, const struct job *job, usec_t now);

struct foreseen {
    int64_t job;
    usec_t start, end;             /* end USEC_NEVER: not reached */
    uint32_t gpu_first, gpu_count; /* into gpus */
};

struct future {
    struct foreseen *items; /* starts, in their order */
    size_t count, capacity;
    uint32_t *gpus;
    size_t gpu_count, gpu_capacity;
    uint32_t steps;
    bool cut; /* a limit ended it */
};

struct foresee_limits {
    uint32_t steps; /* of the core */
    usec_t from;    /* first instant; after the last step, so that the core plans anew */
    usec_t horizon; /* no instant after this */
    int64_t until;  /* stop when this job has started; 0 = all */
    size_t starts;  /* at most */
};

/* Runs the core, which is used up by it (free it), from its present instant. -ENOMEM. */
int foresee(struct core *core, const struct foresee_limits *limits, foresee_left_fn left, void *arg,
            struct future *ret_future, struct error *err);
void future_done(struct future *future);
/* The first start of a job; NULL. */
const struct foreseen *future_find(const struct future *future, int64_t job);
