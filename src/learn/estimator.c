/* SPDX-License-Identifier: Apache-2.0 */
/* estimator.c - see estimator.h.
 *
 * Texts become numbers by the mean of the target over the rows that have them, drawn towards the mean of all as if two
 * more rows had said that; so a cut separates the texts that go with large targets from those that go with small ones.
 * Targets that are positive and spread over more than a factor of four are grown on a logarithm, because what matters
 * of them is a ratio.
 */
#include "learn/estimator.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/parallel.h"

enum { ROWS_LEAST = 10 };
static const double WORD_PRIOR = 2, LOG_SPREAD = 4;

/* What training one target needs. */
struct target {
    struct forest *forest;
    struct forest_data data;
    uint8_t *bins;
    float *values, *cuts;
    uint16_t bin_count[FOREST_FEATURES_MAX];
};

struct training {
    const struct dataset *set;
    const struct train_request *request;
    struct estimator *estimator;
    uint32_t columns[FOREST_FEATURES_MAX];
    struct target targets[FOREST_TARGETS_MAX];
    uint32_t rows;
    void *work[PARALLEL_MAX];
    int failed[PARALLEL_MAX];
};

static size_t row_at(const struct training *t, uint32_t i)
{
    return t->request->rows ? t->request->rows[i] : i;
}

struct word_row {
    uint64_t hash;
    float value;
};

static int word_before(const void *a, const void *b)
{
    const struct word_row *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value; /* sums in one order, whatever the sort does */
}

static int make_words(struct training *t, struct target *target, uint32_t feature)
{
    struct forest *forest = target->forest;
    struct word_row *rows = mem_zalloc(t->rows, sizeof(*rows));
    uint32_t words = 0;

    forest->words[feature] = mem_zalloc(t->rows, sizeof(struct forest_word));
    if (!rows || !forest->words[feature]) {
        mem_free(rows);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < t->rows; i++)
        rows[i] = (struct word_row){ dataset_cell(t->set, row_at(t, i), t->columns[feature])->hash, target->values[i] };
    qsort(rows, t->rows, sizeof(*rows), word_before);
    for (uint32_t i = 0, k; i < t->rows && words < FOREST_WORDS_MAX; i = k) {
        double sum = WORD_PRIOR * (double)forest->mean;

        for (k = i; k < t->rows && rows[k].hash == rows[i].hash; k++)
            sum += (double)rows[k].value;
        forest->words[feature][words++] =
            (struct forest_word){ rows[i].hash, (float)(sum / (WORD_PRIOR + (double)(k - i))) };
    }
    forest->word_count[feature] = words;
    mem_free(rows);
    return 0;
}

/* The target's column as it is grown on. */
static int take_target(struct training *t, struct target *target, uint32_t column, struct error *err)
{
    struct forest *forest = target->forest;
    double low = (double)INFINITY, high = -(double)INFINITY, sum = 0;

    if (t->set->text[column])
        return error_set(err, -EINVAL, "target '%s': a column of numbers is expected, this one has texts",
                         forest->name);
    for (uint32_t i = 0; i < t->rows; i++) {
        double value = dataset_cell(t->set, row_at(t, i), column)->number;

        low = fmin(low, value);
        high = fmax(high, value);
    }
    if (!(high < 1e30) || !(low > -1e30))
        return error_set(err, -ERANGE, "target '%s': a value beyond 1e30", forest->name);
    forest->log = low > 0 && high >= LOG_SPREAD * low;
    forest->low = (float)low;
    forest->high = (float)high;
    for (uint32_t i = 0; i < t->rows; i++) {
        double value = dataset_cell(t->set, row_at(t, i), column)->number;

        target->values[i] = (float)(forest->log ? log1p(value) : value);
        sum += (double)target->values[i];
    }
    forest->mean = (float)(sum / t->rows);
    return 0;
}

/* One feature of a row in the target's own terms, through the same code that asks later. */
static float feature_value(const struct training *t, const struct target *target, uint32_t feature, uint32_t row)
{
    struct estimator one = { .feature_count = 1, .text = { t->estimator->text[feature] } };
    struct forest words = { .mean = target->forest->mean,
                            .words = { target->forest->words[feature] },
                            .word_count = { target->forest->word_count[feature] } };
    float value;

    forest_encode(&one, &words, dataset_cell(t->set, row_at(t, row), t->columns[feature]), &value);
    return value;
}

