/* SPDX-License-Identifier: Apache-2.0 */
/* place_spread.c - as thin as possible: one GPU a node, emptiest nodes first, round after round.
 *
 * For jobs that share nothing (serving, independent workers) and as the bad example for those that do.
 */
#include <errno.h>

#include "policy/list.h"
#include "policy/place_pick.h"

static int spread_find(struct place_ctx *ctx, const struct place_request *request)
{
    const struct pool *pool = pick_pool(ctx, request->sku);
    struct pick pick = { .ctx = ctx };
    uint32_t need = (uint32_t)request->gpus, nodes = 0, floor = 0, extra;

    if (request->share < MGPU_ONE)
        return pick_share(ctx, request);
    if (pool->free < need)
        return -EBUSY;
    /* Fill all nodes to the same height: the largest `floor` GPUs a node such that the total does not exceed the need.
     */
    for (;;) {
        uint32_t sum = 0;

        for (uint32_t free = 1; free <= pool->gpus_max; free++)
            sum += pool->bucket_count[free] * (free < floor + 1 ? free : floor + 1);
        if (sum > need || floor == pool->gpus_max)
            break;
        floor++;
    }
    extra = need;
    for (uint32_t free = 1; free <= pool->gpus_max; free++)
        extra -= pool->bucket_count[free] * (free < floor ? free : floor);
    /* One more on the emptiest nodes. */
    for (uint32_t free = pool->gpus_max; free >= 1 && (floor || extra); free--)
        for (uint32_t n = pool_next(pool, (uint16_t)free, 0); n != BITS_NONE;
             n = pool_next(pool, (uint16_t)free, n + 1)) {
            uint32_t here = free < floor ? free : floor;

            if (extra && free > floor) {
                here++;
                extra--;
            }
            if (here)
                pick_node(&pick, n, here);
            nodes++;
            if (floor == 0 && extra == 0)
                break;
        }
    pick_sort(&pick);
    return 0;
}

const struct place_ops place_spread = {
    .name = "spread",
    .summary = "over as many nodes as possible, emptiest first",
    .find = spread_find,
};
