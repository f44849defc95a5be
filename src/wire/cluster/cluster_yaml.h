/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cluster_yaml.h - the parts of the cluster file's reader, for cluster_yaml*.c alone. */
#include "wire/cluster/cluster_build.h"
#include "wire/text/yaml_doc.h"

struct percent { /* a share of what a virtual cluster is owed, until that is known */
    uint32_t vc;
    int64_t percent;
};

struct file_cluster {
    struct yaml_doc doc;
    struct cluster_build build;
    struct names racks, domains; /* names in use */
    uint32_t rack;               /* the next one's number */
    bool skus_listed;            /* only these exist */
    const yaml_node_t **places;  /* by guarantee: where it is written */
    struct percent *percents;
    size_t place_capacity, percent_count, percent_capacity;
};

/* Gives an error of the builder the place it lacks. */
int cluster_yaml_built(struct file_cluster *file, const yaml_node_t *node, int r, struct error *err);

/* A SKU that was listed, or, in a file without a list, any. */
int cluster_yaml_sku(struct file_cluster *file, const yaml_node_t *node, uint16_t *ret_sku, struct error *err);

/* The virtual clusters; all nodes are known by now. */
int cluster_yaml_vcs(struct file_cluster *file, yaml_node_t *map, struct error *err);

/* Guarantees as cells; quotas and limits that follow from them. On failure the spec is empty. */
int cluster_yaml_settle(struct file_cluster *file, struct cluster_spec *spec, struct error *err);
