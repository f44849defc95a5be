/* SPDX-License-Identifier: Apache-2.0 */
/* retry.c - see retry.h.
 *
 *   class      what it is                                     another attempt
 *   none       it completed                                   no
 *   user       an exit code, a crash of its own               if `retry_on` names the code, within `retries`
 *   memory     more memory than it asked for                  likewise
 *   unknown    killed from outside, nobody knows by whom      within `retries`
 *   system     it could not be started, a move failed, its    unless `requeue: false`; as often as the virtual cluster
 *              place was lost                                 allows (system-retries), apart from `retries`
 *   timeout    its time limit                                 no
 *   requeue    it was told to leave                           always; nothing is counted
 *   preempted  it was told to leave and is to end then        no
 *
 * An attempt that exits with 85 has saved itself and asks for another one: unless `requeue: false`, and it is not
 * counted.
 *
 * Philly repeats what is not the user's fault a fixed number of times (Jeon et al., ATC'19, section 4). What the
 * cluster does to a job has a bound of its own here: a user who allows one retry means failures of the program.
 */
#include "core/retry.h"

#include "core/planning/vc.h"

/* Whether `retry_on` names the exit code; 0 is no failure. */
static bool code_listed(const struct jobspec *spec, int32_t exit)
{
    for (uint32_t i = 0; exit && i < spec->retry_on_count; i++)
        if (spec->retry_on[i] == exit)
            return true;
    return false;
}

/* Whether it has ended so as to be run again. */
static bool asks_again(const struct jobspec *spec, enum fail_class fail, int32_t exit)
{
    return (fail == FAIL_USER || fail == FAIL_UNKNOWN || fail == FAIL_MEMORY) && exit == EXIT_REQUEUE &&
           !spec->no_requeue;
}

/* Whether the attempt is among those that `retries` bounds. */
static bool retry_counted(const struct jobspec *spec, enum fail_class fail, int32_t exit)
{
    if (asks_again(spec, fail, exit))
        return false;
    return fail == FAIL_UNKNOWN || ((fail == FAIL_USER || fail == FAIL_MEMORY) && code_listed(spec, exit));
}

enum retry_verdict retry_decide(const struct job *job, const struct policy_setup *setup, enum fail_class fail,
                                int32_t exit)
{
    const struct jobspec *spec = &job->spec;

    if (asks_again(spec, fail, exit))
        return RETRY_AGAIN;
    switch (fail) {
    case FAIL_NONE:
        return RETRY_DONE;
    case FAIL_USER:
    case FAIL_MEMORY:
    case FAIL_UNKNOWN:
        if (!retry_counted(spec, fail, exit))
            return RETRY_OWN_FAULT;
        return job->fails < spec->retries ? RETRY_AGAIN : RETRY_USED_UP;
    case FAIL_SYSTEM:
        if (spec->no_requeue)
            return RETRY_NOT_AGAIN;
        return job->system_fails < setup->system_retries ? RETRY_AGAIN : RETRY_SYSTEM;
    case FAIL_REQUEUE:
        return RETRY_AGAIN;
    case FAIL_TIMEOUT:
    case FAIL_PREEMPTED:
    case FAIL_COUNT:
        break;
    }
    return RETRY_FINAL;
}

void retry_count(struct job *job, enum fail_class fail, int32_t exit)
{
    job->fails += retry_counted(&job->spec, fail, exit);
    job->system_fails += fail == FAIL_SYSTEM;
}

uint8_t retry_left(const struct job *job, enum fail_class fail, int32_t exit)
{
    uint32_t used = job->fails + retry_counted(&job->spec, fail, exit);

    return used < job->spec.retries ? (uint8_t)(job->spec.retries - used) : 0;
}

const char *retry_refusal(const struct jobspec *spec, enum retry_verdict verdict)
{
    switch (verdict) {
    case RETRY_OWN_FAULT:
        if (spec->retry_on_count)
            return "not retried: retry_on does not name this code";
        return spec->retries ? "not retried: retries cover failures that are not its own; retry_on names exit codes"
                             : NULL;
    case RETRY_USED_UP:
        return spec->retries ? "not retried: its retries are used up" : NULL;
    case RETRY_SYSTEM:
        return "not retried: the system has failed it as often as system-retries allows";
    case RETRY_NOT_AGAIN:
        return "not retried: requeue is false";
    case RETRY_AGAIN:
    case RETRY_DONE:
    case RETRY_FINAL:
    case RETRY_VERDICTS:
        break;
    }
    return NULL;
}
