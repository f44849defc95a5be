/* SPDX-License-Identifier: Apache-2.0 */
/* gang_parts.c - see gang_parts.h. */
#include "core/planning/gang_parts.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/contract/plan.h"
#include "core/core_internal.h"
#include "core/planning/proposal.h"

void sides_of(const struct core *core, const struct jobspec *spec, struct shape *shape)
{
    const struct topo *topo = &core->ledger.topo;

    shape->side_count = spec->side_count;
    for (uint32_t i = 0; i < spec->side_count; i++) {
        shape->sides[i] = spec->sides[i];
        shape->sides[i].sku_mask &= core->any_sku;
        for (uint32_t s = 0; s < topo->sku_count; s++)
            if (topo->sku_memory[s] && topo->sku_memory[s] < spec->memory_mib)
                shape->sides[i].sku_mask &= ~(1u << s);
    }
}

bool sides_equal(const struct shape *a, const struct shape *b)
{
    for (uint32_t i = 0; i < a->side_count; i++) {
        const struct gang_side *x = &a->sides[i], *y = &b->sides[i];

        if (x->gpus != y->gpus || x->sku_mask != y->sku_mask || x->per_node != y->per_node || x->mcpus != y->mcpus ||
            x->host_mib != y->host_mib)
            return false;
    }
    return true;
}

struct shape sides_shape(const struct shape *shape, uint32_t i)
{
    const struct gang_side *side = &shape->sides[i];
    struct shape alone = *shape;

    alone.gpus = side->gpus;
    alone.sku_mask = side->sku_mask;
    alone.per_node = side->per_node;
    alone.mcpus = side->mcpus;
    alone.host_mib = side->host_mib;
    alone.side_count = 0;
    return alone;
}

struct shape sides_part(const struct shape *shape, uint32_t part)
{
    struct shape alone = part ? sides_shape(shape, part - 1) : *shape;

    alone.side_count = 0;
    return alone;
}

struct jobspec sides_spec(const struct jobspec *spec, uint32_t i)
{
    const struct gang_side *side = &spec->sides[i];
    struct jobspec alone = *spec;

    alone.gpus = alone.gpus_min = alone.gpus_max = side->gpus;
    alone.sku_mask = side->sku_mask;
    alone.per_node = side->per_node;
    alone.mcpus = side->mcpus;
    alone.host_mib = side->host_mib;
    alone.side_count = 0;
    return alone;
}

int sides_check(const struct jobspec *spec, struct error *err)
{
    uint32_t seen = spec->sku_mask;
    int64_t gpus = spec->gpus;

    if (spec->side_count == 0)
        return 0;
    if (spec->side_count > SIDES_MAX)
        return error_set(err, -EINVAL, "job %lld: a gang is on GPUs of at most %d types", (long long)spec->id,
                         SIDES_MAX + 1);
    if (spec->share < MGPU_ONE || spec->gpus_min != spec->gpus_max || spec->range_max || spec->unit || spec->within ||
        spec->gpu_servers || spec->tp > 1 || spec->pp > 1 || spec->sku_mask == 0)
        return error_set(err, -EINVAL,
                         "job %lld: a gang on several types of GPU has whole ones, a fixed number of each type, and "
                         "no wish of how near they lie",
                         (long long)spec->id);
    for (uint32_t i = 0; i < spec->side_count; i++) {
        const struct gang_side *side = &spec->sides[i];

        gpus += side->gpus;
        if (side->gpus < 1 || side->per_node < 1 || side->gpus % side->per_node || gpus > GANG_GPUS_MAX)
            return error_set(err, -EINVAL, "job %lld: %d GPUs of another type cannot be had as %u a node",
                             (long long)spec->id, side->gpus, side->per_node);
        if (side->sku_mask == 0 || (side->sku_mask & seen))
            return error_set(err, -EINVAL, "job %lld: the parts of a gang on several types have no type in common",
                             (long long)spec->id);
        seen |= side->sku_mask;
    }
    return 0;
}

bool sides_sane(const struct core *core, const struct job *job)
{
    if (sides_check(&job->spec, NULL) < 0)
        return false;
    for (uint32_t i = 0; i < job->spec.side_count && job->gpus; i++)
        if (job->side_sku[i] >= core->ledger.topo.sku_count || !(job->spec.sides[i].sku_mask >> job->side_sku[i] & 1))
            return false;
    return true;
}

/* What the phase lets a virtual cluster borrow in all, whatever the type. */
static int64_t may_borrow(const struct plan *plan, uint8_t klass)
{
    const struct vc *vc = &plan->core->vcs[plan->vc];

    if (plan->apart || plan->phase != PHASE_BORROW || klass == CLASS_OPPORTUNISTIC || vc->borrow_max < 0)
        return INT64_MAX;
    return vc->borrow_max > vc->borrowed ? vc->borrow_max - vc->borrowed : 0;
}

