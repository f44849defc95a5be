/* SPDX-License-Identifier: Apache-2.0 */
/* gandiva_pool.c - turns on all servers of a type as if they were one (overload=any).
 *
 * All whose turn is over, and all that are suspended, stand in one ring, whose order is gandiva_before(). From its head
 * on, everybody has a turn for whom there are GPUs, wherever they are. Then places are found, so that no GPU idles
 * because what is free lies scattered:
 *
 *     who runs stays where it is
 *     who comes back goes to the server with the least room that is enough, its own among equals; wide ones first
 *     if there is no such server, to the one where the fewest GPUs have to be cleared of narrower jobs; these are
 *     suspended, and come back elsewhere in the next pass
 */
#include <string.h>

#include "policy/gandiva/gandiva.h"

#define OVER_TURN_MIN (5 * USEC_MIN)

/* A suspended job of another type has turns on this one as well, if turns are long enough to be worth the way. */
static bool comes_over(const struct planner_ctx *ctx, uint32_t index, uint32_t sku)
{
    const struct job *job = view_job(ctx->view, index);
    usec_t turn = gandiva_turn(ctx, job), round = view_round(ctx->view);

    return job->state == JOB_SUSPENDED && gandiva_roams(ctx, index, sku) &&
           (turn > round ? turn : round) >= OVER_TURN_MIN;
}

/* Suspended, or its turn is over. Wider ones than a server have turns of their own. */
static bool in_pool(const struct planner_ctx *ctx, uint32_t index, uint32_t sku)
{
    const struct topo *topo = &view_ledger(ctx->view)->topo;
    const struct job *job = view_job(ctx->view, index);

    return job->vc == ctx->vc->index && (job->sku == sku || comes_over(ctx, index, sku)) && !job->packed &&
           job->spec.share == MGPU_ONE && job_plain(job) && !job->yields && !job->planned &&
           job->gpus <= topo->node_gpus_max[sku] && view_shows(ctx->view, index) &&
           (job->state == JOB_SUSPENDED ? !job->prepared && !gandiva_along(ctx, index) : gandiva_over(ctx, job));
}

/* By turn, the next first: merges runs of doubling length. */
static void sort(const struct planner_ctx *ctx, uint32_t count)
{
    struct gandiva *g = ctx->state;

    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t low = 0; low < count; low += 2 * width) {
            uint32_t middle = low + width < count ? low + width : count, a = low, b = middle;
            uint32_t high = middle + width < count ? middle + width : count;

            for (uint32_t at = low; at < high; at++) {
                bool first = a < middle && (b == high || !gandiva_before(ctx, view_job(ctx->view, g->pool[b].job),
                                                                         view_job(ctx->view, g->pool[a].job)));

                g->spare[at] = g->pool[first ? a++ : b++];
            }
        }
        memcpy(g->pool, g->spare, count * sizeof(*g->pool));
    }
}

/* Whose turn is over goes to the end of the ring, in its order. */
static uint32_t gather(struct planner_ctx *ctx, struct plan *plan, uint32_t sku)
{
    struct gandiva *g = ctx->state;
    uint32_t count = 0;

    for (uint32_t i = 0; i < view_job_top(ctx->view) && count < POOL_JOBS_MAX; i++)
        if (in_pool(ctx, i, sku))
            g->pool[count++] = (struct pooled){ i, UINT32_MAX, false };
    sort(ctx, count);
    for (uint32_t i = 0; i < count; i++)
        if (view_job(ctx->view, g->pool[i].job)->state == JOB_RUNNING)
            plan_word(plan, g->pool[i].job, J_RING, ++g->ring);
    if (gandiva_turns(ctx) == TURNS_RING)
        sort(ctx, count);
    return count;
}

static uint32_t home(const struct planner_ctx *ctx, uint32_t index)
{
    const struct ledger *ledger = view_ledger(ctx->view);

    return ledger->gpus[ledger->shares[view_shares(ctx->view, index)].gpu].node;
}

static uint32_t nodes_of(const struct planner_ctx *ctx)
{
    uint32_t count = view_ledger(ctx->view)->topo.node_count;

    return count < POOL_NODES_MAX ? count : POOL_NODES_MAX;
}

