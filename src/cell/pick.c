/* SPDX-License-Identifier: Apache-2.0 */
/* pick.c - devices for a gang: nodes by one first-fit sweep, devices inside a node by lowest common ancestor.
 *
 * The same answer as an exhaustive search over subsets, in linear time: the lowest level at which some cell holds
 * enough candidates, and there the cell whose candidates come first.
 */
#include "cell/parts.h"

enum { IDLE_KEPT = 4 };

/* Devices of a node that a gang of this priority may have. */
static uint32_t node_room(const struct cells *s, const struct view_node *n, int32_t priority)
{
    const struct cell *c = &s->cells[n->cell];
    uint32_t total = cell_leaf_count(s, n->cell), first, room = 0;

    if (priority < 0 || c->used_g == 0)
        return total - c->used_g - (priority < 0 ? c->used_o : 0);
    first = cell_leaf_first(s, n->cell);
    for (uint32_t i = 0; i < total; i++)
        room += s->prio[first + i] < priority;
    return room;
}

/* Nodes of a bound cell that nobody has bound and that have so many idle devices; at most 64 are looked at. */
static uint32_t nodes_idle(const struct cells *s, uint32_t phys, uint32_t level, uint32_t need)
{
    const struct chain *c = chain_of(s, &s->cells[phys]);
    uint32_t ratio = c->leaves[s->cells[phys].level] / c->leaves[level], count = 0;
    uint32_t first = s->forests[s->cells[phys].forest].base[level] + cell_position(s, phys) * ratio;

    for (uint32_t i = 0; i < ratio && i < 64; i++) {
        const struct cell *p = &s->cells[first + i];

        count += p->peer == CELL_NONE && p->bad == 0 && c->leaves[level] - p->used_o >= need;
    }
    return count;
}

/* Devices of a virtual node that can be had without sending anybody opportunistic away, as far as can be told before
 * it is mapped: an unbound one may become any idle node below the bound cell it is in, each of them once. */
static uint32_t node_idle_room(struct cells *s, const struct view_node *n, uint32_t need)
{
    uint32_t room = node_room(s, n, CELL_PRIORITY_OPP), v = n->cell, phys = s->cells[v].peer, idle, given;
    uint32_t level = s->cells[v].level, size = chain_of(s, &s->cells[v])->leaves[level];

    if (phys != CELL_NONE) {
        idle = size - s->cells[phys].used_g - s->cells[phys].used_o;
        return idle < room ? idle : room;
    }
    while (v != CELL_NONE && s->cells[v].peer == CELL_NONE)
        v = s->cells[v].parent;
    if (v == CELL_NONE)
        return room;
    phys = s->cells[v].peer;
    /* How many of them this search has given away: a scratch word that counts only under this search's mark. */
    given = s->vertex_of[phys] >> 10 == (s->mark & 0x3fffff) ? s->vertex_of[phys] & 0x3ff : 0;
    if (nodes_idle(s, phys, level, need) <= given || given == 0x3ff)
        return 0;
    s->vertex_of[phys] = (s->mark & 0x3fffff) << 10 | (given + 1);
    return nodes_idle(s, phys, level, size) > given ? room : need;
}

static enum cell_reason node_refuse(struct cells *s, const struct view *v, const struct view_node *n)
{
    uint32_t phys = v->physical ? n->cell : s->cells[n->cell].peer;

    s->fail_node = phys == CELL_NONE ? CELL_NONE : cells_node_of(s, phys);
    return n->flag & 2 ? CELL_BAD_NODE : CELL_UNSUGGESTED_NODE;
}

/* Gives every pod a node; pods come in ascending size. */
static enum cell_reason nodes_find(struct cells *s, struct view *v, int32_t priority, bool idle)
{
    uint32_t n = CELL_NONE, left = 0;
    struct sweep sw;

    sweep_start(v, priority >= 0, &sw);
    for (uint32_t i = 0; i < s->pod_count; i++) {
        uint32_t size = s->pods[i].size;

        while (n == CELL_NONE || left < size) {
            n = sweep_next(s, &sw, size);
            if (n == CELL_NONE)
                return CELL_NO_CAPACITY;
            left = idle ? node_idle_room(s, &s->view_nodes[n], size) : node_room(s, &s->view_nodes[n], priority);
        }
        if (s->view_nodes[n].flag)
            return node_refuse(s, v, &s->view_nodes[n]);
        s->pods[i].view_node = n;
        left -= size;
    }
    return CELL_OK;
}

/* The opportunistic order is not by room, so its sweep can pass over places; this one tries the fullest first. */
static enum cell_reason nodes_find_tight(struct cells *s, struct view *v)
{
    uint32_t pod = 0, n = CELL_NONE, left = 0;

