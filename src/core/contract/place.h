/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* place.h - the contract of a placement: GPUs for this shape now, or none.
 *
 * The answer depends on the shape and on what is free, never on which job asks: so "does not fit" is true of every job
 * of that shape until something is released, and the core asks once a shape. GPUs come in ascending order and are all
 * of the type asked for.
 */
#include "core/contract/order.h"
#include "core/ledger/ledger.h"

struct place_ctx {
    const struct view *view;
    const struct ledger *ledger;
    const int64_t *params;
    void *state;
    uint32_t *out;         /* room for every GPU of the cluster */
    uint32_t *servers;     /* the same; those of out[] that are for parameter servers, in any order */
    uint32_t server_count; /* 0: the lowest numbers are */
};

struct place_request {
    int32_t gpus;
    mgpu_t share;
    uint32_t memory_mib;         /* of a share of a GPU; whole GPUs were chosen by type */
    uint32_t servers, bandwidth; /* of a gang with parameter servers, and its traffic; see jobspec.h */
    uint16_t sku;
    uint16_t per_node; /* never asked of a policy: the core places such gangs itself, see node_shape.c */
    uint16_t per_unit; /* the same, see locality.c */
    uint8_t unit, within;
    bool must;
    uint8_t level; /* locality: 0 strictest; see the policy */
};

struct place_ops {
    const char *name;
    const char *summary;
    const struct param *params;
    size_t state_size, kept_size; /* bytes; of them, from the start, those that belong into a snapshot */
    uint8_t levels;               /* how many localities it knows; 0 counts as 1 */
    /* The locality a job is content with when it comes; NULL: 0 for all. */
    uint8_t (*level)(const struct place_ctx *ctx, const struct jobspec *spec);
    /* 0 and ctx->out filled with request->gpus numbers, or -EBUSY. */
    int (*find)(struct place_ctx *ctx, const struct place_request *request);
};
