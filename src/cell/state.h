/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* state.h - the data of the cell allocator, for src/cell alone.
 *
 * Cells of one type and depth are alike, so a forest (the trees of a chain, or the equal roots of one grant) is laid
 * out level by level: children and devices of a cell are ranges. Physical cells have the numbers below virt_first.
 */
#include "base/bits.h"
#include "cell/cells.h"

enum { CELL_SPLIT = 1, CELL_IN_FREE = 2, CELL_PINNED = 4, CELL_DOOMED = 8, CELL_QUEUED = 16, CELL_NOTED = 32 };

/* The user of a device that was lent to a scheduler which keeps gangs itself (lend.h). */
#define CELL_LENT CELL_UNKNOWN

struct cell {
    uint32_t forest, parent;
    uint32_t peer;   /* the cell it is bound to */
    uint32_t used_g; /* devices below in use by, or reserved for, guaranteed gangs */
    uint32_t used_o; /* devices below in opportunistic use; physical only */
    uint32_t bad;    /* bad devices below; physical only */
    uint32_t kids_bound, kids_free;
    uint32_t view; /* its entry in a view */
    uint8_t level, flags;
};

struct leaf { /* what a physical device has besides */
    uint32_t user, reserver;
    int32_t index;
    uint8_t state;
};

struct chain {
    uint32_t type, leaf_type, type_at[CELL_LEVELS_MAX + 1];
    uint32_t levels, node_level;
    uint32_t fanout[CELL_LEVELS_MAX + 2]; /* children of a cell of that level */
    uint32_t leaves[CELL_LEVELS_MAX + 2];
    struct bits free[CELL_LEVELS_MAX + 1]; /* the buddy allocator's lists, in the order of the file */
    uint32_t *bag[CELL_LEVELS_MAX + 1];    /* the same in HiveD's order; unused without bag_at */
    uint32_t free_count[CELL_LEVELS_MAX + 2];
    int64_t total_left[CELL_LEVELS_MAX + 1], bad_free[CELL_LEVELS_MAX + 1], vc_free[CELL_LEVELS_MAX + 1];
    uint32_t account; /* first of its levels in a virtual cluster's accounts */
    uint32_t view, doomed, bad_leaves;
    bool unsettled;
};

struct account {
    int32_t free, doomed; /* preassigned cells: unbound, bound to bad ones */
};

struct forest {
    uint32_t chain, vc, pin, grant_next; /* grant_next: the virtual cluster's next forest of this chain */
    uint32_t top, count;
    uint32_t base[CELL_LEVELS_MAX + 1];
    uint32_t leaf_base, node_base; /* physical: in leaves[], node_of[] */
    uint32_t address_base;         /* virtual: number of its first root */
    uint32_t view;
    struct bits unbound; /* virtual: roots without a physical cell */
};

struct node {
    uint32_t name, cell_first;
    bool bad;
};

struct view_node {
    uint32_t cell, prev, next, list;
    int64_t tag;
    uint8_t flag, dirty;
};

/* The nodes of a chain, physical or of a virtual cluster, in the order the last sort left them. */
struct view {
    uint32_t first, count;
    uint32_t chain, classes, span, unsuggested;
    bool physical;
    uint32_t *head, *tail;
    struct bits filled;
    int64_t front, back;
    uint32_t *dirty, dirty_count;
};

enum { CELL_MEMBERS_MAX = 256 };
enum { SLOT_EMPTY, SLOT_ALLOCATED };

struct slot { /* a pod of a gang */
    uint64_t pod;
    uint32_t node, leaf_first, leaf_count, next;
    uint8_t state;
};

struct share { /* a device of a pod */
    uint32_t leaf, vleaf, preassigned, next;
    int32_t index;
};

struct group {
    uint64_t id, preemptor;
    uint32_t vc, chain, slot_first, slot_last, slot_count, placed, hash_next, mark;
    uint32_t asker_first; /* pods that wait for the victims to go: slots without devices */
    int32_t priority;
    uint8_t state;
    bool lazy, lazy_preempted, ignore_suggested, virtual_placed;
};

struct vertex { /* of a binding path: a virtual cell that needs a physical one */
    uint32_t cell, phys, child_first, child_last, next;
};

struct pod_pick {
    uint32_t size, first, view_node;
};

struct undo {
    uint32_t cell : 31, added : 1;
    uint32_t at; /* its place in a bag */
};

struct cells {
    size_t memory;
    bool exact, literal;
    enum cell_phase phase; /* of the decision at hand */
    struct block *blocks;
    struct names names; /* a copy of the specification's, and foreign nodes */
    struct cell_type *types;
    uint32_t type_count;
    struct chain *chains;
    uint32_t chain_count, *chain_order;
    struct forest *forests; /* those of the chains, then those of the grants */
    uint32_t forest_count;
    uint32_t *vcs, vc_count, account_count;
    struct account *accounts; /* vc x account_count */
    uint32_t *vc_forest;      /* vc x chain: the first forest that is not pinned */
    uint32_t *vc_view;        /* vc x chain */
    struct cell *cells;
    int16_t *prio;     /* of devices */
    uint32_t *segment; /* physical: names of addresses */
    uint32_t *bag_at;  /* physical: places in bags; NULL: free cells are in the order of the file */
    uint32_t cell_count, virt_first;
    struct leaf *leaves;
    uint32_t leaf_count;
    struct node *nodes;
    uint32_t node_count;
    uint32_t *node_number; /* by name: of nodes[]; names beyond node_names are foreign */
    uint32_t node_names;
    uint32_t *node_of, *node_next, *node_cell; /* by node cell: its node, the node's next one, its number */
    struct view *views;
    uint32_t view_count;
    struct view_node *view_nodes;
    struct group *groups;
    uint32_t group_count, group_free, *group_hash, group_mask, group_live;
    struct slot *slots;
    struct share *shares;
    uint32_t slot_free, share_free, slot_left, share_left;
    /* Scratch of one decision. */
    struct vertex *vertices;
    uint32_t vertex_count, *vertex_of, *roots, root_count;
    uint32_t *stack, stack_count, stack_size;
    uint32_t *picked, *mapped, picked_count, *candidates, *counts;
    uint64_t *tree_taken; /* a bit a cell: devices that a search has given away */
    struct pod_pick *pods;
    uint32_t pod_count;
    struct undo *undo;
    uint32_t undo_count, undo_max;
    uint32_t *lazy_done, lazy_count, *settle, settle_count;
    uint32_t *noted, noted_count; /* virtual devices that may have become bad, or good again */
    struct cell_victim *victims;
    struct cell_pod_place *out_pods;
    struct cell_leaf_place *out_leaves;
    struct cell_member *members;
    uint32_t member_count, mark;
    uint32_t fail_node;
};
