/* SPDX-License-Identifier: Apache-2.0 */
/* plan_move.c - running jobs that go elsewhere, at the same or another size. */
#include <assert.h>
#include <errno.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "core/planning/deferred_move.h"
#include "core/planning/preempt.h"
#include "core/planning/proposal.h"

/* Whether nobody but the job itself still has to leave these GPUs of the cluster. */
static bool lands_free(const struct core *core, const struct placement *to, uint32_t index)
{
    for (uint32_t i = 0; i < to->count; i++)
        if (core->ledger.gpus[to->gpus[i]].leaving > 0 && !ledger_only_leaver(&core->ledger, to->gpus[i], index))
            return false;
    return true;
}

/* What a move comes to once the job has left where it is. 1: it can be had, when others have left. */
static int move_check(struct plan *plan, uint32_t index, const struct placement *to)
{
    struct core *core = plan->core;
    const struct ledger *ledger = plan_ledger(plan);
    const struct job *job = &core->jobs[index];
    int r = job->spec.side_count ? -EBUSY : ledger_check(ledger, to, &job->spec, ROLE_OWNER);

    if (r < 0)
        return r; /* also of a gang on several types: it stays where it is */
    if (!plan_sku_allowed(core, job, plan_sku(ledger, to)))
        return -EINVAL;
    if ((int32_t)to->count > job->gpus && plan_keeps(plan, jobspec_keeps(&job->spec)))
        return -EDQUOT;
    /* It may always move as it is; what it grows by must be within what the phase allows. */
    if ((plan_sku(ledger, to) != job->sku || (int32_t)to->count > job->gpus) &&
        plan_budget(plan, plan_sku(ledger, to), job->klass) < (int64_t)to->count * job->spec.share)
        return -EDQUOT;
    if ((int32_t)to->count > job->gpus && !users_allow(core, index, to->count))
        return -EDQUOT;
    if (placement_apart(ledger, to, &job->spec) < 0)
        return -ENOMEM;
    if (plan_own(plan))
        return own_move(plan, index, to);
    /* A move lands on free GPUs or on its own, never behind another that leaves. */
    if (!host_lands(&core->ledger, job, to))
        return -ENOMEM;
    return lands_free(core, to, index) && !placement_bound(core, to) ? 0 : -EBUSY;
}

int move_try(struct plan *plan, uint32_t index, const struct placement *to)
{
    struct core *core = plan->core;
    const struct ledger *ledger = plan_ledger(plan);
    struct job *job = &core->jobs[index];
    bool deferring = core->deferring;
    struct placement here;
    int r;

    core->deferring = false; /* it stays, or is elsewhere, at once */
    core_detach(core, index);
    hold_leave(core, index);
    r = move_check(plan, index, to);
    core->deferring = deferring;
    if (r < 0) {
        int stayed = hold_stay(core, index);

        assert(stayed == 0);
        (void)stayed;
        core_attach(core, index);
        return r;
    }
    core_move(core, index, JOB_STARTING);
    here = plan_own(plan) ? own_here(core) : *to;
    rules_note_move(core, index, &here);
    job->resizes += (int32_t)to->count != job->gpus;
    job->runs_on = r > 0 ? job->gpus : 0;
    if (r == 0)
        (void)hold_release(core, index);
    pair_part(core, index);
    job->sku = plan_sku(ledger, to);
    job->gpus = (int32_t)to->count;
    if (r > 0)
        job->blocked = hold_defer(core, index, to);
    else
        job->blocked = plan_own(plan) ? hold_take_own(core, index, to) : hold_take(core, index, to, ROLE_OWNER);
    plan_served(plan, job, to);
    assert(job->blocked == 0 || job_defers(job));
    core_attach(core, index);
    core_touch(core, index);
    return 0;
}

int plan_move(struct plan *plan, uint32_t index, const struct placement *to)
{
    const struct core *core = plan->core;
    const struct job *job = &core->jobs[index];
    int r;

    if (!plan_owns(plan, index) || job->state != JOB_RUNNING || job->planned ||
        !plan_size_allowed(plan, job, to->count) || core->ledger.shares[job->shares].role == ROLE_GUEST ||
        (core->cells && job_bound(job) != plan_own(plan)))
        return plan_bad(plan, index, -EINVAL);
    if (!core_may_preempt(core, job, PREEMPT_FOR_MOVE))
        return -EBUSY;
    /* Inside cells GPU numbers are not the cluster's; own_move asks when it knows what stands for them. */
    r = plan_own(plan) ? 0 : rules_move(plan, index, to);
    if (r < 0)
        return r;
    r = move_try(plan, index, to);
    /* Others may stand where cells put it, which no planner sees. */
    return r == 0 || r == -EDQUOT || r == -ENOMEM || r == -EAGAIN || (plan_own(plan) && r == -EBUSY)
               ? r
               : plan_bad(plan, index, r);
}

/* Where others leave GPUs to jobs at once a move is one: see splice.c for moves that take their time to leave. */
int plan_shift(struct plan *plan, uint32_t index, const struct placement *to)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];
    int r, stayed;

    if (!plan_owns(plan, index) || job->state != JOB_RUNNING || job->planned || job->mate != JOB_NONE ||
        !plan_size_allowed(plan, job, to->count) || core->ledger.shares[job->shares].role != ROLE_OWNER)
        return plan_bad(plan, index, -EINVAL);
    r = core_may_preempt(core, job, PREEMPT_FOR_MOVE) ? rules_move(plan, index, to) : -EBUSY;
    if (r < 0)
        return r;
    core_detach(core, index);
    hold_leave(core, index);
    r = move_check(plan, index, to);
    stayed = hold_stay(core, index);
    assert(stayed == 0);
    (void)stayed;
    if (r < 0) {
        core_attach(core, index);
        return r == -EDQUOT || r == -ENOMEM ? r : plan_bad(plan, index, r);
    }
    rules_note_move(core, index, to);
    core_move(core, index, JOB_STARTING);
    ledger_shift(&core->ledger, index, job, to);
    job->gpus = (int32_t)to->count;
    core_attach(core, index);
    core_touch(core, index);
    return 0;
}
