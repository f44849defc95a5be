/* SPDX-License-Identifier: Apache-2.0 */
/* audit.c - every invariant of the allocator, recounted from nothing. */
#include <errno.h>

#include "cell/parts.h"

static bool broken(struct error *err, const struct cells *s, uint32_t cell, const char *words)
{
    char address[160] = "";

    if (cell != CELL_NONE)
        cells_address(s, cell, address, sizeof(address));
    (void)error_set(err, -EUCLEAN, "%s%s%s", address, cell != CELL_NONE ? ": " : "", words);
    return false;
}

static bool tree_check(const struct cells *s, uint32_t id, struct error *err)
{
    const struct cell *c = &s->cells[id];
    uint32_t used_g = 0, used_o = 0, bad = 0, bound = 0, free = 0, first = c->level > 1 ? cell_child(s, id) : 0;

    for (uint32_t i = 0; c->level > 1 && i < cell_fanout(s, id); i++) {
        const struct cell *k = &s->cells[first + i];

        used_g += k->used_g;
        used_o += k->used_o;
        bad += k->bad;
        bound += k->peer != CELL_NONE;
        free += (k->flags & CELL_IN_FREE) != 0;
        if (k->parent != id)
            return broken(err, s, id, "a child has another parent");
    }
    if (c->level > 1 &&
        (used_g != c->used_g || used_o != c->used_o || bad != c->bad || bound != c->kids_bound || free != c->kids_free))
        return broken(err, s, id, "counters differ from a recount");
    if (c->flags & CELL_QUEUED)
        return broken(err, s, id, "a change was not settled");
    return true;
}

static bool binding_check(const struct cells *s, uint32_t id, struct error *err)
{
    const struct cell *c = &s->cells[id];
    const struct cell *p;

    if (c->peer == CELL_NONE)
        return cell_is_virtual(s, id) && c->used_g ? broken(err, s, id, "used and not bound") : true;
    p = &s->cells[c->peer];
    if (p->peer != id || p->level != c->level || s->forests[p->forest].chain != s->forests[c->forest].chain)
        return broken(err, s, id, "bound cells do not agree");
    if (!cell_is_virtual(s, id))
        return true;
    if (c->parent != CELL_NONE && s->cells[c->parent].peer != p->parent)
        return broken(err, s, id, "bound, and its parent is bound elsewhere");
    if (c->used_g != p->used_g)
        return broken(err, s, id, "bound cells differ in use");
    if (c->used_g == 0 && c->parent != CELL_NONE && p->bad == 0)
        return broken(err, s, id, "bound for nothing");
    if (c->used_g == 0 && c->parent == CELL_NONE && !(c->flags & (CELL_PINNED | CELL_DOOMED)))
        return broken(err, s, id, "granted cell bound for nothing");
    if ((c->flags & CELL_DOOMED) && p->bad == 0)
        return broken(err, s, id, "doomed to healthy hardware");
    if (c->used_g > 0 && (c->flags & CELL_DOOMED))
        return broken(err, s, id, "doomed and in use");
    return true;
}

static bool pool_check(const struct cells *s, uint32_t id, struct error *err)
{
    const struct cell *c = &s->cells[id];
    uint32_t above = c->parent == CELL_NONE ? CELL_NONE : pool_free_ancestor(s, c->parent);
    bool listed = c->flags & CELL_IN_FREE;
    bool owned = c->peer != CELL_NONE && s->cells[c->peer].parent == CELL_NONE;

    if (listed != bits_has(&chain_of(s, c)->free[c->level], cell_position(s, id)))
        return broken(err, s, id, "free list and flag differ");
    if (listed && (c->peer != CELL_NONE || (c->flags & CELL_SPLIT) || above != CELL_NONE))
        return broken(err, s, id, "free, but bound, split or inside a free cell");
    if ((c->flags & CELL_SPLIT) && c->level > 1 && c->kids_free == cell_fanout(s, id))
        return broken(err, s, id, "split with all children free");
    if (owned && pool_free_ancestor(s, id) != CELL_NONE)
        return broken(err, s, id, "bound to a grant and still in the pool");
    if (!listed && above == CELL_NONE && !(c->flags & CELL_SPLIT) && !owned) {
        uint32_t up = c->parent;

        while (up != CELL_NONE && !(s->cells[up].peer != CELL_NONE && s->cells[s->cells[up].peer].parent == CELL_NONE))
            up = s->cells[up].parent;
        if (up == CELL_NONE)
            return broken(err, s, id, "neither free nor anybody's");
    }
    return true;
}

