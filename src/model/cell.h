/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cell.h - what cells a cluster is made of, who is granted which, and what is asked of them.
 *
 * Plain data between the readers (wire/), the allocator (cell/) and its drivers. Cells, chains and virtual clusters
 * are numbered in the order of the configuration file, which is also the order of every tie-break.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/names.h"

#define CELL_NONE UINT32_MAX
#define CELL_UNKNOWN (UINT32_MAX - 1) /* named, but not in the configuration */

enum {
    CELL_LEVELS_MAX = 12,
    CELL_TYPES_MAX = 1024,
    CELL_CHAINS_MAX = 256,
    CELL_VCS_MAX = 1024,
    CELL_NODE_LEAVES_MAX = 256,
    CELL_PRIORITY_MAX = 1000,
    CELL_PRIORITY_OPP = -1,
    CELL_PRIORITY_FREE = -2,
};
#define CELL_PLACES_MAX ((size_t)1 << 23)

/* A shape: a device, or `child_count` cells of one other type. */
struct cell_type {
    uint32_t name;
    uint32_t child; /* a type; CELL_NONE: a device */
    uint32_t child_count;
    bool node; /* one cell of it is one machine */
    /* Of a device: what it comes with on its machine. 0 = not told */
    uint32_t cpus, memory_mib;
};

/* One physical cell. All cells of all trees, parents before children, a tree after the other. */
struct cell_place {
    uint32_t type;
    uint32_t parent;  /* CELL_NONE: a top cell */
    uint32_t address; /* the name of its own segment; at the node level that of the machine */
    uint32_t pin;     /* a name; CELL_NONE: not pinned */
    int32_t index;    /* of a device: its number on the node */
};

/* `count` cells of `type` inside the chain, or, with a pin, the cell that carries it. */
struct cell_grant {
    uint32_t vc;
    uint32_t chain, type, count; /* chain: the top type */
    uint32_t pin;                /* a name, or CELL_NONE */
    uint32_t place;              /* with a pin: the pinned cell */
};

struct cell_spec {
    struct names names;
    struct cell_type *types; /* all arrays are owned */
    struct cell_place *places;
    uint32_t *vcs; /* names */
    struct cell_grant *grants;
    size_t type_count, place_count, vc_count, grant_count;
    size_t type_capacity, place_capacity, vc_capacity, grant_capacity;
};

void cell_spec_done(struct cell_spec *spec);

enum cell_phase { CELL_FILTERING, CELL_PREEMPTING };

struct cell_member {
    uint32_t pods, leaves; /* so many pods of so many devices each */
};

/* Pods of a gang that must lie inside one cell of a type, and groups inside that cell in turn. A tree as a list,
 * parents before children. */
struct cell_pod_group {
    uint32_t parent;           /* a group before it; CELL_NONE: the root */
    uint32_t within;           /* a type; CELL_NONE: no constraint of its own; CELL_UNKNOWN: no such */
    uint32_t pods;             /* of its own; may be 0 */
    uint32_t cell_type, cells; /* of each pod: so many whole cells of that type, on one node */
};

/* One pod of a gang asks. Numbers of virtual cluster, pin and type are those of the specification. */
struct cell_request {
    uint64_t group, pod; /* the asker's names of the gang and of the pod */
    uint32_t vc;         /* CELL_UNKNOWN: no such */
    uint32_t pin;        /* a grant with a pin; CELL_NONE: not asked for */
    uint32_t leaf_type;  /* a type; CELL_NONE: any */
    int32_t priority;
    uint32_t leaves; /* of this pod */
    uint32_t member_count;
    const struct cell_member *members; /* whole gang; equal sizes are summed */
    bool lazy;                         /* the gang may be preempted lazily */
    bool ignore_suggested;
    const uint64_t *suggested; /* a bit a node; NULL: all */
    /* Cells instead of devices, and where they must lie together. `members` says the same in devices. */
    const struct cell_pod_group *tree; /* NULL: not asked for */
    uint32_t tree_count, tree_pod;     /* tree_pod: the group of this pod */
};

/* Where one device of a gang is. */
struct cell_leaf_place {
    int32_t index;        /* device number on its node */
    uint32_t preassigned; /* type of the granted cell; CELL_NONE: opportunistic; CELL_UNKNOWN: no type of ours */
};

struct cell_pod_place {
    uint32_t node; /* a node of the allocator */
    uint32_t leaf_first, leaf_count;
};

/* A pod's place and the places of its whole gang, sizes ascending. Survives restarts as the pod's annotation. */
struct cell_bind {
    uint32_t chain; /* a type; CELL_UNKNOWN: no type of ours */
    uint32_t pod;   /* this pod is pods[pod] */
    uint32_t pod_count, leaf_count;
    struct cell_pod_place *pods;
    struct cell_leaf_place *leaves;
};
