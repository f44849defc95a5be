/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_end.c - an attempt is over: who is to blame, and whether the job is over too, goes on elsewhere or waits
 * again.
 */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/retry.h"
#include "ctl/state/state_internal.h"

/* Whether another attempt is worth it: the rule of the core, asked of the job as the core has it, which decides the
 * same when it is told. A person who cancels one whose place is kept does not want it. */
static enum retry_verdict again(const struct ctl *ctl, const struct ctl_job *job, enum fail_class blame)
{
    const struct ctl_attempt *attempt = &job->attempts[job->attempt_count - 1];
    const struct job *core = core_job(ctl->core, job->slot);

    if (attempt->kept_until && attempt->stop_cause == STOP_CAUSE_CANCEL)
        return RETRY_FINAL;
    return retry_decide(core, &core_vc(ctl->core, core->vc)->policy, blame, attempt->exit);
}

/* Killed from outside is nobody's fault that we know; a crash of its own is the program's. */
static enum fail_class signal_blame(int number)
{
    return number == SIGKILL || number == SIGTERM || number == SIGBUS ? FAIL_UNKNOWN : FAIL_USER;
}

static enum fail_class task_blame(const struct ctl_task *task)
{
    if (task_lost(task))
        return FAIL_SYSTEM;
    if (task->state == TASK_REFUSED)
        return (enum fail_class)task->blame;
    if (task->signal)
        return signal_blame(task->signal);
    /* A shell tells that its command was killed by 128 and the signal. */
    if (task->exit > 128 && task->exit < 128 + 65)
        return signal_blame(task->exit - 128);
    return task->exit ? FAIL_USER : FAIL_NONE;
}

/* With roles the ends of their tasks have decided; a node that was lost or could not start its part is nobody's end. */
static void roles_verdict(struct ctl_attempt *attempt, enum fail_class *blame, bool *oom)
{
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        const struct ctl_task *task = &attempt->tasks[t];

        if (task->state == TASK_REFUSED || task_lost(task))
            *blame = *blame == FAIL_NONE ? task_blame(task) : *blame;
        *oom |= task->oom && attempt->role_verdict == ROLES_FAILED;
    }
    if (attempt->role_verdict == ROLES_SUCCEEDED)
        *blame = FAIL_NONE;
    if (attempt->role_verdict != ROLES_FAILED)
        return;
    attempt->exit = attempt->role_exit;
    attempt->signal = attempt->role_signal;
    *blame = *oom ? FAIL_USER : attempt->role_signal ? signal_blame(attempt->role_signal) : FAIL_USER;
}

/* The worst of the ranks: what the attempt is said to have ended with. */
static void attempt_verdict(const struct ctl_job *job, struct ctl_attempt *attempt, enum fail_class *blame, bool *oom)
{
    *blame = FAIL_NONE;
    *oom = false;
    attempt->exit = attempt->signal = 0;
    if (job->spec->role_count) {
        roles_verdict(attempt, blame, oom);
        return;
    }
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        const struct ctl_task *task = &attempt->tasks[t];
        bool first = *blame == FAIL_NONE;

        *oom |= task->oom;
        if (task->cause == TASK_CAUSE_PEER)
            continue; /* ended because another did */
        if (task->exit > attempt->exit)
            attempt->exit = task->exit;
        if (task->signal && !attempt->signal)
            attempt->signal = task->signal;
        if (!first)
            continue;
        *blame = task_blame(task);
    }
    if (*oom)
        *blame = FAIL_MEMORY;
}

/* Whether the core can be told that the job has ended: it has it on its GPUs, on its way there or away from them. */
static bool core_takes_end(const struct job *core)
{
    return core->state == JOB_STARTING || core->state == JOB_RUNNING || core->state == JOB_STOPPING ||
           (core->state == JOB_SUSPENDED && core->yields);
}

/* The job is over and nothing of it is left on any GPU: the core is to let it go, whatever it has it doing. A core that
 * has told the job to leave waits to hear that it has, also of one that was cancelled. */
static void core_tell_over(struct ctl *ctl, struct ctl_job *job, bool cancelled, enum fail_class fail)
{
    const struct job *core = core_job(ctl->core, job->slot);
    bool ends = !cancelled && core_takes_end(core);

    assert(job_in_core(job));
    assert(core->gen == job->gen);
    if (!ends && core->state == JOB_STOPPING)
        ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_STOPPED, .progress = job->said_progress });
    ctl_tell_core(
        ctl, job,
        (struct event){ .kind = ends ? EVENT_ENDED : EVENT_CANCEL, .fail = fail, .progress = job->said_progress });
}

