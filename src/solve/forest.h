/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* forest.h - growing and asking regression trees (CART by variance, bootstrap rows, mean of leaves; Breiman 2001).
 *
 * Features are put into at most FOREST_BINS bins first, so a split is looked for in a histogram and not in a sorted
 * list. A tree depends on the data, the parameters and its own number, never on which other trees were grown: trees
 * may be grown in any order, by any number of threads, each with its own workspace.
 */
#include "model/forest.h"

enum { FOREST_BINS = 128 };

struct forest_params {
    uint32_t trees, depth_max;
    uint32_t split_min, leaf_min; /* rows of a node that may be split; of each part */
    uint32_t features_try;        /* drawn for each split; 0 = all but one */
    uint64_t seed;
};

/* Defaults of the spec: 70 trees, depth 13, split 10, leaf 5, all features but one. */
struct forest_params forest_params_default(void);

/* Rows in bins. bins[feature * rows + row]; a row goes left of the cut behind bin b when its bin is <= b. */
struct forest_data {
    const uint8_t *bins;
    const float *target;
    const float *cuts; /* [feature * FOREST_BINS + b]: a value v is in the first bin b with v < cut b, else the last */
    const uint16_t *bin_count;
    uint32_t rows, features;
};

/* Cut points for `count` values, which are sorted in place: at most FOREST_BINS - 1 of them, ascending, between values
 * that differ. How many bins there are. */
uint16_t forest_cuts(float *values, uint32_t count, float cuts[FOREST_BINS]);
uint8_t forest_bin(const float *cuts, uint16_t bin_count, float value);

/* Bytes of workspace that one thread needs to grow trees of so many rows. */
size_t forest_work_size(uint32_t rows);

/* The most nodes a tree can have. */
uint32_t forest_nodes_most(const struct forest_params *params, uint32_t rows);

/* Grows tree `number`. tree->nodes has room for forest_nodes_most(), tree->values for FOREST_LEAF_VALUES floats for
 * half as many leaves, rounded up. */
void forest_tree_grow(const struct forest_data *data, const struct forest_params *params, uint32_t number, void *work,
                      struct forest_tree *tree);

/* The leaf for these values: its number. */
const struct forest_node *forest_tree_leaf(const struct forest_tree *tree, const float *values);

struct forest_answer {
    double mean, low, high; /* of the pooled leaf values: mean over trees, 10th and 90th percentile */
    double median;
};

/* What the forest expects of a job. `values` as the forest was grown on (see forest_encode). */
double forest_mean(const struct forest *forest, const float *values);
void forest_ask(const struct forest *forest, const float *values, struct forest_answer *ret_answer);

/* The features of a job in this forest's own terms: texts by their words. */
void forest_encode(const struct estimator *estimator, const struct forest *forest, const struct feature *from,
                   float *ret_values);
