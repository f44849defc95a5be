/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* order.h - the contract of an ordering: the key of a job, and when that key will change by itself.
 *
 * Smaller comes first; equal keys are ordered by submission time, then id. While a job runs its key falls by
 * slope_ppm / 1,000,000 a microsecond (remaining time falls by one, remaining service by the number of GPUs): the core
 * keeps running jobs of one slope in one tree, so that "what runs before this job, now" needs no re-sorting as time
 * goes by. A key that jumps (a queue of least attained service) names the instant; the core keeps the timer and asks
 * again. What an ordering has to remember of a job (when it was last promoted) it keeps in the job's own words: they
 * are handed over as they were left and kept with the job, in snapshots too.
 *
 * The values handed over are integers; what computes them may use floating point.
 */
#include <stddef.h>

#include "core/contract/param.h"
#include "core/job.h"

struct view;

struct order_ctx {
    const struct view *view;
    const int64_t *params;
    void *state; /* state_size bytes, zeroed at start */
};

struct order_key {
    int64_t value;     /* now */
    int64_t slope_ppm; /* how fast it falls while the job runs */
    usec_t change_at;  /* when to ask again, USEC_NEVER; now: plan once more at this instant */
    int64_t word[ORDER_WORDS];
};

/* What an ordering with queues tells of a job, for people. */
struct order_level {
    int32_t level, levels; /* the queue it is in, from 0, the best; how many there are */
    int64_t promotions;    /* so far, of all jobs of the virtual cluster; -1 = it promotes nobody */
};

struct order_ops {
    const char *name;
    const char *summary;
    const struct param *params;   /* may be NULL */
    size_t state_size, kept_size; /* bytes; of them, from the start, those that belong into a snapshot */
    void (*key)(const struct order_ctx *ctx, const struct job *job, struct order_key *ret_key);
    /* A job of this virtual cluster is over: what a history grows by. Returns whether all keys changed. May be NULL. */
    bool (*ended)(struct order_ctx *ctx, const struct job *job);
    /* What earlier jobs needed in all, before the first one comes. NULL: it learns nothing. */
    void (*learn)(struct order_ctx *ctx, const svc_t *services, size_t count);
    /* The queue a job is in; without a job, the rest of it. NULL: it has none. */
    void (*level)(const struct order_ctx *ctx, const struct job *job, struct order_level *ret_level);
};
