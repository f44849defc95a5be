/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_end.c - an attempt is over: who is to blame, and whether the job is over too, goes on elsewhere or waits
 * again.
 */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "ctl/part.h"

/* Whether another attempt is worth it: who is to blame, and what the job allows. A person who cancels one whose place
 * is kept does not want it. */
static bool again(const struct book_job *job, const struct book_attempt *attempt, enum fail_class blame)
{
    if (attempt->kept_until && strcmp(attempt->stop_kind, "cancel") == 0)
        return false;
    for (size_t i = 0; i < job->spec->retry_on_count; i++)
        if (attempt->exit == job->spec->retry_on[i] && job->failures <= job->spec->retries)
            return true;
    switch (blame) {
    case FAIL_SYSTEM:
        return job->spec->requeue && job->failures < 64;
    case FAIL_UNKNOWN:
        return job->failures <= job->spec->retries;
    case FAIL_NONE:
    case FAIL_USER:
    case FAIL_COUNT:
        break;
    }
    return false;
}

/* Killed from outside is nobody's fault that we know; a crash of its own is the program's. */
static enum fail_class signal_blame(int number)
{
    return number == SIGKILL || number == SIGTERM || number == SIGBUS ? FAIL_UNKNOWN : FAIL_USER;
}

static enum fail_class task_blame(const struct book_task *task)
{
    if (strcmp(task->cause, "lost") == 0 || strcmp(task->cause, "fence") == 0)
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
static void roles_verdict(struct book_attempt *attempt, enum fail_class *blame, bool *oom)
{
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        const struct book_task *task = &attempt->tasks[t];

        if (task->state == TASK_REFUSED || strcmp(task->cause, "lost") == 0 || strcmp(task->cause, "fence") == 0)
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
static void attempt_verdict(const struct book_job *job, struct book_attempt *attempt, enum fail_class *blame, bool *oom)
{
    *blame = FAIL_NONE;
    *oom = false;
    attempt->exit = attempt->signal = 0;
    if (job->spec->role_count) {
        roles_verdict(attempt, blame, oom);
        return;
    }
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        const struct book_task *task = &attempt->tasks[t];
        bool first = *blame == FAIL_NONE;

        *oom |= task->oom;
        if (strcmp(task->cause, "peer") == 0)
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
        *blame = FAIL_USER;
}

/* Suspended by the core, which expects no end of it. One that has yielded its GPUs ends from there. */
static bool parked(const struct ctl *ctl, const struct book_job *job)
{
    const struct job *core = core_job(ctl->core, job->slot);

    return core->state == JOB_SUSPENDED && !core->yields;
}

/* It will not run again: the core is told, and when it has let the job go the job is over. */
static void finish(struct ctl *ctl, struct book_job *job, enum phase_of_job phase, const char *text)
{
    struct event event = { .kind = EVENT_ENDED,
                           .fail = phase == PHASE_JOB_COMPLETED ? FAIL_NONE : FAIL_USER,
                           .progress = job->said_progress };

    job->ends = true;
    job->ends_as = phase;
    job->exit = attempt_now(job)->exit;
    job->signal = attempt_now(job)->signal;
    attempt_now(job)->phase = phase;
    (void)snprintf(job->end_text, sizeof(job->end_text), "%s", text);
    if (phase == PHASE_JOB_CANCELLED || parked(ctl, job))
        event.kind = EVENT_CANCEL;
    node_keep_out(ctl, job);
    ctl_tell_core(ctl, job, event);
}

static bool any_cause(const struct book_attempt *attempt, const char *cause)
{
    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (strcmp(attempt->tasks[t].cause, cause) == 0)
            return true;
    return false;
}

/* Back into the queue. The core had stopped it, or is told now that it failed and is worth another try. */
static void go_back(struct ctl *ctl, struct book_job *job, enum phase_of_job phase)
{
    const struct job *core = core_job(ctl->core, job->slot);
    bool stopped = core->state == JOB_STOPPING;
    usec_t kept = job->said_progress != PROGRESS_OWN ? job->said_progress : 0;

    if (any_cause(attempt_now(job), "untold"))
        kept = core->progress; /* it has done nothing since, and lost nothing */

    attempt_now(job)->phase = phase;
    job_phase(ctl, job, PHASE_JOB_PENDING);
    if (parked(ctl, job)) {
        job->reenters = true; /* its place on GPUs that others use now is lost */
        ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_CANCEL });
        return;
    }
    node_keep_out(ctl, job);
    ctl_tell_core(ctl, job,
                  (struct event){ .kind = stopped ? EVENT_STOPPED : EVENT_ENDED,
                                  .fail = stopped ? FAIL_NONE : FAIL_SYSTEM,
                                  .progress = stopped ? job->said_progress : kept });
}

