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
#include "core/planning/gang_parts.h"
#include "ctl/state/state_internal.h"

enum { PORT_FIRST = 20000, PORT_COUNT = 20000 };

usec_t job_grace(const struct ctl *ctl, const struct ctl_job *job)
{
    return job->spec->grace > 0 ? job->spec->grace : ctl->config.grace;
}

void job_phase(struct ctl *ctl, struct ctl_job *job, enum phase_of_job phase)
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
        bool queued = job_in_core(job) && job_waits((enum job_state)core_job(ctl->core, job->slot)->state);

        job->reason = queued ? core_reason(ctl->core, job->slot) : REASON_SCHEDULING;
        job->reason_since = ctl->now;
    }
    if (kinds[phase])
        ctl_event(ctl, kinds[phase], job, NULL, NULL);
}

void job_end(struct ctl *ctl, struct ctl_job *job, enum phase_of_job phase, const char *text)
{
    struct ctl_attempt *attempt = attempt_of(job);

    assert(phase_over(phase));
    assert(job->link == LINK_OUTSIDE);
    assert(!attempt_live(attempt));
    if (text != job->end_text)
        text_fit(job->end_text, sizeof(job->end_text), text ? text : "");
    job->phase = phase;
    gate_set(ctl, job, GATE_NONE);
    job->end = ctl->now;
    job->version++;
    if (attempt && !attempt->ended)
        attempt->ended = ctl->now;
    ctl->registry.ended[phase]++;
    registry_retire(ctl, job);
    if (ctl->config.over)
        ctl->config.over(ctl->config.over_arg, ctl, job);
    attempt_forgets(ctl, job);
    ctl_event(ctl, "job.ended", job, NULL,
              FACTS(fact_number("exit", job->exit), fact_text("state", phase_name(phase))));
    gate_left(ctl, job);
}

static uint32_t ctl_node_of(const struct ctl *ctl, uint32_t node)
{
    for (uint32_t n = 0; n < ctl->registry.node_count; n++)
        if (ctl->registry.nodes[n].core_node == node)
            return n;
    return 0;
}

/* A rank for each node of a job without GPUs. */
static int tasks_new(struct ctl *ctl, const struct ctl_job *job, struct ctl_attempt *attempt)
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
            (struct ctl_task){ .state = TASK_PREPARING, .node = ctl_node_of(ctl, list[i].node) };
    mem_free(list);
    return 0;
}

/* A rank for each node of the job's shares, which are in order of GPUs. */
int attempt_new(struct ctl *ctl, struct ctl_job *job)
{
    const struct ledger *ledger = ctl_ledger(ctl);
    struct ctl_attempt *attempt;
    uint32_t nodes = 0, last = UINT32_MAX;

    assert(job_in_core(job));
    assert(!attempt_live(attempt_of(job))); /* one at a time */
    if (ctl_attempt_add(job) < 0)
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
        struct ctl_task *task;
        uint16_t *grown;

        if (share->leaving)
            continue;
        if (node != last)
            attempt->tasks[attempt->task_count++] =
                (struct ctl_task){ .state = TASK_PREPARING,
                                   .node = ctl_node_of(ctl, node),
                                   .part = job_part(core_job(ctl->core, job->slot), ledger->topo.nodes[node].sku) };
        last = node;
        task = &attempt->tasks[attempt->task_count - 1];
        grown = mem_resize(task->gpus, task->gpu_count + 1u, sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        task->gpus = grown;
        task->gpus[task->gpu_count++] = (uint16_t)(share->gpu - ledger->topo.nodes[node].first_gpu);
    }
    assert(attempt->task_count > 0);
    assert(attempt->state == ATTEMPT_PLACED);
    attempt->placed = ctl->now;
    attempt->port = (uint16_t)(PORT_FIRST + (job->id * 7 + attempt->number) % PORT_COUNT);
    job->version++;
    return 0;
}

