/* SPDX-License-Identifier: Apache-2.0 */
/* setup.c - the forests, lists and views of a specification; the only place that allocates. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "cell/parts.h"

struct block {
    struct block *next;
    max_align_t data[];
};

static void *grab(struct cells *s, size_t count, size_t size)
{
    struct block *block;
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    block = mem_zalloc(1, sizeof(*block) + bytes);
    if (!block)
        return NULL;
    block->next = s->blocks;
    s->blocks = block;
    s->memory += bytes;
    return block->data;
}

#define GRAB(s, field, count) ((s)->field = grab(s, count, sizeof(*(s)->field)))

void cells_free(struct cells *s)
{
    if (!s)
        return;
    while (s->blocks) {
        struct block *next = s->blocks->next;

        mem_free(s->blocks);
        s->blocks = next;
    }
    names_done(&s->names);
    mem_free(s);
}

size_t cells_memory(const struct cells *s)
{
    return s->memory + sizeof(*s);
}

static uint32_t type_level(const struct cells *s, uint32_t type)
{
    uint32_t level = 1;

    while (s->types[type].child != CELL_NONE && level <= CELL_LEVELS_MAX) {
        type = s->types[type].child;
        level++;
    }
    return level;
}

static int chain_init(struct cells *s, struct chain *c, uint32_t type, struct error *err)
{
    const char *name = names_get(&s->names, s->types[type].name);
    uint64_t leaves = 1;

    c->type = type;
    c->levels = type_level(s, type);
    if (c->levels > CELL_LEVELS_MAX)
        return error_set(err, -E2BIG, "cell type '%s': more than %d levels", name, CELL_LEVELS_MAX);
    for (uint32_t level = c->levels; level > 0; level--, type = s->types[type].child) {
        c->type_at[level] = type;
        c->fanout[level] = level > 1 ? s->types[type].child_count : 0;
        if (s->types[type].node) {
            if (c->node_level)
                return error_set(err, -EINVAL, "cell type '%s': two node levels", name);
            c->node_level = level;
        }
    }
    c->leaf_type = c->type_at[1];
    for (uint32_t level = 1; level <= c->levels; level++) {
        leaves *= level > 1 ? c->fanout[level] : 1;
        if (leaves == 0 || leaves > CELL_PLACES_MAX)
            return error_set(err, -E2BIG, "cell type '%s': too many devices", name);
        c->leaves[level] = (uint32_t)leaves;
    }
    if (!c->node_level)
        return error_set(err, -EINVAL, "cell type '%s': no node level at or below it", name);
    if (c->leaves[c->node_level] > CELL_NODE_LEAVES_MAX)
        return error_set(err, -E2BIG, "cell type '%s': more than %d devices a node", name, CELL_NODE_LEAVES_MAX);
    return 0;
}

static uint32_t chain_find(const struct cells *s, uint32_t type)
{
    for (uint32_t i = 0; i < s->chain_count; i++)
        if (s->chains[i].type == type)
            return i;
    return CELL_NONE;
}

/* The chains, in the order of their first top cells, and how many top cells each has. */
static int chains_find(struct cells *s, const struct cell_spec *spec, struct error *err)
{
    uint32_t account = 0;

    if (!GRAB(s, chains, s->type_count))
        return -ENOMEM;
    if (!GRAB(s, forests, s->type_count + spec->grant_count))
        return -ENOMEM;
    for (size_t i = 0; i < spec->place_count; i++) {
        uint32_t type = spec->places[i].type, chain;
        int r;

        if (spec->places[i].parent != CELL_NONE)
            continue;
        chain = chain_find(s, type);
        if (chain == CELL_NONE) {
            chain = s->chain_count;
            if (chain == CELL_CHAINS_MAX)
                return error_set(err, -E2BIG, "more than %d kinds of top cells", CELL_CHAINS_MAX);
            r = chain_init(s, &s->chains[chain], type, err);
            if (r < 0)
                return r;
            s->chains[chain].account = account;
            account += s->chains[chain].levels;
            s->forests[chain] = (struct forest){ .chain = chain,
                                                 .vc = CELL_NONE,
                                                 .pin = CELL_NONE,
                                                 .grant_next = CELL_NONE,
                                                 .top = s->chains[chain].levels,
                                                 .view = CELL_NONE };
            s->chain_count++;
        }
        s->forests[chain].count++;
    }
    s->account_count = account;
    s->forest_count = s->chain_count;
    return 0;
}

