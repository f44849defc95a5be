/* SPDX-License-Identifier: Apache-2.0 */
/* map.c - physical devices for the virtual ones a gang was given.
 *
 * A virtual device that is bound keeps its physical one. The others hang on paths of unbound virtual cells: below a
 * bound cell they are matched with children of its physical cell; from an unbound granted cell on, the buddy allocator
 * finds a physical cell, splitting the smallest free one that has a place. When all of those are broken or not wanted,
 * a larger one may be split as long as every grant can still be carved out of the rest.
 *
 * So is one when the smallest free cells are in opportunistic use and a larger one is idle: better split than evict.
 *
 * Siblings are matched in order, each with the first cell that has a place for its tree, going back when a later one
 * finds nothing. Their trees are alike but for broken parts, so that is rare; a search that takes too long gives way to
 * first come, first served with one exchange. Free lists are changed while trying and restored at the end; nothing is
 * bound here.
 */
#include "cell/parts.h"

enum { TRIES_MAX = 1 << 16, SEARCH_MAX = 512 }; /* siblings that a search goes through: it is recursive */

struct mapper {
    struct cells *s;
    struct chain *chain;
    const struct cell_request *request;
    int64_t vc_free[CELL_LEVELS_MAX + 1];
    uint32_t tries; /* that a search among siblings has left */
};

static bool cell_suggested(const struct mapper *m, uint32_t phys)
{
    const struct cells *s = m->s;
    const struct cell *c = &s->cells[phys];
    const struct forest *f = &s->forests[c->forest];
    uint32_t per = m->chain->leaves[m->chain->node_level], first, count;

    if (m->request->ignore_suggested || !m->request->suggested)
        return true;
    first = f->node_base + (cell_leaf_first(s, phys) - f->base[1]) / per;
    count = (cell_leaf_count(s, phys) + per - 1) / per;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = s->node_of[first + i];

        if (m->request->suggested[node / 64] >> (node % 64) & 1)
            return true;
    }
    return false;
}

static bool cell_taken(const struct cells *s, uint32_t phys)
{
    uint32_t v = s->vertex_of[phys];

    return v < s->vertex_count && s->vertices[v].phys == phys;
}

static bool cell_usable(const struct mapper *m, uint32_t phys)
{
    const struct cell *c = &m->s->cells[phys];

    if (c->peer != CELL_NONE || (c->bad && c->level <= m->chain->node_level))
        return false;
    return !cell_taken(m->s, phys) && cell_suggested(m, phys);
}

/* Usable children, those with fewer opportunistic devices first; equals as in the file. Returns how many were put on
 * the stack. */
static uint32_t children_sorted(struct mapper *m, uint32_t phys)
{
    struct cells *s = m->s;
    uint32_t first = cell_child(s, phys), fanout = cell_fanout(s, phys), count = 0;
    uint32_t *list = s->stack + s->stack_count;

    assert(s->stack_count + 2 * fanout <= s->stack_size);
    for (uint32_t i = 0; i < fanout; i++) {
        uint32_t child = first + i, at = count, used = s->cells[child].used_o;

        if (!cell_usable(m, child))
            continue;
        while (at > 0 && s->cells[list[at - 1]].used_o > used) {
            list[at] = list[at - 1];
            at--;
        }
        list[at] = child;
        count++;
    }
    s->stack_count += count;
    return count;
}

static bool vertex_map(struct mapper *m, uint32_t v, uint32_t phys);

static void vertex_unmap(struct cells *s, uint32_t v)
{
    s->vertices[v].phys = CELL_NONE;
    for (uint32_t k = s->vertices[v].child_first; k != CELL_NONE; k = s->vertices[k].next)
        if (s->vertices[k].phys != CELL_NONE)
            vertex_unmap(s, k);
}

static bool vertex_try(struct mapper *m, uint32_t v, const uint32_t *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!cell_taken(m->s, list[i]) && vertex_map(m, v, list[i]))
            return true;
    return false;
}

/* The vertex takes a sibling's cell, and the sibling another one. */
static bool vertex_exchange(struct mapper *m, uint32_t v, const uint32_t *list, uint32_t count)
{
    struct cells *s = m->s;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = s->vertex_of[list[i]];

        if (!cell_taken(s, list[i]))
            continue;
        vertex_unmap(s, other);
        if (vertex_map(m, v, list[i])) {
            if (vertex_try(m, other, list, count))
                return true;
            vertex_unmap(s, v);
        }
        if (!vertex_map(m, other, list[i]))
            return false;
    }
    return false;
}