static bool leaf_check(const struct cells *s, uint32_t id, struct error *err)
{
    const struct leaf *l = leaf_of(s, id);
    bool user = l->user != CELL_NONE, reserver = l->reserver != CELL_NONE;
    int32_t priority = s->prio[id];

    if (user != (l->state == CELL_USED || l->state == CELL_RESERVING) ||
        reserver != (l->state == CELL_RESERVING || l->state == CELL_RESERVED))
        return broken(err, s, id, "state and gangs differ");
    if ((priority == CELL_PRIORITY_FREE) != (l->state == CELL_FREE))
        return broken(err, s, id, "state and priority differ");
    if (s->cells[id].used_g != (priority >= 0) || s->cells[id].used_o != (priority == CELL_PRIORITY_OPP))
        return broken(err, s, id, "use and priority differ");
    if (priority >= 0 && (s->cells[id].peer == CELL_NONE || s->prio[s->cells[id].peer] != priority))
        return broken(err, s, id, "guaranteed use without its virtual cell");
    if (reserver && s->groups[l->reserver].priority != priority)
        return broken(err, s, id, "reserved at another priority");
    if (reserver && user && s->groups[l->user].virtual_placed && s->groups[l->user].priority >= priority)
        return broken(err, s, id, "the victim is as important as the preemptor");
    return true;
}

static bool chain_check(const struct cells *s, const struct chain *c, struct error *err)
{
    const struct forest *f = &s->forests[c - s->chains];

    for (uint32_t level = 1; level <= c->levels; level++) {
        uint32_t count = f->count * (c->leaves[c->levels] / c->leaves[level]);
        int64_t left = 0, bad = 0, granted = 0;
        uint32_t listed = 0;

        for (uint32_t i = 0; i < count; i++) {
            uint32_t id = f->base[level] + i;
            bool free = pool_free_ancestor(s, id) != CELL_NONE;

            left += free;
            bad += free && s->cells[id].bad;
            listed += (s->cells[id].flags & CELL_IN_FREE) != 0;
        }
        for (uint32_t vc = 0; vc < s->vc_count; vc++)
            granted += account_of(s, vc, c, level)->free;
        if (left != c->total_left[level] || bad != c->bad_free[level] || listed != c->free_count[level])
            return broken(err, s, CELL_NONE, "counters of free cells differ from a recount");
        if (granted != c->vc_free[level] || left < granted)
            return broken(err, s, CELL_NONE, "more cells are granted than are left");
    }
    return pool_safe(c) ? true : broken(err, s, CELL_NONE, "the grants cannot be carved out of what is free");
}

static bool forest_check(const struct cells *s, const struct forest *f, struct error *err)
{
    for (uint32_t i = 0; f->pin == CELL_NONE && i < f->count; i++) {
        uint32_t id = f->base[f->top] + i;

        if (bits_has(&f->unbound, i) != (s->cells[id].peer == CELL_NONE))
            return broken(err, s, id, "list of unbound grants differs");
    }
    return true;
}