    for (uint32_t room = 1; room < v->span && pod < s->pod_count; room++) {
        for (uint32_t used = 0; used < v->span - room && pod < s->pod_count; used++) {
            uint32_t opp = v->span - 1 - room - used; /* more opportunistic first, as in the other order */
            uint32_t list = (v->span - 1 - opp) * v->span + used;

            for (n = room >= s->pods[pod].size ? v->head[list] : CELL_NONE; n != CELL_NONE && pod < s->pod_count;
                 n = s->view_nodes[n].next) {
                for (left = room; pod < s->pod_count && s->pods[pod].size <= left; pod++) {
                    s->pods[pod].view_node = n;
                    left -= s->pods[pod].size;
                }
            }
        }
    }
    return pod == s->pod_count ? CELL_OK : CELL_NO_CAPACITY;
}

static uint32_t candidates_find(struct cells *s, uint32_t node, int32_t priority)
{
    uint32_t first = cell_leaf_first(s, node), total = cell_leaf_count(s, node), count = 0;

    for (uint32_t i = 0; i < total; i++)
        if (s->prio[first + i] == CELL_PRIORITY_FREE)
            s->candidates[count++] = first + i;
    for (uint32_t i = 0; i < total; i++)
        if (s->prio[first + i] > CELL_PRIORITY_FREE && s->prio[first + i] < priority)
            s->candidates[count++] = first + i;
    return count;
}

/* Position of the cell, inside the node, that holds `size` candidates at this level and whose come first. */
static uint32_t level_find(struct cells *s, uint32_t base, uint32_t leaves, uint32_t count, uint32_t size)
{
    uint32_t *number = s->counts, cells = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (s->candidates[i] - base) / leaves;

        cells = at >= cells ? at + 1 : cells;
    }
    for (uint32_t i = 0; i < cells; i++)
        number[i] = 0;
    for (uint32_t i = 0; i < count; i++)
        number[(s->candidates[i] - base) / leaves]++;
    for (uint32_t i = 0; i < count; i++)
        if (number[(s->candidates[i] - base) / leaves] >= size)
            return (s->candidates[i] - base) / leaves;
    return CELL_NONE;
}

/* Moves `size` of the candidates to picked[]; returns how many are left. */
static uint32_t leaves_pick(struct cells *s, uint32_t node, uint32_t count, uint32_t size)
{
    const struct chain *c = chain_of(s, &s->cells[node]);
    uint32_t base = cell_leaf_first(s, node), level = 1, at = CELL_NONE, kept = 0, taken = 0;

    assert(count >= size);
    while (c->leaves[level] < size || (at = level_find(s, base, c->leaves[level], count, size)) == CELL_NONE)
        level++;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t leaf = s->candidates[i];

        if (taken < size && (leaf - base) / c->leaves[level] == at) {
            s->picked[s->picked_count++] = leaf;
            taken++;
        } else {
            s->candidates[kept++] = leaf;
        }
    }
    return kept;
}

static void pods_place(struct cells *s, int32_t priority)
{
    uint32_t node = CELL_NONE, count = 0;

    s->picked_count = 0;
    for (uint32_t i = 0; i < s->pod_count; i++) {
        struct pod_pick *pod = &s->pods[i];

        if (s->view_nodes[pod->view_node].cell != node) {
            node = s->view_nodes[pod->view_node].cell;
            count = candidates_find(s, node, priority);
        }
        pod->first = s->picked_count;
        count = leaves_pick(s, node, count, pod->size);
    }
}

/* Are only few nodes left that nobody uses? An opportunistic pod that needs less than a node does not break one of
 * those then, if it can lie beside others. Where nobody can be evicted, it would be in their way instead. */
static bool idle_scarce(const struct cells *s, const struct view *v)
{
    uint32_t count = 0;

    if (s->exact || !v->physical || s->phase != CELL_PREEMPTING)
        return false;
    for (uint32_t n = v->head[(v->span - 1) * v->span]; n != CELL_NONE && count <= IDLE_KEPT; count++)
        n = s->view_nodes[n].next;
    return count <= IDLE_KEPT;
}

enum cell_reason pick_gang(struct cells *s, struct view *v, const struct cell_request *r)
{
    enum cell_reason reason;
    int32_t priority = CELL_PRIORITY_OPP;

    view_sort(s, v, r);
    reason = idle_scarce(s, v) ? nodes_find_tight(s, v) : CELL_NO_CAPACITY;
    if (reason != CELL_OK)
        reason = nodes_find(s, v, priority, false);
    if (reason != CELL_OK && v->physical && !s->literal && nodes_find_tight(s, v) == CELL_OK)
        reason = CELL_OK;
    if (reason != CELL_OK && r->priority > CELL_PRIORITY_OPP) {
        priority = r->priority;
        reason = nodes_find(s, v, priority, false);
    }
    if (reason == CELL_OK)
        pods_place(s, priority);
    return reason;
}

/* The same among places that are idle in the virtual cluster and, it seems, on the hardware. */
bool pick_idle(struct cells *s, struct view *v)
{
    s->mark++;
    if (nodes_find(s, v, CELL_PRIORITY_OPP, true) != CELL_OK)
        return false;
    pods_place(s, CELL_PRIORITY_OPP);
    return true;
}
