/* SPDX-License-Identifier: Apache-2.0 */
/* job_events.c - what each kind of event does to jobs. */
#include "core/job_events.h"
#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "core/ledger/guest.h"
#include "core/planning/deferred_move.h"
#include "core/planning/resize.h"
#include "core/planning/vc_wakeup.h"
#include "core/retry.h"
#include "model/measure.h"
#include "model/solve.h"

static void apply_ended(struct core *core, const struct event *event)
{
    struct job *job = &core->jobs[event->job];
    bool leaving = job->state == JOB_STOPPING || job->state == JOB_SUSPENDED;
    bool cancelled = job->state == JOB_STOPPING && job->stop == STOP_CANCEL;
    bool again = !cancelled && retry_decide(job, &core->vcs[job->vc].policy, event->fail, event->value) == RETRY_AGAIN;

    job_settle(job, core->now);
    if (!leaving)
        core_detach(core, event->job);
    core->vcs[job->vc].suspended -= job->state == JOB_SUSPENDED;
    job->yields = false;
    core_move(core, event->job, again ? JOB_PENDING : event->fail == FAIL_NONE ? JOB_DONE : JOB_FAILED);
    core_stir(core, job);
    if (event->fail != FAIL_NONE) {
        retry_count(job, event->fail, event->value);
        job->progress = event->progress != PROGRESS_OWN ? event->progress : 0;
    }
    core_decide(core,
                again                      ? DECISION_RETRY
                : event->fail == FAIL_NONE ? DECISION_END
                                           : DECISION_FAIL,
                event->job, REASON_NONE);
    core_release(core, event->job);
    if (again)
        core_enqueue(core, event->job);
    else
        core_forget(core, event->job);
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
    core_release(core, event->job);
    if (cancelled)
        core_forget(core, event->job);
    else
        core_enqueue(core, event->job);
}

static void apply_started(struct core *core, const struct event *event)
{
    struct job *job = &core->jobs[event->job];

    if (job->state != JOB_STARTING || job_defers(job))
        return; /* it was told to leave while it started; the answer to that is on its way */
    job->moving = false;
    if (job->sheds)
        splice_left(core, event->job); /* it is elsewhere: so it has left */
    core_move(core, event->job, JOB_RUNNING);
    job->rate = event->rate;
    if (job->first_start < 0)
        job->first_start = core->now;
    if (job->ran_from < job->last_start)
        job->ran_from = core->now;
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
    core_release(core, index);
    core_stir(core, job);
    core_forget(core, index);
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
    core->vcs[job->vc].priorities_seen = false; /* they are looked through again */
    if (job->state == JOB_OFFERED)
        return;
    queue_rekey(core, event->job);
    core_stir(core, job);
}

static void apply_report(struct core *core, const struct event *event)
{
    struct vc *vc = &core->vcs[core->jobs[event->job].vc];
    struct plan plan = plan_about(core, &core->jobs[event->job]);

    /* What is measured where a job still runs tells nothing of where it is to be. */
    if (job_gpuless(&core->jobs[event->job]) || job_defers(&core->jobs[event->job]))
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
        core_forget(core, index);
        return;
    }
    if (job->reason == REASON_HELD) {
        core_move(core, index, JOB_HELD);
        return;
    }
    core_move(core, index, JOB_PENDING);
    core_enqueue(core, index);
}

/* Whom the event concerns, in whose guarantee something happened. */
static void wake(struct core *core, const struct event *event, bool late)
{
    uint32_t first = event_jobless(event->kind) ? 0 : core->jobs[event->job].vc;
    uint32_t end = event_jobless(event->kind) ? core->vc_count : first + 1;

    /* What opportunistic jobs do is beyond the guarantee. */
    if (!event_jobless(event->kind) && core->vcs[first].own && core->jobs[event->job].klass == CLASS_OPPORTUNISTIC)
        return;
    for (uint32_t v = first; v < end; v++) {
        core->vcs[v].awake = true;
        core->vcs[v].late |= late;
    }
}

void event_apply(struct core *core, const struct event *event)
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
        core_count_borrowed(&core->vcs[event->target], core->ledger.topo.sku_count);
        core_keep_within(core, &core->vcs[event->target], event->sku);
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
    case EVENT_SIZE:
        apply_size(core, event);
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
