/* SPDX-License-Identifier: Apache-2.0 */
/* pair.c - see pair.h. */
#include "coord/pair.h"

#include <assert.h>

#define BASELINE_WAIT (10 * USEC_SEC)
#define SETTLE_STEPS 2u   /* passed over when a look begins */
#define LOOK_STEPS 6u     /* of a later look */
#define LOOKS_WHOLE 2u    /* that many measure anew */
#define LOOK_REPEATS 4u   /* of one that was disturbed */
#define LOOK_OFF_MOST 500 /* permille */
#define LOOK_SECOND (2 * USEC_SEC)
#define LOOK_SOONEST (5 * USEC_SEC)
#define LOOK_LATEST (300 * USEC_SEC)
#define LOOK_COST 100      /* a look is due when this many times its own length has passed */
#define HELD_PERIODS 2     /* after which a share that is only held grows */
#define OVER_CUT 2u        /* periods over the tolerance in a row before a cut, */
#define PLAIN 10           /* times the tolerance: no noise */
#define OVER_PAUSE 4u      /* before one that pauses */
#define ACQUIT_MOST 4u     /* times in a row that it was not them */
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

/* By how much looks differ from what alone was before anybody came: of the kind of step that was seen most. */
static int32_t anchor_find(const struct pair *pair)
{
    const struct baseline *look = &pair->baseline;
    int64_t most = 0, off = 0;

    for (uint32_t i = 0; i < look->buckets; i++) {
        int64_t now = baseline_of(look, look->bucket[i].launches);
        int64_t before = baseline_of(&pair->before, look->bucket[i].launches);

        if (now == 0 || before == 0 || look->bucket[i].count <= most)
            continue;
        most = look->bucket[i].count;
        off = (before - now) * 1000 / now;
    }
    return (int32_t)(off > LOOK_OFF_MOST ? LOOK_OFF_MOST : off < -LOOK_OFF_MOST ? -LOOK_OFF_MOST : off);
}

/* A whole look is over. One that took far longer than steps before anybody came was disturbed itself, by the host or
 * by a neighbour that starts: what was before is believed and it is repeated, a few times. */
static void anchor_take(struct pair *pair)
{
    int32_t off = anchor_find(pair), eps = (int32_t)pair->share.eps;

    if (off < -eps && pair->looks == LOOKS_WHOLE && pair->repeats < LOOK_REPEATS) {
        pair->repeats++;
        pair->looks--;
        pair->anchor = off;
        return;
    }
    pair->anchor = off > eps ? eps : off < -eps ? -eps : off;
}

