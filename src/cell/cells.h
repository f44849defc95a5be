/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cells.h - virtual clusters with guaranteed topology: the cell allocator (HiveD, OSDI'20).
 *
 * Physical cells form trees; a virtual cluster is granted cells of given types. A gang is placed inside the imaginary
 * cells of its virtual cluster, which are then bound to physical cells by a buddy allocator, so that what a virtual
 * cluster is granted can always be had. Gangs of priority -1 run on any idle device and bind nothing.
 *
 * A deterministic state machine: the same calls give the same answers. All memory is taken by cells_new(); no other
 * call allocates. Not thread-safe.
 */
#include "base/cleanup.h"
#include "base/error.h"
#include "model/cell.h"

struct cells;

struct cells_limits {
    uint32_t groups;         /* gangs that exist at a time; 0: as many as devices can have */
    uint32_t foreign_leaves; /* devices of adopted gangs that the configuration no longer has; 0: an eighth */
    bool start_bad;          /* nodes are bad until reported healthy */
    bool exact;              /* HiveD's answers; else opportunistic gangs are spared where there is another place */
    bool literal;            /* exact to HiveD's habits: free cells as they came back, no second sweep for guests */
};

int cells_new(const struct cell_spec *spec, const struct cells_limits *limits, struct cells **ret_cells,
              struct error *err) __attribute__((warn_unused_result));
void cells_free(struct cells *s);
DEFINE_CLEANUP(struct cells *, cells_free)

/* Bytes that cells_new() took. */
size_t cells_memory(const struct cells *s);

enum cell_outcome { CELL_BIND, CELL_WAIT, CELL_PREEMPT, CELL_USER_ERROR, CELL_OUTCOMES };

/* Why a request waits or is refused; `node` of the answer says where. */
enum cell_reason {
    CELL_OK,
    CELL_NO_CAPACITY,
    CELL_BAD_NODE,
    CELL_UNSUGGESTED_NODE,
    CELL_UNMAPPABLE,
    CELL_BEING_PREEMPTED,
    CELL_LIMIT,
    CELL_ERR_VC,
    CELL_ERR_PIN,
    CELL_ERR_PIN_OPP,
    CELL_ERR_LEAF_TYPE,
    CELL_ERR_VC_LEAF_TYPE,
    CELL_ERR_PRIORITY,
    CELL_ERR_MEMBER,
    CELL_ERR_PODS,
    CELL_REASONS
};
const char *cell_reason_text(enum cell_reason reason);

struct cell_victim {
    uint64_t group, pod;
};

struct cell_answer {
    enum cell_outcome outcome;
    enum cell_reason reason;
    uint32_t node; /* a node the reason speaks of, the node of the victims, or CELL_NONE */
    /* Borrowed until the next call. */
    struct cell_bind bind;
    const struct cell_victim *victims; /* pods to evict, all on one node */
    uint32_t victim_count;
};

/* What to do with this pod now. Reserves only in the Preempting phase; binds nothing before cells_commit(). */
void cells_decide(struct cells *s, const struct cell_request *request, enum cell_phase phase,
                  struct cell_answer *ret_answer);

/* The pod is placed (an answer taken, or a running pod adopted after a restart). Devices that the configuration does
 * not have are left out; a gang that fits nowhere in its virtual cluster goes on as opportunistic. */
int cells_commit(struct cells *s, const struct cell_request *request, const struct cell_bind *bind, struct error *err)
    __attribute__((warn_unused_result));

/* A placed pod ended: the gang's devices come back with its last one. -ENOENT: it is not placed. */
int cells_release(struct cells *s, uint64_t group, uint64_t pod);

/* A pod that was not placed is gone. */
void cells_cancel(struct cells *s, uint64_t group, uint64_t pod);

/* Chains are tried in this order of their types, and the others after them; they begin in the order of the file. */
void cells_chain_order(struct cells *s, const uint32_t *types, uint32_t count);

uint32_t cells_leaf_total(const struct cells *s); /* devices */
uint32_t cells_node_count(const struct cells *s);
const char *cells_node_name(const struct cells *s, uint32_t node);
uint32_t cells_node_find(const struct cells *s, const char *name, size_t length); /* CELL_NONE: no such */
void cells_node_set(struct cells *s, uint32_t node, bool healthy);

/* The number of a node that the configuration may not have; for binds read back. Allocates. */
int cells_node_foreign(struct cells *s, const char *name, size_t length, uint32_t *ret_node);

/* Every invariant recounted; false and words at the first that does not hold. */
bool cells_audit(const struct cells *s, struct error *err);

/* The physical device of that number on a node, in the chain of that type if it is there. CELL_NONE: no such. */
uint32_t cells_leaf_find(const struct cells *s, uint32_t chain_type, uint32_t node, int32_t index);

/* Looking in. Cells are numbered; physical ones come first. */
enum cell_group_state { CELL_GROUP_ABSENT, CELL_ALLOCATED, CELL_GROUP_PREEMPTING, CELL_BEING_PREEMPTED_STATE };
enum cell_state { CELL_FREE, CELL_USED, CELL_RESERVING, CELL_RESERVED, CELL_STATES };

struct cell_group_info {
    enum cell_group_state state;
    bool lazy_preempted;
    int32_t priority, effective; /* effective: -1 when it runs opportunistically, for whatever reason */
    uint32_t vc, pods, pods_placed;
    uint64_t lazy_preemptor;
};
void cells_group(const struct cells *s, uint64_t group, struct cell_group_info *ret_info);

struct cell_info {
    uint32_t type, chain, level, parent, child_first, child_count, peer;
    uint32_t vc; /* of a virtual cell, or of the one bound to it, or CELL_NONE */
    uint32_t node;
    uint32_t leaves, used_guaranteed, used_opportunistic;
    int32_t priority, index;
    enum cell_state state;
    bool is_virtual, preassigned, pinned, doomed, free, split, healthy;
    uint64_t user; /* of a leaf: the gang that runs there, if the state says that one does */
};
uint32_t cells_count(const struct cells *s);
uint32_t cells_virtual_first(const struct cells *s);
void cells_get(const struct cells *s, uint32_t cell, struct cell_info *ret_info);

/* "n0/0/1", "vc1/0/3"; cut when `size` is too small. */
void cells_address(const struct cells *s, uint32_t cell, char *text, size_t size);

const struct names *cells_names(const struct cells *s);
uint32_t cells_type_find(const struct cells *s, const char *name, size_t length); /* CELL_UNKNOWN: no such */
uint32_t cells_type_leaves(const struct cells *s, uint32_t type);                 /* devices of a cell of that type */
const char *cells_type_name(const struct cells *s, uint32_t type);
uint32_t cells_vc_find(const struct cells *s, const char *name, size_t length);               /* CELL_UNKNOWN */
uint32_t cells_pin_find(const struct cells *s, uint32_t vc, const char *name, size_t length); /* CELL_UNKNOWN */
const char *cells_vc_name(const struct cells *s, uint32_t vc);
uint32_t cells_vc_count(const struct cells *s);
