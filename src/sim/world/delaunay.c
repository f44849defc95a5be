/* SPDX-License-Identifier: Apache-2.0 */
/* delaunay.c - see delaunay.h. Cells are copied out of the library at once; it is not asked again. */
#include "sim/world/delaunay.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

enum { D = 3, CORNERS = D + 1, POINTS_MAX = 1 << 16 };

#define EPS (100 * DBL_EPSILON)

struct cell {
    int32_t corner[CORNERS];
    int32_t beside[CORNERS]; /* across from each corner; -1 = outside */
    double plane[D + 2];     /* of the lifted cell: normal, offset */
    double inverse[D][D];    /* to barycentric coordinates; meaningless if flat */
    bool flat;
};

struct delaunay {
    struct delaunay_point *points;
    struct cell *cells;
    size_t count, cell_count;
    double low[D], high[D];
    double lift_scale, lift_shift; /* height of a point: square of its length, so */
};

void delaunay_free(struct delaunay *delaunay)
{
    if (!delaunay)
        return;
    mem_free(delaunay->points);
    mem_free(delaunay->cells);
    mem_free(delaunay);
}

/* The columns are the corners as seen from the last. */
static void invert(const struct delaunay *d, struct cell *cell)
{
    const double *last = d->points[cell->corner[D]].at;
    double m[D][D], det = 0;

    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++)
            m[i][j] = d->points[cell->corner[j]].at[i] - last[i];
    for (int j = 0; j < D; j++)
        det += m[0][j] * (m[1][(j + 1) % D] * m[2][(j + 2) % D] - m[1][(j + 2) % D] * m[2][(j + 1) % D]);
    cell->flat = fabs(det) < 1e-9;
    for (int i = 0; i < D && !cell->flat; i++)
        for (int j = 0; j < D; j++) {
            int i1 = (i + 1) % D, i2 = (i + 2) % D, j1 = (j + 1) % D, j2 = (j + 2) % D;

            cell->inverse[j][i] = (m[i1][j1] * m[i2][j2] - m[i1][j2] * m[i2][j1]) / det;
        }
}

/* One barycentric coordinate; the last wants the others. */
static double weight(const struct delaunay *d, const struct cell *cell, const double at[D], double c[CORNERS], int k)
{
    const double *last = d->points[cell->corner[D]].at;

    if (k == D) {
        c[D] = 1;
        for (int i = 0; i < D; i++)
            c[D] -= c[i];
        return c[D];
    }
    c[k] = 0;
    for (int j = 0; j < D; j++)
        c[k] += cell->inverse[k][j] * (at[j] - last[j]);
    return c[k];
}

/* Whether the point is in the cell; towards the neighbour `leeway` it may be a little outside. */
static bool inside(const struct delaunay *d, const struct cell *cell, const double at[D], int32_t leeway, double *c)
{
    for (int k = 0; k < CORNERS; k++)
        weight(d, cell, at, c, k);
    for (int k = 0; k < CORNERS; k++) {
        double low = leeway >= 0 && cell->beside[k] == leeway ? -sqrt(DBL_EPSILON) : -EPS;

        if (!(c[k] >= low && c[k] <= 1 + EPS))
            return false;
    }
    return true;
}

/* The first cell that has the point; in place of a flat one, a neighbour that nearly has it. */
static const struct cell *search(const struct delaunay *d, const double at[D], double c[CORNERS])
{
    for (size_t s = 0; s < d->cell_count; s++) {
        const struct cell *cell = &d->cells[s];

        if (!cell->flat && inside(d, cell, at, -1, c))
            return cell;
        for (int k = 0; k < CORNERS && cell->flat; k++) {
            const struct cell *next = cell->beside[k] >= 0 ? &d->cells[cell->beside[k]] : NULL;

            if (next && !next->flat && inside(d, next, at, (int32_t)s, c))
                return next;
        }
    }
    return NULL;
}