void attempt_tell(struct ctl *ctl, struct ctl_job *job, uint32_t rank, const struct order_place *place)
{
    struct ctl_task *task = &attempt_now(job)->tasks[rank];
    bool told = ctl_order(ctl, task->node, order_launch(ctl, job, rank, place));

    assert(rank < attempt_now(job)->task_count);
    task->untold = task->untold && !told;
    ctl->registry.nodes[task->node].untold |= task->untold;
}

void attempt_launch(struct ctl *ctl, struct ctl_job *job, bool gated)
{
    struct ctl_attempt *attempt = attempt_now(job);
    bool alone = attempt->task_count == 1;

    assert(attempt->state == ATTEMPT_PLACED);
    for (uint32_t t = 0; t < attempt->task_count; t++)
        attempt->tasks[t].untold = true;
    attempt_happens(ctl, job, attempt,
                    gated   ? ATTEMPT_EVENT_PREPARE
                    : alone ? ATTEMPT_EVENT_LAUNCH_ALONE
                            : ATTEMPT_EVENT_LAUNCH,
                    0);
}

void attempt_launch_ready(struct ctl *ctl, struct ctl_job *job)
{
    assert(attempt_now(job)->state == ATTEMPT_PLACED);
    if (attempt_ready(ctl, job)) {
        attempt_launch(ctl, job, false);
        return;
    }
    for (uint32_t t = 0; t < attempt_now(job)->task_count; t++)
        ctl->registry.nodes[attempt_now(job)->tasks[t].node].untold = true;
}

/* Its launch is repeated, with its time limit from now on; whoever is not ready yet goes when it is. */
void attempt_open(struct ctl *ctl, struct ctl_job *job)
{
    struct ctl_attempt *attempt = attempt_now(job);
    bool ready = true;

    assert(attempt->state == ATTEMPT_GATED);
    attempt->placed = ctl->now;
    for (uint32_t t = 0; t < attempt->task_count; t++)
        ready = ready && attempt->tasks[t].state == TASK_READY;
    ready |= attempt->task_count == 1;
    attempt_happens(ctl, job, attempt, ready ? ATTEMPT_EVENT_OPEN_READY : ATTEMPT_EVENT_OPEN, 0);
}

/* Nothing of it was launched: it is as if its tasks had left. */
static void unplaced_over(struct ctl *ctl, struct ctl_job *job)
{
    struct ctl_attempt *attempt = attempt_now(job);

    assert(attempt->state == ATTEMPT_PLACED);
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        attempt->tasks[t].state = TASK_EXITED;
        attempt->tasks[t].cause = attempt->stop_cause;
    }
    attempt_over(ctl, job);
}

void attempt_stop(struct ctl *ctl, struct ctl_job *job, enum stop_cause cause, int64_t by, usec_t grace)
{
    struct ctl_attempt *attempt = attempt_of(job);

    assert(cause != STOP_CAUSE_NONE);
    assert(grace >= 0);
    if (!attempt_live(attempt))
        return;
    /* What a person wants stays what it is when something else would stop it too. */
    if (!attempt_leaving(attempt) || cause == STOP_CAUSE_CANCEL) {
        attempt->stop_cause = (uint8_t)cause;
        attempt->stop_by = by;
    }
    attempt->stop_at = ctl->now;
    attempt->grace = grace;
    if (attempt->state == ATTEMPT_PLACED)
        unplaced_over(ctl, job);
    else
        attempt_happens(ctl, job, attempt, ATTEMPT_EVENT_STOP, 0);
}

void attempt_move(struct ctl *ctl, struct ctl_job *job)
{
    struct ctl_attempt *attempt = attempt_now(job);

    assert(attempt_live(attempt));
    if (!attempt_leaving(attempt)) {
        attempt->stop_cause = STOP_CAUSE_MIGRATE;
        attempt->stop_by = 0;
    }
    attempt->stop_at = ctl->now;
    attempt->grace = job_grace(ctl, job);
    attempt_leaves(ctl, attempt);
    attempt_happens(ctl, job, attempt, ATTEMPT_EVENT_MOVE, 0);
}

