/* SPDX-License-Identifier: Apache-2.0 */
/* pick_tree.c - devices for a gang that asks for whole cells, and for groups of pods that must lie inside one cell.
 *
 * Groups and pods with more devices come first. A group that names a type is tried in the cells of that type inside the
 * cell of its parent, one after the other: healthy ones only, those that are more in use first, then as in the file;
 * the first that holds all its pods and all its groups is taken, and nothing is tried again for the sake of a later
 * group. Pods go to nodes in the same order; inside a node they get whole cells of the type they ask for, in the
 * smallest cell that has enough of them. Suggestions are not asked for.
 *
 * Pods of one size are numbered in the order of the tree, so that a pod knows the places of its own group.
 */
#include "cell/parts.h"

struct tree {
    struct cells *s;
    const struct cell_request *request;
    const struct chain *chain;
    int32_t priority; /* what is below may be taken; CELL_PRIORITY_OPP: idle devices only */
    bool physical;
    uint32_t roots; /* the first forest */
    uint32_t picked;
};

uint32_t cells_type_leaves(const struct cells *s, uint32_t type)
{
    uint32_t leaves = 1;

    for (; s->types[type].child != CELL_NONE; type = s->types[type].child)
        leaves *= s->types[type].child_count;
    return leaves;
}

/* The level of a type in a chain, or 0. */
static uint32_t type_level(const struct chain *c, uint32_t type)
{
    for (uint32_t level = 1; level <= c->levels; level++)
        if (c->type_at[level] == type)
            return level;
    return 0;
}

enum cell_reason tree_valid(const struct cells *s, const struct cell_request *r)
{
    if (r->tree_pod >= r->tree_count)
        return CELL_ERR_MEMBER;
    for (uint32_t i = 0; i < r->tree_count; i++) {
        const struct cell_pod_group *g = &r->tree[i];

        if (i == 0 ? g->parent != CELL_NONE : g->parent >= i)
            return CELL_ERR_MEMBER;
        if (g->within != CELL_NONE && g->within >= s->type_count)
            return CELL_ERR_LEAF_TYPE;
        if (g->pods > 0 && g->cell_type >= s->type_count)
            return CELL_ERR_LEAF_TYPE;
        if (g->pods > 0 && g->cells == 0)
            return CELL_ERR_MEMBER;
    }
    if (r->tree[r->tree_pod].pods == 0 ||
        (uint64_t)cells_type_leaves(s, r->tree[r->tree_pod].cell_type) * r->tree[r->tree_pod].cells != r->leaves)
        return CELL_ERR_MEMBER;
    return CELL_OK;
}

/* Has the chain the types that are asked for, pods at or below the node? */
bool tree_in_chain(const struct cells *s, uint32_t chain, const struct cell_request *r)
{
    const struct chain *c = &s->chains[chain];

    for (uint32_t i = 0; r->tree && i < r->tree_count; i++) {
        const struct cell_pod_group *g = &r->tree[i];
        uint32_t level = g->pods > 0 ? type_level(c, g->cell_type) : 1;

        if (level == 0 || level > c->node_level || (g->within != CELL_NONE && type_level(c, g->within) == 0))
            return false;
    }
    return true;
}

static uint32_t group_size(const struct tree *t, uint32_t group)
{
    const struct cell_pod_group *g = &t->request->tree[group];

    return g->pods > 0 ? cells_type_leaves(t->s, g->cell_type) * g->cells : 0;
}

/* Devices of a group and of those below it. */
static uint64_t group_total(const struct tree *t, uint32_t group)
{
    uint64_t total = (uint64_t)group_size(t, group) * t->request->tree[group].pods;

    for (uint32_t i = group + 1; i < t->request->tree_count; i++)
        if (t->request->tree[i].parent == group)
            total += group_total(t, i);
    return total;
}

bool tree_slot(const struct cells *s, const struct cell_request *r, uint32_t number)
{
    uint32_t before = 0;

    if (!r->tree)
        return true;
    for (uint32_t i = 0; i < r->tree_pod; i++)
        if (r->tree[i].pods > 0 && cells_type_leaves(s, r->tree[i].cell_type) * r->tree[i].cells == r->leaves)
            before += r->tree[i].pods;
    return number >= before && number - before < r->tree[r->tree_pod].pods;
}

static bool leaf_open(const struct tree *t, uint32_t leaf, bool idle)
{
    const struct cells *s = t->s;
    uint32_t phys = t->physical ? leaf : s->cells[leaf].peer;

    if (s->tree_taken[leaf / 64] >> (leaf % 64) & 1 || (phys != CELL_NONE && s->cells[phys].bad))
        return false;
    return s->prio[leaf] == CELL_PRIORITY_FREE || (!idle && s->prio[leaf] < t->priority);
}