static double height_above(const struct cell *cell, const double lifted[D + 1])
{
    double sum = cell->plane[D + 1];

    for (int k = 0; k <= D; k++)
        sum += cell->plane[k] * lifted[k];
    return sum;
}

/* Over the lifted cells towards the one whose plane the point is above, or nearest to it. */
static int32_t climb(const struct delaunay *d, const double at[D])
{
    double lifted[D + 1] = { at[0], at[1], at[2] }, best;
    int32_t here = 0;
    bool moved = true;

    lifted[D] = (at[0] * at[0] + at[1] * at[1] + at[2] * at[2]) * d->lift_scale + d->lift_shift;
    best = height_above(&d->cells[0], lifted);
    while (moved && !(best > 0)) {
        moved = false;
        /* `here` changes on the way: the remaining neighbours are those of the new cell. */
        for (int k = 0; k < CORNERS; k++) {
            int32_t next = d->cells[here].beside[k];
            double height = next >= 0 ? height_above(&d->cells[next], lifted) : 0;

            if (next >= 0 && height > best + EPS * (1 + fabs(best))) {
                here = next;
                best = height;
                moved = true;
            }
        }
    }
    return here;
}

/* Then through the cells, across the first face that the point lies beyond; NULL where that leads nowhere. */
static const struct cell *walk(const struct delaunay *d, const double at[D], double c[CORNERS])
{
    int32_t here = climb(d, at);

    for (size_t i = 0; i < 1 + d->cell_count / 4; i++) {
        const struct cell *cell = &d->cells[here];
        bool in = !cell->flat, left = false;

        for (int k = 0; k < CORNERS && !left && !cell->flat; k++) {
            if (weight(d, cell, at, c, k) < -EPS) {
                here = cell->beside[k];
                if (here < 0)
                    return NULL;
                left = true;
            } else if (!(c[k] <= 1 + EPS)) {
                in = false;
            }
        }
        if (!left)
            return in ? cell : NULL;
    }
    return NULL;
}

bool delaunay_at(const struct delaunay *d, const double at[3], double ret_y[2])
{
    double c[CORNERS];
    const struct cell *cell;

    for (int k = 0; k < D; k++)
        if (at[k] < d->low[k] - EPS || at[k] > d->high[k] + EPS)
            return false;
    cell = walk(d, at, c);
    if (!cell)
        cell = search(d, at, c);
    if (!cell)
        return false;
    ret_y[0] = ret_y[1] = 0;
    for (int k = 0; k < CORNERS; k++) {
        ret_y[0] += c[k] * d->points[cell->corner[k]].y[0];
        ret_y[1] += c[k] * d->points[cell->corner[k]].y[1];
    }
    return true;
}

#if MUSTER_QHULL

#include <libqhull_r/qhull_ra.h>
#include <stdio.h>

#include "io/lib.h"

#define QHULL_FILE "libqhull_r.so.8.0"
#define QHULL_CALLS(X) X(qh_new_qhull) X(qh_zero) X(qh_freeqhull) X(qh_memfreeshort) X(qh_pointid)

static struct {
    QHULL_CALLS(LIB_FIELD)
} qhull;
static const char *const qhull_names[] = { QHULL_CALLS(LIB_NAME) };

/* Counts the cells and numbers them by the library's ids; the other half of the hull is left out. */
static int number_cells(qhT *qh, struct delaunay *d, int32_t **ret_numbers)
{
    int32_t *numbers = mem_zalloc((size_t)qh->facet_id + 1, sizeof(*numbers));
    facetT *facet;

    if (!numbers)
        return -ENOMEM;
    for (unsigned i = 0; i <= qh->facet_id; i++)
        numbers[i] = -1;
    FORALLfacets
    {
        if (!facet->upperdelaunay)
            numbers[facet->id] = (int32_t)d->cell_count++;
    }
    *ret_numbers = numbers;
    return 0;
}

