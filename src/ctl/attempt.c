/* SPDX-License-Identifier: Apache-2.0 */
/* attempt.c - one run of a job: its tasks on their nodes, what they report, and how it ends.
 *
 *   placed ─► launch ─► every rank ready ─► go ─► every rank running ─► every rank exited
 *                 (a job on one node is launched with go)
 *
 * A rank that fails ends the gang; so does the first rank's exit where the script runs only there. An attempt is
 * launched when no task of the one before is left anywhere, so a job never runs twice (attempt_wait.c).
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/part.h"
#include "ctl/record.h"

enum { PORT_FIRST = 20000, PORT_COUNT = 20000 };

usec_t job_grace(const struct ctl *ctl, const struct book_job *job)
{
    return job->spec->grace > 0 ? job->spec->grace : ctl->config.grace;
}

void job_phase(struct ctl *ctl, struct book_job *job, enum phase_of_job phase)
{
    static const char *const kinds[PHASE_JOB_COUNT] = {
        [PHASE_JOB_PENDING] = "job.pending",       [PHASE_JOB_STARTING] = "job.starting",
        [PHASE_JOB_RUNNING] = "job.running",       [PHASE_JOB_SUSPENDED] = "job.suspended",
        [PHASE_JOB_COMPLETING] = "job.completing",
    };

    if (job->phase == phase)
        return;
    job->phase = phase;
    job->version++;
    if (phase == PHASE_JOB_PENDING) {
        bool queued = job->in_core && job_waits((enum job_state)core_job(ctl->core, job->slot)->state);

        job->reason = queued ? core_reason(ctl->core, job->slot) : REASON_SCHEDULING;
        job->reason_since = ctl->now;
    }
    if (kinds[phase])
        ctl_event(ctl, kinds[phase], job, NULL, NULL);
}

void job_end(struct ctl *ctl, struct book_job *job, enum phase_of_job phase, const char *text)
{
    struct book_attempt *attempt = attempt_of(job);

    assert(phase_over(phase) && !job->in_core);
    if (text != job->end_text)
        (void)snprintf(job->end_text, sizeof(job->end_text), "%s", text ? text : "");
    job->phase = phase;
    job->gate = GATE_NONE;
    job->end = ctl->now;
    job->version++;
    if (attempt && !attempt->ended)
        attempt->ended = ctl->now;
    ctl->book.ended[phase]++;
    book_retire(ctl, job);
    record_keep(ctl, job);
    ctl_event(ctl, "job.ended", job, NULL, json_pack("{s:s, s:i}", "state", phase_name(phase), "exit", job->exit));
    gate_ended(ctl, job);
}

static uint32_t book_node_of(const struct ctl *ctl, uint32_t node)
{
    for (uint32_t n = 0; n < ctl->book.node_count; n++)
        if (ctl->book.nodes[n].core_node == node)
            return n;
    return 0;
}

/* A rank for each node of a job without GPUs. */
static int tasks_new(struct ctl *ctl, const struct book_job *job, struct book_attempt *attempt)
{
    uint32_t count = core_tasks(ctl->core, job->slot, NULL, 0);
    struct core_task *list = mem_zalloc(count, sizeof(*list));

    attempt->tasks = mem_zalloc(count, sizeof(*attempt->tasks));
    if (!list || !attempt->tasks) {
        mem_free(list);
        return -ENOMEM;
    }
    (void)core_tasks(ctl->core, job->slot, list, count);
    for (uint32_t i = 0; i < count; i++)
        attempt->tasks[attempt->task_count++] =
            (struct book_task){ .state = TASK_PREPARING, .node = book_node_of(ctl, list[i].node) };
    mem_free(list);
    return 0;
}

