/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* core_internal.h - the inside of struct core, shared by the files of this folder and by nobody else. */
#include "base/heap.h"
#include "base/rng.h"
#include "cell/lend.h"
#include "core/contract/view.h"
#include "core/core.h"
#include "core/ledger/gpuless.h"
#include "core/ledger/licenses.h"
#include "core/ledger/occupancy.h"
#include "core/planning/locality.h"
#include "core/planning/rules.h"
#include "core/vc_cells/vc_cells.h"

struct plan {
    struct core *core;
    const uint32_t *servers; /* of the next gang that gets GPUs; borrowed */
    uint32_t server_count;
    enum phase phase;
    uint32_t vc;
    bool tunes; /* the rules of rules.c bind whoever plans */
    bool apart; /* hands out nodes that are kept for some jobs, to those; guarantees are cells, and do not count */
    bool any_host, any_place; /* only to explain: CPUs and memory, or nearness, are no object */
};

/* Between two disturbances of one job. */
#define RESIDENCY_MIN (60 * USEC_SEC)

struct core {
    usec_t now, round, planned_at; /* planned_at: instant of the last pass, -1 */
    uint32_t passes;               /* at this instant */
    usec_t pass_at;                /* the last one */
    uint32_t chain;                /* passes in a row that nothing but the one before has led to */
    uint64_t pass;                 /* a number of its own for each pass; not in snapshots */
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
    uint32_t touched_count, going_count;
    uint32_t *fresh; /* jobs that began to wait in this step */
    uint32_t fresh_count;
    bool late; /* the step under way came after the pass of its instant and changed what a pass should see */
    uint32_t *scratch, *ready, *victims,
        *going;                 /* lists of one call: GPUs, jobs; of jobs that can move now, deferred_move.c */
    uint32_t *side_gpus, *gang; /* GPUs of the sides of a gang, and of all of it; see gang_parts.h */
    void *blocks;               /* all memory, chained; see setup.c */
    uint32_t waiting, running;
    int64_t mgpu_held, mgpu_up;
    int64_t mgpu_down;   /* on nodes that are down */
    int64_t mgpu_guests; /* of what is held, by guests */
    bool turns;          /* some policy lets jobs take turns */
    bool borrowing;      /* some virtual cluster may go beyond its quota */
    struct rng rng;
    uint64_t decisions, digest;
    struct cells *cells;     /* what is owed, in shape; NULL: quotas are counts */
    uint32_t *leaf_of;       /* by GPU: its device there; CELL_NONE */
    uint32_t *gpu_of;        /* by physical cell: the GPU of a device */
    uint32_t *cell_node;     /* by node: its number there; CELL_NONE */
    uint64_t *chosen, *shut; /* of one call: nodes there that a job may be on, nodes of its own it may not */
    struct own_place {
        uint32_t vc, gpu;
    } * own_of;      /* by virtual cell, from the first on: where a device is in whose own ledger */
    struct mapping { /* what was last asked for, and what would stand for it */
        uint32_t vc, count;
        uint8_t mark;
        uint64_t stamp; /* true as long as it is that of the core */
        uint32_t *own, *gpus, *cells, *leaves;
        uint32_t *idle_cells, *idle_leaves; /* those of them that are to be taken, or given back */
    } map;
    uint32_t *hidden;        /* GPUs, see host_resources.h */
    struct host_hold *holds; /* pool; free ones are chained by next_of_job */
    uint32_t hold_free, hold_capacity, hold_count;
    bool tasks_dirty;   /* something happened to jobs without GPUs, or to what they may have */
    struct user *users; /* see users.c */
    uint32_t *user_buckets, *users_dirty, user_mask, user_free, users_dirty_count;
    bool user_limits; /* some virtual cluster has one */
    struct licenses licenses;
    bool deferring; /* a policy plans inside its guarantee: jobs it stops keep their cells until it is done */
    struct mover {
        uint32_t job, gen;
        bool set;
    } * movers;     /* by node: the migration that it last took part in */
    int64_t *words; /* of policies that want more than a job has for everybody: word_stride a job */
    uint32_t word_stride;
    uint64_t stamp, settled; /* goes up with every change of the cells; when they were last settled */
};

