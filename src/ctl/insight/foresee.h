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

/* From when to when a job has GPUs. */
struct foreseen {
    int64_t job;
    usec_t start, end;             /* end: expected, where the future ends before */
    uint32_t gpu_first, gpu_count; /* into gpus */
};

/* A job that is told to leave its GPUs before its end. */
struct foreseen_stop {
    int64_t job, by; /* by: the job that is given the GPUs; 0 = none in particular */
    usec_t at;
};

/* When a job that has GPUs at the beginning leaves them, for whatever reason. */
struct foreseen_leave {
    int64_t job;
    usec_t at;
};

struct future {
    struct foreseen *items; /* starts, in their order */
    size_t count, capacity;
    uint32_t *gpus;
    size_t gpu_count, gpu_capacity;
    struct foreseen_stop *stops; /* in their order */
    size_t stop_count, stop_capacity;
    struct foreseen_leave *leaves; /* ascending by job */
    size_t leave_count;
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
/* When a job that has GPUs now leaves them; 0: it has none, or keeps them longer than the future is. */
usec_t future_leave(const struct future *future, int64_t job);
