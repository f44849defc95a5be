/* SPDX-License-Identifier: Apache-2.0 */
/* place_spread.c - as thin as possible: one GPU a node, emptiest nodes first, round after round.
 *
 * For jobs that share nothing (serving, independent workers) and as the bad example for those that do.
 */
#include <errno.h>

#include "policy/list.h"
#include "policy/place/place_pick.h"

/* GPUs that nodes give when each gives at most `height`. */
static uint32_t given(const struct pool *pool, uint32_t height)
{
    uint32_t sum = 0;

    for (uint32_t free = 1; free <= pool->gpus_max; free++)
        sum += pool->bucket_count[free] * (free < height ? free : height);
    return sum;
}

static int spread_find(struct place_ctx *ctx, const struct place_request *request)
{
    const struct pool *pool = pick_pool(ctx, request->sku);
    struct pick pick = { .ctx = ctx, .servers = request->servers };
    uint32_t need = (uint32_t)request->gpus, height = 0, extra;

    if (request->share < MGPU_ONE)
        return pick_share(ctx, request);
    if (pool->free < need)
        return -EBUSY;
    while (height < pool->gpus_max && given(pool, height + 1) <= need)
        height++;
    extra = need - given(pool, height);
    /* Every node gives `height`, and the emptiest one more; when that is all, the rest need not be looked at. */
    for (uint32_t free = pool->gpus_max; free >= 1 && pick.count < need; free--)
        for (uint32_t n = pool_next(pool, (uint16_t)free, 0); n != BITS_NONE && pick.count < need;
             n = pool_next(pool, (uint16_t)free, n + 1)) {
            uint32_t more = extra && free > height ? 1 : 0;

            extra -= more;
            pick_node(&pick, n, (free < height ? free : height) + more);
        }
    pick_sort(&pick);
    return 0;
}

const struct place_ops place_spread = {
    .name = "spread",
    .summary = "over as many nodes as possible, emptiest first",
    .find = spread_find,
};
