/* SPDX-License-Identifier: Apache-2.0 */
/* topo.c - see topo.h. Built by setup.c; here is what changes while stepping. */
#include "core/topo.h"

#include <assert.h>

static void pool_move(struct pool *pool, uint32_t node, uint16_t from, uint16_t to)
{
    uint32_t i = node - pool->first_node;

    bits_clear(&pool->bucket[from], i);
    pool->bucket_count[from]--;
    bits_set(&pool->bucket[to], i);
    pool->bucket_count[to]++;
    pool->free = pool->free + to - from;
}

/* Keeps the racks of a type ordered by free GPUs, most first, lower number first among equals. */
static void rack_reorder(struct topo *topo, uint32_t node)
{
    uint32_t sku = topo->nodes[node].sku;
    uint32_t cell = topo_above(topo, node, LEVEL_RACK);
    uint32_t rack = cell - topo->rack_cells[0];
    uint32_t element = rack * topo->sku_count + sku;
    struct tree_node *t = &topo->rack_nodes[element];
    int64_t free = topo->pools[topo->rack_pools[element]].free;

    if (topo->rack_count == 1 || t->rank.key == -(__int128)free)
        return;
    tree_remove(topo->rack_nodes, &topo->rack_trees[sku], element);
    t->rank.key = -(__int128)free;
    tree_insert(topo->rack_nodes, &topo->rack_trees[sku], element);
}

void topo_node_free(struct topo *topo, uint32_t node, uint16_t free)
{
    struct node *n = &topo->nodes[node];
    uint16_t was = n->free;

    if (free == was)
        return;
    n->free = free;
    if (!n->up)
        return;
    for (int i = 0; i < 3; i++)
        if (n->pool[i] != POOL_NONE)
            pool_move(&topo->pools[n->pool[i]], node, was, free);
    for (uint32_t c = n->cell; c != UINT32_MAX; c = topo->cells[c].parent)
        topo->cells[c].free = topo->cells[c].free + free - was;
    rack_reorder(topo, node);
}

void topo_node_up(struct topo *topo, uint32_t node, bool up)
{
    struct node *n = &topo->nodes[node];
    uint16_t usable = (uint16_t)(n->gpus - n->bad);

    if (n->up == up)
        return;
    n->up = up;
    for (int i = 0; i < 3; i++) {
        struct pool *pool;

        if (n->pool[i] == POOL_NONE)
            continue;
        pool = &topo->pools[n->pool[i]];
        if (up) {
            bits_set(&pool->bucket[n->free], node - pool->first_node);
            pool->bucket_count[n->free]++;
            pool->free += n->free;
            pool->total += usable;
        } else {
            bits_clear(&pool->bucket[n->free], node - pool->first_node);
            pool->bucket_count[n->free]--;
            pool->free -= n->free;
            pool->total -= usable;
        }
    }
    for (uint32_t c = n->cell; c != UINT32_MAX; c = topo->cells[c].parent)
        topo->cells[c].free = up ? topo->cells[c].free + n->free : topo->cells[c].free - n->free;
    rack_reorder(topo, node);
}

uint32_t topo_above(const struct topo *topo, uint32_t node, enum level level)
{
    uint32_t c = topo->nodes[node].cell;

    while (topo->cells[c].level < level) {
        assert(topo->cells[c].parent != UINT32_MAX);
        c = topo->cells[c].parent;
    }
    return c;
}

uint32_t pool_best_fit(const struct pool *pool, uint32_t need)
{
    for (uint32_t free = need; free <= pool->gpus_max; free++)
        if (pool->bucket_count[free])
            return pool_next(pool, (uint16_t)free, 0);
    return BITS_NONE;
}

uint32_t pool_emptiest(const struct pool *pool)
{
    for (uint32_t free = pool->gpus_max; free > 0; free--)
        if (pool->bucket_count[free])
            return pool_next(pool, (uint16_t)free, 0);
    return BITS_NONE;
}