/* All features, in bins. `values` and `sorted` have room for all rows. */
static int take_features(struct training *t, struct target *target, float *values, float *sorted, struct error *err)
{
    const struct estimator *e = t->estimator;

    for (uint32_t f = 0; f < e->feature_count; f++) {
        float *cuts = target->cuts + (size_t)f * FOREST_BINS;

        if (e->text[f] && make_words(t, target, f) < 0)
            return error_set(err, -ENOMEM, "no memory for the texts of '%s'", e->features[f]);
        for (uint32_t i = 0; i < t->rows; i++)
            values[i] = sorted[i] = feature_value(t, target, f, i);
        target->bin_count[f] = forest_cuts(sorted, t->rows, cuts);
        for (uint32_t i = 0; i < t->rows; i++)
            target->bins[(size_t)f * t->rows + i] = forest_bin(cuts, target->bin_count[f], values[i]);
    }
    return 0;
}

static int prepare_target(struct training *t, uint32_t index, struct error *err)
{
    struct target *target = &t->targets[index];
    const char *name = t->request->targets[index];
    size_t features = t->estimator->feature_count;
    uint32_t column;
    float *scratch;
    int r = dataset_column(t->set, name, &column, err);

    if (r < 0)
        return error_prefix(err, r, "target");
    target->forest = &t->estimator->forests[index];
    memcpy(target->forest->name, name, strlen(name));
    target->bins = mem_zalloc(features * t->rows, 1);
    target->values = mem_zalloc(t->rows, sizeof(float));
    target->cuts = mem_zalloc(features * FOREST_BINS, sizeof(float));
    scratch = mem_zalloc(2 * (size_t)t->rows, sizeof(float));
    target->forest->trees = mem_zalloc(t->request->params.trees, sizeof(struct forest_tree));
    if (!target->bins || !target->values || !target->cuts || !scratch || !target->forest->trees)
        r = error_set(err, -ENOMEM, "no memory for %u rows", t->rows);
    if (r == 0)
        r = take_target(t, target, column, err);
    if (r == 0)
        r = take_features(t, target, scratch, scratch + t->rows, err);
    mem_free(scratch);
    target->forest->tree_count = target->forest->trees ? t->request->params.trees : 0;
    target->data = (struct forest_data){ .bins = target->bins,
                                         .target = target->values,
                                         .cuts = target->cuts,
                                         .bin_count = target->bin_count,
                                         .rows = t->rows,
                                         .features = (uint32_t)features };
    return r;
}

/* One tree: grown with room for the most nodes, kept in as many as it has. */
static void grow(void *arg, uint32_t item, unsigned worker)
{
    struct training *t = arg;
    const struct forest_params *params = &t->request->params;
    const struct target *target = &t->targets[item / params->trees];
    struct forest_tree *tree = &target->forest->trees[item % params->trees];
    uint32_t most = forest_nodes_most(params, t->rows), leaves = most / 2 + 1;
    void *less;

    if (t->failed[worker])
        return;
    tree->nodes = mem_zalloc(most, sizeof(*tree->nodes));
    tree->values = mem_zalloc((size_t)leaves * FOREST_LEAF_VALUES, sizeof(float));
    if (!tree->nodes || !tree->values) {
        t->failed[worker] = -ENOMEM;
        return;
    }
    forest_tree_grow(&target->data, params, item % params->trees, t->work[worker], tree);
    less = mem_resize(tree->nodes, tree->node_count, sizeof(*tree->nodes));
    tree->nodes = less ? less : tree->nodes;
    less = mem_resize(tree->values, (size_t)tree->leaf_count * FOREST_LEAF_VALUES, sizeof(float));
    tree->values = less ? less : tree->values;
}

static int grow_all(struct training *t, struct error *err)
{
    unsigned threads = t->request->threads ? t->request->threads : parallel_cores();
    int r = 0;

    if (threads > PARALLEL_MAX)
        threads = PARALLEL_MAX;
    for (unsigned i = 0; i < threads && r == 0; i++) {
        t->work[i] = mem_zalloc(forest_work_size(t->rows), 1);
        r = t->work[i] ? 0 : -ENOMEM;
    }
    if (r == 0)
        parallel_run(threads, t->estimator->target_count * t->request->params.trees, grow, t);
    for (unsigned i = 0; i < threads; i++) {
        r = t->failed[i] ? t->failed[i] : r;
        mem_free(t->work[i]);
    }
    return r < 0 ? error_set(err, r, "no memory to grow trees on %u rows", t->rows) : 0;
}

