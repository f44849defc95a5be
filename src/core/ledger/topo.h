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

/* Parts of the cluster that a gang would rather not leave. */
enum zone_kind { ZONE_RACK, ZONE_DOMAIN, ZONE_KINDS };

struct cell {
    uint32_t parent, first_child, child_count;
    uint32_t first_gpu, gpu_count;
    uint32_t free; /* whole GPUs nobody holds or reserves, on nodes that are up */
    uint8_t level;
};

struct node {
    uint32_t cell;
    uint32_t first_gpu;
    uint32_t pool[ZONE_KINDS + 1]; /* rack's, domain's, cluster's; POOL_NONE where it would be the cluster's */
    uint16_t gpus, free;
    uint16_t bad; /* GPUs out of order */
    uint8_t sku;
    bool up;
    bool closed;  /* not up, but what runs there may end: drained */
    uint8_t kept; /* as of model/cluster.h */
    uint64_t marks;
    uint32_t twin; /* the next node that is the same machine; itself, if there is none */
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

/* Racks or domains: those of one GPU type are kept ordered by free GPUs, most first, lower number first among equals.
 */
struct zones {
    uint32_t count;
    uint32_t first_cell;     /* of zone 0; those of the others follow */
    uint32_t *pools;         /* [zone * sku_count + sku], POOL_NONE where the zone has none of the type */
    struct tree_node *nodes; /* tree elements, numbered alike */
    uint32_t *trees;         /* [sku]: roots */
};

struct topo {
    struct cell *cells;
    struct node *nodes;
    struct pool *pools;
    uint32_t *sku_pools; /* [sku]: the whole cluster's */
    struct zones zones[ZONE_KINDS];
    uint32_t cell_count, node_count, pool_count, sku_count, gpu_count;
    uint32_t host_count; /* nodes, and behind them those without GPUs, which are in no cell or pool */
    uint32_t kept_count; /* nodes that are not for everybody */
    uint16_t node_gpus_max[SKUS_MAX];
    uint32_t sku_memory[SKUS_MAX];   /* MiB of one GPU, 0 = not told */
    uint32_t sku_gpus[SKUS_MAX];     /* of each type, working or not */
    uint32_t sku_draining[SKUS_MAX]; /* in order, on nodes that are not up, and held or reserved all the same */
};

/* The node's free count becomes `free`; every cell and pool above follows. */
void topo_node_free(struct topo *topo, uint32_t node, uint16_t free);

/* Takes the node out of all pools, or puts it back with its present free count. */
void topo_node_up(struct topo *topo, uint32_t node, bool up);

/* The cell of `level` that holds the node. */
uint32_t topo_above(const struct topo *topo, uint32_t node, enum level level);

/* The pools of a type zone by zone, most free GPUs first. *element is TREE_NONE before the first; NULL after the last.
 * A cluster that is one zone gives its own pool. */
const struct pool *topo_next_zone(const struct topo *topo, enum zone_kind kind, uint32_t sku, uint32_t *element);

/* The zone with the fewest free GPUs of the type that still has `need`; NULL. */
const struct pool *topo_best_zone(const struct topo *topo, enum zone_kind kind, uint32_t sku, uint32_t need);

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
