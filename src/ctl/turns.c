/* SPDX-License-Identifier: Apache-2.0 */
/* turns.c - jobs that took turns on GPUs under a policy that is there no longer.
 *
 * A policy that suspends jobs resumes them; another does not know of them, and they would sleep for ever. Those that
 * have processes are told to save themselves and leave, as for any preemption; those that only had a place among others
 * wait for one of their own. Nothing is resumed by force: its GPUs may be somebody's by now.
 */
#include <string.h>

#include "ctl/part.h"

static bool same_turns(const struct policy_setup *a, const struct policy_setup *b)
{
    return a->planner == b->planner && a->tune_count == b->tune_count && memcmp(a->tune, b->tune, sizeof(a->tune)) == 0;
}

void turns_leave(struct ctl *ctl, struct book_job *job)
{
    const struct book_attempt *attempt = attempt_of(job);

    job->orphan = false;
    if (attempt && !attempt->ended && !attempt->prepared) {
        attempt_stop(ctl, job, "preempt", 0, job_grace(ctl, job));
        return;
    }
    job->reenters = true;
    ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_CANCEL });
}

void turns_end(struct ctl *ctl, const struct policy_setup *before, uint32_t count)
{
    for (size_t i = 0; before && i < ctl->book.live_count; i++) {
        struct book_job *job = ctl->book.live[i];
        const struct job *core = job->in_core && !job->ends ? core_job(ctl->core, job->slot) : NULL;

        if (!core || core->gen != job->gen || job->reenters || core->vc >= count ||
            same_turns(&before[core->vc], &ctl->policies[core->vc]))
            continue;
        if (core->state == JOB_SUSPENDED && !core->yields)
            turns_leave(ctl, job);
        else if (core->state == JOB_STOPPING && core->parks)
            job->orphan = true; /* when it sleeps */
    }
}
