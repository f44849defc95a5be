/* SPDX-License-Identifier: Apache-2.0 */
/* view.c - the order in which the nodes of a chain are tried (section 6.1 of the behaviour followed: healthy before
 * bad, suggested before not, then packing; ties stay as the last sort left them).
 *
 * A stable sort of a list that was sorted before moves only what changed, and it moves it to an end of the run of
 * equals: what comes from before them goes to their front, what comes from behind to their back. So each run is a
 * list, a sort costs what changed, and the first node with room is in the first list that promises any.
 */
#include "cell/parts.h"

/* Where a node belongs: runs in ascending order of rank; inside a run one list a size of node. */
static uint32_t node_rank(const struct cells *s, const struct view *v, const struct view_node *n)
{
    const struct cell *c = &s->cells[n->cell];

    if (v->physical)
        return (n->flag * v->span + (v->span - 1 - c->used_o)) * v->span + c->used_g;
    return n->flag * v->span + (v->span - 1 - c->used_g);
}

static uint32_t node_class(const struct cells *s, const struct view *v, const struct view_node *n)
{
    return v->physical ? 0 : s->cells[n->cell].level - 1u;
}

static uint8_t node_flag(const struct cells *s, const struct view *v, const struct view_node *n,
                         const struct cell_request *r)
{
    uint32_t phys = v->physical ? n->cell : s->cells[n->cell].peer, node;
    bool unsuggested;

    if (phys == CELL_NONE)
        return 0;
    node = r && !r->ignore_suggested && r->suggested ? cells_node_of(s, phys) : CELL_NONE;
    unsuggested = node != CELL_NONE && !(r->suggested[node / 64] >> (node % 64) & 1);
    return (uint8_t)((s->cells[phys].bad > 0) * 2 + unsuggested);
}

static void list_remove(struct cells *s, struct view *v, uint32_t i)
{
    struct view_node *n = &s->view_nodes[i];

    if (n->prev != CELL_NONE)
        s->view_nodes[n->prev].next = n->next;
    else
        v->head[n->list] = n->next;
    if (n->next != CELL_NONE)
        s->view_nodes[n->next].prev = n->prev;
    else
        v->tail[n->list] = n->prev;
    if (v->head[n->list] == CELL_NONE)
        bits_clear(&v->filled, n->list);
}

static void list_add(struct cells *s, struct view *v, uint32_t i, bool front)
{
    struct view_node *n = &s->view_nodes[i];
    uint32_t *near = front ? &v->head[n->list] : &v->tail[n->list];
    uint32_t *far = front ? &v->tail[n->list] : &v->head[n->list];

    n->tag = front ? --v->front : v->back++;
    n->prev = front ? CELL_NONE : *near;
    n->next = front ? *near : CELL_NONE;
    if (*near != CELL_NONE && front)
        s->view_nodes[*near].prev = i;
    else if (*near != CELL_NONE)
        s->view_nodes[*near].next = i;
    else
        *far = i;
    *near = i;
    bits_set(&v->filled, n->list);
}

void view_build(struct cells *s, struct view *v)
{
    for (uint32_t i = v->first; i < v->first + v->count; i++) {
        struct view_node *n = &s->view_nodes[i];

        n->flag = node_flag(s, v, n, NULL);
        n->list = node_rank(s, v, n) * v->classes + node_class(s, v, n);
        list_add(s, v, i, false);
    }
}

static struct view *view_of(const struct cells *s, uint32_t cell)
{
    const struct forest *f = &s->forests[s->cells[cell].forest];

    if (!cell_is_virtual(s, cell))
        return &s->views[s->chains[f->chain].view];
    return &s->views[f->pin != CELL_NONE ? f->view : s->vc_view[(size_t)f->vc * s->chain_count + f->chain]];
}

static void node_dirty(struct cells *s, struct view *v, uint32_t i)
{
    if (s->view_nodes[i].dirty)
        return;
    s->view_nodes[i].dirty = 1;
    v->dirty[v->dirty_count++] = i;
}

void view_touch(struct cells *s, uint32_t cell)
{
    uint32_t i = s->cells[cell].view;

    if (i != CELL_NONE)
        node_dirty(s, view_of(s, cell), i);
}

/* Position in the order of the last sort. */
static bool node_before(const struct cells *s, const struct view *v, uint32_t a, uint32_t b)
{
    const struct view_node *x = &s->view_nodes[a], *y = &s->view_nodes[b];
    uint32_t p = x->list / v->classes, q = y->list / v->classes;

    return p != q ? p < q : x->tag < y->tag;
}

