/* SPDX-License-Identifier: Apache-2.0 */
/* speed_fit.c - see speed_fit.h. Rows are scaled by the speed, so that what is least is the relative error:
 * measurements are wrong by a part of what they measure, and a slow size is no more certain than a fast one. */
#include "solve/speed_fit.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "solve/nnls.h"

static const struct {
    int terms, points;
} kinds[SPEED_KIND_COUNT] = {
    [SPEED_ASYNC] = { 4, 4 },
    [SPEED_SYNC] = { 5, 5 },
    [SPEED_ALLREDUCE] = { 4, 3 },
};

/* What theta is multiplied with in the time of one step. */
static void terms_of(enum speed_kind kind, double batch, int servers, int workers, double *out)
{
    double w = workers, p = servers > 0 ? servers : 1;

    switch (kind) {
    case SPEED_ASYNC:
        out[0] = 1 / w;
        out[1] = 1 / p;
        out[2] = 1;
        out[3] = p / w;
        break;
    case SPEED_SYNC:
        out[0] = batch / w;
        out[1] = 1;
        out[2] = w / p;
        out[3] = w;
        out[4] = p;
        break;
    case SPEED_ALLREDUCE:
        out[0] = batch / w;
        out[1] = 1;
        out[2] = w - 1;
        out[3] = servers > 1;
        break;
    case SPEED_KIND_COUNT:
        break;
    }
}

int speed_points_min(enum speed_kind kind)
{
    return kinds[kind].points;
}

static double model_at(const struct speed_fit *fit, int servers, int workers)
{
    double terms[SPEED_TERMS_MAX] = { 0 }, sum = 0;

    if (workers < 1)
        return 0;
    terms_of(fit->kind, fit->batch, servers, workers, terms);
    for (int c = 0; c < kinds[fit->kind].terms; c++)
        sum += fit->theta[c] * terms[c];
    return sum > 0 ? 1 / sum : 0;
}

/* Standard deviation of a measurement; what a model is off by beyond that is its own fault. */
static const double NOISE = 0.03;

/* How far the model is off where it was fitted, and how much of that to believe. */
static void keep_offsets(struct speed_fit *fit, const struct speed_point *points, int count)
{
    double squares = 0, trust;

    for (int i = 0; i < count; i++) {
        double model = model_at(fit, points[i].servers, points[i].workers), off = points[i].speed / model - 1;

        if (!(model > 0))
            return;
        fit->seen[i] = (struct speed_seen){ points[i].servers, points[i].workers, off };
        squares += off * off / count;
    }
    trust = squares / (squares + NOISE * NOISE);
    for (int i = 0; i < count; i++)
        fit->seen[i].off = fmax(-0.5, fmin(1, fit->seen[i].off * trust));
    fit->seen_count = count;
}

/* Around the size: on as many nodes, else on the nearest number of them, the fewer first. */
static double offset_at(const struct speed_fit *fit, int servers, int workers)
{
    const struct speed_seen *below = NULL, *above = NULL;
    int nearest = -1;

    for (int i = 0; i < fit->seen_count; i++) {
        int far = abs(fit->seen[i].servers - servers);

        if (nearest < 0 || far < nearest)
            nearest = far;
    }
    for (int i = 0; i < fit->seen_count; i++) {
        const struct speed_seen *seen = &fit->seen[i];

        if (abs(seen->servers - servers) != nearest)
            continue;
        if (seen->workers <= workers && (!below || seen->workers > below->workers))
            below = seen;
        if (seen->workers >= workers && (!above || seen->workers < above->workers))
            above = seen;
    }
    if (!below || !above)
        return below ? below->off : above ? above->off : 0;
    if (below->workers == above->workers)
        return below->off;
    return below->off + (above->off - below->off) * (workers - below->workers) / (above->workers - below->workers);
}

int speed_fit(enum speed_kind kind, double batch, const struct speed_point *points, int count,
              struct speed_fit *ret_fit)
{
    struct speed_fit fit = { .kind = kind, .batch = batch > 0 ? batch : 1 };
    struct nnls problem = { .rows = count, .cols = kinds[kind].terms };
    int r;

    if (count < kinds[kind].points || count > SPEED_POINTS_MAX)
        return -EINVAL;
    for (int i = 0; i < count; i++) {
        if (!(points[i].speed > 0) || !isfinite(points[i].speed) || points[i].workers < 1)
            return -EINVAL;
        terms_of(kind, fit.batch, points[i].servers, points[i].workers, problem.a[i]);
        for (int c = 0; c < problem.cols; c++)
            problem.a[i][c] *= points[i].speed;
        problem.b[i] = 1;
    }
    r = nnls_solve(&problem, fit.theta, NULL);
    if (r < 0)
        return r;
    if (kind == SPEED_ALLREDUCE)
        keep_offsets(&fit, points, count);
    for (int i = 0; i < count; i++) {
        double here = speed_at(&fit, points[i].servers, points[i].workers);

        fit.error += fabs(here - points[i].speed) / points[i].speed / count;
    }
    *ret_fit = fit;
    return 0;
}

double speed_at(const struct speed_fit *fit, int servers, int workers)
{
    return model_at(fit, servers, workers) * (1 + offset_at(fit, servers, workers));
}

double speed_known(const struct speed_fit *fit, const struct speed_point *points, int count, int servers, int workers)
{
    double sum = 0;
    int seen = 0;

    for (int i = 0; i < count; i++)
        if (points[i].workers == workers && points[i].servers == servers) {
            sum += points[i].speed;
            seen++;
        }
    return seen ? sum / seen : speed_at(fit, servers, workers);
}
