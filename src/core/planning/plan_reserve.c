/* SPDX-License-Identifier: Apache-2.0 */
/* plan_reserve.c - GPUs that are kept for jobs that wait. */
#include <errno.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"

/* The ledger in which a virtual cluster keeps GPUs for its waiting jobs. Where it has one of its own, what is kept
 * there is lent to others meanwhile. */
static struct ledger *keeping(struct core *core, uint32_t vc)
{
    return core->cells ? core->vcs[vc].own : &core->ledger;
}

/* What is kept for a job is found on the GPUs: at most one gang a virtual cluster keeps some at a time. */
static uint32_t reserved_list(const struct ledger *ledger, uint32_t index, const struct job *job, uint32_t *out)
{
    uint32_t count = 0;

    for (uint32_t g = job->reserved_first; count < job->reserved_count && g < ledger->topo.gpu_count; g++)
        if (ledger->gpus[g].reserved_for == index)
            out[count++] = g;
    return count;
}

void plan_unreserve(struct plan *plan, uint32_t index)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];
    struct ledger *ledger = keeping(core, job->vc);
    struct placement had = { core->scratch, 0 };

    if (!plan_owns(plan, index))
        (void)plan_bad(plan, index, -EPERM);
    if (job->state != JOB_RESERVED || !plan_owns(plan, index))
        return;
    had.count = reserved_list(ledger, index, job, core->scratch);
    core->vcs[job->vc].kept[plan_sku(ledger, &had)] -= had.count;
    ledger_unreserve(ledger, index, &had);
    job->reserved_count = 0;
    core_settle_waits(core, index);
    core_move(core, index, JOB_PENDING);
}

int plan_reserve(struct plan *plan, uint32_t index, const struct placement *what)
{
    struct core *core = plan->core;
    struct job *job = &core->jobs[index];
    struct ledger *ledger = keeping(core, plan->vc);
    uint32_t sku;
    int r;

    if (!job_waits(job->state) || !plan_owns(plan, index) || (int32_t)what->count > job->spec.gpus_max)
        return plan_bad(plan, index, -EINVAL);
    plan_unreserve(plan, index);
    if (what->count == 0)
        return 0;
    if (core->cells && !plan_own(plan))
        return -EDQUOT;
    /* What is kept is kept whole, whatever the job will use of it. */
    r = ledger_check(ledger, what, &(struct jobspec){ .share = MGPU_ONE, .memory_mib = job->spec.memory_mib },
                     ROLE_OWNER);
    if (r < 0 || !plan_sku_allowed(core, job, plan_sku(ledger, what)))
        return plan_bad(plan, index, r < 0 ? r : -EINVAL);
    /* Nothing is kept for a job on nodes it may not be on. Which of its own stand for those it may, cells say later. */
    if (host_allows(ledger, what, &job->spec) < 0 || (ledger->imagined && job->spec.mark))
        return -EBUSY;
    sku = plan_sku(ledger, what);
    /* What is kept idle comes out of what the virtual cluster is owed, not out of what others are. */
    if (((int64_t)core->vcs[plan->vc].kept[sku] + what->count) * MGPU_ONE >
        vc_budget(core, &core->vcs[plan->vc], sku, PHASE_OWED, CLASS_GUARANTEED))
        return -EDQUOT;
    core->vcs[plan->vc].kept[sku] += what->count;
    ledger_reserve(ledger, index, what);
    job->reserved_first = what->gpus[0];
    job->reserved_count = what->count;
    core_settle_waits(core, index);
    core_move(core, index, JOB_RESERVED);
    return 0;
}
