/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - offers and steps: how events change jobs. The planning pass is in pass.c.
 *
 * An instant goes: ends, answers, health, people, arrivals (the order of enum event_kind), then timers, then one pass.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/guest.h"
#include "core/plan.h"
#include "core/shift.h"
#include "core/state.h"
#include "model/measure.h"
#include "model/solve.h"

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
    job->reason = REASON_NONE;
    job->queued_at = core->now;
    job->limit_mib = 0; /* what it has and uses elsewhere is another matter */
    job->limit_percent = 100;
    job->measured = false;
    core->waiting++;
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
        struct plan plan = { .core = core, .vc = job->vc };

        vc->policy.planner->queued(&vc->planner, &plan, index);
    }
}

void core_dequeue(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];

    assert(job_waits(job->state));
    core->waiting--;
    users_wait(core, index, false);
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

static void count_borrowed(struct vc *vc, uint32_t skus)
{
    vc->borrowed = 0;
    for (uint32_t s = 0; s < skus; s++)
        if (vc->used[s] > vc->quota[s])
            vc->borrowed += vc->used[s] - vc->quota[s];
}

/* Whom the job follows in the run list: the last one, as a rule. A job whose stop was taken back follows whom it
 * followed before, if that one is still there; else it is looked for from the end. */
static uint32_t run_before(const struct core *core, const struct vc *vc, const struct job *job)
{
    uint32_t at = vc->run_last, was = job->prev;

    if (at == JOB_NONE || core->jobs[at].last_start <= job->last_start)
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
static void keep_within(struct core *core, const struct vc *vc, uint32_t sku)
{
    struct plan plan = { .core = core, .vc = vc->index };

    if (vc->kept[sku] == 0 || vc->used[sku] - vc->lent[sku] + (int64_t)vc->kept[sku] * MGPU_ONE <= vc->quota[sku])
        return;
    for (uint32_t i = 0; i < core->job_top && vc->kept[sku]; i++)
        if (core->jobs[i].state == JOB_RESERVED && core->jobs[i].vc == vc->index)
            plan_unreserve(&plan, i);
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
    if (job->klass == CLASS_OPPORTUNISTIC)
        vc->guest[job->sku] += amount;
    else
        vc->used[job->sku] += amount;
    if (vc->own && job->klass != CLASS_OPPORTUNISTIC && !job_bound(job))
        vc->lent[job->sku] += amount;
    count_borrowed(vc, core->ledger.topo.sku_count);
    core->mgpu_held += amount;
    core->mgpu_guests += guest_is(core, job) ? amount : 0;
    users_hold(core, index, 1);
    core->running++;
    vc->running++;
    run_link(core, vc, index);
    queue_run_add(core, index);
    keep_within(core, vc, job->sku);
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
    if (job->klass == CLASS_OPPORTUNISTIC)
        vc->guest[job->sku] -= amount;
    else
        vc->used[job->sku] -= amount;
    if (vc->own && job->klass != CLASS_OPPORTUNISTIC && !job_bound(job))
        vc->lent[job->sku] -= amount;
    count_borrowed(vc, core->ledger.topo.sku_count);
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

    core_move(core, index, JOB_STARTING);
    job->attempts++;
    job->prepared = false;
    core_emit(core, job->resumes ? EFFECT_RESUME : EFFECT_START, index);
    job->resumes = true;
}

/* Gives the GPUs back, and launches whoever was waiting for just them. */
static void release(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    uint32_t count = hold_release(core, index);

    pair_part(core, index);
    job->gpus = 0;
    job->sheds = false;
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
    release(core, index);
    core_enqueue(core, index);
}

static void forget(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct vc *vc = &core->vcs[job->vc];

    heap_clear(&core->timers, timer_of(index, TIMER_KEY));
    heap_clear(&core->timers, timer_of(index, TIMER_PLANNER));
    promise_settle(core, index);
    if (!job_gpuless(job) && vc->policy.order->ended && vc->policy.order->ended(&vc->order, job))
        vc->dirty = vc->stale = true;
    if (!job_gpuless(job) && vc->policy.planner->ended)
        vc->policy.planner->ended(&vc->planner, &(struct plan){ .core = core, .vc = job->vc }, index);
    core_emit(core, EFFECT_FORGET, index);
    core_move(core, index, JOB_FREE);
    job->gen++;
    job->next = core->job_free;
    core->job_free = index;
}

static void apply_ended(struct core *core, const struct event *event)
{
    struct job *job = &core->jobs[event->job];
    bool leaving = job->state == JOB_STOPPING || job->state == JOB_SUSPENDED;
    bool cancelled = job->state == JOB_STOPPING && job->stop == STOP_CANCEL;
    bool again = event->fail != FAIL_NONE && event->fail != FAIL_USER && job->fails < job->spec.retries && !cancelled;

    job_settle(job, core->now);
    if (!leaving)
        core_detach(core, event->job);
    core->vcs[job->vc].suspended -= job->state == JOB_SUSPENDED;
    job->yields = false;
    core_move(core, event->job, again ? JOB_PENDING : event->fail == FAIL_NONE ? JOB_DONE : JOB_FAILED);
    core_stir(core, job);
    if (event->fail != FAIL_NONE) {
        job->fails++;
        job->progress = event->progress != PROGRESS_OWN ? event->progress : 0;
    }
    core_decide(core,
                again                      ? DECISION_RETRY
                : event->fail == FAIL_NONE ? DECISION_END
                                           : DECISION_FAIL,
                event->job, REASON_NONE);
    release(core, event->job);
    if (again)
        core_enqueue(core, event->job);
    else
        forget(core, event->job);
}

static void apply_stopped(struct core *core, const struct event *event)
{
    struct job *job = &core->jobs[event->job];
    bool cancelled = job->stop == STOP_CANCEL;

    if (job->sheds) {
        splice_left(core, event->job);
        return;
    }
    job_settle(job, core->now);
    if (event->progress != PROGRESS_OWN)
        job->progress = event->progress;
    if (job->parks && !cancelled) {
        uint32_t count = hold_park(core, event->job);

        pair_part(core, event->job);
        core_move(core, event->job, JOB_SUSPENDED);
        job->reason = REASON_SUSPENDED;
        core->vcs[job->vc].suspended++;
        core_stir(core, job);
        for (uint32_t i = 0; i < count; i++)
            core_start_now(core, core->ready[i]);
        return;
    }
    core_move(core, event->job, cancelled ? JOB_KILLED : JOB_PENDING);
    release(core, event->job);
    if (cancelled)
        forget(core, event->job);
    else
        core_enqueue(core, event->job);
}

static void apply_started(struct core *core, const struct event *event)
{
    struct job *job = &core->jobs[event->job];

    if (job->state != JOB_STARTING)
        return; /* it was told to leave while it started; the answer to that is on its way */
    job->moving = false;
    if (job->sheds)
        splice_left(core, event->job); /* it is elsewhere: so it has left */
    core_move(core, event->job, JOB_RUNNING);
    job->rate = event->rate;
    if (job->first_start < 0)
        job->first_start = core->now;
    queue_rekey(core, event->job);
}

static void apply_rate(struct core *core, const struct event *event)
{
    struct job *job = &core->jobs[event->job];

    job_settle(job, core->now);
    if (event->rate > 0)
        job->rate = event->rate;
    if (event->progress != PROGRESS_OWN)
        job->progress = event->progress;
    queue_rekey(core, event->job);
}

/* Hardware took the job down: it waits again, with what it had saved. One that a person has cancelled is gone. */
static void evict(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    bool held = job_holds(job->state), cancelled = job->state == JOB_STOPPING && job->stop == STOP_CANCEL;

    job_settle(job, core->now);
    if (held)
        core_detach(core, index);
    if (job->state == JOB_SUSPENDED) {
        job->waited[job->reason] += core->now - job->state_since;
        job->prepared = job->yields = false;
        core->vcs[job->vc].suspended--;
    }
    if (!cancelled)
        core_decide(core, DECISION_KILL, index, REASON_NODES_UNHEALTHY);
    core_emit(core, EFFECT_KILL, index);
    job->evictions++;
    job->preemptions += held; /* one that was leaving was counted when it was told to */
    core_move(core, index, cancelled ? JOB_KILLED : JOB_PENDING);
    release(core, index);
    if (cancelled)
        forget(core, index);
    else
        core_enqueue(core, index);
}

/* Those that wait for others to leave the GPU lose it first: else they would be launched when those are taken down. */
static void evict_claims(struct core *core, uint32_t gpu)
{
    uint32_t s = core->ledger.gpus[gpu].shares;

    while (s != SHARE_NONE) {
        uint32_t job = core->ledger.shares[s].job;

        if (core->jobs[job].state != JOB_CLAIMING) {
            s = core->ledger.shares[s].next_of_gpu;
            continue;
        }
        evict(core, job);
        s = core->ledger.gpus[gpu].shares;
    }
}

static void unreserve_gpu(struct core *core, uint32_t gpu)
{
    uint32_t job = core->ledger.gpus[gpu].reserved_for;

    if (job != JOB_NONE)
        plan_unreserve(&(struct plan){ .core = core, .vc = core->jobs[job].vc }, job);
}

static void evict_gpu(struct core *core, uint32_t gpu)
{
    struct gpu *g = &core->ledger.gpus[gpu];

    while (g->shares != SHARE_NONE)
        evict(core, core->ledger.shares[g->shares].job);
    unreserve_gpu(core, gpu);
}

static void apply_node(struct core *core, const struct event *event)
{
    struct node *node = &core->ledger.topo.nodes[event->target];

    bool drained = !event->up && event->value != 0;

    for (uint32_t i = 0; drained && i < node->gpus; i++)
        unreserve_gpu(core, node->first_gpu + i);
    for (uint32_t i = 0; !event->up && !drained && i < node->gpus; i++)
        evict_claims(core, node->first_gpu + i);
    for (uint32_t i = 0; !event->up && !drained && i < node->gpus; i++)
        evict_gpu(core, node->first_gpu + i);
    for (uint32_t job; !event->up && !drained && (job = tasks_first(core, event->target)) != JOB_NONE;)
        evict(core, job);
    topo_node_up(&core->ledger.topo, event->target, event->up);
    core->tasks_dirty = true;
    node->closed = drained;
    for (uint32_t i = 0; i < node->gpus; i++)
        own_health(core, node->first_gpu + i);
    core->ledger.releases++; /* reasons change even when a node goes */
    for (uint32_t v = 0; v < core->vc_count; v++)
        core->vcs[v].dirty = true;
}

static void apply_gpu(struct core *core, const struct event *event)
{
    if (!event->up) {
        evict_claims(core, event->target);
        evict_gpu(core, event->target);
    }
    ledger_gpu_bad(&core->ledger, event->target, !event->up);
    own_health(core, event->target);
    core->ledger.releases++;
    for (uint32_t v = 0; v < core->vc_count; v++)
        core->vcs[v].dirty = true;
}

static void apply_cancel(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct plan plan = { .core = core, .vc = job->vc };

    core_decide(core, DECISION_KILL, index, REASON_NONE);
    if (job->state == JOB_RESERVED)
        plan_unreserve(&plan, index);
    if (job_waits(job->state)) {
        core_dequeue(core, index);
    } else if (job_holds(job->state)) {
        job_settle(job, core->now);
        core_detach(core, index);
        core_emit(core, EFFECT_KILL, index);
    } else if (job->state == JOB_STOPPING) {
        job->stop = STOP_CANCEL; /* it is leaving already; it will not come back */
        return;
    } else if (job->state != JOB_OFFERED) {
        if (job->prepared || job->yields)
            core_emit(core, EFFECT_KILL, index);
        job->waited[job->reason] += core->now - job->state_since;
        core->vcs[job->vc].suspended -= job->state == JOB_SUSPENDED;
    }
    core_move(core, index, JOB_KILLED);
    release(core, index);
    core_stir(core, job);
    forget(core, index);
}

static void apply_hold(struct core *core, uint32_t index, bool hold)
{
    struct job *job = &core->jobs[index];
    struct plan plan = { .core = core, .vc = job->vc };

    if (hold && job->state == JOB_OFFERED) {
        job->reason = REASON_HELD; /* as it comes: when it is admitted */
    } else if (hold && job_waits(job->state)) {
        if (job->state == JOB_RESERVED)
            plan_unreserve(&plan, index);
        core_dequeue(core, index);
        core_move(core, index, JOB_HELD);
        job->reason = REASON_HELD;
        core_stir(core, job);
    } else if (!hold && job->state == JOB_HELD) {
        job->waited[REASON_HELD] += core->now - job->state_since;
        core_move(core, index, JOB_PENDING);
        core_enqueue(core, index);
    }
}

/* A person moves it in its queue. What runs keeps running; a policy that preempts may look at it in another light. */
static void apply_rank(struct core *core, const struct event *event)
{
    struct job *job = &core->jobs[event->job];

    job->spec.priority = (int16_t)event->value;
    if (job->state == JOB_OFFERED)
        return;
    queue_rekey(core, event->job);
    core_stir(core, job);
}

static void apply_report(struct core *core, const struct event *event)
{
    struct vc *vc = &core->vcs[core->jobs[event->job].vc];
    struct plan plan = { .core = core, .vc = core->jobs[event->job].vc };

    if (job_gpuless(&core->jobs[event->job]))
        return;
    if (event->report.kind == MEASURE_USE)
        guest_measured(core, event->job, &event->report);
    if (vc->policy.planner->report)
        vc->policy.planner->report(&vc->planner, &plan, event->job, &event->report);
    for (uint32_t i = 0; i < vc->policy.tune_count; i++)
        if (vc->policy.tune[i]->report)
            vc->policy.tune[i]->report(&vc->tune[i], &plan, event->job, &event->report);
}

static void apply_solved(struct core *core, const struct event *event)
{
    struct vc *vc = &core->vcs[event->target];
    struct solution solution = { .kind = vc->solve_kind, .words = event->words, .count = event->word_count };

    if (!vc->solving || vc->ticket != event->ticket)
        return; /* offered twice */
    vc->solving = false;
    vc->dirty = true;
    vc->policy.planner->solved(&vc->planner, &(struct plan){ .core = core, .vc = event->target }, &solution);
}

static void apply_submit(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct vc *vc = &core->vcs[job->vc];
    struct plan plan = { .core = core, .vc = job->vc };

    job->since = core->now;
    if (vc->policy.place->level && !job_gpuless(job))
        job->level = vc->policy.place->level(&vc->place, &job->spec);
    if (vc->policy.admit && !job_gpuless(job) && vc->policy.admit->admit(&vc->admit, &plan, index) == ADMIT_REFUSE) {
        core_decide(core, DECISION_REFUSE, index, REASON_NONE);
        core_move(core, index, JOB_KILLED);
        forget(core, index);
        return;
    }
    if (job->reason == REASON_HELD) {
        core_move(core, index, JOB_HELD);
        return;
    }
    core_move(core, index, JOB_PENDING);
    core_enqueue(core, index);
}

static bool of_no_job(enum event_kind kind)
{
    return kind == EVENT_NODE || kind == EVENT_GPU || kind == EVENT_QUOTA || kind == EVENT_SOLVED;
}

/* Whom the event concerns, in whose guarantee something happened. */
static void wake(struct core *core, const struct event *event, bool late)
{
    uint32_t first = of_no_job(event->kind) ? 0 : core->jobs[event->job].vc;
    uint32_t end = of_no_job(event->kind) ? core->vc_count : first + 1;

    /* What opportunistic jobs do is beyond the guarantee. */
    if (!of_no_job(event->kind) && core->vcs[first].own && core->jobs[event->job].klass == CLASS_OPPORTUNISTIC)
        return;
    for (uint32_t v = first; v < end; v++) {
        core->vcs[v].awake = true;
        core->vcs[v].late |= late;
    }
}

static void apply(struct core *core, const struct event *event)
{
    bool late = false;

    switch (event->kind) {
    case EVENT_ENDED:
        apply_ended(core, event);
        break;
    case EVENT_STOPPED:
        apply_stopped(core, event);
        break;
    case EVENT_STARTED:
        apply_started(core, event);
        break;
    case EVENT_RATE:
        apply_rate(core, event);
        break;
    case EVENT_NODE:
        apply_node(core, event);
        break;
    case EVENT_GPU:
        apply_gpu(core, event);
        break;
    case EVENT_QUOTA:
        core->vcs[event->target].quota[event->sku] = (int64_t)event->value * MGPU_ONE;
        count_borrowed(&core->vcs[event->target], core->ledger.topo.sku_count);
        for (uint32_t v = 0; v < core->vc_count; v++)
            core->vcs[v].dirty = true;
        break;
    case EVENT_CANCEL:
        apply_cancel(core, event->job);
        break;
    case EVENT_HOLD:
    case EVENT_RELEASE:
        apply_hold(core, event->job, event->kind == EVENT_HOLD);
        break;
    case EVENT_RANK:
        apply_rank(core, event);
        break;
    case EVENT_REPORT:
        apply_report(core, event);
        break;
    case EVENT_SOLVED:
        apply_solved(core, event);
        break;
    case EVENT_SUBMIT:
        apply_submit(core, event->job);
        break;
    case EVENT_COUNT:
        break;
    }
    /* Answers to the pass's own orders change nothing that it did not know; everything else does. */
    if (event->kind != EVENT_STOPPED && event->kind != EVENT_STARTED && event->kind != EVENT_RATE)
        late = core->late = true;
    wake(core, event, late);
}

/* Whether the job an event speaks of is still the one it was offered about, and in a state that fits. An event of the
 * same instant may have changed that (a node that died under a job that ended): the first one wins. */
static bool still_true(const struct core *core, const struct event *event)
{
    const struct job *job;

    if (of_no_job(event->kind))
        return true;
    job = &core->jobs[event->job];
    if (job->gen != event->gen)
        return false;
    switch (event->kind) {
    case EVENT_ENDED:
        return job->state == JOB_RUNNING || job->state == JOB_STARTING || job->state == JOB_STOPPING ||
               (job->state == JOB_SUSPENDED && job->yields);
    case EVENT_STOPPED:
        return job->state == JOB_STOPPING || job->sheds;
    case EVENT_STARTED:
    case EVENT_RATE:
    case EVENT_REPORT:
    case EVENT_CANCEL:
    case EVENT_HOLD:
    case EVENT_RELEASE:
    case EVENT_RANK:
    case EVENT_SUBMIT:
        return job->state != JOB_FREE;
    case EVENT_NODE:
    case EVENT_GPU:
    case EVENT_QUOTA:
    case EVENT_SOLVED:
    case EVENT_COUNT:
        break;
    }
    return false;
}

static bool event_before(const struct core *core, const struct event *a, const struct event *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind;
    if (of_no_job(a->kind))
        return false; /* as they were offered */
    return core->jobs[a->job].spec.id < core->jobs[b->job].spec.id;
}

/* Merges neighbouring runs of doubling length, from one array into the other and back; equals stay as offered. */
static void inbox_sort(struct core *core)
{
    struct event *from = core->inbox, *to = core->inbox_spare;
    uint32_t count = core->inbox_count, sorted = 1;

    while (sorted < count && !event_before(core, &from[sorted], &from[sorted - 1]))
        sorted++;
    if (sorted >= count)
        return;
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t low = 0; low < count; low += 2 * width) {
            uint32_t middle = low + width < count ? low + width : count;
            uint32_t high = middle + width < count ? middle + width : count, a = low, b = middle;

            for (uint32_t at = low; at < high; at++)
                to[at] = b == high || (a < middle && !event_before(core, &from[b], &from[a])) ? from[a++] : from[b++];
        }
        core->inbox = to;
        core->inbox_spare = from;
        from = core->inbox;
        to = core->inbox_spare;
    }
}

