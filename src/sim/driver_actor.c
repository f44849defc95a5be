/* SPDX-License-Identifier: Apache-2.0 */
/* driver_actor.c - a job as the world sees it: its placement, its speed, its true progress and when it will be over. */
#include "sim/driver_part.h"

struct world_shape shape_of(const struct driver *d, uint32_t slot)
{
    const struct ledger *ledger = core_ledger(d->core);
    const struct job *job = core_job(d->core, slot);
    struct world_shape shape = { .gpus = job->gpus, .sku = job->sku, .node_gpus_min = INT32_MAX };
    uint32_t node = UINT32_MAX, rack = UINT32_MAX;
    int32_t here = 0;

    /* GPUs come in ascending order, so those of a node and of a rack follow each other. */
    for (uint32_t s = job->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        const struct gpu *gpu = &ledger->gpus[ledger->shares[s].gpu];

        if (gpu->node != node) {
            if (here && here < shape.node_gpus_min)
                shape.node_gpus_min = here;
            node = gpu->node;
            here = 0;
            shape.nodes++;
            if (topo_above(&ledger->topo, node, LEVEL_RACK) != rack) {
                rack = topo_above(&ledger->topo, node, LEVEL_RACK);
                shape.racks++;
            }
        }
        if (++here > shape.node_gpus_max)
            shape.node_gpus_max = here;
    }
    if (here < shape.node_gpus_min)
        shape.node_gpus_min = here;
    return shape;
}

static size_t neighbours_of(const struct driver *d, uint32_t slot, struct world_neighbour *out)
{
    const struct ledger *ledger = core_ledger(d->core);
    const struct job *job = core_job(d->core, slot);
    size_t count = 0;

    for (uint32_t s = job->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        for (uint32_t o = ledger->gpus[ledger->shares[s].gpu].shares; o != SHARE_NONE;
             o = ledger->shares[o].next_of_gpu) {
            uint32_t other = ledger->shares[o].job;
            bool known = other == slot || core_job(d->core, other)->state != JOB_RUNNING;

            for (size_t i = 0; i < count && !known; i++)
                known = out[i].job == d->actor_of_slot[other];
            if (!known && count < NEIGHBOURS_MAX)
                out[count++] = (struct world_neighbour){ d->actor_of_slot[other], ledger->shares[o].amount };
        }
    return count;
}

ppm_t rate_of(const struct driver *d, uint32_t index)
{
    struct world_neighbour neighbours[NEIGHBOURS_MAX];
    uint32_t slot = d->actors[index].slot;
    struct world_shape shape = shape_of(d, slot);
    size_t count = neighbours_of(d, slot, neighbours);

    return world_rate(d->world, index, &shape, neighbours, count);
}

void actor_settle(struct driver *d, struct actor *a)
{
    if (a->running)
        a->progress += muldiv_floor(d->now - a->since, a->rate, PPM_ONE);
    a->since = d->now;
}

void actor_due(struct driver *d, uint32_t index, enum due due, usec_t at)
{
    d->actors[index].due = (uint8_t)due;
    heap_set(&d->heap, index, at);
}

/* Sets the instant at which the attempt under way is over, one way or the other. */
void actor_plan_end(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    const struct truth *truth = &d->trace->jobs[index].truth;
    usec_t work = world_work(d->world, index), goal = work;
    bool fails = truth->fail != FAIL_NONE && (truth->fail_times == UINT8_MAX || a->fails < truth->fail_times);

    if (fails && truth->fail_after < work)
        goal = truth->fail_after > a->progress ? truth->fail_after : a->progress;
    else
        fails = false;
    if (a->rate == 0) {
        actor_due(d, index, DUE_NOTHING, USEC_NEVER);
        return;
    }
    actor_due(d, index, fails ? DUE_FAIL : DUE_END,
              d->now + (goal > a->progress ? muldiv_ceil(goal - a->progress, PPM_ONE, a->rate) : 0));
}

/* Notes that the speeds of those beside the job have to be looked at again after the step. */
void actor_touch_neighbours(struct driver *d, uint32_t slot)
{
    struct world_neighbour neighbours[NEIGHBOURS_MAX];
    size_t count;

    if (!d->sharing)
        return;
    count = neighbours_of(d, slot, neighbours);
    for (size_t i = 0; i < count && d->touched_count < TOUCHED_MAX; i++)
        d->touched[d->touched_count++] = neighbours[i].job;
}
