/* SPDX-License-Identifier: Apache-2.0 */
/* order_chronus.c - the order of jobs in what promised ones leave (Chronus, SoCC'21): shortest remaining service first.
 *
 * Jobs whose promise went wrong come first, then best effort and those without a promise alike, then promised jobs
 * whose turn is later (what they do early need not be done later), at last those whose deadlines have gone.
 */
#include "policy/chronus/chronus.h"
#include "policy/list.h"

#define BAND ((int64_t)1 << 59)

static void chronus_key(const struct order_ctx *ctx, const struct job *job, struct order_key *ret_key)
{
    int64_t demand = job_demand(job), service = BAND - 1;

    if (job->spec.estimate)
        service = muldiv_floor(job_remaining(job, view_now(ctx->view)), demand, MGPU_ONE);
    if (service >= BAND)
        service = BAND - 1;
    ret_key->slope_ppm = job->spec.estimate && service ? muldiv_floor(job->rate, demand, MGPU_ONE) : 0;
    ret_key->value = service;
    switch (chronus_status(job)) {
    case STATUS_FIRST:
        ret_key->value -= BAND;
        break;
    case STATUS_NEW:
    case STATUS_BEST_EFFORT:
    case STATUS_UNSURE:
    case STATUS_PROFILING:
        break;
    case STATUS_PROMISED:
        ret_key->value += BAND;
        break;
    case STATUS_HOPELESS:
        ret_key->value += 2 * BAND;
        break;
    }
}

const struct order_ops order_chronus = {
    .name = "chronus",
    .summary = "without promise: shortest remaining service first; deadlines that have gone last",
    .key = chronus_key,
};