/* Gives every level of a forest its numbers. */
static int forest_number(struct cells *s, struct forest *f, struct error *err)
{
    const struct chain *c = &s->chains[f->chain];

    for (uint32_t level = f->top; level > 0; level--) {
        uint64_t count = (uint64_t)f->count * (c->leaves[f->top] / c->leaves[level]);

        f->base[level] = s->cell_count;
        if (count + s->cell_count > CELL_PLACES_MAX)
            return error_set(err, -E2BIG, "more than %zu cells", CELL_PLACES_MAX);
        s->cell_count += (uint32_t)count;
    }
    return 0;
}

static int grants_number(struct cells *s, const struct cell_spec *spec, struct error *err)
{
    int r = 0;

    s->vc_count = (uint32_t)spec->vc_count;
    if (!GRAB(s, vcs, s->vc_count) || !GRAB(s, accounts, (size_t)s->vc_count * s->account_count) ||
        !GRAB(s, vc_forest, (size_t)s->vc_count * s->chain_count) ||
        !GRAB(s, vc_view, (size_t)s->vc_count * s->chain_count))
        return -ENOMEM;
    for (uint32_t i = 0; i < s->vc_count; i++)
        s->vcs[i] = spec->vcs[i];
    memset(s->vc_forest, 0xff, (size_t)s->vc_count * s->chain_count * sizeof(uint32_t));
    memset(s->vc_view, 0xff, (size_t)s->vc_count * s->chain_count * sizeof(uint32_t));
    for (size_t i = 0; r == 0 && i < spec->grant_count; i++) {
        const struct cell_grant *g = &spec->grants[i];
        struct forest *f = &s->forests[s->forest_count++];
        uint32_t *link;

        *f = (struct forest){ .chain = chain_find(s, g->chain),
                              .vc = g->vc,
                              .pin = g->pin,
                              .grant_next = CELL_NONE,
                              .count = g->count,
                              .top = type_level(s, g->type),
                              .view = CELL_NONE };
        if (f->chain == CELL_NONE)
            return error_set(err, -EINVAL, "virtual cluster '%s': no top cell of type '%s'",
                             names_get(&s->names, s->vcs[g->vc]), names_get(&s->names, s->types[g->chain].name));
        if (f->top > s->chains[f->chain].levels || s->chains[f->chain].type_at[f->top] != g->type)
            return error_set(err, -EINVAL, "virtual cluster '%s': '%s' is not inside '%s'",
                             names_get(&s->names, s->vcs[g->vc]), names_get(&s->names, s->types[g->type].name),
                             names_get(&s->names, s->types[g->chain].name));
        for (uint32_t k = s->chain_count; k < s->forest_count - 1; k++)
            f->address_base += s->forests[k].vc == f->vc ? s->forests[k].count : 0;
        link = &s->vc_forest[(size_t)f->vc * s->chain_count + f->chain];
        while (*link != CELL_NONE)
            link = &s->forests[*link].grant_next;
        if (f->pin == CELL_NONE)
            *link = s->forest_count - 1;
        r = forest_number(s, f, err);
    }
    return r;
}

static void forest_fill(struct cells *s, uint32_t forest)
{
    const struct forest *f = &s->forests[forest];
    const struct chain *c = &s->chains[f->chain];

    for (uint32_t level = f->top; level > 0; level--) {
        uint32_t count = f->count * (c->leaves[f->top] / c->leaves[level]);

        for (uint32_t i = 0; i < count; i++) {
            uint32_t parent = level == f->top ? CELL_NONE : f->base[level + 1] + i / c->fanout[level + 1];

            s->cells[f->base[level] + i] = (struct cell){
                .forest = forest, .parent = parent, .peer = CELL_NONE, .view = CELL_NONE, .level = (uint8_t)level
            };
            s->prio[f->base[level] + i] = CELL_PRIORITY_FREE;
        }
    }
}

