/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_action.c - what a move of an attempt does: orders to its nodes, what the core and people are told. */
#include "ctl/state/attempt/attempt_action.h"

#include "base/alloc.h"
#include "ctl/state/attempt/attempt_machine.h"
#include "ctl/state/state_internal.h"

/* An instant that is never 0, which means "not yet". */
static usec_t instant(const struct ctl *ctl)
{
    return ctl->now > 0 ? ctl->now : 1;
}

static void orders_simple(struct ctl *ctl, const struct ctl_job *job, const struct ctl_attempt *attempt,
                          enum order_kind kind)
{
    for (uint32_t t = 0; t < attempt->task_count; t++)
        ctl_order(ctl, attempt->tasks[t].node, order_simple(job, attempt, kind));
}

static void launch(struct ctl *ctl, struct ctl_job *job, struct ctl_attempt *attempt)
{
    struct order_place *place = order_place(ctl, attempt);

    assert(attempt == attempt_now(job));
    if (attempt->state == ATTEMPT_GOING)
        attempt->went = instant(ctl);
    for (uint32_t t = 0; t < attempt->task_count; t++)
        attempt_tell(ctl, job, t, place);
    mem_free(place);
}

static void go(struct ctl *ctl, struct ctl_job *job, struct ctl_attempt *attempt)
{
    assert(attempt->state == ATTEMPT_GOING);
    attempt->went = instant(ctl);
    for (uint32_t t = 0; t < attempt->task_count; t++)
        ctl_order(ctl, attempt->tasks[t].node, order_go(ctl, job, attempt));
}

static void run(struct ctl *ctl, struct ctl_job *job, struct ctl_attempt *attempt)
{
    assert(job->link == LINK_INSIDE);
    attempt_began(ctl, job);
    attempt->phase = PHASE_JOB_RUNNING;
    job_phase(ctl, job, PHASE_JOB_RUNNING);
    if (core_job(ctl->core, job->slot)->state == JOB_STARTING)
        ctl_tell_core(ctl, job,
                      (struct event){ .kind = EVENT_STARTED, .rate = job->said_rate, .progress = PROGRESS_OWN });
    job_timer_set(ctl, job);
}

static void off(struct ctl *ctl, struct ctl_job *job)
{
    assert(core_job(ctl->core, job->slot)->state == JOB_STOPPING); /* and waits to hear it */
    job_phase(ctl, job, PHASE_JOB_SUSPENDED);
    ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_STOPPED, .progress = job->said_progress });
}

static void peers(struct ctl *ctl, struct ctl_job *job, struct ctl_attempt *attempt, usec_t grace)
{
    assert(grace >= 0);
    attempt->gang_ended = instant(ctl);
    if (!attempt->kept_until)
        job_phase(ctl, job, PHASE_JOB_COMPLETING);
    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (!task_gone(&attempt->tasks[t])) {
            struct agent_order order = order_stop(ctl, job, attempt, grace);

            order.stop = stop_cause_name(STOP_CAUSE_PEER);
            ctl_order(ctl, attempt->tasks[t].node, order);
        }
}

static void stop(struct ctl *ctl, struct ctl_job *job, struct ctl_attempt *attempt)
{
    assert(attempt_leaving(attempt));
    assert(attempt->stop_cause != STOP_CAUSE_NONE);
    job_phase(ctl, job, PHASE_JOB_COMPLETING);
    job_timer_set(ctl, job);
    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (!task_gone(&attempt->tasks[t]))
            ctl_order(ctl, attempt->tasks[t].node, order_stop(ctl, job, attempt, attempt->grace));
}

static void keep(struct ctl *ctl, struct ctl_job *job, struct ctl_attempt *attempt)
{
    attempt->kept_until = ctl->now + job->spec->keep_on_fail;
    job->reason_since = ctl->now;
    job->version++;
}

void attempt_act(struct ctl *ctl, struct ctl_job *job, struct ctl_attempt *attempt, enum attempt_action action,
                 usec_t grace)
{
    switch (action) {
    case ATTEMPT_ACT_NONE:
        break;
    case ATTEMPT_ACT_LAUNCH:
        launch(ctl, job, attempt);
        break;
    case ATTEMPT_ACT_GO:
        go(ctl, job, attempt);
        break;
    case ATTEMPT_ACT_BEGIN:
        attempt_began(ctl, job);
        break;
    case ATTEMPT_ACT_RUN:
        run(ctl, job, attempt);
        break;
    case ATTEMPT_ACT_PAUSE:
        job_phase(ctl, job, PHASE_JOB_SUSPENDED);
        break;
    case ATTEMPT_ACT_SUSPEND:
        attempt->stop_cause = STOP_CAUSE_SUSPEND;
        orders_simple(ctl, job, attempt, ORDER_SUSPEND);
        break;
    case ATTEMPT_ACT_OFF:
        attempt->stop_cause = STOP_CAUSE_SUSPEND;
        off(ctl, job);
        break;
    case ATTEMPT_ACT_OFF_AND_LEAVE:
        off(ctl, job);
        turns_leave(ctl, job);
        break;
    case ATTEMPT_ACT_RESUME:
        attempt->stop_cause = STOP_CAUSE_NONE;
        for (uint32_t t = 0; t < attempt->task_count; t++)
            ctl_order(ctl, attempt->tasks[t].node, order_resume(ctl, job, attempt));
        break;
    case ATTEMPT_ACT_KEEP:
        keep(ctl, job, attempt);
        break;
    case ATTEMPT_ACT_PEERS:
        peers(ctl, job, attempt, grace);
        break;
    case ATTEMPT_ACT_STOP:
        stop(ctl, job, attempt);
        break;
    case ATTEMPT_ACT_CLOSE:
        attempt_close(ctl, job, attempt);
        break;
    }
}
