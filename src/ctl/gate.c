/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c - what keeps a job out of the core, and the instants at which something is due for it.
 *
 * A job that is held, waits for its time, for other jobs or for its array's turn is not in the queue: no policy sees
 * it. When nothing keeps it out any more it enters the core with the submission time it has, so that it loses no place.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "ctl/part.h"

static bool after_waits(const struct book_job *job)
{
    size_t count = job->spec->after_count;
    uint64_t all = count >= 64 ? UINT64_MAX : (1ULL << count) - 1;

    return (job->after_met & all) != all;
}

static enum gate gate_of(const struct ctl *ctl, const struct book_job *job)
{
    const struct submission *s = job->spec;

    if (job->held)
        return GATE_HELD;
    if (s->begin > ctl->now)
        return GATE_BEGIN;
    if (resv_waits(ctl, job))
        return GATE_RESERVATION;
    if (after_waits(job))
        return GATE_DEPENDENCY;
    if (job->array_id && s->array_parallel && job->source->inside >= s->array_parallel)
        return GATE_ARRAY;
    if (ctl->book.paused)
        return GATE_PAUSED;
    if (json_object_size(ctl->book.limits) > 0) {
        int64_t most = limits_get(&ctl->book, names_get(&ctl->book.users, job->user), "max_gpus");

        if (most >= 0 &&
            limits_held(ctl, job->user) + (int64_t)jobspec_gpus(&job->wants) * job->wants.share > most * MGPU_ONE)
            return GATE_USER;
    }
    return GATE_NONE;
}

static void enter(struct ctl *ctl, struct book_job *job)
{
    struct event event = { .kind = EVENT_SUBMIT, .target = job->vc, .spec = &job->wants };
    struct error err = { 0 };
    struct job_ref ref;
    int r = ctl_offer(ctl, &event, &ref, &err);

    if (r < 0) {
        job_end(ctl, job, PHASE_JOB_FAILED, err.text);
        return;
    }
    job->in_core = true;
    job->source->inside++;
    job->slot = ref.index;
    job->gen = ref.gen;
    job->eligible = ctl->now;
    job->reason_since = ctl->now;
    ctl->by_slot[ref.index] = job;
}

void gate_look(struct ctl *ctl, struct book_job *job)
{
    enum gate gate;

    if (phase_over(job->phase) || job->in_core)
        return;
    if (job->after_failed) {
        job_end(ctl, job, PHASE_JOB_CANCELLED,
                "a job it was to come after did not end as asked [DependencyNeverSatisfied]");
        return;
    }
    gate = gate_of(ctl, job);
    if (gate != job->gate) {
        job->gate = gate;
        job->version++;
        job->reason_since = ctl->now;
    }
    if (gate == GATE_NONE)
        enter(ctl, job);
    if (!phase_over(job->phase))
        job_timer_set(ctl, job);
}

/* Which of the job's dependencies this one was, and what became of it. An array is over when its last element is. */
static bool settle_after(struct ctl *ctl, struct book_job *job, const struct book_job *ended)
{
    bool changed = false;

    for (size_t i = 0; i < job->spec->after_count; i++) {
        const struct after *after = &job->spec->after[i];
        bool whole = after->job == ended->array_id, well = ended->phase == PHASE_JOB_COMPLETED;

        if (after->job != ended->id && !whole)
            continue;
        if (after->kind != AFTER_ANY && (after->kind == AFTER_OK) != well)
            job->after_failed |= 1ULL << i; /* one element is enough */
        else if (!whole || book_array(&ctl->book, ended->array_id, NULL, 0) == 0)
            job->after_met |= 1ULL << i;
        changed = true;
    }
    return changed;
}

void gate_ended(struct ctl *ctl, struct book_job *ended)
{
    const struct submission *s = ended->spec;
    bool turns = ended->array_id && s->array_parallel;

    /* By id: letting one in may end it, which moves the list. */
    for (int64_t from = 0;;) {
        struct book_job *job = book_after(&ctl->book, from);

        if (!job)
            return;
        from = job->id;
        if (job->in_core || job->gate == GATE_NONE)
            continue;
        if ((job->gate == GATE_USER && job->user == ended->user) ||
            (job->spec->after_count && settle_after(ctl, job, ended)) ||
            (turns && job->gate == GATE_ARRAY && job->array_id == ended->array_id &&
             job->source->inside < s->array_parallel))
            gate_look(ctl, job);
    }
}

/* When it must be looked at next. */
usec_t job_timer(const struct ctl *ctl, const struct book_job *job)
{
    const struct book_attempt *attempt = book_attempt(job);
    const struct submission *s = job->spec;
    usec_t end;

    if (!job->in_core)
        return job->gate == GATE_BEGIN ? s->begin : USEC_NEVER;
    if (!attempt || !attempt->started || attempt->ended || attempt->stopping || !s->time || ctl->config.virtual_time)
        return USEC_NEVER;
    end = attempt->started + s->time;
    if (s->signal && s->signal_before > 0 && !attempt->warned && s->signal_before < s->time)
        return end - s->signal_before;
    return end;
}

void job_timer_set(struct ctl *ctl, const struct book_job *job)
{
    heap_set(&ctl->timers, job->index, job_timer(ctl, job));
}

void job_tick(struct ctl *ctl, struct book_job *job)
{
    struct book_attempt *attempt = attempt_of(job);

    if (!job->in_core) {
        gate_look(ctl, job);
        return;
    }
    if (!attempt || !attempt->started || attempt->ended || attempt->stopping || !job->spec->time)
        return;
    if (ctl->now >= attempt->started + job->spec->time) {
        attempt_stop(ctl, job, "timeout", 0, job_grace(ctl, job));
        return;
    }
    attempt->warned = true;
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        json_t *order = order_simple(job, attempt, ORDER_SIGNAL);

        (void)json_object_set_new(order, "signal", json_integer(job->spec->signal));
        ctl_order(ctl, attempt->tasks[t].node, order);
    }
    job_timer_set(ctl, job);
}
