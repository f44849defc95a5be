/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cell_kinds.h - the kinds of nodes in a cluster and the levels of cells each kind has, for cluster_cells.c alone. */
#include "base/error.h"
#include "model/cluster.h"

enum { KINDS_MAX = 64 };
enum kind_tag { KIND_GPU, KIND_GROUP, KIND_SOCKET, KIND_PART, KIND_NODE, KIND_RACK, KIND_DOMAIN, KIND_TAGS };

struct kind_level {
    uint32_t gpus, type; /* type: of the specification */
    uint64_t granted;
    uint64_t
        whole; /* cells of it that can be granted and are no part of a larger one that can: nothing in them is apart */
    uint8_t tag;
};

/* Nodes of one GPU type and one inner shape. */
struct kind {
    uint16_t sku, gpus, sockets, groups;
    uint32_t nodes, racks, domains;
    uint32_t rack_nodes, domain_racks; /* 0: not everywhere the same */
    uint32_t level_count, node_level, tops;
    struct kind_level levels[CELL_LEVELS_MAX + 1]; /* 1: GPUs */
};

struct kinds {
    struct kind list[KINDS_MAX];
    uint32_t count;
};

int kinds_find(const struct cluster_spec *cluster, struct kinds *kinds, struct error *err)
    __attribute__((warn_unused_result));

/* The level whose cells have so many GPUs, or 0. */
uint32_t kind_level_of(const struct kind *kind, uint32_t gpus);

/* Could a level of so many GPUs lie between the others? */
bool kind_nests(const struct kind *kind, uint32_t gpus);

/* Can everything granted be cut out of the kind at the same time, with `more` cells a level besides? */
bool kind_fits(const struct kind *kind, const uint64_t more[CELL_LEVELS_MAX + 1]);
