/* SPDX-License-Identifier: Apache-2.0 */
/* take.c - a device changes hands: counters up both trees, bindings, and the granted cell in or out of the pool.
 *
 * A virtual cell that is not granted itself is bound while a device below is in guaranteed use, or while its physical
 * cell is broken and its parent bound; a granted one while it is used, doomed or pinned.
 */
#include "cell/parts.h"

/* What a virtual cluster sees of a device's health may have changed. */
void take_note(struct cells *s, uint32_t virt)
{
    if (s->cells[virt].flags & CELL_NOTED)
        return;
    s->cells[virt].flags |= CELL_NOTED;
    s->noted[s->noted_count++] = virt;
}

void take_bind(struct cells *s, uint32_t phys, uint32_t virt)
{
    struct cell *p = &s->cells[phys], *v = &s->cells[virt];

    assert(p->peer == CELL_NONE);
    assert(v->peer == CELL_NONE);
    assert(p->level == v->level);
    p->peer = virt;
    v->peer = phys;
    if (p->parent != CELL_NONE)
        s->cells[p->parent].kids_bound++;
    if (v->parent != CELL_NONE)
        s->cells[v->parent].kids_bound++;
    else if (!(v->flags & CELL_PINNED))
        bits_clear(&s->forests[v->forest].unbound, cell_position(s, virt));
    if (p->bad && p->level > 1 && !(p->flags & CELL_QUEUED)) {
        p->flags |= CELL_QUEUED;
        s->settle[s->settle_count++] = phys;
    }
    if (p->bad && p->level == 1)
        take_note(s, virt);
    view_touch(s, virt);
}

static void unbind(struct cells *s, uint32_t phys)
{
    struct cell *p = &s->cells[phys], *v = &s->cells[p->peer];
    uint32_t virt = p->peer;

    p->peer = v->peer = CELL_NONE;
    if (p->parent != CELL_NONE)
        s->cells[p->parent].kids_bound--;
    if (v->parent != CELL_NONE)
        s->cells[v->parent].kids_bound--;
    else
        bits_set(&s->forests[v->forest].unbound, cell_position(s, virt));
    if (p->bad && p->level == 1)
        take_note(s, virt);
    view_touch(s, virt);
}

void take_unbind_tree(struct cells *s, uint32_t phys)
{
    uint32_t first;

    if (s->cells[phys].level > 1 && s->cells[phys].kids_bound > 0) {
        first = cell_child(s, phys);
        for (uint32_t i = 0; i < cell_fanout(s, phys); i++)
            if (s->cells[first + i].peer != CELL_NONE)
                take_unbind_tree(s, first + i);
    }
    unbind(s, phys);
}

static void used_change(struct cells *s, uint32_t leaf, int32_t guaranteed, int32_t opportunistic)
{
    for (uint32_t c = leaf; c != CELL_NONE; c = s->cells[c].parent) {
        s->cells[c].used_g += (uint32_t)guaranteed;
        s->cells[c].used_o += (uint32_t)opportunistic;
        if (s->cells[c].view != CELL_NONE)
            view_touch(s, c);
    }
}

/* May this device serve as that virtual one? They must agree all the way up, and the granted cell must be there. */
bool take_fits(const struct cells *s, uint32_t leaf, uint32_t vleaf)
{
    uint32_t p = leaf, v = vleaf;

    if (s->forests[s->cells[p].forest].chain != s->forests[s->cells[v].forest].chain || s->cells[v].used_g > 0)
        return false;
    for (;;) {
        if (s->cells[v].peer != CELL_NONE || s->cells[p].peer != CELL_NONE)
            return s->cells[v].peer == p;
        if (s->cells[v].parent == CELL_NONE)
            return pool_free_ancestor(s, p) != CELL_NONE;
        v = s->cells[v].parent;
        p = s->cells[p].parent;
        if (p == CELL_NONE)
            return false;
    }
}

/* The granted cell was bound: it leaves the pool. */
void take_root(struct cells *s, uint32_t virt)
{
    const struct forest *f = &s->forests[s->cells[virt].forest];
    struct chain *c = &s->chains[f->chain];

    account_of(s, f->vc, c, f->top)->free--;
    c->vc_free[f->top]--;
    pool_take(s, s->cells[virt].peer);
}

/* The granted cell begins to be used: out of the pool, or no longer merely doomed. */
static void root_start(struct cells *s, uint32_t virt, bool bound_now)
{
    const struct forest *f = &s->forests[s->cells[virt].forest];
    struct chain *c = &s->chains[f->chain];
    struct account *a = account_of(s, f->vc, c, f->top);

    if (bound_now) {
        take_root(s, virt);
    } else if (s->cells[virt].flags & CELL_DOOMED) {
        s->cells[virt].flags &= (uint8_t)~CELL_DOOMED;
        a->doomed--;
        c->doomed--;
        c->unsettled = true;
    }
}

/* Gives a free device to a gang: as `vleaf` of its virtual cluster, or opportunistically (CELL_NONE). False: some
 * grant could no longer be had, which only a changed configuration can cause. */
bool take_leaf(struct cells *s, uint32_t leaf, uint32_t vleaf, int32_t priority)
{
    uint32_t p = leaf, v = vleaf;
    bool bound_now = false;

    assert(s->prio[leaf] == CELL_PRIORITY_FREE);
    if (vleaf == CELL_NONE) {
        s->prio[leaf] = CELL_PRIORITY_OPP;
        used_change(s, leaf, 0, 1);
        return true;
    }
    s->prio[leaf] = s->prio[vleaf] = (int16_t)priority;
    used_change(s, leaf, 1, 0);
    used_change(s, vleaf, 1, 0);
    for (;;) {
        if (s->cells[v].peer == CELL_NONE) {
            take_bind(s, p, v);
            bound_now = s->cells[v].parent == CELL_NONE;
        }
        if (s->cells[v].parent == CELL_NONE)
            break;
        v = s->cells[v].parent;
        p = s->cells[p].parent;
    }
    root_start(s, v, bound_now);
    return !bound_now || pool_safe(chain_of(s, &s->cells[v]));
}

static void root_stop(struct cells *s, uint32_t virt)
{
    const struct forest *f = &s->forests[s->cells[virt].forest];
    struct chain *c = &s->chains[f->chain];
    uint32_t phys = s->cells[virt].peer;

    if (s->cells[virt].flags & CELL_PINNED)
        return;
    take_unbind_tree(s, phys);
    account_of(s, f->vc, c, f->top)->free++;
    c->vc_free[f->top]++;
    pool_give(s, phys);
}

/* Takes a device back, whoever has it in the books. */
void take_release(struct cells *s, uint32_t leaf)
{
    uint32_t v = s->cells[leaf].peer;

    assert(s->prio[leaf] != CELL_PRIORITY_FREE);
    if (s->prio[leaf] == CELL_PRIORITY_OPP) {
        s->prio[leaf] = CELL_PRIORITY_FREE;
        used_change(s, leaf, 0, -1);
        return;
    }
    s->prio[leaf] = s->prio[v] = CELL_PRIORITY_FREE;
    used_change(s, leaf, -1, 0);
    used_change(s, v, -1, 0);
    while (s->cells[v].used_g == 0) {
        uint32_t parent = s->cells[v].parent, p = s->cells[v].peer;

        if (parent == CELL_NONE) {
            root_stop(s, v);
            return;
        }
        if (s->cells[p].bad == 0)
            unbind(s, p);
        v = parent;
    }
}
