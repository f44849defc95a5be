/* SPDX-License-Identifier: Apache-2.0 */
/* place_skew.c - together only those that profit from it (Tiresias, NSDI'19, section 3.3).
 *
 * A model whose largest tensor is a large part of it (its skew) suffers when its gang is spread: the big message is
 * what everybody waits for. So by the skew a job comes with:
 *
 * level 0  above `packlimit`: the fewest servers possible, in one rack, or wait
 * level 1  up to it: anywhere, servers with the fewest free GPUs first, so that the emptier ones stay whole
 * level 2  no skew told: together if that is possible now, else anywhere
 *
 * Where the skew comes from (the job, the sizes of its tensors or messages, how it was measured to take being spread)
 * is the driver's affair. Left out: the refitting of the limit.
 */
#include <errno.h>

#include "policy/list.h"
#include "policy/place/place_pick.h"

enum { P_PACKLIMIT };
enum { LEVEL_TOGETHER, LEVEL_ANYWHERE, LEVEL_PREFER };

static const struct param skew_params[] = {
    [P_PACKLIMIT] = { "packlimit", "jobs with a larger skew are kept together", PARAM_RATIO, 500000, 0, PPM_ONE, NULL },
    { 0 },
};

static uint8_t skew_level(const struct place_ctx *ctx, const struct jobspec *spec)
{
    if (spec->skew_permille == 0)
        return LEVEL_PREFER;
    return (int64_t)spec->skew_permille * (PPM_ONE / 1000) > ctx->params[P_PACKLIMIT] ? LEVEL_TOGETHER : LEVEL_ANYWHERE;
}

static int skew_find(struct place_ctx *ctx, const struct place_request *request)
{
    struct pick pick = { .ctx = ctx };

    if (request->share < MGPU_ONE)
        return pick_share(ctx, request);
    if (request->level != LEVEL_ANYWHERE) {
        struct place_request together = *request;
        int r;

        together.level = 0;
        r = place_levels.find(ctx, &together);
        if (r == 0 || request->level == LEVEL_TOGETHER)
            return r;
    }
    return pick_fullest(&pick, pick_pool(ctx, request->sku), (uint32_t)request->gpus);
}

const struct place_ops place_skew = {
    .name = "skew",
    .summary = "together only where the model's skew demands it (Tiresias)",
    .params = skew_params,
    .levels = 3,
    .level = skew_level,
    .find = skew_find,
};
