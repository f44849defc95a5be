/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c - what keeps a job out of the core, and the instants at which something is due for it.
 *
 * A job that is held, waits for its time, for other jobs or for its array's turn is not in the queue: no policy sees
 * it. When nothing keeps it out any more it enters the core with the submission time it has, so that it loses no place.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"

static bool after_waits(const struct ctl_job *job)
{
    size_t count = job->spec->after_count;
    uint64_t all = count >= 64 ? UINT64_MAX : (1ULL << count) - 1;

    return (job->after_met & all) != all;
}

static enum gate gate_of(const struct ctl *ctl, const struct ctl_job *job)
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
    if (job->source->array && s->array_parallel && job->source->array->inside >= s->array_parallel)
        return GATE_ARRAY;
    if (ctl->registry.paused)
        return GATE_PAUSED;
    if (ctl->registry.kept.limits.count > 0) {
        int64_t most = limits_gpus(&ctl->registry, names_get(&ctl->registry.users, job->user));

        if (most >= 0 &&
            limits_held(ctl, job->user) + (int64_t)jobspec_gpus(&job->wants) * job->wants.share > most * MGPU_ONE)
            return GATE_USER;
    }
    return GATE_NONE;
}

void job_counts(const struct ctl_job *job, int by)
{
    struct ctl_array *array = job->source->array;

    if (!array)
        return;
    assert(by > 0 || array->inside > 0);
    array->inside = (uint32_t)((int)array->inside + by);
}

/* False: the core refused it, and it is over. */
static bool enter(struct ctl *ctl, struct ctl_job *job)
{
    struct event event = { .kind = EVENT_SUBMIT, .target = job->vc, .spec = &job->wants };
    struct error err = { 0 };
    struct job_ref ref;
    int r = ctl_offer(ctl, &event, &ref, &err);

    assert(job->link == LINK_OUTSIDE);
    assert(job->gate == GATE_NONE);
    assert(!attempt_live(attempt_of(job)));
    if (r < 0) {
        job_end(ctl, job, PHASE_JOB_FAILED, err.text);
        return false;
    }
    link_move(job, LINK_INSIDE);
    job_counts(job, 1);
    job->slot = ref.index;
    job->gen = ref.gen;
    user_count(ctl, job);
    job->eligible = ctl->now;
    job->reason_since = ctl->now;
    ctl->by_slot[ref.index] = job;
    return true;
}

void gate_look(struct ctl *ctl, struct ctl_job *job)
{
    enum gate gate;

    if (phase_over(job->phase) || job_in_core(job))
        return;
    if (job->after_failed) {
        job_end(ctl, job, PHASE_JOB_CANCELLED,
                "a job it was to come after did not end as asked [DependencyNeverSatisfied]");
        return;
    }
    gate = gate_of(ctl, job);
    if (gate != job->gate) {
        gate_set(ctl, job, gate);
        job->version++;
        job->reason_since = ctl->now;
    }
    if (gate != GATE_NONE || enter(ctl, job))
        job_timer_set(ctl, job);
}

void gate_wait(struct ctl *ctl, struct ctl_job *job)
{
    struct ctl_array *array = job->source->array;
    struct after_list **list = array ? &array->after : &job->after;

    if (*list || job->after_failed || !after_waits(job))
        return; /* its array waits already, for all elements */
    if (dependents_add(&ctl->registry.dependents, array ? job->array_id : job->id, job->spec, job->after_met, list) < 0)
        abort(); /* the batch is durable: half of it carried out would be a lie */
}

/* The bit of a dependency that is decided, in all jobs of the waiter; they are to be looked at. */
static void waiter_decide(struct ctl *ctl, const struct after_edge *edge, bool met)
{
    uint64_t bit = 1ULL << edge->number;
    struct ctl_job *job = registry_after(&ctl->registry, edge->waiter - 1);

    /* A job, or the elements that have the ids after that of their array. */
    for (; job && (job->id == edge->waiter || job->array_id == edge->waiter);
         job = registry_after(&ctl->registry, job->id)) {
        void *block = ctl->decided;

        if (job_in_core(job) || job->gate == GATE_NONE)
            continue;
        if (met)
            job->after_met |= bit;
        else
            job->after_failed |= bit;
        if (mem_grow(&block, &ctl->decided_capacity, ctl->decided_count + 1, SIZE_MAX / 16, sizeof(*ctl->decided)) < 0)
            abort(); /* the batch is durable: half of it carried out would be a lie */
        ctl->decided = block;
        ctl->decided[ctl->decided_count++] = job->id;
        if (job->id == edge->waiter)
            return;
    }
}

static void target_decide(struct ctl *ctl, int64_t id, enum after_kind kind, bool met)
{
    const struct after_edge *edge;

    while ((edge = dependents_next(&ctl->registry.dependents, id, kind)))
        waiter_decide(ctl, edge, met);
}

static int id_order(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;

    return a < b ? -1 : a > b;
}

/* What became of those that were to come after it. Of an array, one element that did not end as asked is enough; the
 * others count when the last is over. */