static void refusal_text(const struct book_attempt *attempt, char *text, size_t size)
{
    int begun = snprintf(text, size, "it could not be started on ");

    book_words(text + begun, size - (size_t)begun, attempt->refusal);
}

/* What a job that failed ends as, and why in words. */
static enum phase_of_job failed_as(const struct book_attempt *attempt, enum fail_class blame, bool oom, char *text,
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

bool attempt_kept_lost(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_now(job);
    enum fail_class blame;
    bool oom;

    attempt_verdict(job, attempt, &blame, &oom);
    job->failures++;
    if (blame == FAIL_NONE || again(job, attempt, blame))
        return false;
    job->ends = true;
    job->ends_as = attempt->phase = failed_as(attempt, blame, oom, job->end_text, sizeof(job->end_text));
    job->exit = attempt->exit;
    job->signal = attempt->signal;
    ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_CANCEL });
    return true;
}

static void end_by_itself(struct ctl *ctl, struct book_job *job, enum fail_class blame, bool oom)
{
    struct book_attempt *attempt = attempt_now(job);
    char text[sizeof(job->end_text)];
    enum phase_of_job phase;

    if (blame == FAIL_NONE) {
        finish(ctl, job, PHASE_JOB_COMPLETED, "");
        return;
    }
    if (attempt->exit == 85 && job->spec->requeue) {
        go_back(ctl, job, PHASE_JOB_PREEMPTED);
        return;
    }
    job->failures++;
    if (again(job, attempt, blame)) {
        go_back(ctl, job, blame == FAIL_SYSTEM ? PHASE_JOB_NODE_FAIL : PHASE_JOB_FAILED);
        return;
    }
    phase = failed_as(attempt, blame, oom, text, sizeof(text));
    finish(ctl, job, phase, text);
}

/* It is over; the time it had its GPUs is booked. */
void attempt_close(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_now(job);
    uint32_t gpus = 0;

    attempt->ended = ctl->now;
    if (!attempt->started)
        return;
    attempt->ran = ctl->now - attempt->started;
    for (uint32_t t = 0; t < attempt->task_count; t++)
        gpus += attempt->tasks[t].gpu_count;
    job->gpu_usec += svc_of((int64_t)gpus * job->wants.share, attempt->ran);
}

static bool attempt_saved(const struct book_attempt *attempt)
{
    return attempt->exit == 85; /* it says so itself */
}

svc_t attempt_lost(const struct book_job *job, const struct book_attempt *attempt)
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
void attempt_note_loss(struct ctl *ctl, struct book_job *job, const char *cause)
{
    const struct book_attempt *attempt = attempt_now(job);
    svc_t lost = attempt_lost(job, attempt);

    job->lost_usec += lost;
    ctl_event(ctl, "job.preempted", job, NULL,
              json_pack("{s:s, s:o, s:f, s:s}", "cause", cause, "by",
                        attempt->stop_by ? json_integer(attempt->stop_by) : json_null(), "lost_gpu_seconds",
                        (double)lost / 1e6, "step", attempt_saved(attempt) ? "checkpoint" : "requeue"));
}

/* Whether the task left because it was told to. A node names the first order it was given: what it was to leave for may
 * be something else by now. */
