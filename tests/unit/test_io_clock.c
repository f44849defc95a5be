/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a daemon while somebody sets the clock of its machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/clock.h"

#define START (1000000 * USEC_SEC)

/* A machine whose clock is `off` from where it began. */
static usec_t at(struct clock *clock, usec_t passed, usec_t off, usec_t *ret_set)
{
    return clock_step(clock, START + passed + off, passed, ret_set) - START;
}

static void usual(void **state)
{
    struct clock clock = { 0 };
    usec_t set, off = 0;

    (void)state;
    assert_int_equal(at(&clock, 0, 0, &set), 0);
    for (usec_t t = 1; t < 20 * USEC_SEC; t += 977) {
        off = t / 2000; /* a clock that is kept by NTP: 500 ppm at most */
        assert_in_range(at(&clock, t, off, &set), (uintmax_t)(t + off - 1), (uintmax_t)(t + off + 1));
        assert_int_equal(set, 0);
    }
}

/* Set by `off` at 10 s: time goes on, neither more than a tenth too fast nor too slow, until both agree. */
static void leap(usec_t off)
{
    struct clock clock = { 0 };
    usec_t set, before = 0, told = 0;
    usec_t span = (off < 0 ? -off : off) * 10;

    for (usec_t t = 0; t <= 10 * USEC_SEC + span; t += USEC_SEC) {
        usec_t now = at(&clock, t, t >= 10 * USEC_SEC ? off : 0, &set);

        if (t > 0)
            assert_in_range(now - before, USEC_SEC * 9 / 10, USEC_SEC * 11 / 10);
        told += set;
        before = now;
    }
    assert_int_equal(told, off);
    assert_int_equal(before, 10 * USEC_SEC + span + off);
}

static void leaps(void **state)
{
    (void)state;
    leap(3600 * USEC_SEC);
    leap(-7200 * USEC_SEC);
    leap(5 * USEC_SEC);
}

static void edges(void **state)
{
    struct clock clock = { .now = START + 50 }; /* a state that was written by a clock ahead of this one */
    usec_t set, first;

    (void)state;
    assert_int_equal(at(&clock, 0, 0, &set), 50);
    first = at(&clock, 100, 0, &set);
    assert_in_range(first, 51, 149);
    assert_int_equal(at(&clock, 100, 0, &set), first); /* no time has passed */
    assert_int_equal(at(&clock, 90, 0, &set), first);  /* asked by two threads, in the other order */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual),
        cmocka_unit_test(leaps),
        cmocka_unit_test(edges),
    };

    return cmocka_run_group_tests_name("io_clock", tests, NULL, NULL);
}