/* The vertex and its later siblings, the first assignment in order. */
static bool siblings_search(struct mapper *m, uint32_t v, const uint32_t *list, uint32_t count)
{
    struct cells *s = m->s;

    if (v == CELL_NONE)
        return true;
    for (uint32_t i = 0; i < count && m->tries > 0; i++) {
        if (cell_taken(s, list[i]))
            continue;
        m->tries--;
        if (!vertex_map(m, v, list[i]))
            continue;
        if (siblings_search(m, s->vertices[v].next, list, count))
            return true;
        vertex_unmap(s, v);
    }
    return false;
}

/* Gives the vertices of a sibling list, all below one bound or chosen cell, children of that cell. */
static bool siblings_map(struct mapper *m, uint32_t first, uint32_t phys)
{
    struct cells *s = m->s;
    uint32_t mark = s->stack_count, count = children_sorted(m, phys);
    const uint32_t *list = s->stack + mark;
    uint32_t wanted = 0;
    bool ok;

    for (uint32_t v = first; v != CELL_NONE; v = s->vertices[v].next)
        wanted++;
    ok = wanted <= count && wanted <= SEARCH_MAX && siblings_search(m, first, list, count);
    if (ok || wanted > count || (wanted <= SEARCH_MAX && m->tries > 0)) {
        s->stack_count = mark;
        return ok;
    }
    ok = true;
    for (uint32_t v = first; ok && v != CELL_NONE; v = s->vertices[v].next)
        ok = vertex_try(m, v, list, count) || vertex_exchange(m, v, list, count);
    for (uint32_t v = first; !ok && v != CELL_NONE; v = s->vertices[v].next)
        if (s->vertices[v].phys != CELL_NONE)
            vertex_unmap(s, v);
    s->stack_count = mark;
    return ok;
}

static bool vertex_map(struct mapper *m, uint32_t v, uint32_t phys)
{
    struct cells *s = m->s;

    s->vertices[v].phys = phys;
    s->vertex_of[phys] = v;
    if (s->vertices[v].child_first == CELL_NONE || siblings_map(m, s->vertices[v].child_first, phys))
        return true;
    s->vertices[v].phys = CELL_NONE;
    return false;
}

/* Finds a place for the vertex inside a free cell that is as large or larger. */
static bool vertex_descend(struct mapper *m, uint32_t v, uint32_t phys)
{
    struct cells *s = m->s;
    uint32_t mark = s->stack_count, count;
    bool ok = false;

    if (s->cells[phys].level == s->cells[s->vertices[v].cell].level)
        return vertex_map(m, v, phys);
    count = children_sorted(m, phys);
    for (uint32_t i = 0; !ok && i < count; i++)
        ok = vertex_descend(m, v, s->stack[mark + i]);
    s->stack_count = mark;
    return ok;
}

static void list_change(struct cells *s, uint32_t cell, bool add)
{
    assert(s->undo_count < s->undo_max);
    s->undo[s->undo_count++] = (struct undo){ cell & INT32_MAX, add, s->bag_at ? s->bag_at[cell] : 0 };
    if (add)
        pool_list_add(s, cell);
    else
        pool_list_remove(s, cell);
}

/* The lists as they will be when the cell is gone: what holds it is split. */
static void lists_take(struct mapper *m, uint32_t phys)
{
    struct cells *s = m->s;
    uint32_t from = pool_free_ancestor(s, phys), cell = phys;

    list_change(s, from, false);
    while (cell != from) {
        uint32_t parent = s->cells[cell].parent, first = cell_child(s, parent);

        for (uint32_t i = 0; i < cell_fanout(s, parent); i++)
            list_change(s, first + i, true);
        list_change(s, cell, false);
        cell = parent;
    }
    m->vc_free[s->cells[phys].level]--;
}

/* Tries the usable cells of a free list: fewest opportunistic devices first, then the order of the list. */
static bool list_try(struct mapper *m, uint32_t v, uint32_t level)
{
    struct cells *s = m->s;
    uint64_t last = 0;

    for (;;) {
        uint64_t best = UINT64_MAX;
        uint32_t cell, found = CELL_NONE;

        for (uint32_t i = 0; (cell = pool_list_next(s, m->chain, level, &i)) != CELL_NONE; i++) {
            uint64_t key = ((uint64_t)s->cells[cell].used_o << 32 | i) + 1;

            if (key > last && key < best && cell_usable(m, cell)) {
                best = key;
                found = cell;
                if (key >> 32 == 0 || (last && key >> 32 == last >> 32))
                    break; /* no later one can come before it */
            }
        }
        if (found == CELL_NONE)
            return false;
        if (vertex_descend(m, v, found))
            return true;
        last = best;
    }
}

