/* SPDX-License-Identifier: Apache-2.0 */
/* doom.c - broken hardware: what it does to the books of the virtual clusters.
 *
 * A granted, unbound cell for which no healthy physical cell is left is doomed: bound to a broken one, so that the
 * virtual cluster sees it and does not plan with it. How many are doomed follows from counters alone and is recomputed
 * after every change, from the largest cells down: dooming one takes nothing healthy from its own level or above.
 */
#include "cell/lend.h"
#include "cell/parts.h"

/* Broken children of a bound cell are bound too, so that the virtual cluster sees which part is broken. */
static void bad_bind(struct cells *s, uint32_t phys)
{
    uint32_t first, vchild;

    if (s->cells[phys].level == 1)
        return;
    first = cell_child(s, phys);
    vchild = cell_child(s, s->cells[phys].peer);
    for (uint32_t i = 0; i < cell_fanout(s, phys); i++) {
        if (s->cells[first + i].bad == 0)
            continue;
        if (s->cells[first + i].peer == CELL_NONE) {
            while (s->cells[vchild].peer != CELL_NONE)
                vchild++;
            take_bind(s, first + i, vchild);
        }
        bad_bind(s, first + i);
    }
}

static void settle_bindings(struct cells *s)
{
    for (uint32_t i = 0; i < s->settle_count; i++) {
        uint32_t phys = s->settle[i];

        s->cells[phys].flags &= (uint8_t)~CELL_QUEUED;
        if (s->cells[phys].peer != CELL_NONE)
            bad_bind(s, phys);
    }
    s->settle_count = 0;
}

/* The first broken cell of that level inside a free one. */
static uint32_t bad_inside(const struct cells *s, uint32_t phys, uint32_t level)
{
    while (s->cells[phys].level > level) {
        phys = cell_child(s, phys);
        while (s->cells[phys].bad == 0)
            phys++;
    }
    return phys;
}

/* A broken free cell that can leave the pool without harm to any grant; small free cells first. */
static uint32_t bad_find(const struct cells *s, const struct chain *c, uint32_t level)
{
    const struct forest *f = &s->forests[c - s->chains];
    int64_t spare[CELL_LEVELS_MAX + 2] = { 0 };

    for (uint32_t l = c->levels; l > level; l--)
        spare[l] = (l < c->levels ? spare[l + 1] * c->fanout[l + 1] : 0) + c->free_count[l] - c->vc_free[l];
    for (uint32_t l = level; l <= c->levels; l++) {
        if (l > level && spare[l] <= 0)
            return CELL_NONE;
        for (uint32_t i = bits_next(&c->free[l], 0); i != BITS_NONE; i = bits_next(&c->free[l], i + 1))
            if (s->cells[f->base[l] + i].bad)
                return bad_inside(s, f->base[l] + i, level);
    }
    return CELL_NONE;
}

static uint32_t root_find(const struct cells *s, uint32_t vc, const struct chain *c, uint32_t level, bool doomed)
{
    uint32_t k = s->vc_forest[(size_t)vc * s->chain_count + (size_t)(c - s->chains)];

    for (; k != CELL_NONE; k = s->forests[k].grant_next) {
        const struct forest *f = &s->forests[k];
        uint32_t i;

        if (f->top != level)
            continue;
        i = bits_next(&f->unbound, 0);
        if (!doomed && i != BITS_NONE)
            return f->base[level] + i;
        for (i = 0; doomed && i < f->count; i++)
            if (s->cells[f->base[level] + i].flags & CELL_DOOMED)
                return f->base[level] + i;
    }
    return CELL_NONE;
}

static bool doom_one(struct cells *s, uint32_t vc, struct chain *c, uint32_t level)
{
    uint32_t phys = bad_find(s, c, level), virt = root_find(s, vc, c, level, false);
    struct account *a = account_of(s, vc, c, level);

    if (phys == CELL_NONE || virt == CELL_NONE)
        return false;
    a->free--;
    a->doomed++;
    c->vc_free[level]--;
    c->doomed++;
    s->cells[virt].flags |= CELL_DOOMED;
    pool_take(s, phys);
    take_bind(s, phys, virt);
    return true;
}

