/* SPDX-License-Identifier: Apache-2.0 */
/* effect.c - what the core wants done becomes attempts and orders. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/part.h"
#include "work/work.h"

enum { SOLVE_WORDS_MAX = 1 << 20, EFFECTS_MAX = 1 << 26 };

/* Launched now, up to its gate: the job whose GPUs it is to have still has them. It waits as before; START opens the
 * gate. While something of it is left elsewhere it is launched when its GPUs are free, as any other. */
static void effect_prepare(struct ctl *ctl, struct book_job *job)
{
    int r;

    if (job->attempt_count && !attempt_gone(attempt_now(job)))
        return;
    r = attempt_new(ctl, job);
    assert(r == 0);
    (void)r;
    attempt_now(job)->prepared = true;
    attempt_launch(ctl, job);
}

static bool prepared(struct book_job *job)
{
    const struct book_attempt *attempt = attempt_of(job);

    return attempt && attempt->prepared && !attempt->ended;
}

/* The prediction was wrong, or it is not wanted any more. It has used nothing, and nothing of it stays. */
static void unprepare(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_now(job);

    attempt->prepared = false;
    attempt->ended = ctl->now;
    attempt->phase = PHASE_JOB_PREEMPTED;
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        ctl_order(ctl, attempt->tasks[t].node, order_simple(job, attempt, ORDER_CLEAN));
        attempt->tasks[t].state = TASK_EXITED;
    }
    job->version++;
}

static void effect_start(struct ctl *ctl, struct book_job *job)
{
    int r;

    if (prepared(job)) {
        job_phase(ctl, job, PHASE_JOB_STARTING);
        attempt_open(ctl, job);
        return;
    }
    r = attempt_new(ctl, job);
    assert(r == 0);
    (void)r;
    job_phase(ctl, job, PHASE_JOB_STARTING);
    attempt_launch_ready(ctl, job);
}

/* It is to leave: a way of the ladder that the job can go, at best the one the core names. */
static void effect_stop(struct ctl *ctl, struct book_job *job, enum stop_step step)
{
    struct book_attempt *attempt = attempt_of(job);

    if (job->waits_old || !attempt || attempt->ended) {
        /* Nothing of it was launched. */
        job->waits_old = false;
        if (attempt && !attempt->ended) {
            attempt->ended = ctl->now;
            attempt->phase = PHASE_JOB_PREEMPTED;
            for (uint32_t t = 0; t < attempt->task_count; t++)
                attempt->tasks[t].state = TASK_EXITED;
        }
        job_phase(ctl, job, PHASE_JOB_PENDING);
        ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_STOPPED, .progress = PROGRESS_OWN });
        return;
    }
    if (step == STOP_SUSPEND && core_job(ctl->core, job->slot)->parks) {
        memcpy(attempt->stop_kind, "suspend", sizeof("suspend"));
        for (uint32_t t = 0; t < attempt->task_count; t++)
            ctl_order(ctl, attempt->tasks[t].node, order_simple(job, attempt, ORDER_SUSPEND));
        return;
    }
    attempt_stop(ctl, job, "preempt", job->stop_by, job_grace(ctl, job));
}

/* A job that is launched in this very step is told with its launch. */
static void effect_limit(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_of(job);

    if (!attempt || attempt->ended || attempt->stopping || job->waits_old)
        return;
    for (uint32_t t = 0; t < attempt->task_count; t++)
        ctl_order(ctl, attempt->tasks[t].node, order_limit(ctl, job, attempt));
}

/* It is to save itself and go on: by its signal, if it has one. A job without saves itself when it likes. */
static void effect_save(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_of(job);

    if (!attempt || attempt->ended || attempt->stopping || !job->spec->ckpt_signal)
        return;
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        json_t *order = order_simple(job, attempt, ORDER_SIGNAL);

        (void)json_object_set_new(order, "signal", json_integer(job->spec->ckpt_signal));
        ctl_order(ctl, attempt->tasks[t].node, order);
    }
}

/* Hardware is gone, or it was cancelled and has left already. Others of the gang are told to go at once; but where it
 * is gone that a job was moving to, that one saves itself in peace where it was. */
