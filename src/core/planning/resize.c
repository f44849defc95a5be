/* SPDX-License-Identifier: Apache-2.0 */
/* resize.c - a person sets the size of an elastic job.
 *
 * The size set is the only one the job has from then on: its range becomes that one number, so that whatever policy
 * there is sees a rigid job and leaves it as it is; 0 gives it back the range it came with. A job that waits has
 * another shape. One that runs is moved by the core, in the pass that finds room: fewer GPUs are some of those it has,
 * at once; more are looked for by the placement of its virtual cluster, within what that may hold, after everybody who
 * waits there had its turn, and nobody is stopped for them. Until then it runs at the size it has.
 *
 * Where a policy plans the sizes of all its jobs together (planner->sizes), or has promised the job's end, the policy
 * decides and the person is refused. See docs/adr/0043-sizes-by-hand.md.
 */
#include "core/planning/resize.h"

#include <errno.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "core/planning/deferred_move.h"

/* Sets what is wanted and not yet so. */
static void want(struct core *core, uint32_t index, int32_t gpus)
{
    struct job *job = &core->jobs[index];
    struct vc *vc = &core->vcs[job->vc];

    vc->resizing -= job->size != 0;
    vc->resizing += gpus != 0;
    job->size = gpus;
}

int core_size_check(struct core *core, uint32_t index, int32_t gpus, struct error *err)
{
    const struct job *job = &core->jobs[index];
    const struct planner_ops *planner = core->vcs[job->vc].policy.planner;
    struct jobspec spec = job->spec;
    struct shape shape;

    if (jobspec_size_check(&spec, gpus, err) < 0)
        return -ERANGE;
    if (planner->sizes)
        return error_set(err, -EPERM,
                         "job %lld: the policy of its virtual cluster (%s) decides the sizes of its jobs itself",
                         (long long)spec.id, planner->name);
    if (rules_leased(job))
        return error_set(err, -EPERM, "job %lld was promised its end at the size it has", (long long)spec.id);
    if (gpus == 0)
        return 0;
    jobspec_resize(&spec, gpus);
    if (core_feasible(core, &spec, job->vc, err) < 0)
        return -ERANGE;
    shape = queue_shape(core, &spec, job->level, job->klass);
    if (!queue_has_room(&core->vcs[job->vc].queue, &shape))
        return error_set(err, -ENOSPC, "job %lld: more than %d different shapes wait already", (long long)spec.id,
                         SHAPES_OFFERED_MAX);
    return 0;
}

void resize_waiting(struct core *core, uint32_t index)
{
    struct job *job = &core->jobs[index];
    struct jobspec spec = job->spec;
    struct shape shape;

    if (job->size == 0)
        return;
    jobspec_resize(&spec, job->size);
    shape = queue_shape(core, &spec, job->level, job->klass);
    if (!queue_has_room(&core->vcs[job->vc].queue, &shape))
        return; /* it goes to that size when it runs */
    job->spec = spec;
    want(core, index, 0);
}

/* It is in its queue, at its place, as a job of another shape; 0: as one that may be of any. */
static void change_waiting(struct core *core, uint32_t index, int32_t gpus)
{
    struct job *job = &core->jobs[index];
    struct plan plan = { .core = core, .vc = job->vc };

    if (job->state == JOB_RESERVED)
        plan_unreserve(&plan, index);
    core_dequeue(core, index);
    if (gpus == 0)
        jobspec_resize(&job->spec, 0);
    want(core, index, gpus);
    core_enqueue(core, index);
}

void apply_size(struct core *core, const struct event *event)
{
    struct job *job = &core->jobs[event->job];
    bool fixed = job->spec.range_max != 0;

    if (core->vcs[job->vc].policy.planner->sizes || rules_leased(job) || !jobspec_elastic(&job->spec))
        return; /* something of the same instant has changed that */
    core_decide(core, DECISION_SIZE, event->job, REASON_NONE)->needs = event->value;
    if (job_waits(job->state) && (event->value || fixed)) {
        change_waiting(core, event->job, event->value);
    } else if (event->value == 0) {
        want(core, event->job, 0);
        if (fixed)
            jobspec_resize(&job->spec, 0);
    } else {
        want(core, event->job, event->value);
        if (job->state == JOB_OFFERED || job->state == JOB_HELD)
            resize_waiting(core, event->job);
    }
    core_stir(core, job);
}

