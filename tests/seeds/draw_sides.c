/* SPDX-License-Identifier: Apache-2.0 */
/* draw_sides.c - gangs on several types of GPU, from a seed. */
#include "base/rng.h"
#include "seeds.h"

/* From a stream of its own. */
void draw_sides(const struct draw *draw, struct life *life)
{
    uint32_t types = draw->sides ? life->cluster.sku_count : 0;
    struct rng rng;

    rng_seed(&rng, rng_mix(draw->seed + 829));
    for (size_t i = 0; i < life->trace.count && types > 1; i++) {
        struct jobspec *spec = &life->trace.jobs[i].spec;
        uint32_t first = (uint32_t)rng_below(&rng, types), left = types;

        if (rng_below(&rng, 100) >= 35 || spec->gpus == 0 || spec->share < MGPU_ONE ||
            spec->gpus_min != spec->gpus_max || spec->unit || spec->within || spec->tp > 1 || spec->pp > 1)
            continue;
        spec->sku_mask = 1u << first;
        for (uint32_t k = 1; k < left; k++) {
            uint32_t each = 1 + (uint32_t)rng_below(&rng, 2), nodes = 1 + (uint32_t)rng_below(&rng, 2);
            struct gang_side side = { .gpus = (int32_t)(each * nodes),
                                      .per_node = (uint16_t)each,
                                      .sku_mask = 1u << (first + k) % types };

            if (spec->mcpus && rng_below(&rng, 100) < 70)
                side.mcpus = 1 + (uint32_t)rng_below(&rng, spec->mcpus * 2);
            if (k == 1 || rng_below(&rng, 100) < 50)
                spec->sides[spec->side_count++] = side;
        }
    }
}