/* Something happened to a job of a virtual cluster: a pass should look at it. */
static inline void core_stir(struct core *core, const struct job *job)
{
    struct vc *vc = &core->vcs[job->vc];

    if (vc->own && job->klass == CLASS_OPPORTUNISTIC)
        vc->stirred = true;
    else
        vc->dirty = true;
}

/* Whether the phase hands out what the virtual cluster is guaranteed in cells: GPU numbers are those of its own ledger.
 */
static inline bool plan_own(const struct plan *plan)
{
    return plan->core->cells && plan->phase == PHASE_OWED;
}

static inline struct ledger *plan_ledger(const struct plan *plan)
{
    return plan_own(plan) ? plan->core->vcs[plan->vc].own : &plan->core->ledger;
}

static inline uint32_t plan_free(const struct plan *plan, uint32_t sku)
{
    const struct topo *topo = &plan_ledger(plan)->topo;

    return topo->pools[topo->sku_pools[sku]].free;
}

/* Passes at one instant: more than one only when keys change by what a pass did. */
enum { PASSES_MAX = 64, CHAIN_MAX = 1000 };
#define CHAIN_PAUSE USEC_SEC

enum timer_kind { TIMER_KEY, TIMER_PLANNER, TIMERS_A_JOB };

static inline uint32_t timer_of(uint32_t job, enum timer_kind kind)
{
    return job * TIMERS_A_JOB + kind;
}

/* job_moves.c */
void core_move(struct core *core, uint32_t index, enum job_state to);
void core_emit(struct core *core, enum effect_kind kind, uint32_t index);
struct decision *core_decide(struct core *core, enum decision_kind kind, uint32_t index, enum reason reason);
void core_enqueue(struct core *core, uint32_t index);
void core_dequeue(struct core *core, uint32_t index);
void core_attach(struct core *core, uint32_t index);
void core_detach(struct core *core, uint32_t index);
void core_start_now(struct core *core, uint32_t index);
void core_unsuspend(struct core *core, uint32_t index);
void core_touch(struct core *core, uint32_t index);

/* rebuild.c */
int core_rejoin_shares(struct core *core);
void core_relink(struct core *core, uint32_t index);
int core_requeue(struct core *core);

/* setup.c */
void *core_block(struct core *core, bool *failed, size_t count, size_t size);
void core_build_ledger(struct core *core, struct ledger *ledger, const struct cluster_spec *spec, bool *failed);

/* plan.c */
/* Stops and keeps whose owner was checked by the caller. */
int plan_stop_any(struct plan *plan, uint32_t job, enum stop_step step);
int plan_keep_any(struct plan *plan, uint32_t job);
int plan_find_on(struct plan *plan, struct shape_class *cls, uint32_t sku, struct placement *ret);
/* A place that the shape may have of one type, without its sides, in vc->place.out. -EBUSY; *ret_mapped: there was one,
 * and it was the mapping to cells that failed. */
int plan_place(struct plan *plan, const struct shape *shape, uint32_t sku, bool *ret_mapped);

/* Nodes a policy may have words of: those of the cluster, then those of its virtual cluster's own, which are pieces of
 * them: as many as GPUs at most. */
static inline size_t core_node_rooms(const struct core *core)
{
    return (size_t)core->ledger.topo.node_count + core->ledger.topo.gpu_count;
}

/* node_shape.c */
/* Nodes that give per_node GPUs each, in as few racks as can be. 0 and ctx->out filled, ascending; -EBUSY. */
int exact_find(struct place_ctx *ctx, const struct place_request *request);
/* Whether some type of the mask has enough nodes of that size, in order or not. */
bool exact_possible(const struct ledger *ledger, const struct jobspec *spec, uint32_t mask);
/* -EINVAL if some node of a placement that the ledger has checked does not give exactly so many; 0 = any will do. */
int exact_check(const struct ledger *ledger, const struct placement *to, uint32_t per_node);

/* pass.c */
/* Thousandths of type `sku` the virtual cluster may still give to jobs of this class in this phase. */
int64_t vc_budget(const struct core *core, const struct vc *vc, uint32_t sku, enum phase phase, uint8_t klass);
