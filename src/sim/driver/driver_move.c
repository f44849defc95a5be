/* SPDX-License-Identifier: Apache-2.0 */
/* driver_move.c - moves of running jobs, and those that fail half way.
 *
 * A job that goes elsewhere saves itself where it is and is restored where it goes. A move can fail at either end: by
 * itself (move-fails), or because a node is lost. Where it goes, the core sees it and takes the job down; where it
 * comes from, the core has it no longer, and the node's agent would tell that it is gone: so do we. From then on it is
 * a job that waits, with what was saved: all of it once the first half is done, else its last checkpoint.
 *
 * Where a job came from is known here if it was one node; a gang over several fails by itself only.
 */
#include "sim/driver/batches.h"
#include "sim/driver/driver_internal.h"

void move_begin(struct driver *d, uint32_t index, usec_t leave, usec_t all)
{
    struct actor *a = &d->actors[index];

    a->fate = (uint8_t)world_move_fate(d->world, index, a->moves++);
    a->moving = true;
    if (a->fate != MOVE_WELL && all == 0) { /* failing takes its time, be it the least */
        d->result->jobs[index].overhead++;
        all = 1;
    }
    a->saved_at = d->now + (leave < all ? leave : all);
    a->restart_at = d->now + all;
}

void move_over(struct actor *a)
{
    a->moving = false;
    a->fate = MOVE_WELL;
}

bool move_saved(const struct driver *d, const struct actor *a)
{
    return a->moving && a->fate != MOVE_UNSAVED && d->now >= a->saved_at;
}

int move_restart(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];

    if (a->restart_at == d->now)
        return offer_started(d, index);
    if (a->fate == MOVE_UNSAVED)
        actor_due(d, index, DUE_LOST, a->saved_at > d->now ? a->saved_at : d->now + 1);
    else
        actor_due(d, index, a->fate == MOVE_WELL ? DUE_STARTED : DUE_LOST, a->restart_at);
    return 0;
}

int move_failed(struct driver *d, uint32_t index)
{
    struct actor *a = &d->actors[index];
    struct event event = { .kind = EVENT_ENDED, .fail = FAIL_SYSTEM };

    d->result->jobs[index].overhead -= a->restart_at - d->now; /* what was not spent of it */
    actor_gone(d, index);
    event.progress = a->progress;
    return offer_about(d, &event, index);
}

int move_source_lost(struct driver *d, uint32_t node)
{
    int r = 0;

    for (uint32_t i = 0; i < d->next_arrival && r == 0; i++) {
        const struct actor *a = &d->actors[i];

        if (a->moving && a->from == node && a->node != node && d->now < a->saved_at && a->in_core)
            r = move_failed(d, i);
    }
    return r;
}
