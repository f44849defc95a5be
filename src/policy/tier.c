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

usec_t tier_spare(const struct tier_rules *rules, enum job_tier tier, usec_t done, usec_t age)
{
    usec_t slack = tier_slack(rules, tier, done, age), left = rules->window - age;

    if (slack == USEC_NEVER || slack < left)
        return slack;
    return left + tier_slack(rules, tier, 0, 0);
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

bool tier_admits(const struct tier_rules *rules, const struct tier_sum *sum, enum job_tier tier, int32_t world,
                 int32_t capacity)
{
    int64_t claimed = sum->claimed + tier_claim(rules, tier, world), worlds = sum->worlds + world;

    if (rules->tau[tier] == 0)
        return true;
    if (worlds > capacity)
        claimed += rules->turns * worlds;
    return claimed <= rules->load * capacity;
}
