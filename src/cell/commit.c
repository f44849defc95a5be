/* SPDX-License-Identifier: Apache-2.0 */
/* commit.c - pods placed and pods gone.
 *
 * The first pod of a gang brings the places of all; after a restart they come from its annotation and are looked up
 * again in what the configuration is now. Virtual cells are found from the physical ones: the first that is free. A
 * gang that has no place in its virtual cluster any more goes on as an opportunistic one; nothing is killed.
 */
#include <errno.h>

#include "cell/parts.h"

uint32_t cells_leaf_find(const struct cells *s, uint32_t chain_type, uint32_t node, int32_t index)
{
    uint32_t found = CELL_NONE;

    if (node >= s->node_count)
        return CELL_NONE;
    for (uint32_t k = s->nodes[node].cell_first; k != CELL_NONE; k = s->node_next[k]) {
        uint32_t cell = s->node_cell[k], first = cell_leaf_first(s, cell), count = cell_leaf_count(s, cell);
        bool same = chain_of(s, &s->cells[cell])->type == chain_type;

        for (uint32_t i = 0; i < count; i++) {
            if (leaf_of(s, first + i)->index != index)
                continue;
            if (same)
                return first + i;
            if (found == CELL_NONE)
                found = first + i;
        }
    }
    return found;
}

static int32_t cell_priority(const struct cells *s, uint32_t cell)
{
    uint32_t first = cell_leaf_first(s, cell), count = cell_leaf_count(s, cell);
    int32_t most = CELL_PRIORITY_FREE;

    for (uint32_t i = 0; i < count; i++)
        most = s->prio[first + i] > most ? s->prio[first + i] : most;
    return most;
}

/* Frees a granted cell that is bound: claims are dropped, gangs go on as opportunistic ones. */
static void root_evict(struct cells *s, uint32_t root, uint64_t by)
{
    uint32_t first = cell_leaf_first(s, root), count = cell_leaf_count(s, root);

    if (s->cells[root].flags & CELL_DOOMED)
        doom_release(s, s->cells[root].peer);
    for (uint32_t i = 0; i < count && s->cells[root].used_g > 0; i++) {
        uint32_t leaf = s->cells[first + i].peer;

        if (s->prio[first + i] < 0)
            continue;
        if (leaf_of(s, leaf)->reserver != CELL_NONE)
            preempt_cancel(s, &s->groups[leaf_of(s, leaf)->reserver]);
        if (s->prio[first + i] >= 0)
            preempt_lazy(s, &s->groups[leaf_of(s, leaf)->user], by);
    }
}

/* A granted cell of that level without a physical one; the least important is freed when there is none. */
static uint32_t root_choose(struct cells *s, const struct cell_request *r, uint32_t chain, uint32_t level)
{
    uint32_t best = CELL_NONE;
    int32_t least = r->priority;

    for (uint32_t k = s->vc_forest[(size_t)r->vc * s->chain_count + chain]; k != CELL_NONE;
         k = s->forests[k].grant_next) {
        uint32_t i = s->forests[k].top == level ? bits_next(&s->forests[k].unbound, 0) : BITS_NONE;

        if (i != BITS_NONE)
            return s->forests[k].base[level] + i;
    }
    for (uint32_t k = s->vc_forest[(size_t)r->vc * s->chain_count + chain]; k != CELL_NONE;
         k = s->forests[k].grant_next) {
        const struct forest *f = &s->forests[k];

        for (uint32_t i = 0; f->top == level && i < f->count; i++) {
            int32_t priority = cell_priority(s, f->base[level] + i);

            if (priority < least) {
                least = priority;
                best = f->base[level] + i;
            }
        }
    }
    if (best != CELL_NONE)
        root_evict(s, best, r->group);
    return best != CELL_NONE && s->cells[best].peer == CELL_NONE ? best : CELL_NONE;
}

static uint32_t child_unbound(const struct cells *s, uint32_t virt)
{
    uint32_t first = cell_child(s, virt);

    for (uint32_t i = 0; i < cell_fanout(s, virt); i++)
        if (s->cells[first + i].peer == CELL_NONE)
            return first + i;
    return CELL_NONE;
}

