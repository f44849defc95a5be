/* SPDX-License-Identifier: Apache-2.0 */
/* reshape.c - see reshape.h.
 *
 * Gains are measured against what would have been otherwise, for as long as it lasts:
 *
 *     packing      (sum of both speeds, each over its speed alone, - 1) x GPUs: beyond what turns would give
 *     migration    (speed after - speed before) x GPUs, in GPUs of nominal speed
 *     resizing     GPUs beyond those asked for; what a job that was made smaller has left to others is counted apart
 *     suspension   nothing of its own: others have its GPUs
 */
#include "sim/driver/reshape.h"

static struct reshaping *of(struct driver *d, uint8_t kind)
{
    return &d->result->reshaped[kind];
}

/* For the chart, where one is kept. */
static void mark(struct driver *d, uint32_t index, enum mark_kind kind, int64_t before, int64_t after)
{
    if (d->open)
        (void)run_result_mark(d->result, &(struct mark){ d->now, index, (uint8_t)kind, before, after });
}

/* The other of a pair, as a job of the trace; -1 where it is gone. */
static int64_t mate_of(const struct driver *d, uint32_t slot)
{
    uint32_t mate = core_job(d->core, slot)->mate;

    return mate == JOB_NONE ? -1 : (int64_t)d->actor_of_slot[mate];
}

static void shifted(struct driver *d, uint32_t index, const struct decision *decision)
{
    struct actor *a = &d->actors[index];
    bool sized = decision->gpu_count != a->size && a->size;

    a->reshaped = sized ? RESHAPE_RESIZE : RESHAPE_MIGRATE;
    a->moved_from = sized ? 0 : a->rate;
    mark(d, index,
         !sized                              ? MARK_MOVE
         : decision->kind == DECISION_SPLICE ? MARK_SPLICE
                                             : MARK_SIZE,
         a->size, decision->gpu_count);
    a->size = decision->gpu_count;
    of(d, a->reshaped)->count++;
}

static void packed(struct driver *d, uint32_t index, uint32_t slot)
{
    struct run_result *result = d->result;
    struct actor *a = &d->actors[index];
    struct mark *last = result->mark_count ? &result->marks[result->mark_count - 1] : NULL;

    if (a->reshaped == RESHAPE_MIGRATE && a->moved_from) {
        of(d, RESHAPE_MIGRATE)->count--; /* it moved to be packed */
        a->moved_from = 0;
        if (last && last->job == index && last->kind == MARK_MOVE && last->at == d->now)
            result->mark_count--;
    }
    a->reshaped = RESHAPE_PACK;
    of(d, RESHAPE_PACK)->count++;
    mark(d, index, MARK_PACK, mate_of(d, slot), 0);
}

void reshape_decided(struct driver *d, const struct decision *decision)
{
    uint32_t index = d->actor_of_slot[decision->job];
    struct actor *a = &d->actors[index];

    switch ((int)decision->kind) {
    case DECISION_START:
    case DECISION_RESUME:
        a->size = decision->gpu_count;
        a->moved_from = 0;
        break;
    case DECISION_MIGRATE:
    case DECISION_SPLICE:
        shifted(d, index, decision);
        break;
    case DECISION_SUSPEND:
        a->reshaped = RESHAPE_SUSPEND;
        of(d, RESHAPE_SUSPEND)->count++;
        break;
    case DECISION_PACK:
        packed(d, index, decision->job);
        break;
    case DECISION_UNPACK:
        mark(d, index, MARK_UNPACK, mate_of(d, decision->job), 0);
        break;
    case DECISION_LIMIT:
        mark(d, index, MARK_LIMIT, decision->needs, decision->free);
        break;
    default:
        break;
    }
}

void reshape_cost(struct driver *d, uint32_t index, usec_t cost)
{
    const struct actor *a = &d->actors[index];

    if (a->reshaped != RESHAPE_NONE)
        of(d, a->reshaped)->cost += svc_of((int64_t)a->size * MGPU_ONE, cost);
}

void reshape_begin(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    struct world_shape shape = shape_of(d, a->slot);

    a->alone = a->beside != DRIVER_NOBODY ? world_rate(d->world, index, &shape, NULL, 0) : 0;
    a->reshaped = RESHAPE_NONE;
}

void reshape_gain(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    int64_t span = d->now - a->since, gpus = a->size, asked = d->trace->jobs[index].spec.gpus;

    if (a->beside != DRIVER_NOBODY && a->alone > 0 && d->actors[a->beside].running)
        of(d, RESHAPE_PACK)->gain +=
            muldiv_floor(gpus * span, a->rate, a->alone) - gpus * span / 2; /* each of the two half of the 1 */
    if (a->moved_from > 0 && a->beside == DRIVER_NOBODY)
        of(d, RESHAPE_MIGRATE)->gain +=
            gpus * muldiv_floor(span, a->rate, PPM_ONE) - gpus * muldiv_floor(span, a->moved_from, PPM_ONE);
    if (gpus > asked)
        of(d, RESHAPE_RESIZE)->gain += (gpus - asked) * span;
    else if (gpus > 0)
        of(d, RESHAPE_RESIZE)->left += (asked - gpus) * span;
}
