/* SPDX-License-Identifier: Apache-2.0 */
/* Two contexts that take turns on a card, as a channel group's time slice makes them: what each way of holding a
 * neighbour back costs a guaranteed job of 4 ms GPU and 2 ms host a step, and what it leaves the neighbour. An H200
 * gave the order that is asked for here; the figures are the model's own. The gate is the library's (admit.h).
 *
 * A context has the card until its queue is empty or its slice is over while the other has work. To take it from one
 * that has work left costs 350 us, from one that has none 100.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "shim/gate/admit.h"

#define TICK 10 /* us */
#define BURST 4000
#define HOST 2000
#define STEP (BURST + HOST)
#define STEPS 2000
#define SLICE 2048 /* what the driver sets */
#define TAKEN 350
#define EMPTY 100
#define LAUNCH 50 /* from the end of a kernel until the next is there */

enum { GUARANTEED, NEIGHBOUR, CONTEXTS };

struct way { /* of holding the neighbour back */
    const char *name;
    int64_t slice[CONTEXTS];
    int64_t kernel, period; /* its kernels; one each so often, 0: always more */
    uint32_t window;        /* of the gate; 0: none */
    int64_t p50, share;     /* what came out: us a step, permille of the card */
};

struct card {
    int64_t work[CONTEXTS]; /* in the queues */
    int64_t slice_left, switching;
    int owner, next;
    int64_t launch_at; /* the neighbour's */
};

static bool gate_open(const struct way *way, const struct card *card, bool active, int64_t elapsed)
{
    const struct admit_knobs knobs = { .window_us = way->window };
    const struct admit_state state = { .rg_state = active ? RG_ACTIVE : RG_IDLE,
                                       .elapsed_us = (uint64_t)elapsed,
                                       .inflight_us = (uint64_t)card->work[NEIGHBOUR],
                                       .cost_us = (uint32_t)way->kernel };

    return admit_harvest(&knobs, &state) == ADMIT_GO;
}

/* Blindly: one a period, whatever the other does. By the gate one after the other, as it lets them. Else the queue is
 * never empty. */
static void neighbour_launches(const struct way *way, struct card *card, int64_t now, bool active, int64_t elapsed)
{
    if (now < card->launch_at)
        return;
    if (way->window ? !gate_open(way, card, active, elapsed) : card->work[NEIGHBOUR] >= 2 * way->kernel)
        return;
    card->work[NEIGHBOUR] += way->kernel;
    if (way->period)
        card->launch_at = now - now % way->period + way->period;
    else if (way->window && card->work[NEIGHBOUR] <= way->kernel)
        card->launch_at = now + LAUNCH;
}

static void card_tick(const struct way *way, struct card *card)
{
    int other = 1 - card->owner;

    if (card->switching > 0) {
        card->switching -= TICK;
        if (card->switching <= 0) {
            card->owner = card->next;
            card->slice_left = way->slice[card->owner];
        }
        return;
    }
    if (card->work[other] > 0 && (card->work[card->owner] <= 0 || card->slice_left <= 0)) {
        card->switching = card->work[card->owner] <= 0 ? EMPTY : TAKEN;
        card->next = other;
        return;
    }
    if (card->slice_left <= 0)
        card->slice_left = way->slice[card->owner];
    card->slice_left -= TICK;
    if (card->work[card->owner] > 0)
        card->work[card->owner] -= TICK;
}

