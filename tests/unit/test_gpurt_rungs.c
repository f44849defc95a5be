/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates of the ladder's rungs, slices by shares, and when a neighbour counts as unruly: the pure parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpurt/control/fraction.h"
#include "gpurt/control/unruly.h"
#include "gpurt/ladder/estimate.h"

#define SEC 1000000000ULL

/* ---- estimates */

static const struct estimate_process large = {
    .movable = 40960, .fixed = 0, .context = 512, .prepared = 65536, .host_free = 65536, .moves = true, .releases = true
};

/* 40 GiB as they were measured: 0.8 s each way by copies, 0.4 and 0.25 s more for the driver's part. */
static void test_estimate(void **state)
{
    struct estimate_rates rates;
    struct estimate e;

    (void)state;
    estimate_rates_init(&rates);
    e = estimate_of(&rates, &large, RUNG_PAUSE);
    assert_true(e.can);
    assert_int_equal(e.freed + e.host + e.save_ms + e.back_ms, 0);
    e = estimate_of(&rates, &large, RUNG_EVICT);
    assert_true(e.can);
    assert_int_equal(e.freed, 40960);
    assert_int_equal(e.host, 40960 + 2048);
    assert_int_equal(e.save_ms, 787);
    assert_int_equal(e.back_ms, 787);
    e = estimate_of(&rates, &large, RUNG_RELEASE);
    assert_int_equal(e.freed, 41472);
    assert_int_equal(e.save_ms, 787 + 400);
    assert_int_equal(e.back_ms, 787 + 250);
    e = estimate_of(&rates, &large, RUNG_SAVE);
    assert_true(e.can);
    assert_int_equal(e.freed, 41472);
}

/* A limit of its own on host memory is one, whatever the machine has. */
static void test_estimate_limited(void **state)
{
    struct estimate_process limited = large;
    struct estimate_rates rates;

    (void)state;
    estimate_rates_init(&rates);
    limited.host_limit = 1 + 40960;
    assert_true(estimate_of(&rates, &limited, RUNG_EVICT).can);
    assert_int_equal(estimate_choose(&rates, &limited, 1024), RUNG_EVICT);
    limited.host_limit = 1 + 16;
    assert_true(estimate_of(&rates, &limited, RUNG_PAUSE).can);
    assert_false(estimate_of(&rates, &limited, RUNG_EVICT).can);
    assert_false(estimate_of(&rates, &limited, RUNG_RELEASE).can); /* it copies as well */
    assert_int_equal(estimate_choose(&rates, &limited, 1024), RUNG_SAVE);
}

/* The same held natively is the driver's, at its own speed; host memory that is not there yet takes time, or is none.
 */
static void test_estimate_native(void **state)
{
    struct estimate_process native = large, bare = large;
    struct estimate_rates rates;
    struct estimate e;

    (void)state;
    estimate_rates_init(&rates);
    native.moves = false;
    assert_false(estimate_of(&rates, &native, RUNG_EVICT).can);
    e = estimate_of(&rates, &native, RUNG_RELEASE);
    assert_true(e.can);
    assert_int_equal(e.save_ms, 400 + 25600);
    assert_int_equal(e.back_ms, 250 + 6501);
    native.releases = false;
    assert_false(estimate_of(&rates, &native, RUNG_RELEASE).can);
    bare.prepared = 0;
    assert_int_equal(estimate_of(&rates, &bare, RUNG_EVICT).save_ms, 787 + 8601);
    bare.host_free = 43007;
    assert_false(estimate_of(&rates, &bare, RUNG_EVICT).can);
    assert_false(estimate_of(&rates, &bare, RUNG_RELEASE).can);
}

static void test_choose(void **state)
{
    struct estimate_process process = large;
    struct estimate_rates rates;

    (void)state;
    estimate_rates_init(&rates);
    assert_int_equal(estimate_choose(&rates, &process, 0), RUNG_PAUSE);
    assert_int_equal(estimate_choose(&rates, &process, 1), RUNG_EVICT);
    assert_int_equal(estimate_choose(&rates, &process, 40960), RUNG_EVICT);
    assert_int_equal(estimate_choose(&rates, &process, 40961), RUNG_RELEASE);
    assert_int_equal(estimate_choose(&rates, &process, 41473), RUNG_SAVE);
    process.releases = false;
    assert_int_equal(estimate_choose(&rates, &process, 40961), RUNG_SAVE);
    process.host_free = process.prepared = 0;
    assert_int_equal(estimate_choose(&rates, &process, 1), RUNG_SAVE);
}

