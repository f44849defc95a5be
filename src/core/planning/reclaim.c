/* SPDX-License-Identifier: Apache-2.0 */
/* reclaim.c - getting back what was lent.
 *
 * Victims, in this order: opportunistic jobs, newest start first; then jobs of virtual clusters that hold more than
 * they are owed, the most over first, newest start first. A victim is a whole gang, and none is taken whose loss would
 * put its virtual cluster below what it is owed. Stops are taken back one by one when the gang fits without them.
 */
#include <assert.h>
#include <errno.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "core/ledger/guest.h"
#include "core/planning/gang_parts.h"
#include "core/planning/preempt.h"

static bool may_stop(const struct core *core, const struct job *job)
{
    return core_may_preempt(core, job, PREEMPT_FOR_STOP) && (job->state == JOB_RUNNING || job->state == JOB_STARTING) &&
           !job->planned && !job->sheds;
}

/* The newest job of the virtual cluster that may go; guests or owners. */
static uint32_t victim_of(const struct core *core, const struct vc *vc, uint32_t sku, bool guests)
{
    if (guests && vc->guest[sku] == 0)
        return JOB_NONE;
    for (uint32_t i = vc->run_last; i != JOB_NONE; i = core->jobs[i].prev) {
        const struct job *job = &core->jobs[i];
        int64_t amount = job_amount_on(job, sku);

        if (!may_stop(core, job) || guest_is(core, job) || !job_on(job, sku) ||
            (job->klass == CLASS_OPPORTUNISTIC) != guests)
            continue;
        if (guests || vc->used[sku] - amount >= vc->quota[sku])
            return i;
    }
    return JOB_NONE;
}

static uint32_t next_victim(const struct core *core, uint32_t own_vc, uint32_t sku)
{
    uint32_t best = JOB_NONE;
    int64_t most = 0;

    for (uint32_t v = 0; v < core->vc_count; v++) {
        uint32_t i = victim_of(core, &core->vcs[v], sku, true);

        if (i != JOB_NONE && (best == JOB_NONE || core->jobs[i].last_start > core->jobs[best].last_start))
            best = i;
    }
    if (best != JOB_NONE)
        return best;
    for (uint32_t v = 0; v < core->vc_count; v++) {
        const struct vc *vc = &core->vcs[v];
        int64_t over = vc->used[sku] - vc->quota[sku];
        uint32_t i;

        if (v == own_vc || over <= most)
            continue;
        i = victim_of(core, vc, sku, false);
        if (i != JOB_NONE) {
            best = i;
            most = over;
        }
    }
    return best;
}

/* A place for the shape at its own locality, or at a looser one: what was lent comes back, in the best form there is.
 */
static int find_any_level(struct plan *plan, struct shape_class *cls, uint32_t sku, struct placement *ret)
{
    uint8_t level = cls->shape.level, levels = plan->core->vcs[plan->vc].policy.place->levels;
    int r;

    do {
        cls->no_fit[sku] = 0;
        r = plan_find_on(plan, cls, sku, ret);
        cls->shape.level++;
    } while (r < 0 && cls->shape.level < levels);
    cls->shape.level = level;
    cls->no_fit[sku] = 0;
    return r;
}

/* Whether there is enough to get back for whole GPUs, wherever it may lie. A share may also use what is left of one. */
static bool reclaim_enough(const struct core *core, uint32_t own_vc, uint32_t sku, const struct shape *shape)
{
    int64_t most = (int64_t)view_free(&core->view, sku) * MGPU_ONE, demand = (int64_t)shape->gpus * shape->share;

    if (shape->share < MGPU_ONE)
        return true;
    for (uint32_t v = 0; v < core->vc_count && most < demand; v++) {
        const struct vc *vc = &core->vcs[v];

        most += vc->guest[sku];
        if (v != own_vc && vc->used[sku] > vc->quota[sku])
            most += vc->used[sku] - vc->quota[sku];
    }
    return most >= demand;
}

/* Whether somebody stays only because the pass under way has moved it: the next one may stop it. */
static bool moved_away(const struct core *core, uint32_t own_vc, uint32_t sku)
{
    for (uint32_t n = 0; n < core->touched_count; n++) {
        const struct job *job = &core->jobs[core->touched[n]];
        const struct vc *vc = &core->vcs[job->vc];

        if (!job->planned || (job->state != JOB_RUNNING && job->state != JOB_STARTING) || !job_on(job, sku))
            continue;
        if (job->klass == CLASS_OPPORTUNISTIC
                ? !guest_is(core, job)
                : job->vc != own_vc && vc->used[sku] - job_amount_on(job, sku) >= vc->quota[sku])
            return true;
    }
    return false;
}

/* Those that are stopped are put behind the first *victim_count of core->victims. */
static int reclaim_on(struct plan *plan, struct shape_class *cls, uint32_t sku, uint32_t *victim_count,
                      struct placement *ret)
{
    struct core *core = plan->core;
    uint32_t *victims = core->victims + *victim_count;
    uint32_t count = 0;
    int r = -EBUSY;

