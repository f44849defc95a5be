/* SPDX-License-Identifier: Apache-2.0 */
/* observe_profile.c - what a short run on a few GPUs tells of a job before it is scheduled: how fast it is at other
 * sizes and spread over nodes, relative to what it asked for. For planners that want it (planner_ops.profiles). */
#include "model/measure.h"
#include "sim/driver/driver_internal.h"

static int tell(struct driver *d, uint32_t index, const struct world_shape *shape)
{
    const struct actor *a = &d->actors[index];
    struct event event = { .kind = EVENT_REPORT, .job = a->slot, .gen = a->gen };

    event.report =
        (struct report){ .kind = MEASURE_PROFILE,
                         .value = { shape->gpus, shape->nodes, world_rate(d->world, index, shape, NULL, 0) } };
    return driver_offer(d, &event, index, NULL);
}

int answer_profile(struct driver *d, uint32_t index)
{
    const struct jobspec *spec = &d->trace->jobs[index].spec;
    const struct policy_setup *setup = &d->config->policies[d->config->job_vcs[index]];
    uint16_t sku = 0;
    int r = 0;

    if (!setup->planner->profiles || spec->share < MGPU_ONE)
        return 0;
    while (d->config->job_skus && d->config->job_skus[index] && !(d->config->job_skus[index] >> sku & 1))
        sku++;
    for (int32_t gpus = 1; gpus <= spec->gpus_max && gpus <= (int32_t)d->result->gpu_count && r == 0; gpus *= 2)
        if (gpus >= spec->gpus_min && gpus != spec->gpus) {
            struct world_shape shape = world_shape_best(d->world, gpus, sku);

            r = tell(d, index, &shape);
        }
    for (uint16_t nodes = 2; nodes <= 4 && nodes <= spec->gpus && r == 0; nodes *= 2) {
        struct world_shape shape = world_shape_best(d->world, spec->gpus, sku);

        if (shape.nodes >= nodes)
            continue;
        shape.nodes = nodes;
        shape.node_gpus_max = (spec->gpus + nodes - 1) / nodes;
        shape.node_gpus_min = spec->gpus / nodes;
        r = tell(d, index, &shape);
    }
    return r;
}
