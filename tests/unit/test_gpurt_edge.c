/* SPDX-License-Identifier: Apache-2.0 */
/* How close to the end of a gap a neighbour runs: the law by itself, then admission, the pair's loop and the law
 * together on a modelled GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "coord/pair.h"
#include "gpurt/edge.h"
#include "shim/admit.h"

/* ---- the law, exact */

static void test_moves(void **state)
{
    struct edge edge;

    (void)state;
    assert_int_equal(edge_aim(20), 15);
    edge_init(&edge, 14);
    assert_int_equal(edge_period(&edge, 9, 20, 1000, 11000), -41);
    assert_int_equal(edge_period(&edge, 13, 20, 1000, 11000), -49);
    assert_int_equal(edge_period(&edge, 16, 20, 1000, 11000), -33);
    assert_int_equal(edge_period(&edge, 0, 20, 1000, 1000000), -93);  /* no more than a period's */
    assert_int_equal(edge_period(&edge, 20, 20, 1000, 1000000), -33); /* either way */
    assert_int_equal(edge_period(&edge, 20, 20, 1000, UINT32_MAX), 0);
}

static void test_stays(void **state)
{
    struct edge edge;

    (void)state;
    edge_init(&edge, 14);
    edge.us = -80;
    assert_int_equal(edge_period(&edge, 0, 20, 899, 11000), -80);   /* the share's own law is in charge */
    assert_int_equal(edge_period(&edge, -1, 20, 1000, 11000), -80); /* nothing is known */
    assert_int_equal(edge_period(&edge, 21, 20, 1000, 11000), -40); /* a cut */
    assert_int_equal(edge_period(&edge, 500, 20, 0, 11000), -20);
    edge_init(&edge, 0);
    assert_int_equal(edge_period(&edge, 0, 20, 1000, 11000), 0); /* off */
}

static void test_bounds(void **state)
{
    struct edge edge;

    (void)state;
    edge_init(&edge, 14);
    for (int i = 0; i < 1000; i++)
        assert_true(edge_period(&edge, 0, 20, 1000, 11000) >= -EDGE_MOST_US);
    assert_int_equal(edge.us, -EDGE_MOST_US);
    for (int i = 0; i < 1000; i++)
        assert_true(edge_period(&edge, 19, 20, 1000, 11000) <= 0);
    assert_int_equal(edge.us, 0);
}

/* ---- a modelled pair
 *
 * The guaranteed job: a burst of 2960 us, a gap of 8000 give or take 30. The neighbour: kernels of 70 us that the gate
 * believes to take more or less. When the burst comes and finds work in flight it waits for the time slice (at most 200
 * us); a neighbour that ran in the gap at all costs a hand-over. Admission is the real one, the loop is the real one.
 */
#define BURST 2960u
#define GAP 8000u
#define KERNEL 70u
#define SLICE 200u
#define HAND_OVER 60u

struct outcome {
    uint32_t slower, share; /* permille: of the step, of the time alone */
    int32_t edge;
    uint32_t cuts;
};

static uint32_t draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

/* One gap: how much the neighbour got done; *ret_late is what of it was in flight when the burst came. */
static uint32_t gap_play(const struct admit_knobs *knobs, uint32_t length, uint32_t estimate, uint32_t *ret_late)
{
    uint64_t busy_until = 0, launched = 0;

    for (uint64_t t = 40; t < length; t += 10) { /* woken after 40 us */
        for (;;) {
            uint64_t left = busy_until > t ? busy_until - t : 0;
            struct admit_state s = { .rg_state = RG_IDLE, .gap_pred_us = GAP - 10, .elapsed_us = t };

            s.cost_us = estimate;
            s.inflight_us = left * estimate / KERNEL;
            if (admit_harvest(knobs, &s) != ADMIT_GO)
                break;
            busy_until = (busy_until > t ? busy_until : t) + KERNEL;
            launched += KERNEL;
        }
    }
    *ret_late = busy_until > length ? (uint32_t)(busy_until - length) : 0;
    return (uint32_t)launched;
}

static struct outcome play(uint32_t aim, uint32_t estimate, unsigned int seconds)
{
    struct outcome out = { 0 };
    struct pair pair;
    struct edge edge;
    usec_t now = 1;
    uint64_t done = 0, steps = 0, walls = 0, from = (uint64_t)seconds * 500000;
    uint32_t seed = 7, u = 0, before = 0, seen = 0;

    pair_begin(&pair, PAIR_GAPS, 20, now);
    edge_init(&edge, aim);
    while (now < (usec_t)seconds * 1000000) {
        uint32_t length = GAP - 30 + draw(&seed) % 61, late = 0, work = 0, wall;
        struct admit_knobs knobs;

        if (u) {
            admit_map(u, &knobs);
            knobs.guard_us += (int32_t)((admit_window(knobs.window_us, 3000, u, GAP, true) - knobs.window_us) / 16);
            knobs.window_us = admit_window(knobs.window_us, 3000, u, GAP, true);
            knobs.guard_us += edge.us;
            work = gap_play(&knobs, length, estimate, &late);
        }
        wall = BURST + length + (work ? HAND_OVER : 0) + (late < SLICE ? late : SLICE);
        now += wall;
        pair_step(&pair, 18, wall);
        before = u;
        u = pair_turn(&pair, now);
        out.cuts += u < before;
        if (pair.periods != seen) {
            seen = pair.periods;
            (void)edge_period(&edge, pair.judged, 20, u, wall);
        }
        if ((uint64_t)now > from) {
            done += work;
            walls += wall;
            steps++;
        }
    }
    out.slower = (uint32_t)(walls * 1000 / (steps * (BURST + GAP)) - 1000);
    out.share = (uint32_t)(done * 1000 / walls);
    out.edge = edge.us;
    print_message("# aim %u, estimate %u for %u us: %u permille slower, neighbour %u, edge %d, %u cuts\n", aim,
                  estimate, KERNEL, out.slower, out.share, out.edge, out.cuts);
    return out;
}

static void test_model(void **state)
{
    static const uint32_t estimates[] = { 63, 70, 74, 80, 90 };

    (void)state;
    for (size_t i = 0; i < sizeof(estimates) / sizeof(estimates[0]); i++) {
        struct outcome fixed = play(0, estimates[i], 30), found = play(edge_aim(20), estimates[i], 30);

        assert_true(found.slower <= 20);
        assert_true(found.share >= fixed.share);
        assert_true(found.slower + 4 >= edge_aim(20) || found.edge == -EDGE_MOST_US);
        assert_true(found.cuts <= 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_stays),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
