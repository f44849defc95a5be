/* SPDX-License-Identifier: Apache-2.0 */
/* vc_cells_build.c - the cells of a cluster, and each virtual cluster as one of its own.
 *
 * A granted cell of one node is a node there, a smaller one a small node; nodes that were granted one by one make one
 * rack, each granted rack is a rack, what is larger a domain. The first GPU of a node is the first device of its cell,
 * in the order of the tree.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "core/core_internal.h"

struct builder {
    struct core *core;
    const struct cluster_spec *spec;
    const struct cell_spec *cells;
    uint16_t *sku_of_type; /* of the devices a type is made of */
    bool *failed;
    struct error *err;
    struct host_room slices[CELL_CHAINS_MAX]; /* what each GPU of a chain's nodes comes with, at least */
    uint32_t vc, cells_vc;                    /* the one under way, by its number here and there */
    struct cluster_spec own;
    bool loose_rack, loose_domain; /* of it: the first ones are no cells */
    uint32_t gpus;
};

static uint32_t type_leaves(const struct cell_spec *cells, uint32_t type)
{
    uint32_t leaves = 1;

    for (; cells->types[type].child != CELL_NONE; type = cells->types[type].child)
        leaves *= cells->types[type].child_count;
    return leaves;
}

static uint32_t leaf_type(const struct cell_spec *cells, uint32_t type)
{
    while (cells->types[type].child != CELL_NONE)
        type = cells->types[type].child;
    return type;
}

/* The GPU type each cell type is made of. A type nobody has GPUs of stays unknown. */
static int map_types(struct builder *b)
{
    b->sku_of_type = mem_zalloc(b->cells->type_count + 1, sizeof(*b->sku_of_type));
    if (!b->sku_of_type)
        return error_set(b->err, -ENOMEM, "no memory for %zu cell types", b->cells->type_count);
    for (uint32_t t = 0; t < b->cells->type_count; t++) {
        const char *name = names_get(&b->cells->names, b->cells->types[leaf_type(b->cells, t)].name);

        b->sku_of_type[t] = SKUS_MAX;
        for (uint32_t s = 0; s < b->spec->sku_count; s++)
            if (strcmp(names_get(&b->spec->names, b->spec->skus[s].name), name) == 0)
                b->sku_of_type[t] = (uint16_t)s;
    }
    return 0;
}

/* The node that a cell is, or CELL_NONE; one machine with two types of GPUs is two nodes of one name. */
static uint32_t node_find(const struct builder *b, const uint32_t *by_name, const struct cell_info *info)
{
    const char *name = cells_node_name(b->core->cells, info->node);
    uint32_t n = names_find(&b->spec->names, name, strlen(name));

    if (n == NAME_NONE)
        return CELL_NONE;
    for (n = by_name[n]; n < b->spec->node_count; n++)
        if (strcmp(names_get(&b->spec->names, b->spec->nodes[n].name), name) == 0 &&
            b->spec->nodes[n].sku == b->sku_of_type[info->type] && b->spec->nodes[n].gpus == info->leaves &&
            b->core->leaf_of[b->core->ledger.topo.nodes[n].first_gpu] == CELL_NONE)
            return n;
    return CELL_NONE;
}

/* CPUs and memory of a node, but for what jobs without GPUs may have, go with its GPUs in equal parts. A virtual cell
 * may be bound to any node of its chain, so the least of them counts. */
static void slice_note(struct builder *b, uint32_t chain, const struct node_spec *node)
{
    struct host_room *slice = &b->slices[chain];
    uint32_t part = node->cpu_jobs < node->cpus ? node->cpu_jobs : node->cpus;
    uint32_t mcpus = (node->cpus - part) * 1000 / node->gpus, mib = node->memory_mib;

    if (node->cpus)
        mib -= (uint32_t)((uint64_t)node->memory_mib * part / node->cpus);
    mib /= node->gpus;
    if (node->cpus && (slice->mcpus == 0 || mcpus < slice->mcpus))
        slice->mcpus = mcpus ? mcpus : 1;
    if (node->memory_mib && (slice->mib == 0 || mib < slice->mib))
        slice->mib = mib ? mib : 1;
}

static int link_node(struct builder *b, const uint32_t *by_name, const struct cell_info *info, uint32_t first)
{
    struct core *core = b->core;
    uint32_t n = node_find(b, by_name, info);

    if (n == CELL_NONE)
        return error_set(b->err, -EINVAL, "cells: no node '%s' with %u GPUs of type '%s' in the cluster",
                         cells_node_name(core->cells, info->node), info->leaves,
                         names_get(&b->cells->names, b->cells->types[leaf_type(b->cells, info->type)].name));
    slice_note(b, info->chain, &b->spec->nodes[n]);
    core->cell_node[n] = info->node;
    for (uint32_t i = 0; i < info->leaves; i++) {
        core->leaf_of[core->ledger.topo.nodes[n].first_gpu + i] = first + i;
        core->gpu_of[first + i] = core->ledger.topo.nodes[n].first_gpu + i;
    }
    return 0;
}

