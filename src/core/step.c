/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - steps: the order of events, timers, the pass. What events do is in job_events.c, the planning pass in
 * pass.c.
 *
 * An instant goes: ends, answers, health, people, arrivals (the order of enum event_kind), then timers, then one pass.
 */
#include <assert.h>

#include "core/contract/plan.h"
#include "core/job_events.h"
#include "core/planning/deferred_move.h"
#include "core/planning/pass.h"
#include "core/planning/vc_wakeup.h"

/* Whether the job an event speaks of is still the one it was offered about, and in a state that fits. An event of the
 * same instant may have changed that (a node that died under a job that ended): the first one wins. */
static bool still_true(const struct core *core, const struct event *event)
{
    const struct job *job;

    if (event_jobless(event->kind))
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
    case EVENT_SIZE:
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
    if (event_jobless(a->kind))
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
            else if (v > core->vc_count)
                core->vcs[v - core->vc_count - 1].stirred = true;
        } else if (element % TIMERS_A_JOB == TIMER_KEY) {
            heap_clear(&core->timers, element);
            queue_rekey(core, index);
            if (core->vcs[core->jobs[index].vc].min_runtime || core->jobs[index].spec.min_runtime)
                core->ledger.releases++; /* it may be stopped from now on, by others too */
            core->tasks_dirty |= job_gpuless(&core->jobs[index]);
            again = true;
            core_stir(core, &core->jobs[index]);
            if (!core->vcs[core->jobs[index].vc].own || core->jobs[index].klass != CLASS_OPPORTUNISTIC)
                core->vcs[core->jobs[index].vc].awake = core->vcs[core->jobs[index].vc].fired = true;
        } else {
            struct vc *vc = &core->vcs[core->jobs[index].vc];
            struct plan plan = plan_about(core, &core->jobs[index]);

            vc->awake |= plan.phase == PHASE_OWED;
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
            event_apply(core, &core->inbox[i]);
    core->inbox_count = 0;
    core->answer_count = 0;
    defer_settle(core);
    own_settle(core);
    (void)users_settle(core, true);
    licenses_settle(core, true);
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
    defer_settle(core);
    own_settle(core);
    for (uint32_t v = 0; v < core->vc_count && core->cells; v++)
        core->vcs[v].awake = core->vcs[v].late = core->vcs[v].fired = false;
#if MUSTER_CHECKED
    core_audit(core);
#endif
    return &core->outbox;
}