/* The virtual device of the request's virtual cluster that this physical one shall be, or CELL_NONE. */
static uint32_t vleaf_find(struct cells *s, const struct cell_request *r, uint32_t leaf, uint32_t preassigned)
{
    uint32_t chain = s->forests[s->cells[leaf].forest].chain, level = 1, p = leaf, v;
    const struct chain *c = &s->chains[chain];
    const struct forest *f;

    while (level <= c->levels && c->type_at[level] != preassigned)
        level++;
    if (level > c->levels || r->vc >= s->vc_count)
        return CELL_NONE;
    while (s->cells[p].peer == CELL_NONE && s->cells[p].level < level)
        p = s->cells[p].parent;
    if (s->cells[p].peer == CELL_NONE && (r->pin != CELL_NONE || pool_free_ancestor(s, p) == CELL_NONE))
        return CELL_NONE;
    v = s->cells[p].peer != CELL_NONE ? s->cells[p].peer : root_choose(s, r, chain, level);
    if (v == CELL_NONE)
        return CELL_NONE;
    f = &s->forests[s->cells[v].forest];
    if (f->vc != r->vc || (r->pin == CELL_NONE) != (f->pin == CELL_NONE) ||
        (r->pin != CELL_NONE && s->cells[v].forest != r->pin))
        return CELL_NONE;
    while (s->cells[v].level > 1 && v != CELL_NONE)
        v = child_unbound(s, v);
    return v != CELL_NONE && take_fits(s, leaf, v) ? v : CELL_NONE;
}

/* Takes one device of a new gang. False: its virtual cluster has no place for it. */
static bool share_take(struct cells *s, const struct cell_request *r, struct group *g, struct share *share, bool lazy)
{
    struct leaf *leaf = leaf_of(s, share->leaf);
    bool ok = true;

    if (leaf->state == CELL_RESERVED)
        preempt_cancel(s, &s->groups[leaf->reserver]);
    if (g->virtual_placed) {
        share->vleaf = lazy ? CELL_NONE : vleaf_find(s, r, share->leaf, share->preassigned);
        ok = share->vleaf != CELL_NONE;
    }
    ok = take_leaf(s, share->leaf, share->vleaf, r->priority) && ok;
    leaf->user = group_slot(s, g);
    leaf->state = CELL_USED;
    return ok;
}

static int group_adopt(struct cells *s, const struct cell_request *r, const struct cell_bind *bind, struct error *err)
{
    uint32_t chain = CELL_UNKNOWN;
    struct group *g;
    bool lazy = false;

    if (!group_room(s, bind->pod_count, bind->leaf_count))
        return error_set(err, -ENOSPC, "more gangs or devices than the allocator was made for");
    for (uint32_t i = 0; i < s->chain_count; i++)
        if (s->chains[i].type == bind->chain)
            chain = i;
    g = group_new(s, r, chain);
    g->virtual_placed = r->priority >= 0;
    for (uint32_t i = 0; i < bind->leaf_count; i++)
        if (bind->leaves[i].preassigned == CELL_NONE)
            g->virtual_placed = false; /* opportunistic when it was written down */
    for (uint32_t i = 0; i < bind->pod_count; i++) {
        const struct cell_pod_place *pod = &bind->pods[i];
        struct slot *slot = group_add_slot(s, g, pod->leaf_count);
        uint32_t at = pod->leaf_first;

        slot->node = pod->node;
        for (uint32_t k = slot->leaf_first; k != CELL_NONE; k = s->shares[k].next, at++) {
            struct share *share = &s->shares[k];
            uint32_t leaf = cells_leaf_find(s, bind->chain, pod->node, bind->leaves[at].index);

            share->index = bind->leaves[at].index;
            share->preassigned = bind->leaves[at].preassigned;
            /* A device that is gone, or that somebody else has by now, is left out; the pod runs on. */
            if (leaf == CELL_NONE || leaf_of(s, leaf)->user != CELL_NONE)
                continue;
            share->leaf = leaf;
            lazy = !share_take(s, r, g, share, lazy) || lazy;
        }
    }
    if (lazy)
        preempt_lazy(s, g, g->id);
    return 0;
}

