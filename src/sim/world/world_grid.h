/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* world_grid.h - measured points, looked up by what was measured and interpolated where it was not.
 *
 * A row is (model, GPU type, at, x) -> two numbers. `at` picks a curve (a placement, a batch size, a node count,
 * whatever the family likes), x runs along it. Rows with equal keys are averaged. Between two x the curve is straight.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRID_ROWS_MAX ((size_t)1 << 22)

struct grid_row {
    uint32_t model, type;
    uint64_t at;
    double x, y[2];
};

struct grid {
    struct grid_row *rows; /* owned; sorted by key and x after grid_close() */
    size_t count, capacity;
};

void grid_done(struct grid *grid);

/* -ENOMEM, -E2BIG. */
int grid_add(struct grid *grid, const struct grid_row *row);

/* Sorts and averages; looking up comes after this. */
void grid_close(struct grid *grid);

/* The rows of one curve; *ret_count 0 and NULL = none. */
const struct grid_row *grid_curve(const struct grid *grid, uint32_t model, uint32_t type, uint64_t at,
                                  size_t *ret_count);

/* The nearest `at` not above and not below the one asked for; either may be missing. False: model and type have none.
 * Where both are there, *ret_part is how far `at` lies from the lower (0) to the upper (1). */
bool grid_around(const struct grid *grid, uint32_t model, uint32_t type, uint64_t at, uint64_t ret_at[2],
                 double *ret_part);

/* How a curve goes on outside its points. */
enum grid_ends {
    GRID_FLAT, /* as at the nearest point */
    GRID_GPUS, /* x is a number of GPUs, y a speed: below the first point in proportion, above the last as there */
};

/* y at x. False: there is no such curve. */
bool grid_at(const struct grid *grid, const struct grid_row *key, enum grid_ends ends, double ret_y[2]);

/* The same, straight between the two nearest `at` as well. */
bool grid_between(const struct grid *grid, const struct grid_row *key, enum grid_ends ends, double ret_y[2]);
