/* SPDX-License-Identifier: Apache-2.0 */
/* place_pack.c - GPU by GPU onto the fullest node that has room, wherever that leaves a gang.
 *
 * What a scheduler does that packs tasks one by one and knows nothing of gangs: nodes stay full or empty, and a job
 * that comes when a node has one GPU left leaves its first task there, a parameter server as a rule, alone. The bad
 * example that Liquid is measured against; place=count looks for one node first.
 */
#include "policy/list.h"
#include "policy/place/place_pick.h"

static int pack_find(struct place_ctx *ctx, const struct place_request *request)
{
    struct pick pick = { .ctx = ctx, .servers = request->servers };

    if (request->share < MGPU_ONE)
        return pick_share(ctx, request);
    return pick_fullest(&pick, pick_pool(ctx, request->sku), (uint32_t)request->gpus);
}

const struct place_ops place_pack = {
    .name = "pack",
    .summary = "GPU by GPU onto the fullest node that has room",
    .find = pack_find,
};
