/* SPDX-License-Identifier: Apache-2.0 */
/* pair.c - see pair.h. */
#include "coord/pair.h"

#include <assert.h>

#define BASELINE_WAIT (10 * USEC_SEC)
#define BASELINE_EVERY (300 * USEC_SEC)
#define AGAIN_STEPS 8u     /* of a later measurement */
#define PERIOD_PATIENCE 20 /* periods to wait for steps that do not come */

struct law {
    usec_t period;
    uint32_t steps;
};

static const struct law laws[PAIR_LAW_COUNT] = {
    [PAIR_GAPS] = { 500 * USEC_MSEC, 8 },
    [PAIR_DUTY] = { USEC_SEC, 5 },
};

static void measure(struct pair *pair, uint32_t steps, usec_t now)
{
    pair->baselining = true;
    pair->baseline_at = now;
    pair->measure = steps;
    baseline_reset(&pair->baseline);
}

void pair_begin(struct pair *pair, enum pair_law law, uint32_t eps, usec_t now)
{
    assert(law < PAIR_LAW_COUNT);
    *pair = (struct pair){ .law = law, .period_since = now, .slowdown = -1 };
    share_init(&pair->share, eps);
    feedback_init(&pair->feedback, eps);
    measure(pair, BASELINE_SAMPLES, now);
}

void pair_step(struct pair *pair, uint32_t launches, uint32_t wall_us)
{
    if (pair->baselining) {
        if (baseline_add(&pair->baseline, launches, wall_us) >= pair->measure)
            pair->baselining = false;
    } else if (pair->steps < BASELINE_PERIOD_STEPS) {
        pair->launches[pair->steps] = launches;
        pair->wall_us[pair->steps++] = wall_us;
    }
}

static bool paused(struct pair *pair, usec_t now)
{
    return pair->law == PAIR_GAPS ? share_paused(&pair->share, (uint64_t)(now / USEC_MSEC))
                                  : feedback_paused(&pair->feedback, now);
}

static uint32_t share_now(const struct pair *pair)
{
    return pair->law == PAIR_GAPS ? pair->share.u : 10 * pair->feedback.x;
}

static uint32_t period_end(struct pair *pair, uint32_t slowdown, usec_t now)
{
    return pair->law == PAIR_GAPS ? share_period(&pair->share, slowdown, (uint64_t)(now / USEC_MSEC))
                                  : 10 * feedback_period(&pair->feedback, slowdown, now);
}

uint32_t pair_turn(struct pair *pair, usec_t now)
{
    const struct law *law = &laws[pair->law];
    usec_t span = now - pair->period_since;

    if (pair->baselining) {
        if (now - pair->baseline_at < BASELINE_WAIT)
            return 0;
        pair->baselining = false; /* no steps to be seen: the gate's own rule has to do */
    }
    if (now - pair->baseline_at > BASELINE_EVERY) {
        measure(pair, AGAIN_STEPS, now);
        return 0;
    }
    if (paused(pair, now))
        return 0;
    if (span < law->period || (pair->steps < law->steps && span < PERIOD_PATIENCE * law->period))
        return share_now(pair);
    pair->period_since = now;
    pair->slowdown = baseline_slowdown(&pair->baseline, pair->launches, pair->wall_us, pair->steps);
    if (pair->slowdown < 0 && pair->steps >= law->steps) { /* steps of a kind that was never measured */
        pair->steps = 0;
        measure(pair, BASELINE_SAMPLES, now);
        return 0;
    }
    pair->steps = 0;
    return period_end(pair, pair->slowdown < 0 ? 0 : (uint32_t)pair->slowdown, now);
}
