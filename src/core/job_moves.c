/* SPDX-License-Identifier: Apache-2.0 */
/* job_moves.c - what befalls a job, whoever caused it: its state, the record, its queue, the run list, its end. */
#include <assert.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "core/job_events.h"
#include "core/ledger/guest.h"
#include "core/planning/deferred_move.h"
#include "core/planning/resize.h"
#include "core/planning/vc_wakeup.h"

static void digest_add(struct core *core, uint64_t value)
{
    core->digest = rng_mix(core->digest ^ rng_mix(value + 0x9e3779b97f4a7c15ULL));
}

void core_move(struct core *core, uint32_t index, enum job_state to)
{
    struct job *job = &core->jobs[index];

    assert(job_may_move(job->state, to));
    job_settle(job, core->now);
    if (job->state == JOB_CLAIMING)
        job->waited[REASON_PREEMPTING] += core->now - job->state_since;
    licenses_move(core, job, job->state, (uint8_t)to);
    job->state = (uint8_t)to;
    job->state_since = core->now;
}

void core_emit(struct core *core, enum effect_kind kind, uint32_t index)
{
    struct outbox *out = &core->outbox;

    assert(out->effect_count < out->effect_capacity);
    out->effects[out->effect_count++] =
        (struct effect){ .kind = kind, .job = index, .gen = core->jobs[index].gen, .step = core->jobs[index].stop };
}

struct decision *core_decide(struct core *core, enum decision_kind kind, uint32_t index, enum reason reason)
{
    struct outbox *out = &core->outbox;
    struct job *job = &core->jobs[index];
    struct decision *d;

    /* Room for everything a sane policy can decide; what a mad one adds replaces its own last word. */
    if (out->decision_count == out->decision_capacity)
        out->decision_count--;
    d = &out->decisions[out->decision_count++];
    *d = (struct decision){
        .at = core->now, .id = job->spec.id, .job = index, .vc = job->vc, .kind = kind, .reason = reason
    };
    core->decisions++;
    digest_add(core, (uint64_t)d->at);
    digest_add(core, (uint64_t)d->id);
    digest_add(core, (uint64_t)kind << 32 | (uint64_t)reason);
    for (uint32_t h = job->holds; kind == DECISION_START && h != HOLD_NONE; h = core->holds[h].next_of_job)
        digest_add(core, (uint64_t)core->holds[h].node << 32 | core->holds[h].tasks);
    if (kind == DECISION_START || kind == DECISION_RESUME || kind == DECISION_MIGRATE || kind == DECISION_PREPARE ||
        kind == DECISION_SPLICE) {
        d->gpu_first = (uint32_t)out->gpu_count;
        for (uint32_t s = job->shares; s != SHARE_NONE; s = core->ledger.shares[s].next_of_job) {
            if (core->ledger.shares[s].leaving)
                continue;
            assert(out->gpu_count < out->gpu_capacity);
            out->gpus[out->gpu_count++] = core->ledger.shares[s].gpu;
            digest_add(core, core->ledger.shares[s].gpu);
        }
        d->gpu_count = (uint32_t)out->gpu_count - d->gpu_first;
    }
    return d;
}

void core_enqueue(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct vc *vc = &core->vcs[job->vc];

    assert(job->state == JOB_PENDING);
    resize_waiting(core, index);
    job->reason = REASON_NONE;
    job->queued_at = core->now;
    job->limit_mib = 0; /* what it has and uses elsewhere is another matter */
    job->limit_percent = 100;
    job->measured = false;
    core->waiting++;
    licenses_wait(core, index, true);
    if (job_gpuless(job)) {
        job->reason = REASON_SCHEDULING;
        tasks_add(core, index);
    } else {
        queue_add(core, index);
        users_wait(core, index, true);
        core_stir(core, job);
    }
    if (!job->fresh) {
        assert(core->fresh_count < core->job_capacity);
        core->fresh[core->fresh_count++] = index;
        job->fresh = true;
    }
    if (vc->policy.planner->queued && !job_gpuless(job)) {
        struct plan plan = plan_about(core, job);

        vc->policy.planner->queued(&vc->planner, &plan, index);
    }
}