void doom_release(struct cells *s, uint32_t phys)
{
    uint32_t virt = s->cells[phys].peer, level = s->cells[phys].level;
    const struct forest *f = &s->forests[s->cells[virt].forest];
    struct chain *c = &s->chains[f->chain];
    struct account *a = account_of(s, f->vc, c, level);

    s->cells[virt].flags &= (uint8_t)~CELL_DOOMED;
    a->doomed--;
    a->free++;
    c->vc_free[level]++;
    c->doomed--;
    take_unbind_tree(s, phys);
    pool_give(s, phys);
}

/* A doomed cell whose hardware came back is an ordinary grant again. */
static void healed_release(struct cells *s, const struct chain *c, uint32_t vc, uint32_t level)
{
    uint32_t k = s->vc_forest[(size_t)vc * s->chain_count + (size_t)(c - s->chains)];

    for (; k != CELL_NONE; k = s->forests[k].grant_next) {
        const struct forest *f = &s->forests[k];

        for (uint32_t i = 0; f->top == level && i < f->count; i++) {
            const struct cell *v = &s->cells[f->base[level] + i];

            if ((v->flags & CELL_DOOMED) && s->cells[v->peer].bad == 0)
                doom_release(s, v->peer);
        }
    }
}

static void level_settle(struct cells *s, struct chain *c, uint32_t level)
{
    for (uint32_t vc = 0; vc < s->vc_count; vc++)
        if (account_of(s, vc, c, level)->doomed > 0)
            healed_release(s, c, vc, level);
    for (uint32_t vc = 0; vc < s->vc_count; vc++) {
        struct account *a = account_of(s, vc, c, level);

        while (a->doomed > 0 && a->free < c->total_left[level] - c->bad_free[level])
            doom_release(s, s->cells[root_find(s, vc, c, level, true)].peer);
    }
    for (uint32_t vc = 0; vc < s->vc_count; vc++) {
        struct account *a = account_of(s, vc, c, level);

        while (a->free > 0 && a->free > c->total_left[level] - c->bad_free[level])
            if (!doom_one(s, vc, c, level))
                break;
    }
}

/* Brings the books in order at the end of every change. What a level gives back may be what one above it missed, so
 * levels are gone through again while something changes; as often as there are levels, since they might disagree. */
void doom_settle(struct cells *s)
{
    settle_bindings(s);
    for (uint32_t i = 0; i < s->chain_count; i++) {
        struct chain *c = &s->chains[i];

        for (uint32_t round = 0; c->unsettled && round <= c->levels; round++) {
            c->unsettled = false;
            for (uint32_t level = c->levels; level > 0 && (c->bad_leaves || c->doomed); level--)
                level_settle(s, c, level);
        }
        c->unsettled = false;
    }
    settle_bindings(s);
}

void cells_restored(struct cells *s)
{
    settle_bindings(s);
    for (uint32_t i = 0; i < s->chain_count; i++)
        s->chains[i].unsettled = false;
    cells_checked(s);
}

static void bad_free_below(struct cells *s, uint32_t cell, int sign)
{
    if (s->cells[cell].flags & CELL_IN_FREE) {
        pool_bad_count(s, cell, sign);
        return;
    }
    if (s->cells[cell].level > 1)
        for (uint32_t i = 0; i < cell_fanout(s, cell); i++)
            bad_free_below(s, cell_child(s, cell) + i, sign);
}

/* Counts the broken free cells in and around a node, or takes them out of the count. */
static void bad_free_change(struct cells *s, uint32_t cell, int sign)
{
    uint32_t from = pool_free_ancestor(s, cell);
    struct chain *c = &s->chains[s->forests[s->cells[cell].forest].chain];

    if (from == CELL_NONE) {
        bad_free_below(s, cell, sign);
        return;
    }
    pool_bad_count(s, cell, sign);
    while (cell != from) {
        cell = s->cells[cell].parent;
        c->bad_free[s->cells[cell].level] += s->cells[cell].bad ? sign : 0;
    }
}

