/* SPDX-License-Identifier: Apache-2.0 */
/* How close to the end of a gap a neighbour runs: the law by itself. test_gpurt_pair.c plays it on a modelled GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpurt/control/edge.h"

static int32_t period(struct edge *edge, int32_t slowdown, uint32_t share, uint32_t step_us)
{
    return edge_period(
        edge, &(struct edge_look){ .slowdown = slowdown, .eps = 20, .share = share, .step_us = step_us, .held = true });
}

static void test_moves(void **state)
{
    struct edge edge;

    (void)state;
    assert_int_equal(edge_aim(20), 15);
    edge_init(&edge, 14);
    assert_int_equal(period(&edge, 9, 1000, 11000), -41);
    assert_int_equal(period(&edge, 13, 1000, 11000), -49);
    assert_int_equal(period(&edge, 16, 1000, 11000), -33);
    assert_int_equal(period(&edge, 0, 1000, 1000000), -153); /* no more than a period's */
    assert_int_equal(period(&edge, 20, 1000, 1000000), -33); /* either way */
    assert_int_equal(period(&edge, 20, 1000, UINT32_MAX), 0);
}

static void test_stays(void **state)
{
    struct edge edge;

    (void)state;
    edge_init(&edge, 14);
    edge.us = -80;
    assert_int_equal(period(&edge, 0, 899, 11000), -80);   /* the share's own law is in charge */
    assert_int_equal(period(&edge, -1, 1000, 11000), -80); /* nothing is known */
    assert_int_equal(period(&edge, 21, 1000, 11000), -40); /* a cut */
    assert_int_equal(period(&edge, 500, 0, 11000), -20);
    edge.us = 60; /* a wider guard stays */
    assert_int_equal(period(&edge, 21, 1000, 11000), 60);
    edge.us = -80; /* a neighbour that starts up: what it is not held back from says nothing of the edge */
    assert_int_equal(
        edge_period(&edge, &(struct edge_look){ .slowdown = 0, .eps = 20, .share = 1000, .step_us = 11000 }), -80);
    edge_init(&edge, 0);
    assert_int_equal(period(&edge, 0, 1000, 11000), 0); /* off */
}

static void test_bounds(void **state)
{
    struct edge edge;

    (void)state;
    edge_init(&edge, 14);
    for (int i = 0; i < 1000; i++)
        assert_true(period(&edge, 0, 1000, 11000) >= -EDGE_MOST_US);
    assert_int_equal(edge.us, -EDGE_MOST_US);
    for (int i = 0; i < 1000; i++)
        assert_true(period(&edge, 19, 1000, 11000) <= 0);
    assert_int_equal(edge.us, 0);
}

static int32_t told(struct edge *edge, uint32_t gaps, uint32_t late, int32_t slowdown)
{
    return edge_period(
        edge, &(struct edge_look){
                  .slowdown = slowdown, .eps = 20, .share = 1000, .step_us = 11000, .gaps = gaps, .late = late });
}

/* Where the neighbour counts the gaps it was late in, those decide, and how slow the steps are does not. */
static void test_gaps(void **state)
{
    struct edge edge;

    (void)state;
    edge_init(&edge, 14);
    assert_int_equal(told(&edge, 40, 0, 19), -48);
    assert_int_equal(told(&edge, 40, 0, 0), -96);
    assert_int_equal(told(&edge, 40, 4, 5), -96);
    assert_int_equal(told(&edge, 40, 12, 0), 0);
    assert_int_equal(told(&edge, 40, 40, 0), 120); /* no more than a period's */
    assert_int_equal(told(&edge, 40, 0, 21), 120); /* a cut leaves a wide guard alone */
    assert_int_equal(told(&edge, 7, 7, 14), 120);  /* too few say nothing, and nobody else does */
    for (int i = 0; i < 100; i++)
        (void)told(&edge, 40, 40, 0);
    assert_int_equal(edge.us, EDGE_BACK_US);
    for (int i = 0; i < 100; i++)
        (void)told(&edge, 40, 0, 0);
    assert_int_equal(edge.us, -EDGE_MOST_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_stays),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_gaps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