static int copy_cells(qhT *qh, struct delaunay *d)
{
    int32_t *numbers = NULL;
    int r = number_cells(qh, d, &numbers);
    facetT *facet;

    if (r == 0 && d->cell_count)
        d->cells = mem_zalloc(d->cell_count, sizeof(*d->cells));
    if (!d->cells)
        r = r < 0 ? r : d->cell_count ? -ENOMEM : -EINVAL;
    if (r < 0) {
        mem_free(numbers);
        return r;
    }
    FORALLfacets
    {
        struct cell *cell = facet->upperdelaunay ? NULL : &d->cells[numbers[facet->id]];

        for (int i = 0; cell && i < CORNERS; i++) {
            cell->corner[i] = qhull.qh_pointid(qh, ((vertexT *)facet->vertices->e[i].p)->point);
            cell->beside[i] = numbers[((facetT *)facet->neighbors->e[i].p)->id];
            cell->plane[i] = facet->normal[i];
        }
        if (cell) {
            cell->plane[D + 1] = facet->offset;
            invert(d, cell);
        }
    }
    d->lift_scale = qh->last_newhigh / (qh->last_high - qh->last_low);
    d->lift_shift = -qh->last_low * d->lift_scale;
    mem_free(numbers);
    return 0;
}

static int make_cells(struct delaunay *d, struct error *err)
{
    double *flat;
    FILE *silence;
    int curlong, totlong, r = lib_open(QHULL_FILE, qhull_names, LIB_COUNT(qhull_names), &qhull, err);
    qhT qh;

    if (r < 0)
        return r;
    flat = mem_zalloc(d->count * D, sizeof(*flat));
    silence = fopen("/dev/null", "w");
    r = -ENOMEM;
    if (flat && silence) {
        for (size_t i = 0; i < d->count * D; i++)
            flat[i] = d->points[i / D].at[i % D];
        qhull.qh_zero(&qh, silence);
        r = qhull.qh_new_qhull(&qh, D, (int)d->count, flat, 0, (char[]){ "qhull d Qt Qbb Qc Qz Q12" }, NULL, silence)
                ? -EINVAL
                : copy_cells(&qh, d);
        qhull.qh_freeqhull(&qh, !qh_ALL);
        qhull.qh_memfreeshort(&qh, &curlong, &totlong);
    }
    if (silence)
        (void)fclose(silence);
    mem_free(flat);
    if (r == -EINVAL)
        return error_set(err, r, "the points measured have no volume between them");
    return r < 0 ? error_set(err, r, "out of memory") : 0;
}

#else

static int make_cells(struct delaunay *d, struct error *err)
{
    (void)invert;
    (void)d;
    return error_set(err, -ENOTSUP, "this program was built without Qhull");
}

#endif

int delaunay_new(const struct delaunay_point *points, size_t count, struct delaunay **ret, struct error *err)
{
    CLEANUP(delaunay_free) struct delaunay *d = mem_zalloc(1, sizeof(*d));
    int r;

    if (d)
        d->points = mem_zalloc(count, sizeof(*points));
    if (!d || !d->points)
        return error_set(err, -ENOMEM, "out of memory");
    if (count < CORNERS + 1 || count > POINTS_MAX)
        return error_set(err, -EINVAL, "%zu points measured; expected %d to %d", count, CORNERS + 1, POINTS_MAX);
    memcpy(d->points, points, count * sizeof(*points));
    d->count = count;
    for (int k = 0; k < D; k++) {
        d->low[k] = d->high[k] = points[0].at[k];
        for (size_t i = 1; i < count; i++) {
            d->low[k] = fmin(d->low[k], points[i].at[k]);
            d->high[k] = fmax(d->high[k], points[i].at[k]);
        }
    }
    r = make_cells(d, err);
    if (r < 0)
        return r;
    *ret = take(d);
    return 0;
}