/* Heap sort: what changed, first to last in the old order. */
static void dirty_sort(struct cells *s, struct view *v)
{
    uint32_t *d = v->dirty, n = v->dirty_count;

    for (uint32_t step = n + n / 2; step > 0; step--) {
        uint32_t i = step > n ? step - n - 1 : 0, end = step > n ? n : step - 1, kid, tmp;

        if (step <= n) {
            tmp = d[0];
            d[0] = d[end];
            d[end] = tmp;
        }
        for (tmp = d[i]; (kid = 2 * i + 1) < end; i = kid) {
            if (kid + 1 < end && node_before(s, v, d[kid], d[kid + 1]))
                kid++;
            if (!node_before(s, v, tmp, d[kid]))
                break;
            d[i] = d[kid];
        }
        d[i] = tmp;
    }
}

/* Notes what the request's suggestions change; they are the request's own, so this is the one linear part. */
static void flags_touch(struct cells *s, struct view *v, const struct cell_request *r)
{
    if (v->unsuggested == 0 && (r->ignore_suggested || !r->suggested))
        return;
    v->unsuggested = 0;
    for (uint32_t i = v->first; i < v->first + v->count; i++) {
        uint8_t flag = node_flag(s, v, &s->view_nodes[i], r);

        v->unsuggested += flag & 1;
        if (flag != s->view_nodes[i].flag)
            node_dirty(s, v, i);
    }
}

void view_sort(struct cells *s, struct view *v, const struct cell_request *r)
{
    uint32_t kept = 0;

    flags_touch(s, v, r);
    for (uint32_t k = 0; k < v->dirty_count; k++) {
        struct view_node *n = &s->view_nodes[v->dirty[k]];
        uint32_t was = n->list;
        uint8_t flag = n->flag;

        n->dirty = 0;
        n->flag = node_flag(s, v, n, r);
        if (node_rank(s, v, n) * v->classes + node_class(s, v, n) != was)
            v->dirty[kept++] = v->dirty[k];
        n->flag = flag;
    }
    v->dirty_count = kept;
    dirty_sort(s, v);
    for (uint32_t k = 0; k < kept; k++)
        list_remove(s, v, v->dirty[k]);
    /* From before, last first, to the front; from behind, first first, to the back. A node's new list is computed
     * twice and not remembered: n->list is the old place until it moves. */
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t k = 0; k < kept; k++) {
            uint32_t i = v->dirty[pass ? k : kept - 1 - k];
            struct view_node *n = &s->view_nodes[i];
            uint32_t rank;
            uint8_t flag = n->flag;

            if (n->dirty)
                continue;
            n->flag = node_flag(s, v, n, r);
            rank = node_rank(s, v, n);
            if ((rank > n->list / v->classes) == (pass == 0)) {
                n->list = rank * v->classes + node_class(s, v, n);
                list_add(s, v, i, pass == 0);
                n->dirty = 1; /* moved */
            } else {
                n->flag = flag;
            }
        }
    }
    for (uint32_t k = 0; k < kept; k++)
        s->view_nodes[v->dirty[k]].dirty = 0;
    v->dirty_count = 0;
}

void sweep_start(struct view *v, bool any, struct sweep *sw)
{
    *sw = (struct sweep){ .view = v, .rank = UINT32_MAX, .any = any };
}

/* Devices that every node of a list has left. */
static uint32_t list_room(const struct cells *s, const struct view *v, uint32_t rank, uint32_t class)
{
    const struct chain *c = &s->chains[v->chain];
    uint32_t left = v->physical ? v->span - 1 : c->leaves[class + 1], used;

    used = v->physical ? v->span - 1 - rank / v->span % v->span + rank % v->span : v->span - 1 - rank % v->span;
    return used >= left ? 0 : left - used;
}

static uint32_t sweep_best(const struct cells *s, struct sweep *sw, uint32_t leaves)
{
    const struct view *v = sw->view;
    uint32_t best = CELL_NONE, from = 0;

    for (uint32_t class = 0; class < v->classes; class ++) {
        uint32_t i = sw->cursor[class];

        if (i == CELL_NONE || (!sw->any && list_room(s, v, sw->rank, class) < leaves))
            continue;
        if (best == CELL_NONE || s->view_nodes[i].tag < s->view_nodes[best].tag) {
            best = i;
            from = class;
        }
    }
    if (best != CELL_NONE)
        sw->cursor[from] = s->view_nodes[best].next;
    return best;
}

/* The next node in order that has room for so many devices; with `any`, the next node. */
uint32_t sweep_next(struct cells *s, struct sweep *sw, uint32_t leaves)
{
    struct view *v = sw->view;
    uint32_t best = sw->rank == UINT32_MAX ? CELL_NONE : sweep_best(s, sw, leaves);

    while (best == CELL_NONE) {
        uint32_t list = bits_next(&v->filled, sw->rank == UINT32_MAX ? 0 : (sw->rank + 1) * v->classes);

        if (list == BITS_NONE)
            return CELL_NONE;
        sw->rank = list / v->classes;
        for (uint32_t class = 0; class < v->classes; class ++)
            sw->cursor[class] = v->head[sw->rank * v->classes + class];
        best = sweep_best(s, sw, leaves);
    }
    return best;
}
