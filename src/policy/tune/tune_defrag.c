/* SPDX-License-Identifier: Apache-2.0 */
/* tune_defrag.c - jobs are moved, without losing work, so that nodes become free: those that are drained at once, and
 * from time to time those that few use (Singularity, 2022, section 2; maintenance and defragmentation).
 *
 * Off a drained node a job goes to free GPUs of the same type and region, however they lie. If there are none it waits
 * for some, unless its planner can start it anywhere at any size: then it is stopped, saved, and started again like
 * anybody else.
 *
 * Otherwise: the node with the fewest GPUs in use is emptied if each of its jobs, which must have all their GPUs there,
 * finds a smaller hole on another node that is in use. One job of a node moves at a time (rules.c), so this takes
 * several looks. GPUs that are free on nodes in use are what the counters call scattered.
 */
#include <errno.h>

#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "model/splice.h"
#include "policy/list.h"

enum { P_EVERY };

enum { DEFRAG_NODES = 1 << 14, GANG = 1 << 12, AGAIN_S = 10 };

struct defrag {
    int64_t maintained, requeued, moved, looks, scattered_before, scattered_after;
    usec_t next; /* look */
    bool begun;  /* a node is being emptied; scattered_before has been read */
    uint32_t gpus[GANG];
    uint16_t room[DEFRAG_NODES]; /* by node: what is left of it while places are looked for */
};

static const struct topo *topo_of(const struct planner_ctx *ctx)
{
    return &view_ledger(ctx->view)->topo;
}

static bool movable(const struct planner_ctx *ctx, uint32_t index)
{
    const struct job *job = view_job(ctx->view, index);

    return core_vc(ctx->view->core, job->vc) == ctx->vc && job->state == JOB_RUNNING && !job->planned && !job->sheds &&
           job->mate == JOB_NONE && job->spec.share == MGPU_ONE && job->gpus <= GANG && view_shows(ctx->view, index) &&
           view_owner(ctx->view, index) && job_plain(job);
}

static uint32_t region_of(const struct topo *topo, uint32_t node)
{
    return topo_above(topo, node, LEVEL_DOMAIN);
}

/* GPUs of a node that a job could move to: free, and nobody is leaving them. */
static uint32_t usable(const struct planner_ctx *ctx, uint32_t node)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *n = &ledger->topo.nodes[node];
    uint32_t count = 0;

    for (uint32_t g = n->first_gpu; n->up && n->free && g < n->first_gpu + n->gpus; g++)
        count += ledger_idle(ledger, g);
    return count;
}

static void take(struct planner_ctx *ctx, uint32_t node, uint32_t need, uint32_t *count)
{
    struct defrag *d = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *n = &ledger->topo.nodes[node];

    for (uint32_t g = n->first_gpu; need && g < n->first_gpu + n->gpus; g++)
        if (ledger_idle(ledger, g)) {
            d->gpus[(*count)++] = g;
            need--;
        }
}

/* With the world as it is, where the planner of the virtual cluster knows that; else as any move. */
static int move(struct planner_ctx *ctx, struct plan *plan, uint32_t index, uint32_t count)
{
    const struct defrag *d = ctx->state;
    const struct job *job = view_job(ctx->view, index);
    struct placement to = { d->gpus, count };

    return splice_legal(&job->spec, (int32_t)count) ? plan_splice(plan, index, &to) : plan_move(plan, index, &to);
}

/* ---- nodes that are drained ---- */

/* Anywhere in the region, tensor-parallel groups whole; in order of nodes, so ascending. */
static int leave_node(struct planner_ctx *ctx, struct plan *plan, uint32_t index, uint32_t node)
{
    const struct topo *topo = topo_of(ctx);
    const struct job *job = view_job(ctx->view, index);
    uint32_t need = (uint32_t)job->gpus, count = 0, group = job->spec.tp > 1 ? job->spec.tp : 1, best = UINT32_MAX;

    for (uint32_t n = 0; n < topo->node_count; n++)
        if (topo->nodes[n].sku == job->sku && region_of(topo, n) == region_of(topo, node) && usable(ctx, n) >= need &&
            (best == UINT32_MAX || topo->nodes[n].free < topo->nodes[best].free))
            best = n;
    if (best != UINT32_MAX)
        take(ctx, best, need, &count);
    for (uint32_t n = 0; n < topo->node_count && count < need; n++) {
        uint32_t here;

        if (topo->nodes[n].sku != job->sku || region_of(topo, n) != region_of(topo, node))
            continue;
        here = usable(ctx, n);
        here -= here % group;
        take(ctx, n, here < need - count ? here : need - count, &count);
    }
    return count == need ? move(ctx, plan, index, count) : -EBUSY;
}

/* Whether somebody is still there who should not be. */
static bool empty_drained(struct planner_ctx *ctx, struct plan *plan, uint32_t node)
{
    struct defrag *d = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *n = &ledger->topo.nodes[node];
    bool left = false;

    for (uint32_t g = n->first_gpu; g < n->first_gpu + n->gpus; g++) {
        uint32_t share = ledger->gpus[g].shares, job;
        int r;

        if (share == SHARE_NONE)
            continue;
        left = true;
        job = ledger->shares[share].job;
        if (!movable(ctx, job))
            continue;
        r = leave_node(ctx, plan, job, node);
        d->maintained += r == 0;
        if (r == -EBUSY && ctx->vc->policy.planner->splices && plan_stop(plan, job, STOP_CHECKPOINT) == 0)
            d->requeued++;
    }
    return left;
}

