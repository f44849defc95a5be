/* SPDX-License-Identifier: Apache-2.0 */
/* decide.c - what to do with a pod that asks: bind, wait, evict first, or refuse.
 *
 * A gang that is placed insists on its places; one that waits for victims keeps its claim unless the hardware fails;
 * a new one is tried in the chains of its device type, in the order of the file.
 */
#include "cell/parts.h"

static const char *const reason_texts[CELL_REASONS] = {
    [CELL_OK] = "placed",
    [CELL_NO_CAPACITY] = "insufficient capacity",
    [CELL_BAD_NODE] = "have to use at least one bad node",
    [CELL_UNSUGGESTED_NODE] = "have to use at least one non-suggested node",
    [CELL_UNMAPPABLE] = "mapping the virtual placement would need at least one bad or non-suggested node",
    [CELL_BEING_PREEMPTED] = "the gang is being preempted",
    [CELL_LIMIT] = "more gangs than the allocator was made for",
    [CELL_ERR_VC] = "no such virtual cluster",
    [CELL_ERR_PIN] = "the virtual cluster has no such pinned cell",
    [CELL_ERR_PIN_OPP] = "an opportunistic pod cannot use a pinned cell",
    [CELL_ERR_LEAF_TYPE] = "the cluster has no such leaf cell type",
    [CELL_ERR_VC_LEAF_TYPE] = "the virtual cluster has no cells of this leaf cell type",
    [CELL_ERR_PRIORITY] = "priority is not in -1..1000",
    [CELL_ERR_MEMBER] = "the pod is not a member of its gang, or a count is not positive",
    [CELL_ERR_PODS] = "more pods than the gang declares",
};

const char *cell_reason_text(enum cell_reason reason)
{
    return (unsigned int)reason < CELL_REASONS ? reason_texts[reason] : "";
}

/* Gangs whose devices the placement in s->mapped needs: their pods on one node, the node of the first of them. */
static void victims_find(struct cells *s, struct cell_answer *a)
{
    s->mark++;
    for (uint32_t i = 0; i < s->picked_count; i++) {
        const struct leaf *leaf = leaf_of(s, s->mapped[i]);
        struct group *g;

        if (leaf->state != CELL_USED && leaf->state != CELL_RESERVING)
            continue;
        g = &s->groups[leaf->user];
        if (g->mark == s->mark)
            continue;
        g->mark = s->mark;
        for (uint32_t k = g->slot_first; k != CELL_NONE; k = s->slots[k].next) {
            if (s->slots[k].state != SLOT_ALLOCATED)
                continue;
            if (a->victim_count == 0)
                a->node = s->slots[k].node;
            if (s->slots[k].node == a->node)
                s->victims[a->victim_count++] = (struct cell_victim){ g->id, s->slots[k].pod };
        }
    }
    a->victims = s->victims;
}

static bool group_placeable(const struct cells *s, const struct group *g, const struct cell_request *r)
{
    for (uint32_t i = g->slot_first; i != CELL_NONE; i = s->slots[i].next) {
        uint32_t node = s->slots[i].node;

        if (node >= s->node_count)
            continue;
        if (s->nodes[node].bad)
            return false;
        /* HiveD forgets that a gang does not care for suggestions. */
        if ((!g->ignore_suggested || s->literal) && r->suggested && !(r->suggested[node / 64] >> (node % 64) & 1))
            return false;
    }
    return true;
}

static struct slot *slot_open(struct cells *s, const struct group *g, const struct cell_request *r)
{
    struct slot *open = NULL;
    uint32_t number = 0;

    for (uint32_t i = g->slot_first; i != CELL_NONE; i = s->slots[i].next) {
        struct slot *slot = &s->slots[i];

        if (slot->leaf_count != r->leaves)
            continue;
        if (slot->state == SLOT_ALLOCATED && slot->pod == r->pod)
            return slot; /* asked again: the same answer */
        if (!open && slot->state != SLOT_ALLOCATED && tree_slot(s, r, number))
            open = slot;
        number++;
    }
    return open;
}

