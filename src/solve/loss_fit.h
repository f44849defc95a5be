/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* loss_fit.h - how a training job's loss will go on, from what it was so far (Optimus, EuroSys'18, section 3.1).
 *
 * Stochastic gradient descent converges like 1/k, so the loss after k epochs is taken to be 1/(b0 k + b1) + b2 with
 * nothing below 0. Points are given oldest first and are not changed.
 */
#include <stdbool.h>

enum { LOSS_POINTS_MIN = 3, LOSS_POINTS_MAX = 64 };

struct loss_point {
    double epoch, loss;
};

struct loss_fit {
    double b0, b1, b2; /* in the unit of the loss */
    double scale;      /* the largest loss seen */
    double error;      /* root of the mean weighted squared error, as a part of `scale` */
};

/* When a job counts as converged: the loss falls by less than `delta` of its scale in each of `epochs` epochs. */
struct loss_rule {
    double delta;
    int epochs;
    int cap;   /* no job is taken to need more in all */
    int blind; /* epochs that are taken to be left where nothing is known */
};

extern const struct loss_rule loss_rule_standard; /* 0.01, 3 epochs; 100; 20 */

/* A point outside the range of its neighbours, two on either side, becomes their mean. May not be in place. */
void loss_smooth(const struct loss_point *points, int count, struct loss_point *out);

/* 0; -EINVAL for fewer than 3 points, more than 64, or a loss that is not above 0 and finite; -EDOM where no curve that
 * falls fits. */
int loss_fit(const struct loss_point *points, int count, struct loss_fit *ret_fit);

/* The curve itself. */
double loss_at(const struct loss_fit *fit, double epoch);

/* The epoch in which the rule comes true, at most rule->cap. */
int loss_converges(const struct loss_fit *fit, const struct loss_rule *rule);

/* What is known about how many epochs a job takes; 0 or NULL where nothing is. */
struct loss_known {
    double given;               /* by its user */
    double typical;             /* mean of finished jobs of its type */
    const struct loss_fit *fit; /* its own curve */
};

/* Epochs left at `now`, above 0: by what the user gave, else by the curve, else like others of its type, else blindly.
 * A job that has outlived its prediction is taken to be about to end. */
double loss_remaining(const struct loss_known *known, const struct loss_rule *rule, double now);
