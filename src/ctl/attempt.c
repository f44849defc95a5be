/* SPDX-License-Identifier: Apache-2.0 */
/* attempt.c - one run of a job: its tasks on their nodes, and what they report. How it ends: attempt_end.c.
 *
 *   placed ─► launch ─► every rank ready ─► go ─► every rank running ─► every rank exited
 *                 (a job on one node is launched with go)
 *
 * A rank that fails ends the gang; so does the first rank's exit where the script runs only there. An attempt is
 * launched when no task of the one before is left anywhere, so a job never runs twice (attempt_wait.c).
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "core/sides.h"
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
        if (ledger->gpus[ledger->shares[s].gpu].node != last && !ledger->shares[s].leaving && ++nodes)
            last = ledger->gpus[ledger->shares[s].gpu].node;
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
        if (node != last)
            attempt->tasks[attempt->task_count++] =
                (struct book_task){ .state = TASK_PREPARING,
                                    .node = book_node_of(ctl, node),
                                    .part = job_part(core_job(ctl->core, job->slot), ledger->topo.nodes[node].sku) };
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

void attempt_tell(struct ctl *ctl, struct book_job *job, uint32_t rank, json_t *place)
{
    struct book_task *task = &attempt_now(job)->tasks[rank];
    bool told = ctl_order(ctl, task->node, order_launch(ctl, job, rank, place));

    task->untold = task->untold && !told;
    ctl->book.nodes[task->node].untold |= task->untold;
}

void attempt_launch(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_now(job);
    json_t *place = order_place(ctl, attempt);

    job->waits_old = false;
    attempt->told_go = attempt->task_count == 1 && !attempt->prepared;
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        attempt->tasks[t].untold = true;
        attempt_tell(ctl, job, t, place);
    }
    json_decref(place);
}

void attempt_launch_ready(struct ctl *ctl, struct book_job *job)
{
    if (attempt_ready(ctl, job)) {
        attempt_launch(ctl, job);
        return;
    }
    job->waits_old = true;
    for (uint32_t t = 0; t < attempt_now(job)->task_count; t++)
        ctl->book.nodes[attempt_now(job)->tasks[t].node].untold = true;
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
        attempt_tell(ctl, job, t, place);
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

#define PEER_GRACE (5 * USEC_SEC)

/* The gang is over: what is left of it is told to leave. */
static void peers_end(struct ctl *ctl, struct book_job *job, usec_t grace)
{
    struct book_attempt *attempt = attempt_now(job);

    attempt->ending = true;
    if (!attempt->kept_until)
        job_phase(ctl, job, PHASE_JOB_COMPLETING);
    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (!task_gone(&attempt->tasks[t])) {
            json_t *order = order_stop(ctl, job, attempt, grace);

            (void)json_object_set_new(order, "kind", json_string("peer"));
            ctl_order(ctl, attempt->tasks[t].node, order);
        }
}

bool attempt_kept(const struct book_job *job)
{
    const struct book_attempt *attempt = book_attempt(job);

    return attempt && attempt->kept_until && !attempt->ended && !attempt->stopping;
}

/* All of its gang is: what is left of its processes ends as always, and who has it to look into finds every node. */
static void keep_begin(struct ctl *ctl, struct book_job *job, int code, int number)
{
    struct book_attempt *attempt = attempt_now(job);

    if (attempt->kept_until || attempt->stopping || attempt->ending)
        return;
    attempt->kept_until = ctl->now + job->spec->keep_on_fail;
    job->reason_since = ctl->now;
    job->version++;
    ctl_event(ctl, "job.kept", job, NULL,
              json_pack("{s:i, s:i, s:I}", "exit", code, "signal", number, "until",
                        (json_int_t)(attempt->kept_until / USEC_SEC)));
}

void attempt_end_peers(struct ctl *ctl, struct book_job *job)
{
    const struct book_attempt *attempt = attempt_now(job);

    if (attempt->ending)
        return;
    if (attempt->role_verdict == ROLES_FAILED && job->spec->keep_on_fail > 0)
        keep_begin(ctl, job, attempt->role_exit, attempt->role_signal);
    peers_end(ctl, job, PEER_GRACE);
}

/* It runs, or has run. */
static void attempt_began(struct ctl *ctl, struct book_job *job)
{
    if (attempt_now(job)->started)
        return;
    attempt_now(job)->started = ctl->now;
    job->first_start = job->first_start ? job->first_start : ctl->now;
    job->last_start = ctl->now;
}

/* Whether the end of the rank is that of its gang. */
static bool gang_ends(const struct book_job *job, const struct book_attempt *attempt, uint32_t rank, bool failed)
{
    const struct book_task *task = &attempt->tasks[rank];
    bool lost = task->state == TASK_REFUSED || task->cause[0] == 'l', roles = job->spec->role_count > 0;

    return (job->spec->launch == LAUNCH_ONCE && rank == 0) || (roles ? lost : failed && !job->spec->no_kill);
}

