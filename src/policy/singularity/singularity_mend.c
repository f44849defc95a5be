/* SPDX-License-Identifier: Apache-2.0 */
/* singularity_mend.c - room for tensor-parallel groups where enough GPUs are free, but not side by side.
 *
 * A group must not be torn apart, and what is free on a node beyond whole groups is of no use to it. A promised job of
 * single GPUs beside such a rest, that can bear the outage, moves as many of its GPUs as complete a group there to the
 * rests of other nodes. One job a call: each completes a group, so it comes to an end.
 */
#include <errno.h>

#include "policy/gandiva/held.h"
#include "policy/singularity/singularity.h"

/* Free GPUs of a node, and those that victims would leave there, beyond whole groups. */
static uint32_t rest_of(const struct planner_ctx *ctx, const struct pool *pool, uint32_t node, uint32_t group)
{
    const struct singularity *s = ctx->state;

    if (view_ledger(ctx->view)->topo.nodes[node].sku != pool->sku)
        return 0;
    return (stand_free(ctx, node) + s->gain[node]) % group;
}

/* One who may be moved: it would not notice which GPUs it has, and its promise bears it. */
static bool may_move(const struct item *item, const struct item *for_whom, const struct reclaim_rules *rules)
{
    const struct job *job = item->at;

    return item != for_whom && item->home == for_whom->home && item->tier != TIER_BASIC && item->idle &&
           item->spare >= rules->outage && job->spec.tp <= 1 && job_plain(job);
}

bool mend_find(struct planner_ctx *ctx, const struct item *for_whom, const struct reclaim_rules *rules,
               struct mend *ret)
{
    const struct singularity *s = ctx->state;
    const struct pool *pool = home_pool(ctx, for_whom->home);
    uint32_t group = stand_group(&for_whom->at->spec, pool), rests = 0, end;

    *ret = (struct mend){ .group = group };
    end = pool->first_node + pool->node_count;
    for (uint32_t n = pool->first_node; n < end; n++)
        rests += rest_of(ctx, pool, n, group);
    for (uint32_t n = pool->first_node; n < end; n++) {
        uint32_t rest = rest_of(ctx, pool, n, group), part = group - rest;

        /* The fewest GPUs are moved that will do. */
        if (!rest || rests - rest < part || (ret->part && part >= ret->part))
            continue;
        for (uint32_t i = 0; i < s->item_count; i++) {
            if (!may_move(&s->items[i], for_whom, rules) || held_on(ctx, s->items[i].job, n) < part ||
                (ret->node == n && ret->part && s->items[ret->item].spare >= s->items[i].spare))
                continue;
            *ret = (struct mend){ .item = i, .node = n, .part = part, .group = group };
        }
    }
    return ret->part > 0;
}

/* GPUs of the rests elsewhere, behind the `count` that are in s->gpus. */
static uint32_t add_rests(struct planner_ctx *ctx, const struct pool *pool, const struct mend *mend, uint32_t count,
                          bool soon)
{
    struct singularity *s = ctx->state;
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t need = mend->part;

    for (uint32_t n = pool->first_node; need && n < pool->first_node + pool->node_count; n++) {
        uint32_t rest = n == mend->node ? 0 : rest_of(ctx, pool, n, mend->group);
        const struct node *node = &ledger->topo.nodes[n];

        for (uint32_t g = node->first_gpu; need && rest && g < node->first_gpu + node->gpus; g++)
            if (stand_can_have(ctx, g, soon)) {
                s->gpus[count++] = g;
                need--;
                rest--;
            }
    }
    return need ? 0 : count;
}

int mend_move(struct planner_ctx *ctx, struct plan *plan, const struct mend *mend)
{
    struct singularity *s = ctx->state;
    struct item *item = &s->items[mend->item];
    const struct ledger *ledger = view_ledger(ctx->view);
    const struct pool *pool = home_pool(ctx, item->home);
    uint32_t had = stand_held(ctx, item->job), stays = 0, count;
    struct placement to;
    int r;

    for (uint32_t i = 0, left = mend->part; i < had; i++) {
        if (left && ledger->gpus[s->gpus[i]].node == mend->node)
            left--;
        else
            s->gpus[stays++] = s->gpus[i];
    }
    count = add_rests(ctx, pool, mend, stays, false);
    if (!had || !count)
        return had && add_rests(ctx, pool, mend, stays, true) ? -EAGAIN : -EBUSY;
    stand_sort(s->gpus, count);
    to = (struct placement){ s->gpus, count };
    r = plan_splice(plan, item->job, &to);
    if (r < 0)
        return -EBUSY;
    item->idle = false;
    s->taken = true;
    return -EAGAIN;
}