/* A rank for each node of the job's shares, which are in order of GPUs. */
int attempt_new(struct ctl *ctl, struct book_job *job)
{
    const struct ledger *ledger = ctl_ledger(ctl);
    struct book_attempt *attempt;
    uint32_t nodes = 0, last = UINT32_MAX;

    if (book_attempt_add(job) < 0)
        return -ENOMEM;
    attempt = attempt_now(job);
    for (uint32_t s = core_job(ctl->core, job->slot)->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        if (ledger->gpus[ledger->shares[s].gpu].node != last && !ledger->shares[s].leaving) {
            last = ledger->gpus[ledger->shares[s].gpu].node;
            nodes++;
        }
    if (job->wants.gpus == 0) {
        int r = tasks_new(ctl, job, attempt);

        if (r < 0)
            return r;
    } else {
        attempt->tasks = mem_zalloc(nodes, sizeof(*attempt->tasks));
    }
    if (!attempt->tasks)
        return -ENOMEM;
    last = UINT32_MAX;
    for (uint32_t s = core_job(ctl->core, job->slot)->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        const struct share *share = &ledger->shares[s];
        uint32_t node = ledger->gpus[share->gpu].node;
        struct book_task *task;
        uint16_t *grown;

        if (share->leaving)
            continue;
        if (node != last) {
            task = &attempt->tasks[attempt->task_count++];
            task->state = TASK_PREPARING;
            task->node = book_node_of(ctl, node);
        }
        last = node;
        task = &attempt->tasks[attempt->task_count - 1];
        grown = mem_resize(task->gpus, task->gpu_count + 1u, sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        task->gpus = grown;
        task->gpus[task->gpu_count++] = (uint16_t)(share->gpu - ledger->topo.nodes[node].first_gpu);
    }
    attempt->placed = ctl->now;
    attempt->port = (uint16_t)(PORT_FIRST + (job->id * 7 + attempt->number) % PORT_COUNT);
    job->version++;
    return 0;
}

void attempt_launch(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_now(job);
    json_t *place = order_place(ctl, attempt);

    job->waits_old = false;
    attempt->told_go = attempt->task_count == 1 && !attempt->prepared;
    for (uint32_t t = 0; t < attempt->task_count; t++)
        ctl_order(ctl, attempt->tasks[t].node, order_launch(ctl, job, t, place));
    json_decref(place);
}

void attempt_launch_ready(struct ctl *ctl, struct book_job *job)
{
    if (attempt_ready(ctl, job))
        attempt_launch(ctl, job);
    else
        job->waits_old = true;
}

/* Its launch is repeated, with its time limit from now on; whoever is not ready yet goes when it is. */
void attempt_open(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_now(job);
    json_t *place = order_place(ctl, attempt);
    bool ready = true;

    attempt->prepared = false;
    attempt->placed = ctl->now;
    for (uint32_t t = 0; t < attempt->task_count; t++)
        ready = ready && attempt->tasks[t].state == TASK_READY;
    attempt->told_go = ready || attempt->task_count == 1;
    for (uint32_t t = 0; t < attempt->task_count; t++)
        ctl_order(ctl, attempt->tasks[t].node, order_launch(ctl, job, t, place));
    json_decref(place);
}

void attempt_resume(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_now(job);

    attempt->stop_kind[0] = '\0';
    for (uint32_t t = 0; t < attempt->task_count; t++)
        ctl_order(ctl, attempt->tasks[t].node, order_simple(job, attempt, ORDER_RESUME));
}

void attempt_stop(struct ctl *ctl, struct book_job *job, const char *kind, int64_t by, usec_t grace)
{
    struct book_attempt *attempt = attempt_of(job);

    if (!attempt || attempt->ended)
        return;
    /* What a person wants stays what it is when something else would stop it too. */
    if (!attempt->stopping || strcmp(kind, "cancel") == 0) {
        (void)snprintf(attempt->stop_kind, sizeof(attempt->stop_kind), "%s", kind);
        attempt->stop_by = by;
    }
    attempt->stopping = true;
    attempt->stop_at = ctl->now;
    attempt->grace = grace;
    job_phase(ctl, job, PHASE_JOB_COMPLETING);
    job_timer_set(ctl, job);
    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (!task_gone(&attempt->tasks[t]))
            ctl_order(ctl, attempt->tasks[t].node, order_stop(ctl, job, attempt, grace));
}

/* Whether another attempt is worth it: who is to blame, and what the job allows. */
static bool again(const struct book_job *job, const struct book_attempt *attempt, enum fail_class blame)
{
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
    if (phase == PHASE_JOB_CANCELLED || core_job(ctl->core, job->slot)->state == JOB_SUSPENDED)
        event.kind = EVENT_CANCEL;
    node_keep_out(ctl, job);
    ctl_tell_core(ctl, job, event);
}

/* Back into the queue. The core had stopped it, or is told now that it failed and is worth another try. */
static void go_back(struct ctl *ctl, struct book_job *job, enum phase_of_job phase)
{
    bool stopped = core_job(ctl->core, job->slot)->state == JOB_STOPPING;

    attempt_now(job)->phase = phase;
    job_phase(ctl, job, PHASE_JOB_PENDING);
    if (core_job(ctl->core, job->slot)->state == JOB_SUSPENDED) {
        job->reenters = true; /* its place on GPUs that others use now is lost */
        ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_CANCEL });
        return;
    }
    node_keep_out(ctl, job);
    ctl_tell_core(ctl, job,
                  (struct event){ .kind = stopped ? EVENT_STOPPED : EVENT_ENDED,
                                  .fail = stopped ? FAIL_NONE : FAIL_SYSTEM,
                                  .progress = stopped || job->said_progress != PROGRESS_OWN ? job->said_progress : 0 });
}

