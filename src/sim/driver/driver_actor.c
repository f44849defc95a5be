/* SPDX-License-Identifier: Apache-2.0 */
/* driver_actor.c - a job as the world sees it: its placement, its speed, its true progress and when it will be over. */
#include "sim/driver/driver_internal.h"
#include "sim/driver/reshape.h"

/* Keeps the parts in descending order; few, so by insertion. */
static void add_part(struct world_shape *shape, int32_t gpus)
{
    int at = shape->nodes < WORLD_PARTS_MAX ? shape->nodes : WORLD_PARTS_MAX - 1;
    uint8_t part = world_part(gpus);

    if (gpus < shape->node_gpus_min)
        shape->node_gpus_min = gpus;
    if (gpus > shape->node_gpus_max)
        shape->node_gpus_max = gpus;
    if (shape->nodes >= WORLD_PARTS_MAX && shape->parts[at] >= part)
        at = WORLD_PARTS_MAX;
    for (; at > 0 && at < WORLD_PARTS_MAX && shape->parts[at - 1] < part; at--)
        shape->parts[at] = shape->parts[at - 1];
    if (at < WORLD_PARTS_MAX)
        shape->parts[at] = part;
    shape->nodes++;
}

struct world_shape shape_of(const struct driver *d, uint32_t slot)
{
    const struct ledger *ledger = core_ledger(d->core);
    const struct job *job = core_job(d->core, slot);
    struct world_shape shape = { .gpus = job->runs_on ? job->runs_on : job->gpus,
                                 .sku = job->sku,
                                 .node_gpus_min = INT32_MAX,
                                 .servers = core_servers(d->core, slot) };
    uint32_t node = UINT32_MAX, rack = UINT32_MAX;
    int32_t here = 0;

    /* GPUs come in ascending order, so those of a node and of a rack follow each other. */
    for (uint32_t s = job->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        const struct gpu *gpu = &ledger->gpus[ledger->shares[s].gpu];

        if (!share_here(job, &ledger->shares[s]))
            continue;
        if (job->spec.side_count && ledger->topo.nodes[gpu->node].sku != job->sku)
            continue; /* a gang on several types runs as its first part does */
        if (gpu->node != node) {
            if (here)
                add_part(&shape, here);
            node = gpu->node;
            here = 0;
            shape.role_count = job->spec.gpu_servers ? (uint16_t)(shape.role_count + 1) : 0;
            if (topo_above(&ledger->topo, node, LEVEL_RACK) != rack) {
                rack = topo_above(&ledger->topo, node, LEVEL_RACK);
                shape.racks++;
            }
        }
        here++;
        if (shape.role_count && shape.role_count <= WORLD_ROLES_MAX) {
            shape.roles[shape.role_count - 1].servers += ledger->shares[s].server;
            shape.roles[shape.role_count - 1].workers += !ledger->shares[s].server;
        }
    }
    if (here)
        add_part(&shape, here);
    else
        shape.node_gpus_min = 0;
    shape.spliced = shape.gpus > 0 && shape.gpus < job->spec.gpus_min;
    return shape;
}

uint32_t region_of(const struct driver *d, uint32_t slot)
{
    const struct ledger *ledger = core_ledger(d->core);
    const struct job *job = core_job(d->core, slot);
    uint32_t s = job->shares;

    while (s != SHARE_NONE && !share_here(job, &ledger->shares[s]))
        s = ledger->shares[s].next_of_job;
    return s == SHARE_NONE ? 0 : topo_above(&ledger->topo, ledger->gpus[ledger->shares[s].gpu].node, LEVEL_DOMAIN);
}