/* The cells of level w inside one free cell, by opportunistic use. */
static bool relaxed_try(struct mapper *m, uint32_t v, uint32_t phys)
{
    struct cells *s = m->s;
    const struct cell *c = &s->cells[phys];
    uint32_t w = s->cells[s->vertices[v].cell].level, ratio = m->chain->leaves[c->level] / m->chain->leaves[w];
    uint32_t first = s->forests[c->forest].base[w] + cell_position(s, phys) * ratio;
    uint64_t last = 0;

    for (;;) {
        uint64_t best = UINT64_MAX;

        for (uint32_t i = 0; i < ratio; i++) {
            uint64_t key = ((uint64_t)s->cells[first + i].used_o << 32 | i) + 1;

            if (key > last && key < best && cell_usable(m, first + i))
                best = key;
        }
        if (best == UINT64_MAX)
            return false;
        if (vertex_map(m, v, first + (uint32_t)(best - 1)))
            return true;
        last = best;
    }
}

/* Would somebody opportunistic have to go? */
static bool vertex_evicts(const struct cells *s, uint32_t v)
{
    const struct vertex *x = &s->vertices[v];

    if (x->child_first == CELL_NONE)
        return s->cells[x->phys].used_o > 0;
    if (s->cells[x->phys].used_o == 0)
        return false;
    for (uint32_t k = x->child_first; k != CELL_NONE; k = s->vertices[k].next)
        if (vertex_evicts(s, k))
            return true;
    return false;
}

/* How many larger cells each level can lose while every grant can still be carved out of the rest; one is lost at
 * every level that is split through, so no level can lose more than one below it. */
static void spare_count(const struct mapper *m, uint32_t w, int64_t spare[CELL_LEVELS_MAX + 2])
{
    const struct chain *c = m->chain;

    spare[c->levels + 1] = 0;
    for (uint32_t level = c->levels; level > w; level--) {
        spare[level] = c->free_count[level] - m->vc_free[level];
        if (level < c->levels)
            spare[level] += spare[level + 1] * c->fanout[level + 1];
    }
    for (uint32_t level = w + 2; level <= c->levels; level++)
        spare[level] = spare[level - 1] < spare[level] ? spare[level - 1] : spare[level];
}

/* The next best cell of level w inside the first `number` free cells of a level: by opportunistic use, then as in the
 * list. `last` is the key of the one before, 0 at first; the cell, or CELL_NONE behind the last. */
static uint32_t inside_next(const struct mapper *m, uint32_t level, int64_t number, uint32_t w, uint64_t *last)
{
    const struct cells *s = m->s;
    const struct chain *c = m->chain;
    uint32_t base = s->forests[c - s->chains].base[w], ratio = c->leaves[level] / c->leaves[w], cell, found = CELL_NONE;
    uint64_t best = UINT64_MAX;

    for (uint32_t i = 0; number > 0 && (cell = pool_list_next(s, c, level, &i)) != CELL_NONE; i++, number--) {
        uint32_t first = base + cell_position(s, cell) * ratio;

        for (uint32_t k = 0; k < ratio; k++) {
            uint64_t key = ((uint64_t)s->cells[first + k].used_o << 32 | ((uint64_t)i * ratio + k)) + 1;

            if (key > *last && key < best && cell_usable(m, first + k)) {
                best = key;
                found = first + k;
            }
        }
    }
    *last = best;
    return found;
}

/* Splits a larger cell than needed when nobody's grant needs it whole. */
static bool relaxed_map(struct mapper *m, uint32_t v)
{
    struct cells *s = m->s;
    uint32_t w = s->cells[s->vertices[v].cell].level, cell;
    int64_t spare[CELL_LEVELS_MAX + 2];

    spare_count(m, w, spare);
    for (uint32_t level = w + 1; level <= m->chain->levels; level++)
        for (uint64_t key = 0; (cell = inside_next(m, level, spare[level], w, &key)) != CELL_NONE;)
            if (vertex_map(m, v, cell))
                return true;
    return false;
}

