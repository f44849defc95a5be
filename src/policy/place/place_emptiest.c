/* SPDX-License-Identifier: Apache-2.0 */
/* place_emptiest.c - the node with the most free GPUs gives all it has, then the next one. Ties: the lower number.
 *
 * Gangs lie close together as long as nodes are empty; small jobs take a piece out of the emptiest node, which costs
 * later gangs their whole nodes. The simulator of Pollux places so.
 */
#include <errno.h>

#include "policy/list.h"
#include "policy/place/place_pick.h"

static int emptiest_find(struct place_ctx *ctx, const struct place_request *request)
{
    const struct pool *pool = pick_pool(ctx, request->sku);
    struct pick pick = { .ctx = ctx };

    if (request->share < MGPU_ONE)
        return pick_share(ctx, request);
    return pick_emptiest(&pick, pool, (uint32_t)request->gpus);
}

const struct place_ops place_emptiest = {
    .name = "emptiest",
    .summary = "all of the emptiest node, then of the next",
    .find = emptiest_find,
};