void attempt_withdraw(struct ctl *ctl, struct ctl_job *job, enum phase_of_job phase)
{
    struct ctl_attempt *attempt = attempt_now(job);
    bool launched = attempt->state == ATTEMPT_GATED;

    assert(attempt_in(attempt, ATTEMPT_SET(GATED) | ATTEMPT_SET(PLACED)));
    attempt->phase = phase;
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        if (launched)
            ctl_order(ctl, attempt->tasks[t].node, order_simple(job, attempt, ORDER_CLEAN));
        attempt->tasks[t].state = TASK_EXITED;
    }
    attempt_happens(ctl, job, attempt, ATTEMPT_EVENT_WITHDRAW, 0);
    job->version++;
}

#define PEER_GRACE (5 * USEC_SEC) /* of what is left of a gang that has ended */

bool attempt_kept(const struct ctl_job *job)
{
    return attempt_in(attempt_last(job), ATTEMPT_SET(KEPT));
}

/* All of its gang is: what is left of its processes ends as always, and who has it to look into finds every node. */
static void keep_begin(struct ctl *ctl, struct ctl_job *job, int code, int number)
{
    struct ctl_attempt *attempt = attempt_now(job);

    if (attempt_kept(job))
        return;
    attempt_happens(ctl, job, attempt, ATTEMPT_EVENT_KEEP, 0);
    if (attempt_kept(job))
        ctl_event(ctl, "job.kept", job, NULL,
                  FACTS(fact_number("exit", code), fact_number("signal", number),
                        fact_number("until", attempt->kept_until / USEC_SEC)));
}

void attempt_end_peers(struct ctl *ctl, struct ctl_job *job)
{
    struct ctl_attempt *attempt = attempt_now(job);

    if (attempt->gang_ended)
        return;
    if (attempt->role_verdict == ROLES_FAILED && job->spec->keep_on_fail > 0)
        keep_begin(ctl, job, attempt->role_exit, attempt->role_signal);
    attempt_happens(ctl, job, attempt, ATTEMPT_EVENT_GANG_ENDS, PEER_GRACE);
}

void attempt_began(struct ctl *ctl, struct ctl_job *job)
{
    if (attempt_now(job)->started)
        return;
    attempt_now(job)->started = ctl->now;
    job->first_start = job->first_start ? job->first_start : ctl->now;
    job->last_start = ctl->now;
    job_timer_set(ctl, job);
}

/* Whether the end of the rank is that of its gang. */
static bool gang_ends(const struct ctl_job *job, const struct ctl_attempt *attempt, uint32_t rank, bool failed)
{
    const struct ctl_task *task = &attempt->tasks[rank];
    bool lost = task->state == TASK_REFUSED || task->cause == TASK_CAUSE_LOST, roles = job->spec->role_count > 0;

    return (job->spec->launch == LAUNCH_ONCE && rank == 0) || (roles ? lost : failed && !job->spec->no_kill);
}

static int64_t number_or(const struct opt_number *number, int64_t standard)
{
    return number->given == GIVEN_VALUE ? number->value : standard;
}

#define TOLD_LATE (100 * USEC_MSEC)

/* Where its start was told late, perhaps together with its end (the node was cut off, or had no time), it ran as long
 * as its node says. */
static void ran_longer(struct ctl *ctl, struct ctl_job *job, const struct entry_report *report)
{
    struct ctl_attempt *attempt = attempt_now(job);
    usec_t started = report->started, at = report->at, began;

    if (ctl->config.virtual_time || !attempt->started || started <= 0 || at <= started)
        return;
    began = at - started < ctl->now - attempt->placed ? ctl->now - (at - started) : attempt->placed;
    if (began + TOLD_LATE > attempt->started)
        return;
    job->first_start = job->first_start == attempt->started ? began : job->first_start;
    job->last_start = job->last_start == attempt->started ? began : job->last_start;
    attempt->started = began;
    job_timer_set(ctl, job); /* what is left of its time is less, while other ranks go on */
}

