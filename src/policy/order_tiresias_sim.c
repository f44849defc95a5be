/* SPDX-License-Identifier: Apache-2.0 */
/* order_tiresias_sim.c - the order in which planner_tiresias_sim.c keeps its queues: it is the planner's word. */
#include "policy/list.h"

static void tiresias_sim_key(const struct order_ctx *ctx, const struct job *job, struct order_key *ret_key)
{
    (void)ctx;
    ret_key->value = job->word[0];
}

const struct order_ops order_tiresias_sim = {
    .name = "tiresias-sim",
    .summary = "as the planner of the same name keeps it",
    .key = tiresias_sim_key,
};