    for (uint32_t victim; r < 0 && (victim = next_victim(core, plan->vc, sku)) != JOB_NONE;) {
        r = plan_stop_any(plan, victim, STOP_REQUEUE);
        assert(r == 0);
        victims[count++] = victim;
        r = find_any_level(plan, cls, sku, ret);
    }
    /* Whoever is not in the way after all stays: everybody, if nothing was found. The last one was needed. */
    for (uint32_t i = 0; i < (r == 0 ? count - 1 : count); i++) {
        int kept = plan_keep_any(plan, victims[i]);

        assert(kept == 0);
        if (kept == 0 && r == 0 && find_any_level(plan, cls, sku, ret) < 0)
            (void)plan_stop_any(plan, victims[i], STOP_REQUEUE);
    }
    if (r < 0 && moved_away(core, plan->vc, sku))
        core->vcs[plan->vc].barred = true;
    for (uint32_t i = 0; i < count; i++)
        if (core->jobs[victims[i]].state == JOB_STOPPING)
            core->victims[(*victim_count)++] = victims[i];
    return r == 0 ? find_any_level(plan, cls, sku, ret) : r;
}

/* GPUs that others keep idle for waiting jobs, beyond what they are owed together with what they hold, are given up.
 * Whether any were. */
static bool unkeep(struct core *core, uint32_t own_vc, uint32_t sku)
{
    bool any = false, kept = false;

    for (uint32_t v = 0; v < core->vc_count; v++)
        kept |= v != own_vc && core->vcs[v].kept[sku] > 0;
    if (!kept)
        return false;
    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct job *job = &core->jobs[i];
        const struct vc *vc = &core->vcs[job->vc];

        if (job->state != JOB_RESERVED || job->vc == own_vc || vc->kept[sku] == 0 ||
            vc->used[sku] + (int64_t)vc->kept[sku] * MGPU_ONE <= vc->quota[sku] ||
            core->ledger.topo.nodes[core->ledger.gpus[job->reserved_first].node].sku != sku)
            continue;
        plan_unreserve(&(struct plan){ .core = core, .vc = job->vc }, i);
        any = true;
    }
    return any;
}

/* Where there is room without stopping anybody any more, or after that. */
static int reclaim_again(struct plan *plan, struct shape_class *cls, uint32_t sku, uint32_t *victim_count,
                         struct placement *ret)
{
    if (!unkeep(plan->core, plan->vc, sku))
        return -EBUSY;
    if (find_any_level(plan, cls, sku, ret) == 0)
        return 0;
    return reclaim_enough(plan->core, plan->vc, sku, &cls->shape) ? reclaim_on(plan, cls, sku, victim_count, ret)
                                                                  : -EBUSY;
}

/* Room for a shape without sides on some type that it is owed so many of. */
static int reclaim_shape(struct plan *plan, struct shape_class *cls, uint32_t *victim_count, struct placement *ret)
{
    struct core *core = plan->core;
    int64_t demand = (int64_t)cls->shape.gpus * cls->shape.share;

    for (uint32_t sku = 0; sku < core->ledger.topo.sku_count; sku++)
        if (cls->shape.sku_mask >> sku & 1 &&
            vc_budget(core, &core->vcs[plan->vc], sku, PHASE_OWED, CLASS_GUARANTEED) >= demand &&
            ((reclaim_enough(core, plan->vc, sku, &cls->shape) && reclaim_on(plan, cls, sku, victim_count, ret) == 0) ||
             reclaim_again(plan, cls, sku, victim_count, ret) == 0))
            return 0;
    return -EBUSY;
}

/* The same for each part of a gang on several types that does not fit as things are; nobody was stopped if one of them
 * cannot have it. */
static int reclaim_parts(struct plan *plan, struct shape_class *cls, struct placement *ret)
{
    struct core *core = plan->core;
    uint32_t victims = 0;
    int r = 0;

    for (uint32_t i = 0; i <= cls->shape.side_count && r == 0; i++) {
        struct shape_class part = { .shape = sides_part(&cls->shape, i) };

        r = plan_find(plan, &part, ret);
        if (r < 0 && r != -EDQUOT)
            r = reclaim_shape(plan, &part, &victims, ret);
    }
    if (r == 0)
        r = plan_find(plan, cls, ret);
    for (uint32_t i = 0; i < victims && r < 0; i++)
        (void)plan_keep_any(plan, core->victims[i]);
    return r < 0 ? -EBUSY : 0;
}

int plan_reclaim(struct plan *plan, uint32_t job, struct placement *ret)
{
    struct shape_class *cls = plan_shape(plan, job);
    uint32_t victims = 0;

    /* Where shapes are guaranteed, what is owed shows as free and whoever uses it leaves when it is given. */
    if (!cls || cls->shape.klass == CLASS_OPPORTUNISTIC || plan->core->cells)
        return -EBUSY;
    return cls->shape.side_count ? reclaim_parts(plan, cls, ret) : reclaim_shape(plan, cls, &victims, ret);
}
