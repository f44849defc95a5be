/* SPDX-License-Identifier: Apache-2.0 */
/* core_effect.c - what the core wants done becomes attempts and orders. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"
#include "work/work.h"

enum { SOLVE_WORDS_MAX = 1 << 20, EFFECTS_MAX = 1 << 26 };

/* Launched now, up to its gate: the job whose GPUs it is to have still has them. It waits as before; START opens the
 * gate. While something of it is left elsewhere it is launched when its GPUs are free, as any other. */
static void effect_prepare(struct ctl *ctl, struct ctl_job *job)
{
    int r;

    if (job->attempt_count && !attempt_gone(attempt_now(job)))
        return;
    r = attempt_new(ctl, job);
    assert(r == 0);
    (void)r;
    attempt_launch(ctl, job, true);
}

static void effect_start(struct ctl *ctl, struct ctl_job *job)
{
    struct ctl_attempt *attempt = attempt_of(job);
    int r;

    /* Stopped again within the step that started it, or let go by us within it: nothing of it is launched. */
    if (core_job(ctl->core, job->slot)->state != JOB_STARTING || job->link != LINK_INSIDE)
        return;
    if (attempt_in(attempt, ATTEMPT_SET(GATED))) {
        job_phase(ctl, job, PHASE_JOB_STARTING);
        attempt_open(ctl, job);
        return;
    }
    if (attempt_live(attempt)) {
        /* It was suspended and its processes are there. One that is leaving goes on leaving: the core is told then. */
        if (attempt->state == ATTEMPT_SUSPENDED && !attempt_placed(ctl, job))
            attempt_move(ctl, job);
        else
            attempt_happens(ctl, job, attempt, ATTEMPT_EVENT_RESUME, 0);
        return;
    }
    r = attempt_new(ctl, job);
    assert(r == 0);
    (void)r;
    job_phase(ctl, job, PHASE_JOB_STARTING);
    attempt_launch_ready(ctl, job);
}

/* It is to leave: a way of the ladder that the job can go, at best the one the core names. */
static void effect_stop(struct ctl *ctl, struct ctl_job *job, enum stop_step step)
{
    struct ctl_attempt *attempt = attempt_of(job);

    assert(step < STOP_STEP_COUNT);
    if (attempt_in(attempt, ATTEMPT_SET(PLACED)) || !attempt_live(attempt)) {
        /* Nothing of it was launched. */
        if (attempt_live(attempt))
            attempt_withdraw(ctl, job, PHASE_JOB_PREEMPTED);
        job_phase(ctl, job, PHASE_JOB_PENDING);
        ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_STOPPED, .progress = PROGRESS_OWN });
        return;
    }
    if (step != STOP_SUSPEND || !core_job(ctl->core, job->slot)->parks)
        attempt_stop(ctl, job, STOP_CAUSE_PREEMPT, job->stop_by, job_grace(ctl, job));
    else if (attempt->state == ATTEMPT_KEPT) /* nothing of it could be resumed */
        attempt_stop(ctl, job, STOP_CAUSE_PREEMPT, job->stop_by, job_grace(ctl, job));
    else
        attempt_happens(ctl, job, attempt, ATTEMPT_EVENT_SUSPEND, 0);
}

/* A job that is launched in this very step is told with its launch. */
static void effect_limit(struct ctl *ctl, struct ctl_job *job)
{
    struct ctl_attempt *attempt = attempt_of(job);

    if (!attempt_live(attempt) || attempt_in(attempt, ATTEMPT_LEAVING | ATTEMPT_SET(PLACED)))
        return;
    for (uint32_t t = 0; t < attempt->task_count; t++)
        ctl_order(ctl, attempt->tasks[t].node, order_limit(ctl, job, attempt));
}

/* It is to save itself and go on: by its signal, if it has one. A job without saves itself when it likes. */
static void effect_save(struct ctl *ctl, struct ctl_job *job)
{
    struct ctl_attempt *attempt = attempt_of(job);

    if (!attempt_live(attempt) || attempt_in(attempt, ATTEMPT_LEAVING | ATTEMPT_SET(PLACED)) || !job->spec->ckpt_signal)
        return;
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        ctl_order(ctl, attempt->tasks[t].node, order_signal(job, attempt, job->spec->ckpt_signal));
    }
}

