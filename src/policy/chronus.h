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
#include "core/plan.h"
#include "core/view.h"
#include "solve/lease.h"

enum { CHRONUS_TASKS = 4096, CHRONUS_LEASES = 1536, CHRONUS_WORDS = CHRONUS_LEASES / 64 };
enum {
    CHRONUS_SOLVE = 1 << 15,
    CHRONUS_BUCKETS = 128,
    CHRONUS_UNSURE = 4096,
    CHRONUS_NODES = 1 << 14,
    CHRONUS_RUNNING = 1 << 14
};

enum chronus_param {
    P_LEASE,
    P_SLOT,
    P_SAFETY,
    P_SAVE,
    P_RESTORE,
    P_STAY,
    P_SEARCH,
    P_SPREAD,
    P_SELECT,
    P_EXACT,
    P_NODES,
    P_ELASTIC,
    P_WORTH
};

/* What the planner keeps in a job's own words; the ordering reads the first. */
enum { WORD_STATUS, WORD_TASK, WORD_NOTE, WORD_CURVE };

enum { ELASTIC_OFF, ELASTIC_MSS, ELASTIC_ONCE };

enum chronus_status {
    STATUS_NEW,
    STATUS_BEST_EFFORT,
    STATUS_PROMISED,
    STATUS_UNSURE,   /* has deadlines, none of them promised */
    STATUS_FIRST,    /* was promised, and something went wrong: the first of those without a promise */
    STATUS_HOPELESS, /* none of its deadlines can be kept any more */
    STATUS_PROFILING
};

/* A job with a promise and its leases. */
struct task {
    uint32_t job, gen;
    int32_t size;         /* GPUs it is planned with */
    uint16_t sku, bucket; /* bucket: of how much service it asks for */
    uint8_t step;         /* the deadline it is planned to keep */
    bool live;
    usec_t due; /* that deadline */
    uint64_t bits[CHRONUS_WORDS];
};

/* How fast a job is at sizes 1, 2, 4, ...; and its promise, where sizes are elastic. */
enum { MSS_JOBS = 2048, MSS_SIZES = 9, MSS_STEPS = 8192 };

struct curve {
    bool live, promised, late;
    uint16_t sku;
    uint32_t job;
    uint32_t place; /* in the last plan that held */
    int32_t now;    /* GPUs it is to have */
    int32_t fixed;  /* the size it was admitted with, where that is kept; 0 = not */
    usec_t due;
    ppm_t rate[MSS_SIZES];
};

/* Free GPUs over time, from now on. */
struct stairs {
    uint32_t count;
    usec_t at[MSS_STEPS];
    int32_t free[MSS_STEPS];
};

struct chronus {
    /* In the order of chronus_counters: promises by what found them, refusals that were proved, others; exact plans
     * that were asked for; how far the last of them may have been from the best, in millionths. */
    int64_t quick, rebuilt, searched, solved, proved, refused, asked, gap;
    uint32_t vc;       /* its own number */
    int64_t lease;     /* under way; its beginning was handled */
    usec_t slot_at;    /* the next slot */
    uint32_t task_top; /* tasks below it were used */
    uint32_t task_count;
    uint32_t unsure_count;
    struct job_ref asked_for;   /* whom an exact plan was asked for, */
    uint16_t asked_sku;         /* on which type */
    uint8_t asked_step;         /* and which of its deadlines */
    uint32_t unit[SKUS_MAX];    /* the largest size that fits every node of the type: a power of two */
    int32_t capacity[SKUS_MAX]; /* GPUs that can be planned */
    uint64_t health;            /* of the nodes, when capacity was counted */
    usec_t recount_at;          /* when the plan is to be held against what there is; USEC_NEVER */
    uint32_t lost_seen;
    uint32_t lost; /* jobs that hardware was lost under since the plan was checked */
    int32_t used[SKUS_MAX][CHRONUS_LEASES];
    struct task tasks[CHRONUS_TASKS];
    struct job_ref unsure[CHRONUS_UNSURE];
    /* What arrived lately, by how much service it asks for (chronus_admit.c): service and time, fading. */
    usec_t load_at, load_span;
    int64_t load_count, load[CHRONUS_BUCKETS];
    bool waits; /* elastic: a size has to wait until others have left */
    int way;    /* of the last plan that held */
    uint32_t curve_top;
    struct curve curves[MSS_JOBS];
    /* From here on nothing is kept. */
    char kept_end;
    struct stairs stairs;
    int64_t words[CHRONUS_SOLVE];
    bool careful; /* elastic: planning for admission */
    int32_t node_held[CHRONUS_NODES];
    uint32_t list[CHRONUS_RUNNING], other[CHRONUS_RUNNING];
    struct rank rank[CHRONUS_RUNNING];
    uint32_t cursor[SHAPES_MAX];
    uint32_t gpus[1 << 12];
    struct lease_task problem[CHRONUS_TASKS];
    uint32_t problem_task[CHRONUS_TASKS];
    int32_t large[CHRONUS_LEASES]; /* what jobs from this bucket on have, as long as the plan has this version */
    int large_bucket;              /* + 1 */
    uint16_t large_sku;
    uint64_t large_version, version;
    int32_t order[3 * CHRONUS_TASKS], room[CHRONUS_LEASES], plan_used[CHRONUS_LEASES], plan_step[CHRONUS_TASKS];
    uint64_t plan_bits[CHRONUS_TASKS * CHRONUS_WORDS];
};

static inline struct lease_times chronus_times(const struct planner_ctx *ctx)
{
    return (struct lease_times){ ctx->params[P_LEASE], ctx->params[P_SAVE], ctx->params[P_RESTORE],
                                 ctx->params[P_SAFETY] };
}

static inline enum chronus_status chronus_status(const struct job *job)
{
    return (enum chronus_status)job->word[WORD_STATUS];
}

/* Sets the status; a job that waits or runs takes its new place in the order. */
void chronus_become(struct plan *plan, const struct planner_ctx *ctx, uint32_t job, enum chronus_status status);

/* ---- chronus_plan.c ---- */

bool task_has(const struct task *task, int64_t lease);
struct task *chronus_task(struct planner_ctx *ctx, const struct job *job);

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
bool room_possible(struct planner_ctx *ctx, uint16_t sku, int32_t size);

/* At the beginning of a lease: promised jobs that are in the way of larger ones are stopped, to be placed anew. */
bool room_pack(struct planner_ctx *ctx, struct plan *plan);

/* Starts those that have this lease and wait; others leave for them. */
void room_promised(struct planner_ctx *ctx, struct plan *plan);

/* ---- chronus_rest.c ---- */

/* Those who fit in what is free, in order. */
void rest_fill(struct planner_ctx *ctx, struct plan *plan);

/* The same, and who comes before a running one takes its place. */
void rest_slot(struct planner_ctx *ctx, struct plan *plan);
