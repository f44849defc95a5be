/* SPDX-License-Identifier: Apache-2.0 */
/* tier.c - see tier.h. */
#include "policy/singularity/tier.h"

usec_t tier_done(svc_t attained, int32_t world)
{
    return attained / world;
}

/* What is promised of a window. */
static usec_t floor_of(const struct tier_rules *rules, enum job_tier tier)
{
    int64_t product;

    if (!__builtin_mul_overflow(rules->window, rules->tau[tier], &product))
        return (product + PPM_ONE - 1) / PPM_ONE; /* as a rule, and no wide division */
    return muldiv_ceil(rules->window, rules->tau[tier], PPM_ONE);
}

usec_t tier_slack(const struct tier_rules *rules, enum job_tier tier, usec_t done, usec_t age)
{
    if (rules->tau[tier] == 0)
        return USEC_NEVER;
    return done + (rules->window - age) - floor_of(rules, tier);
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

/* The smallest power of two that is not below the step, and the largest that divides it. */
static uint32_t step_class(int32_t step)
{
    uint32_t class = 0;

    while (class + 1 < TIER_STEPS && (int64_t)1 << class < step)
        class ++;
    return class;
}

static uint32_t step_grain(int64_t step)
{
    uint32_t grain = 0;

    while (grain + 1 < TIER_STEPS && step && !(step >> grain & 1))
        grain++;
    return grain;
}

void tier_lend(const struct tier_rules *rules, struct tier_lent *lent, const struct tier_ask *ask, int sign)
{
    ppm_t part = PPM_ONE - rules->tau[ask->tier] - rules->turns;

    if (part <= 0)
        return; /* it is never without */
    lent->gives[step_class(ask->step)] += sign * part * ask->world;
    lent->grains[step_grain(ask->step)] += (uint32_t)sign;
}

bool tier_admits(const struct tier_rules *rules, const struct tier_sum *sum, const struct tier_lent *lent,
                 const struct tier_ask *ask, int32_t capacity)
{
    int64_t missing = sum->worlds + ask->world - capacity, gives = 0, spare = (PPM_ONE - rules->load) * capacity;
    struct tier_lent with = *lent;
    uint32_t grain;

    if (rules->tau[ask->tier] == 0)
        return true;
    if (sum->claimed + tier_claim(rules, ask->tier, ask->world) > rules->load * capacity)
        return false;
    if (missing <= 0)
        return true;
    tier_lend(rules, &with, ask, 1);
    grain = step_grain(missing);
    for (uint32_t g = 0; g < grain; g++)
        if (with.grains[g])
            grain = g;
    /* Large steps may be left out: who has them keeps its GPUs. */
    for (uint32_t class = 0; class < TIER_STEPS; class ++) {
        int64_t waste = class > grain ? ((int64_t)1 << class) - ((int64_t)1 << grain) : 0;

        gives += with.gives[class];
        if (gives >= (missing + waste) * PPM_ONE + spare)
            return true;
    }
    return false;
}
