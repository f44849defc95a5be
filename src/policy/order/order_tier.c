/* SPDX-License-Identifier: Apache-2.0 */
/* order_tier.c - service tiers: premium before standard before basic, first come first served inside each. */
#include "policy/list.h"

static void tier_key(const struct order_ctx *ctx, const struct job *job, struct order_key *ret_key)
{
    (void)ctx;
    *ret_key = (struct order_key){ .value = job->tier, .change_at = USEC_NEVER };
}

const struct order_ops order_tier = {
    .name = "tier",
    .summary = "premium, standard, basic; first come, first served in each",
    .key = tier_key,
};
