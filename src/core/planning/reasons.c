/* SPDX-License-Identifier: Apache-2.0 */
/* reasons.c - why the jobs of a shape wait. Derived after planning from the same numbers that decided, whatever the
 * policy; of several types the reason that is closest to starting is told. */
#include "core/contract/plan.h"
#include "core/planning/gang_parts.h"
#include "core/planning/pass.h"
#include "core/planning/preempt.h"

/* GPUs of a type on nodes that a shape may have. */
struct room {
    uint32_t working;
    uint32_t down; /* they, or their nodes, are not up, and no job has them: free as soon as they are back */
    uint32_t free, reserved;
};

static struct room room_of(const struct ledger *ledger, const struct shape *shape, uint32_t sku)
{
    const struct topo *topo = &ledger->topo;
    const struct pool *pool = &topo->pools[topo->sku_pools[sku]];
    struct room room = { pool->total, topo->sku_gpus[sku] - pool->total - topo->sku_draining[sku], pool->free,
                         ledger->reserved[sku] };

    if (shape->mark == 0)
        return room;
    /* What is free or down elsewhere is nothing to a job that has chosen its nodes. */
    room = (struct room){ 0 };
    for (uint32_t n = 0; n < topo->node_count; n++) {
        const struct node *node = &topo->nodes[n];

        if (node->sku != sku || !node_allows(node, shape->mark, shape->kept))
            continue;
        room.down += node->up ? node->bad : (uint32_t)(node->free + node->bad);
        if (!node->up)
            continue;
        room.working += (uint32_t)(node->gpus - node->bad);
        room.free += node->free;
        for (uint32_t g = 0; ledger->reserved[sku] && g < node->gpus; g++)
            room.reserved += ledger->gpus[node->first_gpu + g].reserved_for != JOB_NONE;
    }
    return room;
}

/* What is asked for beside GPUs and stands in the way; REASON_NONE. */
static enum reason reason_apart(struct plan *plan, struct shape_class *cls, uint32_t sku)
{
    struct plan wonders = *plan;
    struct placement found;
    enum reason reason = REASON_NONE;

    wonders.any_host = true;
    if ((cls->shape.mcpus | cls->shape.host_mib) && plan_find_on(&wonders, cls, sku, &found) == 0)
        return REASON_CPU_MEM;
    wonders.any_place = true;
    if (cls->shape.within && cls->shape.must && plan_find_on(&wonders, cls, sku, &found) == 0)
        reason = REASON_TOPOLOGY;
    return reason;
}

/* Why there is no place for cells that a guarantee has: hardware, or jobs that still run on nodes that drain. */
static enum reason reason_hardware(const struct room *room, const struct shape *shape)
{
    if (room->down > 0)
        return REASON_NODES_UNHEALTHY;
    return shape->share == MGPU_ONE && room->free < (uint32_t)shape->gpus ? REASON_INSUFFICIENT_GPUS
                                                                          : REASON_FRAGMENTED;
}

/* Why jobs of this shape wait inside what their virtual cluster is guaranteed in cells. */
static enum reason reason_own(struct core *core, struct vc *vc, struct shape_class *cls, uint32_t sku)
{
    struct plan plan = { .core = core, .phase = PHASE_OWED, .vc = (uint32_t)(vc - core->vcs) };
    const struct topo *topo = &vc->own->topo;
    const struct pool *pool = &topo->pools[topo->sku_pools[sku]];
    uint32_t need = (uint32_t)cls->shape.gpus, missing;
    struct placement found;
    struct room chosen = room_of(&core->ledger, &cls->shape, sku);

