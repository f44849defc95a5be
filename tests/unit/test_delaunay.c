/* SPDX-License-Identifier: Apache-2.0 */
/* test_delaunay.c - interpolation inside Delaunay cells: exact at the points and for anything straight. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "sim/world/delaunay.h"

enum { SIDE = 4, COUNT = SIDE * SIDE * SIDE };

static double straight(const double at[3])
{
    return 3 + 2 * at[0] - at[1] + 0.25 * at[2];
}

static struct delaunay *make(struct delaunay_point points[COUNT])
{
    struct delaunay *delaunay = NULL;
    struct error err = { 0 };
    int r;

    for (int i = 0; i < COUNT; i++) {
        double *at = points[i].at;

        at[0] = i % SIDE;
        at[1] = 2 * (i / SIDE % SIDE);
        at[2] = 16 << (i / SIDE / SIDE);
        points[i].y[0] = straight(at);
        points[i].y[1] = i;
    }
    r = delaunay_new(points, COUNT, &delaunay, &err);
    if (r == -ENOTSUP)
        skip();
    assert_int_equal(r, 0);
    return delaunay;
}

static void points_are_themselves(void **state)
{
    struct delaunay_point points[COUNT];
    struct delaunay *delaunay = make(points);
    double y[2];

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        assert_true(delaunay_at(delaunay, points[i].at, y));
        assert_true(fabs(y[0] - points[i].y[0]) < 1e-9 && fabs(y[1] - points[i].y[1]) < 1e-9);
    }
    delaunay_free(delaunay);
}

/* Whatever the cut, what is straight stays so, and nothing leaves the range of what was measured. */
static void straight_between(void **state)
{
    struct delaunay_point points[COUNT];
    struct delaunay *delaunay = make(points);
    double y[2];

    (void)state;
    for (int i = 0; i < 1000; i++) {
        double at[3] = { i % 10 / 3.0, i / 10 % 10 / 1.5, 16 + i / 100 * 12.4 };

        assert_true(delaunay_at(delaunay, at, y));
        assert_true(fabs(y[0] - straight(at)) < 1e-9);
        assert_true(y[1] > -1e-9 && y[1] < COUNT - 1 + 1e-9);
    }
    delaunay_free(delaunay);
}

static void nothing_outside(void **state)
{
    struct delaunay_point points[COUNT];
    struct delaunay *delaunay = make(points);
    double y[2];

    (void)state;
    assert_false(delaunay_at(delaunay, (const double[3]){ -1, 0, 20 }, y));
    assert_false(delaunay_at(delaunay, (const double[3]){ 1, 1, 129 }, y));
    delaunay_free(delaunay);
}

static void needs_volume(void **state)
{
    struct delaunay_point points[COUNT];
    struct delaunay *delaunay = make(points);
    struct error err = { 0 };

    (void)state;
    delaunay_free(delaunay);
    for (int i = 0; i < COUNT; i++)
        points[i].at[2] = 1;
    assert_int_equal(delaunay_new(points, COUNT, &delaunay, &err), -EINVAL);
    assert_non_null(strstr(err.text, "no volume"));
    assert_int_equal(delaunay_new(points, 4, &delaunay, &err), -EINVAL);
    assert_non_null(strstr(err.text, "4 points measured; expected 5"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_are_themselves),
        cmocka_unit_test(straight_between),
        cmocka_unit_test(nothing_outside),
        cmocka_unit_test(needs_volume),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
