/* SPDX-License-Identifier: Apache-2.0 */
/* test_solve_fit.c - non-negative least squares, and the fits of loss and speed: examples O1 and O2 of Optimus. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/rng_real.h"
#include "solve/loss_fit.h"
#include "solve/nnls.h"
#include "solve/speed_fit.h"

#define NEAR(a, b, eps)                                                                                                \
    do {                                                                                                               \
        double near_a = (a), near_b = (b);                                                                             \
        if (!(fabs(near_a - near_b) <= (eps)))                                                                         \
            fail_msg("%s = %.12g, expected %.12g", #a, near_a, near_b);                                                \
    } while (0)

/* ---- nnls ---- */

/* The best of all sets of columns, by the normal equations: slow, and obviously right. */
static double brute(const struct nnls *p)
{
    double best = 0;

    for (int r = 0; r < p->rows; r++)
        best += p->b[r] * p->b[r];
    for (int set = 1; set < 1 << p->cols; set++) {
        double m[NNLS_COLS_MAX][NNLS_COLS_MAX + 1] = { { 0 } }, x[NNLS_COLS_MAX] = { 0 }, error = 0;
        int member[NNLS_COLS_MAX], n = 0;
        int negative = 0;

        for (int c = 0; c < p->cols; c++)
            if (set >> c & 1)
                member[n++] = c;
        for (int i = 0; i < n; i++)
            for (int r = 0; r < p->rows; r++) {
                for (int k = 0; k < n; k++)
                    m[i][k] += p->a[r][member[i]] * p->a[r][member[k]];
                m[i][n] += p->a[r][member[i]] * p->b[r];
            }
        for (int i = 0; i < n; i++)
            for (int k = 0; k < n; k++) {
                double f = k == i ? 0 : m[k][i] / m[i][i];

                for (int c = i; c <= n; c++)
                    m[k][c] -= f * m[i][c];
            }
        for (int i = 0; i < n; i++) {
            x[member[i]] = m[i][n] / m[i][i];
            negative |= !(x[member[i]] >= 0);
        }
        for (int r = 0; r < p->rows; r++) {
            double off = p->b[r];

            for (int c = 0; c < p->cols; c++)
                off -= p->a[r][c] * x[c];
            error += off * off;
        }
        if (!negative && error < best)
            best = error;
    }
    return best;
}

static void test_nnls_random(void **state)
{
    struct rng rng;

    (void)state;
    rng_seed(&rng, 7);
    for (int t = 0; t < 3000; t++) {
        struct nnls p = { .cols = 1 + (int)rng_below(&rng, 5) };
        double x[NNLS_COLS_MAX], error, best;

        p.rows = p.cols + (int)rng_below(&rng, 12);
        for (int r = 0; r < p.rows; r++) {
            for (int c = 0; c < p.cols; c++)
                p.a[r][c] = (rng_unit(&rng) - 0.3) * (c == 0 ? 1000 : 1);
            p.b[r] = rng_unit(&rng) - 0.4;
        }
        assert_int_equal(nnls_solve(&p, x, &error), 0);
        best = brute(&p);
        for (int c = 0; c < p.cols; c++)
            assert_true(x[c] >= 0);
        NEAR(error, best, 1e-9 * (1 + best));
    }
}

static void test_nnls_corners(void **state)
{
    struct nnls p = { .rows = 2, .cols = 2, .a = { { 1, 2 }, { 1, 2 } }, .b = { 3, 3 } };
    double x[2], error;

    (void)state;
    assert_int_equal(nnls_solve(&p, x, &error), 0); /* columns that say the same */
    NEAR(x[0] + 2 * x[1], 3, 1e-12);
    NEAR(error, 0, 1e-20);
    p.b[0] = p.b[1] = -1; /* only negative numbers would do */
    assert_int_equal(nnls_solve(&p, x, &error), 0);
    NEAR(x[0], 0, 0);
    NEAR(x[1], 0, 0);
    p.a[0][0] = HUGE_VAL;
    assert_int_equal(nnls_solve(&p, x, NULL), -EINVAL);
    p.rows = 0;
    assert_int_equal(nnls_solve(&p, x, NULL), -EINVAL);
    p.rows = NNLS_ROWS_MAX + 1;
    assert_int_equal(nnls_solve(&p, x, NULL), -EINVAL);
}

/* ---- loss ---- */

static int curve(struct loss_point *points, int count, double b0, double b1, double b2)
{
    for (int k = 0; k < count; k++)
        points[k] = (struct loss_point){ k, 1 / (b0 * k + b1) + b2 };
    return count;
}

