/* SPDX-License-Identifier: Apache-2.0 */
/* locality.c - gangs that say how near their GPUs must lie ("in one rack", "on one socket"), or that ask for whole
 * cells
 * ("two sockets").
 *
 * Of the cells that could hold the gang the one with the fewest free GPUs is taken, the first among equals, which keeps
 * the larger holes for larger gangs; inside it the nodes that give most, so that there are few. A wish looks at larger
 * and larger cells; a must at those of its own level only. Whoever does not ask never comes here.
 *
 * In a virtual cluster's own ledger the nodes that were granted one by one make a rack that is none: two of them may
 * lie anywhere.
 */
#include <errno.h>

#include "core/core_internal.h"

static enum level level_of(uint8_t within)
{
    static const uint8_t levels[WITHIN_COUNT] = { LEVEL_CLUSTER, LEVEL_GROUP, LEVEL_SOCKET,
                                                  LEVEL_NODE,    LEVEL_RACK,  LEVEL_DOMAIN };

    return (enum level)levels[within];
}

/* Cells that hold nothing together. */
static bool loose(const struct ledger *ledger, uint32_t cell)
{
    const struct topo *topo = &ledger->topo;

    return (ledger->loose_rack && cell == topo->zones[ZONE_RACK].first_cell) ||
           (ledger->loose_domain && cell == topo->zones[ZONE_DOMAIN].first_cell);
}

/* GPUs of a cell inside a node that the request could have, were all free or as it is. */
static uint32_t inside(const struct topo *topo, uint32_t cell, const struct place_request *request, bool empty)
{
    const struct cell *c = &topo->cells[cell];
    uint32_t sum = 0;

    if (!request->unit)
        return empty ? c->gpu_count : c->free;
    if (c->level == level_of(request->unit))
        return c->gpu_count == request->per_unit && (empty || c->free == c->gpu_count) ? c->gpu_count : 0;
    for (uint32_t i = 0; c->level > LEVEL_GROUP && i < c->child_count; i++)
        sum += inside(topo, c->first_child + i, request, empty);
    return sum;
}

/* The same of a node; one that must give an exact number gives that or nothing. */
static uint32_t node_gives(const struct topo *topo, uint32_t n, const struct place_request *request, bool empty)
{
    const struct node *node = &topo->nodes[n];
    uint32_t gives;

    if (node->sku != request->sku || (!node->up && !empty))
        return 0;
    gives = inside(topo, node->cell, request, empty);
    if (request->per_node)
        gives = gives >= request->per_node ? request->per_node : 0;
    return gives;
}

static void nodes_of(const struct ledger *ledger, uint32_t cell, uint32_t range[2])
{
    const struct cell *c = &ledger->topo.cells[cell];

    range[0] = ledger->gpus[c->first_gpu].node;
    range[1] = c->gpu_count ? ledger->gpus[c->first_gpu + c->gpu_count - 1].node + 1 : range[0];
}

static uint32_t cell_gives(const struct ledger *ledger, uint32_t cell, const struct place_request *request, bool empty)
{
    const struct topo *topo = &ledger->topo;
    uint32_t range[2], sum = 0;

    if (topo->cells[cell].gpu_count == 0)
        return 0;
    nodes_of(ledger, cell, range);
    if (topo->cells[cell].level < LEVEL_NODE) {
        if (topo->nodes[range[0]].sku != request->sku || (!topo->nodes[range[0]].up && !empty) ||
            (request->per_node && request->per_node != request->gpus))
            return 0;
        return inside(topo, cell, request, empty);
    }
    for (uint32_t n = range[0]; n < range[1]; n++)
        sum += node_gives(topo, n, request, empty);
    return sum;
}

/* Cells lie by level, so those of one above the sockets are neighbours; sockets and groups are found by looking. */
static uint32_t choose(const struct ledger *ledger, enum level level, const struct place_request *request, bool empty)
{
    const struct topo *topo = &ledger->topo;
    uint32_t best = UINT32_MAX, fewest = UINT32_MAX;

    for (uint32_t c = 0; c < topo->cell_count; c++) {
        uint32_t gives;

        if (topo->cells[c].level != level || loose(ledger, c) ||
            (!empty && topo->cells[c].free < (uint32_t)request->gpus))
            continue;
        gives = cell_gives(ledger, c, request, empty);
        if (gives >= (uint32_t)request->gpus && gives < fewest) {
            best = c;
            fewest = gives;
        }
    }
    return best;
}

