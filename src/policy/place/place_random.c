/* SPDX-License-Identifier: Apache-2.0 */
/* place_random.c - free GPUs drawn at random, the same in every run with the same seed: the control experiment. */
#include <errno.h>

#include "core/contract/view.h"
#include "policy/list.h"
#include "policy/place/place_pick.h"

/* The node that holds the k-th free GPU of the pool, counting through the buckets. */
static uint32_t node_of(const struct pool *pool, uint64_t k)
{
    for (uint32_t free = 1; free <= pool->gpus_max; free++) {
        uint64_t here = (uint64_t)pool->bucket_count[free] * free;
        uint32_t node;

        if (k >= here) {
            k -= here;
            continue;
        }
        /* A random place in the bucket: start anywhere, wrap around. */
        node = pool_next(pool, (uint16_t)free, pool->first_node + (uint32_t)(k * 2654435761u % pool->node_count));
        return node != BITS_NONE ? node : pool_next(pool, (uint16_t)free, 0);
    }
    return BITS_NONE;
}

static int random_find(struct place_ctx *ctx, const struct place_request *request)
{
    const struct pool *pool = pick_pool(ctx, request->sku);
    struct pick pick = { .ctx = ctx, .servers = request->servers };
    uint32_t need = (uint32_t)request->gpus;

    if (request->share < MGPU_ONE)
        return pick_share(ctx, request);
    if (pool->free < need)
        return -EBUSY;
    for (uint32_t tries = 0; pick.count < need && tries < 16 * need; tries++) {
        uint32_t node = node_of(pool, view_random(ctx->view, pool->free));
        const struct node *n = &ctx->ledger->topo.nodes[node];
        uint32_t gpu = n->first_gpu + (uint32_t)view_random(ctx->view, n->gpus);
        bool taken = !ledger_whole(ctx->ledger, gpu);

        for (uint32_t i = 0; i < pick.count && !taken; i++)
            taken = ctx->out[i] == gpu;
        if (!taken)
            ctx->out[pick.count++] = gpu;
    }
    if (pick.count < need) {
        /* Nearly full: what is left is taken as it comes. */
        pick.count = 0;
        return pick_fullest(&pick, pool, need);
    }
    pick_sort(&pick);
    return 0;
}

const struct place_ops place_random = {
    .name = "random",
    .summary = "free GPUs drawn at random",
    .find = random_find,
};