/* A quarter of the way by each move; small ones and nonsense say nothing. */
static void test_learn(void **state)
{
    struct estimate_rates rates;

    (void)state;
    estimate_rates_init(&rates);
    estimate_learn(&rates.out, 1000, SEC / 10);
    assert_int_equal(rates.out, (3 * 52000 + 10000) / 4);
    estimate_learn(&rates.back, 63, SEC);
    estimate_learn(&rates.back, 1000, 0);
    assert_int_equal(rates.back, 52000);
    estimate_learn(&rates.back, UINT64_MAX / SEC, 1);
    assert_int_equal(rates.back, (3 * 52000 + 1000000) / 4);
    for (int i = 0; i < 100; i++)
        estimate_learn_ms(&rates.driver_out_ms, 350 * SEC / 1000);
    assert_in_range(rates.driver_out_ms, 349, 351);
}

/* ---- shares */

static void test_slices(void **state)
{
    (void)state;
    assert_int_equal(fraction_slice(500, 2, FRACTION_GAIN), 2000);
    assert_int_equal(fraction_slice(250, 4, FRACTION_GAIN), 2000);
    assert_int_equal(fraction_slice(750, 2, FRACTION_GAIN), 3000);
    assert_int_equal(fraction_slice(250, 2, FRACTION_GAIN), 1000);
    assert_int_equal(fraction_slice(1, 2, FRACTION_GAIN), FRACTION_LEAST_US);
    assert_int_equal(fraction_slice(1000, 512, FRACTION_GAIN), FRACTION_MOST_US);
}

/* A job gets a quarter less than its slice says: the correction brings what it is busy to its share. */
static void test_correction(void **state)
{
    uint32_t gain[2] = { FRACTION_GAIN, FRACTION_GAIN }, busy[2];

    (void)state;
    assert_int_equal(fraction_gain(1000, 100, 1000, 0, 0), 1000);
    assert_int_equal(fraction_gain(1000, 100, 1000, 0, 100), 1000);
    assert_int_equal(fraction_gain(1000, 500, 1000, 25, 100), 1500);
    assert_int_equal(fraction_gain(4000, 900, 1000, 1, 1000), 4000);
    assert_int_equal(fraction_gain(300, 1, 1000, 1000, 1000), 250);
    for (int i = 0; i < 40; i++) {
        uint32_t a = fraction_slice(800, 2, gain[0]), b = fraction_slice(200, 2, gain[1]) * 3 / 4;

        busy[0] = a * 100 / (a + b);
        busy[1] = 100 - busy[0];
        gain[0] = fraction_gain(gain[0], 800, 1000, busy[0], 100);
        gain[1] = fraction_gain(gain[1], 200, 1000, busy[1], 100);
    }
    assert_in_range(busy[1], 19, 21);
}

/* ---- unruly */

static bool suffers(uint32_t wall_us, bool closed, unsigned int steps)
{
    struct unruly unruly = { 0 };
    struct baseline alone;
    uint64_t now = SEC;
    bool is = false;

    baseline_reset(&alone);
    for (int i = 0; i < 20; i++)
        (void)baseline_add(&alone, 100, 10000);
    (void)unruly_turn(&unruly, &alone, 20, closed, now);
    now += UNRULY_AFTER_NS;
    for (unsigned int i = 0; i < steps; i++) {
        unruly_step(&unruly, 100, wall_us, now);
        is = unruly_turn(&unruly, &alone, 20, closed, now);
    }
    return is;
}

static void test_unruly(void **state)
{
    struct unruly unruly = { 0 };
    struct baseline alone;

    (void)state;
    assert_false(suffers(10700, true, 15)); /* not enough of them yet */
    assert_true(suffers(10700, true, 16));
    assert_false(suffers(10600, true, 64)); /* three times the tolerance is not exceeded */
    assert_false(suffers(20000, false, 64));
    /* What ended just after the gate closed was begun before. */
    baseline_reset(&alone);
    (void)baseline_add(&alone, 100, 10000);
    (void)unruly_turn(&unruly, &alone, 20, true, SEC);
    unruly_step(&unruly, 100, 20000, SEC + UNRULY_AFTER_NS - 1);
    assert_int_equal(unruly.count, 0);
    unruly_step(&unruly, 100, 20000, SEC + UNRULY_AFTER_NS);
    assert_int_equal(unruly.count, 1);
    assert_int_equal(unruly_way(NULL), UNRULY_STOP);
    assert_int_equal(unruly_way("end"), UNRULY_END);
    assert_int_equal(unruly_way("off"), UNRULY_OFF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_estimate_limited),
        cmocka_unit_test(test_estimate),
        cmocka_unit_test(test_estimate_native),
        cmocka_unit_test(test_choose),
        cmocka_unit_test(test_learn),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_correction),
        cmocka_unit_test(test_unruly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
