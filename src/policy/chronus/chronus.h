/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* chronus.h - the inside of Chronus, shared by its files and by nobody else.
 *
 * planner_chronus.c decides when what is done; chronus_admit.c whether a deadline is promised; chronus_plan.c keeps the
 * leases of promised jobs; chronus_room.c gives them GPUs; chronus_rest.c spends what is left on everybody else.
 *
 * Leases have absolute numbers: number n lasts from n x lease to (n + 1) x lease. The plan is a ring of them, so time
 * goes by without anything being moved.
 */
#include "policy/chronus/chronus_state.h"

static inline struct lease_times chronus_times(const struct planner_ctx *ctx)
{
    return (struct lease_times){ ctx->params[P_LEASE], ctx->params[P_SAVE], ctx->params[P_RESTORE],
                                 ctx->params[P_SAFETY] };
}

static inline enum chronus_status chronus_status(const struct job *job)
{
    return (enum chronus_status)job->word[WORD_STATUS];
}

/* Types it may have, also while it is set aside; one that runs stays on its own. */
static inline uint32_t chronus_types(const struct planner_ctx *ctx, const struct job *job)
{
    return job_waits((enum job_state)job->state)
               ? queue_shape(ctx->view->core, &job->spec, job->level, job->klass).sku_mask
               : 1u << job->sku;
}

/* Whether a deadline of it can be promised at all: not before it is known how long it runs, and not to one that is owed
 * nothing, whose GPUs anybody may take back. */
static inline bool chronus_promisable(const struct job *job)
{
    return job->spec.estimate && job->spec.share == MGPU_ONE && job->klass != CLASS_OPPORTUNISTIC &&
           job->spec.license_count == 0; /* nobody can promise when those are there */
}

/* Sets the status; a job that waits or runs takes its new place in the order. */
void chronus_become(struct plan *plan, const struct planner_ctx *ctx, uint32_t job, enum chronus_status status);

/* ---- chronus_plan.c ---- */

bool task_has(const struct task *task, int64_t lease);
struct task *chronus_task(struct planner_ctx *ctx, const struct job *job);

usec_t chronus_remaining(const struct planner_ctx *ctx, const struct job *job); /* time it still needs, as measured */
/* Nominal time the job may still need, with the margin on its estimate. */
usec_t chronus_left(const struct planner_ctx *ctx, const struct job *job);

/* What planning is to find leases for. */
struct wish {
    usec_t left, due;
    int32_t size;
    uint16_t sku;
    bool now;              /* may begin in the lease under way */
    usec_t cost;           /* of an interruption */
    const int32_t *others; /* by place in the ring: what else counts as used; NULL = what is used */
    int32_t spared;        /* GPUs that are to stay free of it */
};

/* Leases from the latest backwards into `bits` (a ring); false if they do not suffice, and then nothing is set. */
bool plan_wish_fill(const struct planner_ctx *ctx, const struct wish *wish, uint64_t *bits);

/* The earliest deadline that could be promised. */
usec_t plan_earliest(const struct planner_ctx *ctx, const struct wish *wish);

/* Whether no plan at all can hold the wish beside the tasks: the proof of lease_bound(). */
bool plan_impossible(struct planner_ctx *ctx, const struct wish *wish);

/* A new task with these leases. NULL: there are too many. */
struct task *task_add(struct planner_ctx *ctx, struct plan *plan, uint32_t job, const struct wish *wish,
                      const uint64_t *bits);
void task_drop(struct planner_ctx *ctx, struct task *task);
void task_set(struct planner_ctx *ctx, struct task *task, const uint64_t *bits);

/* A lease begins: tasks have what they still need and no more. */
void plan_advance(struct planner_ctx *ctx, struct plan *plan);

/* Capacity is counted anew; a plan that no longer fits is mended, and who cannot be helped is told. */
void plan_recount(struct planner_ctx *ctx, struct plan *plan);

/* All tasks as a problem from the next lease on, with one wish more (or NULL); how many there are. */
int32_t plan_problem(struct planner_ctx *ctx, const struct wish *wish, uint16_t sku, struct lease_problem *ret);

/* Takes over a plan of plan_problem(); the leases of the wish into wish_bits. */
void plan_accept(struct planner_ctx *ctx, const struct lease_problem *problem, const uint64_t *bits,
                 uint64_t *wish_bits);

/* ---- chronus_admit.c ---- */

void admit_job(struct planner_ctx *ctx, struct plan *plan, uint32_t job);

/* Those without a promise are tried again, and those whose deadlines have gone are let go. */
void admit_again(struct planner_ctx *ctx, struct plan *plan);

/* An exact plan has come. */
void admit_solved(struct planner_ctx *ctx, struct plan *plan, const struct solution *solution);

/* ---- chronus_room.c ---- */

/* Whether a job of that size could be started on a node (or nodes) if only jobs without promise left. */
bool room_possible(struct planner_ctx *ctx, uint16_t sku, int32_t size, uint8_t kept);

/* At the beginning of a lease: promised jobs that are in the way of larger ones are stopped, to be placed anew. */
bool room_pack(struct planner_ctx *ctx, struct plan *plan);

/* Starts a job that is to be measured, where others without a promise leave for it. */
int room_measure(struct planner_ctx *ctx, struct plan *plan, uint32_t job);

/* Starts those that have this lease and wait; others leave for them. */
void room_promised(struct planner_ctx *ctx, struct plan *plan);

/* ---- chronus_rest.c ---- */

/* Those who fit in what is free, in order. */
void rest_fill(struct planner_ctx *ctx, struct plan *plan);

/* The same, and who comes before a running one takes its place. */
void rest_slot(struct planner_ctx *ctx, struct plan *plan);

/* ---- chronus_profile.c ---- */

/* Refuses a deadline that comes before the job was measured: -ERANGE in words. */
int profile_check(struct planner_ctx *ctx, const struct jobspec *spec, struct error *err);

/* GPUs that nothing is to be promised on, of so many. */
int32_t profile_pool(const struct planner_ctx *ctx, int32_t capacity, int32_t unit);

/* Whether a waiting job is to be measured first; then it is in the line. */
bool profile_wanted(struct planner_ctx *ctx, struct plan *plan, uint32_t job);

/* Starts those whose turn it is. */
void profile_plan(struct planner_ctx *ctx, struct plan *plan);

/* The job's timer has come: whether it was measured, and can be admitted. */
bool profile_over(struct planner_ctx *ctx, struct plan *plan, uint32_t job);