/* Addresses, devices and nodes of the physical cells; places come in the order of the cells' positions. */
static int places_fill(struct cells *s, const struct cell_spec *spec, uint32_t *ret_cells, struct error *err)
{
    uint32_t next[CELL_CHAINS_MAX][CELL_LEVELS_MAX + 1];

    memset(next, 0, sizeof(next));
    for (size_t i = 0; i < spec->place_count; i++) {
        const struct cell_place *p = &spec->places[i];
        uint32_t top = p->parent == CELL_NONE ? chain_find(s, p->type) : s->cells[ret_cells[p->parent]].forest;
        uint32_t level = p->parent == CELL_NONE ? s->chains[top].levels : s->cells[ret_cells[p->parent]].level - 1u;
        const struct forest *f = &s->forests[top];
        uint32_t at = next[top][level]++, id = f->base[level] + at;

        ret_cells[i] = id;
        if (s->cells[id].level != level || s->chains[top].type_at[level] != p->type ||
            (p->parent != CELL_NONE && s->cells[id].parent != ret_cells[p->parent]))
            return error_set(err, -EINVAL, "cell %zu of the specification is out of order", i);
        s->segment[id] = p->address;
        if (level == 1)
            leaf_of(s, id)->index = p->index;
        if (level == s->chains[top].node_level) {
            uint32_t *number = &s->node_number[p->address];

            if (*number == CELL_NONE) {
                *number = s->node_count;
                s->nodes[s->node_count++] = (struct node){ .name = p->address, .cell_first = CELL_NONE };
            }
            s->node_of[f->node_base + at] = *number;
            s->node_next[f->node_base + at] = CELL_NONE;
            s->node_cell[f->node_base + at] = id;
            for (uint32_t *link = &s->nodes[*number].cell_first;; link = &s->node_next[*link]) {
                if (*link == CELL_NONE) {
                    *link = f->node_base + at;
                    break;
                }
            }
        }
    }
    return 0;
}

static int lists_init(struct cells *s)
{
    for (uint32_t i = 0; i < s->chain_count; i++) {
        struct chain *c = &s->chains[i];

        for (uint32_t level = 1; level <= c->levels; level++) {
            uint32_t count = s->forests[i].count * (c->leaves[c->levels] / c->leaves[level]);
            void *memory = grab(s, 1, bits_size(count));

            if (!memory)
                return -ENOMEM;
            bits_init(&c->free[level], memory, count);
            if (s->bag_at && !(c->bag[level] = grab(s, count, sizeof(uint32_t))))
                return -ENOMEM;
            c->total_left[level] = count;
        }
        for (uint32_t k = 0; k < s->forests[i].count; k++)
            pool_list_add(s, s->forests[i].base[c->levels] + k);
    }
    for (uint32_t i = s->chain_count; i < s->forest_count; i++) {
        struct forest *f = &s->forests[i];
        struct chain *c = &s->chains[f->chain];
        void *memory = f->pin == CELL_NONE ? grab(s, 1, bits_size(f->count)) : NULL;

        if (f->pin != CELL_NONE)
            continue;
        if (!memory)
            return -ENOMEM;
        bits_init(&f->unbound, memory, f->count);
        for (uint32_t k = 0; k < f->count; k++)
            bits_set(&f->unbound, k);
        account_of(s, f->vc, c, f->top)->free += (int32_t)f->count;
        c->vc_free[f->top] += f->count;
    }
    return 0;
}

/* Node cells of a forest that begins there, and, in a virtual cluster, roots below the node level. */
static uint32_t view_fill(struct cells *s, const struct forest *f, uint32_t level, uint32_t at)
{
    const struct chain *c = &s->chains[f->chain];
    uint32_t count;

    if (f->top < level || (f->top > level && level < c->node_level))
        return at;
    count = f->count * (c->leaves[f->top] / c->leaves[level]);
    for (uint32_t i = 0; i < count; i++) {
        s->cells[f->base[level] + i].view = at;
        s->view_nodes[at++] = (struct view_node){ .cell = f->base[level] + i };
    }
    return at;
}

static int view_init(struct cells *s, uint32_t first, bool physical, uint32_t *at)
{
    const struct forest *head = &s->forests[first];
    struct chain *c = &s->chains[head->chain];
    struct view *v = &s->views[s->view_count];
    uint32_t lists;
    void *memory;

    *v = (struct view){ .first = *at, .chain = head->chain, .physical = physical };
    for (uint32_t level = c->node_level; level > 0; level--)
        for (uint32_t k = first; k != CELL_NONE; k = s->forests[k].grant_next)
            *at = view_fill(s, &s->forests[k], level, *at);
    v->count = *at - v->first;
    v->span = c->leaves[c->node_level] + 1;
    v->classes = physical ? 1 : c->node_level;
    lists = 4 * v->span * (physical ? v->span : v->classes);
    v->head = grab(s, lists, 2 * sizeof(*v->head));
    memory = grab(s, 1, bits_size(lists));
    v->dirty = grab(s, v->count, sizeof(*v->dirty));
    if (!v->head || !memory || !v->dirty)
        return -ENOMEM;
    v->tail = v->head + lists;
    memset(v->head, 0xff, lists * 2 * sizeof(*v->head));
    bits_init(&v->filled, memory, lists);
    view_build(s, v);
    for (uint32_t i = 0; i < v->count; i++)
        assert(s->view_nodes[v->first + i].cell != CELL_NONE);
    s->view_count++;
    return 0;
}

