/* SPDX-License-Identifier: Apache-2.0 */
/* loss_fit.c - see loss_fit.h.
 *
 * For a fixed floor b2 the model is linear in (b0, b1): 1/(l - b2) = b0 k + b1. So b2 goes over a grid in [0, min l),
 * each time with a non-negative least squares of two unknowns, and the grid is refined six times around the best
 * squared error in l, or until that finds nothing better. The rows of the linear problem are scaled so that its error
 * is, near the solution, the error in l and not that of its reciprocal, which would let the smallest losses with their
 * noise decide alone: once with the observed l - b2 for the unknown curve, then once more with the curve that gave.
 *
 * Newer points count more: three segments by age, of weights 1, 16 and 256.
 */
#include "solve/loss_fit.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>

enum { GRID = 48, REFINEMENTS = 6, PASSES = 2 };

const struct loss_rule loss_rule_standard = { .delta = 0.01, .epochs = 3, .cap = 100, .blind = 20 };

/* The first and the last point have neighbours on one side only, and on a curve that falls they are the largest and the
 * least. They are looked at first: a spike at the end must not make its neighbours look wrong. */
static void smooth_one(const struct loss_point *from, int count, int at, struct loss_point *out)
{
    double low = HUGE_VAL, high = -HUGE_VAL, sum = 0;
    int seen = 0;

    for (int k = at - 2; k <= at + 2; k++) {
        double loss;

        if (k < 0 || k >= count || k == at)
            continue;
        loss = k == 0 || k == count - 1 ? out[k].loss : from[k].loss;
        low = fmin(low, loss);
        high = fmax(high, loss);
        sum += loss;
        seen++;
    }
    if (seen && ((from[at].loss < low && at < count - 1) || (from[at].loss > high && at > 0)))
        out[at].loss = sum / seen;
}

void loss_smooth(const struct loss_point *points, int count, struct loss_point *out)
{
    for (int i = 0; i < count; i++)
        out[i] = points[i];
    if (count < LOSS_POINTS_MIN)
        return;
    smooth_one(points, count, 0, out);
    smooth_one(points, count, count - 1, out);
    for (int i = 1; i < count - 1; i++)
        smooth_one(points, count, i, out);
}

struct series {
    double k[LOSS_POINTS_MAX], l[LOSS_POINTS_MAX], weight[LOSS_POINTS_MAX];
    int count;
    double weights; /* sum */
};

struct curve {
    double b0, b1, b2, error;
};

/* Two unknowns, both at least 0, from the sums of the normal equations. */
static void solve_two(const double s[3], const double t[2], double *b0, double *b1)
{
    double det = s[0] * s[2] - s[1] * s[1];

    if (det > 1e-14 * s[0] * s[2]) {
        *b0 = (t[0] * s[2] - t[1] * s[1]) / det;
        *b1 = (t[1] * s[0] - t[0] * s[1]) / det;
        if (*b0 >= 0 && *b1 >= 0)
            return;
    }
    /* One of them is 0: the one whose absence costs less. */
    *b0 = s[0] > 0 && t[0] > 0 ? t[0] / s[0] : 0;
    *b1 = s[2] > 0 && t[1] > 0 ? t[1] / s[2] : 0;
    if (*b0 * t[0] >= *b1 * t[1])
        *b1 = 0;
    else
        *b0 = 0;
}

static double model(const struct curve *c, double k)
{
    return 1 / (c->b0 * k + c->b1) + c->b2;
}

static void fit_floor(const struct series *s, struct curve *c)
{
    for (int pass = 0; pass < PASSES; pass++) {
        double sums[3] = { 0 }, rhs[2] = { 0 };

        for (int i = 0; i < s->count; i++) {
            double above = s->l[i] - c->b2, curve = pass ? 1 / (c->b0 * s->k[i] + c->b1) : above;
            double row = above * curve, w = s->weight[i];

            sums[0] += w * row * row * s->k[i] * s->k[i];
            sums[1] += w * row * row * s->k[i];
            sums[2] += w * row * row;
            rhs[0] += w * row * curve * s->k[i];
            rhs[1] += w * row * curve;
        }
        solve_two(sums, rhs, &c->b0, &c->b1);
        if (!(c->b1 > 0) && !(c->b0 * s->k[0] > 0)) {
            c->error = HUGE_VAL; /* endless at the first point */
            return;
        }
    }
    c->error = 0;
    for (int i = 0; i < s->count; i++) {
        double off = model(c, s->k[i]) - s->l[i];

        c->error += s->weight[i] * off * off;
    }
}