static void refuse(struct cell_answer *a, enum cell_reason reason)
{
    a->reason = reason;
    a->outcome = reason >= CELL_ERR_VC ? CELL_USER_ERROR : CELL_WAIT;
}

static void existing_decide(struct cells *s, struct group *g, const struct cell_request *r, struct cell_answer *a)
{
    struct slot *slot = slot_open(s, g, r);

    if (!slot) {
        refuse(a, CELL_ERR_PODS);
        return;
    }
    if (g->state == CELL_BEING_PREEMPTED_STATE && slot->state != SLOT_ALLOCATED) {
        refuse(a, CELL_BEING_PREEMPTED);
        return;
    }
    if (g->state == CELL_GROUP_PREEMPTING) {
        s->picked_count = 0;
        for (uint32_t i = g->slot_first; i != CELL_NONE; i = s->slots[i].next)
            for (uint32_t k = s->slots[i].leaf_first; k != CELL_NONE; k = s->shares[k].next)
                s->mapped[s->picked_count++] = s->shares[k].leaf;
        victims_find(s, a);
        group_ask(s, g, r->pod);
        if (a->victim_count > 0) {
            a->outcome = CELL_PREEMPT;
            return;
        }
    }
    a->outcome = CELL_BIND;
    group_bind(s, g, slot, &a->bind);
}

/* Victims that may be preempted lazily step aside at once. */
static void lazy_try(struct cells *s, const struct cell_request *r)
{
    s->lazy_count = 0;
    for (uint32_t i = 0; i < s->picked_count; i++) {
        uint32_t leaf = s->cells[s->picked[i]].peer;
        struct group *g;

        if (leaf == CELL_NONE || leaf_of(s, leaf)->state != CELL_USED)
            continue;
        g = &s->groups[leaf_of(s, leaf)->user];
        if (!g->lazy || !g->virtual_placed)
            continue;
        preempt_lazy(s, g, r->group);
        s->lazy_done[s->lazy_count++] = group_slot(s, g);
    }
}

/* Do the mapped devices have opportunistic users, and no others? */
static bool evicts_opportunistic(const struct cells *s)
{
    bool some = false;

    for (uint32_t i = 0; i < s->picked_count; i++) {
        if (s->prio[s->mapped[i]] >= 0)
            return false;
        some = some || s->prio[s->mapped[i]] == CELL_PRIORITY_OPP;
    }
    return some;
}

/* Better somewhere else in the virtual cluster than in somebody's place; if there is no such place, as it was. */
static bool elsewhere_try(struct cells *s, uint32_t chain, struct view *v, const struct cell_request *r)
{
    if (pick_idle(s, v) && map_gang(s, chain, r) && !evicts_opportunistic(s))
        return true;
    return pick_gang(s, v, r) == CELL_OK && map_gang(s, chain, r);
}

static enum cell_reason chain_try(struct cells *s, uint32_t chain, uint32_t view, const struct cell_request *r)
{
    enum cell_reason reason;

    if (s->pod_count == 0) { /* more than any chain has; but each try sorts, and later ties are as it leaves them */
        view_sort(s, &s->views[view], r);
        return CELL_NO_CAPACITY;
    }
    reason = r->tree ? tree_pick(s, chain, r) : pick_gang(s, &s->views[view], r);
    if (reason != CELL_OK)
        return reason;
    if (r->priority < 0) {
        for (uint32_t i = 0; i < s->picked_count; i++)
            s->mapped[i] = s->picked[i];
        return CELL_OK;
    }
    lazy_try(s, r);
    if (map_gang(s, chain, r) && (s->exact || r->tree || s->lazy_count > 0 || !evicts_opportunistic(s) ||
                                  elsewhere_try(s, chain, &s->views[view], r)))
        return CELL_OK;
    while (s->lazy_count > 0)
        preempt_lazy_undo(s, &s->groups[s->lazy_done[--s->lazy_count]]);
    return CELL_UNMAPPABLE;
}