/* Whether the key of some job changed. */
static bool fire_timers(struct core *core)
{
    bool again = false;

    while (heap_next(&core->timers) <= core->now) {
        uint32_t element = heap_first(&core->timers);
        uint32_t index = element / TIMERS_A_JOB;

        if (element >= core->job_capacity * TIMERS_A_JOB) {
            uint32_t v = element - core->job_capacity * TIMERS_A_JOB;

            if (v < core->vc_count)
                core->vcs[v].dirty = core->vcs[v].awake = true;
        } else if (element % TIMERS_A_JOB == TIMER_KEY) {
            heap_clear(&core->timers, element);
            queue_rekey(core, index);
            if (core->vcs[core->jobs[index].vc].min_runtime)
                core->ledger.releases++; /* it may be stopped from now on, by others too */
            again = true;
            core_stir(core, &core->jobs[index]);
            if (!core->vcs[core->jobs[index].vc].own || core->jobs[index].klass != CLASS_OPPORTUNISTIC)
                core->vcs[core->jobs[index].vc].awake = core->vcs[core->jobs[index].vc].fired = true;
        } else {
            struct vc *vc = &core->vcs[core->jobs[index].vc];
            struct plan plan = { .core = core, .vc = core->jobs[index].vc };

            vc->awake = true;
            vc->policy.planner->timer(&vc->planner, &plan, index);
        }
        /* One that was set anew has moved, which is cheaper than to leave and come back. */
        if (heap_at(&core->timers, element) <= core->now)
            heap_clear(&core->timers, element);
    }
    return again;
}