/* Whether somebody of its virtual cluster waits for GPUs like those it has. */
static bool somebody_waits(const struct vc *vc, const struct job *job)
{
    for (uint32_t i = 0; i < vc->queue.live_count; i++) {
        const struct shape *shape = &vc->queue.shapes[vc->queue.live[i]].shape;

        if (shape->sku_mask >> job->sku & 1 &&
            (shape->klass != CLASS_OPPORTUNISTIC || job->klass == CLASS_OPPORTUNISTIC))
            return true;
    }
    return false;
}

/* How many of its GPUs a job has on the node of this one. */
static uint32_t beside(const struct ledger *ledger, uint32_t shares, uint32_t gpu)
{
    uint32_t count = 0;

    for (uint32_t s = shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        count += ledger->gpus[ledger->shares[s].gpu].node == ledger->gpus[gpu].node;
    return count;
}

/* Some of the GPUs it has: those on the nodes where it has most of them, in order. */
static void keep_some(const struct plan *plan, const struct job *job, uint32_t want, uint32_t *out)
{
    const struct ledger *ledger = plan_ledger(plan);
    uint32_t first = plan_own(plan) ? job->own_shares : job->shares, count = 0;

    for (uint32_t most = (uint32_t)job->gpus; count < want; most--)
        for (uint32_t s = first; s != SHARE_NONE && count < want; s = ledger->shares[s].next_of_job) {
            uint32_t gpu = ledger->shares[s].gpu, at = count;

            if (beside(ledger, first, gpu) != most)
                continue;
            for (; at > 0 && out[at - 1] > gpu; at--)
                out[at] = out[at - 1];
            out[at] = gpu;
            count++;
        }
}

/* GPUs for the job as it would be, its own among those that can be had. */
static int find_more(struct plan *plan, uint32_t index, struct placement *ret)
{
    struct core *core = plan->core;
    const struct job *job = &core->jobs[index];
    struct shape_class cls = { .shape = queue_shape(core, &job->spec, job->level, job->klass) };
    bool deferring = core->deferring;
    int r, stayed;

    cls.shape.sku_mask &= 1U << job->sku;
    core->deferring = false;
    core_detach(core, index);
    hold_leave(core, index);
    r = plan_find(plan, &cls, ret);
    stayed = hold_stay(core, index);
    core_attach(core, index);
    core->deferring = deferring;
    return stayed < 0 ? stayed : r;
}

static void resize_one(struct core *core, uint32_t index, bool own)
{
    struct job *job = &core->jobs[index];
    struct vc *vc = &core->vcs[job->vc];
    struct plan plan = { .core = core, .vc = job->vc, .phase = own ? PHASE_OWED : PHASE_BORROW };
    struct placement to = { vc->place.out, (uint32_t)job->size };
    struct jobspec before = job->spec;
    int r = 0;

    if (job->state != JOB_RUNNING || job->planned || job->mate != JOB_NONE ||
        core->ledger.shares[job->shares].role != ROLE_OWNER || vc->policy.planner->sizes || rules_leased(job))
        return;
    if (job->size > job->gpus && somebody_waits(vc, job))
        return;
    jobspec_resize(&job->spec, job->size);
    vc->place.server_count = 0;
    if (job->size < job->gpus)
        keep_some(&plan, job, (uint32_t)job->size, vc->place.out);
    else if (job->size > job->gpus)
        r = find_more(&plan, index, &to);
    if (r == 0 && job->size != job->gpus)
        r = move_try(&plan, index, &to);
    if (r == 0)
        want(core, index, 0);
    else
        job->spec = before;
}

void resize_pass(struct core *core, bool own)
{
    if (own && !core->cells)
        return;
    for (uint32_t v = 0; v < core->vc_count; v++) {
        struct vc *vc = &core->vcs[core->vc_order[v]];

        if (vc->resizing == 0 || (own && !vc->in_turn))
            continue;
        own_look(core, vc, own);
        /* One that was moved is last in the list then: each is looked at once. */
        for (uint32_t i = vc->run_first, left = vc->running, next; i != JOB_NONE && left > 0; i = next, left--) {
            next = core->jobs[i].next;
            if (core->jobs[i].size && (core->cells && job_bound(&core->jobs[i])) == own)
                resize_one(core, i, own);
        }
        own_look(core, vc, true);
    }
}
