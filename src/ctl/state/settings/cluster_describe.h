/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cluster_describe.h - the cluster as it is described, for cluster.c alone. */
#include "ctl/state/registry.h"
#include "ctl/state/state.h"

/* A node where the cluster has it. */
struct placed_node {
    const struct registry *registry;
    uint32_t node;
};

/* What is described: settings, nodes in their order, and whether reservations take some of these. */
struct picture {
    const struct setting_value *settings;
    const struct placed_node *nodes;
    size_t count;
    bool resvs;
};

/* The nodes that are part of the cluster, in its order; none, before there is one with GPUs. The caller's; NULL: no
 * memory. */
struct placed_node *nodes_sort(const struct ctl *ctl, size_t *ret_count);
/* What the picture says, read. What is wrong is told by the keys that lead there. */
int cluster_described(const struct ctl *ctl, const struct picture *picture, struct cluster_spec *ret,
                      struct error *err);
/* The number of the i-th node in the core's cluster. Nodes that HiveD's configuration has and that have not joined come
 * behind those with GPUs, before the others. */
uint32_t placed_number(const struct cluster_spec *cluster, const struct placed_node *nodes, size_t i);