static int64_t number_or(const json_t *object, const char *key, int64_t standard)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) ? json_integer_value(value) : standard;
}

#define TOLD_LATE (100 * USEC_MSEC)

/* Where its start was told late, perhaps together with its end (the node was cut off, or had no time), it ran as long
 * as its node says. */
static void ran_longer(struct ctl *ctl, struct book_job *job, const json_t *report)
{
    struct book_attempt *attempt = attempt_now(job);
    usec_t started = number_or(report, "started", 0), at = number_or(report, "at", 0), began;

    if (ctl->config.virtual_time || !attempt->started || started <= 0 || at <= started)
        return;
    began = at - started < ctl->now - attempt->placed ? ctl->now - (at - started) : attempt->placed;
    if (began + TOLD_LATE > attempt->started)
        return;
    job->first_start = job->first_start == attempt->started ? began : job->first_start;
    job->last_start = job->last_start == attempt->started ? began : job->last_start;
    attempt->started = began;
}

static void rank_suspended(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_now(job);

    if (!ranks_all(attempt, TASK_SUSPENDED))
        return;
    job_phase(ctl, job, PHASE_JOB_SUSPENDED);
    /* The core wanted it, to give the GPUs to another; or a person, who keeps them. */
    if (core_job(ctl->core, job->slot)->state == JOB_STOPPING)
        ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_STOPPED, .progress = job->said_progress });
    else
        job->suspended_by_user = true;
    if (job->orphan)
        turns_leave(ctl, job);
}

static void rank_exited(struct ctl *ctl, struct book_job *job, uint32_t rank)
{
    struct book_attempt *attempt = attempt_now(job);
    const struct book_task *task = &attempt->tasks[rank];
    bool failed = task->exit != 0 || task->signal != 0 || task->state == TASK_REFUSED || task->cause[0] == 'l';
    bool ends = gang_ends(job, attempt, rank, failed);

    /* One that ended before it could be said to run has run all the same. */
    if (task->state == TASK_EXITED && task->cause[0] != 'l' && attempt->told_go)
        attempt_began(ctl, job);
    if (attempt_gone(attempt)) {
        attempt_over(ctl, job);
        return;
    }
    if (attempt->ending)
        return;
    if (ends)
        peers_end(ctl, job, failed ? PEER_GRACE : 0);
    else if (ranks_all(attempt, TASK_SUSPENDED)) /* the last that had not stopped */
        rank_suspended(ctl, job);
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
        ctl_order(ctl, attempt->tasks[t].node, order_go(ctl, job, attempt));
}

static void rank_running(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_now(job);
    bool resumed = job->phase == PHASE_JOB_SUSPENDED;

    if (!ranks_all(attempt, TASK_RUNNING))
        return;
    if (attempt->phase == PHASE_JOB_RUNNING && !resumed)
        return;
    attempt_began(ctl, job);
    job->suspended_by_user = false;
    if (attempt->stopping || (attempt->ending && !attempt->kept_until))
        return;
    attempt->phase = PHASE_JOB_RUNNING;
    job_phase(ctl, job, PHASE_JOB_RUNNING);
    if (core_job(ctl->core, job->slot)->state == JOB_STARTING)
        ctl_tell_core(ctl, job,
                      (struct event){ .kind = EVENT_STARTED, .rate = job->said_rate, .progress = PROGRESS_OWN });
    job_timer_set(ctl, job);
}

/* It has failed, and its place is kept (--keep-on-fail): the core has it as running, and how it ended counts when that
 * is over. A node that keeps what is not to be kept is told. */
static void rank_kept(struct ctl *ctl, struct book_job *job, uint32_t rank)
{
    struct book_attempt *attempt = attempt_now(job);
    const struct book_task *task = &attempt->tasks[rank];

    attempt_began(ctl, job);
    if (job->spec->role_count == 0) /* with roles, the ends of their tasks have decided */
        keep_begin(ctl, job, task->exit, task->signal);
    if (!attempt_kept(job)) {
        ctl_order(ctl, task->node, order_stop(ctl, job, attempt, 0));
        return;
    }
    rank_running(ctl, job);
    if (!attempt->ending && gang_ends(job, attempt, rank, true))
        peers_end(ctl, job, PEER_GRACE);
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
    task->silent = json_is_true(json_object_get(report, "silent"));
    used_note(task, json_object_get(report, "used"));
}

/* Before its job may be placed again. */
static void refusal_note(struct ctl *ctl, struct book_attempt *attempt, struct book_task *task, const char *words)
{
    words = words ? words : "it did not say why";
    sick_note(ctl, attempt, task, words);
    if (task->blame == FAIL_SYSTEM)
        sick_refused(ctl, task->node, words);
}

