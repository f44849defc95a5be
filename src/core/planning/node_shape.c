/* SPDX-License-Identifier: Apache-2.0 */
/* node_shape.c - gangs that say how many GPUs they want on each of their nodes ("2 nodes of 8").
 *
 * Such a shape leaves a placement nothing to choose but the nodes, so no policy is asked. The nodes lie in one rack if
 * some rack has enough of them: the one with the fewest free GPUs, which keeps the larger holes for larger gangs; else
 * in one domain, else anywhere. Among its nodes the fullest that have room come first, the lowest number among equals.
 */
#include <errno.h>

#include "core/core_internal.h"

/* Whether the pool has `nodes` nodes with at least `each` GPUs free. */
static bool pool_has(const struct pool *pool, uint32_t nodes, uint32_t each)
{
    uint32_t count = 0;

    for (uint32_t free = each; free <= pool->gpus_max && count < nodes; free++)
        count += pool->bucket_count[free];
    return count >= nodes;
}

static const struct pool *choose(const struct topo *topo, uint32_t sku, uint32_t nodes, uint32_t each)
{
    const struct pool *all = &topo->pools[topo->sku_pools[sku]];

    if (!pool_has(all, nodes, each))
        return NULL;
    for (int kind = 0; kind < ZONE_KINDS; kind++) {
        const struct pool *best = NULL, *zone;
        uint32_t element = TREE_NONE;

        /* Most free first: the last that has enough is the fullest. */
        while ((zone = topo_next_zone(topo, (enum zone_kind)kind, sku, &element)) && zone->free >= nodes * each)
            if (pool_has(zone, nodes, each))
                best = zone;
        if (best)
            return best;
    }
    return all;
}

static void take_lowest(struct place_ctx *ctx, uint32_t node, uint32_t each, uint32_t *count)
{
    const struct node *n = &ctx->ledger->topo.nodes[node];

    for (uint32_t g = n->first_gpu; each && g < n->first_gpu + n->gpus; g++)
        if (ledger_whole(ctx->ledger, g)) {
            ctx->out[(*count)++] = g;
            each--;
        }
}

/* Whole nodes were appended, so runs of `each` are in order; the runs are put in order by their first. */
static void sort_runs(uint32_t *out, uint32_t count, uint32_t each)
{
    for (uint32_t gap = count / each / 2 * each; gap; gap = gap / each / 2 * each)
        for (uint32_t i = gap; i < count; i += each)
            for (uint32_t at = i; at >= gap && out[at - gap] > out[at]; at -= gap)
                for (uint32_t k = 0; k < each; k++) {
                    uint32_t gpu = out[at + k];

                    out[at + k] = out[at - gap + k];
                    out[at - gap + k] = gpu;
                }
}

int exact_find(struct place_ctx *ctx, const struct place_request *request)
{
    uint32_t each = request->per_node, nodes = (uint32_t)request->gpus / each, count = 0;
    const struct pool *pool = choose(&ctx->ledger->topo, request->sku, nodes, each);

    if (!pool)
        return -EBUSY;
    for (uint32_t free = each; nodes && free <= pool->gpus_max; free++)
        for (uint32_t n = pool_next(pool, (uint16_t)free, 0); nodes && n != BITS_NONE;
             n = pool_next(pool, (uint16_t)free, n + 1), nodes--)
            take_lowest(ctx, n, each, &count);
    sort_runs(ctx->out, count, each);
    return 0;
}

int exact_check(const struct ledger *ledger, const struct placement *to, uint32_t per_node)
{
    uint32_t here = 0;

    if (!per_node)
        return 0;
    for (uint32_t i = 0; i < to->count; i++) {
        bool last = i + 1 == to->count || ledger->gpus[to->gpus[i + 1]].node != ledger->gpus[to->gpus[i]].node;

        here++;
        if (last && here != per_node)
            return -EINVAL;
        here = last ? 0 : here;
    }
    return 0;
}

bool exact_possible(const struct ledger *ledger, const struct jobspec *spec, uint32_t mask)
{
    const struct topo *topo = &ledger->topo;
    uint32_t have[SKUS_MAX] = { 0 };

    for (uint32_t n = 0; n < topo->node_count; n++)
        if (mask >> topo->nodes[n].sku & 1 && topo->nodes[n].gpus >= spec->per_node &&
            ++have[topo->nodes[n].sku] >= (uint32_t)spec->gpus / spec->per_node)
            return true;
    return false;
}
