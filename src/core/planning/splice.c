/* SPDX-License-Identifier: Apache-2.0 */
/* splice.c - a job goes on at another size or place and nobody in it notices: its world stays as it is.
 *
 * What it leaves, it leaves only when it has come to a stop and saved itself. Until then the shares are leaving, as
 * those of a job that was told to stop, and whoever is given such a GPU claims it: so a reclaimed GPU costs what
 * stopping and saving takes, and nothing runs on it before. The driver tells with STOPPED that it has left, with
 * STARTED that it goes on.
 *
 * Inside a guarantee of cells a job leaves at once, as with plan_move: shares of the virtual cluster and of the cells
 * would have to leave piecemeal too. So does one that holds CPUs or memory of its nodes.
 */
#include <errno.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "core/planning/deferred_move.h"
#include "model/splice.h"

int plan_splice(struct plan *plan, uint32_t index, const struct placement *to)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];
    int32_t had = job->gpus;
    int r;

    if (!splice_legal(&job->spec, (int32_t)to->count) || to->gpus[0] >= core->ledger.topo.gpu_count ||
        plan_sku(plan_ledger(plan), to) != job->sku)
        return plan_bad(plan, index, -EINVAL);
    r = core->cells || !job_plain(job) ? plan_move(plan, index, to) : plan_shift(plan, index, to);
    if (r < 0)
        return r;
    job->resized = job->gpus != had;
    for (uint32_t s = job_defers(job) ? SHARE_NONE : job->shares; s != SHARE_NONE;
         s = core->ledger.shares[s].next_of_job)
        job->sheds |= core->ledger.shares[s].leaving;
    return 0;
}

void splice_left(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    uint32_t count = ledger_shed(&core->ledger, core->jobs, job, core->ready, core->job_capacity);

    job->sheds = false;
    core->vcs[job->vc].dirty = true;
    for (uint32_t i = 0; i < count; i++)
        core_start_now(core, core->ready[i]);
}

void plan_tier(struct plan *plan, uint32_t index, enum job_tier tier)
{
    struct job *job = &plan->core->jobs[index];

    if (!plan_owns(plan, index) || (unsigned)tier >= TIER_COUNT || job->state == JOB_FREE) {
        (void)plan_bad(plan, index, -EINVAL);
        return;
    }
    if (job->tier == tier)
        return;
    job->tier = (uint8_t)tier;
    core_decide(plan->core, DECISION_TIER, index, REASON_NONE)->needs = tier;
    if (job_waits(job->state) || job_holds(job->state))
        queue_rekey(plan->core, index);
}

void plan_save(struct plan *plan, uint32_t index)
{
    const struct job *job = &plan->core->jobs[index];

    if (!plan_owns(plan, index) || job->state != JOB_RUNNING || job->planned) {
        (void)plan_bad(plan, index, -EINVAL);
        return;
    }
    core_decide(plan->core, DECISION_SAVE, index, REASON_NONE);
    core_emit(plan->core, EFFECT_SAVE, index);
}