static bool told_to_leave(const struct book_task *task)
{
    static const char *const orders[] = { "cancel", "preempt", "drain", "migrate", "requeue" };

    for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++)
        if (strcmp(task->cause, orders[i]) == 0)
            return true;
    return false;
}

/* Why it left: because it was told to, where some task says so (one that ended by itself while the order was on its way
 * did not), or because an agent kept its time limit before the order came. "" = by itself. */
static const char *left_why(const struct book_attempt *attempt)
{
    const char *why = "";

    for (uint32_t t = 0; t < attempt->task_count; t++) {
        if (attempt->stop_kind[0] &&
            (strcmp(attempt->tasks[t].cause, attempt->stop_kind) == 0 || told_to_leave(&attempt->tasks[t])))
            return attempt->stop_kind;
        if (strcmp(attempt->tasks[t].cause, "timeout") == 0)
            why = "timeout";
    }
    return why;
}

/* It has left, and goes on where the core has put it. */
static void go_on(struct ctl *ctl, struct book_job *job)
{
    int r;

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

/* The last task is gone. */
void attempt_over(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_now(job);
    const char *kind = left_why(attempt);
    bool oom, lost = attempt->moves && (any_cause(attempt, "lost") || any_cause(attempt, "fence"));
    bool untold = any_cause(attempt, "untold");
    enum fail_class blame;

    attempt_close(ctl, job);
    attempt_verdict(job, attempt, &blame, &oom);
    for (uint32_t t = 0; t < attempt->task_count; t++)
        ctl_order(ctl, attempt->tasks[t].node, order_simple(job, attempt, ORDER_CLEAN));
    job->suspended_by_user = false;
    if (attempt->kept_until && strcmp(attempt->stop_kind, "requeue") == 0)
        kind = attempt->stop_kind;
    if ((lost || untold) && strcmp(attempt->stop_kind, "cancel") == 0)
        kind = attempt->stop_kind;
    else if (untold)
        kind = "untold";
    else if (lost)
        kind = "node"; /* before it had saved itself: from where it last did, and the core is to know */
    if (strcmp(kind, "preempt") == 0 || strcmp(kind, "drain") == 0 || strcmp(kind, "migrate") == 0 ||
        strcmp(kind, "node") == 0)
        attempt_note_loss(ctl, job, kind);
    if (strcmp(kind, "node") == 0) {
        end_by_itself(ctl, job, FAIL_SYSTEM, false);
    } else if (strcmp(kind, "untold") == 0) {
        go_back(ctl, job, PHASE_JOB_NODE_FAIL); /* nothing of it ran: no failure, whatever it says of being run again */
    } else if (attempt->moves && (strcmp(kind, "migrate") == 0 || strcmp(kind, "drain") == 0)) {
        if (core_job(ctl->core, job->slot)->state == JOB_STOPPING)
            go_back(ctl, job, PHASE_JOB_PREEMPTED); /* told to stop on its way */
        else
            go_on(ctl, job);
    } else if (strcmp(kind, "cancel") == 0) {
        char why[sizeof(job->end_text)];

        (void)snprintf(why, sizeof(why), "%s", job->end_text[0] ? job->end_text : "cancelled");
        finish(ctl, job, PHASE_JOB_CANCELLED, why);
    } else if (strcmp(kind, "timeout") == 0) {
        finish(ctl, job, PHASE_JOB_TIMEOUT, "reached its time limit");
    } else if (strcmp(kind, "preempt") == 0 && job->spec->preempt == PREEMPT_CANCEL) {
        finish(ctl, job, PHASE_JOB_PREEMPTED, "preempted, and it asked to end then");
    } else if (strcmp(kind, "preempt") == 0 || strcmp(kind, "requeue") == 0 || strcmp(kind, "drain") == 0) {
        go_back(ctl, job, PHASE_JOB_PREEMPTED);
    } else {
        end_by_itself(ctl, job, blame, oom);
    }
}
