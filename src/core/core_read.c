/* SPDX-License-Identifier: Apache-2.0 */
/* core_read.c - what drivers and views read of a core. */
#include <assert.h>

#include "core/core_internal.h"

const struct job *core_job(const struct core *core, uint32_t index)
{
    assert(index < core->job_top);
    return &core->jobs[index];
}

uint32_t core_job_top(const struct core *core)
{
    return core->job_top;
}

const struct ledger *core_ledger(const struct core *core)
{
    return &core->ledger;
}

const struct cells *core_cells(const struct core *core)
{
    return core->cells;
}

const struct vc *core_vc(const struct core *core, uint32_t index)
{
    assert(index < core->vc_count);
    return &core->vcs[index];
}

uint32_t core_vc_count(const struct core *core)
{
    return core->vc_count;
}

uint32_t core_license(const struct core *core, uint32_t license, uint64_t *ret_held)
{
    *ret_held = license < core->licenses.count ? core->licenses.held[license] : 0;
    return license < core->licenses.count ? core->licenses.total[license] : 0;
}

uint32_t core_tasks(const struct core *core, uint32_t index, struct core_task *ret_tasks, uint32_t max)
{
    uint32_t count = 0;

    for (uint32_t h = core->jobs[index].holds; core->jobs[index].state != JOB_FREE && h != HOLD_NONE;
         h = core->holds[h].next_of_job, count++)
        if (count < max)
            ret_tasks[count] = (struct core_task){ core->holds[h].node, core->holds[h].tasks };
    return count;
}

int32_t core_servers(const struct core *core, uint32_t index)
{
    const struct vc *vc = &core->vcs[core->jobs[index].vc];

    return vc->policy.planner->servers ? vc->policy.planner->servers(&vc->planner, index)
                                       : core->jobs[index].spec.servers;
}

bool core_level(const struct core *core, uint32_t index, struct order_level *ret_level)
{
    const struct vc *vc = &core->vcs[core->jobs[index].vc];

    if (!vc->policy.order->level)
        return false;
    *ret_level = (struct order_level){ .promotions = -1 };
    vc->policy.order->level(&vc->order, &core->jobs[index], ret_level);
    return true;
}

int64_t core_promotions(const struct core *core)
{
    int64_t sum = -1;

    for (uint32_t v = 0; v < core->vc_count; v++) {
        const struct vc *vc = &core->vcs[v];
        struct order_level level = { .promotions = -1 };

        if (vc->policy.order->level)
            vc->policy.order->level(&vc->order, NULL, &level);
        if (level.promotions >= 0)
            sum = (sum < 0 ? 0 : sum) + level.promotions;
    }
    return sum;
}

bool core_predicted(const struct core *core, uint32_t index, usec_t *ret_left)
{
    usec_t at = -1;

    if (index != JOB_NONE) {
        const struct vc *vc = &core->vcs[core->jobs[index].vc];

        if (!vc->policy.planner->predicted)
            return false;
        *ret_left = vc->policy.planner->predicted(&vc->planner, index, &at);
        return at == core->now;
    }
    for (uint32_t v = 0; v < core->vc_count; v++) {
        const struct vc *vc = &core->vcs[v];

        if (vc->policy.planner->predicted)
            (void)vc->policy.planner->predicted(&vc->planner, JOB_NONE, &at);
        if (at == core->now)
            return true;
    }
    return false;
}

usec_t core_now(const struct core *core)
{
    return core->now;
}

uint32_t core_waiting(const struct core *core)
{
    return core->waiting;
}

uint32_t core_running(const struct core *core)
{
    return core->running;
}

int64_t core_mgpu_twice(const struct core *core)
{
    return core->mgpu_guests - (int64_t)core->ledger.lone * MGPU_ONE;
}

int64_t core_mgpu_held(const struct core *core)
{
    return core->mgpu_held - core->mgpu_guests + (int64_t)core->ledger.lone * MGPU_ONE;
}

uint64_t core_decisions(const struct core *core)
{
    return core->decisions;
}

uint64_t core_digest(const struct core *core)
{
    return core->digest;
}

usec_t core_next_wake(const struct core *core)
{
    return heap_next(&core->timers);
}

enum reason core_reason(const struct core *core, uint32_t index)
{
    const struct job *job = core_job(core, index);

    if (job->state == JOB_CLAIMING)
        return REASON_PREEMPTING;
    if (job->state == JOB_RESERVED)
        return REASON_ACQUIRING;
    if (job->state == JOB_SUSPENDED)
        return REASON_SUSPENDED;
    if (!job_waits(job->state) || job->shape == UINT32_MAX)
        return job->reason;
    return core->vcs[job->vc].queue.shapes[job->shape].reason;
}

void core_settle_waits(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];

    if (job_waits(job->state) && job->shape != UINT32_MAX)
        queue_book(core, index);
}
