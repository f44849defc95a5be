/* SPDX-License-Identifier: Apache-2.0 */
/* driver_use.c - what nodes measure of their GPUs: the mean over a window, told when it has changed.
 *
 * Speeds change at instants, so the mean over the window is what it is now once the last change lies a window back:
 * that is when a report is due.
 */
#include <errno.h>

#include "base/alloc.h"
#include "core/planning/vc.h"
#include "model/measure.h"
#include "sim/driver/driver_internal.h"
#include "sim/world/world_coord.h"

int use_init(struct driver *d)
{
    bool wanted = false;

    for (uint32_t v = 0; v < core_vc_count(d->core); v++)
        wanted |= core_vc(d->core, v)->policy.planner->limit != NULL;
    if (!wanted)
        return 0;
    d->window_memory = mem_zalloc(heap_size((uint32_t)d->trace->count), 1);
    if (!d->window_memory)
        return -ENOMEM;
    heap_init(&d->windows, d->window_memory, (uint32_t)d->trace->count);
    d->sharing = true;
    return 0;
}

/* What it is on its GPUs from now on. Settled up to now. */
void use_role(struct driver *d, uint32_t index)
{
    const struct ledger *ledger = core_ledger(d->core);
    struct actor *a = &d->actors[index];
    const struct job *job = core_job(d->core, a->slot);
    bool guests = false;

    a->guest = job->shares != SHARE_NONE && ledger->shares[job->shares].role == ROLE_GUEST;
    for (uint32_t s = job->shares; s != SHARE_NONE && !a->guest; s = ledger->shares[s].next_of_job)
        guests |= ledger->gpus[ledger->shares[s].gpu].guests > 0;
    a->lost = guests ? rate_alone(d, index) - a->rate : 0;
}

/* The job ran at its rate since it was last settled, which came to so much progress. */
void use_settled(struct driver *d, const struct actor *a, usec_t progress)
{
    struct shared_use *shared = &d->result->shared;
    uint32_t index = (uint32_t)(a - d->actors), use = world_use(d->world, index);
    const struct jobspec *spec = &d->trace->jobs[index].spec;
    double gpus = (double)spec->gpus * spec->share / MGPU_ONE, span = (double)(d->now - a->since);

    shared->busy += gpus * (double)progress * (use ? use : 100) / 100.0;
    shared->owner_lost += a->lost > 0 ? gpus * span * (double)a->lost / (double)PPM_ONE : 0;
    if (!a->guest)
        return;
    shared->guests += gpus * span;
    shared->guest_work += gpus * (double)progress;
}

/* The job has begun to run, or runs at another speed. */
void use_changed(struct driver *d, uint32_t index)
{
    use_role(d, index);
    if (d->window_memory && world_use(d->world, index))
        heap_set(&d->windows, index, d->now + d->config->world.window);
}

usec_t use_next(const struct driver *d)
{
    return d->window_memory ? heap_next(&d->windows) : USEC_NEVER;
}

int answer_uses(struct driver *d)
{
    int r = 0;

    while (r == 0 && use_next(d) <= d->now) {
        uint32_t index = heap_first(&d->windows);
        const struct actor *a = &d->actors[index];
        const struct jobspec *spec = &d->trace->jobs[index].spec;
        uint32_t memory = spec->memory_peak_mib ? spec->memory_peak_mib : spec->memory_mib;
        int64_t use = muldiv_floor(world_use(d->world, index) * 100, a->rate < PPM_ONE ? a->rate : PPM_ONE, PPM_ONE);
        struct event event = {
            .kind = EVENT_REPORT, .job = a->slot, .gen = a->gen, .report = { MEASURE_USE, { use, memory, 0 } }
        };
        const struct job *job = core_job(d->core, a->slot);

        heap_clear(&d->windows, index);
        if (a->running && a->in_core && !(job->measured && job->used_percent == use))
            r = driver_offer(d, &event, index, NULL);
    }
    return r;
}
