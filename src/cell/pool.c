/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - the buddy allocator's free lists: splitting and merging of physical cells, and what they could still give.
 *
 * total_left[l] counts the cells of a level that are free or could be split off a free one; bad_free[l] those of them
 * that are broken. Opportunistic use is of no concern here.
 *
 * Free cells are in the order of the file. HiveD keeps them in bags: new ones at the end, the last one in the place of
 * one that goes. Its recorded answers need that order, so it is kept beside the other on demand.
 */
#include "cell/parts.h"

static struct chain *chain_at(struct cells *s, uint32_t cell)
{
    return &s->chains[s->forests[s->cells[cell].forest].chain];
}

void pool_list_add(struct cells *s, uint32_t cell)
{
    struct chain *c = chain_at(s, cell);
    uint32_t level = s->cells[cell].level, parent = s->cells[cell].parent;

    assert(!(s->cells[cell].flags & CELL_IN_FREE));
    s->cells[cell].flags |= CELL_IN_FREE;
    bits_set(&c->free[level], cell_position(s, cell));
    if (s->bag_at) {
        c->bag[level][c->free_count[level]] = cell;
        s->bag_at[cell] = c->free_count[level];
    }
    c->free_count[level]++;
    if (parent != CELL_NONE)
        s->cells[parent].kids_free++;
}

void pool_list_remove(struct cells *s, uint32_t cell)
{
    struct chain *c = chain_at(s, cell);
    uint32_t level = s->cells[cell].level, parent = s->cells[cell].parent;

    assert(s->cells[cell].flags & CELL_IN_FREE);
    s->cells[cell].flags &= (uint8_t)~CELL_IN_FREE;
    bits_clear(&c->free[level], cell_position(s, cell));
    c->free_count[level]--;
    if (s->bag_at) {
        uint32_t last = c->bag[level][c->free_count[level]];

        c->bag[level][s->bag_at[cell]] = last;
        s->bag_at[last] = s->bag_at[cell];
    }
    if (parent != CELL_NONE)
        s->cells[parent].kids_free--;
}

void pool_list_put(struct cells *s, uint32_t cell, uint32_t at)
{
    struct chain *c = chain_at(s, cell);
    uint32_t level = s->cells[cell].level, end = c->free_count[level], moved;

    pool_list_add(s, cell);
    if (!s->bag_at || at == end)
        return;
    moved = c->bag[level][at];
    c->bag[level][end] = moved;
    s->bag_at[moved] = end;
    c->bag[level][at] = cell;
    s->bag_at[cell] = at;
}

/* The free cell of that number in the list, or the first one behind; CELL_NONE: no more. */
uint32_t pool_list_next(const struct cells *s, const struct chain *c, uint32_t level, uint32_t *number)
{
    if (s->bag_at)
        return *number < c->free_count[level] ? c->bag[level][*number] : CELL_NONE;
    *number = bits_next(&c->free[level], *number);
    return *number == BITS_NONE ? CELL_NONE : s->forests[c - s->chains].base[level] + *number;
}

uint32_t pool_free_ancestor(const struct cells *s, uint32_t cell)
{
    while (cell != CELL_NONE && !(s->cells[cell].flags & CELL_IN_FREE))
        cell = s->cells[cell].parent;
    return cell;
}

/* Adds the broken cells at and below this one to the count of those that are free, or subtracts them. */
void pool_bad_count(struct cells *s, uint32_t cell, int sign)
{
    struct chain *c = chain_at(s, cell);

    if (s->cells[cell].bad == 0)
        return;
    c->bad_free[s->cells[cell].level] += sign;
    if (s->cells[cell].level > 1)
        for (uint32_t i = 0; i < cell_fanout(s, cell); i++)
            pool_bad_count(s, cell_child(s, cell) + i, sign);
}

static void left_change(struct cells *s, uint32_t cell, int sign)
{
    struct chain *c = chain_at(s, cell);
    uint32_t level = s->cells[cell].level;

    for (uint32_t l = 1; l <= level; l++)
        c->total_left[l] += sign * (int64_t)(c->leaves[level] / c->leaves[l]);
    pool_bad_count(s, cell, sign);
    c->unsettled = true;
}

static void split_change(struct cells *s, uint32_t parent, int sign)
{
    struct chain *c = chain_at(s, parent);

    c->total_left[s->cells[parent].level] += sign;
    if (s->cells[parent].bad)
        c->bad_free[s->cells[parent].level] += sign;
    if (sign < 0)
        s->cells[parent].flags |= CELL_SPLIT;
    else
        s->cells[parent].flags &= (uint8_t)~CELL_SPLIT;
}

void pool_take(struct cells *s, uint32_t cell)
{
    uint32_t from = pool_free_ancestor(s, cell);

    assert(from != CELL_NONE);
    pool_list_remove(s, from);
    left_change(s, cell, -1);
    while (cell != from) {
        uint32_t parent = s->cells[cell].parent, first = cell_child(s, parent);

        split_change(s, parent, -1);
        for (uint32_t i = 0; i < cell_fanout(s, parent); i++)
            pool_list_add(s, first + i);
        pool_list_remove(s, cell);
        cell = parent;
    }
}

void pool_give(struct cells *s, uint32_t cell)
{
    left_change(s, cell, 1);
    for (;;) {
        uint32_t parent = s->cells[cell].parent, first;

        if (parent == CELL_NONE || s->cells[parent].kids_free + 1 < cell_fanout(s, parent))
            break;
        first = cell_child(s, parent);
        for (uint32_t i = 0; i < cell_fanout(s, parent); i++)
            if (first + i != cell)
                pool_list_remove(s, first + i);
        split_change(s, parent, 1);
        cell = parent;
    }
    pool_list_add(s, cell);
}

/* Can all granted and unbound cells be carved out of the free ones at the same time? */
bool pool_safe(const struct chain *c)
{
    int64_t spare = 0;

    for (uint32_t level = c->levels; level > 0; level--) {
        spare = (level < c->levels ? spare * c->fanout[level + 1] : 0) + c->free_count[level] - c->vc_free[level];
        if (spare < 0)
            return false;
    }
    return true;
}