static bool accounts_check(const struct cells *s, struct error *err)
{
    for (uint32_t vc = 0; vc < s->vc_count; vc++) {
        for (uint32_t chain = 0; chain < s->chain_count; chain++) {
            int64_t free[CELL_LEVELS_MAX + 1] = { 0 }, doomed[CELL_LEVELS_MAX + 1] = { 0 };

            for (uint32_t k = s->vc_forest[(size_t)vc * s->chain_count + chain]; k != CELL_NONE;
                 k = s->forests[k].grant_next)
                for (uint32_t i = 0; i < s->forests[k].count; i++) {
                    const struct cell *c = &s->cells[s->forests[k].base[s->forests[k].top] + i];

                    free[c->level] += c->peer == CELL_NONE;
                    doomed[c->level] += (c->flags & CELL_DOOMED) != 0;
                }
            for (uint32_t l = 1; l <= s->chains[chain].levels; l++)
                if (account_of(s, vc, &s->chains[chain], l)->free != free[l] ||
                    account_of(s, vc, &s->chains[chain], l)->doomed != doomed[l])
                    return broken(err, s, CELL_NONE, "a virtual cluster's account differs from a recount");
        }
    }
    return true;
}

static bool group_check(const struct cells *s, const struct group *g, uint32_t *owned, struct error *err)
{
    bool claims = g->state == CELL_GROUP_PREEMPTING, claimed = false;
    uint32_t placed = 0;

    for (uint32_t i = g->slot_first; i != CELL_NONE; i = s->slots[i].next) {
        placed += s->slots[i].state == SLOT_ALLOCATED;
        for (uint32_t k = s->slots[i].leaf_first; k != CELL_NONE; k = s->shares[k].next) {
            const struct share *share = &s->shares[k];
            const struct leaf *l = share->leaf == CELL_NONE ? NULL : leaf_of(s, share->leaf);

            if (!l)
                continue;
            ++*owned;
            if ((claims ? l->reserver : l->user) != group_slot(s, g))
                return broken(err, s, share->leaf, "a gang does not have all of its devices");
            claimed = claimed || l->state == CELL_RESERVING;
            if (!claims && l->state == CELL_RESERVING)
                continue;
            if (g->virtual_placed ? s->cells[share->leaf].peer != share->vleaf : s->prio[share->leaf] >= 0)
                return broken(err, s, share->leaf, "a gang's virtual cell is not where it says");
        }
    }
    if (placed != g->placed || (!claims && placed == 0))
        return broken(err, s, CELL_NONE, "a gang's pods differ from a recount");
    if (!claims && (g->state == CELL_BEING_PREEMPTED_STATE) != claimed)
        return broken(err, s, CELL_NONE, "a gang's state and its devices differ");
    return true;
}

bool cells_audit(const struct cells *s, struct error *err)
{
    uint32_t owned = 0, held = 0;

    for (uint32_t i = 0; i < s->cell_count; i++) {
        if (!tree_check(s, i, err) || !binding_check(s, i, err))
            return false;
        if (!cell_is_virtual(s, i) && !pool_check(s, i, err))
            return false;
        if (!cell_is_virtual(s, i) && s->cells[i].level == 1) {
            if (!leaf_check(s, i, err))
                return false;
            held += leaf_of(s, i)->user != CELL_NONE && leaf_of(s, i)->user != CELL_LENT;
            held += leaf_of(s, i)->reserver != CELL_NONE;
        }
    }
    for (uint32_t i = 0; i < s->chain_count; i++)
        if (!chain_check(s, &s->chains[i], err))
            return false;
    for (uint32_t i = s->chain_count; i < s->forest_count; i++)
        if (!forest_check(s, &s->forests[i], err))
            return false;
    for (uint32_t h = 0; h <= s->group_mask; h++)
        for (uint32_t i = s->group_hash[h]; i != CELL_NONE; i = s->groups[i].hash_next)
            if (!group_check(s, &s->groups[i], &owned, err))
                return false;
    if (owned != held)
        return broken(err, s, CELL_NONE, "devices are held by nobody's gang");
    return accounts_check(s, err);
}