static void effect_kill(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_of(job);
    bool moves = attempt && !attempt->ended && attempt->moves;
    bool kept = attempt && !attempt->ended && attempt->kept_until;
    bool cancelled = attempt && !attempt->ended && attempt->stopping && strcmp(attempt->stop_kind, "cancel") == 0;
    bool back = core_job(ctl->core, job->slot)->gen == job->gen; /* the core has it in its queue again */

    if (prepared(job)) {
        unprepare(ctl, job);
        return;
    }
    job->waits_old = false;
    if (attempt && !attempt->ended) {
        attempt_close(ctl, job);
        attempt_leaves(ctl, attempt);
        attempt->phase = PHASE_JOB_NODE_FAIL;
        if (!kept)
            attempt_note_loss(ctl, job, "node");
        for (uint32_t t = 0; t < attempt->task_count; t++) {
            struct book_task *task = &attempt->tasks[t];

            if (task->state != TASK_EXITED && task->state != TASK_REFUSED && !(back && moves))
                ctl_order(ctl, task->node, order_stop(ctl, job, attempt, 0));
        }
    }
    if (!back || phase_over(job->phase))
        return;
    if (kept && attempt_kept_lost(ctl, job))
        return;
    if (cancelled) { /* by a person, and it was on its way */
        job->ends = true;
        job->ends_as = PHASE_JOB_CANCELLED;
        if (!job->end_text[0])
            memcpy(job->end_text, "cancelled", sizeof("cancelled"));
        ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_CANCEL });
        return;
    }
    if (!job->spec->requeue && !moves) {
        job->end_text[0] = '\0';
        job->gave_up = true; /* ends when the core has let it go */
        ctl_tell_core(ctl, job, (struct event){ .kind = EVENT_CANCEL });
        return;
    }
    job_phase(ctl, job, PHASE_JOB_PENDING);
}

/* The core has let it go. Whoever ended it has said so already; if nobody has, the core refused it. */
static void effect_forget(struct ctl *ctl, struct book_job *job)
{
    job->in_core = false;
    job->source->inside--;
    if (ctl->by_slot[job->slot] == job)
        ctl->by_slot[job->slot] = NULL;
    if (job->reenters) {
        job->reenters = false;
        gate_look(ctl, job);
    } else if (job->gave_up)
        job_end(ctl, job, PHASE_JOB_NODE_FAIL, "its node was lost, and it is not to be run again");
    else if (!phase_over(job->phase) && !job->ends)
        job_end(ctl, job, PHASE_JOB_CANCELLED, "refused by the policy of its virtual cluster [DeadlineImpossible]");
    else if (job->ends)
        job_end(ctl, job, job->ends_as, job->end_text);
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
static int64_t taker_of(const struct ctl *ctl, const struct book_job *job)
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
    struct book_job *job = ctl->by_slot[d->job];

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
static struct book_job **jobs_of(struct ctl *ctl, const struct outbox *out)
{
    if (mem_grow((void **)&ctl->effect_jobs, &ctl->effect_capacity, out->effect_count, EFFECTS_MAX,
                 sizeof(*ctl->effect_jobs)) < 0)
        abort(); /* the batch is durable: half of it carried out would be a lie */
    for (size_t i = 0; i < out->effect_count; i++)
        ctl->effect_jobs[i] = out->effects[i].kind == EFFECT_SOLVE ? NULL : ctl->by_slot[out->effects[i].job];
    return ctl->effect_jobs;
}

void effect_all(struct ctl *ctl, const struct outbox *out)
{
    struct book_job **jobs;

    for (size_t i = 0; i < out->decision_count; i++)
        note_decision(ctl, &out->decisions[i]);
    jobs = jobs_of(ctl, out);
    for (size_t i = 0; i < out->effect_count; i++) {
        const struct effect *effect = &out->effects[i];
        struct book_job *job = jobs[i];

        switch (effect->kind) {
        case EFFECT_START:
            effect_start(ctl, job);
            break;
        case EFFECT_RESUME:
            if (job->phase == PHASE_JOB_SUSPENDED)
                attempt_resume(ctl, job);
            else
                effect_start(ctl, job);
            break;
        case EFFECT_STOP:
            effect_stop(ctl, job, (enum stop_step)effect->step);
            break;
        case EFFECT_MIGRATE:
        case EFFECT_SPLICE: /* launched anew with all its ranks, several on a GPU where it has fewer */
            attempt_now(job)->moves = true;
            attempt_leaves(ctl, attempt_now(job));
            attempt_stop(ctl, job, "migrate", 0, job_grace(ctl, job));
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
}
