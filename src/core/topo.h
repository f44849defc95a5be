/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* topo.h - the cluster as nested cells, and the free GPUs in each.
 *
 * cluster > domain > rack > node > socket > group > GPU. Every cell covers a contiguous range of GPUs and of nodes,
 * which is what makes "all GPUs of this rack" a pair of numbers. Several GPU types live side by side; a node has one.
 *
 * For every (domain or rack or cluster, GPU type) there is a pool: its nodes in buckets by how many GPUs they have
 * free. Best fit, emptiest node and "k whole nodes in one rack" are then word operations on bitmaps, at 16 nodes and
 * at 16,000 alike.
 */
#include <stdint.h>

#include "base/bits.h"
#include "base/tree.h"
#include "model/cluster.h"

enum level { LEVEL_GROUP, LEVEL_SOCKET, LEVEL_NODE, LEVEL_RACK, LEVEL_DOMAIN, LEVEL_CLUSTER, LEVEL_COUNT };

#define POOL_NONE UINT32_MAX

struct cell {
    uint32_t parent, first_child, child_count;
    uint32_t first_gpu, gpu_count;
    uint32_t free; /* whole GPUs nobody holds or reserves, on nodes that are up */
    uint8_t level;
};

struct node {
    uint32_t cell;
    uint32_t first_gpu;
    uint32_t pool[3]; /* rack, domain, cluster; POOL_NONE where it would equal the next */
    uint16_t gpus, free;
    uint16_t bad; /* GPUs out of order */
    uint8_t sku;
    bool up;
};

/* The nodes of one GPU type below one cell, by free GPUs. */
struct pool {
    uint32_t cell;
    uint32_t first_node, node_count; /* range that holds them; nodes of other types may lie between */
    uint32_t total, free;            /* GPUs: of nodes that are up; free among those */
    uint16_t sku, gpus_max;
    struct bits *bucket; /* [gpus_max + 1] */
    uint32_t *bucket_count;
};

struct topo {
    struct cell *cells;
    struct node *nodes;
    struct pool *pools;
    uint32_t *rack_cells;         /* by rack number */
    uint32_t *rack_pools;         /* [rack * sku_count + sku], POOL_NONE where the rack has none */
    uint32_t *sku_pools;          /* [sku]: the whole cluster's */
    struct tree_node *rack_nodes; /* tree elements: racks of one type by free GPUs, most first */
    uint32_t *rack_trees;         /* [sku] roots; element = rack * sku_count + sku */
    uint32_t cell_count, node_count, pool_count, rack_count, sku_count, gpu_count;
    uint16_t node_gpus_max[SKUS_MAX];
    uint32_t sku_memory[SKUS_MAX]; /* MiB of one GPU, 0 = not told */
    uint32_t sku_gpus[SKUS_MAX];   /* of each type, working or not */
};

/* The node's free count becomes `free`; every cell and pool above follows. */
void topo_node_free(struct topo *topo, uint32_t node, uint16_t free);

/* Takes the node out of all pools, or puts it back with its present free count. */
void topo_node_up(struct topo *topo, uint32_t node, bool up);

/* The cell of `level` that holds the node. */
uint32_t topo_above(const struct topo *topo, uint32_t node, enum level level);

/* The pool of the rack for this GPU type, or POOL_NONE. */
static inline uint32_t topo_rack_pool(const struct topo *topo, uint32_t rack, uint32_t sku)
{
    return topo->rack_pools[rack * topo->sku_count + sku];
}

/* First node of the pool at or after `from` with exactly `free` GPUs free; node number or BITS_NONE. */
static inline uint32_t pool_next(const struct pool *pool, uint16_t free, uint32_t from)
{
    uint32_t at = from > pool->first_node ? from - pool->first_node : 0;
    uint32_t i = bits_next(&pool->bucket[free], at);

    return i == BITS_NONE ? BITS_NONE : pool->first_node + i;
}

/* The node with the fewest free GPUs that still has `need`, lowest number first; BITS_NONE if none. */
uint32_t pool_best_fit(const struct pool *pool, uint32_t need);

/* The node with the most free GPUs, lowest number first; BITS_NONE if all are full. */
uint32_t pool_emptiest(const struct pool *pool);
