/* SPDX-License-Identifier: Apache-2.0 */
/* orphan_suspend.c - jobs that took turns on GPUs under a policy that is there no longer.
 *
 * A policy that suspends jobs resumes them; another does not know of them, and they would sleep for ever. Those that
 * have processes are told to save themselves and leave, as for any preemption; those that only had a place among others
 * wait for one of their own. Nothing is resumed by force: its GPUs may be somebody's by now.
 */
#include <string.h>

#include "ctl/state/state_internal.h"

static bool same_turns(const struct policy_setup *a, const struct policy_setup *b)
{
    return a->planner == b->planner && a->tune_count == b->tune_count && memcmp(a->tune, b->tune, sizeof(a->tune)) == 0;
}

void turns_leave(struct ctl *ctl, struct ctl_job *job)
{
    const struct ctl_attempt *attempt = attempt_of(job);

    assert(job_in_core(job));
    if (attempt_live(attempt) && attempt->state != ATTEMPT_GATED) {
        attempt_stop(ctl, job, STOP_CAUSE_PREEMPT, 0, job_grace(ctl, job));
        return;
    }
    link_reenter(ctl, job);
}

void turns_end(struct ctl *ctl, const struct policy_setup *before, uint32_t count)
{
    struct ctl_job *job;

    for (size_t i = 0; before && (job = registry_next(&ctl->registry, &i));) {
        const struct job *core = job->link == LINK_INSIDE ? core_job(ctl->core, job->slot) : NULL;

        if (!core || core->gen != job->gen || core->vc >= count ||
            same_turns(&before[core->vc], &ctl->policies[core->vc]))
            continue;
        if (core->state == JOB_SUSPENDED && !core->yields)
            turns_leave(ctl, job);
        else if (core->state == JOB_STOPPING && core->parks)
            attempt_happens(ctl, job, attempt_now(job), ATTEMPT_EVENT_ORPHAN, 0); /* it leaves when it is off */
    }
}
