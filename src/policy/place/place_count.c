/* SPDX-License-Identifier: Apache-2.0 */
/* place_count.c - any free GPUs will do.
 *
 * Never makes a job wait for a shape: if enough GPUs of one type are free, it starts. Among the ways to do so it takes
 * a single node where one has room (the fullest such), else the fullest nodes, so that empty nodes stay empty.
 */
#include <errno.h>

#include "policy/list.h"
#include "policy/place/place_pick.h"

static int count_find(struct place_ctx *ctx, const struct place_request *request)
{
    const struct pool *pool = pick_pool(ctx, request->sku);
    struct pick pick = { .ctx = ctx };
    uint32_t need = (uint32_t)request->gpus, node;

    if (request->share < MGPU_ONE)
        return pick_share(ctx, request);
    if (pool->free < need)
        return -EBUSY;
    node = need <= pool->gpus_max ? pool_best_fit(pool, need) : BITS_NONE;
    if (node == BITS_NONE)
        return pick_fullest(&pick, pool, need);
    pick_node(&pick, node, need);
    return 0;
}

const struct place_ops place_count = {
    .name = "count",
    .summary = "any free GPUs; as close together as they happen to be",
    .find = count_find,
};