/* Who has a turn: from the head of the ring, while there are GPUs. Who runs stays. */
static void choose(struct planner_ctx *ctx, uint32_t sku, uint32_t count)
{
    struct gandiva *g = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    int64_t room = 0;

    for (uint32_t n = 0; n < nodes_of(ctx); n++) {
        const struct node *node = &ledger->topo.nodes[n];

        g->room[n] = 0;
        for (uint32_t i = 0; node->sku == sku && node->up && i < node->gpus; i++)
            g->room[n] += ledger_whole(ledger, node->first_gpu + i);
        room += g->room[n];
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct job *job = view_job(ctx->view, g->pool[i].job);

        if (job->state == JOB_RUNNING) {
            g->room[home(ctx, g->pool[i].job)] += job->gpus;
            room += job->gpus;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct job *job = view_job(ctx->view, g->pool[i].job);

        if (job->gpus > room)
            continue;
        room -= job->gpus;
        g->pool[i].chosen = true;
        if (job->state == JOB_RUNNING) {
            g->pool[i].to = home(ctx, g->pool[i].job);
            g->room[g->pool[i].to] -= job->gpus;
        }
    }
}

/* The server with the least room that is enough. */
static uint32_t room_at(const struct planner_ctx *ctx, uint32_t index)
{
    const struct gandiva *g = ctx->state;
    int32_t width = view_job(ctx->view, index)->gpus;
    uint32_t best = home(ctx, index);

    if (g->room[best] < width)
        best = UINT32_MAX;
    for (uint32_t n = 0; n < nodes_of(ctx) && (best == UINT32_MAX || g->room[best] > width); n++)
        if (g->room[n] >= width && (best == UINT32_MAX || g->room[n] < g->room[best]))
            best = n;
    return best;
}

/* The server with enough room once the narrower jobs that were to stay have left it: the one with the most room now,
 * which is where the fewest have to. They leave, the last in the ring first. */
static uint32_t clear_for(struct planner_ctx *ctx, uint32_t index, uint32_t count)
{
    struct gandiva *g = ctx->state;
    int32_t width = view_job(ctx->view, index)->gpus;
    uint32_t best = UINT32_MAX;

    for (uint32_t n = 0; n < nodes_of(ctx); n++)
        g->clear[n] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct job *job = view_job(ctx->view, g->pool[i].job);

        if (g->pool[i].to != UINT32_MAX && job->state == JOB_RUNNING && job->gpus < width)
            g->clear[g->pool[i].to] += job->gpus;
    }
    for (uint32_t n = 0; n < nodes_of(ctx); n++)
        if (g->clear[n] && g->room[n] + g->clear[n] >= width && (best == UINT32_MAX || g->room[n] > g->room[best]))
            best = n;
    for (uint32_t i = count; i > 0 && best != UINT32_MAX && g->room[best] < width; i--) {
        const struct job *job = view_job(ctx->view, g->pool[i - 1].job);

        if (g->pool[i - 1].to != best || job->state != JOB_RUNNING || job->gpus >= width)
            continue;
        g->pool[i - 1].to = UINT32_MAX;
        g->room[best] += job->gpus;
    }
    return best;
}

/* Places for those that come back, wide ones first. */
static void settle(struct planner_ctx *ctx, uint32_t sku, uint32_t count)
{
    struct gandiva *g = ctx->state;

    for (int32_t width = view_ledger(ctx->view)->topo.node_gpus_max[sku]; width > 0; width--)
        for (uint32_t i = 0; i < count; i++) {
            const struct job *job = view_job(ctx->view, g->pool[i].job);

            if (!g->pool[i].chosen || job->gpus != width || job->state != JOB_SUSPENDED)
                continue;
            g->pool[i].to = room_at(ctx, g->pool[i].job);
            if (g->pool[i].to == UINT32_MAX)
                g->pool[i].to = clear_for(ctx, g->pool[i].job, count);
            if (g->pool[i].to != UINT32_MAX)
                g->room[g->pool[i].to] -= width;
        }
}

static void carry_out(struct planner_ctx *ctx, struct plan *plan, uint32_t count)
{
    struct gandiva *g = ctx->state;

    for (uint32_t i = 0; i < count; i++) {
        const struct job *job = view_job(ctx->view, g->pool[i].job);

        if (job->state != JOB_RUNNING)
            continue;
        if (g->pool[i].to != UINT32_MAX)
            plan_word(plan, g->pool[i].job, J_UNTIL, view_now(ctx->view) + gandiva_turn(ctx, job));
        else
            gandiva_suspend(ctx, plan, g->pool[i].job);
    }
    for (uint32_t i = 0; i < count; i++)
        if (g->pool[i].to != UINT32_MAX && view_job(ctx->view, g->pool[i].job)->state == JOB_SUSPENDED)
            (void)gandiva_resume_on(ctx, plan, g->pool[i].job, g->pool[i].to);
}

void gandiva_pool(struct planner_ctx *ctx, struct plan *plan)
{
    for (uint32_t sku = 0; sku < view_ledger(ctx->view)->topo.sku_count; sku++) {
        uint32_t count = gather(ctx, plan, sku);

        choose(ctx, sku, count);
        settle(ctx, sku, count);
        carry_out(ctx, plan, count);
    }
}
