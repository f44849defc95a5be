/* SPDX-License-Identifier: Apache-2.0 */
/* guest.c - opportunistic jobs on GPUs that others own: what they may have, and how they become owners. */
#include <assert.h>
#include <errno.h>

#include "core/contract/plan.h"
#include "core/ledger/guest.h"

static int bad(struct plan *plan, uint32_t job, int code)
{
    if (plan->core->outbox.decision_count < plan->core->outbox.decision_capacity / 4)
        core_decide(plan->core, DECISION_BAD, job, REASON_NONE);
    return code;
}

bool guest_is(const struct core *core, const struct job *job)
{
    return job->shares != SHARE_NONE && core->ledger.shares[job->shares].role == ROLE_GUEST;
}

/* Somebody who waits for a GPU to be idle enough may find it so now; a guest may be seen to get nothing. */
void guest_measured(struct core *core, uint32_t index, const struct report *report)
{
    struct job *job = &core->jobs[index];
    int64_t percent = report->value[0], mib = report->value[1];

    if (percent < 0 || percent > 10000 || mib < 0 || mib > UINT32_MAX || !job_holds(job->state))
        return;
    job->measured = true;
    job->used_percent = (uint16_t)percent;
    job->used_mib = (uint32_t)mib;
    for (uint32_t v = 0; v < core->vc_count; v++)
        if (core->vcs[v].policy.planner->limit && (core->vcs[v].queue.waiting || (v == job->vc && guest_is(core, job))))
            core->vcs[v].dirty = true;
}

int plan_reclass(struct plan *plan, uint32_t index, enum job_class klass)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];
    struct shape shape;

    if (job->vc != plan->vc || !job_waits(job->state) || job->planned || (unsigned)klass >= CLASS_COUNT)
        return bad(plan, index, -EINVAL);
    if (klass == CLASS_OPPORTUNISTIC && jobspec_keeps(&job->spec))
        return -EBUSY; /* what opportunistic jobs hold others can have at any time */
    shape = queue_shape(core, &job->spec, job->level, (uint8_t)klass);
    if (!queue_has_room(&core->vcs[job->vc].queue, &shape))
        return -ENOSPC;
    plan_unreserve(plan, index);
    if (job->shape != UINT32_MAX)
        queue_remove(core, index);
    else
        job->waited[job->reason] += core->now - job->state_since;
    job->reason = REASON_NONE;
    job->klass = (uint8_t)klass;
    queue_add(core, index);
    users_look(core, index); /* of whatever class, its user may not have it */
    licenses_look(core, index);
    core->borrowing |= klass == CLASS_OPPORTUNISTIC;
    core->vcs[job->vc].dirty = true;
    core_decide(core, DECISION_CLASS, index, REASON_NONE)->needs = klass;
    return 0;
}

void plan_limit(struct plan *plan, uint32_t index, uint32_t memory_mib, uint32_t percent)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];
    struct outbox *out = &core->outbox;
    struct decision *d;

    if (job->vc != plan->vc || !job_holds(job->state) || percent > 100) {
        (void)bad(plan, index, -EINVAL);
        return;
    }
    if (job->limit_mib == memory_mib && job->limit_percent == percent)
        return;
    job->limit_mib = memory_mib;
    job->limit_percent = (uint8_t)percent;
    d = core_decide(core, DECISION_LIMIT, index, REASON_NONE);
    d->needs = memory_mib;
    d->free = percent;
    core_emit(core, EFFECT_LIMIT, index);
    out->effects[out->effect_count - 1].memory_mib = memory_mib;
    out->effects[out->effect_count - 1].percent = percent;
}

/* Inside a guarantee its GPUs would have to stand for cells of it, which nobody has seen to: beyond it only. */
static int lend(struct core *core, const struct job *job)
{
    uint32_t count = 0;
    int r;

    if (!core->cells)
        return 0;
    for (uint32_t s = job->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_job) {
        uint32_t gpu = core->ledger.shares[s].gpu;

        if (core->ledger.gpus[gpu].used == 0 && core->leaf_of[gpu] != CELL_NONE)
            core->map.idle_leaves[count++] = core->leaf_of[gpu];
    }
    r = cells_lend(core->cells, NULL, core->map.idle_leaves, count);
    core->stamp += r == 0;
    return r;
}

static bool may_own(const struct core *core, const struct job *job)
{
    for (uint32_t s = job->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_job) {
        const struct gpu *gpu = &core->ledger.gpus[core->ledger.shares[s].gpu];

        if (gpu->used || gpu->leaving || gpu->reserved_for != JOB_NONE || gpu->bound || gpu->bad)
            return false;
    }
    return true;
}

int plan_upgrade(struct plan *plan, uint32_t index)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];
    int r;

    if (job->vc != plan->vc || job->state != JOB_RUNNING || job->planned || !guest_is(core, job))
        return bad(plan, index, -EINVAL);
    if (plan_budget(plan, job->sku, CLASS_GUARANTEED) < (int64_t)job->gpus * job->spec.share)
        return -EDQUOT;
    if (plan_own(plan) || !may_own(core, job))
        return -EBUSY;
    core_detach(core, index);
    r = ledger_own_check(&core->ledger, job);
    if (r == 0 && lend(core, job) < 0)
        r = -EBUSY;
    if (r == 0) {
        ledger_own(&core->ledger, job);
        job->klass = CLASS_GUARANTEED;
        core->vcs[job->vc].priorities_seen = false; /* they are looked through again */
        job->borrowed = plan->phase == PHASE_BORROW;
        core->ledger.releases++; /* one guest less is there */
    }
    core_attach(core, index);
    if (r == 0) {
        core_decide(core, DECISION_CLASS, index, REASON_NONE)->needs = CLASS_GUARANTEED;
        plan_limit(plan, index, 0, 100);
    }
    return r;
}