/* It will not run again: the core is told, and when it has let the job go the job is over. */
static void finish(struct ctl *ctl, struct ctl_job *job, enum phase_of_job phase, const char *text)
{
    assert(phase_over(phase));
    assert(!attempt_live(attempt_now(job)));
    if (job->link == LINK_ENDING)
        return; /* by another entry of the same batch */
    link_end(job, phase, text);
    job->exit = attempt_now(job)->exit;
    job->signal = attempt_now(job)->signal;
    attempt_now(job)->phase = phase;
    node_keep_out(ctl, job);
    core_tell_over(ctl, job, phase == PHASE_JOB_CANCELLED, phase == PHASE_JOB_COMPLETED ? FAIL_NONE : FAIL_USER);
}

static bool any_cause(const struct ctl_attempt *attempt, enum task_cause cause)
{
    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (attempt->tasks[t].cause == (uint8_t)cause)
            return true;
    return false;
}

/* Back into the queue. The core had stopped it, or is told now that it failed and is worth another try. */
static void go_back(struct ctl *ctl, struct ctl_job *job, enum phase_of_job phase, enum fail_class fail)
{
    const struct job *core = core_job(ctl->core, job->slot);
    bool stopped = core->state == JOB_STOPPING;
    usec_t kept = job->said_progress != PROGRESS_OWN ? job->said_progress : 0;

    assert(!attempt_live(attempt_now(job)));
    if (attempt_now(job)->stop_cause == STOP_CAUSE_CANCEL) {
        /* Whatever has ended it while its cancel was on the way: nobody wants it again. */
        finish(ctl, job, PHASE_JOB_CANCELLED, job->end_text[0] ? job->end_text : "cancelled");
        return;
    }
    if (any_cause(attempt_now(job), TASK_CAUSE_UNTOLD))
        kept = core->progress; /* it has done nothing since, and lost nothing */

    attempt_now(job)->phase = phase;
    job_phase(ctl, job, PHASE_JOB_PENDING);
    if (job->link != LINK_INSIDE || job_waits((enum job_state)core->state))
        return; /* it is in its queue again already */
    node_keep_out(ctl, job);
    if (stopped && core->parks) /* it has left for good: no place is kept for it */
        ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_STOPPED, .progress = job->said_progress });
    if (!core_takes_end(core) || (stopped && core->parks)) {
        job->wants.retries = retry_left(core, fail, attempt_now(job)->exit);
        link_reenter(ctl, job); /* its place on GPUs that others use now is lost */
        return;
    }
    ctl_tell_core(ctl, job,
                  (struct event){ .kind = stopped ? EVENT_STOPPED : EVENT_ENDED,
                                  .fail = stopped ? FAIL_NONE : fail,
                                  .value = attempt_now(job)->exit,
                                  .progress = stopped ? job->said_progress : kept });
}

static void refusal_text(const struct ctl_attempt *attempt, char *text, size_t size)
{
    int begun = snprintf(text, size, "it could not be started on ");

    text_fit(text + begun, size - (size_t)begun, attempt->refusal);
}

/* What a job that failed ends as, and why in words. */
static enum phase_of_job failed_as(const struct ctl_attempt *attempt, enum fail_class blame, bool oom, char *text,
                                   size_t size)
{
    if (oom)
        (void)snprintf(text, size, "out of memory");
    else if (attempt->refusal)
        refusal_text(attempt, text, size);
    else if (blame == FAIL_SYSTEM)
        (void)snprintf(text, size, "its node was lost");
    else if (attempt->signal)
        (void)snprintf(text, size, "killed by signal %d", attempt->signal);
    else
        (void)snprintf(text, size, "exit code %d", attempt->exit);
    return oom ? PHASE_JOB_OUT_OF_MEMORY : blame == FAIL_SYSTEM ? PHASE_JOB_NODE_FAIL : PHASE_JOB_FAILED;
}

/* Why there is no other attempt, where one was asked for. */
static void again_text(const struct ctl *ctl, const struct ctl_job *job, enum retry_verdict verdict, char *text,
                       size_t size)
{
    const char *why = retry_refusal(&core_job(ctl->core, job->slot)->spec, verdict);
    size_t have = strlen(text);

    if (why)
        (void)snprintf(text + have, size - have, "; %s", why);
}

bool attempt_kept_lost(struct ctl *ctl, struct ctl_job *job)
{
    struct ctl_attempt *attempt = attempt_now(job);
    char text[sizeof(job->end_text)];
    enum retry_verdict verdict;
    enum fail_class blame;
    bool oom;

    attempt_verdict(job, attempt, &blame, &oom);
    job->failures++;
    verdict = again(ctl, job, blame);
    if (blame == FAIL_NONE || verdict == RETRY_AGAIN)
        return false;
    attempt->phase = failed_as(attempt, blame, oom, text, sizeof(text));
    again_text(ctl, job, verdict, text, sizeof(text));
    job->exit = attempt->exit;
    job->signal = attempt->signal;
    link_take_out(ctl, job, attempt->phase, text);
    return true;
}

