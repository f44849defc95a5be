/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - what keeps policies that change running jobs from fighting over them.
 *
 *   1  whatever is done to a running job can be undone: suspend and resume, pack and unpack, move and move back
 *   2  between two disturbances of one job lie 60 seconds at least (a stop, a suspension, a move, a packing, the end of
 *      one); to give back what was lent or what a job has grown by, and when hardware fails, there is no such wait
 *   3  a job that was promised its end is neither packed nor made to take turns
 *   4  where some jobs are guaranteed, those share GPUs with nobody but guests (pair.c)
 *   5  a node takes part in one migration at a time
 *
 * They bind tuners, and planners that say that they tune; who refuses to wait is answered -EAGAIN, which is no defect.
 */
#include <errno.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"

bool rules_leased(const struct job *job)
{
    return job->promise != 0 && job->breach == BREACH_NONE;
}

bool plan_rested(const struct plan *plan, uint32_t index)
{
    const struct job *job = &plan->core->jobs[index];

    return job->disturbed < 0 || plan->core->now - job->disturbed >= RESIDENCY_MIN;
}

int rules_disturb(const struct plan *plan, uint32_t index)
{
    return plan->tunes && !plan_rested(plan, index) ? -EAGAIN : 0;
}

int rules_slice(struct plan *plan, uint32_t index)
{
    if (plan->tunes && rules_leased(&plan->core->jobs[index]))
        return plan_bad(plan, index, -EPERM);
    return rules_disturb(plan, index);
}

static bool listed(const struct placement *to, uint32_t gpu)
{
    for (uint32_t i = 0; i < to->count; i++)
        if (to->gpus[i] == gpu)
            return true;
    return false;
}

/* How many of its GPUs the job would keep. */
static uint32_t kept(const struct core *core, const struct job *job, const struct placement *to)
{
    uint32_t count = 0;

    for (uint32_t s = job->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_job)
        count += listed(to, core->ledger.shares[s].gpu);
    return count;
}

static bool node_moves(const struct core *core, uint32_t gpu)
{
    const struct mover *mover = &core->movers[core->ledger.gpus[gpu].node];
    const struct job *job = &core->jobs[mover->job];

    return mover->set && job->gen == mover->gen && job->state == JOB_STARTING && job->moving;
}

int rules_move(const struct plan *plan, uint32_t index, const struct placement *to)
{
    const struct core *core = plan->core;
    const struct job *job = &core->jobs[index];
    uint32_t same = kept(core, job, to);

    if (!plan->tunes)
        return 0;
    /* Down to no less than it asked for: it gives back, which does not wait. */
    if (same == to->count && (int32_t)to->count >= job->spec.gpus && (int32_t)to->count < job->gpus)
        return 0;
    if (!plan_rested(plan, index))
        return -EAGAIN;
    if (same == to->count || same == (uint32_t)job->gpus)
        return 0; /* it only grows or shrinks where it is */
    for (uint32_t i = 0; i < to->count; i++)
        if (node_moves(core, to->gpus[i]))
            return -EAGAIN;
    for (uint32_t s = job->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_job)
        if (node_moves(core, core->ledger.shares[s].gpu))
            return -EAGAIN;
    return 0;
}

void rules_note_move(struct core *core, uint32_t index, const struct placement *to)
{
    struct job *job = &core->jobs[index];
    uint32_t same = kept(core, job, to);
    struct mover mover = { .job = index, .gen = job->gen, .set = true };

    job->moving = same < to->count && same < (uint32_t)job->gpus;
    if (!job->moving)
        return;
    for (uint32_t i = 0; i < to->count; i++)
        core->movers[core->ledger.gpus[to->gpus[i]].node] = mover;
    for (uint32_t s = job->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_job)
        core->movers[core->ledger.gpus[core->ledger.shares[s].gpu].node] = mover;
}
