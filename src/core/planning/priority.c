/* SPDX-License-Identifier: Apache-2.0 */
/* priority.c - see priority.h.
 *
 * Ranks put a higher priority before a lower one already (queue.c). What is left to do is to preempt: the first waiting
 * job in rank that does not fit stops running jobs of lower priority, those of the lowest first, of these those that
 * lose least (GPU-time since they last began), until it fits, and is started. Stops that turn out not to be needed are
 * taken back; if it does not fit without all of them, no job is stopped.
 */
#include "core/planning/priority.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/contract/plan.h"
#include "core/ledger/guest.h"
#include "core/planning/gang_parts.h"

bool priority_strict(const struct core *core, const struct vc *vc)
{
    bool able = vc->policy.planner->by_rank;

    return vc->priorities == PRIORITIES_UNTOLD ? able && core->cells != NULL && vc->own != NULL
                                               : able && vc->priorities == PRIORITIES_STRICT;
}

void priority_note(struct vc *vc, const struct job *job)
{
    int16_t priority = job->spec.priority;

    if (!vc->priorities_seen || job->klass == CLASS_OPPORTUNISTIC)
        return;
    vc->priority_low = priority < vc->priority_low ? priority : vc->priority_low;
    vc->priority_high = priority > vc->priority_high ? priority : vc->priority_high;
}

/* Whether jobs of several priorities may be there: where all are of one, nothing more has to be looked at. */
static bool priorities_differ(const struct core *core, struct vc *vc)
{
    if (!vc->priorities_seen) {
        vc->priorities_seen = true;
        vc->priority_low = PRIORITY_MAX;
        vc->priority_high = PRIORITY_MIN;
        for (uint32_t i = 0; i < core->job_top; i++)
            if (core->jobs[i].state > JOB_OFFERED && core->jobs[i].vc == vc->index)
                priority_note(vc, &core->jobs[i]);
    }
    return vc->priority_low < vc->priority_high;
}

static bool runs_inside(const struct core *core, const struct vc *vc, uint32_t index)
{
    const struct job *job = &core->jobs[index];

    return (job->state == JOB_RUNNING || job->state == JOB_STARTING) && job->klass != CLASS_OPPORTUNISTIC &&
           !job->planned && !job->sheds && !guest_is(core, job) && view_shows(&vc->view, index);
}

/* The lowest priority that runs; PRIORITY_MAX + 1: none. */
static int32_t lowest_running(const struct core *core, const struct vc *vc)
{
    int32_t lowest = PRIORITY_MAX + 1;

    for (uint32_t i = vc->run_first; i != JOB_NONE; i = core->jobs[i].next)
        if (core->jobs[i].spec.priority < lowest && runs_inside(core, vc, i))
            lowest = core->jobs[i].spec.priority;
    return lowest;
}

bool priority_waits(const struct core *core, struct vc *vc, const struct job *job)
{
    return job->klass != CLASS_OPPORTUNISTIC && priority_strict(core, vc) && priorities_differ(core, vc) &&
           job->spec.priority > lowest_running(core, vc);
}

/* The highest priority that waits; PRIORITY_MIN - 1: none. */
static int32_t highest_waiting(const struct core *core, const struct vc *vc)
{
    int32_t highest = PRIORITY_MIN - 1;

    for (uint32_t i = 0; i < vc->queue.live_count; i++) {
        uint32_t job = tree_first(core->tree, vc->queue.shapes[vc->queue.live[i]].root);

        if (job != TREE_NONE && core->jobs[job].spec.priority > highest)
            highest = core->jobs[job].spec.priority;
    }
    return highest;
}

/* What would be done again if the job were stopped now. */
static svc_t loss_of(const struct core *core, const struct job *job)
{
    if (job->state != JOB_RUNNING || job->ran_from < job->last_start)
        return 0;
    return svc_of((int64_t)job->gpus * job->spec.share, core->now - job->ran_from);
}

static bool on_any(const struct job *job, uint32_t skus)
{
    for (uint32_t s = 0; s < SKUS_MAX; s++)
        if (skus >> s & 1 && job_on(job, s))
            return true;
    return false;
}