/* What the job of share `o` is to that of share `s`. */
static uint8_t beside(const struct ledger *ledger, uint32_t s, uint32_t o)
{
    if ((ledger->shares[s].role == ROLE_GUEST) == (ledger->shares[o].role == ROLE_GUEST))
        return ledger->shares[s].role == ROLE_GUEST ? BESIDE_FELLOW : BESIDE_PEER;
    return ledger->shares[s].role == ROLE_GUEST ? BESIDE_OWNER : BESIDE_GUEST;
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
            bool known = other == slot || !d->actors[d->actor_of_slot[other]].running ||
                         ledger->shares[s].part == PART_NEW || ledger->shares[o].part == PART_NEW;

            for (size_t i = 0; i < count && !known; i++)
                known = out[i].job == d->actor_of_slot[other];
            if (!known && count < NEIGHBOURS_MAX)
                out[count++] =
                    (struct world_neighbour){ d->actor_of_slot[other], ledger->shares[o].amount, beside(ledger, s, o) };
        }
    return count;
}

/* A gang waits for its slowest. */
static ppm_t slowest_of(const struct driver *d, uint32_t slot)
{
    const struct ledger *ledger = core_ledger(d->core);
    ppm_t least = PPM_ONE;

    for (uint32_t s = core_job(d->core, slot)->shares; s != SHARE_NONE && d->config->world.slow;
         s = ledger->shares[s].next_of_job) {
        ppm_t speed = ledger->shares[s].part == PART_NEW ? PPM_ONE : world_gpu_speed(d->world, ledger->shares[s].gpu);

        least = speed < least ? speed : least;
    }
    return least;
}

static bool gpuless(const struct driver *d, uint32_t index)
{
    return d->trace->jobs[index].spec.gpus == 0;
}

ppm_t rate_of(const struct driver *d, uint32_t index)
{
    struct world_neighbour neighbours[NEIGHBOURS_MAX];
    uint32_t slot = d->actors[index].slot;
    struct world_shape shape = shape_of(d, slot);
    size_t count = neighbours_of(d, slot, neighbours);
    ppm_t rate = core_job(d->core, slot)->limit_percent ? world_rate(d->world, index, &shape, neighbours, count) : 0;

    if (gpuless(d, index))
        return PPM_ONE;
    if (rate == 0 && count && neighbours[0].is == BESIDE_OWNER)
        return 1; /* a guest that has nothing for now; told, 0 would mean "as before" */
    return muldiv_ceil(rate, slowest_of(d, slot), PPM_ONE);
}

ppm_t rate_alone(const struct driver *d, uint32_t index)
{
    uint32_t slot = d->actors[index].slot;
    struct world_shape shape = shape_of(d, slot);

    return muldiv_ceil(world_rate(d->world, index, &shape, NULL, 0), slowest_of(d, slot), PPM_ONE);
}

void actor_settle(struct driver *d, struct actor *a)
{
    usec_t done;

    if (a->running && world_paces(d->world) && !gpuless(d, (uint32_t)(a - d->actors)) && d->now > a->since)
        (void)world_pace_run(d->world, (uint32_t)(a - d->actors), &a->pace, (const usec_t[2]){ a->since, d->now },
                             &done);
    if (a->running && d->now > a->since)
        reshape_gain(d, (uint32_t)(a - d->actors));
    if (a->running) {
        usec_t progress = muldiv_floor(d->now - a->since, a->rate, PPM_ONE);

        use_settled(d, a, progress);
        a->progress += progress;
    }
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
    if (world_paces(d->world) && !fails && !gpuless(d, index)) {
        struct world_pace ahead = a->pace;
        usec_t done = USEC_NEVER;

        (void)world_pace_run(d->world, index, &ahead, (const usec_t[2]){ d->now, USEC_NEVER }, &done);
        actor_due(d, index, DUE_END, done);
        return;
    }
    actor_due(d, index,
              fails             ? DUE_FAIL
              : truth->save > 0 ? DUE_SAVE
                                : DUE_END,
              d->now + (goal > a->progress ? muldiv_ceil(goal - a->progress, PPM_ONE, a->rate) : 0));
}

/* Notes that its speed has to be looked at again after the step. */
void actor_touch(struct driver *d, uint32_t index)
{
    if (d->touched_count < TOUCHED_MAX)
        d->touched[d->touched_count++] = index;
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
