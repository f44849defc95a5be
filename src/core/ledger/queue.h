/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* queue.h - the waiting jobs of a virtual cluster by shape, and its running jobs by key.
 *
 * Jobs of one shape (GPUs, share, GPUs a node, types, locality level, class) are alike to any placement. So they share
 * one tree in policy order, one answer to "does it fit", and one reason for waiting: a queue of 100,000 costs what its
 * few shapes cost. Time spent waiting for each cause is integrated once a shape and read off when a job leaves.
 *
 * Running jobs, but not opportunistic ones, are kept, where the planner wants them, in one tree a (slope, GPU type):
 * inside a tree the order never changes although all keys fall.
 */
#include "base/tree.h"
#include "core/contract/order.h"
#include "core/job.h"
#include "model/cluster.h"

/* Shapes that may wait in one virtual cluster, and room for them at every locality they may come to accept. */
enum { SHAPES_OFFERED_MAX = 2048, SHAPES_MAX = 4 * SHAPES_OFFERED_MAX };

struct shape {
    int32_t gpus;
    mgpu_t share;
    uint32_t memory_mib;         /* of a share of a GPU; 0 for whole ones */
    uint32_t sku_mask;           /* never 0: "any" is all bits of the cluster */
    uint16_t per_node;           /* GPUs on each node, exactly; 0 = free */
    uint16_t per_unit;           /* in whole cells of so many */
    uint8_t unit, within;        /* enum job_level */
    bool must;                   /* within, or not at all */
    uint32_t mcpus, host_mib;    /* beside each GPU */
    uint8_t mark, kept;          /* of its nodes */
    uint32_t servers, bandwidth; /* parameter servers among the GPUs, and what a worker sends */
    uint8_t level, klass;
    usec_t keeps;       /* jobspec_keeps */
    uint8_t side_count; /* parts on other types, see gang_parts.h */
    struct gang_side sides[SIDES_MAX];
};

struct shape_class {
    struct shape shape;
    uint32_t root; /* tree of waiting jobs */
    uint32_t count;
    uint64_t no_fit[SKUS_MAX];     /* ledger.releases + 1 when a placement was last refused; 0 = not */
    uint64_t no_fit_own[SKUS_MAX]; /* the same of its virtual cluster's own ledger */
    uint8_t reason;                /* why its jobs wait */
    bool over_quota;
    bool live;
    usec_t since;            /* reason holds since, as far as lanes were integrated */
    usec_t lane[WAIT_LANES]; /* time so far in each cause; the last lane is "over quota" */
};

struct run_class {
    int64_t slope;
    uint32_t root, count;
    uint16_t sku;
    bool lent; /* outside the cells of the virtual cluster; false where there are none */
};

enum run_order { RUN_UNORDERED, RUN_BY_KEY, RUN_BY_END };

struct queue {
    struct shape_class *shapes; /* [SHAPES_MAX], found by scanning live[] */
    uint16_t *live;             /* indexes of live classes, ascending by creation */
    uint32_t live_count, shape_top;
    struct run_class *runs;
    uint32_t run_count, run_capacity;
    enum run_order run_order;
    uint32_t waiting; /* jobs */
    int64_t mgpu_waiting;
    uint32_t guests; /* of these, opportunistic ones */
    int64_t mgpu_guests;
};

struct core;

/* The lane a reason is integrated in, or -1 if a job waits so on its own account. */
int queue_lane(enum reason reason);

/* The job waits: key, shape and tree. The shape table has room (queue_has_room was asked when it was offered). */
void queue_add(struct core *core, uint32_t job);
void queue_remove(struct core *core, uint32_t job);

/* The job holds GPUs, or no longer does. */
void queue_run_add(struct core *core, uint32_t job);
void queue_run_remove(struct core *core, uint32_t job);

/* Whether a job that holds what it runs on is not to be stopped for another's sake. Sets the timer that tells the end
 * of that, where there is one. */
bool queue_kept_timer(struct core *core, uint32_t job);

/* Its key changed: computes it anew and moves the job where it belongs. */
void queue_rekey(struct core *core, uint32_t job);

/* Where a job would stand if it waited now, as far as its key tells. */
struct rank queue_rank(const struct core *core, uint32_t job);

/* The types that exist and have the memory; 0: none. */
uint32_t queue_types(const struct core *core, const struct jobspec *spec);

/* The shape of a job as it is asked for, on those types. */
struct shape queue_shape(const struct core *core, const struct jobspec *spec, uint8_t level, uint8_t klass);

/* Whether one more shape would fit. */
bool queue_has_room(const struct queue *queue, const struct shape *shape);

/* The class's reason becomes this one; time so far is booked on the one before. */
void queue_reason(struct shape_class *cls, enum reason reason, bool over_quota, usec_t now);

/* The same into a copy, as if it were booked now; nothing changes. */
void queue_booked(const struct core *core, uint32_t job, struct job *copy);

/* Puts a job back where a snapshot found it: its shape and rank are set. */
void queue_restore(struct core *core, uint32_t job);
void queue_run_restore(struct core *core, uint32_t job, const struct rank *rank);

/* Books what the job has waited as a member of its class into job->waited. */
void queue_book(struct core *core, uint32_t job);