void core_dequeue(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];

    assert(job_waits(job->state));
    core->waiting--;
    users_wait(core, index, false);
    licenses_wait(core, index, false);
    if (job_gpuless(job))
        tasks_remove(core, index);
    if (job->shape != UINT32_MAX)
        queue_remove(core, index);
    else
        job->waited[job->reason] += core->now - job->state_since;
    job->waited_all += core->now - job->queued_at;
    job->reason = REASON_NONE;
    heap_clear(&core->timers, timer_of(index, TIMER_PLANNER));
}

void core_count_borrowed(struct vc *vc, uint32_t skus)
{
    vc->borrowed = 0;
    for (uint32_t s = 0; s < skus; s++)
        if (vc->used[s] > vc->quota[s])
            vc->borrowed += vc->used[s] - vc->quota[s];
}

/* Whom the job follows in the run list: the last one, as a rule. A job that was moved, or whose stop was taken back,
 * follows whom it followed before, if that one is still there; else it is looked for from the end. So those that were
 * started together stay in that order, whoever is between them. */
static uint32_t run_before(const struct core *core, const struct vc *vc, const struct job *job)
{
    uint32_t at = vc->run_last, was = job->prev;

    if (at == JOB_NONE || core->jobs[at].last_start < job->last_start || job->last_start == core->now)
        return at;
    if (was == JOB_NONE
            ? core->jobs[vc->run_first].last_start >= job->last_start
            : core->jobs[was].vc == job->vc && job_holds(core->jobs[was].state) &&
                  core->jobs[was].last_start <= job->last_start &&
                  (core->jobs[was].next == JOB_NONE || core->jobs[core->jobs[was].next].last_start >= job->last_start))
        return was;
    while (at != JOB_NONE && core->jobs[at].last_start > job->last_start)
        at = core->jobs[at].prev;
    return at;
}

static void run_link(struct core *core, struct vc *vc, uint32_t index)
{
    struct job *job = &core->jobs[index];

    job->prev = run_before(core, vc, job);
    job->next = job->prev == JOB_NONE ? vc->run_first : core->jobs[job->prev].next;
    if (job->prev == JOB_NONE)
        vc->run_first = index;
    else
        core->jobs[job->prev].next = index;
    if (job->next == JOB_NONE)
        vc->run_last = index;
    else
        core->jobs[job->next].prev = index;
}

/* What is kept for its waiting jobs and what others of it have is within what the virtual cluster is owed: where it
 * becomes more, nothing is kept any longer. */
void core_keep_within(struct core *core, const struct vc *vc, uint32_t sku)
{
    struct plan plan = { .core = core, .vc = vc->index };

    if (vc->kept[sku] == 0 || vc->used[sku] - vc->lent[sku] + (int64_t)vc->kept[sku] * MGPU_ONE <= vc->quota[sku])
        return;
    for (uint32_t i = 0; i < core->job_top && vc->kept[sku]; i++)
        if (core->jobs[i].state == JOB_RESERVED && core->jobs[i].vc == vc->index)
            plan_unreserve(&plan, i);
}

/* What a job holds of one type counts for its virtual cluster, or no longer does. */
static void charge(struct vc *vc, const struct job *job, uint32_t sku, int64_t amount)
{
    if (job->klass == CLASS_OPPORTUNISTIC)
        vc->guest[sku] += amount;
    else
        vc->used[sku] += amount;
    if (vc->own && job->klass != CLASS_OPPORTUNISTIC && !job_bound(job))
        vc->lent[sku] += amount;
}

/* The same of its parts on other types. Returns what they come to. */
static int64_t charge_sides(struct vc *vc, const struct job *job, int64_t sign)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < job->spec.side_count; i++) {
        int64_t amount = (int64_t)job->spec.sides[i].gpus * MGPU_ONE;

        charge(vc, job, job->side_sku[i], sign * amount);
        sum += amount;
    }
    vc->sided = (uint32_t)((int64_t)vc->sided + (sum ? sign : 0));
    return sum;
}