/* The uppermost bound cells at, above or below the node get their broken children bound. */
static void bound_queue(struct cells *s, uint32_t cell)
{
    uint32_t up = cell;

    while (up != CELL_NONE && s->cells[up].peer == CELL_NONE)
        up = s->cells[up].parent;
    if (up != CELL_NONE) {
        bad_bind(s, up);
        return;
    }
    if (!(s->cells[cell].flags & CELL_SPLIT))
        return;
    for (uint32_t i = 0; i < cell_fanout(s, cell); i++)
        bound_queue(s, cell_child(s, cell) + i);
}

/* A binding that showed damage and serves nobody goes when the damage does. */
static void idle_unbind(struct cells *s, uint32_t cell)
{
    uint32_t virt = s->cells[cell].peer;

    if (virt == CELL_NONE || s->cells[cell].bad || s->cells[virt].parent == CELL_NONE || s->cells[virt].used_g)
        return;
    take_unbind_tree(s, cell);
}

static void node_cell_set(struct cells *s, uint32_t cell, bool bad)
{
    struct chain *c = &s->chains[s->forests[s->cells[cell].forest].chain];
    const struct forest *f = &s->forests[s->cells[cell].forest];
    uint32_t leaves = cell_leaf_count(s, cell), at = cell_position(s, cell);

    bad_free_change(s, cell, -1);
    for (uint32_t level = 1; level <= c->node_level; level++)
        for (uint32_t i = 0; i < leaves / c->leaves[level]; i++) {
            uint32_t id = f->base[level] + at * (leaves / c->leaves[level]) + i;

            s->cells[id].bad = bad ? c->leaves[level] : 0;
            if (s->cells[id].peer != CELL_NONE)
                view_touch(s, s->cells[id].peer);
        }
    for (uint32_t up = s->cells[cell].parent; up != CELL_NONE; up = s->cells[up].parent)
        s->cells[up].bad = bad ? s->cells[up].bad + leaves : s->cells[up].bad - leaves;
    c->bad_leaves = bad ? c->bad_leaves + leaves : c->bad_leaves - leaves;
    bad_free_change(s, cell, 1);
    view_touch(s, cell);
    if (bad)
        bound_queue(s, cell);
    for (uint32_t level = 1; !bad && level <= c->node_level; level++)
        for (uint32_t i = 0; i < leaves / c->leaves[level]; i++)
            idle_unbind(s, f->base[level] + at * (leaves / c->leaves[level]) + i);
    for (uint32_t up = s->cells[cell].parent; !bad && up != CELL_NONE; up = s->cells[up].parent)
        idle_unbind(s, up);
    c->unsettled = true;
}

void cells_leaf_set(struct cells *s, uint32_t leaf, bool healthy)
{
    struct chain *c = &s->chains[s->forests[s->cells[leaf].forest].chain];

    if ((s->cells[leaf].bad == 0) == healthy)
        return;
    bad_free_change(s, leaf, -1);
    for (uint32_t up = leaf; up != CELL_NONE; up = s->cells[up].parent) {
        s->cells[up].bad = healthy ? s->cells[up].bad - 1 : s->cells[up].bad + 1;
        if (s->cells[up].peer != CELL_NONE)
            view_touch(s, s->cells[up].peer);
        view_touch(s, up);
    }
    c->bad_leaves = healthy ? c->bad_leaves - 1 : c->bad_leaves + 1;
    bad_free_change(s, leaf, 1);
    if (s->cells[leaf].peer != CELL_NONE)
        take_note(s, s->cells[leaf].peer);
    if (!healthy)
        bound_queue(s, leaf);
    for (uint32_t up = leaf; healthy && up != CELL_NONE; up = s->cells[up].parent)
        idle_unbind(s, up);
    c->unsettled = true;
}

void cells_node_set(struct cells *s, uint32_t node, bool healthy)
{
    if (node >= s->node_count || s->nodes[node].bad == !healthy)
        return;
    s->nodes[node].bad = !healthy;
    for (uint32_t k = s->nodes[node].cell_first; k != CELL_NONE; k = s->node_next[k])
        node_cell_set(s, s->node_cell[k], !healthy);
    doom_settle(s);
    cells_checked(s);
}
