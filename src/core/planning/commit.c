/* SPDX-License-Identifier: Apache-2.0 */
/* commit.c - what a pass came to: the effects and decisions that tell of it.
 *
 * A policy may change its mind about a job within a pass; only what holds at its end is told.
 */
#include <assert.h>

#include "core/planning/deferred_move.h"
#include "core/planning/pass.h"

/* Both of a new pair have been disturbed: one came, the other is no longer alone. */
static void commit_pack(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];

    if (job->mate == JOB_NONE || core->jobs[job->mate].planned)
        return; /* of two that start together the second one tells */
    core_decide(core, DECISION_PACK, index, REASON_NONE)->needs = core->jobs[job->mate].spec.id;
    job->packings++;
    core->jobs[job->mate].packings++;
    core->jobs[job->mate].disturbed = core->now;
}

/* It goes elsewhere, as soon as nobody has to leave before. */
static void commit_move(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];

    core_decide(core, job->resized ? DECISION_SPLICE : DECISION_MIGRATE, index,
                job->blocked ? REASON_PREEMPTING : REASON_NONE);
    job->disturbed = core->now;
    if (job->resized) {
        job->splices++;
    } else {
        job->migrations++;
        commit_pack(core, index);
    }
    if (!job_defers(job))
        defer_tell(core, index);
    else if (job->blocked == 0)
        defer_ready(core, index);
}

void commit_planned(struct core *core)
{
    for (uint32_t i = 0; i < core->touched_count; i++) {
        uint32_t index = core->touched[i];
        struct job *job = &core->jobs[index];

        job->listed = false;
        if (!job->planned)
            continue;
        job->planned = false;
        if (job->state == JOB_STOPPING) {
            core_decide(core, job->parks ? DECISION_SUSPEND : DECISION_STOP, index, REASON_NONE);
            if (job->unpacks)
                core_decide(core, DECISION_UNPACK, index, REASON_NONE)->needs = core->jobs[job->mate].spec.id;
            core_emit(core, EFFECT_STOP, index);
            job->preemptions += !job->parks;
            job->suspensions += job->parks;
            job->disturbed = core->now;
        } else if (job->state == JOB_CLAIMING) {
            core_decide(core, job->parks ? DECISION_RESUME : DECISION_START, index,
                        job->blocked ? REASON_PREEMPTING : REASON_NONE);
            job->parks = false;
            commit_pack(core, index);
            if (job->blocked == 0)
                core_start_now(core, index);
        } else if (job->state == JOB_STARTING) {
            commit_move(core, index);
        }
    }
    core->touched_count = 0;
}

void commit_waits(struct core *core)
{
    for (uint32_t i = 0; i < core->fresh_count; i++) {
        const struct job *job = &core->jobs[core->fresh[i]];
        struct decision *d;

        /* A place in turn is a wait as well, until its first turn. */
        if (!job_waits(job->state) && (job->state != JOB_SUSPENDED || job->prepared || job->parks))
            continue;
        d = core_decide(core, DECISION_WAIT, core->fresh[i], core_reason(core, core->fresh[i]));
        d->needs = job_demand(job) + (int64_t)jobspec_sides(&job->spec) * MGPU_ONE;
        for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++)
            d->free += (int64_t)view_free(&core->view, s) * MGPU_ONE;
    }
}

uint32_t commit_withdrawn(struct core *core)
{
    uint32_t withdrawn = 0;

    for (uint32_t i = 0; i < core->touched_count; i++) {
        uint32_t index = core->touched[i], count;
        struct job *job = &core->jobs[index];

        if (!job->planned || job->state != JOB_STOPPING || job->before != JOB_CLAIMING)
            continue;
        job->planned = false;
        core_decide(core, DECISION_STOP, index, REASON_NONE);
        core_move(core, index, JOB_PENDING);
        count = hold_release(core, index);
        pair_part(core, index);
        job->gpus = 0;
        job->blocked = 0;
        core_enqueue(core, index);
        for (uint32_t k = 0; k < count; k++)
            if (!core->jobs[core->ready[k]].planned) /* else it is launched below, after its record */
                core_start_now(core, core->ready[k]);
        core->victims[withdrawn++] = index;
    }
    return withdrawn;
}
