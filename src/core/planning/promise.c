/* SPDX-License-Identifier: Apache-2.0 */
/* promise.c - deadlines: which ones make sense, which were promised, which were broken and by what. See
 * model/promise.h.
 */
#include <assert.h>
#include <errno.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"

int deadlines_check(const struct jobspec *spec, usec_t now, struct error *err)
{
    long long id = (long long)spec->id;

    if (spec->deadline_count > DEADLINES_MAX)
        return error_set(err, -EINVAL, "job %lld: at most %d deadlines, got %u", id, DEADLINES_MAX,
                         spec->deadline_count);
    for (int i = 0; i < spec->deadline_count; i++) {
        const struct deadline *d = &spec->deadlines[i];

        if (d->at <= now)
            return error_set(err, -EINVAL, "job %lld: deadline %d is in the past [BadDeadline.Past]", id, i + 1);
        if (i && d->at <= d[-1].at)
            return error_set(err, -EINVAL,
                             "job %lld: deadline %d is not later than the one before it [BadDeadline.Order]", id,
                             i + 1);
        if (i && d->value > d[-1].value)
            return error_set(err, -EINVAL,
                             "job %lld: deadline %d is worth more (%d) than the earlier one (%d) [BadDeadline.Value]",
                             id, i + 1, d->value, d[-1].value);
    }
    return 0;
}

void plan_promise(struct plan *plan, uint32_t index, usec_t by)
{
    struct job *job = &plan->core->jobs[index];

    assert(job->vc == plan->vc);
    assert(by > 0);
    if (job->promise == by)
        return;
    job->promise = by;
    job->offer = 0;
    core_decide(plan->core, DECISION_PROMISE, index, REASON_NONE)->until = by;
}

static void broke(struct core *core, uint32_t index, enum breach cause)
{
    struct job *job = &core->jobs[index];
    struct decision *d;

    job->breach = (uint8_t)cause;
    d = core_decide(core, DECISION_BREAK, index, REASON_NONE);
    d->until = job->promise;
    d->breach = (uint8_t)cause;
}

void plan_break(struct plan *plan, uint32_t index, enum breach cause)
{
    const struct job *job = &plan->core->jobs[index];

    assert(job->vc == plan->vc);
    assert(job->promise);
    assert(cause != BREACH_NONE);
    if (job->breach == BREACH_NONE)
        broke(plan->core, index, cause);
}

enum breach promise_cause(const struct job *job)
{
    if (job->evictions)
        return BREACH_HARDWARE;
    if (job->fails)
        return BREACH_FAILURE;
    if (job->spec.estimate && job->progress > job->spec.estimate)
        return BREACH_OVERRUN;
    return job->waited[REASON_HELD] ? BREACH_PERSON : BREACH_PLAN;
}

void plan_decline(struct plan *plan, uint32_t index, usec_t offer)
{
    struct job *job = &plan->core->jobs[index];

    assert(job->vc == plan->vc);
    /* Promised by the policy before this one, or on nodes that are gone: what was told is broken, not taken back. */
    if (job->promise) {
        plan_break(plan, index, promise_cause(job));
        return;
    }
    job->offer = offer > 0 ? offer : USEC_NEVER;
    core_decide(plan->core, DECISION_DECLINE, index, REASON_NONE)->until = job->offer;
}

void promise_settle(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];

    if (job->promise && job->state == JOB_DONE && core->now > job->promise && job->breach == BREACH_NONE)
        broke(core, index, promise_cause(job));
}
