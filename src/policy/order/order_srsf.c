/* SPDX-License-Identifier: Apache-2.0 */
/* order_srsf.c - shortest remaining service first: remaining time x GPUs.
 *
 * Wide jobs hold more of the cluster while they finish, so their time weighs more (Tiresias, NSDI'19, calls it SRSF).
 */
#include "core/contract/view.h"
#include "policy/list.h"

static void srsf_key(const struct order_ctx *ctx, const struct job *job, struct order_key *ret_key)
{
    int64_t demand = job_demand(job);

    if (!job->spec.estimate) {
        ret_key->value = INT64_MAX / 2;
        return;
    }
    ret_key->value = muldiv_floor(job_remaining(job, view_now(ctx->view)), demand, MGPU_ONE);
    ret_key->slope_ppm = ret_key->value ? muldiv_floor(job->rate, demand, MGPU_ONE) : 0;
}

const struct order_ops order_srsf = {
    .name = "srsf",
    .summary = "shortest remaining service (time x GPUs) first",
    .key = srsf_key,
};
