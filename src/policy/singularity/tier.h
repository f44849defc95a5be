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
    ppm_t turns;           /* of the window: what a job loses to being resized where jobs must take turns */
};

/* What is promised in one place. */
struct tier_sum {
    int64_t claimed; /* tau x world, in millionths of GPUs */
    int64_t worlds;  /* GPUs if all had theirs */
};

enum { TIER_STEPS = 16 };

/* What those could lend to each other who are promised something in one place. */
struct tier_lent {
    int64_t gives[TIER_STEPS];   /* millionths of GPUs, by the step in which they come: up to 1, 2, 4, ... GPUs */
    uint32_t grains[TIER_STEPS]; /* jobs by the power of two in that step */
};

/* One job: `step` is what it gives when it is made smaller once, all its GPUs if it can only be stopped. */
struct tier_ask {
    enum job_tier tier;
    int32_t world, step;
};

/* A, from GPU-time that was attained in the window. */
usec_t tier_done(svc_t attained, int32_t world);

/* A + (H - age) - tau * H: below 0 the floor is lost; USEC_NEVER where nothing is promised. */
usec_t tier_slack(const struct tier_rules *rules, enum job_tier tier, usec_t done, usec_t age);

/* How long the job could stand still from now on and keep its floors, in this window and the next: once this window's
 * is sure, what the next one allows is added. */
usec_t tier_spare(const struct tier_rules *rules, enum job_tier tier, usec_t done, usec_t age);

/* How long until the slack has fallen to `guard`, on `gpus` of `world` GPUs; USEC_NEVER: it does not fall, 0: it has.
 */
usec_t tier_alarm(usec_t slack, usec_t guard, int32_t gpus, int32_t world);

/* What the promise to a job comes to, in millionths of a GPU. */
int64_t tier_claim(const struct tier_rules *rules, enum job_tier tier, int32_t world);

/* Counts a job among those that can lend, or no more. */
void tier_lend(const struct tier_rules *rules, struct tier_lent *lent, const struct tier_ask *ask, int sign);

/* Whether one more may be promised: all of it together within `load` of the capacity. Where the worlds do not fit side
 * by side, jobs take turns: then what each may be without in a window, less what being resized costs it, must come to
 * what is missing at any time; and as sizes are steps, those who lend give up to a step more than that. */
bool tier_admits(const struct tier_rules *rules, const struct tier_sum *sum, const struct tier_lent *lent,
                 const struct tier_ask *ask, int32_t capacity);
