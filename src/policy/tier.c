/* SPDX-License-Identifier: Apache-2.0 */
/* tier.c - see tier.h. */
#include "policy/tier.h"

usec_t tier_done(svc_t attained, int32_t world)
{
    return attained / world;
}

usec_t tier_slack(const struct tier_rules *rules, enum job_tier tier, usec_t done, usec_t age)
{
    if (rules->tau[tier] == 0)
        return USEC_NEVER;
    return done + (rules->window - age) - muldiv_ceil(rules->window, rules->tau[tier], PPM_ONE);
}

usec_t tier_alarm(usec_t slack, usec_t guard, int32_t gpus, int32_t world)
{
    if (slack <= guard)
        return 0;
    if (slack == USEC_NEVER || gpus >= world)
        return USEC_NEVER;
    return muldiv_floor(slack - guard, world, world - gpus);
}

int64_t tier_claim(const struct tier_rules *rules, enum job_tier tier, int32_t world)
{
    return rules->tau[tier] * world;
}

bool tier_admits(const struct tier_rules *rules, int64_t claimed, int64_t more, int32_t capacity)
{
    return claimed + more <= rules->load * capacity;
}
