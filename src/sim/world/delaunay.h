/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* delaunay.h - numbers measured at scattered points in three dimensions, straight inside Delaunay cells.
 *
 * Only for tables whose authors interpolate that way. Measured points lie on a grid, so many cells could be cut in
 * several ways; the cut is the one Qhull makes (docs/adr/0026-qhull.md), and a point that several cells claim belongs
 * to the one that a walk from the first cell reaches, or else to the first in Qhull's order. Both are part of what is
 * to be compared with.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/error.h"

struct delaunay;

/* One measured point. */
struct delaunay_point {
    double at[3];
    double y[2];
};

/* Cells over the points, in the order given; both are kept. -EINVAL (all in one plane), -ENOMEM, -ENOTSUP (built
 * without the library). */
int delaunay_new(const struct delaunay_point *points, size_t count, struct delaunay **ret, struct error *err);
void delaunay_free(struct delaunay *delaunay);
DEFINE_CLEANUP(struct delaunay *, delaunay_free)

/* y there; false outside all cells. */
bool delaunay_at(const struct delaunay *delaunay, const double at[3], double ret_y[2]);
