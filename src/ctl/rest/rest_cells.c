/* SPDX-License-Identifier: Apache-2.0 */
/* rest_cells.c - the cluster as nested cells with what is in them, and what virtual clusters are guaranteed of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cell/cells.h"
#include "core/ledger/ledger.h"
#include "ctl/insight/watch.h"
#include "ctl/rest/rest.h"

enum { CELLS_MAX = 100000 };

static const char *const level_names[LEVEL_COUNT] = { "group", "socket", "node", "rack", "domain", "cluster" };

struct walk {
    const struct scene *scene;
    const struct ledger *ledger;
    struct json_write *json;
    const struct ctl_node **nodes; /* of the core, by number */
};

/* Rack and domain as their nodes are labelled. */
static void cell_name(const struct walk *walk, const struct cell *cell, uint32_t number)
{
    const struct ctl_node *node = walk->nodes[walk->ledger->gpus[cell->first_gpu].node];
    const char *name = NULL;
    char text[64];

    if (node && cell->level == LEVEL_NODE)
        name = names_get(&walk->scene->registry->node_names, node->name);
    else if (node && (cell->level == LEVEL_RACK || cell->level == LEVEL_DOMAIN))
        name = inventory_label(&node->inventory, level_names[cell->level]);
    (void)snprintf(text, sizeof(text), "%s%u", level_names[cell->level], number);
    json_write_text(walk->json, "name", name && *name ? name : text);
}

/* Who is on a GPU: owners and guests that have not been told to leave, by id. */
static void gpu_put(const struct walk *walk, uint32_t gpu)
{
    const struct gpu *in_core = &walk->ledger->gpus[gpu];
    const struct ctl_node *node = walk->nodes[in_core->node];
    uint32_t index = gpu - walk->ledger->topo.nodes[in_core->node].first_gpu;
    const struct ctl_job *first = NULL;

    json_write_object(walk->json, NULL);
    json_write_i64(walk->json, "index", index);
    json_write_text(walk->json, "state",
                    node && index < node->gpu_count ? gpu_state_text(walk->scene, node, index) : "free");
    json_write_array(walk->json, "jobs");
    for (uint32_t s = in_core->shares; s != SHARE_NONE; s = walk->ledger->shares[s].next_of_gpu) {
        const struct ctl_job *job =
            registry_find(walk->scene->registry, core_job(walk->scene->core, walk->ledger->shares[s].job)->spec.id);

        if (!job || !render_shows(walk->scene, job))
            continue;
        json_write_i64(walk->json, NULL, job->id);
        first = first ? first : job;
    }
    json_write_close(walk->json);
    if (first) {
        json_write_text(walk->json, "vc", vc_name(walk->scene, first->vc));
        json_write_text(walk->json, "user", user_name(walk->scene, first->user));
    } else {
        json_write_null(walk->json, "vc");
        json_write_null(walk->json, "user");
    }
    json_write_bool(walk->json, "guaranteed", in_core->bound);
    json_write_i64(walk->json, "util", node && index < node->gpu_count ? node->gpus[index].util : 0);
    json_write_close(walk->json);
}

static void cell_put(const struct walk *walk, uint32_t number, unsigned depth);

static void below_put(const struct walk *walk, const struct cell *cell, unsigned depth)
{
    if (cell->level == LEVEL_GROUP || cell->child_count == 0) {
        json_write_array(walk->json, "gpus");
        for (uint32_t g = 0; g < cell->gpu_count; g++)
            gpu_put(walk, cell->first_gpu + g);
        json_write_close(walk->json);
        return;
    }
    json_write_array(walk->json, "cells");
    for (uint32_t c = 0; c < cell->child_count; c++)
        cell_put(walk, cell->first_child + c, depth + 1);
    json_write_close(walk->json);
}

static void cell_put(const struct walk *walk, uint32_t number, unsigned depth)
{
    const struct cell *cell = &walk->ledger->topo.cells[number];
    const struct ctl_node *node = NULL;
    struct node_use use;

    if (depth > LEVEL_COUNT || cell->gpu_count == 0)
        return;
    json_write_object(walk->json, NULL);
    json_write_text(walk->json, "level", level_names[cell->level]);
    cell_name(walk, cell, number);
    json_write_i64(walk->json, "gpu_count", cell->gpu_count);
    json_write_i64(walk->json, "free", cell->free);
    if (cell->level == LEVEL_NODE)
        node = walk->nodes[walk->ledger->gpus[cell->first_gpu].node];
    if (node) {
        const char *sku = node->inventory.sku;

        node_use(walk->scene, node, &use);
        json_write_text(walk->json, "state", node_state(node, &use));
        json_write_text(walk->json, "sku", sku ? sku : "");
    }
    below_put(walk, cell, depth);
    json_write_close(walk->json);
}

static uint32_t leaf_first(const struct cells *cells, uint32_t cell)
{
    struct cell_info info;

    for (cells_get(cells, cell, &info); info.level > 1; cells_get(cells, cell, &info))
        cell = info.child_first;
    return cell;
}