/* Lists the pods of the gang, smallest first. False: more devices than any chain has. */
static bool pods_list(struct cells *s)
{
    uint64_t leaves = 0;

    s->pod_count = 0;
    for (uint32_t i = 0; i < s->member_count; i++)
        leaves += (uint64_t)s->members[i].pods * s->members[i].leaves;
    if (leaves > s->leaf_count)
        return false;
    for (uint32_t i = 0; i < s->member_count; i++)
        for (uint32_t k = 0; k < s->members[i].pods; k++)
            s->pods[s->pod_count++] = (struct pod_pick){ .size = s->members[i].leaves };
    return true;
}

void cells_chain_order(struct cells *s, const uint32_t *types, uint32_t count)
{
    uint32_t kept = 0;

    for (uint32_t round = 0; round <= count; round++) {
        for (uint32_t i = 0; i < s->chain_count; i++) {
            bool listed = round == count || s->chains[i].type == types[round];

            for (uint32_t k = 0; listed && k < kept; k++)
                listed = s->chain_order[k] != i;
            if (listed)
                s->chain_order[kept++] = i;
        }
    }
}

static enum cell_reason chains_try(struct cells *s, const struct cell_request *r, uint32_t *ret_chain)
{
    enum cell_reason reason = CELL_NO_CAPACITY, got;

    if (r->tree) /* until a chain has the types that are asked for */
        reason = r->priority < 0 ? CELL_ERR_LEAF_TYPE : CELL_ERR_VC_LEAF_TYPE;
    if (r->pin != CELL_NONE) {
        *ret_chain = s->forests[r->pin].chain;
        if (!tree_in_chain(s, *ret_chain, r))
            return reason;
        return chain_try(s, *ret_chain, s->forests[r->pin].view, r);
    }
    for (uint32_t at = 0; at < s->chain_count; at++) {
        uint32_t leaf_type = s->chains[s->chain_order[at]].leaf_type;
        bool seen = false; /* leaf types in the order of their first chains; each with all its chains */

        for (uint32_t i = 0; i < at; i++)
            seen = seen || s->chains[s->chain_order[i]].leaf_type == leaf_type;
        if (seen || (r->leaf_type != CELL_NONE && leaf_type != r->leaf_type))
            continue;
        for (uint32_t i = at; i < s->chain_count; i++) {
            uint32_t chain = s->chain_order[i];
            uint32_t view =
                r->priority < 0 ? s->chains[chain].view : s->vc_view[(size_t)r->vc * s->chain_count + chain];

            if (s->chains[chain].leaf_type != leaf_type || view == CELL_NONE || !tree_in_chain(s, chain, r))
                continue;
            got = chain_try(s, chain, view, r);
            *ret_chain = chain;
            if (got == CELL_OK)
                return got;
            reason = got;
        }
    }
    return reason;
}

static void bind_fill(struct cells *s, const struct cell_request *r, uint32_t chain, struct cell_answer *a)
{
    bool found = false;
    uint32_t number = 0;

    a->outcome = CELL_BIND;
    a->bind = (struct cell_bind){ .chain = s->chains[chain].type,
                                  .pod_count = s->pod_count,
                                  .leaf_count = s->picked_count,
                                  .pods = s->out_pods,
                                  .leaves = s->out_leaves };
    for (uint32_t i = 0; i < s->pod_count; i++) {
        s->out_pods[i] =
            (struct cell_pod_place){ cells_node_of(s, s->mapped[s->pods[i].first]), s->pods[i].first, s->pods[i].size };
        if (!found && s->pods[i].size == r->leaves && tree_slot(s, r, number++)) {
            a->bind.pod = i;
            found = true;
        }
    }
    for (uint32_t i = 0; i < s->picked_count; i++) {
        uint32_t type = CELL_NONE;

        if (r->priority >= 0)
            type = s->chains[chain].type_at[s->forests[s->cells[s->picked[i]].forest].top];
        s->out_leaves[i] = (struct cell_leaf_place){ leaf_of(s, s->mapped[i])->index, type };
    }
}

static enum cell_reason request_check(struct cells *s, const struct cell_request *r)
{
    bool member = false;

