/* SPDX-License-Identifier: Apache-2.0 */
/* place_levels.c - Philly's three localities (ATC'19): a job asks for less and less as it waits.
 *
 * level 0  the fewest servers possible, in one rack; a job that fits one server goes to the fullest that has room, so
 *          that small jobs do not break empty servers
 * level 1  any servers of one rack
 * level 2  anywhere
 *
 * Racks and, inside a rack, servers with the most free GPUs come first; equal ones by number. Locality "anywhere" takes
 * servers with the most free GPUs first across racks.
 */
#include <errno.h>

#include "policy/list.h"
#include "policy/place/place_pick.h"

static void take_emptiest(struct pick *pick, const struct pool *pool, uint32_t need)
{
    for (uint32_t free = pool->gpus_max; need && free >= 1; free--)
        for (uint32_t n = pool_next(pool, (uint16_t)free, 0); need && n != BITS_NONE;
             n = pool_next(pool, (uint16_t)free, n + 1)) {
            uint32_t here = need < free ? need : free;

            pick_node(pick, n, here);
            need -= here;
        }
    pick_sort(pick);
}

/* Whether ceil(need / size) servers of this rack hold the gang: that many of its emptiest have enough together. */
static bool fits_fewest(const struct pool *pool, uint32_t need)
{
    uint32_t servers = (need + pool->gpus_max - 1) / pool->gpus_max, have = 0;

    for (uint32_t free = pool->gpus_max; servers && free >= 1; free--) {
        uint32_t here = pool->bucket_count[free] < servers ? pool->bucket_count[free] : servers;

        have += here * free;
        servers -= here;
    }
    return have >= need;
}

static int levels_find(struct place_ctx *ctx, const struct place_request *request)
{
    const struct pool *all = pick_pool(ctx, request->sku);
    struct pick pick = { .ctx = ctx };
    uint32_t need = (uint32_t)request->gpus, element = TREE_NONE;

    if (request->share < MGPU_ONE)
        return pick_share(ctx, request);
    if (all->free < need)
        return -EBUSY;
    if (request->level == 0 && need <= all->gpus_max) {
        uint32_t node = pool_best_fit(all, need);

        if (node == BITS_NONE)
            return -EBUSY;
        pick_node(&pick, node, need);
        return 0;
    }
    if (request->level >= 2) {
        take_emptiest(&pick, all, need);
        return 0;
    }
    for (const struct pool *rack;
         (rack = topo_next_zone(&ctx->ledger->topo, ZONE_RACK, request->sku, &element)) && rack->free >= need;)
        if (request->level == 1 || fits_fewest(rack, need)) {
            take_emptiest(&pick, rack, need);
            return 0;
        }
    return -EBUSY;
}

const struct place_ops place_levels = {
    .name = "levels",
    .summary = "Philly's localities: fewest servers, one rack, anywhere",
    .levels = 3,
    .find = levels_find,
};
