/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cluster_vcs.h - virtual clusters of which the nodes are not known yet.
 *
 * A controller's configuration has them as a cluster file does, and is read before any node has joined. What depends on
 * nodes (whether there are as many GPUs, of these types) is not judged here; the rest is, in its place.
 */
#include "model/cluster.h"
#include "wire/text/yaml_doc.h"

/* *ret_spec has the virtual clusters, and a SKU for each that they name; for policies, see policy_compose(). */
int cluster_vcs_read(const struct yaml_doc *doc, yaml_node_t *map, struct cluster_spec *ret_spec, struct error *err)
    __attribute__((warn_unused_result));
