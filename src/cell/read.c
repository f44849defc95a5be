/* SPDX-License-Identifier: Apache-2.0 */
/* read.c - looking into the allocator: names, addresses, one cell at a time. */
#include <string.h>

#include "cell/parts.h"

uint32_t cells_node_of(const struct cells *s, uint32_t cell)
{
    const struct forest *f = &s->forests[s->cells[cell].forest];
    const struct chain *c = &s->chains[f->chain];

    return s->node_of[f->node_base + (cell_leaf_first(s, cell) - f->base[1]) / c->leaves[c->node_level]];
}

uint32_t cells_leaf_total(const struct cells *s)
{
    return s->leaf_count;
}

uint32_t cells_node_count(const struct cells *s)
{
    return s->node_count;
}

/* Nodes the configuration does not have are numbered behind the others, by name. */
const char *cells_node_name(const struct cells *s, uint32_t node)
{
    return names_get(&s->names, node < s->node_count ? s->nodes[node].name : node - s->node_count);
}

uint32_t cells_node_find(const struct cells *s, const char *name, size_t length)
{
    uint32_t i = names_find(&s->names, name, length);

    return i < s->node_names ? s->node_number[i] : CELL_NONE;
}

int cells_node_foreign(struct cells *s, const char *name, size_t length, uint32_t *ret_node)
{
    uint32_t i = cells_node_find(s, name, length);
    int r = 0;

    if (i == CELL_NONE) {
        r = names_put(&s->names, name, length, &i);
        i += s->node_count;
    }
    if (r == 0)
        *ret_node = i;
    return r;
}

uint32_t cells_count(const struct cells *s)
{
    return s->cell_count;
}

uint32_t cells_virtual_first(const struct cells *s)
{
    return s->virt_first;
}

const struct names *cells_names(const struct cells *s)
{
    return &s->names;
}

uint32_t cells_type_find(const struct cells *s, const char *name, size_t length)
{
    uint32_t i = names_find(&s->names, name, length);

    for (uint32_t t = 0; i != NAME_NONE && t < s->type_count; t++)
        if (s->types[t].name == i)
            return t;
    return CELL_UNKNOWN;
}

const char *cells_type_name(const struct cells *s, uint32_t type)
{
    return type < s->type_count ? names_get(&s->names, s->types[type].name) : "";
}

uint32_t cells_vc_find(const struct cells *s, const char *name, size_t length)
{
    uint32_t i = names_find(&s->names, name, length);

    for (uint32_t vc = 0; i != NAME_NONE && vc < s->vc_count; vc++)
        if (s->vcs[vc] == i)
            return vc;
    return CELL_UNKNOWN;
}

const char *cells_vc_name(const struct cells *s, uint32_t vc)
{
    return vc < s->vc_count ? names_get(&s->names, s->vcs[vc]) : "";
}

uint32_t cells_vc_count(const struct cells *s)
{
    return s->vc_count;
}

uint32_t cells_pin_find(const struct cells *s, uint32_t vc, const char *name, size_t length)
{
    uint32_t i = names_find(&s->names, name, length);

    for (uint32_t f = s->chain_count; i != NAME_NONE && f < s->forest_count; f++)
        if (s->forests[f].pin == i && s->forests[f].vc == vc)
            return f;
    return CELL_UNKNOWN;
}

/* Used as soon as a device below is; another state only when all have it. */
static enum cell_state state_of(const struct cells *s, uint32_t cell, int32_t *ret_priority)
{
    uint32_t first = cell_leaf_first(s, cell), count = cell_leaf_count(s, cell), seen[CELL_STATES] = { 0 };

    *ret_priority = CELL_PRIORITY_FREE;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t phys = cell_is_virtual(s, cell) ? s->cells[first + i].peer : first + i;
        bool hidden = cell_is_virtual(s, cell) && s->prio[first + i] < 0; /* opportunistic use is not the VC's */