/* Its GPUs are given away. What is left of it goes at once, or saves itself in peace. */
static void take_down(struct ctl *ctl, struct ctl_job *job, bool in_peace)
{
    struct ctl_attempt *attempt = attempt_now(job);
    bool kept = attempt->kept_until != 0;

    assert(attempt_live(attempt));
    /* What was launched in this batch on a node that is lost by now will never report. */
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        struct ctl_task *task = &attempt->tasks[t];

        if (task_gone(task) || !ctl->registry.nodes[task->node].lost)
            continue;
        task->state = TASK_EXITED;
        task->cause = TASK_CAUSE_LOST;
        task->ended = ctl->now;
    }
    attempt_leaves(ctl, attempt);
    attempt_happens(ctl, job, attempt, ATTEMPT_EVENT_CLOSE, 0);
    attempt->phase = PHASE_JOB_NODE_FAIL;
    if (!kept)
        attempt_note_loss(ctl, job, TASK_CAUSE_LOST);
    for (uint32_t t = 0; t < attempt->task_count && !in_peace; t++)
        if (!task_gone(&attempt->tasks[t]))
            ctl_order(ctl, attempt->tasks[t].node, order_stop(ctl, job, attempt, 0));
    if (attempt_gone(attempt))
        attempt_happens(ctl, job, attempt, ATTEMPT_EVENT_GONE, 0);
}

/* Hardware is gone, or it was cancelled and has left already. Others of the gang are told to go at once; but where it
 * is gone that a job was moving to, that one saves itself in peace where it was. */
static void effect_kill(struct ctl *ctl, struct ctl_job *job)
{
    struct ctl_attempt *attempt = attempt_of(job);
    uint32_t idle = ATTEMPT_SET(GATED) | ATTEMPT_SET(PLACED);
    bool launched = attempt_live(attempt) && !attempt_in(attempt, idle);
    bool moves = launched && attempt->state == ATTEMPT_MOVING;
    bool kept = launched && attempt->kept_until;
    bool cancelled = attempt_leaving(attempt) && attempt->stop_cause == STOP_CAUSE_CANCEL;
    bool back = core_job(ctl->core, job->slot)->gen == job->gen; /* the core has it in its queue again */

    if (attempt_in(attempt, idle)) {
        bool gated = attempt->state == ATTEMPT_GATED;

        attempt_withdraw(ctl, job, gated ? PHASE_JOB_PREEMPTED : PHASE_JOB_NODE_FAIL);
        if (gated)
            return;
    }
    if (launched)
        take_down(ctl, job, back && moves);
    if (!back || phase_over(job->phase) || job->link != LINK_INSIDE)
        return;
    if (kept && attempt_kept_lost(ctl, job))
        return;
    if (cancelled) /* by a person, and it was on its way */
        link_take_out(ctl, job, PHASE_JOB_CANCELLED, job->end_text[0] ? job->end_text : "cancelled");
    else if (!job->spec->requeue && launched && !moves)
        link_take_out(ctl, job, PHASE_JOB_NODE_FAIL, "its node was lost, and it is not to be run again");
    else
        job_phase(ctl, job, PHASE_JOB_PENDING);
}

/* The core has let it go. Whoever ended it has said so already; if nobody has, the core refused it. */
static void effect_forget(struct ctl *ctl, struct ctl_job *job)
{
    enum core_link link = (enum core_link)job->link;

    assert(job_in_core(job));
    assert(!attempt_live(attempt_of(job)));
    link_move(job, LINK_OUTSIDE);
    job_counts(job, -1);
    user_count(ctl, job);
    if (ctl->by_slot[job->slot] == job)
        ctl->by_slot[job->slot] = NULL;
    if (link == LINK_REENTERING) {
        gate_look(ctl, job);
        if (job->link == LINK_OUTSIDE && !phase_over(job->phase))
            gate_left(ctl, job); /* it stays outside: another may have its turn */
    } else if (link == LINK_ENDING)
        job_end(ctl, job, job->ends_as, job->end_text);
    else
        job_end(ctl, job, PHASE_JOB_CANCELLED, "refused by the policy of its virtual cluster [DeadlineImpossible]");
}

static void effect_solve(struct ctl *ctl, const struct effect *effect, const struct outbox *out)
{
    struct work_answer answer = { .capacity = SOLVE_WORDS_MAX };
    struct event event = { .kind = EVENT_SOLVED, .target = effect->vc, .ticket = effect->ticket };
    struct error err = { 0 };
    int64_t *request;

    if (ctl->listening && ctl->sink.solve) {
        ctl->sink.solve(ctl->sink.arg, effect->vc, effect->ticket, effect->solve, out->words + effect->word_first,
                        effect->word_count);
        return;
    }
    if (!ctl->solves_here)
        return; /* a replay: the answer is in the log */
    request = mem_zalloc(effect->word_count + 1, sizeof(*request));
    answer.words = mem_zalloc(answer.capacity, sizeof(*answer.words));
    if (request && answer.words) {
        memcpy(request, out->words + effect->word_first, effect->word_count * sizeof(*request));
        if (work_run((enum solve_kind)effect->solve, request, effect->word_count, &answer, &err) < 0)
            answer.count = 0;
    }
    event.words = answer.words;
    event.word_count = answer.count;
    (void)ctl_offer(ctl, &event, NULL, &err);
    mem_free(request);
    mem_free(answer.words);
}

