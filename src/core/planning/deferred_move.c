/* SPDX-License-Identifier: Apache-2.0 */
/* deferred_move.c - a job that goes elsewhere inside its guarantee, where others are who are owed nothing there.
 *
 * In its virtual cluster it is there at once: that is what its policy sees and plans with, as it would alone. In the
 * cluster it runs on where it was, on runs_on GPUs, until those others have left. Its shares say so: those it keeps,
 * those it leaves (PART_OLD, which count as being left, so that whoever is given them waits), those it will have
 * (PART_NEW). When the last of the others has gone it is told to move, leaves what it had, and whoever waited for that
 * is launched.
 *
 * It waits only for those who were told to leave before, or for a part that another was to leave before, so nobody
 * waits in a circle. A stop, an end, a cancellation, hardware that fails, take all of its shares, as of any job.
 */
#include <assert.h>

#include "core/core_internal.h"
#include "core/planning/deferred_move.h"

/* Nobody is in its way any more. It goes when the event, or the pass, is done with its lists. */
void defer_ready(struct core *core, uint32_t index)
{
    assert(core->going_count < core->job_capacity);
    core->going[core->going_count++] = index;
}

void defer_tell(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];

    core_emit(core, job->resized ? EFFECT_SPLICE : EFFECT_MIGRATE, index);
    job->resized = false;
}

static void go(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    uint32_t count;

    job_settle(job, core->now);
    job->runs_on = 0;
    count = ledger_shed(&core->ledger, core->jobs, job, core->ready, core->job_capacity);
    for (uint32_t s = job->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_job)
        core->ledger.shares[s].part = PART_STAYS;
    defer_tell(core, index);
    for (uint32_t i = 0; i < count; i++)
        core_start_now(core, core->ready[i]);
}

/* One that goes may be whom the next was waiting for. */
void defer_settle(struct core *core)
{
    for (uint32_t i = 0; i < core->going_count; i++)
        if (job_defers(&core->jobs[core->going[i]]) && core->jobs[core->going[i]].blocked == 0)
            go(core, core->going[i]);
    core->going_count = 0;
}
