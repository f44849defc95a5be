/* SPDX-License-Identifier: Apache-2.0 */
/* pair.c - see pair.h. */
#include "coord/pair.h"

#include <assert.h>

#define BASELINE_WAIT (10 * USEC_SEC)
#define SETTLE_STEPS 2u /* passed over when a look begins */
#define LOOK_STEPS 6u   /* of a later look */
#define LOOKS_WHOLE 2u  /* that many measure anew */
#define LOOK_SECOND (2 * USEC_SEC)
#define LOOK_SOONEST (5 * USEC_SEC)
#define LOOK_LATEST (300 * USEC_SEC)
#define LOOK_COST 100      /* a look is due when this many times its own length has passed */
#define HELD_PERIODS 4     /* after which a share that is only held grows */
#define PERIOD_PATIENCE 20 /* periods to wait for steps that do not come */

struct law {
    usec_t period;
    uint32_t steps;
};

static const struct law laws[PAIR_LAW_COUNT] = {
    [PAIR_GAPS] = { 500 * USEC_MSEC, 8 },
    [PAIR_DUTY] = { USEC_SEC, 5 },
};

static void look(struct pair *pair, usec_t now)
{
    pair->baselining = true;
    pair->baseline_at = now;
    pair->settling = SETTLE_STEPS;
    pair->taken = 0;
    if (pair->looks < LOOKS_WHOLE) /* nothing that was known counts any more */
        baseline_reset(&pair->baseline);
    pair->looks += pair->looks < LOOKS_WHOLE + 1;
}

/* A look is over: when is the next? */
static void look_end(struct pair *pair, usec_t now)
{
    usec_t wait = (now - pair->baseline_at) * LOOK_COST;

    wait = wait < LOOK_SOONEST ? LOOK_SOONEST : wait > LOOK_LATEST ? LOOK_LATEST : wait;
    pair->next_look = now + (pair->looks < LOOKS_WHOLE ? LOOK_SECOND : wait);
    pair->baselining = false;
    pair->period_since = now;
    pair->steps = 0;
}

void pair_begin(struct pair *pair, enum pair_law law, uint32_t eps, usec_t now)
{
    assert(law < PAIR_LAW_COUNT);
    *pair = (struct pair){ .law = law, .period_since = now, .slowdown = -1 };
    share_init(&pair->share, eps);
    feedback_init(&pair->feedback, eps);
    look(pair, now);
}

void pair_step(struct pair *pair, uint32_t launches, uint32_t wall_us)
{
    if (pair->baselining && pair->settling) {
        pair->settling--;
    } else if (pair->baselining) {
        uint32_t alike = baseline_add(&pair->baseline, launches, wall_us);

        /* At first twenty of one kind, later six of any. */
        pair->taken = pair->looks > LOOKS_WHOLE ? pair->taken + 1 : alike > pair->taken ? alike : pair->taken;
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

/* The law has only held, and there was room: let it try a little more. */
static void held(struct pair *pair)
{
    struct share *share = &pair->share;

    if (share->u == SHARE_MAX || pair->judged > (int32_t)share->eps * 9 / 10) {
        pair->held = 0;
    } else if (++pair->held == HELD_PERIODS) {
        pair->held = 0;
        share->u += share->u / 16 < SHARE_MAX - share->u ? share->u / 16 : SHARE_MAX - share->u;
    }
}

/* What a period says: a little too much may be noise, unless the one before said so too. */
static int32_t judge(struct pair *pair)
{
    int32_t eps = (int32_t)pair->share.eps;
    bool over = pair->slowdown > eps, again = pair->over;

    pair->over = over;
    return over && !again && pair->slowdown <= 2 * eps ? eps : pair->slowdown;
}

static uint32_t period_end(struct pair *pair, usec_t now)
{
    uint32_t slowdown = pair->slowdown < 0 ? 0 : (uint32_t)pair->slowdown;

    pair->period_since = now;
    pair->periods++;
    pair->steps = 0;
    if (pair->law == PAIR_DUTY)
        return 10 * feedback_period(&pair->feedback, slowdown, now);
    pair->judged = judge(pair);
    if (share_period(&pair->share, pair->judged < 0 ? 0 : (uint32_t)pair->judged, (uint64_t)(now / USEC_MSEC)) == 0)
        return 0;
    held(pair);
    return pair->share.u;
}

uint32_t pair_turn(struct pair *pair, usec_t now)
{
    const struct law *law = &laws[pair->law];
    usec_t span;

    if (pair->baselining) {
        bool enough = pair->taken >= (pair->looks > LOOKS_WHOLE ? LOOK_STEPS : BASELINE_SAMPLES);

        /* Where no steps are to be seen the gate's own rule has to do. */
        if (!enough && now - pair->baseline_at < BASELINE_WAIT)
            return 0;
        look_end(pair, now);
    } else if (now >= pair->next_look) {
        look(pair, now);
        return 0;
    }
    if (paused(pair, now))
        return 0;
    span = now - pair->period_since;
    if (span < law->period || (pair->steps < law->steps && span < PERIOD_PATIENCE * law->period))
        return share_now(pair);
    pair->slowdown = baseline_slowdown(&pair->baseline, pair->launches, pair->wall_us, pair->steps);
    if (pair->slowdown < 0 && pair->steps >= law->steps) { /* steps of a kind that was never measured */
        pair->looks = 0;
        look(pair, now);
        return 0;
    }
    return period_end(pair, now);
}