/* The next victim for a job of that priority, on one of these types; JOB_NONE: there is none. */
static uint32_t victim_next(const struct plan *plan, int32_t priority, uint32_t skus)
{
    const struct core *core = plan->core;
    uint32_t best = JOB_NONE;

    for (uint32_t i = core->vcs[plan->vc].run_first; i != JOB_NONE; i = core->jobs[i].next) {
        const struct job *job = &core->jobs[i], *was = best == JOB_NONE ? NULL : &core->jobs[best];

        if (job->spec.priority >= priority || !runs_inside(core, &core->vcs[plan->vc], i) || !on_any(job, skus) ||
            !plan_may_stop(plan, i))
            continue;
        if (!was || job->spec.priority < was->spec.priority ||
            (job->spec.priority == was->spec.priority && loss_of(core, job) <= loss_of(core, was)))
            best = i;
    }
    return best;
}

/* A look that forgets what did not fit before. */
static int find_afresh(struct plan *plan, struct shape_class *cls, struct placement *ret)
{
    memset(cls->no_fit, 0, sizeof(cls->no_fit));
    memset(cls->no_fit_own, 0, sizeof(cls->no_fit_own));
    return plan_find(plan, cls, ret);
}

/* Stops whom it takes on these types: so many of core->victims, of whom some may have been kept after all. 0: it does
 * not fit whoever is stopped, and nobody was. */
static uint32_t victims_stop(struct plan *plan, struct shape_class *cls, int32_t priority, uint32_t skus,
                             struct placement *ret)
{
    uint32_t *victims = plan->core->victims, count = 0;
    int r = -EBUSY;

    for (uint32_t i; r < 0 && (i = victim_next(plan, priority, skus)) != JOB_NONE;) {
        if (plan_stop(plan, i, STOP_CHECKPOINT) < 0)
            break;
        victims[count++] = i;
        r = find_afresh(plan, cls, ret);
    }
    /* Victims that turn out not to be needed are kept. The last one was needed. */
    for (uint32_t i = 0; i < (r == 0 ? count - 1 : count); i++)
        if (plan_keep(plan, victims[i]) == 0 && r == 0 && find_afresh(plan, cls, ret) < 0)
            (void)plan_stop(plan, victims[i], STOP_CHECKPOINT);
    return r == 0 && find_afresh(plan, cls, ret) == 0 ? count : 0;
}

static int preempt_for(struct plan *plan, uint32_t index, struct shape_class *cls)
{
    struct core *core = plan->core;
    int32_t priority = core->jobs[index].spec.priority;
    uint32_t skus = cls->shape.sku_mask, count = 0;
    struct placement to;
    int r = -EBUSY;

    for (uint32_t i = 0; i < cls->shape.side_count; i++)
        skus |= cls->shape.sides[i].sku_mask;
    if (cls->shape.side_count)
        count = victims_stop(plan, cls, priority, skus, &to);
    for (uint32_t s = 0; count == 0 && s < core->ledger.topo.sku_count && !cls->shape.side_count; s++)
        if (skus >> s & 1)
            count = victims_stop(plan, cls, priority, 1U << s, &to);
    if (count)
        r = plan_start(plan, index, &to);
    /* Its user has all that one may have, say: then nobody leaves for it. */
    for (uint32_t i = 0; i < count && r < 0; i++)
        if (core->jobs[core->victims[i]].state == JOB_STOPPING)
            (void)plan_keep(plan, core->victims[i]);
    return r;
}

void priority_preempt(struct plan *plan)
{
    struct core *core = plan->core;
    struct vc *vc = &core->vcs[plan->vc];
    const struct planner_ops *planner = vc->policy.planner;
    bool tried[SHAPES_MAX];
    int32_t lowest;

    if (plan->phase != PHASE_OWED || vc->running == 0 || vc->queue.waiting == 0 || !priority_strict(core, vc) ||
        !priorities_differ(core, vc))
        return;
    lowest = lowest_running(core, vc);
    if (highest_waiting(core, vc) <= lowest)
        return;
    memset(tried, 0, sizeof(tried));
    for (;;) {
        uint32_t first = view_first_waiting(&vc->view, vc, tried), shape;
        struct shape_class *cls;
        struct placement to;

        if (first == TREE_NONE || core->jobs[first].spec.priority <= lowest)
            return;
        shape = core->jobs[first].shape;
        cls = &vc->queue.shapes[shape];
        tried[shape] = true;
        if (cls->shape.klass == CLASS_OPPORTUNISTIC || core->jobs[first].state == JOB_RESERVED ||
            !plan_considers(plan, cls))
            continue;
        /* Its planner would start it next in any case; those behind it see what is left. */
        if ((plan_find(plan, cls, &to) == 0 && plan_start(plan, first, &to) == 0) || preempt_for(plan, first, cls) == 0)
            tried[shape] = false;
        else if (!planner->overtakes || !planner->overtakes(&vc->planner))
            return; /* whoever is behind it must not delay it */
    }
}