/* The first device below a cell. */
static uint32_t first_leaf(const struct cells *cells, uint32_t cell)
{
    struct cell_info info;

    for (cells_get(cells, cell, &info); info.child_count; cells_get(cells, cell, &info))
        cell = info.child_first;
    return cell;
}

/* Which device of the cells is which GPU. */
static int link_nodes(struct builder *b)
{
    struct core *core = b->core;
    uint32_t *by_name = mem_zalloc(b->spec->names.count + 1, sizeof(*by_name));
    int r = 0;

    if (!by_name)
        return error_set(b->err, -ENOMEM, "no memory for %u nodes", b->spec->node_count);
    for (uint32_t i = 0; i < b->spec->names.count; i++)
        by_name[i] = b->spec->node_count;
    for (uint32_t n = b->spec->node_count; n-- > 0;)
        by_name[b->spec->nodes[n].name] = n;
    for (uint32_t g = 0; g < core->ledger.topo.gpu_count; g++)
        core->leaf_of[g] = CELL_NONE;
    for (uint32_t n = 0; n < b->spec->node_count; n++)
        core->cell_node[n] = CELL_NONE;
    for (uint32_t c = 0; r == 0 && c < cells_virtual_first(core->cells); c++) {
        struct cell_info info;

        cells_get(core->cells, c, &info);
        if (b->cells->types[info.type].node)
            r = link_node(b, by_name, &info, first_leaf(core->cells, c));
    }
    mem_free(by_name);
    return r;
}

/* What a virtual node comes with is counted in thousandths of CPUs. None is for jobs without GPUs. */
static void own_hosts(const struct builder *b, struct ledger *own)
{
    for (uint32_t n = 0; own->hosts && n < own->topo.node_count; n++)
        own->hosts[n].most.mcpus = b->own.nodes[n].cpus;
}

/* A virtual node, or a part of one that was granted alone. */
static void add_node(struct builder *b, uint32_t cell, const struct cell_info *info)
{
    const struct cell_type *types = b->cells->types;
    struct cluster_spec *own = &b->own;
    struct node_spec *node = &own->nodes[own->node_count++];
    uint32_t first = first_leaf(b->core->cells, cell), type = info->type, depth = 0;

    *node = (struct node_spec){ .rack = own->rack_count - 1,
                                .domain = own->domain_count - 1,
                                .sku = b->sku_of_type[type],
                                .gpus = (uint16_t)info->leaves,
                                .sockets = 1,
                                .groups = 1,
                                .memory_mib = b->slices[info->chain].mib * info->leaves };
    node->cpus = b->slices[info->chain].mcpus * info->leaves; /* in thousandths, see own_hosts() */
    for (uint32_t t = type; types[t].child != CELL_NONE; t = types[t].child)
        depth++;
    if (depth >= 3) {
        node->sockets = (uint16_t)types[type].child_count;
        type = types[type].child;
    }
    for (; depth >= 2 && types[types[type].child].child != CELL_NONE; type = types[type].child)
        node->groups = (uint16_t)(node->groups * types[type].child_count);
    for (uint32_t i = 0; i < info->leaves; i++) {
        b->core->vcs[b->vc].own_cells[b->gpus] = first + i;
        b->core->own_of[first + i - cells_virtual_first(b->core->cells)] = (struct own_place){ b->vc, b->gpus++ };
    }
}

static bool has_node(const struct cell_spec *cells, uint32_t type)
{
    for (; type != CELL_NONE; type = cells->types[type].child)
        if (cells->types[type].node)
            return true;
    return false;
}

/* The nodes at and below a granted cell; racks are the cells just above them. */
static void add_tree(struct builder *b, uint32_t cell)
{
    struct cell_info info;
    bool above;

    cells_get(b->core->cells, cell, &info);
    if (b->cells->types[info.type].node || !has_node(b->cells, info.type)) {
        add_node(b, cell, &info);
        return;
    }
    above = b->cells->types[b->cells->types[info.type].child].node;
    b->own.rack_count += above;
    for (uint32_t i = 0; i < info.child_count; i++)
        add_tree(b, info.child_first + i);
}

/* How many levels of more than one node a granted cell has: 0 loose nodes, 1 racks, 2 and more domains. */
static uint32_t kind_of(const struct cell_spec *cells, uint32_t type)
{
    uint32_t kind = 0;

    for (; !cells->types[type].node && has_node(cells, type); type = cells->types[type].child)
        kind++;
    return kind < 2 ? kind : 2;
}

