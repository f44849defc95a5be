/* SPDX-License-Identifier: Apache-2.0 */
/* place_pick.c - see place_pick.h. */
#include "policy/place/place_pick.h"

#include <assert.h>
#include <errno.h>

static void pick_range(struct pick *pick, uint32_t first, uint32_t gpus, uint32_t need)
{
    for (uint32_t g = first; need && g < first + gpus; g++)
        if (ledger_whole(pick->ctx->ledger, g)) {
            pick->ctx->out[pick->count++] = g;
            need--;
        }
    assert(need == 0);
}

void pick_node(struct pick *pick, uint32_t node, uint32_t need)
{
    const struct node *n = &pick->ctx->ledger->topo.nodes[node];

    pick_range(pick, n->first_gpu, n->gpus, need);
}

void pick_node_tight(struct pick *pick, uint32_t node, uint32_t need)
{
    const struct topo *topo = &pick->ctx->ledger->topo;
    uint32_t best = topo->nodes[node].cell;

    /* Down from the node while one child holds all: the child with the fewest free that is enough. */
    for (;;) {
        const struct cell *cell = &topo->cells[best];
        uint32_t next = UINT32_MAX;

        if (cell->level == LEVEL_GROUP)
            break;
        for (uint32_t c = cell->first_child; c < cell->first_child + cell->child_count; c++)
            if (topo->cells[c].free >= need && (next == UINT32_MAX || topo->cells[c].free < topo->cells[next].free))
                next = c;
        if (next == UINT32_MAX)
            break;
        best = next;
    }
    pick_range(pick, topo->cells[best].first_gpu, topo->cells[best].gpu_count, need);
}

/* Nodes are appended whole, a few at a time and nearly in order; Shell's gaps keep a wide gang cheap as well. */
void pick_sort(struct pick *pick)
{
    uint32_t *out = pick->ctx->out;

    for (uint32_t i = 0; i < pick->servers && i < pick->count; i++)
        pick->ctx->servers[i] = out[i];
    pick->ctx->server_count = pick->servers < pick->count ? pick->servers : pick->count;
    for (uint32_t gap = pick->count / 2; gap; gap /= 2)
        for (uint32_t i = gap; i < pick->count; i++) {
            uint32_t gpu = out[i], at = i;

            for (; at >= gap && out[at - gap] > gpu; at -= gap)
                out[at] = out[at - gap];
            out[at] = gpu;
        }
}

int pick_share(struct place_ctx *ctx, const struct place_request *request)
{
    const struct ledger *ledger = ctx->ledger;
    struct rank least = { .key = request->share, .time = INT64_MIN };
    struct pick pick = { .ctx = ctx };
    uint32_t gpu = tree_after(ledger->open_nodes, ledger->open_trees[request->sku], &least);
    uint32_t node;

    while (gpu != TREE_NONE && (ledger->gpus[gpu].bad || !ledger->topo.nodes[ledger->gpus[gpu].node].up ||
                                !ledger_memory_fits(ledger, gpu, request->memory_mib)))
        gpu = tree_after(ledger->open_nodes, ledger->open_trees[request->sku], &ledger->open_nodes[gpu].rank);
    if (gpu != TREE_NONE) {
        ctx->out[0] = gpu;
        return 0;
    }
    node = pool_best_fit(pick_pool(ctx, request->sku), 1);
    if (node == BITS_NONE)
        return -EBUSY;
    pick_node(&pick, node, 1);
    return 0;
}

int pick_fullest(struct pick *pick, const struct pool *pool, uint32_t need)
{
    if (pool->free < need)
        return -EBUSY;
    for (uint16_t free = 1; need && free <= pool->gpus_max; free++)
        for (uint32_t n = pool_next(pool, free, 0); need && n != BITS_NONE; n = pool_next(pool, free, n + 1)) {
            uint32_t here = need < free ? need : free;

            pick_node(pick, n, here);
            need -= here;
        }
    assert(need == 0);
    pick_sort(pick);
    return 0;
}

int pick_emptiest(struct pick *pick, const struct pool *pool, uint32_t need)
{
    if (pool->free < need)
        return -EBUSY;
    for (uint16_t free = pool->gpus_max; need && free >= 1; free--)
        for (uint32_t n = pool_next(pool, free, 0); need && n != BITS_NONE; n = pool_next(pool, free, n + 1)) {
            uint32_t here = need < free ? need : free;

            pick_node(pick, n, here);
            need -= here;
        }
    assert(need == 0);
    pick_sort(pick);
    return 0;
}
