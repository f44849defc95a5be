/* SPDX-License-Identifier: Apache-2.0 */
/* observe_drive.c - the reports that are due, offered to the core. */
#include "model/measure.h"
#include "sim/driver/batches.h"
#include "sim/driver/driver_internal.h"
#include "sim/driver/observe.h"

/* How fast each of its GPUs is, where some are not as they should be. */
static int report_workers(struct driver *d, uint32_t index)
{
    const struct ledger *ledger = core_ledger(d->core);
    const struct job *job = core_job(d->core, d->actors[index].slot);
    int64_t left = job->gpus;
    int r = 0;

    for (uint32_t s = job->shares; s != SHARE_NONE && d->config->world.slow && r == 0;
         s = ledger->shares[s].next_of_job) {
        uint32_t gpu = ledger->shares[s].gpu;
        struct event event = { .kind = EVENT_REPORT,
                               .job = d->actors[index].slot,
                               .gen = d->actors[index].gen,
                               .report = { MEASURE_WORKER, { gpu, world_gpu_speed(d->world, gpu), --left } } };

        r = driver_offer(d, &event, index, NULL);
    }
    return r;
}

/* What is promised of a GPU's time by those that run there, as their requests tell it; 0 = one does not. */
static int64_t busy_of(const struct driver *d, uint32_t slot)
{
    const struct ledger *ledger = core_ledger(d->core);
    uint32_t first = core_job(d->core, slot)->shares;
    int64_t busy = 0;

    for (uint32_t s = first == SHARE_NONE ? SHARE_NONE : ledger->gpus[ledger->shares[first].gpu].shares;
         s != SHARE_NONE; s = ledger->shares[s].next_of_gpu) {
        uint32_t index = d->actor_of_slot[ledger->shares[s].job];

        if (!d->actors[index].running)
            continue;
        if (d->trace->jobs[index].spec.utilisation == 0)
            return 0;
        busy += d->trace->jobs[index].spec.utilisation;
    }
    return busy < 100 ? busy : 100;
}

static int report_batches(struct driver *d)
{
    int r = 0;

    while (r == 0 && batches_next(d->batches) <= d->now) {
        uint32_t index = batches_take(d->batches);
        struct actor *a = &d->actors[index];
        struct event event = { .kind = EVENT_REPORT, .job = a->slot, .gen = a->gen };

        if (!a->running || !a->in_core) {
            batches_stop(d->batches, index); /* its next start begins anew */
            continue;
        }
        actor_settle(d, a);
        event.report = batches_report(d->batches, index, d->now, a->progress, busy_of(d, a->slot));
        r = driver_offer(d, &event, index, NULL);
    }
    return r;
}

int answer_reports(struct driver *d)
{
    int r = report_batches(d);

    while (r == 0 && observer_next(d->observer) <= d->now) {
        uint32_t index = observer_take(d->observer, d->now);
        struct actor *a = &d->actors[index];
        struct observed seen;
        struct report reports[2];
        int count;

        if (!a->running || !a->in_core) {
            observer_stopped(d->observer, index); /* its next start begins anew */
            continue;
        }
        actor_settle(d, a);
        seen = (struct observed){ a->progress, shape_of(d, a->slot), &a->pace };
        count = observer_reports(d->observer, index, &seen, reports);
        for (int i = 0; i < count && r == 0; i++) {
            struct event event = { .kind = EVENT_REPORT, .job = a->slot, .gen = a->gen, .report = reports[i] };

            r = driver_offer(d, &event, index, NULL);
        }
        if (r == 0)
            r = report_workers(d, index);
    }
    return r;
}

struct listener {
    struct driver *driver;
    uint32_t index;
};

static int tell(void *arg, const struct report *report)
{
    const struct listener *listener = arg;
    const struct actor *actor = &listener->driver->actors[listener->index];
    struct event event = { .kind = EVENT_REPORT, .job = actor->slot, .gen = actor->gen, .report = *report };

    return driver_offer(listener->driver, &event, listener->index, NULL);
}

int answer_told(struct driver *d, uint32_t index)
{
    struct listener listener = { d, index };

    return observer_arrived(d->observer, index, tell, &listener);
}