/* A look is over: when is the next? */
static void look_end(struct pair *pair, usec_t now)
{
    usec_t wait = (now - pair->baseline_at) * LOOK_COST;

    if (pair->looks <= LOOKS_WHOLE)
        anchor_take(pair);
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

void pair_before(struct pair *pair, const struct baseline *before)
{
    pair->before = *before;
}

void pair_again(struct pair *pair)
{
    pair->looks = 0;
    pair->next_look = 0;
    pair->baselining = false;
}

void pair_hold(struct pair *pair, usec_t now)
{
    if (!pair->baselining) {
        pair->period_since = now;
        pair->steps = 0;
        pair->probing = false; /* nor does what was to be probed */
        return;
    }
    pair->settling = SETTLE_STEPS; /* a look waits for its time, and no longer */
    pair->taken = 0;
    if (pair->looks <= LOOKS_WHOLE)
        baseline_reset(&pair->baseline);
}

void pair_step(struct pair *pair, uint32_t launches, uint32_t wall_us)
{
    if ((pair->baselining || pair->probing) && pair->settling) {
        pair->settling--;
    } else if (pair->probing) {
        if (pair->probes < PAIR_PROBE_STEPS) {
            pair->probe_launches[pair->probes] = launches;
            pair->probe_us[pair->probes++] = wall_us;
        }
    } else if (pair->baselining) {
        uint32_t alike = baseline_add(&pair->baseline, launches, wall_us);

        /* At first twenty of one kind, later six of any. */
        pair->taken = pair->looks > LOOKS_WHOLE ? pair->taken + 1 : alike > pair->taken ? alike : pair->taken;
    } else if (pair->steps < BASELINE_PERIOD_STEPS) {
        pair->launches[pair->steps] = launches;
        pair->wall_us[pair->steps++] = (uint32_t)((uint64_t)wall_us * 1000 / (uint64_t)(1000 + pair->anchor));
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

/* How much more to try: what stays inside the tolerance if the slowdown is all the share's doing, at most a quarter. If
 * the last try has shown that it is not (steps grew by less than half of what they should have), half as much again, up
 * to three quarters of the share that was cut last. */
static uint32_t held_more(const struct pair *pair, int64_t slow)
{
    int64_t u = pair->share.u, room = (int64_t)pair->share.eps * 9 / 10, more = slow ? u * (room - slow) / slow : u / 4;
    bool flat = pair->held_u && pair->held_u < u && slow * 2 * pair->held_u <= pair->held_slow * (pair->held_u + u);

    if (flat && u * 3 / 2 <= (pair->cut_at ? pair->cut_at : SHARE_MAX * 2) * 3 / 4)
        return (uint32_t)u / 2;
    return (uint32_t)(more < u / 4 ? more : u / 4);
}

/* The law has only held, and there was room: let it try a little more. */
static void held(struct pair *pair)
{
    struct share *share = &pair->share;
    uint32_t more;
    int64_t slow;

    if (share->u == SHARE_MAX || pair->judged <= (int32_t)share->eps / 2 ||
        pair->judged > (int32_t)share->eps * 9 / 10) {
        pair->held = 0;
        pair->held_sum = 0;
        pair->held_u = pair->judged > (int32_t)share->eps ? 0 : pair->held_u;
        return;
    }
    pair->held_sum += pair->judged;
    if (++pair->held < HELD_PERIODS)
        return;
    slow = pair->held_sum / HELD_PERIODS;
    more = held_more(pair, slow);
    pair->held = 0;
    pair->held_sum = 0;
    pair->held_u = share->u;
    pair->held_slow = slow;
    share->u += more < SHARE_MAX - share->u ? more : SHARE_MAX - share->u;
}

/* How many periods in a row have to be over the tolerance before one counts: a little too much may be noise, and a cut
 * that would mean a pause of half a minute has to be sure of itself, unless it is plain. */
static uint32_t over_enough(const struct pair *pair)
{
    int64_t eps = pair->share.eps, slow = pair->slowdown;
    bool pauses = (slow > 3 * eps ? pair->share.u / 4 : pair->share.u * 3 / 4) < SHARE_START;

    if (slow > PLAIN * eps)
        return 1;
    return pauses ? OVER_PAUSE : slow <= 2 * eps ? OVER_CUT : 1;
}

static int32_t judge(struct pair *pair)
{
    int32_t eps = (int32_t)pair->share.eps;

    pair->over = pair->slowdown > eps ? pair->over + 1 : 0;
    pair->acquitted = pair->over ? pair->acquitted : 0;
    return pair->over && pair->over < over_enough(pair) ? eps : pair->slowdown;
}

/* The law would cut. Was it them? Closing them for a few steps tells. */
static void probe(struct pair *pair, usec_t now)
{
    pair->probing = true;
    pair->probe_at = now;
    pair->probes = 0;
    pair->settling = SETTLE_STEPS;
}

/* Does the guaranteed job suffer as much without them? Then the period says nothing of them. */
static bool probe_acquits(const struct pair *pair)
{
    int32_t closed = baseline_slowdown(&pair->baseline, pair->probe_launches, pair->probe_us, pair->probes);

    return closed > (int32_t)pair->share.eps;
}

/* What the law makes of the period. */
static uint32_t judged(struct pair *pair, usec_t now)
{
    uint32_t before = pair->share.u;

    pair->periods++;
    if (share_period(&pair->share, pair->judged < 0 ? 0 : (uint32_t)pair->judged, (uint64_t)(now / USEC_MSEC)) == 0)
        return 0;
    held(pair);
    pair->cut_at = pair->share.u < before ? before : pair->share.u >= pair->cut_at ? 0 : pair->cut_at;
    return pair->share.u;
}

static uint32_t period_end(struct pair *pair, usec_t now)
{
    uint32_t slowdown = pair->slowdown < 0 ? 0 : (uint32_t)pair->slowdown;

    pair->period_since = now;
    pair->steps = 0;
    if (pair->law == PAIR_DUTY) {
        pair->periods++;
        return 10 * feedback_period(&pair->feedback, slowdown, now);
    }
    pair->judged = judge(pair);
    if (pair->judged <= (int32_t)pair->share.eps)
        return judged(pair, now);
    probe(pair, now);
    return 0;
}

static uint32_t probe_turn(struct pair *pair, usec_t now)
{
    if (pair->probes < PAIR_PROBE_STEPS && now - pair->probe_at < laws[pair->law].period)
        return 0;
    pair->probing = false;
    pair->period_since = now;
    /* Noise ends. What does not may be a neighbour's doing that a gate cannot stop, and who closes it for good finds
     * out. */
    if (!probe_acquits(pair) || pair->acquitted >= ACQUIT_MOST)
        return judged(pair, now);
    pair->acquitted++;
    pair->over = 0;
    return share_now(pair);
}

uint32_t pair_turn(struct pair *pair, usec_t now)
{
    const struct law *law = &laws[pair->law];
    usec_t span;

    if (pair->probing)
        return probe_turn(pair, now);
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