/* A task of an attempt that is closed already: when the last of them is gone, the next attempt may start. */
static void late_exit(struct ctl *ctl, struct book_job *job, struct book_attempt *attempt, uint32_t rank)
{
    ctl_order(ctl, attempt->tasks[rank].node, order_simple(job, attempt, ORDER_CLEAN));
    if (job->waits_old && attempt_ready(ctl, job))
        attempt_launch(ctl, job);
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

/* One state of a task. `said` is what goes with it: NULL where the report is about a later one. */
static void state_take(struct ctl *ctl, uint32_t node, const json_t *report, int state, const json_t *said)
{
    struct book_job *job = book_get(&ctl->book, json_integer_value(json_object_get(report, "job")));
    uint32_t number = (uint32_t)json_integer_value(json_object_get(report, "attempt"));
    uint32_t rank = (uint32_t)json_integer_value(json_object_get(report, "rank"));
    struct book_attempt *attempt;
    struct book_task *task;
    bool was_kept, vacated = ctl->book.nodes[node].vacated;

    if (!job || number >= job->attempt_count || rank >= job->attempts[number].task_count) {
        attempt_left(ctl, node, vacated); /* of a job that is over: it was told to clean up */
        return;
    }
    attempt = &job->attempts[number];
    task = &attempt->tasks[rank];
    if (task->node != node || task_gone(task))
        return;
    if (json_object_get(said, "ended") && attempt == attempt_now(job) && !attempt->ended)
        roles_ended(ctl, job, attempt, json_object_get(said, "ended"));
    if (state < 0)
        return;
    was_kept = task->state == TASK_KEPT;
    task->state = (uint32_t)state;
    job->version++;
    job->said_progress = number_or(said, "progress", PROGRESS_OWN);
    job->said_rate = number_or(said, "rate", PPM_ONE);
    if (was_kept) /* how it ended is known */
        used_note(task, json_object_get(report, "used"));
    else if (state == TASK_EXITED || state == TASK_REFUSED || state == TASK_KEPT)
        task_gone_note(ctl, task, report);
    if (state == TASK_REFUSED)
        refusal_note(ctl, attempt, task, json_string_value(json_object_get(report, "cause")));
    else if (state == TASK_READY || state == TASK_RUNNING)
        sick_well(ctl, node);
    if (attempt != attempt_now(job) || attempt->ended) {
        if (task_gone(task)) {
            late_exit(ctl, job, attempt, rank);
            attempt_left(ctl, node, vacated);
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
    else if (state == TASK_KEPT)
        rank_kept(ctl, job, rank);
    else if (task_gone(task)) {
        if (was_kept && attempt->ending && attempt_kept(job) && !attempt_gone(attempt))
            attempt_stop(ctl, job, "release", 0, 0); /* it is over on one of its nodes: so on all */
        ran_longer(ctl, job, report);
        rank_exited(ctl, job, rank);
        attempt_left(ctl, node, vacated);
    }
}

void attempt_report(struct ctl *ctl, uint32_t node, const json_t *report)
{
    int state = task_state_find(json_string_value(json_object_get(report, "state")));

    if (state == TASK_EXITED && json_is_true(json_object_get(report, "ran")))
        state_take(ctl, node, report, TASK_RUNNING, NULL); /* it ended before that was said */
    state_take(ctl, node, report, state, report);
}

/* Nobody can have started it: it is as if its node had refused it, and where nothing of its attempt was launched yet,
 * that is over with it. */
void attempt_untold(struct ctl *ctl, struct book_job *job, uint32_t rank)
{
    struct book_attempt *attempt = attempt_now(job);

    for (uint32_t t = 0; t < attempt->task_count; t++) {
        struct book_task *task = &attempt->tasks[t];

        if (t != rank && !job->waits_old)
            continue;
        task->state = TASK_REFUSED;
        task->blame = FAIL_SYSTEM;
        task->ended = ctl->now;
        memcpy(task->cause, "untold", sizeof("untold"));
    }
    job->waits_old = false;
    job->version++;
    rank_exited(ctl, job, rank);
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
                if (task->state != TASK_KEPT) { /* then how it ended is known */
                    task->ended = ctl->now;
                    memcpy(task->cause, "lost", sizeof("lost"));
                }
                task->state = TASK_EXITED;
                job->version++;
            }
        if (attempt_of(job) && attempt_of(job)->moves && !attempt_of(job)->ended && attempt_gone(attempt_of(job)))
            attempt_over(ctl, job);
        if (job->waits_old && attempt_ready(ctl, job))
            attempt_launch(ctl, job);
    }
}
