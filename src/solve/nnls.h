/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* nnls.h - non-negative least squares for small problems: min |A x - b| with x >= 0.
 *
 * The method of Lawson and Hanson (1974), with the inner least squares by Householder reflections. Everything is on the
 * stack; the limits below are what the fits of this folder need. Results are the same on every machine: sums and
 * products in a fixed order and square roots, which IEEE rounds correctly.
 */
enum { NNLS_COLS_MAX = 6, NNLS_ROWS_MAX = 64 };

/* Row r reads: sum over c of a[r][c] * x[c] = b[r]. */
struct nnls {
    double a[NNLS_ROWS_MAX][NNLS_COLS_MAX];
    double b[NNLS_ROWS_MAX];
    int rows, cols;
};

/* 0 and x[0..cols); -EINVAL for a problem that is empty, over the limits or not finite. *ret_error, if not NULL,
 * becomes the sum of squared residuals. */
int nnls_solve(const struct nnls *problem, double *ret_x, double *ret_error);