/* ---- nodes that few use ---- */

static uint32_t used_of(const struct ledger *ledger, uint32_t node)
{
    const struct node *n = &ledger->topo.nodes[node];

    return (uint32_t)n->gpus - n->bad - n->free;
}

static int64_t scattered(const struct planner_ctx *ctx)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    int64_t sum = 0;

    for (uint32_t n = 0; n < ledger->topo.node_count; n++)
        if (ledger->topo.nodes[n].up && used_of(ledger, n) > 0)
            sum += ledger->topo.nodes[n].free;
    return sum;
}

/* The smallest hole on another node in use; UINT32_MAX. */
static uint32_t hole(const struct planner_ctx *ctx, uint32_t source, uint32_t need)
{
    const struct defrag *d = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct topo *topo = &ledger->topo;
    uint32_t best = UINT32_MAX;

    for (uint32_t n = 0; n < topo->node_count; n++)
        if (n != source && topo->nodes[n].up && topo->nodes[n].sku == topo->nodes[source].sku &&
            region_of(topo, n) == region_of(topo, source) && used_of(ledger, n) > 0 && d->room[n] >= need &&
            (best == UINT32_MAX || d->room[n] < d->room[best]))
            best = n;
    return best;
}

/* The first job of the node and where it goes, if all jobs of the node could go somewhere. */
static bool could_empty(struct planner_ctx *ctx, const struct plan *plan, uint32_t node, uint32_t first[2])
{
    struct defrag *d = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct node *n = &ledger->topo.nodes[node];
    uint32_t last = JOB_NONE;

    for (uint32_t k = 0; k < ledger->topo.node_count; k++)
        d->room[k] = (uint16_t)usable(ctx, k);
    first[0] = JOB_NONE;
    for (uint32_t g = n->first_gpu; g < n->first_gpu + n->gpus; g++) {
        uint32_t share = ledger->gpus[g].shares, job, to;
        uint32_t here = 0;

        if (share == SHARE_NONE)
            continue;
        job = ledger->shares[share].job;
        if (job == last)
            continue;
        last = job;
        if (!movable(ctx, job) || !plan_rested(plan, job))
            return false;
        for (uint32_t s = view_shares(ctx->view, job); s != SHARE_NONE; s = ledger->shares[s].next_of_job)
            here += ledger->gpus[ledger->shares[s].gpu].node == node;
        if ((int32_t)here != view_job(ctx->view, job)->gpus)
            return false; /* it is elsewhere too */
        to = hole(ctx, node, here);
        if (to == UINT32_MAX)
            return false;
        d->room[to] = (uint16_t)(d->room[to] - here);
        if (first[0] == JOB_NONE) {
            first[0] = job;
            first[1] = to;
        }
    }
    return first[0] != JOB_NONE;
}

/* Moves one job; whether there was one. */
static bool gather_one(struct planner_ctx *ctx, struct plan *plan)
{
    struct defrag *d = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);

    for (uint32_t used = 1; used < NODE_GPUS_MAX; used++)
        for (uint32_t n = 0; n < ledger->topo.node_count; n++) {
            uint32_t first[2], count = 0;

            if (!ledger->topo.nodes[n].up || ledger->topo.nodes[n].free == 0 || used_of(ledger, n) != used ||
                !could_empty(ctx, plan, n, first))
                continue;
            take(ctx, first[1], (uint32_t)view_job(ctx->view, first[0])->gpus, &count);
            if (move(ctx, plan, first[0], count) == 0) {
                d->moved++;
                return true;
            }
        }
    return false;
}

static void defrag_tune(struct planner_ctx *ctx, struct plan *plan)
{
    struct defrag *d = ctx->state;
    const struct topo *topo = topo_of(ctx);
    usec_t now = view_now(ctx->view);
    bool drained = false;

    if (topo->node_count > DEFRAG_NODES)
        return;
    for (uint32_t n = 0; n < topo->node_count; n++)
        if (topo->nodes[n].closed && !topo->nodes[n].up)
            drained |= empty_drained(ctx, plan, n);
    if (drained)
        plan_wake(plan, now + AGAIN_S * USEC_SEC);
    if (ctx->params[P_EVERY] == 0 || ctx->vc->running == 0)
        return;
    if (now >= d->next) {
        int64_t before = scattered(ctx);

        d->next = now + ctx->params[P_EVERY];
        if (gather_one(ctx, plan)) {
            d->scattered_before += d->begun ? 0 : before;
            d->looks += !d->begun;
            d->begun = true;
            d->next = now + AGAIN_S * USEC_SEC; /* the next of its jobs, or of another node */
        } else if (d->begun) {
            d->scattered_after += before;
            d->begun = false;
        }
    }
    plan_wake(plan, d->next);
}

static const struct param defrag_params[] = {
    [P_EVERY] = { "defrag-every", "between two looks for nodes that can be emptied; 0: only drained ones are",
                  PARAM_TIME, 10 * USEC_MIN, 0, PARAM_MAX / 4, NULL },
    { 0 },
};

static const char *const defrag_counters[] = {
    "maintenance_moves", "maintenance_stops", "defrag_moves", "defrags", "scattered_before", "scattered_after", NULL
};

const struct tune_ops tune_defrag = {
    .name = "defrag",
    .summary = "jobs move off drained nodes, and together so that nodes become free",
    .params = defrag_params,
    .state_size = sizeof(struct defrag),
    .kept_size = offsetof(struct defrag, gpus),
    .tune = defrag_tune,
    .counters = defrag_counters,
};