static bool cell_open(const struct tree *t, uint32_t cell, bool idle)
{
    uint32_t first = cell_leaf_first(t->s, cell), count = cell_leaf_count(t->s, cell);

    for (uint32_t i = 0; i < count; i++)
        if (!leaf_open(t, first + i, idle))
            return false;
    return true;
}

/* Cells of a level inside a cell that is as large or larger: a range. */
static uint32_t inside(const struct tree *t, uint32_t cell, uint32_t level, uint32_t *ret_count)
{
    const struct cells *s = t->s;
    uint32_t ratio = t->chain->leaves[s->cells[cell].level] / t->chain->leaves[level];

    *ret_count = ratio;
    return s->forests[s->cells[cell].forest].base[level] + cell_position(s, cell) * ratio;
}

static uint32_t open_count(const struct tree *t, uint32_t cell, uint32_t level, bool idle)
{
    uint32_t count, first = inside(t, cell, level, &count), found = 0;

    for (uint32_t i = 0; i < count; i++)
        found += cell_open(t, first + i, idle);
    return found;
}

/* More in use first; of opportunistic use alone for those, and less guaranteed use then. The file breaks ties. */
static uint64_t cell_key(const struct tree *t, uint32_t cell)
{
    const struct cell *c = &t->s->cells[cell];
    uint32_t first = cell_leaf_first(t->s, cell), leaves = cell_leaf_count(t->s, cell), used;

    used = t->physical ? c->used_o : c->used_g;
    for (uint32_t i = 0; i < leaves; i++)
        used += t->s->tree_taken[(first + i) / 64] >> ((first + i) % 64) & 1;
    return (uint64_t)(leaves - (used < leaves ? used : leaves)) << 32 | (t->physical ? c->used_g : 0);
}

struct best {
    uint64_t key;
    uint32_t cell;
};

static void best_offer(const struct tree *t, uint32_t cell, const struct best *last, struct best *best)
{
    uint64_t key = cell_key(t, cell);

    if (last->cell != CELL_NONE && (key < last->key || (key == last->key && cell <= last->cell)))
        return;
    if (best->cell == CELL_NONE || key < best->key || (key == best->key && cell < best->cell))
        *best = (struct best){ key, cell };
}

/* The next cell of a level, in order, inside `around` or, with CELL_NONE, anywhere; with `view`, cells below the level
 * that have nothing above them count as well. */
static struct best next_cell(const struct tree *t, uint32_t around, uint32_t level, bool view, struct best last)
{
    const struct cells *s = t->s;
    struct best best = { 0, CELL_NONE };
    uint32_t count, first;

    for (uint32_t k = t->roots; k != CELL_NONE; k = t->physical ? CELL_NONE : s->forests[k].grant_next) {
        const struct forest *f = &s->forests[k];

        for (uint32_t i = 0; i < f->count && around == CELL_NONE; i++) {
            uint32_t root = f->base[f->top] + i;

            if (f->top < level && view)
                best_offer(t, root, &last, &best);
            if (f->top < level)
                continue;
            first = inside(t, root, level, &count);
            for (uint32_t j = 0; j < count; j++)
                best_offer(t, first + j, &last, &best);
        }
        if (s->forests[k].pin != CELL_NONE)
            break;
    }
    if (around == CELL_NONE)
        return best;
    if (s->cells[around].level < level) {
        if (view)
            best_offer(t, around, &last, &best);
        return best;
    }
    first = inside(t, around, level, &count);
    for (uint32_t j = 0; j < count; j++)
        best_offer(t, first + j, &last, &best);
    return best;
}

static void cell_take(struct tree *t, uint32_t cell)
{
    struct cells *s = t->s;
    uint32_t first = cell_leaf_first(s, cell), count = cell_leaf_count(s, cell);

    for (uint32_t i = 0; i < count; i++) {
        s->tree_taken[(first + i) / 64] |= (uint64_t)1 << ((first + i) % 64);
        s->mapped[t->picked++] = first + i; /* in the order of the search; not needed for mapping yet */
    }
}

/* Back to what was given away before. */
static void tree_undo(struct tree *t, uint32_t pods, uint32_t picked)
{
    struct cells *s = t->s;

    while (t->picked > picked) {
        uint32_t leaf = s->mapped[--t->picked];

        s->tree_taken[leaf / 64] &= ~((uint64_t)1 << (leaf % 64));
    }
    s->pod_count = pods;
}

