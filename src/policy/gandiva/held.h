/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* held.h - where a running job lies: what those that move jobs ask of it. */
#include "core/contract/planner.h"
#include "core/contract/view.h"

/* On how many servers, and which is the first of its list (NULL: nobody asks), counted along its list of shares. */
static inline uint32_t held_servers(const struct planner_ctx *ctx, uint32_t job, uint32_t *ret_first)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t node = UINT32_MAX, count = 0;

    for (uint32_t s = view_shares(ctx->view, job); s != SHARE_NONE; s = ledger->shares[s].next_of_job) {
        uint32_t here = ledger->gpus[ledger->shares[s].gpu].node;

        if (count == 0 && ret_first)
            *ret_first = here;
        count += here != node;
        node = here;
    }
    return count;
}

/* Its GPUs on the node. */
static inline uint32_t held_on(const struct planner_ctx *ctx, uint32_t job, uint32_t node)
{
    const struct ledger *ledger = view_ledger(ctx->view);
    uint32_t count = 0;

    for (uint32_t s = view_shares(ctx->view, job); s != SHARE_NONE; s = ledger->shares[s].next_of_job)
        count += ledger->gpus[ledger->shares[s].gpu].node == node;
    return count;
}
