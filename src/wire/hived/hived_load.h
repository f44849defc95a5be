/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* hived_load.h - the parts of the reader of HiveD's configuration, for hived_config.c and its parts alone. */
#include "wire/hived/hived_config.h"
#include "wire/text/yaml_doc.h"

struct hived_loader {
    struct yaml_doc doc;
    struct cell_spec *spec;
    struct hived_warnings *warnings;
    struct error *err;
    uint32_t levels[CELL_TYPES_MAX]; /* 1 = device */
    uint64_t leaves[CELL_TYPES_MAX];
    uint32_t tops[CELL_TYPES_MAX]; /* top cells of the type */
    yaml_node_t *type_node[CELL_TYPES_MAX];
    const yaml_node_t **grant_nodes; /* by grant: where it is written */
    size_t grant_node_capacity;
};

/* The text of a scalar. */
const char *hived_text(const yaml_node_t *node);

/* Absent, empty or null: as good as not there. */
bool hived_is_null(const yaml_node_t *node);

/* Values of known keys; NULL for one that is absent or null. Others are told as warnings. */
int hived_keys(struct hived_loader *l, yaml_node_t *map, const char *where, const char *const *known,
               yaml_node_t **values);

int hived_name(struct hived_loader *l, const yaml_node_t *node, const char *what, uint32_t *ret_name);
int hived_grow(struct hived_loader *l, void **block, size_t *capacity, size_t need, size_t size);

/* The cell type of that name, or CELL_NONE. */
uint32_t hived_type_find(const struct hived_loader *l, uint32_t name);

/* physicalCells, in hived_places.c; virtualClusters, in hived_grants.c. Types are known by then. */
int hived_places_load(struct hived_loader *l, yaml_node_t *list);
int hived_vcs_load(struct hived_loader *l, yaml_node_t *map);