/* Free GPUs of a cell inside a node, from the first on; whole cells only, where those are asked for. */
static void collect(struct place_ctx *ctx, uint32_t cell, const struct place_request *request, uint32_t need,
                    uint32_t *count)
{
    const struct topo *topo = &ctx->ledger->topo;
    const struct cell *c = &topo->cells[cell];
    uint32_t end = *count + need;

    if (request->unit && c->level > level_of(request->unit)) {
        for (uint32_t i = 0; i < c->child_count && *count < end; i++)
            collect(ctx, c->first_child + i, request, end - *count, count);
        return;
    }
    if (request->unit && (c->gpu_count != request->per_unit || c->free != c->gpu_count))
        return;
    for (uint32_t g = c->first_gpu; g < c->first_gpu + c->gpu_count && *count < end; g++)
        if (ledger_whole(ctx->ledger, g))
            ctx->out[(*count)++] = g;
}

/* The node that gives most of those not taken yet; the last one gives what is just enough. */
static uint32_t next_node(const struct place_ctx *ctx, const uint32_t range[2], const struct place_request *request,
                          uint32_t need)
{
    uint32_t best = UINT32_MAX, most = 0;

    for (uint32_t n = range[0]; n < range[1]; n++) {
        uint32_t gives = ctx->servers[n - range[0]] ? 0 : node_gives(&ctx->ledger->topo, n, request, false);

        if (gives == 0)
            continue;
        if (best == UINT32_MAX || (most < need ? gives > most : gives >= need && gives < most)) {
            best = n;
            most = gives;
        }
    }
    return best;
}

static void take_nodes(struct place_ctx *ctx, uint32_t cell, const struct place_request *request)
{
    uint32_t range[2], need = (uint32_t)request->gpus, count = 0;

    nodes_of(ctx->ledger, cell, range);
    for (uint32_t n = range[0]; n < range[1]; n++)
        ctx->servers[n - range[0]] = 0; /* room that is not in use yet: which nodes were taken */
    while (need) {
        uint32_t n = next_node(ctx, range, request, need), gives = node_gives(&ctx->ledger->topo, n, request, false);

        gives = gives < need ? gives : need;
        ctx->servers[n - range[0]] = 1;
        collect(ctx, ctx->ledger->topo.nodes[n].cell, request, gives, &count);
        need -= gives;
    }
    gpus_sort(ctx->out, count);
}

int within_find(struct place_ctx *ctx, const struct place_request *request)
{
    enum level level = request->within ? level_of(request->within) : LEVEL_NODE;
    uint32_t cell = choose(ctx->ledger, level, request, false), count = 0;

    /* What is merely wished for, or not said, is as near as can be. */
    while (cell == UINT32_MAX && level < LEVEL_CLUSTER && !(request->within && request->must)) {
        level++;
        cell = choose(ctx->ledger, level, request, false);
    }
    if (cell == UINT32_MAX || (level == LEVEL_CLUSTER && !request->unit))
        return -EBUSY; /* a wish that nothing was left of */
    if (level < LEVEL_NODE)
        collect(ctx, cell, request, (uint32_t)request->gpus, &count);
    else
        take_nodes(ctx, cell, request);
    return 0;
}

bool within_possible(const struct ledger *ledger, const struct jobspec *spec, uint32_t mask)
{
    struct place_request request = { .gpus = spec->gpus,
                                     .share = spec->share,
                                     .per_node = spec->per_node,
                                     .per_unit = spec->per_unit,
                                     .unit = spec->unit };
    enum level level = spec->within && spec->within_must ? level_of(spec->within) : LEVEL_CLUSTER;

    for (uint32_t s = 0; s < ledger->topo.sku_count; s++) {
        request.sku = (uint16_t)s;
        if (mask >> s & 1 && choose(ledger, level, &request, true) != UINT32_MAX)
            return true;
    }
    return false;
}

/* The cell of a level that a GPU lies in. */
static uint32_t cell_above(const struct ledger *ledger, uint32_t gpu, enum level level)
{
    uint32_t c = ledger->gpus[gpu].group;

    while (ledger->topo.cells[c].level < level)
        c = ledger->topo.cells[c].parent;
    return c;
}

int within_check(const struct ledger *ledger, const struct placement *to, const struct jobspec *spec)
{
    uint32_t cell;

    if (spec->within && spec->within_must) {
        cell = cell_above(ledger, to->gpus[0], level_of(spec->within));
        if (loose(ledger, cell) || cell_above(ledger, to->gpus[to->count - 1], level_of(spec->within)) != cell)
            return -EINVAL; /* they ascend, and a cell is a range */
    }
    for (uint32_t i = 0; spec->unit && i < to->count; i += spec->per_unit) {
        cell = cell_above(ledger, to->gpus[i], level_of(spec->unit));
        if (ledger->topo.cells[cell].gpu_count != spec->per_unit || ledger->topo.cells[cell].first_gpu != to->gpus[i] ||
            i + spec->per_unit > to->count || to->gpus[i + spec->per_unit - 1] != to->gpus[i] + spec->per_unit - 1)
            return -EINVAL;
    }
    return 0;
}
