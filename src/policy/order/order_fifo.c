/* SPDX-License-Identifier: Apache-2.0 */
/* order_fifo.c - first come, first served.
 *
 * The key is the submission time, so a job that was stopped comes back to where it was. With requeue=tail it is the
 * time at which the job last began to wait: a victim goes to the end, as YARN's capacity scheduler does it.
 */
#include "policy/list.h"

enum { P_REQUEUE };

static const char *const requeue_choices[] = { "front", "tail", NULL };

static const struct param fifo_params[] = {
    [P_REQUEUE] = { "requeue", "where a stopped job comes back", PARAM_CHOICE, 0, 0, 1, requeue_choices },
    { 0 },
};

static void fifo_key(const struct order_ctx *ctx, const struct job *job, struct order_key *ret_key)
{
    ret_key->value = ctx->params[P_REQUEUE] ? job->queued_at : job->spec.submit;
}

const struct order_ops order_fifo = {
    .name = "fifo",
    .summary = "first come, first served",
    .params = fifo_params,
    .key = fifo_key,
};
