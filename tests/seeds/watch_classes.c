/* SPDX-License-Identifier: Apache-2.0 */
/* watch_classes.c - whoever is owed cells has them as soon as their guests have left; and where higher priorities
 * preempt lower ones inside a virtual cluster, none of them waits while a lower one runs whose GPUs would do. Only jobs
 * that any GPU of a type would do for are judged. */
#include "core/core_internal.h"
#include "core/planning/preempt.h"
#include "core/planning/priority.h"
#include "seeds.h"

static bool any_gpu_does(const struct jobspec *spec)
{
    return spec->gpus == 1 && spec->share == MGPU_ONE && spec->side_count == 0 && spec->mark == 0 && spec->kept == 0 &&
           spec->within == 0 && spec->per_node == 0 && spec->unit == 0 && spec->memory_mib == 0 && spec->mcpus == 0 &&
           spec->host_mib == 0 && spec->license_count == 0 && spec->gpus_min == 1;
}

/* It holds a GPU of its own inside the guarantee, that the other could have, and may be stopped for it. */
static bool gives_way(const struct core *core, uint32_t index, const struct job *to)
{
    const struct job *job = &core->jobs[index];

    return job->klass != CLASS_OPPORTUNISTIC && job->spec.priority < to->spec.priority &&
           (job->state == JOB_RUNNING || job->state == JOB_STARTING) && job->spec.share == MGPU_ONE && !job->sheds &&
           !job->moving && job->mate == JOB_NONE && view_shows(&core->vcs[job->vc].view, index) &&
           job->spec.side_count == 0 && watch_type(core, to, job->sku) && core_may_preempt(core, job, PREEMPT_FOR_STOP);
}

/* Whether somebody ahead of it, who does not fit, may hold it up. */
static bool held_up(const struct core *core, const struct vc *vc, uint32_t index)
{
    const struct planner_ops *planner = vc->policy.planner;

    if (planner->overtakes && planner->overtakes(&vc->planner))
        return false;
    for (uint32_t i = 0; i < core->job_top; i++)
        if (job_waits(core->jobs[i].state) && core->jobs[i].vc == vc->index && core->jobs[i].shape != UINT32_MAX &&
            core->jobs[i].klass != CLASS_OPPORTUNISTIC && rank_before(&core->tree[i].rank, &core->tree[index].rank))
            return true;
    return false;
}

/* Who has a place inside a guarantee of cells waits for it no longer than those take to leave who are on it. */
static void claim_check(struct watch *watch, const struct core *core, uint32_t index)
{
    const struct job *job = &core->jobs[index];

    if (core->cells && job->state == JOB_CLAIMING && job_bound(job) &&
        core->now - job->state_since > watch->life->stop_cost)
        watch_wrong(watch, core, job->spec.id, "has waited for its guarantee since %lld us, and a victim has %lld us",
                    (long long)job->state_since, (long long)watch->life->stop_cost);
}

void watch_classes(struct watch *watch, const struct core *core, uint32_t index)
{
    const struct job *job = &core->jobs[index];
    const struct vc *vc = &core->vcs[job->vc];

    claim_check(watch, core, index);
    if (job->state != JOB_PENDING || job->klass == CLASS_OPPORTUNISTIC || job->shape == UINT32_MAX ||
        !any_gpu_does(&job->spec) || !priority_strict(core, vc) || vc->user_max || core->user_limits ||
        watch_unseen(core, index) == NULL || held_up(core, vc, index))
        return;
    for (uint32_t i = vc->run_first; i != JOB_NONE; i = core->jobs[i].next)
        if (gives_way(core, i, job)) {
            watch_wrong(watch, core, job->spec.id, "waits at priority %d while job %lld runs at %d", job->spec.priority,
                        (long long)core->jobs[i].spec.id, core->jobs[i].spec.priority);
            return;
        }
}