/* Granted cells of one kind after the other, each kind in the order of the file. */
static void add_granted(struct builder *b)
{
    const struct cells *cells = b->core->cells;

    b->own.domain_count = b->own.rack_count = 1;
    b->loose_rack = false;
    b->loose_domain = true;
    for (uint32_t kind = 0; kind < 3; kind++)
        for (uint32_t c = cells_virtual_first(cells); c < cells_count(cells); c++) {
            struct cell_info info;

            if (cells_parent(cells, c) != CELL_NONE)
                continue;
            cells_get(cells, c, &info);
            if (info.vc != b->cells_vc || kind_of(b->cells, info.type) != kind)
                continue;
            if (kind == 1 && b->own.rack_count == 1 && b->own.node_count == 0)
                b->own.rack_count = 0; /* no loose nodes, so no rack for them */
            b->loose_rack |= kind == 0;
            if (kind == 2 && b->own.node_count) {
                b->own.domain_count++;
            } else if (kind == 2) {
                b->own.rack_count = 0;
                b->loose_domain = false;
            }
            add_tree(b, c);
        }
}

static uint32_t granted_gpus(const struct builder *b)
{
    uint32_t gpus = 0;

    for (size_t i = 0; i < b->cells->grant_count; i++)
        if (b->cells->grants[i].vc == b->cells_vc)
            gpus += type_leaves(b->cells, b->cells->grants[i].type) *
                    (b->cells->grants[i].pin == CELL_NONE ? b->cells->grants[i].count : 1);
    return gpus;
}

static int build_one(struct builder *b, uint32_t v)
{
    struct core *core = b->core;
    struct vc *vc = &core->vcs[v];
    const char *name = names_get(&b->spec->names, b->spec->vcs[v].name);
    uint32_t most;

    b->vc = v;
    b->cells_vc = cells_vc_find(core->cells, name, strlen(name));
    b->gpus = 0;
    most = b->cells_vc == CELL_UNKNOWN ? 0 : granted_gpus(b);
    b->own = (struct cluster_spec){ .sku_count = b->spec->sku_count };
    memcpy(b->own.skus, b->spec->skus, sizeof(b->own.skus));
    b->own.nodes = mem_zalloc(most + 1, sizeof(*b->own.nodes));
    vc->own = core_block(core, b->failed, 1, sizeof(*vc->own));
    vc->own_cells = core_block(core, b->failed, most, sizeof(*vc->own_cells));
    if (*b->failed || !b->own.nodes) {
        mem_free(b->own.nodes);
        return error_set(b->err, -ENOMEM, "no memory for the cells of '%s'", name);
    }
    add_granted(b);
    vc->own->imagined = true;
    vc->own->loose_rack = b->loose_rack;
    vc->own->loose_domain = b->loose_domain;
    core_build_ledger(core, vc->own, &b->own, b->failed);
    own_hosts(b, vc->own);
    mem_free(b->own.nodes);
    for (uint32_t s = 0; s < b->spec->sku_count; s++)
        vc->quota[s] = (int64_t)vc->own->topo.sku_gpus[s] * MGPU_ONE;
    vc->view.split = true;
    own_look(core, vc, true);
    return *b->failed ? error_set(b->err, -ENOMEM, "no memory for the cells of '%s'", name) : 0;
}

static int build_blocks(struct builder *b)
{
    struct core *core = b->core;
    uint32_t gpus = core->ledger.topo.gpu_count, first = cells_virtual_first(core->cells);
    uint32_t **lists[] = { &core->map.own,    &core->map.gpus,       &core->map.cells,
                           &core->map.leaves, &core->map.idle_cells, &core->map.idle_leaves };

    core->leaf_of = core_block(core, b->failed, gpus, sizeof(*core->leaf_of));
    core->gpu_of = core_block(core, b->failed, first, sizeof(*core->gpu_of));
    core->cell_node = core_block(core, b->failed, b->spec->node_count, sizeof(*core->cell_node));
    core->chosen = core_block(core, b->failed, cells_node_count(core->cells) / 64 + 1, sizeof(*core->chosen));
    core->own_of = core_block(core, b->failed, cells_count(core->cells) - first, sizeof(*core->own_of));
    core->shut = core_block(core, b->failed, gpus / 64 + 1, sizeof(*core->shut)); /* a node has a GPU at least */
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
        *lists[i] = core_block(core, b->failed, gpus, sizeof(**lists[i]));
    core->stamp = 1;
    for (uint32_t i = 0; !*b->failed && i < cells_count(core->cells) - first; i++)
        core->own_of[i].gpu = UINT32_MAX;
    return *b->failed ? error_set(b->err, -ENOMEM, "no memory for the cells of %u GPUs", gpus) : 0;
}

int own_build(struct core *core, const struct cluster_spec *spec, bool *failed, struct error *err)
{
    struct builder b = { .core = core, .spec = spec, .cells = spec->cells, .failed = failed, .err = err };
    /* The core keeps gangs itself; the allocator needs no room for any. */
    int r = cells_new(spec->cells, &(struct cells_limits){ .groups = 1, .foreign_leaves = 1 }, &core->cells, err);

    if (r == 0)
        r = map_types(&b);
    if (r == 0)
        r = build_blocks(&b);
    if (r == 0)
        r = link_nodes(&b);
    for (uint32_t v = 0; r == 0 && v < spec->vc_count; v++)
        r = build_one(&b, v);
    mem_free(b.sku_of_type);
    return r;
}