/* A gang that waited for its victims has its devices. */
static int group_start(struct cells *s, struct group *g, struct error *err)
{
    for (uint32_t i = g->slot_first; i != CELL_NONE; i = s->slots[i].next)
        for (uint32_t k = s->slots[i].leaf_first; k != CELL_NONE; k = s->shares[k].next)
            if (leaf_of(s, s->shares[k].leaf)->state != CELL_RESERVED)
                return error_set(err, -EBUSY, "devices of the gang are still in use");
    for (uint32_t i = g->slot_first; i != CELL_NONE; i = s->slots[i].next) {
        s->slots[i].state = SLOT_EMPTY;
        for (uint32_t k = s->slots[i].leaf_first; k != CELL_NONE; k = s->shares[k].next) {
            struct leaf *leaf = leaf_of(s, s->shares[k].leaf);

            leaf->state = CELL_USED;
            leaf->user = group_slot(s, g);
            leaf->reserver = CELL_NONE;
        }
    }
    group_askers_free(s, g);
    g->state = CELL_ALLOCATED;
    return 0;
}

static struct slot *slot_find(struct cells *s, struct group *g, const struct cell_bind *bind)
{
    const struct cell_pod_place *pod = &bind->pods[bind->pod];
    int32_t index = bind->leaves[pod->leaf_first].index;

    for (uint32_t i = g->slot_first; i != CELL_NONE; i = s->slots[i].next) {
        if (s->slots[i].leaf_count != pod->leaf_count || s->slots[i].node != pod->node)
            continue;
        for (uint32_t k = s->slots[i].leaf_first; k != CELL_NONE; k = s->shares[k].next)
            if (s->shares[k].index == index)
                return &s->slots[i];
    }
    return NULL;
}

int cells_commit(struct cells *s, const struct cell_request *request, const struct cell_bind *bind, struct error *err)
{
    struct group *g = group_find(s, request->group);
    struct slot *slot;
    int r = 0;

    if (request->priority < CELL_PRIORITY_OPP || request->priority > CELL_PRIORITY_MAX)
        return error_set(err, -EINVAL, "priority %d is not in -1..%d", request->priority, CELL_PRIORITY_MAX);
    if (bind->pod >= bind->pod_count || bind->pods[bind->pod].leaf_count == 0)
        return error_set(err, -EINVAL, "the pod is not among the places of its gang");
    if (!g)
        r = group_adopt(s, request, bind, err);
    else if (g->state == CELL_GROUP_PREEMPTING)
        r = group_start(s, g, err);
    g = group_find(s, request->group);
    doom_settle(s);
    if (r < 0)
        return r;
    slot = slot_find(s, g, bind);
    if (!slot || slot->state == SLOT_ALLOCATED)
        return error_set(err, -EEXIST, "no slot of the gang is free for the pod");
    slot->state = SLOT_ALLOCATED;
    slot->pod = request->pod;
    g->placed++;
    cells_checked(s);
    return 0;
}

static struct slot *pod_find(struct cells *s, const struct group *g, uint64_t pod)
{
    for (uint32_t i = g->slot_first; i != CELL_NONE; i = s->slots[i].next)
        if (s->slots[i].state == SLOT_ALLOCATED && s->slots[i].pod == pod)
            return &s->slots[i];
    return NULL;
}

int cells_release(struct cells *s, uint64_t group, uint64_t pod)
{
    struct group *g = group_find(s, group);
    struct slot *slot = g ? pod_find(s, g, pod) : NULL;

    if (!slot)
        return -ENOENT;
    slot->state = SLOT_EMPTY;
    if (--g->placed > 0)
        return 0;
    for (uint32_t i = g->slot_first; i != CELL_NONE; i = s->slots[i].next) {
        for (uint32_t k = s->slots[i].leaf_first; k != CELL_NONE; k = s->shares[k].next) {
            struct leaf *leaf;

            if (s->shares[k].leaf == CELL_NONE)
                continue;
            leaf = leaf_of(s, s->shares[k].leaf);
            leaf->user = CELL_NONE;
            if (leaf->state == CELL_RESERVING) {
                leaf->state = CELL_RESERVED; /* in the books it is the claimant's already */
            } else {
                take_release(s, s->shares[k].leaf);
                leaf->state = CELL_FREE;
            }
        }
    }
    group_free(s, g);
    doom_settle(s);
    cells_checked(s);
    return 0;
}

void cells_cancel(struct cells *s, uint64_t group, uint64_t pod)
{
    struct group *g = group_find(s, group);

    if (!g || g->state != CELL_GROUP_PREEMPTING || !group_unask(s, g, pod))
        return;
    if (g->asker_first == CELL_NONE) {
        preempt_cancel(s, g);
        doom_settle(s);
    }
    cells_checked(s);
}