void core_attach(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct vc *vc = &core->vcs[job->vc];
    int64_t amount = job_amount(job);

    if (job_gpuless(job)) {
        tasks_attach(core, index);
        return;
    }
    charge(vc, job, job->sku, amount);
    amount += charge_sides(vc, job, 1);
    core_count_borrowed(vc, core->ledger.topo.sku_count);
    core->mgpu_held += amount;
    core->mgpu_guests += guest_is(core, job) ? amount : 0;
    users_hold(core, index, 1);
    core->running++;
    vc->running++;
    run_link(core, vc, index);
    queue_run_add(core, index);
    core_keep_within(core, vc, job->sku);
    for (uint32_t i = 0; i < job->spec.side_count; i++)
        core_keep_within(core, vc, job->side_sku[i]);
}

void core_detach(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct vc *vc = &core->vcs[job->vc];
    int64_t amount;

    if (job_gpuless(job)) {
        tasks_detach(core, index);
        return;
    }
    pair_hand_over(core, index);
    amount = job_amount(job);
    queue_run_remove(core, index);
    charge(vc, job, job->sku, -amount);
    amount += charge_sides(vc, job, -1);
    core_count_borrowed(vc, core->ledger.topo.sku_count);
    core->mgpu_held -= amount;
    core->mgpu_guests -= guest_is(core, job) ? amount : 0;
    users_hold(core, index, -1);
    core->running--;
    vc->running--;
    if (job->prev != JOB_NONE)
        core->jobs[job->prev].next = job->next;
    else
        vc->run_first = job->next;
    if (job->next != JOB_NONE)
        core->jobs[job->next].prev = job->prev;
    else
        vc->run_last = job->prev;
    core_stir(core, job);
}

/* All its GPUs are free of others: the order to launch goes out. */
void core_start_now(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];

    if (job_defers(job)) {
        defer_ready(core, index);
        return;
    }
    core_move(core, index, JOB_STARTING);
    job->attempts++;
    job->prepared = false;
    core_emit(core, job->resumes ? EFFECT_RESUME : EFFECT_START, index);
    job->resumes = true;
}

/* Gives the GPUs back, and launches whoever was waiting for just them. */
void core_release(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    uint32_t count = hold_release(core, index);

    pair_part(core, index);
    job->gpus = 0;
    job->sheds = job->moving = job->resized = false;
    if (job->runs_on > 0)
        job->blocked = 0;
    job->runs_on = 0;
    for (uint32_t i = 0; i < count; i++)
        core_start_now(core, core->ready[i]);
}

/* A suspended job loses its place and waits like any other. */
void core_unsuspend(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];

    job->waited[job->reason] += core->now - job->state_since;
    if (job->prepared)
        core_emit(core, EFFECT_KILL, index);
    job->prepared = false;
    job->waited_all += core->now - job->state_since;
    core->vcs[job->vc].suspended--;
    core_move(core, index, JOB_PENDING);
    core_release(core, index);
    core_enqueue(core, index);
}

void core_forget(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct vc *vc = &core->vcs[job->vc];

    heap_clear(&core->timers, timer_of(index, TIMER_KEY));
    heap_clear(&core->timers, timer_of(index, TIMER_PLANNER));
    promise_settle(core, index);
    /* Inside a guarantee nothing is learned from jobs that have no part in it. */
    if (!job_gpuless(job) && !(vc->own && job->klass == CLASS_OPPORTUNISTIC) && vc->policy.order->ended &&
        vc->policy.order->ended(&vc->order, job))
        vc->dirty = vc->stale = true;
    if (!job_gpuless(job) && vc->policy.planner->ended) {
        struct plan plan = plan_about(core, job);

        vc->policy.planner->ended(&vc->planner, &plan, index);
    }
    vc->resizing -= job->size != 0;
    job->size = 0;
    core_emit(core, EFFECT_FORGET, index);
    core_move(core, index, JOB_FREE);
    job->gen++;
    job->next = core->job_free;
    core->job_free = index;
}