static void rank_suspended(struct ctl *ctl, struct ctl_job *job)
{
    if (ranks_all(attempt_now(job), TASK_SUSPENDED))
        attempt_happens(ctl, job, attempt_now(job), ATTEMPT_EVENT_OFF, 0);
}

static void rank_exited(struct ctl *ctl, struct ctl_job *job, uint32_t rank)
{
    struct ctl_attempt *attempt = attempt_now(job);
    const struct ctl_task *task = &attempt->tasks[rank];
    bool failed = task->exit != 0 || task->signal != 0 || task->state == TASK_REFUSED || task->cause == TASK_CAUSE_LOST;
    bool ends = gang_ends(job, attempt, rank, failed);

    assert(rank < attempt->task_count);
    assert(task_gone(task));
    /* One that ended before it could be said to run has run all the same. */
    if (task->state == TASK_EXITED && task->cause != TASK_CAUSE_LOST && attempt->went)
        attempt_began(ctl, job);
    if (attempt_gone(attempt)) {
        attempt_over(ctl, job);
        return;
    }
    if (attempt->gang_ended)
        return;
    if (ends)
        attempt_happens(ctl, job, attempt, ATTEMPT_EVENT_GANG_ENDS, failed ? PEER_GRACE : 0);
    else if (ranks_all(attempt, TASK_SUSPENDED)) /* the last that had not stopped */
        rank_suspended(ctl, job);
}

static void rank_ready(struct ctl *ctl, struct ctl_job *job)
{
    struct ctl_attempt *attempt = attempt_now(job);

    for (uint32_t t = 0; t < attempt->task_count; t++)
        if (attempt->tasks[t].state != TASK_READY)
            return;
    attempt_happens(ctl, job, attempt, ATTEMPT_EVENT_READY, 0);
}

static void rank_running(struct ctl *ctl, struct ctl_job *job)
{
    if (ranks_all(attempt_now(job), TASK_RUNNING))
        attempt_happens(ctl, job, attempt_now(job), ATTEMPT_EVENT_RUN, 0);
}

/* It has failed, and its place is kept (--keep-on-fail): the core has it as running, and how it ended counts when that
 * is over. A node that keeps what is not to be kept is told. */
static void rank_kept(struct ctl *ctl, struct ctl_job *job, uint32_t rank)
{
    struct ctl_attempt *attempt = attempt_now(job);
    const struct ctl_task *task = &attempt->tasks[rank];

    assert(task->state == TASK_KEPT);
    assert(attempt_live(attempt));
    attempt_began(ctl, job);
    if (job->spec->role_count == 0) /* with roles, the ends of their tasks have decided */
        keep_begin(ctl, job, task->exit, task->signal);
    if (!attempt_kept(job)) {
        ctl_order(ctl, task->node, order_stop(ctl, job, attempt, 0));
        return;
    }
    rank_running(ctl, job);
    if (!attempt->gang_ended && gang_ends(job, attempt, rank, true))
        attempt_happens(ctl, job, attempt, ATTEMPT_EVENT_GANG_ENDS, PEER_GRACE);
}

/* A node may say anything: what cannot be is not noted. */
static void used_note(struct ctl_task *task, const struct entry_report *report)
{
    int64_t samples = report->used_samples, memory = report->used_memory_mib;

    if (samples <= 0 || samples > UINT32_MAX || memory < 0 || memory > UINT32_MAX)
        return;
    task->used_samples = (uint32_t)samples;
    task->used_memory_mib = (uint32_t)memory;
    task->used_util = (uint16_t)report->used_util;
    task->used_util_dev = (uint16_t)report->used_util_dev;
}

void task_cause_note(struct ctl_task *task, const char *word)
{
    task->cause = (uint8_t)task_cause_find(word);
    task->cause_word[0] = '\0';
    if (task->cause == TASK_CAUSE_OTHER)
        text_fit(task->cause_word, sizeof(task->cause_word), word);
}

