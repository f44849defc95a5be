/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* state.h - the inside of struct core, shared by the files of this folder and by nobody else. */
#include "base/heap.h"
#include "base/rng.h"
#include "core/core.h"
#include "core/view.h"

/* Which GPUs a planner may hand out: first everybody what it is owed, then what is left over, at last to opportunistic
 * jobs. */
enum phase { PHASE_OWED, PHASE_BORROW, PHASE_GUEST, PHASE_COUNT };

struct plan {
    struct core *core;
    enum phase phase;
    uint32_t vc;
};

struct core {
    usec_t now, round, planned_at; /* planned_at: instant of the last pass, -1 */
    uint32_t passes;               /* at this instant */
    struct ledger ledger;
    struct job *jobs;
    struct tree_node *tree;                   /* element i: job i, in a waiting or a running tree */
    uint32_t job_capacity, job_top, job_free; /* job_free: chained by jobs[].next */
    struct vc *vcs;
    uint32_t *vc_order;
    uint32_t vc_count;
    uint32_t any_sku; /* mask of all types */
    struct view view;
    struct heap timers; /* 2 a job: key change, planner's; then 1 a virtual cluster */
    struct event *inbox, *inbox_spare;
    uint32_t inbox_count, inbox_capacity;
    struct outbox outbox;
    int64_t *answers; /* words of the answers in the inbox */
    size_t answer_count, answer_capacity;
    uint32_t *touched; /* jobs the pass under way has started, stopped or moved */
    uint32_t touched_count;
    uint32_t *fresh; /* jobs that began to wait in this step */
    uint32_t fresh_count;
    bool late; /* the step under way came after the pass of its instant and changed what a pass should see */
    uint32_t *scratch, *ready, *victims; /* GPU and job lists of one call */
    void *blocks;                        /* all memory, chained; see setup.c */
    uint32_t waiting, running;
    int64_t mgpu_held, mgpu_up;
    int64_t mgpu_down; /* on nodes that are down */
    bool borrowing;    /* some virtual cluster may go beyond its quota */
    struct rng rng;
    uint64_t decisions, digest;
};

/* Passes at one instant: more than one only when keys change by what a pass did. */
enum { PASSES_MAX = 64 };

enum timer_kind { TIMER_KEY, TIMER_PLANNER, TIMERS_A_JOB };

static inline uint32_t timer_of(uint32_t job, enum timer_kind kind)
{
    return job * TIMERS_A_JOB + kind;
}

/* step.c */
void core_move(struct core *core, uint32_t index, enum job_state to);
void core_emit(struct core *core, enum effect_kind kind, uint32_t index);
struct decision *core_decide(struct core *core, enum decision_kind kind, uint32_t index, enum reason reason);
void core_enqueue(struct core *core, uint32_t index);
void core_dequeue(struct core *core, uint32_t index);
void core_attach(struct core *core, uint32_t index);
void core_detach(struct core *core, uint32_t index);
void core_start_now(struct core *core, uint32_t index);
void core_unsuspend(struct core *core, uint32_t index);

/* promise.c */
/* Deadlines in the future, ascending, worth no more the later they are. -EINVAL in words. */
int deadlines_check(const struct jobspec *spec, usec_t now, struct error *err);

/* Why a job that ends now is too late, as far as the core can tell. */
enum breach promise_cause(const struct job *job);

/* The job is over: a promise it did not keep is said to be broken, if nobody said so before. */
void promise_settle(struct core *core, uint32_t index);

/* rebuild.c */
int core_rejoin_shares(struct core *core);
void core_relink(struct core *core, uint32_t index);
int core_requeue(struct core *core);

/* plan.c */
/* Stops and keeps whose owner was checked by the caller. */
int plan_stop_any(struct plan *plan, uint32_t job, enum stop_step step);
int plan_keep_any(struct plan *plan, uint32_t job);
int plan_find_on(struct plan *plan, struct shape_class *cls, uint32_t sku, struct placement *ret);

/* exact.c */
/* Nodes that give per_node GPUs each, in as few racks as can be. 0 and ctx->out filled, ascending; -EBUSY. */
int exact_find(struct place_ctx *ctx, const struct place_request *request);
/* Whether some type of the mask has enough nodes of that size, in order or not. */
bool exact_possible(const struct ledger *ledger, const struct jobspec *spec, uint32_t mask);
/* -EINVAL if some node of a placement that the ledger has checked does not give exactly so many; 0 = any will do. */
int exact_check(const struct ledger *ledger, const struct placement *to, uint32_t per_node);

/* pass.c */
void pass_run(struct core *core);
void pass_late(struct core *core);

/* Thousandths of type `sku` the virtual cluster may still give to jobs of this class in this phase. */
int64_t vc_budget(const struct core *core, const struct vc *vc, uint32_t sku, enum phase phase, uint8_t klass);
