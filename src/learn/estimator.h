/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* estimator.h - estimators from tables of finished jobs, and what they say of new ones.
 *
 * Training is one piece of work a tree, by all cores; the result is the same for any number of them. An estimator that
 * is in use is never changed: a new one is trained beside it and takes its place whole.
 */
#include "learn/dataset.h"
#include "solve/forest.h"

struct train_request {
    const char *const *features, *const *targets; /* names of columns */
    uint32_t feature_count, target_count;
    const uint32_t *rows; /* of the data set, to be used; NULL: all */
    uint32_t row_count;
    struct forest_params params;
    unsigned threads; /* 0: all cores */
};

/* -ENOENT (no such column), -EINVAL (a target that is text, too few rows), -ENOMEM. */
int estimator_train(const struct dataset *set, const struct train_request *request, struct estimator *ret_estimator,
                    struct error *err) __attribute__((warn_unused_result));

/* Finds the features of an estimator in a table: columns[i] is where feature i stands. A column that is missing, or has
 * texts where numbers are expected, is refused by name. */
int estimator_bind(const struct estimator *estimator, const struct dataset *set, uint32_t columns[FOREST_FEATURES_MAX],
                   struct error *err) __attribute__((warn_unused_result));

/* The features of one row. */
void estimator_row(const struct dataset *set, const uint32_t *columns, uint32_t count, size_t row, struct feature *ret);

/* The forest of a target, or NULL. */
const struct forest *estimator_find(const struct estimator *estimator, const char *target);

/* What the estimator expects of a job; values as they are told, not as they were grown on. -EDOM: a number is not
 * finite. */
int estimator_ask(const struct estimator *estimator, const struct forest *forest, const struct feature *features,
                  struct forest_answer *ret_answer, struct error *err) __attribute__((warn_unused_result));