static void end_by_itself(struct ctl *ctl, struct book_job *job, enum fail_class blame, bool oom)
{
    struct book_attempt *attempt = attempt_now(job);
    char text[96];

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
    if (oom)
        (void)snprintf(text, sizeof(text), "out of memory");
    else if (blame == FAIL_SYSTEM)
        (void)snprintf(text, sizeof(text), "its node was lost or could not start it");
    else if (attempt->signal)
        (void)snprintf(text, sizeof(text), "killed by signal %d", attempt->signal);
    else
        (void)snprintf(text, sizeof(text), "exit code %d", attempt->exit);
    finish(ctl, job,
           oom                    ? PHASE_JOB_OUT_OF_MEMORY
           : blame == FAIL_SYSTEM ? PHASE_JOB_NODE_FAIL
                                  : PHASE_JOB_FAILED,
           text);
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

/* Something outside of it ended the attempt: what that cost, and for whose sake. */
void attempt_note_loss(struct ctl *ctl, struct book_job *job, const char *cause)
{
    const struct book_attempt *attempt = attempt_now(job);
    usec_t kept = job->last_ckpt > attempt->started ? job->last_ckpt : attempt->started;
    bool saved = attempt->exit == 85; /* it says so itself */
    int64_t gpus = 0, lost;

    for (uint32_t t = 0; t < attempt->task_count; t++)
        gpus += attempt->tasks[t].gpu_count;
    lost = attempt->started && !saved && attempt->ended > kept ? svc_of(gpus * job->wants.share, attempt->ended - kept)
                                                               : 0;
    job->lost_usec += lost;
    ctl_event(ctl, "job.preempted", job, NULL,
              json_pack("{s:s, s:o, s:f, s:s}", "cause", cause, "by",
                        attempt->stop_by ? json_integer(attempt->stop_by) : json_null(), "lost_gpu_seconds",
                        (double)lost / 1e6, "step", saved ? "checkpoint" : "requeue"));
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

static bool any_lost(const struct book_attempt *attempt)
{
    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (strcmp(attempt->tasks[t].cause, "lost") == 0 || strcmp(attempt->tasks[t].cause, "fence") == 0)
            return true;
    return false;
}

/* It has left, and goes on where the core has put it. */
static void go_on(struct ctl *ctl, struct book_job *job)
{
    int r;

    /* It has left what it does not keep; others may be waiting for just that. */
    if (core_job(ctl->core, job->slot)->sheds)
        ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_STOPPED, .progress = PROGRESS_OWN });
    r = attempt_new(ctl, job);
    assert(r == 0);
    (void)r;
    job_phase(ctl, job, PHASE_JOB_STARTING);
    attempt_launch_ready(ctl, job);
}

