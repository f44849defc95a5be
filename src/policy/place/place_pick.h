/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* place_pick.h - what placements share: taking GPUs of a node into the answer, and shares of a GPU. */
#include "core/contract/place.h"

/* An answer under construction: ctx->out[0..count). */
struct pick {
    struct place_ctx *ctx;
    uint32_t count;
    uint32_t servers; /* the first so many that are picked are for parameter servers */
};

/* Appends the node's lowest `need` whole free GPUs; it has that many. */
void pick_node(struct pick *pick, uint32_t node, uint32_t need);

/* The same, choosing GPUs that lie close together: the smallest socket or group that has them. */
void pick_node_tight(struct pick *pick, uint32_t node, uint32_t need);

/* Notes who serves, and puts the answer into ascending order, as the contract wants it. */
void pick_sort(struct pick *pick);

/* A place for a share of one GPU: the fullest GPU that still has room, else a free one on the fullest node. -EBUSY. */
int pick_share(struct place_ctx *ctx, const struct place_request *request);

/* `need` GPUs anywhere in the pool, from the fullest nodes first, so that empty ones stay empty. -EBUSY. */
int pick_fullest(struct pick *pick, const struct pool *pool, uint32_t need);

/* The same from the emptiest nodes first, each giving all it has; of equal ones the lower number. */
int pick_emptiest(struct pick *pick, const struct pool *pool, uint32_t need);

/* The pool of a whole GPU type. */
static inline const struct pool *pick_pool(const struct place_ctx *ctx, uint32_t sku)
{
    const struct topo *topo = &ctx->ledger->topo;

    return &topo->pools[topo->sku_pools[sku]];
}
