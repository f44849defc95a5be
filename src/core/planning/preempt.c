/* SPDX-License-Identifier: Apache-2.0 */
/* preempt.c - see preempt.h.
 *
 * `preempt: never` keeps a job from being stopped, suspended or moved for another; `min_runtime` from being stopped or
 * suspended before it has run so long since its last start. People, drains and hardware are no other job: they end it,
 * and pass by here.
 */
#include "core/planning/preempt.h"

/* By its own terms. Before it runs its min_runtime has not begun. */
static usec_t job_kept_until(const struct job *job)
{
    usec_t span = jobspec_keeps(&job->spec);

    if (span == 0 || span == USEC_NEVER)
        return span;
    return job->ran_from >= job->last_start ? job->ran_from + span : USEC_NEVER;
}

usec_t core_lends_for(const struct core *core, const struct vc *vc)
{
    if (core->cells)
        return 0;
    return core->vc_count == 1 ? USEC_NEVER : vc->min_runtime; /* where there is no other, nobody else is owed it */
}

/* What a virtual cluster was lent in cells goes when its owner comes, whatever it promises its jobs. */
usec_t core_kept_until(const struct core *core, const struct job *job)
{
    const struct vc *vc = &core->vcs[job->vc];
    usec_t own = job_kept_until(job), promised = job->last_start + vc->min_runtime;

    if (vc->min_runtime == 0 || job->klass == CLASS_OPPORTUNISTIC || (core->cells && !job_bound(job)))
        return own;
    return own > promised ? own : promised;
}

bool core_may_preempt(const struct core *core, const struct job *job, enum preempt_cause cause)
{
    if (cause == PREEMPT_FOR_MOVE)
        return job->spec.preempt != PREEMPT_NEVER;
    return core_kept_until(core, job) <= core->now;
}

bool plan_keeps(const struct plan *plan, usec_t span)
{
    return plan->phase == PHASE_BORROW && !plan->apart && span > core_lends_for(plan->core, &plan->core->vcs[plan->vc]);
}
