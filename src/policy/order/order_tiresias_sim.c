/* SPDX-License-Identifier: Apache-2.0 */
/* order_tiresias_sim.c - the order in which planner_tiresias_sim.c keeps its queues: it is the planner's word. */
#include "policy/list.h"
#include "policy/order/las.h"

static void tiresias_sim_key(const struct order_ctx *ctx, const struct job *job, struct order_key *ret_key)
{
    (void)ctx;
    ret_key->value = job->word[0];
}

/* Three, as its simulator has them; with other limits there may be more. */
static void tiresias_sim_level(const struct order_ctx *ctx, const struct job *job, struct order_level *ret_level)
{
    (void)ctx;
    ret_level->levels = 3;
    if (job)
        ret_level->level = (int32_t)(job->word[0] >> LAS_QUEUE_SHIFT);
}

const struct order_ops order_tiresias_sim = {
    .name = "tiresias-sim",
    .summary = "as the planner of the same name keeps it",
    .key = tiresias_sim_key,
    .level = tiresias_sim_level,
};