static void task_gone_note(struct ctl *ctl, struct ctl_task *task, const struct entry_report *report)
{
    task->exit = (int)report->exit;
    task->signal = (int)report->signal;
    task->oom = report->oom;
    task->blame = number_or(&report->blame, BLAME_SYSTEM) == BLAME_USER ? FAIL_USER : FAIL_SYSTEM;
    task_cause_note(task, report->cause ? report->cause : task_cause_name(TASK_CAUSE_EXIT));
    task->ended = ctl->now;
    task->silent = report->silent;
    used_note(task, report);
}

/* Before its job may be placed again. */
static void refusal_note(struct ctl *ctl, struct ctl_attempt *attempt, struct ctl_task *task, const char *words)
{
    words = words ? words : "it did not say why";
    sick_note(ctl, attempt, task, words);
    if (task->blame == FAIL_SYSTEM)
        sick_refused(ctl, task->node, words);
}

/* A task of an attempt that is closed already: when the last of them is gone, the next attempt may start. */
static void late_exit(struct ctl *ctl, struct ctl_job *job, struct ctl_attempt *attempt, uint32_t rank)
{
    ctl_order(ctl, attempt->tasks[rank].node, order_simple(job, attempt, ORDER_CLEAN));
    if (attempt_in(attempt, ATTEMPT_SET(LEFT)) && attempt_gone(attempt))
        attempt_happens(ctl, job, attempt, ATTEMPT_EVENT_GONE, 0);
    if (job_waits_for_place(job) && attempt_ready(ctl, job))
        attempt_launch(ctl, job, false);
}

/* What a running job measures of itself: its speed and progress, or something that its policy learns from. */
void attempt_measure(struct ctl *ctl, struct ctl_job *job, const struct entry_report *report)
{
    const struct number_list *values = &report->measure_values;
    struct event event = { .kind = values->count ? EVENT_REPORT : EVENT_RATE,
                           .rate = report->measure_rate,
                           .progress = number_or(&report->measure_progress, PROGRESS_OWN) };

    if (!job_in_core(job) || event.rate < 0 || event.rate > 1000 * PPM_ONE)
        return;
    event.report.kind = (uint32_t)report->measure_kind;
    for (size_t i = 0; i < values->count && i < sizeof(event.report.value) / sizeof(*event.report.value); i++)
        event.report.value[i] = values->items[i];
    ctl_tell_core(ctl, job, event);
}

/* One state of a task. `said` is what goes with it: NULL where the report is about a later one. */
static void state_take(struct ctl *ctl, uint32_t node, const struct entry_report *report, int state,
                       const struct entry_report *said)
{
    struct ctl_job *job = registry_get(&ctl->registry, report->job);
    uint32_t number = (uint32_t)report->attempt, rank = (uint32_t)report->rank;
    struct ctl_attempt *attempt;
    struct ctl_task *task;
    bool was_kept, vacated = ctl->registry.nodes[node].vacated;

    if (!job || number >= job->attempt_count || rank >= job->attempts[number].task_count) {
        attempt_left(ctl, node, vacated); /* of a job that is over: it was told to clean up */
        return;
    }
    attempt = &job->attempts[number];
    task = &attempt->tasks[rank];
    if (task->node != node || task_gone(task))
        return;
    if (said && said->ended_roles.count && attempt == attempt_now(job) && attempt_live(attempt))
        roles_ended(ctl, job, attempt, said);
    if (state < 0)
        return;
    was_kept = task->state == TASK_KEPT;
    task->state = (uint32_t)state;
    job->version++;
    job->said_progress = said ? number_or(&said->progress, PROGRESS_OWN) : PROGRESS_OWN;
    job->said_rate = said ? number_or(&said->rate, PPM_ONE) : PPM_ONE;
    /* A node may say anything; the core takes what can be. */
    if (job->said_rate < 0 || job->said_rate > 1000 * PPM_ONE)
        job->said_rate = PPM_ONE;
    if (job->said_progress < 0)
        job->said_progress = PROGRESS_OWN;
    if (was_kept) /* how it ended is known */
        used_note(task, report);
    else if (state == TASK_EXITED || state == TASK_REFUSED || state == TASK_KEPT)
        task_gone_note(ctl, task, report);
    if (state == TASK_REFUSED)
        refusal_note(ctl, attempt, task, report->cause);
    else if (state == TASK_READY || state == TASK_RUNNING)
        sick_well(ctl, node);
    if (attempt != attempt_now(job) || !attempt_live(attempt)) {
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
        if (was_kept && attempt->gang_ended && attempt_kept(job) && !attempt_gone(attempt))
            attempt_stop(ctl, job, STOP_CAUSE_RELEASE, 0, 0); /* it is over on one of its nodes: so on all */
        ran_longer(ctl, job, report);
        rank_exited(ctl, job, rank);
        attempt_left(ctl, node, vacated);
    }
}