static void test_o1(void **state)
{
    static const double first[] = { 1.1, 0.9333, 0.8143, 0.7250, 0.6556, 0.6 };
    static const double falls[] = { 0.02498, 0.02165, 0.01894, 0.01671, 0.01485 };
    struct loss_point points[20];
    struct loss_fit fit;

    (void)state;
    curve(points, 20, 0.2, 1.0, 0.1);
    for (int k = 0; k < 6; k++)
        NEAR(points[k].loss, first[k], 5e-5);
    assert_int_equal(loss_fit(points, 20, &fit), 0);
    NEAR(fit.b0, 0.2, 1e-9);
    NEAR(fit.b1, 1.0, 1e-9);
    NEAR(fit.b2, 0.1, 1e-9);
    NEAR(fit.scale, 1.1, 1e-15);
    for (int k = 9; k <= 13; k++)
        NEAR((loss_at(&fit, k - 1) - loss_at(&fit, k)) / fit.scale, falls[k - 9], 5e-6);
    assert_int_equal(loss_converges(&fit, &(struct loss_rule){ 0.02, 3, 100, 20 }), 13);
    assert_int_equal(loss_converges(&fit, &(struct loss_rule){ 0.01, 3, 100, 20 }), 19);
    assert_int_equal(loss_converges(&fit, &(struct loss_rule){ 0.005, 5, 100, 20 }), 30);
    assert_int_equal(loss_converges(&fit, &(struct loss_rule){ 1e-9, 3, 100, 20 }), 100);
}

static void test_loss_exact(void **state)
{
    struct rng rng;

    (void)state;
    rng_seed(&rng, 3);
    for (int t = 0; t < 200; t++) {
        double b0 = 0.02 + rng_unit(&rng), b1 = 0.2 + 2 * rng_unit(&rng), b2 = rng_unit(&rng);
        struct loss_point points[LOSS_POINTS_MAX];
        struct loss_fit fit;

        assert_int_equal(loss_fit(points, curve(points, 6 + t % 50, b0, b1, b2), &fit), 0);
        NEAR(fit.b0, b0, 1e-7);
        NEAR(fit.b1, b1, 1e-7);
        NEAR(fit.b2, b2, 1e-7);
    }
}

static void test_loss_outliers(void **state)
{
    struct loss_point points[20], smooth[20];
    struct loss_fit fit;

    (void)state;
    curve(points, 20, 0.2, 1.0, 0.1);
    loss_smooth(points, 20, smooth);
    for (int k = 0; k < 20; k++)
        NEAR(smooth[k].loss, points[k].loss, 0); /* a curve that falls has no outlier, nor have its ends */
    points[7].loss = 9;
    points[19].loss = 5;
    loss_smooth(points, 20, smooth);
    NEAR(smooth[7].loss, (points[5].loss + points[6].loss + points[8].loss + points[9].loss) / 4, 1e-15);
    NEAR(smooth[19].loss, (points[17].loss + points[18].loss) / 2, 1e-15);
    assert_int_equal(loss_fit(points, 20, &fit), 0);
    NEAR(loss_converges(&fit, &(struct loss_rule){ 0.01, 3, 100, 20 }), 19, 2);
}

static void test_loss_refused(void **state)
{
    struct loss_point points[LOSS_POINTS_MAX + 1];
    struct loss_fit fit;

    (void)state;
    curve(points, LOSS_POINTS_MAX + 1, 0.2, 1, 0.1);
    assert_int_equal(loss_fit(points, 2, &fit), -EINVAL);
    assert_int_equal(loss_fit(points, LOSS_POINTS_MAX + 1, &fit), -EINVAL);
    points[3].loss = (double)NAN;
    assert_int_equal(loss_fit(points, 10, &fit), -EINVAL);
    points[3].loss = -1;
    assert_int_equal(loss_fit(points, 10, &fit), -EINVAL);
    for (int k = 0; k < 10; k++)
        points[k].loss = 1 + k; /* it rises */
    assert_int_equal(loss_fit(points, 10, &fit), -EDOM);
}

static void test_loss_remaining(void **state)
{
    const struct loss_rule *rule = &loss_rule_standard;
    struct loss_point points[20];
    struct loss_fit fit, slow = { .b0 = 0.001, .b1 = 1, .b2 = 0, .scale = 0.001 };

    (void)state;
    curve(points, 20, 0.2, 1.0, 0.1);
    assert_int_equal(loss_fit(points, 20, &fit), 0);
    NEAR(loss_remaining(&(struct loss_known){ .given = 30, .typical = 50, .fit = &fit }, rule, 4), 26, 0);
    NEAR(loss_remaining(&(struct loss_known){ .typical = 50, .fit = &fit }, rule, 4), 15, 0);
    NEAR(loss_remaining(&(struct loss_known){ .typical = 50 }, rule, 4), 46, 0);
    NEAR(loss_remaining(&(struct loss_known){ 0 }, rule, 4), 20, 0);
    NEAR(loss_remaining(&(struct loss_known){ .fit = &slow }, rule, 4), 96, 0);
    NEAR(loss_remaining(&(struct loss_known){ 0 }, rule, 95), 5, 0);
    assert_true(loss_remaining(&(struct loss_known){ .fit = &fit }, rule, 40) > 0);
    NEAR(loss_remaining(&(struct loss_known){ .given = 300 }, rule, 40), 260, 0);
}