static int views_init(struct cells *s)
{
    uint32_t at = 0;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < s->chain_count; i++) {
        s->chains[i].view = s->view_count;
        r = view_init(s, i, true, &at);
    }
    for (size_t i = 0; r == 0 && i < (size_t)s->vc_count * s->chain_count; i++) {
        if (s->vc_forest[i] == CELL_NONE)
            continue;
        s->vc_view[i] = s->view_count;
        r = view_init(s, s->vc_forest[i], false, &at);
    }
    for (uint32_t i = s->chain_count; r == 0 && i < s->forest_count; i++) {
        if (s->forests[i].pin == CELL_NONE)
            continue;
        s->forests[i].view = s->view_count;
        r = view_init(s, i, false, &at);
    }
    return r;
}

static int scratch_init(struct cells *s, const struct cells_limits *limits)
{
    uint32_t foreign = limits->foreign_leaves ? limits->foreign_leaves : 16 + s->leaf_count / 8;
    uint32_t shares = 2 * s->leaf_count + foreign, slots = shares + s->leaf_count / 4 + 16, hash = 16, node = 1,
             fanout = 1;

    s->group_count = limits->groups ? limits->groups : shares;
    while (hash < 2 * s->group_count)
        hash *= 2;
    for (uint32_t i = 0; i < s->chain_count; i++) {
        const struct chain *c = &s->chains[i];
        uint32_t sum = 0;

        for (uint32_t level = 2; level <= c->levels; level++)
            sum += 2 * c->fanout[level];
        fanout = sum > fanout ? sum : fanout;
        node = c->leaves[c->node_level] > node ? c->leaves[c->node_level] : node;
    }
    s->stack_size = fanout + 2 * s->leaf_count + 64;
    s->undo_max = 2 * s->virt_first + 64;
    s->group_mask = hash - 1;
    if (!GRAB(s, groups, s->group_count) || !GRAB(s, group_hash, hash) || !GRAB(s, slots, slots) ||
        !GRAB(s, shares, shares) || !GRAB(s, vertices, s->cell_count - s->virt_first) ||
        !GRAB(s, vertex_of, s->cell_count) || !GRAB(s, roots, s->leaf_count) || !GRAB(s, stack, s->stack_size) ||
        !GRAB(s, picked, s->leaf_count) || !GRAB(s, noted, s->leaf_count) || !GRAB(s, mapped, s->leaf_count) ||
        !GRAB(s, candidates, node) || !GRAB(s, tree_taken, s->cell_count / 64 + 1) || !GRAB(s, counts, 2 * node) ||
        !GRAB(s, pods, s->leaf_count) || !GRAB(s, undo, s->undo_max) || !GRAB(s, lazy_done, s->leaf_count) ||
        !GRAB(s, settle, s->virt_first) || !GRAB(s, victims, shares) || !GRAB(s, out_pods, shares) ||
        !GRAB(s, members, CELL_MEMBERS_MAX) || !GRAB(s, out_leaves, shares))
        return -ENOMEM;
    memset(s->group_hash, 0xff, hash * sizeof(*s->group_hash));
    for (uint32_t i = 0; i < s->group_count; i++)
        s->groups[i].hash_next = i + 1 < s->group_count ? i + 1 : CELL_NONE;
    for (uint32_t i = 0; i < slots; i++)
        s->slots[i].next = i + 1 < slots ? i + 1 : CELL_NONE;
    for (uint32_t i = 0; i < shares; i++)
        s->shares[i].next = i + 1 < shares ? i + 1 : CELL_NONE;
    s->slot_left = slots;
    s->share_left = shares;
    return 0;
}