    if (vc_budget(core, vc, sku, PHASE_OWED, cls->shape.klass) < (int64_t)need * cls->shape.share)
        return REASON_VC_LIMIT;
    if (cls->shape.share == MGPU_ONE && pool->free < need) {
        missing = need - pool->free;
        if (vc->own->reserved[sku] >= missing)
            return REASON_RESERVED;
        /* Parts of GPUs make no whole one. */
        return ledger_empty_down(vc->own, sku) >= missing ? reason_hardware(&chosen, &cls->shape) : REASON_FRAGMENTED;
    }
    if (plan_find_on(&plan, cls, sku, &found) == 0)
        return REASON_PRIORITY;
    if (reason_apart(&plan, cls, sku) != REASON_NONE)
        return reason_apart(&plan, cls, sku);
    /* What was found and has no place in the cluster is kept from it by hardware. */
    if (cls->no_fit_own[sku] != vc->own->releases + 1 && cls->shape.mark == 0)
        return reason_hardware(&chosen, &cls->shape);
    if (cls->shape.mark && chosen.working < need && chosen.working + chosen.down >= need)
        return REASON_NODES_UNHEALTHY;
    return REASON_FRAGMENTED;
}

/* Why jobs of this shape wait on this type; the later in the enumeration below, the closer it is to starting. */
static enum reason reason_on(struct core *core, struct vc *vc, struct shape_class *cls, uint32_t sku)
{
    struct room room = room_of(&core->ledger, &cls->shape, sku);
    bool apart = core->cells && cls->shape.kept;
    struct plan plan = { .core = core, .phase = PHASE_BORROW, .vc = (uint32_t)(vc - core->vcs), .apart = apart };
    bool owed = plan_keeps(&plan, cls->shape.keeps);
    uint32_t need = (uint32_t)cls->shape.gpus;
    struct placement found;

    if (!apart &&
        vc_budget(core, vc, sku, owed ? PHASE_OWED : PHASE_BORROW, cls->shape.klass) < (int64_t)need * cls->shape.share)
        return vc->borrow_max == 0 || owed ? REASON_VC_LIMIT : REASON_BORROW_LIMIT;
    /* Beside an owner a guest starts when little enough is measured of that one; what is certain is an empty GPU. */
    if (cls->shape.klass == CLASS_OPPORTUNISTIC && vc->policy.planner->limit) {
        uint32_t empty = ledger_empty(&core->ledger, sku);

        if (empty < need)
            return empty + ledger_empty_down(&core->ledger, sku) >= need ? REASON_NODES_UNHEALTHY
                                                                         : REASON_INSUFFICIENT_GPUS;
        if (room.free < need) /* what is kept for others is open to it */
            return REASON_PRIORITY;
    }
    if (cls->shape.share == MGPU_ONE && room.free < need) {
        if (room.free + room.reserved >= need)
            return REASON_RESERVED;
        return room.free + room.down >= need ? REASON_NODES_UNHEALTHY : REASON_INSUFFICIENT_GPUS;
    }
    if (plan_find_on(&plan, cls, sku, &found) == 0)
        return REASON_PRIORITY;
    if (reason_apart(&plan, cls, sku) != REASON_NONE)
        return reason_apart(&plan, cls, sku);
    if (cls->shape.share == MGPU_ONE)
        return REASON_FRAGMENTED;
    return room.down >= need ? REASON_NODES_UNHEALTHY : REASON_INSUFFICIENT_GPUS;
}

static int closeness(enum reason reason)
{
    static const enum reason far_to_near[] = { REASON_VC_LIMIT,        REASON_BORROW_LIMIT, REASON_INSUFFICIENT_GPUS,
                                               REASON_NODES_UNHEALTHY, REASON_RESERVED,     REASON_TOPOLOGY,
                                               REASON_CPU_MEM,         REASON_FRAGMENTED,   REASON_PRIORITY };

    for (int i = 0; i < (int)(sizeof(far_to_near) / sizeof(*far_to_near)); i++)
        if (far_to_near[i] == reason)
            return i;
    return -1;
}

