/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* las.h - what the orderings by attained service share: the queue a job is in, when that changes, and what jobs that
 * ended here before needed in all. */
#include <stddef.h>

#include "core/contract/order.h"

/* Counts of a job since its last promotion: as they stood then, in the ordering's words. */
enum { LAS_SERVICE, LAS_RAN, LAS_WAITED };

struct las_level {
    int64_t queue;  /* 0 is the best */
    svc_t attained; /* since the last promotion */
    usec_t ran;     /* since then */
    usec_t waited;  /* since it first ran after that */
};

/* A key is the queue, then what orders the jobs inside it: anything below 2^57. */
enum { LAS_QUEUE_SHIFT = 57 };
#define LAS_NEVER_STARTED (((int64_t)1 << LAS_QUEUE_SHIFT) - 1)

static inline int64_t las_value(int64_t queue, int64_t inside)
{
    return (queue << LAS_QUEUE_SHIFT) + inside;
}

/* When a job of that width (thousandths of GPUs) will have had `left` more, as a whole second. */
usec_t las_crossing(usec_t now, svc_t left, int64_t width);

/* Where the job stands now. Promotes it if that is due, and sets key->change_at to when it will pass the next threshold
 * or be promoted. `queues` is a list of thresholds: how many, then they. `knob_ppm` 0: no promotions. */
void las_level(const struct order_ctx *ctx, const struct job *job, int64_t knob_ppm, const int64_t *queues,
               struct order_key *key, struct las_level *ret_level);

/* What orderings by attained service keep: the services of the last jobs that ended, and a count. */
enum { LAS_HISTORY_MAX = 4096 };

struct las_history {
    int64_t promotions;            /* of jobs so far; it stands first in both orderings' states */
    int64_t count, next, since;    /* samples; where the next goes; how many came since they were last used */
    svc_t sample[LAS_HISTORY_MAX]; /* in a ring */
};

/* The same sorted, with the sums of the first i; not part of a snapshot. */
struct las_sorted {
    svc_t sample[LAS_HISTORY_MAX];
    __int128 sums[LAS_HISTORY_MAX + 1];
};

/* For order_ops.level: the queue of a key made with las_value(), and promotions if there is a knob. */
void las_tell(const struct order_ctx *ctx, const struct job *job, int64_t knob_ppm, int64_t thresholds,
              struct order_level *ret_level);

/* Services of 0 are passed over. */
void las_learn(struct las_history *history, const svc_t *services, size_t count);

/* Whether it has grown enough to pay for new keys of all jobs: by an eighth of the samples or of the jobs that wait,
 * whichever is more, and by 16. */
bool las_grown(const struct las_history *history, const struct order_ctx *ctx);

/* Sorts it, and begins to count anew. */
void las_sort(struct las_history *history, struct las_sorted *ret_sorted);