void attempt_report(struct ctl *ctl, uint32_t node, const struct entry_report *report)
{
    int state = (int)number_or(&report->state, -1);

    if (state == TASK_EXITED && report->ran)
        state_take(ctl, node, report, TASK_RUNNING, NULL); /* it ended before that was said */
    state_take(ctl, node, report, state, report);
}

/* Nobody can have started it: it is as if its node had refused it, and where nothing of its attempt was launched yet,
 * that is over with it. */
void attempt_untold(struct ctl *ctl, struct ctl_job *job, uint32_t rank)
{
    struct ctl_attempt *attempt = attempt_now(job);

    assert(rank < attempt->task_count);
    assert(attempt_live(attempt));
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        struct ctl_task *task = &attempt->tasks[t];

        if (t != rank && attempt->state != ATTEMPT_PLACED)
            continue;
        task->state = TASK_REFUSED;
        task->blame = FAIL_SYSTEM;
        task->ended = ctl->now;
        task->cause = TASK_CAUSE_UNTOLD;
    }
    job->version++;
    rank_exited(ctl, job, rank);
}

/* Some of its tasks may be gone with their node. */
static void node_lost_job(struct ctl *ctl, struct ctl_job *job)
{
    struct ctl_attempt *attempt = attempt_of(job);

    for (uint32_t a = 0; a < job->attempt_count; a++)
        if (attempt_in(&job->attempts[a], ATTEMPT_SET(LEFT)) && attempt_gone(&job->attempts[a]))
            attempt_happens(ctl, job, &job->attempts[a], ATTEMPT_EVENT_GONE, 0);
    /* The core has it elsewhere, and does not take it down: one that moves, or that was suspended there, be it that it
     * was told to leave since. */
    if (attempt && attempt_gone(attempt) &&
        (attempt->state == ATTEMPT_MOVING ||
         (attempt_in(attempt, ATTEMPT_SET(SUSPENDED) | ATTEMPT_SET(STOPPING)) && !attempt_placed(ctl, job))))
        attempt_over(ctl, job);
    if (job_waits_for_place(job) && attempt_ready(ctl, job))
        attempt_launch(ctl, job, false);
}

/* The lease of a node ran out: what it ran is dead, by its own hand (ADR 21). Whom the core has there, it takes down
 * itself; one that was leaving for elsewhere it has there no longer. */
void attempt_node_lost(struct ctl *ctl, uint32_t node)
{
    for (int64_t from = 0;;) {
        struct ctl_job *job = registry_after(&ctl->registry, from);

        if (!job)
            return;
        from = job->id;
        for (uint32_t a = 0; a < job->attempt_count; a++)
            for (uint32_t t = 0; t < job->attempts[a].task_count; t++) {
                struct ctl_task *task = &job->attempts[a].tasks[t];

                if (task->node != node || task_gone(task))
                    continue;
                if (task->state != TASK_KEPT) { /* then how it ended is known */
                    task->ended = ctl->now;
                    task->cause = TASK_CAUSE_LOST;
                }
                task->state = TASK_EXITED;
                job->version++;
            }
        node_lost_job(ctl, job);
    }
}