/* The last task is gone. */
static void attempt_over(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_now(job);
    const char *kind = left_why(attempt);
    bool oom, lost = attempt->moves && any_lost(attempt);
    enum fail_class blame;

    attempt_close(ctl, job);
    attempt_verdict(job, attempt, &blame, &oom);
    for (uint32_t t = 0; t < attempt->task_count; t++)
        ctl_order(ctl, attempt->tasks[t].node, order_simple(job, attempt, ORDER_CLEAN));
    job->suspended_by_user = false;
    if (lost && strcmp(attempt->stop_kind, "cancel") == 0)
        kind = attempt->stop_kind;
    else if (lost)
        kind = "node"; /* before it had saved itself: from where it last did, and the core is to know */
    if (strcmp(kind, "preempt") == 0 || strcmp(kind, "drain") == 0 || strcmp(kind, "migrate") == 0 ||
        strcmp(kind, "node") == 0)
        attempt_note_loss(ctl, job, kind);
    if (strcmp(kind, "node") == 0) {
        end_by_itself(ctl, job, FAIL_SYSTEM, false);
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

#define PEER_GRACE (5 * USEC_SEC)

/* The gang is over: what is left of it is told to leave. */
static void peers_end(struct ctl *ctl, struct book_job *job, usec_t grace)
{
    struct book_attempt *attempt = attempt_now(job);

    attempt->ending = true;
    job_phase(ctl, job, PHASE_JOB_COMPLETING);
    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (!task_gone(&attempt->tasks[t])) {
            json_t *order = order_stop(ctl, job, attempt, grace);

            (void)json_object_set_new(order, "kind", json_string("peer"));
            ctl_order(ctl, attempt->tasks[t].node, order);
        }
}

void attempt_end_peers(struct ctl *ctl, struct book_job *job)
{
    if (!attempt_now(job)->ending)
        peers_end(ctl, job, PEER_GRACE);
}

static void rank_exited(struct ctl *ctl, struct book_job *job, uint32_t rank)
{
    struct book_attempt *attempt = attempt_now(job);
    const struct book_task *task = &attempt->tasks[rank];
    bool failed = task->exit != 0 || task->signal != 0 || task->state == TASK_REFUSED || task->cause[0] == 'l';
    bool lost = task->state == TASK_REFUSED || task->cause[0] == 'l', roles = job->spec->role_count > 0;
    bool ends = (job->spec->launch == LAUNCH_ONCE && rank == 0) || (roles ? lost : failed && !job->spec->no_kill);

    /* One that ended before it could be said to run has run all the same. */
    if (!attempt->started && task->state == TASK_EXITED && task->cause[0] != 'l' && attempt->told_go) {
        attempt->started = ctl->now;
        job->first_start = job->first_start ? job->first_start : ctl->now;
        job->last_start = ctl->now;
    }
    if (attempt_gone(attempt)) {
        attempt_over(ctl, job);
        return;
    }
    if (!ends || attempt->ending)
        return;
    peers_end(ctl, job, failed ? PEER_GRACE : 0);
}

static void rank_ready(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_now(job);

    if (attempt->told_go || attempt->stopping || attempt->ending || attempt->prepared)
        return;
    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (attempt->tasks[t].state != TASK_READY)
            return;
    attempt->told_go = true;
    for (uint32_t t = 0; t < attempt->task_count; t++)
        ctl_order(ctl, attempt->tasks[t].node, order_simple(job, attempt, ORDER_GO));
}

static void rank_running(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_now(job);
    bool resumed = job->phase == PHASE_JOB_SUSPENDED;

    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (attempt->tasks[t].state != TASK_RUNNING)
            return;
    if (attempt->started && !resumed)
        return;
    if (!attempt->started) {
        attempt->started = ctl->now;
        if (!job->first_start)
            job->first_start = ctl->now;
        job->last_start = ctl->now;
    }
    job->suspended_by_user = false;
    if (attempt->stopping || attempt->ending)
        return;
    attempt->phase = PHASE_JOB_RUNNING;
    job_phase(ctl, job, PHASE_JOB_RUNNING);
    if (core_job(ctl->core, job->slot)->state == JOB_STARTING)
        ctl_tell_core(ctl, job,
                      (struct event){ .kind = EVENT_STARTED, .rate = job->said_rate, .progress = PROGRESS_OWN });
    job_timer_set(ctl, job);
}

static void rank_suspended(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_now(job);

    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (attempt->tasks[t].state != TASK_SUSPENDED)
            return;
    job_phase(ctl, job, PHASE_JOB_SUSPENDED);
    /* The core wanted it, to give the GPUs to another; or a person, who keeps them. */
    if (core_job(ctl->core, job->slot)->state == JOB_STOPPING)
        ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_STOPPED, .progress = job->said_progress });
    else
        job->suspended_by_user = true;
}

/* A node may say anything: what cannot be is not noted. */
static void used_note(struct book_task *task, const json_t *used)
{
    int64_t samples = json_integer_value(json_object_get(used, "samples"));
    int64_t memory = json_integer_value(json_object_get(used, "memory_mib"));
    double util = json_number_value(json_object_get(used, "util"));
    double dev = json_number_value(json_object_get(used, "util_dev"));

    if (samples <= 0 || samples > UINT32_MAX || memory < 0 || memory > UINT32_MAX || !(util >= 0 && util <= 100) ||
        !(dev >= 0 && dev <= 100))
        return;
    task->used_samples = (uint32_t)samples;
    task->used_memory_mib = (uint32_t)memory;
    task->used_util = (uint16_t)(util * 100 + 0.5);
    task->used_util_dev = (uint16_t)(dev * 100 + 0.5);
}

static void task_gone_note(struct ctl *ctl, struct book_task *task, const json_t *report)
{
    const char *cause = json_string_value(json_object_get(report, "cause"));
    const char *blame = json_string_value(json_object_get(report, "blame"));

    task->exit = (int)json_integer_value(json_object_get(report, "exit"));
    task->signal = (int)json_integer_value(json_object_get(report, "signal"));
    task->oom = json_is_true(json_object_get(report, "oom"));
    task->blame = blame && strcmp(blame, "user") == 0 ? FAIL_USER : FAIL_SYSTEM;
    (void)snprintf(task->cause, sizeof(task->cause), "%s", cause ? cause : "exit");
    task->ended = ctl->now;
    used_note(task, json_object_get(report, "used"));
}

