/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c - see measure.h. Nearest neighbours: features scaled to unit deviation, a text that differs counts as a
 * distance of 2, brute force over the training rows. */
#include "learn/measure.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"

enum { NEAREST = 5 };

const char *const guess_names[GUESS_COUNT] = { "forest", "request", "user mean", "5 nearest" };

struct run {
    const struct dataset *set;
    const struct measure_request *request;
    struct measure *out;
    uint32_t *order, *train, *test; /* rows */
    uint32_t train_count, test_count;
    uint32_t columns[FOREST_FEATURES_MAX], targets[FOREST_TARGETS_MAX], user;
    uint32_t request_column[FOREST_TARGETS_MAX];
    double scale[FOREST_FEATURES_MAX];
    float *errors[FOREST_TARGETS_MAX][GUESS_COUNT]; /* relative, of the rows asked about */
    uint32_t asked;
    double covered[FOREST_TARGETS_MAX];
};

static double number_at(const struct run *run, uint32_t row, uint32_t column)
{
    return dataset_cell(run->set, row, column)->number;
}

static void find_scales(struct run *run)
{
    for (uint32_t f = 0; f < run->request->learn.feature_count; f++) {
        double sum = 0, squares = 0, mean;

        for (uint32_t i = 0; i < run->train_count; i++)
            sum += number_at(run, run->train[i], run->columns[f]);
        mean = sum / run->train_count;
        for (uint32_t i = 0; i < run->train_count; i++)
            squares += pow(number_at(run, run->train[i], run->columns[f]) - mean, 2);
        run->scale[f] = squares > 0 ? 1 / sqrt(squares / run->train_count) : 0;
    }
}

static double distance(const struct run *run, uint32_t a, uint32_t b, double worst)
{
    double sum = 0;

    for (uint32_t f = 0; f < run->request->learn.feature_count && sum < worst; f++) {
        const struct feature *x = dataset_cell(run->set, a, run->columns[f]);
        const struct feature *y = dataset_cell(run->set, b, run->columns[f]);
        double gap =
            run->set->text[run->columns[f]] ? 2.0 * (x->hash != y->hash) : (x->number - y->number) * run->scale[f];

        sum += gap * gap;
    }
    return sum;
}

/* The nearest training rows; how many. */
static uint32_t nearest(const struct run *run, uint32_t row, uint32_t found[NEAREST])
{
    double far[NEAREST];
    uint32_t count = 0;

    for (uint32_t i = 0; i < run->train_count; i++) {
        double d = distance(run, row, run->train[i], count == NEAREST ? far[NEAREST - 1] : (double)INFINITY);
        uint32_t k;

        if (count == NEAREST && !(d < far[NEAREST - 1]))
            continue;
        for (k = count < NEAREST ? count++ : NEAREST - 1; k > 0 && far[k - 1] > d; k--) {
            far[k] = far[k - 1];
            found[k] = found[k - 1];
        }
        far[k] = d;
        found[k] = run->train[i];
    }
    return count;
}

static double mean_of(const struct run *run, const uint32_t *rows, uint32_t count, uint32_t column)
{
    double sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += number_at(run, rows[i], column);
    return sum / count;
}

static double user_mean(const struct run *run, uint32_t row, uint32_t column)
{
    uint64_t who = dataset_cell(run->set, row, run->user)->hash;
    uint32_t count = 0;
    double sum = 0;

    for (uint32_t i = 0; i < run->train_count; i++)
        if (dataset_cell(run->set, run->train[i], run->user)->hash == who) {
            sum += number_at(run, run->train[i], column);
            count++;
        }
    return count ? sum / count : mean_of(run, run->train, run->train_count, column);
}

static int ask_row(struct run *run, const struct estimator *estimator, uint32_t row, struct error *err)
{
    const struct measure_request *request = run->request;
    struct feature features[FOREST_FEATURES_MAX];
    uint32_t near[NEAREST], near_count = nearest(run, row, near);
    int r;

    estimator_row(run->set, run->columns, request->learn.feature_count, row, features);
    for (uint32_t t = 0; t < request->learn.target_count; t++) {
        double truth = number_at(run, row, run->targets[t]), guess[GUESS_COUNT];
        struct forest_answer answer;

        r = estimator_ask(estimator, &estimator->forests[t], features, &answer, err);
        if (r < 0)
            return r;
        guess[GUESS_FOREST] = answer.mean;
        guess[GUESS_REQUEST] = run->request_column[t] != NAME_NONE ? number_at(run, row, run->request_column[t])
                                                                   : request->request_value[t];
        guess[GUESS_USER] = run->user != NAME_NONE ? user_mean(run, row, run->targets[t]) : (double)NAN;
        guess[GUESS_NEAREST] = mean_of(run, near, near_count, run->targets[t]);
        for (int g = 0; g < GUESS_COUNT; g++)
            run->errors[t][g][run->asked] = truth != 0 ? (float)(fabs(guess[g] - truth) / fabs(truth)) : NAN;
        run->covered[t] += truth >= answer.low && truth <= answer.high;
    }
    run->asked++;
    return 0;
}