/* Whole cells on one node: down into the child with most use that has enough of them, and there the first. */
static bool pod_take(struct tree *t, uint32_t node, uint32_t group, bool idle)
{
    const struct cell_pod_group *g = &t->request->tree[group];
    struct cells *s = t->s;
    uint32_t level = type_level(t->chain, g->cell_type), cell = node, count, first, left = g->cells;

    if (s->cells[node].level < level || open_count(t, node, level, idle) < g->cells)
        return false;
    while (s->cells[cell].level > level) {
        struct best best = { 0, CELL_NONE }, none = { 0, CELL_NONE };
        uint32_t child = cell_child(s, cell);

        for (uint32_t i = 0; i < cell_fanout(s, cell); i++)
            if (open_count(t, child + i, level, idle) >= g->cells)
                best_offer(t, child + i, &none, &best);
        if (best.cell == CELL_NONE)
            break;
        cell = best.cell;
    }
    first = inside(t, cell, level, &count);
    s->pods[s->pod_count++] = (struct pod_pick){ .size = group_size(t, group), .first = t->picked, .view_node = group };
    for (uint32_t i = 0; i < count && left > 0; i++) {
        if (!cell_open(t, first + i, idle))
            continue;
        cell_take(t, first + i);
        left--;
    }
    return true;
}

/* The pods of a group, one after the other, inside a cell or anywhere. */
static bool pods_take(struct tree *t, uint32_t group, uint32_t around)
{
    for (uint32_t i = 0; i < t->request->tree[group].pods; i++) {
        struct best at = { 0, CELL_NONE };
        bool done = false;

        while (!done && (at = next_cell(t, around, t->chain->node_level, true, at)).cell != CELL_NONE)
            done = pod_take(t, at.cell, group, true) || (t->priority >= 0 && pod_take(t, at.cell, group, false));
        if (!done)
            return false;
    }
    return true;
}

static bool group_take(struct tree *t, uint32_t group, uint32_t around);

/* Its pods and its groups, more devices first; pods before a group of as many. */
static bool group_fill(struct tree *t, uint32_t group, uint32_t around)
{
    uint64_t own = (uint64_t)group_size(t, group) * t->request->tree[group].pods, last = UINT64_MAX;
    uint32_t last_group = 0;
    bool filled = own == 0;

    for (;;) {
        uint64_t most = 0;
        uint32_t next = CELL_NONE;

        for (uint32_t i = group + 1; i < t->request->tree_count; i++) {
            uint64_t total = t->request->tree[i].parent == group ? group_total(t, i) : 0;

            if (total == 0 || total > last || (total == last && i <= last_group))
                continue;
            if (next == CELL_NONE || total > most) {
                most = total;
                next = i;
            }
        }
        if (!filled && own >= most) {
            filled = true;
            if (!pods_take(t, group, around))
                return false;
            continue;
        }
        if (next == CELL_NONE)
            return true;
        if (!group_take(t, next, around))
            return false;
        last = most;
        last_group = next;
    }
}

static bool group_take(struct tree *t, uint32_t group, uint32_t around)
{
    uint32_t within = t->request->tree[group].within, level;
    struct best at = { 0, CELL_NONE };
    uint32_t pods = t->s->pod_count, picked = t->picked;

    if (within == CELL_NONE)
        return group_fill(t, group, around);
    level = type_level(t->chain, within);
    while ((at = next_cell(t, around, level, false, at)).cell != CELL_NONE) {
        if (t->chain->leaves[level] >= group_total(t, group) && group_fill(t, group, at.cell))
            return true;
        tree_undo(t, pods, picked);
    }
    return false;
}

/* Sizes ascending, and the order of the tree among equals; devices into s->picked. */
static void pods_order(struct tree *t)
{
    struct cells *s = t->s;
    uint32_t count = s->pod_count;

    s->picked_count = 0;
    for (uint32_t i = 1; i < count; i++) { /* stable */
        struct pod_pick pod = s->pods[i];
        uint32_t at = i;

        while (at > 0 && (s->pods[at - 1].size > pod.size ||
                          (s->pods[at - 1].size == pod.size && s->pods[at - 1].view_node > pod.view_node))) {
            s->pods[at] = s->pods[at - 1];
            at--;
        }
        s->pods[at] = pod;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = s->pods[i].first;

        s->pods[i].first = s->picked_count;
        for (uint32_t k = 0; k < s->pods[i].size; k++)
            s->picked[s->picked_count++] = s->mapped[from + k];
    }
}

enum cell_reason tree_pick(struct cells *s, uint32_t chain, const struct cell_request *r)
{
    struct tree t = { .s = s, .request = r, .chain = &s->chains[chain], .physical = r->priority < 0 };
    uint32_t total = s->pod_count;
    bool found = false;

    t.roots = t.physical ? chain : s->vc_forest[(size_t)r->vc * s->chain_count + chain];
    if (r->pin != CELL_NONE)
        t.roots = r->pin;
    for (int attempt = 0; attempt < (r->priority < 0 ? 1 : 2) && !found; attempt++) {
        t.priority = attempt ? r->priority : CELL_PRIORITY_OPP;
        s->pod_count = 0;
        found = group_take(&t, 0, CELL_NONE);
        if (found)
            pods_order(&t);
        tree_undo(&t, total, 0);
    }
    return found ? CELL_OK : CELL_NO_CAPACITY;
}
