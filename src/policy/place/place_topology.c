/* SPDX-License-Identifier: Apache-2.0 */
/* place_topology.c - as close together as the free GPUs allow, without waiting for better.
 *
 * In order: one group or socket of the fullest node that has room; that node; the fullest rack that has enough GPUs;
 * the fullest domain; anywhere. In each of them the emptiest nodes come first, so that there are as few as possible,
 * and the rest goes where it leaves the smallest hole. "Fullest" keeps the larger holes for larger gangs.
 */
#include <errno.h>

#include "policy/list.h"
#include "policy/place/place_pick.h"

/* Inside one pool of nodes: from its emptiest nodes, so that as few nodes as possible are used, and best fit for the
 * rest. */
static void take_fewest(struct pick *pick, const struct pool *pool, uint32_t need)
{
    for (uint32_t free = pool->gpus_max; need && free >= 1; free--)
        for (uint32_t n = pool_next(pool, (uint16_t)free, 0); need && n != BITS_NONE;
             n = pool_next(pool, (uint16_t)free, n + 1)) {
            uint32_t rest = need < free ? pool_best_fit(pool, need) : BITS_NONE;

            /* The last part goes where it leaves the smallest hole, unless that node was used already. */
            if (rest != BITS_NONE && pick->ctx->ledger->topo.nodes[rest].free < free)
                n = rest;
            pick_node_tight(pick, n, need < free ? need : free);
            need -= need < free ? need : free;
        }
    pick_sort(pick);
}

static int topology_find(struct place_ctx *ctx, const struct place_request *request)
{
    const struct topo *topo = &ctx->ledger->topo;
    const struct pool *pool = pick_pool(ctx, request->sku), *zone;
    struct pick pick = { .ctx = ctx };
    uint32_t need = (uint32_t)request->gpus;

    if (request->share < MGPU_ONE)
        return pick_share(ctx, request);
    if (pool->free < need)
        return -EBUSY;
    if (need <= pool->gpus_max) {
        uint32_t node = pool_best_fit(pool, need);

        if (node != BITS_NONE) {
            pick_node_tight(&pick, node, need);
            pick_sort(&pick);
            return 0;
        }
    }
    zone = topo_best_zone(topo, ZONE_RACK, request->sku, need);
    if (!zone)
        zone = topo_best_zone(topo, ZONE_DOMAIN, request->sku, need);
    take_fewest(&pick, zone ? zone : pool, need);
    return 0;
}

const struct place_ops place_topology = {
    .name = "topology",
    .summary = "as close together as free GPUs allow: group, socket, node, rack, domain",
    .find = topology_find,
};