/* Types of the shape that have as many GPUs as it asks for; all of its types, where none has. */
static uint32_t types_possible(const struct topo *topo, const struct shape *shape)
{
    uint32_t mask = 0;

    for (uint32_t s = 0; s < topo->sku_count; s++)
        if (shape->sku_mask >> s & 1 && topo->sku_gpus[s] >= (uint32_t)shape->gpus)
            mask |= 1U << s;
    return mask ? mask : shape->sku_mask;
}

/* The reason of the shape on the types it may have that is closest to starting, and whether its virtual cluster would
 * have more than it is owed on each of them. */
static enum reason reason_best(struct core *core, struct vc *vc, struct shape_class *cls, bool *ret_over)
{
    int64_t demand = (int64_t)cls->shape.gpus * cls->shape.share;
    uint32_t possible = types_possible(&core->ledger.topo, &cls->shape);
    enum reason best = REASON_NONE;
    bool over = true;

    for (uint32_t s = 0; s < core->ledger.topo.sku_count; s++) {
        enum reason reason;

        if (!(possible >> s & 1))
            continue;
        reason = vc->own && cls->shape.klass != CLASS_OPPORTUNISTIC && !cls->shape.kept ? reason_own(core, vc, cls, s)
                                                                                        : reason_on(core, vc, cls, s);
        if (closeness(reason) > closeness(best))
            best = reason;
        if (vc->own && cls->shape.klass != CLASS_OPPORTUNISTIC && vc->borrow_max != 0 && cls->shape.keeps == 0) {
            reason = reason_on(core, vc, cls, s);
            if (closeness(reason) > closeness(best))
                best = reason;
        }
        if (cls->shape.klass != CLASS_OPPORTUNISTIC && vc->used[s] - vc->lent[s] + demand <= vc->quota[s])
            over = false;
    }
    *ret_over = over;
    return best;
}

/* Of a gang on several types the part that is furthest from starting tells why it waits. */
static enum reason reason_parts(struct core *core, struct vc *vc, struct shape_class *cls, bool *ret_over)
{
    struct plan plan = { .core = core, .vc = (uint32_t)(vc - core->vcs), .apart = core->cells && cls->shape.kept };
    enum reason worst = REASON_PRIORITY;
    struct placement found;

    *ret_over = false;
    for (uint32_t i = 0; i <= cls->shape.side_count; i++) {
        struct shape_class part = { .shape = sides_part(&cls->shape, i) };
        bool over;
        enum reason reason = reason_best(core, vc, &part, &over);

        *ret_over |= over;
        if (closeness(reason) < closeness(worst))
            worst = reason;
    }
    if (worst != REASON_PRIORITY)
        return worst;
    /* Each alone could start. Together they may be more than can be borrowed, or one is inside the guarantee only. */
    for (plan.phase = PHASE_OWED; plan.phase <= PHASE_GUEST; plan.phase++)
        if (plan_considers(&plan, cls) && !(plan.apart && plan.phase == PHASE_OWED) &&
            plan_find(&plan, cls, &found) == 0)
            return REASON_PRIORITY;
    return vc->borrow_max > 0 ? REASON_BORROW_LIMIT : REASON_FRAGMENTED;
}

void reasons_shape(struct core *core, struct vc *vc, struct shape_class *cls)
{
    bool over;
    enum reason best = cls->shape.side_count ? reason_parts(core, vc, cls, &over) : reason_best(core, vc, cls, &over);

    if (best == REASON_PRIORITY && vc->policy.planner->awaits)
        best = vc->policy.planner->awaits(&vc->planner, cls);
    if (best != (enum reason)cls->reason || over != cls->over_quota)
        queue_reason(cls, best, over, core->now);
}

void reasons_all(struct core *core)
{
    for (uint32_t v = 0; v < core->vc_count; v++) {
        struct vc *vc = &core->vcs[v];

        for (uint32_t i = 0; i < vc->queue.live_count; i++)
            reasons_shape(core, vc, &vc->queue.shapes[vc->queue.live[i]]);
    }
}
