/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* measure.h - how good an estimator is on jobs it has not seen, beside what one would do without it.
 *
 * Rows are parted into folds by a seeded shuffle, each held out in turn; or the last part of the table, in its order,
 * is held out, which is what predicting the future from the past means.
 */
#include "learn/estimator.h"

enum guess {
    GUESS_FOREST,
    GUESS_REQUEST, /* what the user asked for */
    GUESS_USER,    /* mean of the user's own earlier jobs; of all for a user without any */
    GUESS_NEAREST, /* mean of the 5 nearest jobs */
    GUESS_COUNT
};

extern const char *const guess_names[GUESS_COUNT];

struct measure_request {
    struct train_request learn; /* rows are chosen here */
    uint32_t folds;             /* 2 or more; 0: the last part is held out */
    double holdout;             /* that part, in (0, 1) */
    uint32_t rows_most;         /* held-out rows that are asked about, evenly spaced; 0: all */
    const char *user;           /* column; NULL: no user's mean */
    /* What was asked for of each target: a column, or a number where that is NULL (NAN: not told). */
    const char *request_column[FOREST_TARGETS_MAX];
    double request_value[FOREST_TARGETS_MAX];
};

struct measure {
    double error_mean[GUESS_COUNT]; /* mean of |guess - truth| / truth over rows whose truth is not 0; NAN: not told */
    double median_ape[GUESS_COUNT];
    double covered; /* truths inside the forest's 80 % interval */
    uint64_t rows;
};

int measure_run(const struct dataset *set, const struct measure_request *request, struct measure *ret_measures,
                struct error *err) __attribute__((warn_unused_result));
