/* SPDX-License-Identifier: Apache-2.0 */
/* observe_drive.c - the reports that are due, offered to the core. */
#include "sim/driver_part.h"
#include "sim/observe.h"

int answer_reports(struct driver *d)
{
    int r = 0;

    while (r == 0 && observer_next(d->observer) <= d->now) {
        uint32_t index = observer_take(d->observer, d->now);
        struct actor *a = &d->actors[index];
        struct world_shape shape;
        struct report reports[2];
        int count;

        if (!a->running || !a->in_core) {
            observer_stopped(d->observer, index); /* its next start begins anew */
            continue;
        }
        actor_settle(d, a);
        shape = shape_of(d, a->slot);
        count = observer_reports(d->observer, index, a->progress, &shape, reports);
        for (int i = 0; i < count && r == 0; i++) {
            struct event event = { .kind = EVENT_REPORT, .job = a->slot, .gen = a->gen, .report = reports[i] };

            d->events++;
            r = core_offer(d->core, &event, NULL, d->err);
        }
    }
    return r;
}