/* Who is to have the first of its GPUs that somebody else was given: the job it makes room for; 0 = nobody in
 * particular (a drain, a turn that is over). */
static int64_t taker_of(const struct ctl *ctl, const struct ctl_job *job)
{
    const struct ledger *ledger = ctl_ledger(ctl);

    for (uint32_t s = core_job(ctl->core, job->slot)->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        for (uint32_t o = ledger->gpus[ledger->shares[s].gpu].shares; o != SHARE_NONE;
             o = ledger->shares[o].next_of_gpu) {
            const struct share *other = &ledger->shares[o];

            if (other->job != job->slot && !other->leaving && !other->off && other->role == ROLE_OWNER)
                return core_job(ctl->core, other->job)->spec.id;
        }
    return 0;
}

/* Why it waits, as the decision has it; who made it leave. */
static void note_decision(struct ctl *ctl, const struct decision *d)
{
    struct ctl_job *job = ctl->by_slot[d->job];

    if (!job || job->id != d->id)
        return;
    if (d->kind == DECISION_WAIT || d->kind == DECISION_PREPARE) {
        if (job->reason != d->reason)
            job->reason_since = ctl->now;
        job->reason = d->reason;
        job->reason_needs = d->needs;
        job->reason_free = d->free;
        job->version++;
    } else if (d->kind == DECISION_STOP || d->kind == DECISION_SUSPEND) {
        job->preemptions++;
        job->stop_by = taker_of(ctl, job);
        if (d->kind == DECISION_SUSPEND) {
            job->reason = REASON_SUSPENDED;
            job->reason_since = ctl->now;
            job->reason_needs = job->reason_free = 0;
        }
    } else if (d->kind == DECISION_START) {
        job->reason = REASON_NONE;
    }
}

/* Whom each effect is about. Slots the core has let go are free for it at once, and whoever enters while the effects
 * are carried out may be given one of them: so all are looked up first. */
static struct ctl_job **jobs_of(struct ctl *ctl, const struct outbox *out)
{
    if (mem_grow((void **)&ctl->effect_jobs, &ctl->effect_capacity, out->effect_count, EFFECTS_MAX,
                 sizeof(*ctl->effect_jobs)) < 0)
        abort(); /* the batch is durable: half of it carried out would be a lie */
    for (size_t i = 0; i < out->effect_count; i++)
        ctl->effect_jobs[i] = out->effects[i].kind == EFFECT_SOLVE ? NULL : ctl->by_slot[out->effects[i].job];
    return ctl->effect_jobs;
}

/* By slot, the place behind the last effect that takes the job down; 0: none. */
static void note_kills(struct ctl *ctl, const struct outbox *out, bool begin)
{
    for (size_t i = 0; i < out->effect_count; i++)
        if (out->effects[i].kind == EFFECT_KILL)
            ctl->killed[out->effects[i].job] = begin ? (uint32_t)i + 1 : 0;
}

/* Whether hardware or a person has taken the launch back within the same step: it was never carried out. */
static bool taken_back(const struct ctl *ctl, const struct outbox *out, size_t at)
{
    return ctl->killed[out->effects[at].job] > at + 1;
}

void effect_all(struct ctl *ctl, const struct outbox *out)
{
    struct ctl_job **jobs;

    for (size_t i = 0; i < out->decision_count; i++)
        note_decision(ctl, &out->decisions[i]);
    jobs = jobs_of(ctl, out);
    note_kills(ctl, out, true);
    for (size_t i = 0; i < out->effect_count; i++) {
        const struct effect *effect = &out->effects[i];
        struct ctl_job *job = jobs[i];

        assert(job || effect->kind == EFFECT_SOLVE);
        assert(effect->kind == EFFECT_SOLVE || job_in_core(job));
        switch (effect->kind) {
        case EFFECT_START:
        case EFFECT_RESUME:
            if (!taken_back(ctl, out, i))
                effect_start(ctl, job);
            break;
        case EFFECT_STOP:
            effect_stop(ctl, job, (enum stop_step)effect->step);
            break;
        case EFFECT_MIGRATE:
        case EFFECT_SPLICE: /* launched anew with all its ranks, several on a GPU where it has fewer */
            attempt_move(ctl, job);
            break;
        case EFFECT_SAVE:
            effect_save(ctl, job);
            break;
        case EFFECT_KILL:
            effect_kill(ctl, job);
            break;
        case EFFECT_FORGET:
            effect_forget(ctl, job);
            break;
        case EFFECT_PREPARE:
            effect_prepare(ctl, job);
            break;
        case EFFECT_LIMIT:
            effect_limit(ctl, job);
            break;
        case EFFECT_SOLVE:
            effect_solve(ctl, effect, out);
            break;
        case EFFECT_COUNT:
            break;
        }
    }
    note_kills(ctl, out, false);
}
