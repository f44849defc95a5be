/* SPDX-License-Identifier: Apache-2.0 */
/* world.c - putting a world together; estimates; what a placement looks like at its best. */
#include "sim/world/world.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/world/world_internal.h"
#include "sim/world/world_math.h"

enum { STREAM_ESTIMATE = 0x455354, STREAM_LAUNCH = 0x4c41554e, STREAM_SAVE = 0x53415645 };

int32_t world_nodes_fewest(const struct world *world, int32_t gpus, uint16_t sku)
{
    int32_t most = sku < SKUS_MAX && world->node_gpus_max[sku] ? world->node_gpus_max[sku] : world->node_gpus_largest;

    return most ? (gpus + most - 1) / most : 1;
}

struct world_shape world_shape_best(const struct world *world, int32_t gpus, uint16_t sku)
{
    int32_t nodes = world_nodes_fewest(world, gpus, sku);
    struct world_shape shape = {
        .gpus = gpus, .nodes = (uint16_t)(nodes < UINT16_MAX ? nodes : UINT16_MAX), .racks = 1, .sku = sku
    };

    /* Whole nodes and one with the rest. */
    shape.node_gpus_max = nodes > 1 ? world->node_gpus_max[sku] : gpus;
    shape.node_gpus_min = nodes > 1 ? gpus - (nodes - 1) * world->node_gpus_max[sku] : gpus;
    for (int32_t i = 0; i < nodes && i < WORLD_PARTS_MAX; i++)
        shape.parts[i] = world_part(i + 1 < nodes ? shape.node_gpus_max : shape.node_gpus_min);
    return shape;
}

const char *world_job_label(const struct world *world, size_t job, char text[WORLD_LABEL_MAX])
{
    int64_t id = world->trace->jobs[job].spec.id;

    if (world->trace->ids.count && id >= 0 && (uint64_t)id < world->trace->ids.count)
        snprintf(text, WORLD_LABEL_MAX, "job '%.80s'", names_get(&world->trace->ids, (uint32_t)id));
    else
        snprintf(text, WORLD_LABEL_MAX, "job %lld", (long long)id);
    return text;
}

bool world_sku_allowed(const struct world *world, size_t job, uint16_t sku)
{
    const struct names *skus = &world->trace->skus;
    uint32_t mask = world->trace->jobs[job].spec.sku_mask;
    const char *name = names_get(&world->cluster->names, world->cluster->skus[sku].name);

    if (!mask)
        return true;
    if (!skus->count)
        return mask >> sku & 1;
    for (uint32_t i = 0; i < skus->count && i < 32; i++) {
        if ((mask >> i & 1) && strcasecmp(names_get(skus, i), name) == 0)
            return true;
    }
    return false;
}

static void measure_nodes(struct world *world)
{
    for (uint32_t i = 0; i < world->cluster->node_count; i++) {
        const struct node_spec *node = &world->cluster->nodes[i];

        assert(node->sku < SKUS_MAX);
        if (node->gpus > world->node_gpus_max[node->sku])
            world->node_gpus_max[node->sku] = node->gpus;
        if (node->gpus > world->node_gpus_largest)
            world->node_gpus_largest = node->gpus;
    }
}

struct world *world_new(const struct trace *trace, const struct cluster_spec *cluster,
                        const struct world_config *config, struct error *err)
{
    CLEANUP(world_free) struct world *world = mem_zalloc(1, sizeof(*world));

    if (!world) {
        error_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    world->trace = trace;
    world->cluster = cluster;
    world->config = *config;
    world->harms = mem_zalloc(WORLD_HARMS, sizeof(*world->harms));
    if (!world->harms) {
        error_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    measure_nodes(world);
    if (world_cost_check(world, err) < 0 || world_fault_init(world, err) < 0 || world_speed_init(world, err) < 0 ||
        world_skew_init(world, err) < 0)
        return NULL;
    return take(world);
}

void world_free(struct world *world)
{
    if (!world)
        return;
    world_fault_done(world);
    world_speed_done(world);
    world_skew_done(world);
    mem_free(world->harms);
    mem_free(world);
}

/* Log-uniform: the logarithm of the factor lies anywhere between -log(1 + e) and log(1 + e). */
usec_t world_estimate(const struct world *world, uint32_t job)
{
    const struct jobspec *spec = &world->trace->jobs[job].spec;
    struct rng rng = math_stream(world->config.seed, STREAM_ESTIMATE, (uint64_t)spec->id);
    usec_t estimate;
    int64_t reach;

    if (!world->config.estimate_error)
        return spec->estimate > 0 ? spec->estimate : world_work(world, job);
    reach = math_log2((uint64_t)(PPM_ONE + world->config.estimate_error)) - math_log2((uint64_t)PPM_ONE);
    estimate = math_exp2(world_work(world, job), (int64_t)rng_below(&rng, (uint64_t)(2 * reach + 1)) - reach);
    return estimate > 0 ? estimate : 1;
}

usec_t world_stage(const struct world *world, uint32_t job, usec_t truth, bool save)
{
    struct rng rng =
        math_stream(world->config.seed, save ? STREAM_SAVE : STREAM_LAUNCH, (uint64_t)world->trace->jobs[job].spec.id);
    int64_t reach;

    if (!world->config.stage_error || truth == 0)
        return truth;
    reach = math_log2((uint64_t)(PPM_ONE + world->config.stage_error)) - math_log2((uint64_t)PPM_ONE);
    return math_exp2(truth, (int64_t)rng_below(&rng, (uint64_t)(2 * reach + 1)) - reach);
}
