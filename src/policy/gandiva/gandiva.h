/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gandiva.h - what the files of the Gandiva planner share: servers and their jobs. See planner_gandiva.c. */
#include "core/contract/plan.h"
#include "core/contract/view.h"

enum { G_QUANTUM, G_OVERLOAD, G_WEIGHT_MAX, G_TURNS };
enum { G_STEP = 100 }; /* of priority: one more quantum */

enum { TURNS_RING, TURNS_LEAST, TURNS_NARROW, TURNS_AUTO };

enum { OVERLOAD_AFFINITY, OVERLOAD_ANY, OVERLOAD_AUTO };

/* Of a node: the width its jobs have (0 = nobody's yet), what its jobs ask for, whether they run or not; GPUs in order;
 * GPUs of its own virtual cluster's jobs; how many of these jobs are suspended. All but the first are counted anew in
 * every pass. */
enum { N_AFFINITY, N_LOAD, N_ROOM, N_MINE, N_SUSPENDED, N_WORDS };

/* Of a job: its place in the ring of its server (the lowest comes next); its turn lasts until then; with whom it was
 * packed when it was last suspended, plus 1; of its GPU time what others beside it have had. */
enum { J_RING, J_UNTIL, J_PAIR, J_SHARED };

/* Kinds of servers that are told apart in one pass; places to look for one. */
enum { KINDS_MAX = 1024, KIND_SLOTS = 4096 };

/* Servers that are alike in all that matters to who looks for one. */
struct server_kind {
    uint32_t sku, root;         /* a tree of gandiva.servers, by number */
    int64_t words[N_SUSPENDED]; /* as of the node, up to those */
};

enum { SERVER_JOBS_MAX = 512, POOL_JOBS_MAX = 1 << 15, POOL_NODES_MAX = 1 << 14, GROUP_NODES_MAX = 256 };

struct gandiva {
    int64_t turns;             /* suspensions so that others may run */
    int64_t oversubscribed;    /* jobs that came to servers without room */
    int64_t balanced;          /* suspended jobs that came to run elsewhere */
    int64_t ring;              /* the last number given away */
    usec_t last[2];            /* pass; beyond a guarantee that is cells, the second */
    bool hopeless[SHAPES_MAX]; /* from here on, of one pass */
    int32_t no_room[SKUS_MAX]; /* no server has room for a suspended job of this width or more */
    uint32_t gpus[1 << 16];    /* a placement */
    uint32_t jobs[SERVER_JOBS_MAX];
    struct pooled {
        uint32_t job, to; /* whose turn it may be; on which server, UINT32_MAX: not now */
        bool chosen;
    } pool[POOL_JOBS_MAX], spare[POOL_JOBS_MAX];
    int32_t room[POOL_NODES_MAX], clear[POOL_NODES_MAX];
    bool filed;     /* servers are, by kind */
    uint32_t looks; /* before that */
    uint32_t kind_count;
    struct server_kind kinds[KINDS_MAX];
    uint16_t kind_at[KIND_SLOTS]; /* by hash: one more than its number; 0 = none */
    uint16_t kind_of[POOL_NODES_MAX];
    struct tree_node servers[POOL_NODES_MAX];
};

static inline int64_t *gandiva_node(const struct planner_ctx *ctx, const struct plan *plan, uint32_t node)
{
    return plan_node(ctx, plan, node);
}

/* Where passes come in rounds, nobody's first minutes come soon whatever the order: a turn is as long as a round, and
 * what counts is that nothing idles and most jobs end early. Else servers have widths, and turns go round. */
static inline bool gandiva_any(const struct planner_ctx *ctx)
{
    return ctx->params[G_OVERLOAD] == OVERLOAD_ANY ||
           (ctx->params[G_OVERLOAD] == OVERLOAD_AUTO && view_round(ctx->view) > ctx->params[G_QUANTUM]);
}

static inline int64_t gandiva_turns(const struct planner_ctx *ctx)
{
    if (ctx->params[G_TURNS] != TURNS_AUTO)
        return ctx->params[G_TURNS];
    if (view_round(ctx->view) <= ctx->params[G_QUANTUM])
        return TURNS_RING;
    /* Where types differ, who waited for the narrow ones would be left on the slow ones, and end last of all. */
    return view_sku_count(ctx->view) > 1 ? TURNS_LEAST : TURNS_NARROW;
}

/* Whether a job that has a place may have one on that type instead: not inside what is guaranteed in cells of its own.
 */
static inline bool gandiva_roams(const struct planner_ctx *ctx, uint32_t index, uint32_t sku)
{
    const struct job *job = view_job(ctx->view, index);

    return job->sku == sku || (!ctx->vc->own && view_allows(ctx->view, index, sku));
}

/* How long a turn of the job lasts: search tools raise the weight of trials they like, which is their priority. The
 * steps are those of the classes: low and normal (100) have one quantum, high (500) five, urgent (1000) ten. */
static inline usec_t gandiva_turn(const struct planner_ctx *ctx, const struct job *job)
{
    int64_t weight = job->spec.priority > G_STEP ? job->spec.priority / G_STEP : 1;

    weight = weight < ctx->params[G_WEIGHT_MAX] ? weight : ctx->params[G_WEIGHT_MAX];
    return weight * ctx->params[G_QUANTUM];
}

/* The server for a job of that width: the best of the classes of servers with room (1 to 3), or with `crowded` of those
 * where jobs take turns (4, and 5 if any will do). UINT32_MAX: none. */
uint32_t gandiva_server(const struct planner_ctx *ctx, const struct plan *plan, int32_t width, uint32_t sku,
                        bool crowded);

/* Where a suspended job would be less crowded than on its server, even with it; UINT32_MAX. */
uint32_t gandiva_calmer(const struct planner_ctx *ctx, const struct plan *plan, uint32_t index, uint32_t from);

/* What is known of all servers was counted anew; of one it has changed. */
void servers_forget(const struct planner_ctx *ctx);
void servers_changed(const struct planner_ctx *ctx, const struct plan *plan, uint32_t node);

/* Whole free GPUs of a node into out[], ascending, behind `count` that are there; returns how many there are then. */
uint32_t gandiva_free(const struct ledger *ledger, uint32_t node, uint32_t want, uint32_t *out, uint32_t count);

/* Whether it was packed when it was suspended, and comes back with the other one, which is counted for both. */
bool gandiva_along(const struct planner_ctx *ctx, uint32_t index);

/* The one that `index`, who runs again, was packed with comes along, if it still waits for that; returns it. */
uint32_t gandiva_resume_mate(struct planner_ctx *ctx, struct plan *plan, uint32_t index);

/* A suspended job comes back on free GPUs of another server, and belongs to that from now on. */
bool gandiva_resume_on(struct planner_ctx *ctx, struct plan *plan, uint32_t index, uint32_t to);

/* Whether a's turn comes before b's. */
bool gandiva_before(const struct planner_ctx *ctx, const struct job *a, const struct job *b);

/* Its turn is over: others may have its GPUs. Of a new pair it is not before it was seen what the two do together. */
bool gandiva_over(const struct planner_ctx *ctx, const struct job *job);

/* Its turn ends, and that of the one it is packed with. */
void gandiva_suspend(struct planner_ctx *ctx, struct plan *plan, uint32_t index);

/* overload=any: turns on all servers of a type as if they were one. */
void gandiva_pool(struct planner_ctx *ctx, struct plan *plan);

/* Who takes turns on oversubscribed servers, and for how long. */
void gandiva_slice(struct planner_ctx *ctx, struct plan *plan);
