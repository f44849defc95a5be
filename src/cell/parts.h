/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* parts.h - what the parts of the cell allocator ask of one another, for src/cell alone. */
#include <assert.h>

#include "cell/state.h"

static inline const struct chain *chain_of(const struct cells *s, const struct cell *c)
{
    return &s->chains[s->forests[c->forest].chain];
}

static inline uint32_t cell_position(const struct cells *s, uint32_t id)
{
    const struct cell *c = &s->cells[id];

    return id - s->forests[c->forest].base[c->level];
}

static inline uint32_t cell_child(const struct cells *s, uint32_t id)
{
    const struct cell *c = &s->cells[id];
    const struct forest *f = &s->forests[c->forest];

    return f->base[c->level - 1] + (id - f->base[c->level]) * s->chains[f->chain].fanout[c->level];
}

static inline uint32_t cell_fanout(const struct cells *s, uint32_t id)
{
    return chain_of(s, &s->cells[id])->fanout[s->cells[id].level];
}

static inline uint32_t cell_leaf_first(const struct cells *s, uint32_t id)
{
    const struct cell *c = &s->cells[id];
    const struct forest *f = &s->forests[c->forest];

    return f->base[1] + (id - f->base[c->level]) * s->chains[f->chain].leaves[c->level];
}

static inline uint32_t cell_leaf_count(const struct cells *s, uint32_t id)
{
    return chain_of(s, &s->cells[id])->leaves[s->cells[id].level];
}

static inline struct leaf *leaf_of(const struct cells *s, uint32_t id)
{
    const struct forest *f = &s->forests[s->cells[id].forest];

    return &s->leaves[f->leaf_base + id - f->base[1]];
}

static inline bool cell_is_virtual(const struct cells *s, uint32_t id)
{
    return id >= s->virt_first;
}

static inline uint32_t cell_root(const struct cells *s, uint32_t id)
{
    while (s->cells[id].parent != CELL_NONE)
        id = s->cells[id].parent;
    return id;
}

static inline struct account *account_of(const struct cells *s, uint32_t vc, const struct chain *c, uint32_t level)
{
    return &s->accounts[(size_t)vc * s->account_count + c->account + level - 1];
}

/* The number of the node that a physical cell at or below the node level lies on. */
uint32_t cells_node_of(const struct cells *s, uint32_t cell);

/* Every invariant after every change, in checked builds. */
static inline void cells_checked(const struct cells *s)
{
#if MUSTER_CHECKED
    assert(cells_audit(s, NULL));
#else
    (void)s;
#endif
}

/* view.c: the order in which nodes are tried. */
struct sweep {
    struct view *view;
    uint32_t rank, cursor[CELL_LEVELS_MAX];
    bool any; /* also those that are full */
};
void view_touch(struct cells *s, uint32_t cell);
void view_sort(struct cells *s, struct view *v, const struct cell_request *r);
void view_build(struct cells *s, struct view *v);
void sweep_start(struct view *v, bool any, struct sweep *sw);
uint32_t sweep_next(struct cells *s, struct sweep *sw, uint32_t leaves);

/* pick.c: devices for the pods of a gang, from one view; into s->pods and s->picked. */
enum cell_reason pick_gang(struct cells *s, struct view *v, const struct cell_request *r);

/* pick_tree.c: the same for a request of cells, with groups that must lie together. */
enum cell_reason tree_valid(const struct cells *s, const struct cell_request *r);
bool tree_in_chain(const struct cells *s, uint32_t chain, const struct cell_request *r);
enum cell_reason tree_pick(struct cells *s, uint32_t chain, const struct cell_request *r);
bool tree_slot(const struct cells *s, const struct cell_request *r, uint32_t number); /* of the pods of its size */

bool pick_idle(struct cells *s, struct view *v);

/* map.c: physical devices for picked virtual ones, into s->mapped. */
bool map_gang(struct cells *s, uint32_t chain, const struct cell_request *r);

/* pool.c: which physical cells are free. */
void pool_list_add(struct cells *s, uint32_t cell);
void pool_list_remove(struct cells *s, uint32_t cell);
void pool_list_put(struct cells *s, uint32_t cell, uint32_t at); /* undoes a removal from that place of a bag */
uint32_t pool_list_next(const struct cells *s, const struct chain *c, uint32_t level, uint32_t *number);
uint32_t pool_free_ancestor(const struct cells *s, uint32_t cell); /* itself, one above, or CELL_NONE */
void pool_take(struct cells *s, uint32_t cell);
void pool_give(struct cells *s, uint32_t cell);
void pool_bad_count(struct cells *s, uint32_t cell, int sign);
bool pool_safe(const struct chain *c);

/* take.c: devices change hands; bindings follow. */
void take_note(struct cells *s, uint32_t virt);
void take_root(struct cells *s, uint32_t virt);
void take_bind(struct cells *s, uint32_t phys, uint32_t virt);
void take_unbind_tree(struct cells *s, uint32_t phys);
bool take_leaf(struct cells *s, uint32_t leaf, uint32_t vleaf, int32_t priority);
void take_release(struct cells *s, uint32_t leaf);
bool take_fits(const struct cells *s, uint32_t leaf, uint32_t vleaf);

/* doom.c: bad hardware shown in the virtual clusters. */
void doom_settle(struct cells *s);
void doom_release(struct cells *s, uint32_t phys);

/* group.c: gangs and their slots. */
struct group *group_find(const struct cells *s, uint64_t id);
struct group *group_new(struct cells *s, const struct cell_request *r, uint32_t chain);
void group_free(struct cells *s, struct group *g);
struct slot *group_add_slot(struct cells *s, struct group *g, uint32_t leaves);
bool group_room(const struct cells *s, uint32_t pods, uint32_t leaves);
void group_bind(struct cells *s, const struct group *g, const struct slot *slot, struct cell_bind *bind);
bool group_members(struct cells *s, const struct cell_request *r); /* false: too many sizes */
void group_ask(struct cells *s, struct group *g, uint64_t pod);    /* the pod waits for the victims to go */
bool group_unask(struct cells *s, struct group *g, uint64_t pod);  /* false: it does not */
void group_askers_free(struct cells *s, struct group *g);
void group_refresh(struct cells *s, struct group *g);

static inline uint32_t group_slot(const struct cells *s, const struct group *g)
{
    return (uint32_t)(g - s->groups);
}

/* preempt.c: who gives way to whom. */
void preempt_lazy(struct cells *s, struct group *victim, uint64_t by);
void preempt_lazy_undo(struct cells *s, struct group *victim);
void preempt_start(struct cells *s, const struct cell_request *r, uint32_t chain);
void preempt_cancel(struct cells *s, struct group *g);