    if (r->priority < CELL_PRIORITY_OPP || r->priority > CELL_PRIORITY_MAX)
        return CELL_ERR_PRIORITY;
    for (uint32_t i = 0; i < r->member_count; i++) {
        if (r->members[i].pods == 0 || r->members[i].leaves == 0)
            return CELL_ERR_MEMBER;
        member = member || r->members[i].leaves == r->leaves;
    }
    if (!member || !group_members(s, r))
        return CELL_ERR_MEMBER;
    return r->tree ? tree_valid(s, r) : CELL_OK;
}

/* Are there devices of that type, and may the virtual cluster have some? */
static enum cell_reason type_check(const struct cells *s, const struct cell_request *r)
{
    enum cell_reason reason = r->leaf_type == CELL_NONE ? CELL_OK : CELL_ERR_LEAF_TYPE;

    for (uint32_t i = 0; reason != CELL_OK && i < s->chain_count; i++) {
        if (s->chains[i].leaf_type != r->leaf_type)
            continue;
        reason = CELL_ERR_VC_LEAF_TYPE;
        if (r->priority < 0 || s->vc_view[(size_t)r->vc * s->chain_count + i] != CELL_NONE)
            reason = CELL_OK;
    }
    return reason;
}

static enum cell_reason new_check(const struct cells *s, const struct cell_request *r)
{
    if (r->vc >= s->vc_count)
        return CELL_ERR_VC;
    if (r->pin == CELL_NONE)
        return r->tree ? CELL_OK : type_check(s, r);
    if (r->pin == CELL_UNKNOWN || r->pin >= s->forest_count || s->forests[r->pin].vc != r->vc)
        return CELL_ERR_PIN;
    return r->priority < 0 ? CELL_ERR_PIN_OPP : CELL_OK;
}

static void new_decide(struct cells *s, const struct cell_request *r, enum cell_phase phase, struct cell_answer *a)
{
    enum cell_reason reason = new_check(s, r);
    uint32_t chain = CELL_NONE;

    s->fail_node = CELL_NONE;
    if (reason == CELL_OK && !pods_list(s))
        s->pod_count = 0;
    if (reason == CELL_OK)
        reason = chains_try(s, r, &chain);
    if (reason != CELL_OK) {
        refuse(a, reason);
        a->node = s->fail_node;
        return;
    }
    victims_find(s, a);
    for (uint32_t i = 0; phase == CELL_PREEMPTING && i < s->picked_count; i++) {
        uint32_t reserver = leaf_of(s, s->mapped[i])->reserver;

        if (reserver != CELL_NONE)
            preempt_cancel(s, &s->groups[reserver]);
    }
    if (a->victim_count == 0) {
        bind_fill(s, r, chain, a);
        return;
    }
    a->outcome = CELL_PREEMPT;
    if (phase != CELL_PREEMPTING)
        return;
    if (!group_room(s, s->pod_count, s->picked_count)) {
        a->victim_count = 0;
        refuse(a, CELL_LIMIT);
        return;
    }
    preempt_start(s, r, chain);
    group_ask(s, group_find(s, r->group), r->pod);
}

void cells_decide(struct cells *s, const struct cell_request *request, enum cell_phase phase,
                  struct cell_answer *ret_answer)
{
    struct group *g = group_find(s, request->group);
    enum cell_reason reason = request_check(s, request);

    *ret_answer = (struct cell_answer){ .outcome = CELL_WAIT, .node = CELL_NONE };
    s->phase = phase;
    if (reason != CELL_OK) {
        refuse(ret_answer, reason);
        return;
    }
    if (g && g->state == CELL_GROUP_PREEMPTING && phase == CELL_PREEMPTING && !group_placeable(s, g, request)) {
        reason = new_check(s, request);
        if (reason != CELL_OK) { /* a mistake changes nothing, not even a claim that has become useless */
            refuse(ret_answer, reason);
            return;
        }
        preempt_cancel(s, g);
        doom_settle(s);
        g = NULL;
    }
    if (g)
        existing_decide(s, g, request, ret_answer);
    else
        new_decide(s, request, phase, ret_answer);
    doom_settle(s);
    cells_checked(s);
}
