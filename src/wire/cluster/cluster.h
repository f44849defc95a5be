/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cluster.h - clusters from a short string, a YAML file or a foreign table; docs/cluster-file.md describes them.
 *
 * Each fills *ret_spec (zero before, untouched on failure) and checks it: limits, shapes that do not divide, quotas
 * above what there is.
 */
#include <stdbool.h>

#include "base/buf.h"
#include "model/cluster.h"

/* "3x8", "4x8:H100", "racks:2 nodes:16 gpus:8 sku:V100"; several groups divided by '+' or ';'. */
int cluster_parse(const char *text, struct cluster_spec *ret_spec, struct error *err)
    __attribute__((warn_unused_result));

/* Ours, or HiveD's configuration file; both fill ret_spec->cells when they speak of cells. */
int cluster_read_yaml(const char *file, const struct bytes *bytes, struct cluster_spec *ret_spec, struct error *err)
    __attribute__((warn_unused_result));

/* Is this HiveD's configuration file? */
bool cluster_is_hived(const char *file, const struct bytes *bytes);

/* The Tiresias simulator's shape (num_switch, num_node_p_switch, ...), or Alibaba's list of nodes (sn, gpu, model):
 * nodes without a GPU are passed over. */
int cluster_read_csv(const char *file, const struct bytes *bytes, struct cluster_spec *ret_spec, struct error *err)
    __attribute__((warn_unused_result));
