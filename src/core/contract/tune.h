/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* tune.h - the contract of a tuner: what to change in jobs that already run.
 *
 * Called at the end of every pass in which its virtual cluster was planned, and at the instants it asked for with
 * plan_wake(). It sees what the planner has done and proposes moves, suspensions, resumptions, guests; all of them
 * undoable, all checked like a planner's. Reports of running jobs (speed, loss, memory) come to `report` as they
 * arrive; they are what can be measured, never the truth of a simulation.
 *
 * A virtual cluster may have several; they are called in the order of its description, each seeing what those before it
 * did. What keeps them from undoing each other's work is in rules.c, and binds all of them.
 */
#include "core/contract/planner.h"
#include "model/event.h"

struct tune_ops {
    const char *name;
    const char *summary;
    const struct param *params;
    size_t state_size, kept_size;
    void (*tune)(struct planner_ctx *ctx, struct plan *plan);
    /* Called before the planner, in the same passes: what has lost is undone before anything is built on it. May be
     * NULL. */
    void (*review)(struct planner_ctx *ctx, struct plan *plan);
    void (*report)(struct planner_ctx *ctx, struct plan *plan, uint32_t job, const struct report *report); /* or NULL */
    bool batches;        /* wants MEASURE_BATCH reports of jobs that run */
    uint32_t words;      /* of each job, for itself: plan_words */
    uint32_t node_words; /* of each node: plan_node */
    /* Names of the numbers (int64_t) its state begins with, for reports; NULL-terminated. May be NULL. */
    const char *const *counters;
};
