/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* tier.h - the arithmetic of service tiers: fractions of GPU time promised for every window (Singularity, 2022).
 *
 * A job of a world of N workers that had n(t) GPUs has done A = integral of n(t) / N in its window: the time it would
 * have needed with all of them. A tier promises A >= tau * H for every window of length H within the job's life, the
 * first of which begins when the job is taken in. Slack is how long a job could stand still and still keep that.
 */
#include <stdbool.h>

#include "base/units.h"
#include "model/jobspec.h"

struct tier_rules {
    usec_t window;         /* H */
    ppm_t tau[TIER_COUNT]; /* promised; 0 = nothing is */
    ppm_t load;            /* of the capacity that may be promised */
};

/* A, from GPU-time that was attained in the window. */
usec_t tier_done(svc_t attained, int32_t world);

/* A + (H - age) - tau * H: below 0 the floor is lost; USEC_NEVER where nothing is promised. */
usec_t tier_slack(const struct tier_rules *rules, enum job_tier tier, usec_t done, usec_t age);

/* How long until the slack has fallen to `guard`, on `gpus` of `world` GPUs; USEC_NEVER: it does not fall, 0: it has.
 */
usec_t tier_alarm(usec_t slack, usec_t guard, int32_t gpus, int32_t world);

/* What the promises to a job add up to, in millionths of a GPU; and whether so much may be promised in all. */
int64_t tier_claim(const struct tier_rules *rules, enum job_tier tier, int32_t world);
bool tier_admits(const struct tier_rules *rules, int64_t claimed, int64_t more, int32_t capacity);