/* ---- speed ---- */

static const double o2_theta[] = { 0.002, 0.05, 0.10, 0.01, 0.02 };

static void test_o2(void **state)
{
    static const int at[][2] = { { 1, 1 }, { 1, 2 }, { 2, 1 }, { 2, 2 }, { 2, 4 }, { 4, 2 }, { 4, 4 }, { 3, 6 } };
    struct speed_fit truth = { .kind = SPEED_SYNC, .batch = 512 }, fit;
    struct speed_point points[8];
    double best = 0;
    int found = 0;

    (void)state;
    for (int i = 0; i < 5; i++)
        truth.theta[i] = o2_theta[i];
    NEAR(1 / speed_at(&truth, 1, 1), 1.2040, 1e-9);
    NEAR(1 / speed_at(&truth, 2, 2), 0.7220, 1e-9);
    NEAR(1 / speed_at(&truth, 4, 4), 0.5260, 1e-9);
    NEAR(1 / speed_at(&truth, 4, 8), 0.5380, 1e-9);
    NEAR(1 / speed_at(&truth, 8, 8), 0.5180, 1e-9);
    for (int p = 1; p <= 20; p++)
        for (int w = 1; w <= 20; w++)
            best = fmax(best, speed_at(&truth, p, w));
    NEAR(best, 1.99734, 5e-6);
    for (int p = 1; p <= 20; p++)
        for (int w = 1; w <= 20; w++)
            if (speed_at(&truth, p, w) > best * (1 - 1e-9)) {
                assert_true((p == 5 || p == 6) && w == 6);
                found++;
            }
    assert_int_equal(found, 2);
    for (int i = 0; i < 8; i++)
        points[i] = (struct speed_point){ at[i][0], at[i][1], speed_at(&truth, at[i][0], at[i][1]) };
    assert_int_equal(speed_fit(SPEED_SYNC, 512, points, 8, &fit), 0);
    for (int i = 0; i < 5; i++)
        NEAR(fit.theta[i], o2_theta[i], 1e-12);
    NEAR(fit.error, 0, 1e-12);
    assert_int_equal(speed_fit(SPEED_SYNC, 512, points, 4, &fit), -EINVAL);
    points[0].speed = 0;
    assert_int_equal(speed_fit(SPEED_SYNC, 512, points, 8, &fit), -EINVAL);
}

static void test_speed_kinds(void **state)
{
    struct speed_fit async = { .kind = SPEED_ASYNC, .batch = 1, .theta = { 0.4, 0.1, 0.02, 0.03 } };
    struct speed_fit ring = { .kind = SPEED_ALLREDUCE, .batch = 256, .theta = { 0.001, 0.02, 0.003, 0.05 } };
    struct speed_point points[12];
    struct speed_fit fit;
    int n = 0;

    (void)state;
    NEAR(speed_at(&async, 2, 4), 4 / (0.4 + 0.1 * 4 / 2 + 0.02 * 4 + 0.03 * 2), 1e-12);
    for (int p = 1; p <= 3; p++)
        for (int w = 1; w <= 4; w++)
            points[n++] = (struct speed_point){ p, w, speed_at(&async, p, w) };
    assert_int_equal(speed_fit(SPEED_ASYNC, 0, points, n, &fit), 0);
    for (int i = 0; i < 4; i++)
        NEAR(fit.theta[i], async.theta[i], 1e-12);
    n = 0;
    for (int w = 1; w <= 8; w++)
        points[n++] = (struct speed_point){ 1 + w / 5, w, speed_at(&ring, 1 + w / 5, w) };
    assert_int_equal(speed_fit(SPEED_ALLREDUCE, 256, points, n, &fit), 0);
    for (int i = 0; i < 4; i++)
        NEAR(fit.theta[i], ring.theta[i], 1e-12);
    points[0].speed = 7; /* measured counts for more than the model */
    NEAR(speed_known(&fit, points, n, 1, 1), 7, 0);
    NEAR(speed_known(&fit, points, n, 2, 16), speed_at(&ring, 2, 16), 1e-9);
    assert_int_equal(speed_points_min(SPEED_SYNC), 5);
    assert_int_equal(speed_points_min(SPEED_ASYNC), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nnls_random),
        cmocka_unit_test(test_nnls_corners),
        cmocka_unit_test(test_o1),
        cmocka_unit_test(test_loss_exact),
        cmocka_unit_test(test_loss_outliers),
        cmocka_unit_test(test_loss_refused),
        cmocka_unit_test(test_loss_remaining),
        cmocka_unit_test(test_o2),
        cmocka_unit_test(test_speed_kinds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