static int pins_bind(struct cells *s, const struct cell_spec *spec, const uint32_t *cells, struct error *err)
{
    for (size_t i = 0; i < spec->grant_count; i++) {
        const struct forest *f = &s->forests[s->chain_count + i];
        uint32_t phys, virt = f->base[f->top];

        if (f->pin == CELL_NONE)
            continue;
        phys = cells[spec->grants[i].place];
        if (pool_free_ancestor(s, phys) == CELL_NONE)
            return error_set(err, -EINVAL, "pinned cell '%s' overlaps another pinned cell",
                             names_get(&s->names, f->pin));
        s->cells[phys].flags |= CELL_PINNED;
        s->cells[virt].flags |= CELL_PINNED;
        pool_take(s, phys);
        take_bind(s, phys, virt);
    }
    for (uint32_t i = 0; i < s->chain_count; i++)
        if (!pool_safe(&s->chains[i]))
            return error_set(err, -EINVAL, "chain '%s': more cells are granted than there are",
                             names_get(&s->names, s->types[s->chains[i].type].name));
    return 0;
}

static int cells_fill(struct cells *s, const struct cell_spec *spec, const struct cells_limits *limits,
                      struct error *err)
{
    uint32_t leaves = 0, nodes = 0, *cells = NULL;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < s->chain_count; i++)
        r = forest_number(s, &s->forests[i], err);
    s->virt_first = s->cell_count;
    if (r == 0)
        r = grants_number(s, spec, err);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < s->chain_count; i++) {
        struct forest *f = &s->forests[i];
        const struct chain *c = &s->chains[i];

        f->leaf_base = leaves;
        f->node_base = nodes;
        leaves += f->count * c->leaves[c->levels];
        nodes += f->count * (c->leaves[c->levels] / c->leaves[c->node_level]);
    }
    s->leaf_count = leaves;
    s->node_names = (uint32_t)s->names.count;
    if (!GRAB(s, cells, s->cell_count) || !GRAB(s, prio, s->cell_count) || !GRAB(s, segment, s->virt_first) ||
        !GRAB(s, leaves, leaves) || !GRAB(s, nodes, nodes) || !GRAB(s, node_of, nodes) || !GRAB(s, node_next, nodes) ||
        !GRAB(s, node_cell, nodes) || !GRAB(s, chain_order, s->chain_count) || !GRAB(s, node_number, s->node_names) ||
        !GRAB(s, views, s->forest_count + (size_t)s->vc_count * s->chain_count) ||
        !GRAB(s, view_nodes, s->cell_count) || scratch_init(s, limits) < 0)
        return -ENOMEM;
    if (limits->literal && !GRAB(s, bag_at, s->virt_first))
        return -ENOMEM;
    cells_chain_order(s, NULL, 0);
    memset(s->node_number, 0xff, s->node_names * sizeof(*s->node_number));
    for (uint32_t i = 0; i < leaves; i++)
        s->leaves[i].user = s->leaves[i].reserver = CELL_NONE;
    for (uint32_t i = 0; i < s->forest_count; i++)
        forest_fill(s, i);
    cells = mem_zalloc(spec->place_count ? spec->place_count : 1, sizeof(*cells));
    if (!cells)
        return -ENOMEM;
    r = places_fill(s, spec, cells, err);
    if (r == 0)
        r = lists_init(s);
    if (r == 0)
        r = views_init(s);
    if (r == 0)
        r = pins_bind(s, spec, cells, err);
    mem_free(cells);
    return r;
}

int cells_new(const struct cell_spec *spec, const struct cells_limits *limits, struct cells **ret_cells,
              struct error *err)
{
    static const struct cells_limits none = { 0 };
    CLEANUP(cells_free) struct cells *s = mem_zalloc(1, sizeof(*s));
    int r = s ? 0 : -ENOMEM;

    limits = limits ? limits : &none;
    for (size_t i = 0; r == 0 && i < spec->names.count; i++) {
        const char *text = names_get(&spec->names, (uint32_t)i);
        uint32_t index;

        r = names_put(&s->names, text, strlen(text), &index);
    }
    if (r == 0 && !GRAB(s, types, spec->type_count))
        r = -ENOMEM;
    if (r == 0) {
        if (spec->type_count > 0)
            memcpy(s->types, spec->types, spec->type_count * sizeof(*spec->types));
        s->type_count = (uint32_t)spec->type_count;
        r = chains_find(s, spec, err);
    }
    if (r == 0)
        r = cells_fill(s, spec, limits, err);
    if (r < 0)
        return r == -ENOMEM ? error_set(err, r, "out of memory") : r;
    for (uint32_t i = 0; limits->start_bad && i < s->node_count; i++)
        cells_node_set(s, i, false);
    s->exact = limits->exact || limits->literal;
    s->literal = limits->literal;
    *ret_cells = take(s);
    return 0;
}