static void end_by_itself(struct ctl *ctl, struct ctl_job *job, enum fail_class blame, bool oom)
{
    struct ctl_attempt *attempt = attempt_now(job);
    char text[sizeof(job->end_text)];
    enum retry_verdict verdict;
    enum phase_of_job phase;

    if (blame == FAIL_NONE) {
        finish(ctl, job, PHASE_JOB_COMPLETED, "");
        return;
    }
    if (attempt->exit == 85 && job->spec->requeue) {
        go_back(ctl, job, PHASE_JOB_PREEMPTED, FAIL_REQUEUE);
        return;
    }
    job->failures++;
    verdict = again(ctl, job, blame);
    if (verdict == RETRY_AGAIN) {
        go_back(ctl, job, blame == FAIL_SYSTEM ? PHASE_JOB_NODE_FAIL : PHASE_JOB_FAILED, blame);
        return;
    }
    phase = failed_as(attempt, blame, oom, text, sizeof(text));
    again_text(ctl, job, verdict, text, sizeof(text));
    finish(ctl, job, phase, text);
}

/* It is over; the time it had its GPUs is booked. */
void attempt_close(struct ctl *ctl, struct ctl_job *job, struct ctl_attempt *attempt)
{
    uint32_t gpus = 0;

    assert(!attempt->ended);
    assert(attempt_in(attempt, ATTEMPT_CLOSED));
    attempt->ended = ctl->now > 0 ? ctl->now : 1;
    if (!attempt->started)
        return;
    attempt->ran = ctl->now - attempt->started;
    for (uint32_t t = 0; t < attempt->task_count; t++)
        gpus += attempt->tasks[t].gpu_count;
    job->gpu_usec += svc_of((int64_t)gpus * job->wants.share, attempt->ran);
}

static bool attempt_saved(const struct ctl_attempt *attempt)
{
    return attempt->exit == 85; /* it says so itself */
}

svc_t attempt_lost(const struct ctl_job *job, const struct ctl_attempt *attempt)
{
    usec_t kept = job->last_ckpt > attempt->started ? job->last_ckpt : attempt->started;
    int64_t gpus = 0;

    for (uint32_t t = 0; t < attempt->task_count; t++)
        gpus += attempt->tasks[t].gpu_count;
    return attempt->started && !attempt_saved(attempt) && attempt->ended > kept
               ? svc_of(gpus * job->wants.share, attempt->ended - kept)
               : 0;
}

/* Something outside of it ended the attempt: what that cost, and for whose sake. */
void attempt_note_loss(struct ctl *ctl, struct ctl_job *job, enum task_cause cause)
{
    const struct ctl_attempt *attempt = attempt_now(job);
    svc_t lost = attempt_lost(job, attempt);

    job->lost_usec += lost;
    ctl_event(ctl, "job.preempted", job, NULL,
              FACTS(attempt->stop_by ? fact_number("by", attempt->stop_by) : fact_text("by", NULL),
                    fact_text("cause", cause == TASK_CAUSE_LOST ? "node" : task_cause_name(cause)),
                    { "lost_gpu_seconds", FACT_SECONDS, NULL, lost },
                    fact_text("step", attempt_saved(attempt) ? "checkpoint" : "requeue")));
}

/* Whether the task left because it was told to. A node names the first order it was given: what it was to leave for may
 * be something else by now. */
static bool told_to_leave(const struct ctl_task *task)
{
    return task->cause == TASK_CAUSE_CANCEL || task->cause == TASK_CAUSE_PREEMPT || task->cause == TASK_CAUSE_DRAIN ||
           task->cause == TASK_CAUSE_MIGRATE || task->cause == TASK_CAUSE_REQUEUE;
}

/* Why it left: because it was told to, where some task says so (one that ended by itself while the order was on its way
 * did not), or because an agent kept its time limit before the order came. NONE = by itself. */
static enum task_cause left_why(const struct ctl_attempt *attempt)
{
    enum task_cause why = TASK_CAUSE_NONE;

    for (uint32_t t = 0; t < attempt->task_count; t++) {
        if (attempt->stop_cause != STOP_CAUSE_NONE &&
            (attempt->tasks[t].cause == attempt->stop_cause || told_to_leave(&attempt->tasks[t])))
            return (enum task_cause)attempt->stop_cause;
        if (attempt->tasks[t].cause == TASK_CAUSE_TIMEOUT)
            why = TASK_CAUSE_TIMEOUT;
    }
    return why;
}

/* What its end is to be taken for: what it was told to leave for, unless something else has happened to it meanwhile.
 */
