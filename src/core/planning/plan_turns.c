/* SPDX-License-Identifier: Apache-2.0 */
/* plan_turns.c - jobs that take turns: suspended, resumed, given a place in turn. */
#include <errno.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "core/planning/preempt.h"
#include "core/planning/proposal.h"

int plan_suspend(struct plan *plan, uint32_t index)
{
    struct core *core = plan->core;
    int r;

    if (core->jobs[index].state != JOB_RUNNING)
        return plan_bad(plan, index, -EINVAL);
    r = rules_slice(plan, index);
    if (r == 0)
        r = plan_stop(plan, index, STOP_SUSPEND);
    core->jobs[index].parks = r == 0;
    return r;
}

/* Inside its guarantee a job comes back to GPUs that others may have been lent meanwhile. */
static int hold_resume(struct plan *plan, uint32_t index)
{
    struct core *core = plan->core;
    uint32_t count = 0;
    int r = 0;

    for (uint32_t s = core->jobs[index].shares; plan_own(plan) && s != SHARE_NONE;
         s = core->ledger.shares[s].next_of_job)
        core->scratch[count++] = core->ledger.shares[s].gpu;
    if (count)
        r = own_evict(plan, core->scratch, count);
    return r < 0 ? r : hold_unpark(core, index);
}

int plan_resume(struct plan *plan, uint32_t index)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];
    int blocked;

    if (!plan_owns(plan, index) || job->state != JOB_SUSPENDED || job->planned || job->yields)
        return plan_bad(plan, index, -EINVAL);
    if (job_bound(job) != plan_own(plan) || plan_keeps(plan, jobspec_keeps(&job->spec)) ||
        plan_budget(plan, job->sku, job->klass) < (int64_t)job->gpus * job->spec.share)
        return -EDQUOT;
    if (!users_allow(core, index, (uint32_t)job->gpus))
        return -EDQUOT;
    blocked = hold_resume(plan, index);
    if (blocked < 0)
        return blocked;
    job->waited[job->reason] += core->now - job->state_since;
    job->waited_all += core->now - job->state_since;
    core->vcs[job->vc].suspended--;
    job->reason = REASON_NONE;
    job->blocked = (uint32_t)blocked;
    job->last_start = core->now;
    core_move(core, index, JOB_CLAIMING);
    core_attach(core, index);
    core_touch(core, index);
    return 0;
}

int plan_resume_at(struct plan *plan, uint32_t index, const struct placement *to)
{
    struct core *core = plan->core;
    const struct ledger *ledger = plan_ledger(plan);
    struct job *job = &core->jobs[index];
    int r;

    if (!plan_owns(plan, index) || job->state != JOB_SUSPENDED || job->planned || job->yields || job->prepared ||
        (int32_t)to->count != job->gpus)
        return plan_bad(plan, index, -EINVAL);
    if (job->spec.side_count)
        return -EBUSY; /* it comes back where it was */
    r = ledger_check(ledger, to, &job->spec, ROLE_OWNER);
    if (r == 0)
        r = exact_check(ledger, to, job->spec.per_node);
    if (r == 0 && !plan_sku_allowed(core, job, plan_sku(ledger, to)))
        r = -EINVAL;
    if (r == 0 && !plan_own(plan) && placement_bound(core, to))
        r = -EBUSY;
    if (r == -ENOSPC)
        return r;
    if (r < 0)
        return plan_bad(plan, index, r);
    if ((core->cells && job_bound(job) != plan_own(plan)) || plan_keeps(plan, jobspec_keeps(&job->spec)) ||
        plan_budget(plan, plan_sku(ledger, to), job->klass) < (int64_t)job->gpus * job->spec.share ||
        !users_allow(core, index, to->count))
        return -EDQUOT;
    if (host_allows(ledger, to, &job->spec) < 0)
        return -EBUSY;
    if (plan_own(plan) && own_prepare(plan, to, index) < 0)
        return -EBUSY;
    job->waited[job->reason] += core->now - job->state_since;
    job->waited_all += core->now - job->state_since;
    core->vcs[job->vc].suspended--;
    job->reason = REASON_NONE;
    (void)hold_release(core, index);
    job->sku = plan_sku(ledger, to);
    job->last_start = core->now;
    core_move(core, index, JOB_CLAIMING);
    job->blocked = plan_own(plan) ? hold_take_own(core, index, to) : hold_take(core, index, to, ROLE_OWNER);
    plan_served(plan, job, to);
    core_attach(core, index);
    core_touch(core, index);
    return 0;
}

/* A place elsewhere for a job that takes turns. */
static int enlist_again(struct plan *plan, uint32_t index, const struct placement *to)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];
    int r;

    if (job->planned || job->yields || job->prepared || (int32_t)to->count != job->gpus ||
        (core->cells && job_bound(job) != plan_own(plan)))
        return plan_bad(plan, index, -EINVAL);
    (void)hold_release(core, index);
    r = hold_enlist(core, index, to, plan_own(plan));
    if (r == 0) {
        plan_served(plan, job, to);
        job->sku = plan_sku(plan_ledger(plan), to);
        return 0;
    }
    /* It has lost its place, and waits for another like any job. */
    core_unsuspend(core, index);
    return plan_bad(plan, index, r);
}

int plan_enlist(struct plan *plan, uint32_t index, const struct placement *to)
{
    struct core *core = plan->core;
    const struct ledger *ledger = plan_ledger(plan);
    struct job *job = &core->jobs[index];
    int r;

    if ((job->state != JOB_PENDING && job->state != JOB_SUSPENDED) || !plan_owns(plan, index) ||
        (int32_t)to->count < job->spec.gpus_min || (int32_t)to->count > job->spec.gpus_max ||
        to->gpus[0] >= ledger->topo.gpu_count || !plan_sku_allowed(core, job, plan_sku(ledger, to)))
        return plan_bad(plan, index, -EINVAL);
    if (host_allows(ledger, to, &job->spec) < 0 || job->spec.side_count)
        return -EBUSY;
    if (job->state == JOB_SUSPENDED)
        return enlist_again(plan, index, to);
    if (!licenses_allow(core, job))
        return -ENOSPC; /* it keeps its licences between its turns, so it has them from the first on */
    r = hold_enlist(core, index, to, plan_own(plan));
    if (r < 0)
        /* What cells put in the place of a GPU, or fail to, no planner sees. */
        return r == -ENOSPC || plan_own(plan) ? r : plan_bad(plan, index, -EINVAL);
    plan_served(plan, job, to);
    core_dequeue(core, index);
    core_move(core, index, JOB_SUSPENDED);
    job->reason = REASON_SUSPENDED;
    job->sku = plan_sku(ledger, to);
    job->gpus = (int32_t)to->count;
    core->vcs[job->vc].suspended++;
    return 0;
}

int plan_give_up(struct plan *plan, uint32_t index)
{
    if (!plan_owns(plan, index) || plan->core->jobs[index].state != JOB_SUSPENDED || plan->core->jobs[index].planned ||
        plan->core->jobs[index].yields)
        return plan_bad(plan, index, -EINVAL);
    core_unsuspend(plan->core, index);
    return 0;
}
