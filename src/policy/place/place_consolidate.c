/* SPDX-License-Identifier: Apache-2.0 */
/* place_consolidate.c - the fewest nodes possible, or wait.
 *
 * A gang that fits one node goes to the fullest node that has room (best fit). A larger one takes empty nodes and, for
 * the rest, the fullest node that has room. Nothing is ever spread wider than its size demands. Nodes of one type may
 * differ in size; the largest size counts.
 */
#include <errno.h>

#include "policy/list.h"
#include "policy/place/place_pick.h"

/* `whole` completely free nodes of the largest size and one with room for `rest`, in this pool. */
static int take_whole_nodes(struct pick *pick, const struct pool *pool, uint32_t whole, uint32_t rest)
{
    uint32_t size = pool->gpus_max, other = BITS_NONE, node = BITS_NONE;

    if (pool->bucket_count[size] < whole)
        return -EBUSY;
    if (rest) {
        other = pool_best_fit(pool, rest);
        /* The remainder may need one of the empty nodes; then there must be one more of them. */
        if (other == BITS_NONE ||
            (pick->ctx->ledger->topo.nodes[other].free == size && pool->bucket_count[size] < whole + 1))
            return -EBUSY;
        if (pick->ctx->ledger->topo.nodes[other].free == size)
            other = BITS_NONE;
    }
    for (uint32_t i = 0; i < whole; i++) {
        node = pool_next(pool, (uint16_t)size, node == BITS_NONE ? 0 : node + 1);
        pick_node(pick, node, size);
    }
    if (rest)
        pick_node(pick, other != BITS_NONE ? other : pool_next(pool, (uint16_t)size, node == BITS_NONE ? 0 : node + 1),
                  rest);
    pick_sort(pick);
    return 0;
}

static int consolidate_find(struct place_ctx *ctx, const struct place_request *request)
{
    const struct pool *pool = pick_pool(ctx, request->sku);
    struct pick pick = { .ctx = ctx };
    uint32_t need = (uint32_t)request->gpus, size = pool->gpus_max;

    if (request->share < MGPU_ONE)
        return pick_share(ctx, request);
    if (need <= size) {
        uint32_t node = pool_best_fit(pool, need);

        if (node == BITS_NONE)
            return -EBUSY;
        pick_node(&pick, node, need);
        return 0;
    }
    return take_whole_nodes(&pick, pool, need / size, need % size);
}

const struct place_ops place_consolidate = {
    .name = "consolidate",
    .summary = "the fewest nodes possible (best fit), or wait",
    .find = consolidate_find,
};
