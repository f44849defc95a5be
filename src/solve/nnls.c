/* SPDX-License-Identifier: Apache-2.0 */
/* nnls.c - see nnls.h.
 *
 * A set of columns is "passive": free to be positive; the others are 0. The column whose gradient promises most joins,
 * the least squares over the passive set is solved, and where that makes a member negative we go only as far as the
 * first one reaches 0, which leaves the set. Columns are scaled to length 1 first, so that one tolerance fits all.
 */
#include "solve/nnls.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { ROUNDS_MAX = 8 * NNLS_COLS_MAX };

static const double GRADIENT_MIN = 1e-14; /* of |b|: what rounding leaves of a gradient that is 0 */
static const double PIVOT_MIN = 1e-12;    /* of a column of length 1: what is left of one the others make up */

struct work {
    double a[NNLS_ROWS_MAX][NNLS_COLS_MAX], b[NNLS_ROWS_MAX];
    double scale[NNLS_COLS_MAX];
    double x[NNLS_COLS_MAX];
    bool passive[NNLS_COLS_MAX], barred[NNLS_COLS_MAX];
    int rows, cols;
};

static int prepare(const struct nnls *problem, struct work *w)
{
    *w = (struct work){ .rows = problem->rows, .cols = problem->cols };
    for (int c = 0; c < w->cols; c++) {
        double sum = 0;

        for (int r = 0; r < w->rows; r++)
            sum += problem->a[r][c] * problem->a[r][c];
        if (!isfinite(sum))
            return -EINVAL;
        w->scale[c] = sqrt(sum);
        w->barred[c] = !(sum > 0);
        for (int r = 0; r < w->rows; r++)
            w->a[r][c] = w->barred[c] ? 0 : problem->a[r][c] / w->scale[c];
    }
    for (int r = 0; r < w->rows; r++) {
        if (!isfinite(problem->b[r]))
            return -EINVAL;
        w->b[r] = problem->b[r];
    }
    return 0;
}

/* Reflects column `at` of m, from row `top` down, onto the row; and what stands right of it and `rhs` with it. */
static double reflect(double m[][NNLS_COLS_MAX], double *rhs, int rows, int cols, int at)
{
    double norm = 0, head, beta;

    for (int r = at; r < rows; r++)
        norm += m[r][at] * m[r][at];
    norm = sqrt(norm);
    if (norm < PIVOT_MIN)
        return 0;
    head = m[at][at] > 0 ? -norm : norm;
    m[at][at] -= head;
    beta = -head * m[at][at]; /* half the squared length of the mirror's normal */
    for (int c = at + 1; c <= cols; c++) {
        double dot = 0;

        for (int r = at; r < rows; r++)
            dot += m[r][at] * (c < cols ? m[r][c] : rhs[r]);
        for (int r = at; r < rows; r++)
            *(c < cols ? &m[r][c] : &rhs[r]) -= dot / beta * m[r][at];
    }
    m[at][at] = head;
    return head;
}

/* Least squares over the passive columns into z. False: one of them is made up of the others. */
static bool solve_passive(const struct work *w, double *z)
{
    double m[NNLS_ROWS_MAX][NNLS_COLS_MAX], rhs[NNLS_ROWS_MAX];
    int member[NNLS_COLS_MAX], count = 0;

    for (int c = 0; c < w->cols; c++) {
        z[c] = 0;
        if (!w->passive[c])
            continue;
        for (int r = 0; r < w->rows; r++)
            m[r][count] = w->a[r][c];
        member[count++] = c;
    }
    if (count > w->rows)
        return false;
    memcpy(rhs, w->b, sizeof(rhs));
    for (int i = 0; i < count; i++)
        if (reflect(m, rhs, w->rows, count, i) == 0)
            return false;
    for (int i = count - 1; i >= 0; i--) {
        double sum = rhs[i];

        for (int k = i + 1; k < count; k++)
            sum -= m[i][k] * z[member[k]];
        z[member[i]] = sum / m[i][i];
    }
    return true;
}

static double residual(const struct work *w, int row)
{
    double sum = w->b[row];

    for (int c = 0; c < w->cols; c++)
        sum -= w->a[row][c] * w->x[c];
    return sum;
}

/* The column that is to join, or -1. */
static int steepest(const struct work *w, double length)
{
    double best = GRADIENT_MIN * length;
    int found = -1;

    for (int c = 0; c < w->cols; c++) {
        double gradient = 0;

        if (w->passive[c] || w->barred[c])
            continue;
        for (int r = 0; r < w->rows; r++)
            gradient += w->a[r][c] * residual(w, r);
        if (gradient > best) {
            best = gradient;
            found = c;
        }
    }
    return found;
}

/* Goes from x towards z as far as nobody becomes negative; who reaches 0 leaves. False: z was reached. */
static bool step_back(struct work *w, const double *z)
{
    double part = 1;
    bool cut = false;

    for (int c = 0; c < w->cols; c++)
        if (w->passive[c] && z[c] <= 0) {
            double here = w->x[c] / (w->x[c] - z[c]);

            part = here < part ? here : part;
            cut = true;
        }
    for (int c = 0; c < w->cols; c++) {
        if (!w->passive[c])
            continue;
        w->x[c] += (cut ? part : 1) * (z[c] - w->x[c]);
        if (cut && z[c] <= 0 && !(w->x[c] > 1e-15)) {
            w->x[c] = 0;
            w->passive[c] = false;
        }
    }
    if (!cut)
        memcpy(w->x, z, sizeof(w->x));
    return cut;
}

int nnls_solve(const struct nnls *problem, double *ret_x, double *ret_error)
{
    struct work w;
    double z[NNLS_COLS_MAX] = { 0 }, length = 0, error = 0;

    if (problem->rows < 1 || problem->rows > NNLS_ROWS_MAX || problem->cols < 1 || problem->cols > NNLS_COLS_MAX)
        return -EINVAL;
    if (prepare(problem, &w) < 0)
        return -EINVAL;
    for (int r = 0; r < w.rows; r++)
        length += w.b[r] * w.b[r];
    length = sqrt(length);
    for (int round = 0; round < ROUNDS_MAX; round++) {
        int join = steepest(&w, length);

        if (join < 0)
            break;
        w.passive[join] = true;
        if (!solve_passive(&w, z) || z[join] <= 0) {
            w.passive[join] = false; /* rounding promised what there is not */
            w.barred[join] = true;
            continue;
        }
        for (int back = 0; back < NNLS_COLS_MAX && step_back(&w, z); back++)
            if (!solve_passive(&w, z))
                break;
    }
    for (int r = 0; r < w.rows; r++)
        error += residual(&w, r) * residual(&w, r);
    for (int c = 0; c < w.cols; c++)
        ret_x[c] = w.barred[c] && !w.passive[c] ? 0 : w.x[c] / (w.scale[c] > 0 ? w.scale[c] : 1);
    if (ret_error)
        *ret_error = error;
    return 0;
}
