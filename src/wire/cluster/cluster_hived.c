/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_hived.c - see cluster_hived.h. */
#include "wire/cluster/cluster_hived.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/cluster/cluster_build.h"
#include "wire/hived/hived_config.h"

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
    group.cpus = group.gpus * cells->types[type_leaf(cells, place->type)].cpus;
    group.cpu_jobs = 0; /* all of them come with devices */
    group.memory_mib = (uint32_t)group.gpus * cells->types[type_leaf(cells, place->type)].memory_mib;
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

static uint32_t spec_node(const struct cluster_spec *spec, const char *name)
{
    uint32_t number = names_find(&spec->names, name, strlen(name));

    for (uint32_t n = 0; number != NAME_NONE && n < spec->node_count; n++)
        if (spec->nodes[n].name == number)
            return n;
    return CELL_NONE;
}

/* Of a machine's CPUs and memory, devices come with what skuTypes says; jobs without GPUs may have the other CPUs. */
static void node_room(struct node_spec *node, const struct cell_type *device)
{
    uint32_t mib = device->memory_mib * node->gpus, cpus = device->cpus * node->gpus;

    if (device->cpus && node->cpus > cpus) {
        node->cpu_jobs = node->cpus - cpus;
        mib = (uint32_t)muldiv_floor(mib, node->cpus, cpus); /* jobs without GPUs get their part of it, too */
    } else if (device->cpus) {
        node->cpu_jobs = 0;
        node->cpus = node->cpus ? node->cpus : cpus;
    }
    if (device->memory_mib && (node->memory_mib == 0 || node->memory_mib > mib))
        node->memory_mib = mib;
}

/* A machine of physicalCells must be a node of the cluster, with these devices. */
static int node_match(struct cluster_spec *spec, const struct cell_spec *cells, const struct cell_place *place,
                      struct error *err)
{
    const char *name = names_get(&cells->names, place->address);
    uint32_t n = spec_node(spec, name), device = type_leaf(cells, place->type);
    const char *sku = n == CELL_NONE ? "" : names_get(&spec->names, spec->skus[spec->nodes[n].sku].name);

    if (n == CELL_NONE)
        return error_set(err, -EINVAL, "node '%.60s' of physicalCells is not among the nodes", name);
    if (spec->nodes[n].gpus != type_gpus(cells, place->type) || strcmp(sku, type_name(cells, device)) != 0)
        return error_set(err, -EINVAL, "node '%.60s' has %lld x %.40s in physicalCells, and really %d x %.40s", name,
                         (long long)type_gpus(cells, place->type), type_name(cells, device), spec->nodes[n].gpus, sku);
    if (spec->nodes[n].apart)
        return error_set(err, -EINVAL, "node '%.60s' of physicalCells cannot be kept apart: guarantees are made of it",
                         name);
    node_room(&spec->nodes[n], &cells->types[device]);
    return 0;
}

static int grants_sum(struct cluster_spec *spec, const struct cell_spec *cells, struct error *err)
{
    for (size_t i = 0; i < cells->grant_count; i++) {
        const struct cell_grant *g = &cells->grants[i];
        const char *name = names_get(&cells->names, cells->vcs[g->vc]);
        uint32_t v = 0, s = 0;

        while (v < spec->vc_count && strcmp(names_get(&spec->names, spec->vcs[v].name), name) != 0)
            v++;
        if (v == spec->vc_count)
            return error_set(err, -EINVAL, "'%.60s' of virtualClusters is not among vcs", name);
        while (s < spec->sku_count &&
               strcmp(names_get(&spec->names, spec->skus[s].name), type_name(cells, type_leaf(cells, g->type))) != 0)
            s++;
        if (s < spec->sku_count)
            spec->vcs[v].quota[s] += (int32_t)(g->count * type_gpus(cells, g->type));
    }
    return 0;
}

/* The GPUs that virtualClusters grants are what virtual clusters are owed; `vcs`, if it is there, may say the same and
 * nothing else. */
static int grants_match(struct cluster_spec *spec, const struct cell_spec *cells, bool vcs, struct error *err)
{
    int32_t(*told)[SKUS_MAX] = mem_zalloc(spec->vc_count, sizeof(*told));
    int r = told ? 0 : error_set(err, -ENOMEM, "out of memory");

    for (uint32_t v = 0; r == 0 && v < spec->vc_count; v++) {
        memcpy(told[v], spec->vcs[v].quota, sizeof(*told));
        memset(spec->vcs[v].quota, 0, sizeof(spec->vcs[v].quota));
    }
    if (r == 0)
        r = grants_sum(spec, cells, err);
    for (uint32_t v = 0; r == 0 && vcs && v < spec->vc_count; v++)
        for (uint32_t s = 0; r == 0 && s < spec->sku_count; s++)
            if (told[v][s] != spec->vcs[v].quota[s])
                r = error_set(err, -EINVAL, "'%.60s' is granted %d x %.40s by virtualClusters, and not %d",
                              names_get(&spec->names, spec->vcs[v].name), spec->vcs[v].quota[s],
                              names_get(&spec->names, spec->skus[s].name), told[v][s]);
    mem_free(told);
    return r;
}

int cluster_hived_cells(struct file_cluster *file, const yaml_node_t *at, bool vcs, struct cluster_spec *spec,
                        struct error *err)
{
    struct cell_spec *cells = mem_zalloc(1, sizeof(*cells));
    struct error words = { 0 };
    int r;

    if (!cells)
        return error_set(err, -ENOMEM, "%s: out of memory", file->doc.file);
    r = hived_config_load(&file->doc, cells, NULL, err);
    if (r == 0) {
        spec->cells = cells;
        if (spec->guarantee_count)
            r = error_set(&words, -EINVAL, "'guarantee' in vcs: guarantees are in virtualClusters");
        for (size_t i = 0; r == 0 && i < cells->place_count; i++)
            if (cells->types[cells->places[i].type].node)
                r = node_match(spec, cells, &cells->places[i], &words);
        if (r == 0)
            r = grants_match(spec, cells, vcs, &words);
        if (r < 0)
            (void)yaml_fail(&file->doc, at, err, "%s", words.text);
    } else {
        mem_free(cells);
    }
    if (r < 0)
        cluster_spec_done(spec);
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