/* Of so many GPUs of a type, what would be borrowed. */
static int64_t beyond(const struct vc *vc, uint32_t sku, int32_t gpus)
{
    int64_t owed = vc->quota[sku] > vc->used[sku] ? vc->quota[sku] - vc->used[sku] : 0;
    int64_t need = (int64_t)gpus * MGPU_ONE;

    return need > owed ? need - owed : 0;
}

/* Whether the side may have GPUs of the type where so much may still be borrowed. */
static bool allowed(const struct plan *plan, const struct shape *shape, uint32_t i, uint32_t sku, int64_t left)
{
    const struct gang_side *side = &shape->sides[i];

    return side->sku_mask >> sku & 1 && plan_budget(plan, sku, shape->klass) >= (int64_t)side->gpus * MGPU_ONE &&
           beyond(&plan->core->vcs[plan->vc], sku, side->gpus) <= left;
}

bool sides_allowed(const struct plan *plan, const struct shape *shape, uint32_t sku)
{
    const struct vc *vc = &plan->core->vcs[plan->vc];
    int64_t left = may_borrow(plan, shape->klass) - beyond(vc, sku, shape->gpus);

    for (uint32_t i = 0; i < shape->side_count; i++) {
        int64_t least = INT64_MAX;

        for (uint32_t s = 0; s < plan->core->ledger.topo.sku_count; s++)
            if (allowed(plan, shape, i, s, left) && beyond(vc, s, shape->sides[i].gpus) < least)
                least = beyond(vc, s, shape->sides[i].gpus);
        if (least == INT64_MAX)
            return false;
        left -= least;
    }
    return true;
}

int sides_find(struct plan *plan, const struct shape *shape, uint32_t first, uint8_t *skus, bool *ret_mapped)
{
    struct core *core = plan->core;
    struct vc *vc = &core->vcs[plan->vc];
    int64_t left = may_borrow(plan, shape->klass) - beyond(vc, first, shape->gpus);
    uint32_t *out = vc->place.out, have = 0;
    int r = 0;

    /* No two parts may be of one type: what is found for one is not in the way of another. */
    for (uint32_t i = 0; i < shape->side_count && r == 0; i++) {
        struct shape side = sides_shape(shape, i);

        r = -EBUSY;
        vc->place.out = core->side_gpus + have;
        for (uint32_t sku = 0; sku < core->ledger.topo.sku_count && r < 0; sku++) {
            if (!allowed(plan, shape, i, sku, left) || plan_free(plan, sku) < (uint32_t)side.gpus)
                continue;
            r = plan_place(plan, &side, sku, ret_mapped);
            skus[i] = (uint8_t)sku;
        }
        vc->place.out = out;
        have += (uint32_t)side.gpus;
        left -= r == 0 ? beyond(vc, skus[i], side.gpus) : 0;
    }
    return r;
}

/* Each side as the job wants it, where those of a type lie together. */
static int sides_apart(const struct ledger *ledger, const uint32_t *gpus, const struct jobspec *spec)
{
    int r = 0;

    for (uint32_t i = 0; i < spec->side_count && r == 0; i++) {
        struct jobspec side = sides_spec(spec, i);
        struct placement to = { gpus, (uint32_t)side.gpus };

        r = placement_apart(ledger, &to, &side);
        gpus += side.gpus;
    }
    return r;
}

int sides_join(struct plan *plan, uint32_t index, const struct placement *to, uint8_t *skus, struct placement *ret)
{
    struct core *core = plan->core;
    struct vc *vc = &core->vcs[plan->vc];
    const struct job *job = &core->jobs[index];
    struct shape shape = queue_shape(core, &job->spec, job->level, job->klass);
    uint32_t count = (uint32_t)jobspec_sides(&job->spec);
    bool looked = vc->view.own != NULL, mapped = false;
    int r;

    own_look(core, vc, plan_own(plan));
    r = sides_find(plan, &shape, plan_sku(plan_ledger(plan), to), skus, &mapped);
    own_look(core, vc, looked);
    if (r == 0)
        r = sides_apart(plan_ledger(plan), core->side_gpus, &job->spec);
    if (r < 0)
        return r;
    memcpy(core->gang, to->gpus, to->count * sizeof(*core->gang));
    memcpy(core->gang + to->count, core->side_gpus, count * sizeof(*core->gang));
    gpus_sort(core->gang, to->count + count);
    *ret = (struct placement){ core->gang, to->count + count };
    return 0;
}
