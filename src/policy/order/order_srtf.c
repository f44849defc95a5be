/* SPDX-License-Identifier: Apache-2.0 */
/* order_srtf.c - shortest remaining time first: the oracle that needs an estimate of the run time.
 *
 * The key is the nominal run time that is left. While the job runs it falls by its rate. A job without an estimate
 * comes last.
 */
#include "core/contract/view.h"
#include "policy/list.h"

static void srtf_key(const struct order_ctx *ctx, const struct job *job, struct order_key *ret_key)
{
    if (!job->spec.estimate) {
        ret_key->value = INT64_MAX / 2;
        return;
    }
    ret_key->value = job_remaining(job, view_now(ctx->view));
    ret_key->slope_ppm = ret_key->value ? job->rate : 0;
}

const struct order_ops order_srtf = {
    .name = "srtf",
    .summary = "shortest remaining time first",
    .key = srtf_key,
};