/* The same where nobody has to go, from the end of the file: opportunistic gangs begin with its first cells. */
static bool idle_map(struct mapper *m, uint32_t v)
{
    struct cells *s = m->s;
    const struct chain *c = m->chain;
    uint32_t w = s->cells[s->vertices[v].cell].level, base;
    int64_t spare[CELL_LEVELS_MAX + 2];

    spare_count(m, w, spare);
    for (uint32_t level = w + 1; level <= c->levels; level++) {
        base = s->forests[c - s->chains].base[level];
        for (uint32_t i = c->free[level].size; spare[level] > 0 && i-- > 0;) {
            if (!bits_has(&c->free[level], i) || s->cells[base + i].used_o > 0 || !relaxed_try(m, v, base + i))
                continue;
            if (!vertex_evicts(s, v))
                return true;
            vertex_unmap(s, v);
        }
    }
    return false;
}

static bool preassigned_map(struct mapper *m, uint32_t v)
{
    struct cells *s = m->s;
    uint32_t level = s->cells[s->vertices[v].cell].level, phys;

    while (level <= m->chain->levels && m->chain->free_count[level] == 0)
        level++;
    if (level > m->chain->levels)
        return false;
    if (!list_try(m, v, level)) {
        if (!relaxed_map(m, v))
            return false;
    } else if (!s->exact && vertex_evicts(s, v)) {
        phys = s->vertices[v].phys;
        vertex_unmap(s, v);
        if (!idle_map(m, v) && !vertex_map(m, v, phys))
            return false;
    }
    lists_take(m, s->vertices[v].phys);
    return true;
}

static uint32_t vertex_add(struct cells *s, uint32_t cell)
{
    uint32_t v = s->vertex_count++;

    s->vertices[v] = (struct vertex){ cell, CELL_NONE, CELL_NONE, CELL_NONE, CELL_NONE };
    s->vertex_of[cell] = v;
    return v;
}

static bool vertex_exists(const struct cells *s, uint32_t cell)
{
    uint32_t v = s->vertex_of[cell];

    return v < s->vertex_count && s->vertices[v].cell == cell;
}

static void vertex_append(struct cells *s, uint32_t *first, uint32_t *last, uint32_t v)
{
    if (*first == CELL_NONE)
        *first = v;
    else
        s->vertices[*last].next = v;
    *last = v;
}

/* Hangs an unbound virtual device, and what is unbound above it, into the forest of vertices. A bound cell above
 * becomes a root that has its physical cell already. */
static void path_add(struct cells *s, uint32_t leaf)
{
    uint32_t v = vertex_add(s, leaf), cell = leaf;

    while (s->cells[cell].parent != CELL_NONE) {
        uint32_t parent = s->cells[cell].parent;
        bool known = vertex_exists(s, parent);
        uint32_t p = known ? s->vertex_of[parent] : vertex_add(s, parent);

        vertex_append(s, &s->vertices[p].child_first, &s->vertices[p].child_last, v);
        if (known)
            return;
        cell = parent;
        v = p;
        if (s->cells[cell].peer != CELL_NONE)
            break;
    }
    s->roots[s->root_count++] = v;
}

bool map_gang(struct cells *s, uint32_t chain, const struct cell_request *r)
{
    struct mapper m = { .s = s, .chain = &s->chains[chain], .request = r, .tries = TRIES_MAX };
    bool ok = true;

    s->vertex_count = s->root_count = s->stack_count = s->undo_count = 0;
    for (uint32_t level = 1; level <= m.chain->levels; level++)
        m.vc_free[level] = m.chain->vc_free[level];
    for (uint32_t i = 0; i < s->picked_count; i++)
        if (s->cells[s->picked[i]].peer == CELL_NONE)
            path_add(s, s->picked[i]);
    for (uint32_t i = 0; ok && i < s->root_count; i++)
        if (s->cells[s->vertices[s->roots[i]].cell].peer == CELL_NONE)
            ok = preassigned_map(&m, s->roots[i]);
    for (uint32_t i = 0; ok && i < s->root_count; i++) {
        const struct vertex *root = &s->vertices[s->roots[i]];

        if (s->cells[root->cell].peer != CELL_NONE)
            ok = siblings_map(&m, root->child_first, s->cells[root->cell].peer);
    }
    for (uint32_t i = 0; ok && i < s->picked_count; i++) {
        uint32_t leaf = s->picked[i];

        s->mapped[i] = s->cells[leaf].peer != CELL_NONE ? s->cells[leaf].peer : s->vertices[s->vertex_of[leaf]].phys;
    }
    while (s->undo_count > 0) {
        const struct undo *u = &s->undo[--s->undo_count];

        if (u->added)
            pool_list_remove(s, u->cell);
        else
            pool_list_put(s, u->cell, u->at);
    }
    return ok;
}