static int by_length(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void play(struct way *way)
{
    static int64_t took[STEPS];
    struct card card = { .slice_left = SLICE, .owner = GUARANTEED };
    int64_t now = 0, begun = 0, host_until = HOST, idle_since = 0, served = 0;
    struct rng rng;
    bool active = false;

    rng_seed(&rng, 7);
    for (int step = 0; step < STEPS; now += TICK) {
        bool theirs = card.owner == NEIGHBOUR && card.switching <= 0 && card.work[NEIGHBOUR] > 0;

        if (!active && now >= host_until) {
            card.work[GUARANTEED] = BURST;
            active = true;
        } else if (active && card.work[GUARANTEED] <= 0) {
            active = false;
            idle_since = now;
            took[step++] = now - begun + HOST;
            host_until = now + HOST + (int64_t)rng_below(&rng, 41) * TICK - 20 * TICK; /* a host's jitter */
            begun = host_until;
        }
        neighbour_launches(way, &card, now, active, now - idle_since);
        card_tick(way, &card);
        served += theirs ? TICK : 0;
    }
    qsort(took, STEPS, sizeof(took[0]), by_length);
    way->p50 = took[STEPS / 2];
    way->share = served * 1000 / now;
    (void)printf("# %-34s step %lld us (%+lld permille), neighbour %lld permille\n", way->name, (long long)way->p50,
                 (long long)((way->p50 - STEP) * 1000 / STEP), (long long)way->share);
}

enum { NONE, OT_500, OT_200, OT_100, BOTH, DUTY, DUTY_RARE, GATE_200, GATE_1000, GATE_FOUR, WAYS };
static struct way ways[WAYS] = {
    [NONE] = { "nothing", { SLICE, SLICE }, 1000, 0, 0, 0, 0 },
    [OT_500] = { "its slice 500 us", { SLICE, 500 }, 1000, 0, 0, 0, 0 },
    [OT_200] = { "its slice 200 us", { SLICE, 200 }, 1000, 0, 0, 0, 0 },
    [OT_100] = { "its slice 100 us", { SLICE, 100 }, 1000, 0, 0, 0, 0 },
    [BOTH] = { "slices of 10 ms and 200 us", { 10000, 200 }, 1000, 0, 0, 0, 0 },
    [DUTY] = { "blindly 0.5 of 2.5 ms", { SLICE, SLICE }, 500, 2500, 0, 0, 0 },
    [DUTY_RARE] = { "blindly 1 of 10 ms", { SLICE, SLICE }, 1000, 10000, 0, 0, 0 },
    [GATE_200] = { "the gate, one of 200 us", { SLICE, SLICE }, 200, 0, 200, 0, 0 },
    [GATE_1000] = { "the gate, one of 1 ms", { SLICE, SLICE }, 1000, 0, 1000, 0, 0 },
    [GATE_FOUR] = { "the gate, four of 200 us", { SLICE, SLICE }, 200, 0, 800, 0, 0 },
};

/* Each costs the guaranteed job less than the one before it. */
static void costs_fall(const int *order, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (ways[order[i]].p50 >= ways[order[i - 1]].p50)
            fail_msg("%s costs no less than %s", ways[order[i]].name, ways[order[i - 1]].name);
}

static void test_order(void **state)
{
    static const int slices[] = { NONE, OT_500, OT_200, OT_100, BOTH };
    static const int gates[] = { NONE, GATE_FOUR, BOTH, GATE_1000, GATE_200 };

    (void)state;
    for (int i = 0; i < WAYS; i++)
        play(&ways[i]);
    costs_fall(slices, sizeof(slices) / sizeof(slices[0]));
    costs_fall(gates, sizeof(gates) / sizeof(gates[0]));
    /* What the neighbour has of it: by slices the less the shorter, by the gate most of the gaps. */
    for (int i = NONE; i < OT_100; i++)
        assert_true(ways[i].share > ways[i + 1].share);
    assert_true(ways[GATE_1000].share > ways[GATE_200].share && ways[GATE_FOUR].share > ways[GATE_200].share);
    assert_true(ways[GATE_200].share > 250); /* of 333 */
    /* Blindly costs more than slices or the gate, and leaves less. */
    for (int i = BOTH; i <= GATE_1000; i++)
        if (i != DUTY && i != DUTY_RARE)
            assert_true(ways[DUTY].p50 > ways[i].p50 && ways[DUTY].share < ways[i].share);
    assert_true(ways[DUTY_RARE].share < ways[DUTY].share && ways[DUTY_RARE].p50 < ways[DUTY].p50);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_order) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
