/* SPDX-License-Identifier: Apache-2.0 */
/* order_pollux_sim.c - the order in which planner_pollux_las.c and planner_pollux_optimus.c keep their jobs: it is the
 * planner's first word. A second one asks for another pass at this very instant, when the job was stopped only to be
 * placed anew. */
#include "core/contract/view.h"
#include "policy/list.h"

enum { W_KEY, W_AGAIN };

static void pollux_sim_key(const struct order_ctx *ctx, const struct job *job, struct order_key *ret_key)
{
    ret_key->value = job->word[W_KEY];
    if (job_waits(job->state) && job->word[W_AGAIN] == view_now(ctx->view) + 1)
        ret_key->change_at = view_now(ctx->view);
}

const struct order_ops order_pollux_sim = {
    .name = "pollux-sim",
    .summary = "as the planners for comparison with Pollux keep it",
    .key = pollux_sim_key,
};
