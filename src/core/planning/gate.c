/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c - successors that are launched before their GPU is free, and predecessors that no longer use theirs (Liquid).
 *
 * A successor is enlisted on GPUs that another holds (plan_enlist) and prepared there: its process starts, loads its
 * program and its data, and stops at a gate before it first touches the GPU. plan_resume opens the gate. It costs its
 * GPU nothing until then, and giving it up costs nobody but itself.
 *
 * A job that saves its result holds its GPUs without using them. Once that was measured, its planner may have it yield:
 * it keeps its place but nothing counts any more, so that a successor may have the GPU; its end is taken as ever.
 */
#include <assert.h>
#include <errno.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"

static int refuse(struct plan *plan, uint32_t index)
{
    core_decide(plan->core, DECISION_BAD, index, REASON_NONE);
    return -EINVAL;
}

int plan_prepare(struct plan *plan, uint32_t index)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];

    if (job->vc != plan->vc || job->state != JOB_SUSPENDED || job->planned || job->prepared || job->yields ||
        job->resumes)
        return refuse(plan, index);
    job->prepared = true;
    job->reason = REASON_PREEMPTING;
    core_decide(core, DECISION_PREPARE, index, REASON_PREEMPTING);
    core_emit(core, EFFECT_PREPARE, index);
    return 0;
}

int plan_yield(struct plan *plan, uint32_t index)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];
    uint32_t count;

    if (job->vc != plan->vc || job->state != JOB_RUNNING || job->planned)
        return refuse(plan, index);
    job_settle(job, core->now);
    core_detach(core, index);
    hold_leave(core, index);
    core_move(core, index, JOB_STOPPING);
    count = hold_park(core, index);
    core_move(core, index, JOB_SUSPENDED);
    job->yields = true;
    core_decide(core, DECISION_YIELD, index, REASON_NONE);
    job->reason = REASON_NONE;
    core->vcs[job->vc].suspended++;
    core_stir(core, job);
    for (uint32_t i = 0; i < count; i++)
        core_start_now(core, core->ready[i]);
    return 0;
}