static int check(const struct dataset *set, const struct train_request *request, struct error *err)
{
    const struct forest_params *p = &request->params;
    size_t rows = request->rows ? request->row_count : set->rows;

    if (request->feature_count < 1 || request->feature_count > FOREST_FEATURES_MAX)
        return error_set(err, -EINVAL, "%u features; expected 1 to %d", request->feature_count, FOREST_FEATURES_MAX);
    if (request->target_count < 1 || request->target_count > FOREST_TARGETS_MAX)
        return error_set(err, -EINVAL, "%u targets; expected 1 to %d", request->target_count, FOREST_TARGETS_MAX);
    if (rows < ROWS_LEAST || rows > FOREST_ROWS_MAX)
        return error_set(err, -EINVAL, "%zu rows; an estimator needs %d or more", rows, ROWS_LEAST);
    if (p->trees < 1 || p->trees > FOREST_TREES_MAX || p->depth_max < 1 || p->depth_max > FOREST_DEPTH_MAX)
        return error_set(err, -EINVAL, "expected 1 to %d trees of a depth of 1 to %d", FOREST_TREES_MAX,
                         FOREST_DEPTH_MAX);
    return 0;
}

static int train(struct training *t, struct error *err)
{
    const struct train_request *request = t->request;
    struct estimator *e = t->estimator;
    int r = 0;

    e->forests = mem_zalloc(request->target_count, sizeof(*e->forests));
    if (!e->forests)
        return error_set(err, -ENOMEM, "no memory for %u forests", request->target_count);
    e->target_count = request->target_count;
    e->feature_count = request->feature_count;
    e->rows = t->rows;
    e->seed = request->params.seed;
    for (uint32_t i = 0; i < e->feature_count && r == 0; i++) {
        r = dataset_column(t->set, request->features[i], &t->columns[i], err);
        if (r < 0)
            return error_prefix(err, r, "feature");
        memcpy(e->features[i], request->features[i], strlen(request->features[i]));
        e->text[i] = t->set->text[t->columns[i]];
    }
    for (uint32_t i = 0; i < e->target_count && r == 0; i++)
        r = prepare_target(t, i, err);
    return r == 0 ? grow_all(t, err) : r;
}

int estimator_train(const struct dataset *set, const struct train_request *request, struct estimator *ret_estimator,
                    struct error *err)
{
    struct estimator estimator = { 0 };
    struct training *t;
    int r = check(set, request, err);

    if (r < 0)
        return r;
    t = mem_zalloc(1, sizeof(*t));
    if (!t)
        return error_set(err, -ENOMEM, "no memory to train");
    t->set = set;
    t->request = request;
    t->estimator = &estimator;
    t->rows = request->rows ? request->row_count : (uint32_t)set->rows;
    r = train(t, err);
    for (int i = 0; i < FOREST_TARGETS_MAX; i++) {
        mem_free(t->targets[i].bins);
        mem_free(t->targets[i].values);
        mem_free(t->targets[i].cuts);
    }
    mem_free(t);
    if (r < 0)
        estimator_done(&estimator);
    else
        *ret_estimator = estimator;
    return r;
}

int estimator_bind(const struct estimator *estimator, const struct dataset *set, uint32_t columns[FOREST_FEATURES_MAX],
                   struct error *err)
{
    for (uint32_t i = 0; i < estimator->feature_count; i++) {
        const char *name = estimator->features[i];
        int r;

        /* A word that no command line of this table has: as if each lacked it. */
        columns[i] = names_find(&set->columns, name, strlen(name));
        if (columns[i] == NAME_NONE && strncmp(name, "--", 2) == 0 && set->command != NAME_NONE)
            continue;
        r = dataset_column(set, name, &columns[i], err);
        if (r < 0)
            return error_prefix(err, r, "the model wants %u features", estimator->feature_count);
        if (!estimator->text[i] && set->text[columns[i]])
            return error_set(err, -EINVAL, "column '%s': the model wants numbers, this one has texts",
                             estimator->features[i]);
    }
    return 0;
}

void estimator_row(const struct dataset *set, const uint32_t *columns, uint32_t count, size_t row, struct feature *ret)
{
    for (uint32_t i = 0; i < count; i++)
        ret[i] = columns[i] == NAME_NONE ? (struct feature){ -1, 0 } : *dataset_cell(set, row, columns[i]);
}

const struct forest *estimator_find(const struct estimator *estimator, const char *target)
{
    for (uint32_t i = 0; i < estimator->target_count; i++)
        if (strcmp(estimator->forests[i].name, target) == 0)
            return &estimator->forests[i];
    return NULL;
}

int estimator_ask(const struct estimator *estimator, const struct forest *forest, const struct feature *features,
                  struct forest_answer *ret_answer, struct error *err)
{
    float values[FOREST_FEATURES_MAX];

    for (uint32_t i = 0; i < estimator->feature_count; i++)
        if (!estimator->text[i] && !isfinite(features[i].number))
            return error_set(err, -EDOM, "feature '%s' has no value", estimator->features[i]);
    forest_encode(estimator, forest, features, values);
    forest_ask(forest, values, ret_answer);
    return 0;
}
