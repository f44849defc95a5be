/* SPDX-License-Identifier: Apache-2.0 */
/* topo.c - see topo.h. Built by setup.c; here is what changes while stepping. */
#include "core/ledger/topo.h"

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

/* The node's free GPUs changed: its rack and its domain may have a new place in the order. */
static void zones_reorder(struct topo *topo, uint32_t node)
{
    uint32_t sku = topo->nodes[node].sku;

    for (int kind = 0; kind < ZONE_KINDS; kind++) {
        struct zones *zones = &topo->zones[kind];
        uint32_t cell, element;
        struct tree_node *t;
        int64_t free;

        if (zones->count == 1)
            continue;
        cell = topo_above(topo, node, kind == ZONE_RACK ? LEVEL_RACK : LEVEL_DOMAIN);
        element = (cell - zones->first_cell) * topo->sku_count + sku;
        t = &zones->nodes[element];
        free = topo->pools[zones->pools[element]].free;
        if (t->rank.key == -(__int128)free)
            continue;
        tree_remove(zones->nodes, &zones->trees[sku], element);
        t->rank.key = -(__int128)free;
        tree_insert(zones->nodes, &zones->trees[sku], element);
    }
}

const struct pool *topo_next_zone(const struct topo *topo, enum zone_kind kind, uint32_t sku, uint32_t *element)
{
    const struct zones *zones = &topo->zones[kind];
    bool first = *element == TREE_NONE;

    if (zones->count == 1) {
        *element = 0;
        return first ? &topo->pools[topo->sku_pools[sku]] : NULL;
    }
    *element = first ? tree_first(zones->nodes, zones->trees[sku])
                     : tree_after(zones->nodes, zones->trees[sku], &zones->nodes[*element].rank);
    return *element == TREE_NONE ? NULL : &topo->pools[zones->pools[*element]];
}

const struct pool *topo_best_zone(const struct topo *topo, enum zone_kind kind, uint32_t sku, uint32_t need)
{
    const struct zones *zones = &topo->zones[kind];
    const struct pool *all = &topo->pools[topo->sku_pools[sku]];
    struct rank bound = { .key = -(__int128)need, .time = INT64_MAX, .id = INT64_MAX };
    uint32_t element;

    if (zones->count == 1)
        return all->free >= need ? all : NULL;
    /* Most free first, so the last that has enough is the fullest. */
    element = tree_before(zones->nodes, zones->trees[sku], &bound);
    return element == TREE_NONE ? NULL : &topo->pools[zones->pools[element]];
}

void topo_node_free(struct topo *topo, uint32_t node, uint16_t free)
{
    struct node *n = &topo->nodes[node];
    uint16_t was = n->free;

    if (free == was)
        return;
    n->free = free;
    if (!n->up) {
        topo->sku_draining[n->sku] = topo->sku_draining[n->sku] + was - free;
        return;
    }
    for (int i = 0; i <= ZONE_KINDS; i++)
        if (n->pool[i] != POOL_NONE)
            pool_move(&topo->pools[n->pool[i]], node, was, free);
    for (uint32_t c = n->cell; c != UINT32_MAX; c = topo->cells[c].parent)
        topo->cells[c].free = topo->cells[c].free + free - was;
    zones_reorder(topo, node);
}

void topo_node_up(struct topo *topo, uint32_t node, bool up)
{
    struct node *n = &topo->nodes[node];
    uint16_t usable = (uint16_t)(n->gpus - n->bad);

    if (n->up == up)
        return;
    n->up = up;
    if (n->gpus == 0)
        return;
    if (up)
        topo->sku_draining[n->sku] -= (uint32_t)(usable - n->free);
    else
        topo->sku_draining[n->sku] += (uint32_t)(usable - n->free);
    for (int i = 0; i <= ZONE_KINDS; i++) {
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
    zones_reorder(topo, node);
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