static enum task_cause over_why(const struct ctl_attempt *attempt, bool moves)
{
    bool lost = moves && (any_cause(attempt, TASK_CAUSE_LOST) || any_cause(attempt, TASK_CAUSE_FENCE));
    bool untold = any_cause(attempt, TASK_CAUSE_UNTOLD);

    if (attempt->stop_cause == STOP_CAUSE_CANCEL && (lost || untold))
        return TASK_CAUSE_CANCEL;
    if (untold)
        return TASK_CAUSE_UNTOLD;
    if (lost)
        return TASK_CAUSE_LOST; /* before it had saved itself: from where it last did, and the core is to know */
    if (attempt->kept_until && attempt->stop_cause == STOP_CAUSE_REQUEUE)
        return TASK_CAUSE_REQUEUE;
    return left_why(attempt);
}

/* It has left, and goes on where the core has put it. */
static void go_on(struct ctl *ctl, struct ctl_job *job)
{
    int r;

    assert(core_job(ctl->core, job->slot)->state == JOB_STARTING);
    /* It has left what it does not keep; others may be waiting for just that. */
    if (core_job(ctl->core, job->slot)->sheds)
        ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_STOPPED, .progress = PROGRESS_OWN });
    attempt_now(job)->phase = PHASE_JOB_PREEMPTED; /* this one; the job goes on in the next */
    r = attempt_new(ctl, job);
    assert(r == 0);
    (void)r;
    job_phase(ctl, job, PHASE_JOB_STARTING);
    attempt_launch_ready(ctl, job);
}

/* It was moving, and has left. */
static void moved_over(struct ctl *ctl, struct ctl_job *job)
{
    if (core_job(ctl->core, job->slot)->state == JOB_STOPPING)
        go_back(ctl, job, PHASE_JOB_PREEMPTED, FAIL_REQUEUE); /* told to stop on its way */
    else
        go_on(ctl, job);
}

/* What becomes of the job, by why its attempt is over. */
static void decide_next(struct ctl *ctl, struct ctl_job *job, enum task_cause why, bool moves)
{
    char text[sizeof(job->end_text)];
    enum fail_class blame;
    bool oom;

    attempt_verdict(job, attempt_now(job), &blame, &oom);
    if (why == TASK_CAUSE_PREEMPT || why == TASK_CAUSE_DRAIN || why == TASK_CAUSE_MIGRATE || why == TASK_CAUSE_LOST)
        attempt_note_loss(ctl, job, why);
    switch ((int)why) {
    case TASK_CAUSE_LOST:
        end_by_itself(ctl, job, FAIL_SYSTEM, false);
        break;
    case TASK_CAUSE_UNTOLD:
        go_back(ctl, job, PHASE_JOB_NODE_FAIL,
                FAIL_REQUEUE); /* nothing of it ran: no failure, whatever it says of being run again */
        break;
    case TASK_CAUSE_MIGRATE:
        if (moves)
            moved_over(ctl, job);
        else
            end_by_itself(ctl, job, blame, oom);
        break;
    case TASK_CAUSE_DRAIN:
        if (moves)
            moved_over(ctl, job);
        else
            go_back(ctl, job, PHASE_JOB_PREEMPTED, FAIL_REQUEUE);
        break;
    case TASK_CAUSE_CANCEL:
        (void)snprintf(text, sizeof(text), "%s", job->end_text[0] ? job->end_text : "cancelled");
        finish(ctl, job, PHASE_JOB_CANCELLED, text);
        break;
    case TASK_CAUSE_TIMEOUT:
        finish(ctl, job, PHASE_JOB_TIMEOUT, "reached its time limit");
        break;
    case TASK_CAUSE_PREEMPT:
        if (job->spec->preempt == PREEMPT_CANCEL)
            finish(ctl, job, PHASE_JOB_PREEMPTED, "preempted, and it asked to end then");
        else
            go_back(ctl, job, PHASE_JOB_PREEMPTED, FAIL_REQUEUE);
        break;
    case TASK_CAUSE_REQUEUE:
        go_back(ctl, job, PHASE_JOB_PREEMPTED, FAIL_REQUEUE);
        break;
    default: /* by itself */
        end_by_itself(ctl, job, blame, oom);
    }
}

/* The last task is gone. */
void attempt_over(struct ctl *ctl, struct ctl_job *job)
{
    struct ctl_attempt *attempt = attempt_now(job);
    bool moves = attempt->state == ATTEMPT_MOVING;

    assert(attempt_gone(attempt));
    attempt_happens(ctl, job, attempt, ATTEMPT_EVENT_GONE, 0);
    for (uint32_t t = 0; t < attempt->task_count; t++)
        ctl_order(ctl, attempt->tasks[t].node, order_simple(job, attempt, ORDER_CLEAN));
    decide_next(ctl, job, over_why(attempt, moves), moves);
}
