/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_hived.c - see cluster_hived.h. */
#include "wire/cluster_hived.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/cluster_build.h"
#include "wire/hived_config.h"

static const char *type_name(const struct cell_spec *cells, uint32_t type)
{
    return names_get(&cells->names, cells->types[type].name);
}

static uint32_t type_leaf(const struct cell_spec *cells, uint32_t type)
{
    while (cells->types[type].child != CELL_NONE)
        type = cells->types[type].child;
    return type;
}

static int64_t type_gpus(const struct cell_spec *cells, uint32_t type)
{
    int64_t gpus = 1;

    for (; cells->types[type].child != CELL_NONE; type = cells->types[type].child)
        gpus *= cells->types[type].child_count;
    return gpus;
}

/* How many parts, each of more than one GPU, a cell of the type has; 1: none. */
static int64_t type_parts(const struct cell_spec *cells, uint32_t type)
{
    uint32_t child = cells->types[type].child;

    return child == CELL_NONE || cells->types[child].child == CELL_NONE ? 1 : cells->types[type].child_count;
}

static int node_add(struct cluster_build *build, const struct cell_spec *cells, const struct cell_place *place,
                    uint32_t rack, struct error *err)
{
    struct node_group group = NODE_GROUP_INIT;
    int r = cluster_build_sku(build, type_name(cells, type_leaf(cells, place->type)), &group.sku, err);

    group.name = names_get(&cells->names, place->address);
    group.part = true; /* once in a chain, which the reader has checked */
    group.gpus = type_gpus(cells, place->type);
    group.sockets = type_parts(cells, place->type);
    if (group.sockets > 1)
        group.groups = type_parts(cells, cells->types[place->type].child);
    return r < 0 ? r : cluster_build_nodes(build, &group, rack, 0, err);
}

/* Top cells above the node level are racks; machines that are top cells themselves share one. */
static int nodes_add(struct cluster_build *build, const struct cell_spec *cells, struct error *err)
{
    uint32_t racks = 0, loose = CELL_NONE, rack = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < cells->place_count; i++) {
        const struct cell_place *place = &cells->places[i];

        if (place->parent == CELL_NONE && !cells->types[place->type].node) {
            rack = racks++;
        } else if (place->parent == CELL_NONE) {
            loose = loose == CELL_NONE ? racks++ : loose;
            rack = loose;
        }
        if (cells->types[place->type].node)
            r = node_add(build, cells, place, rack, err);
    }
    return r;
}

static int vcs_add(struct cluster_build *build, const struct cell_spec *cells, struct error *err)
{
    int r = 0;

    for (size_t v = 0; r == 0 && v < cells->vc_count; v++) {
        struct vc_spec *vc;

        r = cluster_build_vc(build, names_get(&cells->names, cells->vcs[v]), &vc, err);
        if (r == 0)
            vc->borrow_max = 0; /* there only opportunistic pods leave their cells */
        for (size_t i = 0; r == 0 && i < cells->grant_count; i++) {
            const struct cell_grant *g = &cells->grants[i];
            uint16_t sku;

            if (g->vc != v)
                continue;
            r = cluster_build_sku(build, type_name(cells, type_leaf(cells, g->type)), &sku, err);
            if (r == 0)
                vc->quota[sku] += (int32_t)(g->count * type_gpus(cells, g->type));
        }
    }
    return r;
}

int cluster_read_hived(const char *file, const struct bytes *bytes, struct cluster_spec *ret_spec, struct error *err)
{
    struct cluster_build build = { 0 };
    struct cell_spec *cells = mem_zalloc(1, sizeof(*cells));
    int r;

    if (!cells)
        return error_set(err, -ENOMEM, "%s: out of memory", file);
    r = hived_config_read(file, bytes, cells, NULL, err);
    if (r < 0) {
        mem_free(cells);
        return r;
    }
    r = nodes_add(&build, cells, err);
    if (r == 0)
        r = vcs_add(&build, cells, err);
    if (r == 0)
        r = cluster_build_take(&build, ret_spec, err);
    cluster_build_done(&build);
    if (r < 0) {
        cell_spec_done(cells);
        mem_free(cells);
        return error_prefix(err, r, "%s", file);
    }
    ret_spec->cells = cells;
    return 0;
}