/* GPUs of a physical cell by node, numbered as the core and GET /topology do: by their place in the node. */
static void gpus_put(struct json_write *json, const struct cells *cells, uint32_t cell)
{
    struct cell_info info, leaf, above;
    uint32_t first = leaf_first(cells, cell), node = CELL_NONE, base = 0;

    cells_get(cells, cell, &info);
    json_write_array(json, "gpus");
    for (uint32_t l = first; l < first + info.leaves; l++) {
        uint32_t top = l;

        cells_get(cells, l, &leaf);
        if (leaf.node != node) {
            if (node != CELL_NONE) {
                json_write_close(json);
                json_write_close(json);
            }
            for (above = leaf; above.parent != CELL_NONE;) {
                uint32_t up = above.parent;

                cells_get(cells, up, &above);
                if (above.node != leaf.node)
                    break;
                top = up;
            }
            base = leaf_first(cells, top);
            node = leaf.node;
            json_write_object(json, NULL);
            json_write_text(json, "node", cells_node_name(cells, node));
            json_write_array(json, "indices");
        }
        json_write_i64(json, NULL, l - base);
    }
    if (node != CELL_NONE) {
        json_write_close(json);
        json_write_close(json);
    }
    json_write_close(json);
}

/* A guaranteed cell: what it is, how much of it is in use, and which node it stands for now. */
static void owned_put(struct json_write *json, const struct cells *cells, uint32_t number)
{
    struct cell_info info, peer;
    char address[128];

    cells_get(cells, number, &info);
    cells_address(cells, number, address, sizeof(address));
    json_write_object(json, NULL);
    json_write_text(json, "address", address);
    json_write_text(json, "type", cells_type_name(cells, info.type));
    json_write_i64(json, "gpu_count", info.leaves);
    json_write_i64(json, "used", info.used_guaranteed);
    json_write_bool(json, "healthy", info.healthy);
    if (info.peer != CELL_NONE) {
        cells_get(cells, info.peer, &peer);
        cells_address(cells, info.peer, address, sizeof(address));
        json_write_text(json, "bound", address);
        json_write_bool(json, "doomed", peer.doomed);
        gpus_put(json, cells, info.peer);
    } else {
        json_write_null(json, "bound");
        json_write_bool(json, "doomed", false);
        json_write_array(json, "gpus");
        json_write_close(json);
    }
    json_write_close(json);
}

static void vc_put(const struct scene *scene, struct json_write *json, uint32_t v)
{
    static const char *const units[GUARANTEE_UNITS] = { "gpus", "groups", "sockets", "nodes", "racks", "domains" };
    const struct cells *cells = core_cells(scene->core);
    uint32_t own = cells ? cells_vc_find(cells, vc_name(scene, v), strlen(vc_name(scene, v))) : CELL_UNKNOWN, count = 0;

    json_write_object(json, NULL);
    json_write_text(json, "name", vc_name(scene, v));
    json_write_array(json, "guarantees");
    for (uint32_t g = 0; g < scene->cluster->guarantee_count; g++) {
        const struct guarantee *guarantee = &scene->cluster->guarantees[g];

        if (guarantee->vc != v)
            continue;
        json_write_object(json, NULL);
        json_write_text(json, "sku", names_get(&scene->cluster->names, scene->cluster->skus[guarantee->sku].name));
        json_write_i64(json, "count", guarantee->count);
        json_write_text(json, "unit", units[guarantee->unit]);
        json_write_i64(json, "together", guarantee->together);
        json_write_close(json);
    }
    json_write_close(json);
    json_write_array(json, "cells");
    for (uint32_t c = cells ? cells_virtual_first(cells) : 0; cells && c < cells_count(cells) && count < CELLS_MAX;
         c++) {
        struct cell_info info;

        cells_get(cells, c, &info);
        if (info.vc != own || !info.preassigned)
            continue;
        owned_put(json, cells, c);
        count++;
    }
    json_write_close(json);
    json_write_close(json);
}

static void tree_put(struct walk *walk)
{
    const struct topo *topo = &walk->ledger->topo;

    walk->nodes = mem_zalloc(topo->node_count + 1, sizeof(*walk->nodes));
    json_write_array(walk->json, "items");
    for (size_t n = 0; walk->nodes && n < walk->scene->registry->node_count; n++)
        if (walk->scene->registry->nodes[n].core_node < topo->node_count)
            walk->nodes[walk->scene->registry->nodes[n].core_node] = &walk->scene->registry->nodes[n];
    for (uint32_t c = 0; walk->nodes && c < topo->cell_count; c++)
        if (topo->cells[c].level == LEVEL_CLUSTER)
            cell_put(walk, c, 0);
    json_write_close(walk->json);
    mem_free(walk->nodes);
}

void rest_cells(struct request *request)
{
    struct buf out = BUF_INIT((size_t)64 << 20);
    struct json_write json;
    struct scene scene;

    scene_fill(&scene, request);
    json_write_init(&json, &out, false);
    json_write_object(&json, NULL);
    json_write_text(&json, "apiVersion", "v1");
    json_write_text(&json, "kind", "CellTree");
    if (scene.core) {
        struct walk walk = { .scene = &scene, .ledger = core_ledger(scene.core), .json = &json };

        tree_put(&walk);
    } else {
        json_write_array(&json, "items");
        json_write_close(&json);
    }
    json_write_array(&json, "vcs");
    for (uint32_t v = 0; scene.core && v < core_vc_count(scene.core); v++)
        vc_put(&scene, &json, v);
    json_write_close(&json);
    json_write_close(&json);
    reply_buf(request, 200, &out);
}