static int run_fold(struct run *run, struct error *err)
{
    struct train_request learn = run->request->learn;
    uint32_t most = run->request->rows_most, step;
    struct estimator estimator = { 0 };
    int r;

    learn.rows = run->train;
    learn.row_count = run->train_count;
    r = estimator_train(run->set, &learn, &estimator, err);
    if (r < 0)
        return r;
    find_scales(run);
    step = most && run->test_count > most ? run->test_count / most : 1;
    for (uint32_t i = 0; i < run->test_count && r == 0; i += step)
        r = ask_row(run, &estimator, run->test[i], err);
    estimator_done(&estimator);
    return r;
}

static int run_folds(struct run *run, struct error *err)
{
    uint32_t rows = (uint32_t)run->set->rows, folds = run->request->folds;
    struct rng rng;
    int r = 0;

    for (uint32_t i = 0; i < rows; i++)
        run->order[i] = i;
    if (folds == 0) {
        run->train_count = rows - (uint32_t)(run->request->holdout * rows);
        run->test_count = rows - run->train_count;
        memcpy(run->train, run->order, run->train_count * sizeof(*run->train));
        memcpy(run->test, run->order + run->train_count, run->test_count * sizeof(*run->test));
        return run_fold(run, err);
    }
    rng_seed(&rng, run->request->learn.params.seed);
    for (uint32_t i = rows; i > 1; i--) {
        uint32_t k = (uint32_t)rng_below(&rng, i), row = run->order[k];

        run->order[k] = run->order[i - 1];
        run->order[i - 1] = row;
    }
    for (uint32_t f = 0; f < folds && r == 0; f++) {
        run->train_count = run->test_count = 0;
        for (uint32_t i = 0; i < rows; i++)
            if (i % folds == f)
                run->test[run->test_count++] = run->order[i];
            else
                run->train[run->train_count++] = run->order[i];
        r = run_fold(run, err);
    }
    return r;
}

static int float_before(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return x < y ? -1 : x > y;
}

static void sum_up(struct run *run)
{
    for (uint32_t t = 0; t < run->request->learn.target_count; t++) {
        struct measure *m = &run->out[t];

        *m = (struct measure){ .rows = run->asked, .covered = run->asked ? run->covered[t] / run->asked : 0 };
        for (int g = 0; g < GUESS_COUNT; g++) {
            float *e = run->errors[t][g];
            uint32_t count = 0;
            double sum = 0;

            for (uint32_t i = 0; i < run->asked; i++)
                if (!isnan(e[i])) {
                    sum += (double)e[i];
                    e[count++] = e[i];
                }
            qsort(e, count, sizeof(*e), float_before);
            m->error_mean[g] = count ? sum / count : (double)NAN;
            m->median_ape[g] = count ? (double)e[(count - 1) / 2] : (double)NAN;
        }
    }
}

static int find_columns(struct run *run, struct error *err)
{
    const struct measure_request *q = run->request;
    int r = 0;

    for (uint32_t i = 0; i < q->learn.feature_count && r == 0; i++)
        r = dataset_column(run->set, q->learn.features[i], &run->columns[i], err);
    for (uint32_t i = 0; i < q->learn.target_count && r == 0; i++) {
        r = dataset_column(run->set, q->learn.targets[i], &run->targets[i], err);
        run->request_column[i] = NAME_NONE;
        if (r == 0 && q->request_column[i])
            r = dataset_column(run->set, q->request_column[i], &run->request_column[i], err);
    }
    run->user = NAME_NONE;
    if (r == 0 && q->user)
        r = dataset_column(run->set, q->user, &run->user, err);
    return r;
}

int measure_run(const struct dataset *set, const struct measure_request *request, struct measure *ret_measures,
                struct error *err)
{
    struct run run = { .set = set, .request = request, .out = ret_measures };
    size_t rows = set->rows;
    int r;

    if (request->learn.target_count > FOREST_TARGETS_MAX || request->learn.feature_count > FOREST_FEATURES_MAX)
        return error_set(err, -EINVAL, "at most %d features and %d targets", FOREST_FEATURES_MAX, FOREST_TARGETS_MAX);
    if (rows < 20 || rows > FOREST_ROWS_MAX || request->folds == 1 || request->folds > rows ||
        (!request->folds && !(request->holdout > 0 && request->holdout < 1)))
        return error_set(err, -EINVAL, "%zu rows cannot be parted that way; 20 or more, 2 folds or more are needed",
                         rows);
    r = find_columns(&run, err);
    if (r < 0)
        return r;
    run.order = mem_zalloc(3 * rows, sizeof(*run.order));
    r = run.order ? 0 : -ENOMEM;
    for (uint32_t t = 0; t < request->learn.target_count && r == 0; t++)
        for (int g = 0; g < GUESS_COUNT && r == 0; g++) {
            run.errors[t][g] = mem_zalloc(rows, sizeof(float));
            r = run.errors[t][g] ? 0 : -ENOMEM;
        }
    if (r == 0) {
        run.train = run.order + rows;
        run.test = run.train + rows;
        r = run_folds(&run, err);
    } else {
        (void)error_set(err, r, "no memory for %zu rows", rows);
    }
    if (r == 0)
        sum_up(&run);
    mem_free(run.order);
    for (int t = 0; t < FOREST_TARGETS_MAX; t++)
        for (int g = 0; g < GUESS_COUNT; g++)
            mem_free(run.errors[t][g]);
    return r;
}
