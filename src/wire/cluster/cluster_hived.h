/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cluster_hived.h - a cluster from HiveD's configuration file, so that all commands read it as they read ours. */
#include "base/buf.h"
#include "model/cluster.h"
#include "wire/cluster/cluster_yaml.h"

/* Nodes with their GPUs, sockets (the level below the node) and groups (the one below that); top cells above the node
 * are racks. The cells themselves are kept in ret_spec->cells. A machine that is in several
 * chains is a node in each; they go and come back together. */
int cluster_read_hived(const char *file, const struct bytes *bytes, struct cluster_spec *ret_spec, struct error *err)
    __attribute__((warn_unused_result));

/* HiveD's cells in a cluster file that describes its nodes itself, as a controller has it: the nodes are those that
 * have joined, and what HiveD's file says of them is checked against that. What virtual clusters are owed is in
 * virtualClusters; `vcs` tells the rest of them. `at` is the value of physicalCluster; `vcs`:
 * there are some. */
int cluster_hived_cells(struct file_cluster *file, const yaml_node_t *at, bool vcs, struct cluster_spec *spec,
                        struct error *err) __attribute__((warn_unused_result));