/* One grid over [from, to); *ret_rise becomes how much the better neighbour of the best is worse than it. */
static void scan(const struct series *s, double from, double step, double least, struct curve *best, double *ret_rise)
{
    double errors[GRID + 2];
    int at = -1, count = 0;

    for (; count < GRID + 1; count++) {
        struct curve c = { .b2 = from + step * count };

        if (c.b2 >= least)
            break;
        fit_floor(s, &c);
        errors[count] = c.error;
        if (c.error < best->error) {
            *best = c;
            at = count;
        }
    }
    *ret_rise = HUGE_VAL;
    if (at > 0)
        *ret_rise = errors[at - 1] - best->error;
    if (at >= 0 && at < count - 1)
        *ret_rise = fmin(*ret_rise, errors[at + 1] - best->error);
}

static struct curve search(const struct series *s)
{
    double least = HUGE_VAL, from = 0, to;
    struct curve best = { .error = HUGE_VAL };

    for (int i = 0; i < s->count; i++)
        least = fmin(least, s->l[i]);
    to = least;
    for (int round = 0; round <= REFINEMENTS; round++) {
        double step = (to - from) / GRID, rise;

        scan(s, from, step, least, &best, &rise);
        /* Where points are noisy the bottom is flat, and a finer grid finds nothing more. */
        if (rise < best.error * 1e-4)
            break;
        from = fmax(0, best.b2 - step);
        to = fmin(least, best.b2 + step);
    }
    return best;
}

int loss_fit(const struct loss_point *points, int count, struct loss_fit *ret_fit)
{
    struct loss_point smooth[LOSS_POINTS_MAX];
    struct series s = { .count = count };
    struct curve best;
    double scale = 0;

    if (count < LOSS_POINTS_MIN || count > LOSS_POINTS_MAX)
        return -EINVAL;
    for (int i = 0; i < count; i++)
        if (!(points[i].loss > 0) || !isfinite(points[i].loss) || !isfinite(points[i].epoch))
            return -EINVAL;
    loss_smooth(points, count, smooth);
    for (int i = 0; i < count; i++)
        scale = fmax(scale, smooth[i].loss);
    for (int i = 0; i < count; i++) {
        int segment = i * 3 / count;

        s.k[i] = smooth[i].epoch;
        s.l[i] = smooth[i].loss / scale;
        s.weight[i] = segment == 0 ? 1 : segment == 1 ? 16 : 256;
        s.weights += s.weight[i];
    }
    best = search(&s);
    if (!isfinite(best.error) || !(best.b0 > 0))
        return -EDOM;
    *ret_fit = (struct loss_fit){ .b0 = best.b0 / scale,
                                  .b1 = best.b1 / scale,
                                  .b2 = best.b2 * scale,
                                  .scale = scale,
                                  .error = sqrt(best.error / s.weights) };
    return 0;
}

double loss_at(const struct loss_fit *fit, double epoch)
{
    return 1 / (fit->b0 * epoch + fit->b1) + fit->b2;
}

int loss_converges(const struct loss_fit *fit, const struct loss_rule *rule)
{
    int calm = 0;

    for (int k = 1; k < rule->cap; k++) {
        calm = (loss_at(fit, k - 1) - loss_at(fit, k)) / fit->scale < rule->delta ? calm + 1 : 0;
        if (calm >= rule->epochs)
            return k;
    }
    return rule->cap;
}

double loss_remaining(const struct loss_known *known, const struct loss_rule *rule, double now)
{
    double end = now + rule->blind;

    if (known->given > 0)
        return fmax(known->given - now, 0.5);
    if (known->fit)
        end = loss_converges(known->fit, rule);
    else if (known->typical > 0)
        end = known->typical;
    return fmax(fmin(end, rule->cap) - now, 0.5);
}
