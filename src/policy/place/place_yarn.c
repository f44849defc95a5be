/* SPDX-License-Identifier: Apache-2.0 */
/* place_yarn.c - the placement of the baseline that many papers call YARN-CS (as in the Tiresias simulator).
 *
 * A gang that fits one node takes the first node, by number, with enough free GPUs; a larger one takes completely empty
 * nodes, first ones first, and one node for the rest. It never relaxes. The levels of Philly are in place_levels.c.
 */
#include <errno.h>

#include "policy/list.h"
#include "policy/place/place_pick.h"

/* The lowest-numbered node with at least `need` free GPUs that is not in [skip_first, skip_end). */
static uint32_t first_fit(const struct pool *pool, uint32_t need, uint32_t from)
{
    uint32_t best = BITS_NONE;

    for (uint32_t free = need; free <= pool->gpus_max; free++) {
        uint32_t node = pool_next(pool, (uint16_t)free, from);

        if (node < best)
            best = node;
    }
    return best;
}

static int yarn_find(struct place_ctx *ctx, const struct place_request *request)
{
    const struct pool *pool = pick_pool(ctx, request->sku);
    struct pick pick = { .ctx = ctx };
    uint32_t need = (uint32_t)request->gpus, size = pool->gpus_max, node = BITS_NONE, other;
    uint32_t whole = need / size, rest = need % size;

    if (request->share < MGPU_ONE)
        return pick_share(ctx, request);
    if (need < size)
        whole = 0;
    if (pool->bucket_count[size] < whole)
        return -EBUSY;
    for (uint32_t i = 0; i < whole; i++) {
        node = pool_next(pool, (uint16_t)size, node == BITS_NONE ? 0 : node + 1);
        pick_node(&pick, node, size);
    }
    if (rest) {
        /* An empty node among those just taken does not count; any other does. */
        other = first_fit(pool, rest, 0);
        while (other != BITS_NONE && whole && ctx->ledger->topo.nodes[other].free == size && other <= node)
            other = first_fit(pool, rest, other + 1);
        if (other == BITS_NONE)
            return -EBUSY;
        pick_node(&pick, other, rest);
    }
    pick_sort(&pick);
    return 0;
}

const struct place_ops place_yarn = {
    .name = "yarn",
    .summary = "first node with room; larger gangs take whole nodes plus one",
    .find = yarn_find,
};
