/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* speed_fit.h - how fast a training job runs with so many servers and workers, from the sizes it was seen at (Optimus,
 * EuroSys'18, section 3.2).
 *
 * One step costs computing, which grows with the part of the batch a worker has, transfers and overheads:
 *
 *   asynchronous  f(p, w) = w / (th0 + th1 w/p + th2 w + th3 p)
 *   synchronous   f(p, w) = 1 / (th0 M/w + th1 + th2 w/p + th3 w + th4 p)
 *   all-reduce    f(n, w) = 1 / (th0 M/w + th1 + th2 (w-1) + th3 [n > 1])
 *
 * with p parameter servers, w workers and the global batch M. All-reduce has no servers; n is the number of nodes, and
 * what leaving one node costs is one term. All theta are at least 0. Inverted, each is linear in theta.
 *
 * What hardware does between sizes no such formula says: two nodes may be slower than three. So an all-reduce model
 * keeps by how much it was off at the sizes seen, and is corrected near them: on as many nodes straight between the
 * sizes around, else as at the nearest. Off by no more than measurements are, it is left alone; the worse it fits, the
 * more of the difference is believed.
 */
#include <stdbool.h>

enum speed_kind { SPEED_ASYNC, SPEED_SYNC, SPEED_ALLREDUCE, SPEED_KIND_COUNT };

enum { SPEED_TERMS_MAX = 5, SPEED_POINTS_MAX = 32 };

struct speed_point {
    int servers, workers; /* all-reduce: nodes, GPUs */
    double speed;         /* steps, or epochs, a second */
};

struct speed_fit {
    enum speed_kind kind;
    double batch; /* 1 where it is not known */
    double theta[SPEED_TERMS_MAX];
    double error; /* mean relative error over the points */
    int seen_count;
    struct speed_seen {
        int servers, workers;
        double off; /* of the speed by the model, to be added */
    } seen[SPEED_POINTS_MAX];
};

/* Points it takes before a model is trusted: 4 asynchronous, 5 synchronous, 3 all-reduce. */
int speed_points_min(enum speed_kind kind);

/* 0; -EINVAL for too few points, more than 32, or one that is not positive. */
int speed_fit(enum speed_kind kind, double batch, const struct speed_point *points, int count,
              struct speed_fit *ret_fit);

/* Steps a second, by the model and what it was off near by. */
double speed_at(const struct speed_fit *fit, int servers, int workers);

/* The same, but as measured (the mean) where that very size was. */
double speed_known(const struct speed_fit *fit, const struct speed_point *points, int count, int servers, int workers);