/* All keys of a virtual cluster changed: each job is put where it belongs now. The ordering sees to it that this is
 * rare enough to be paid for by the events between. */
static void rekey_stale(struct core *core)
{
    bool stale = false;

    for (uint32_t v = 0; v < core->vc_count; v++)
        stale |= core->vcs[v].stale;
    for (uint32_t i = 0; i < core->job_top && stale; i++)
        if (core->vcs[core->jobs[i].vc].stale && (job_waits(core->jobs[i].state) || job_holds(core->jobs[i].state)))
            queue_rekey(core, i);
    for (uint32_t v = 0; v < core->vc_count; v++)
        core->vcs[v].stale = false;
}

const struct outbox *core_step(struct core *core, usec_t at)
{
    bool quiet = core->inbox_count == 0;

    assert(at >= core->now);
    core->passes = at == core->now ? core->passes : 0;
    core->now = at;
    core->outbox.effect_count = core->outbox.decision_count = core->outbox.gpu_count = core->outbox.word_count = 0;
    core->late = false;
    inbox_sort(core);
    for (uint32_t i = 0; i < core->inbox_count; i++)
        if (still_true(core, &core->inbox[i]))
            apply(core, &core->inbox[i]);
    core->inbox_count = 0;
    core->answer_count = 0;
    own_settle(core);
    (void)users_settle(core);
    rekey_stale(core);
    /* Keys that change because of what the pass of this instant did wait until all answers to it are in. */
    if ((core->planned_at != at || quiet) && fire_timers(core) && core->passes < PASSES_MAX)
        core->planned_at = -1;
    if (core->planned_at != at)
        pass_run(core);
    else
        pass_late(core);
    for (uint32_t i = 0; i < core->fresh_count; i++)
        core->jobs[core->fresh[i]].fresh = false;
    core->fresh_count = 0;
    own_settle(core);
    for (uint32_t v = 0; v < core->vc_count && core->cells; v++)
        core->vcs[v].awake = core->vcs[v].late = core->vcs[v].fired = false;
#if MUSTER_CHECKED
    core_audit(core);
#endif
    return &core->outbox;
}