/* A task of an attempt that is closed already: when the last of them is gone, the next attempt may start. */
static void late_exit(struct ctl *ctl, struct book_job *job, struct book_attempt *attempt, uint32_t rank)
{
    ctl_order(ctl, attempt->tasks[rank].node, order_simple(job, attempt, ORDER_CLEAN));
    if (job->waits_old && attempt_ready(ctl, job))
        attempt_launch(ctl, job);
}

static int64_t number_or(const json_t *object, const char *key, int64_t standard)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) ? json_integer_value(value) : standard;
}

/* What a running job measures of itself: its speed and progress, or something that its policy learns from. */
void attempt_measure(struct ctl *ctl, struct book_job *job, const json_t *measure)
{
    const json_t *values = json_object_get(measure, "values");
    struct event event = { .kind = values ? EVENT_REPORT : EVENT_RATE,
                           .rate = number_or(measure, "rate", 0),
                           .progress = number_or(measure, "progress", PROGRESS_OWN) };

    if (!job->in_core || event.rate < 0 || event.rate > 1000 * PPM_ONE)
        return;
    event.report.kind = (uint32_t)number_or(measure, "kind", 0);
    for (size_t i = 0; i < json_array_size(values) && i < sizeof(event.report.value) / sizeof(*event.report.value); i++)
        event.report.value[i] = json_integer_value(json_array_get(values, i));
    ctl_tell_core(ctl, job, event);
}

void attempt_report(struct ctl *ctl, uint32_t node, const json_t *report)
{
    struct book_job *job = book_get(&ctl->book, json_integer_value(json_object_get(report, "job")));
    const char *name = json_string_value(json_object_get(report, "state"));
    uint32_t number = (uint32_t)json_integer_value(json_object_get(report, "attempt"));
    uint32_t rank = (uint32_t)json_integer_value(json_object_get(report, "rank"));
    int state = name ? task_state_find(name) : -ENOENT;
    struct book_attempt *attempt;
    struct book_task *task;

    if (!job || number >= job->attempt_count || rank >= job->attempts[number].task_count) {
        attempt_left(ctl, node); /* of a job that is over: it was told to clean up */
        return;
    }
    attempt = &job->attempts[number];
    task = &attempt->tasks[rank];
    if (task->node != node || task_gone(task))
        return;
    if (json_object_get(report, "ended") && attempt == attempt_now(job) && !attempt->ended)
        roles_ended(ctl, job, attempt, json_object_get(report, "ended"));
    if (state < 0)
        return;
    task->state = (uint32_t)state;
    job->version++;
    job->said_progress = number_or(report, "progress", PROGRESS_OWN);
    job->said_rate = number_or(report, "rate", PPM_ONE);
    if (state == TASK_EXITED || state == TASK_REFUSED)
        task_gone_note(ctl, task, report);
    if (attempt != attempt_now(job) || attempt->ended) {
        if (task_gone(task)) {
            late_exit(ctl, job, attempt, rank);
            attempt_left(ctl, node);
        }
        return;
    }
    if (state == TASK_READY)
        rank_ready(ctl, job);
    else if (state == TASK_RUNNING) {
        task->started = task->started ? task->started : ctl->now;
        rank_running(ctl, job);
    } else if (state == TASK_SUSPENDED)
        rank_suspended(ctl, job);
    else if (task_gone(task)) {
        rank_exited(ctl, job, rank);
        attempt_left(ctl, node);
    }
}

/* The lease of a node ran out: what it ran is dead, by its own hand (ADR 21). Whom the core has there, it takes down
 * itself; one that was leaving for elsewhere it has there no longer. */
void attempt_node_lost(struct ctl *ctl, uint32_t node)
{
    for (int64_t from = 0;;) {
        struct book_job *job = book_after(&ctl->book, from);

        if (!job)
            return;
        from = job->id;
        for (uint32_t a = 0; a < job->attempt_count; a++)
            for (uint32_t t = 0; t < job->attempts[a].task_count; t++) {
                struct book_task *task = &job->attempts[a].tasks[t];

                if (task->node != node || task_gone(task))
                    continue;
                task->state = TASK_EXITED;
                task->ended = ctl->now;
                memcpy(task->cause, "lost", sizeof("lost"));
                job->version++;
            }
        if (attempt_of(job) && attempt_of(job)->moves && !attempt_of(job)->ended && attempt_gone(attempt_of(job)))
            attempt_over(ctl, job);
        if (job->waits_old && attempt_ready(ctl, job))
            attempt_launch(ctl, job);
    }
}