static void after_decide(struct ctl *ctl, const struct gate_leaver *was)
{
    ctl->decided_count = 0;
    if (!was->over)
        return;
    target_decide(ctl, was->id, AFTER_OK, was->well);
    target_decide(ctl, was->id, AFTER_NOTOK, !was->well);
    target_decide(ctl, was->id, AFTER_ANY, true);
    if (was->array_id)
        target_decide(ctl, was->array_id, was->well ? AFTER_NOTOK : AFTER_OK, false);
    for (int kind = 0; was->array_over && kind < AFTER_KINDS; kind++)
        target_decide(ctl, was->array_id, (enum after_kind)kind, true);
    if (ctl->decided_count > 1)
        qsort(ctl->decided, ctl->decided_count, sizeof(*ctl->decided), id_order);
}

/* All that may enter now, by their ids: those for whom its end decides something, elements of its array that wait for
 * a turn, jobs of its user that fit into what the user may have. */
static void leaver_settle(struct ctl *ctl, const struct gate_leaver *was)
{
    int64_t most = limits_gpus(&ctl->registry, names_get(&ctl->registry.users, was->user)), from = 0;
    size_t at = 0;

    after_decide(ctl, was);
    for (;;) {
        const struct ctl_array *array = was->array;
        int64_t room = most < 0 ? INT64_MAX : most * MGPU_ONE - limits_held(ctl, was->user), next, other;
        struct ctl_job *job;

        next = gate_queue_next(ctl, ctl->registry.user[was->user].gate, from, room);
        other = array && array->inside < was->parallel ? gate_queue_next(ctl, array->turns, from, INT64_MAX) : next;
        next = other < next ? other : next;
        while (at < ctl->decided_count && ctl->decided[at] <= from)
            at++;
        if (at < ctl->decided_count && ctl->decided[at] < next)
            next = ctl->decided[at];
        if (next == INT64_MAX)
            return;
        from = next;
        job = registry_get(&ctl->registry, next);
        if (job && !job_in_core(job) && job->gate != GATE_NONE)
            gate_look(ctl, job);
    }
}

/* Whom it lets in may end at once, and then others may enter or end: a chain of any length. They follow one after
 * another, not one inside the other. */
void gate_left(struct ctl *ctl, const struct ctl_job *ended)
{
    struct ctl_array *array = ended->source->array;
    void *block = ctl->leavers;

    if (mem_grow(&block, &ctl->leaver_capacity, ctl->leaver_count + 1, SIZE_MAX / 256, sizeof(*ctl->leavers)) < 0)
        abort(); /* the batch is durable: half of it carried out would be a lie */
    ctl->leavers = block;
    ctl->leavers[ctl->leaver_count++] = (struct gate_leaver){ .id = ended->id,
                                                              .array_id = ended->array_id,
                                                              .user = ended->user,
                                                              .over = phase_over(ended->phase),
                                                              .well = ended->phase == PHASE_JOB_COMPLETED,
                                                              .array_over = array && array->live == 0,
                                                              .parallel = ended->spec->array_parallel,
                                                              .array = ctl_array_hold(array) };
    if (ctl->leaver_count > 1)
        return; /* it has its turn */
    for (size_t i = 0; i < ctl->leaver_count; i++) {
        struct gate_leaver was = ctl->leavers[i];

        leaver_settle(ctl, &was);
        ctl_array_drop(was.array);
    }
    ctl->leaver_count = 0;
}

/* When it must be looked at next. */
usec_t job_timer(const struct ctl *ctl, const struct ctl_job *job)
{
    const struct ctl_attempt *attempt = attempt_last(job);
    const struct submission *s = job->spec;
    usec_t end;

    if (!job_in_core(job))
        return job->gate == GATE_BEGIN ? s->begin : USEC_NEVER;
    if (!attempt_live(attempt) || !attempt->started || attempt_leaving(attempt) || !s->time || ctl->config.virtual_time)
        return USEC_NEVER;
    end = attempt->started + s->time;
    if (s->signal && s->signal_before > 0 && !attempt->warned && s->signal_before < s->time)
        return end - s->signal_before;
    return end;
}

void job_timer_set(struct ctl *ctl, const struct ctl_job *job)
{
    heap_set(&ctl->timers, job->index, job_timer(ctl, job));
}

void job_tick(struct ctl *ctl, struct ctl_job *job)
{
    struct ctl_attempt *attempt = attempt_of(job);

    if (!job_in_core(job)) {
        gate_look(ctl, job);
        return;
    }
    if (!attempt_live(attempt) || !attempt->started || attempt_leaving(attempt) || !job->spec->time)
        return;
    if (ctl->now >= attempt->started + job->spec->time) {
        attempt_stop(ctl, job, STOP_CAUSE_TIMEOUT, 0, job_grace(ctl, job));
        return;
    }
    attempt->warned = ctl->now;
    for (uint32_t t = 0; t < attempt->task_count; t++) {
        ctl_order(ctl, attempt->tasks[t].node, order_signal(job, attempt, job->spec->signal));
    }
    job_timer_set(ctl, job);
}