        seen[phys == CELL_NONE || hidden ? CELL_FREE : leaf_of(s, phys)->state]++;
        if (s->prio[first + i] > *ret_priority)
            *ret_priority = s->prio[first + i];
    }
    if (seen[CELL_USED])
        return CELL_USED;
    for (int state = CELL_FREE; state < CELL_STATES; state++)
        if (seen[state] == count)
            return (enum cell_state)state;
    return seen[CELL_RESERVING] ? CELL_RESERVING : CELL_FREE;
}

void cells_get(const struct cells *s, uint32_t cell, struct cell_info *ret_info)
{
    const struct cell *c = &s->cells[cell];
    const struct forest *f = &s->forests[c->forest];
    const struct chain *chain = &s->chains[f->chain];
    bool is_virtual = cell_is_virtual(s, cell);
    uint32_t phys = is_virtual ? c->peer : cell, virt = is_virtual ? cell : c->peer;
    struct cell_info *o = ret_info;

    *o = (struct cell_info){ .type = chain->type_at[c->level],
                             .chain = chain->type,
                             .level = c->level,
                             .parent = c->parent,
                             .child_first = c->level > 1 ? cell_child(s, cell) : CELL_NONE,
                             .child_count = c->level > 1 ? chain->fanout[c->level] : 0,
                             .peer = c->peer,
                             .vc = virt == CELL_NONE ? CELL_NONE : s->forests[s->cells[virt].forest].vc,
                             .node = CELL_NONE,
                             .leaves = chain->leaves[c->level],
                             .used_guaranteed = c->used_g,
                             .used_opportunistic = c->used_o,
                             .index = -1,
                             .is_virtual = is_virtual,
                             .preassigned = is_virtual && c->parent == CELL_NONE,
                             .pinned = c->flags & CELL_PINNED,
                             .doomed = c->flags & CELL_DOOMED,
                             .free = !is_virtual && pool_free_ancestor(s, cell) != CELL_NONE,
                             .split = c->flags & CELL_SPLIT,
                             .healthy = phys == CELL_NONE || s->cells[phys].bad == 0 };
    o->state = state_of(s, cell, &o->priority);
    if (phys != CELL_NONE && c->level <= chain->node_level)
        o->node = cells_node_of(s, phys);
    if (!is_virtual && c->level == 1) {
        o->index = leaf_of(s, cell)->index;
        if (leaf_of(s, cell)->user != CELL_NONE && leaf_of(s, cell)->user != CELL_LENT)
            o->user = s->groups[leaf_of(s, cell)->user].id;
    }
}

static size_t text_put(char *text, size_t size, size_t at, const char *words)
{
    size_t length = strlen(words);

    for (size_t i = 0; i < length && at + 1 < size; i++)
        text[at++] = words[i];
    text[at] = '\0';
    return at;
}

static size_t number_put(char *text, size_t size, size_t at, uint32_t number)
{
    char digits[16];
    size_t i = sizeof(digits) - 1;

    digits[i] = '\0';
    do
        digits[--i] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return text_put(text, size, at, digits + i);
}

void cells_address(const struct cells *s, uint32_t cell, char *text, size_t size)
{
    const struct forest *f = &s->forests[s->cells[cell].forest];
    uint32_t path[CELL_LEVELS_MAX], depth = 0, number = 0;
    size_t at = 0;

    for (uint32_t c = cell; c != CELL_NONE; c = s->cells[c].parent)
        path[depth++] = c;
    text[0] = '\0';
    if (cell_is_virtual(s, cell)) {
        at = text_put(text, size, at, names_get(&s->names, s->vcs[f->vc]));
        at = text_put(text, size, at, "/");
    }
    for (uint32_t i = depth; i-- > 0;) {
        at = i + 1 < depth ? text_put(text, size, at, "/") : at;
        if (!cell_is_virtual(s, cell)) {
            at = text_put(text, size, at, names_get(&s->names, s->segment[path[i]]));
            continue;
        }
        /* Numbers go on over a level of the whole root. */
        if (i + 1 == depth) {
            number = 0;
            at = number_put(text, size, at, f->address_base + cell_position(s, path[i]));
            continue;
        }
        number = number * cell_fanout(s, path[i + 1]) + path[i] - cell_child(s, path[i + 1]);
        at = number_put(text, size, at, number);
    }
}
