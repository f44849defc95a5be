/* SPDX-License-Identifier: Apache-2.0 */
/* forest.c - see forest.h.
 *
 * A node of n rows costs n additions a feature tried and a walk over the bins that some row is in; rows are kept in one
 * index array that every split parts in two, so a level costs the rows of the tree. Splits maximise
 * sum_left^2 / n_left + sum_right^2 / n_right, which is the same as the largest fall of the squared error.
 *
 * Left out: pruning and out-of-bag error (learn/ measures on rows that were held out).
 */
#include "solve/forest.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"

struct forest_params forest_params_default(void)
{
    return (struct forest_params){ .trees = 70, .depth_max = 13, .split_min = 10, .leaf_min = 5, .seed = 1 };
}

/* Shell sort: no allocation, no recursion; fast enough for what is sorted once a feature. */
static void sort_floats(float *v, size_t count)
{
    static const size_t gaps[] = { 4194304, 1398101, 466033, 155344, 51781, 17260, 5753, 1968,
                                   701,     301,     132,    57,     23,    10,    4,    1 };

    for (size_t g = 0; g < sizeof(gaps) / sizeof(*gaps); g++) {
        size_t gap = gaps[g];

        for (size_t i = gap; i < count; i++) {
            float x = v[i];
            size_t k = i;

            for (; k >= gap && v[k - gap] > x; k -= gap)
                v[k] = v[k - gap];
            v[k] = x;
        }
    }
}

uint16_t forest_cuts(float *values, uint32_t count, float cuts[FOREST_BINS])
{
    uint32_t distinct = count > 0;
    uint16_t bins = 0;
    uint32_t in_bin = 0, each;

    sort_floats(values, count);
    for (uint32_t i = 1; i < count; i++)
        distinct += values[i] > values[i - 1];
    each = distinct <= FOREST_BINS ? 1 : count / FOREST_BINS + 1;
    for (uint32_t i = 0; i < count; i++) {
        in_bin++;
        if (i + 1 < count && values[i + 1] > values[i] && in_bin >= each && bins < FOREST_BINS - 1) {
            float cut = values[i] + (values[i + 1] - values[i]) / 2;

            cuts[bins++] = cut > values[i] ? cut : values[i + 1];
            in_bin = 0;
        }
    }
    return (uint16_t)(bins + 1);
}

uint8_t forest_bin(const float *cuts, uint16_t bin_count, float value)
{
    uint32_t low = 0, high = (uint32_t)bin_count - 1;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (value < cuts[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return (uint8_t)low;
}

struct bin {
    double sum;
    uint32_t count;
};

/* A part of the rows that is to become a subtree. */
struct part {
    uint32_t node, from, to;
    uint32_t depth, count; /* rows as drawn */
    double sum;            /* of the target over them */
};

struct grower {
    const struct forest_data *data;
    const struct forest_params *params;
    struct forest_tree *tree;
    struct rng rng;
    uint32_t *rows;   /* those drawn, each once, ascending within every node */
    uint32_t *spare;  /* rows that go right while a node is parted */
    float *scratch;   /* target values of a leaf */
    uint16_t *weight; /* of a row: how often it was drawn */
    struct bin *bins;
    struct part stack[2 * FOREST_DEPTH_MAX + 2];
    uint32_t stack_count;
};

struct split {
    double gain;
    double sum; /* of the target over what goes left */
    int32_t feature;
    uint32_t bin; /* the last one that goes left */
    uint32_t left;
};

size_t forest_work_size(uint32_t rows)
{
    return sizeof(struct grower) + FOREST_BINS * sizeof(struct bin) +
           (size_t)rows * (2 * sizeof(uint32_t) + sizeof(float) + sizeof(uint16_t));
}

uint32_t forest_nodes_most(const struct forest_params *params, uint32_t rows)
{
    uint64_t by_depth = ((uint64_t)2 << params->depth_max) - 1;
    uint64_t leaf = params->leaf_min ? params->leaf_min : 1, by_rows = 2 * (rows / leaf) + 1;

    return (uint32_t)(by_depth < by_rows ? by_depth : by_rows);
}

/* The best cut of one feature. Bins that no row is in are passed over by the mask. */
static void split_feature(struct grower *g, const struct part *part, uint32_t feature, struct split *best)
{
    const uint8_t *bins = g->data->bins + (size_t)feature * g->data->rows;
    uint64_t used[(FOREST_BINS + 63) / 64] = { 0 };
    uint32_t count = part->count, left = 0, least = g->params->leaf_min ? g->params->leaf_min : 1;
    double sum = 0, total = part->sum;

    for (uint32_t i = part->from; i < part->to; i++) {
        uint32_t row = g->rows[i];
        uint8_t b = bins[row];

        if (!(used[b / 64] >> (b % 64) & 1)) {
            used[b / 64] |= 1ULL << (b % 64);
            g->bins[b] = (struct bin){ 0 };
        }
        g->bins[b].sum += (double)g->data->target[row] * g->weight[row];
        g->bins[b].count += g->weight[row];
    }
    for (uint32_t w = 0; w < sizeof(used) / sizeof(*used); w++)
        for (uint64_t word = used[w]; word; word &= word - 1) {
            uint32_t b = w * 64 + (uint32_t)__builtin_ctzll(word);
            double gain;

            left += g->bins[b].count;
            sum += g->bins[b].sum;
            if (left < least)
                continue;
            if (count - left < least)
                return;
            gain = sum * sum / left + (total - sum) * (total - sum) / (count - left);
            if (gain > best->gain)
                *best = (struct split){ gain, sum, (int32_t)feature, b, left };
        }
}

/* Draws the features to be tried: the first `tries` of a shuffled list. */
static bool find_split(struct grower *g, const struct part *part, struct split *ret)
{
    uint32_t list[FOREST_FEATURES_MAX], features = g->data->features, tries = g->params->features_try;
    double flat = part->sum * part->sum / part->count;

    *ret = (struct split){ .gain = flat + 1e-9 * fabs(flat) + 1e-12, .feature = -1 };
    if (tries == 0)
        tries = features > 1 ? features - 1 : 1;
    for (uint32_t i = 0; i < features; i++)
        list[i] = i;
    for (uint32_t i = 0; i < features && i < tries; i++) {
        uint32_t k = i + (uint32_t)rng_below(&g->rng, features - i), picked = list[k];

        list[k] = list[i];
        list[i] = picked;
        if (g->data->bin_count[picked] > 1)
            split_feature(g, part, picked, ret);
    }
    return ret->feature >= 0;
}

static void make_leaf(struct grower *g, const struct part *part)
{
    struct forest_tree *tree = g->tree;
    uint32_t count = part->to - part->from, leaf = tree->leaf_count++;

    for (uint32_t i = 0; i < count; i++)
        g->scratch[i] = g->data->target[g->rows[part->from + i]];
    sort_floats(g->scratch, count);
    for (uint32_t k = 0; k < FOREST_LEAF_VALUES; k++)
        tree->values[(size_t)leaf * FOREST_LEAF_VALUES + k] =
            g->scratch[(2 * k + 1) * (uint64_t)count / (2 * FOREST_LEAF_VALUES)];
    tree->nodes[part->node] = (struct forest_node){ (float)(part->sum / part->count), leaf, -1 };
}

/* Parts the rows by the split and puts both parts on the stack, the left one on top. */
static void make_split(struct grower *g, const struct part *part, const struct split *split)
{
    const uint8_t *bins = g->data->bins + (size_t)split->feature * g->data->rows;
    uint32_t from = part->from, right = 0, child = g->tree->node_count;

    for (uint32_t i = part->from; i < part->to; i++)
        if (bins[g->rows[i]] <= split->bin)
            g->rows[from++] = g->rows[i];
        else
            g->spare[right++] = g->rows[i];
    memcpy(g->rows + from, g->spare, right * sizeof(*g->spare));
    g->tree->nodes[part->node] =
        (struct forest_node){ g->data->cuts[(size_t)split->feature * FOREST_BINS + split->bin], child, split->feature };
    g->tree->node_count += 2;
    g->stack[g->stack_count++] = (struct part){ .node = child + 1,
                                                .from = from,
                                                .to = part->to,
                                                .depth = part->depth + 1,
                                                .count = part->count - split->left,
                                                .sum = part->sum - split->sum };
    g->stack[g->stack_count++] = (struct part){
        .node = child, .from = part->from, .to = from, .depth = part->depth + 1, .count = split->left, .sum = split->sum
    };
}

/* As many rows as there are, with replacement; how many different ones. */
static uint32_t draw_rows(struct grower *g)
{
    uint32_t rows = g->data->rows, count = 0;

    memset(g->weight, 0, rows * sizeof(*g->weight));
    for (uint32_t i = 0; i < rows; i++)
        g->weight[rng_below(&g->rng, rows)]++;
    for (uint32_t i = 0; i < rows; i++)
        if (g->weight[i])
            g->rows[count++] = i;
    return count;
}

void forest_tree_grow(const struct forest_data *data, const struct forest_params *params, uint32_t number, void *work,
                      struct forest_tree *tree)
{
    struct grower *g = work;
    uint32_t split_min = params->split_min > 2 ? params->split_min : 2;

    assert(params->depth_max <= FOREST_DEPTH_MAX);
    assert(data->rows > 0);
    g->data = data;
    g->params = params;
    g->tree = tree;
    g->bins = (struct bin *)(g + 1);
    g->rows = (uint32_t *)(g->bins + FOREST_BINS);
    g->spare = g->rows + data->rows;
    g->scratch = (float *)(g->spare + data->rows);
    g->weight = (uint16_t *)(g->scratch + data->rows);
    rng_seed(&g->rng, rng_mix(params->seed + 0x9e3779b97f4a7c15ULL * (number + 1)));
    tree->node_count = 1;
    tree->leaf_count = 0;
    g->stack[0] = (struct part){ .to = draw_rows(g), .count = data->rows };
    for (uint32_t i = 0; i < data->rows; i++)
        g->stack[0].sum += (double)data->target[i] * g->weight[i];
    g->stack_count = 1;
    while (g->stack_count) {
        struct part part = g->stack[--g->stack_count];
        struct split split;

        if (part.depth < params->depth_max && part.count >= split_min && find_split(g, &part, &split))
            make_split(g, &part, &split);
        else
            make_leaf(g, &part);
    }
}

const struct forest_node *forest_tree_leaf(const struct forest_tree *tree, const float *values)
{
    const struct forest_node *node = tree->nodes;

    while (node->feature >= 0)
        node = &tree->nodes[node->next + !(values[node->feature] < node->cut)];
    return node;
}

static double told(const struct forest *forest, double grown)
{
    double value = forest->log ? expm1(grown) : grown;

    return fmin(fmax(value, (double)forest->low), (double)forest->high);
}

double forest_mean(const struct forest *forest, const float *values)
{
    double sum = 0;

    for (uint32_t i = 0; i < forest->tree_count; i++)
        sum += (double)forest_tree_leaf(&forest->trees[i], values)->cut;
    return told(forest, sum / (forest->tree_count ? forest->tree_count : 1));
}

/* Puts the value that a sort would put at `k` there, none greater before it and none smaller behind. */
static float select_at(float *v, size_t count, size_t k)
{
    size_t low = 0, high = count - 1;

    while (low < high) {
        float pivot = v[low + (high - low) / 2];
        size_t i = low, j = high;

        while (i <= j) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i <= j) {
                float x = v[i];

                v[i++] = v[j];
                v[j] = x;
                if (j-- == 0)
                    break;
            }
        }
        if (k <= j && j < high)
            high = j;
        else if (k >= i)
            low = i;
        else
            break;
    }
    return v[k];
}

void forest_ask(const struct forest *forest, const float *values, struct forest_answer *ret_answer)
{
    float pool[FOREST_TREES_MAX * FOREST_LEAF_VALUES];
    size_t count = 0, half;
    double sum = 0;

    assert(forest->tree_count > 0 && forest->tree_count <= FOREST_TREES_MAX);
    for (uint32_t i = 0; i < forest->tree_count; i++) {
        const struct forest_node *leaf = forest_tree_leaf(&forest->trees[i], values);

        memcpy(pool + count, forest->trees[i].values + (size_t)leaf->next * FOREST_LEAF_VALUES,
               FOREST_LEAF_VALUES * sizeof(*pool));
        count += FOREST_LEAF_VALUES;
        sum += (double)leaf->cut;
    }
    ret_answer->mean = told(forest, sum / forest->tree_count);
    /* The middle first: the others are each on their side of it. */
    half = count / 2;
    ret_answer->median = told(forest, (double)select_at(pool, count, half));
    ret_answer->low = told(forest, (double)select_at(pool, half + 1, count / 10));
    ret_answer->high = told(forest, (double)select_at(pool + half, count - half, count - 1 - count / 10 - half));
}

static float word_value(const struct forest *forest, uint32_t feature, uint64_t hash)
{
    uint32_t low = 0, high = forest->word_count[feature];

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (forest->words[feature][middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < forest->word_count[feature] && forest->words[feature][low].hash == hash)
        return forest->words[feature][low].value;
    return forest->mean;
}

void forest_encode(const struct estimator *estimator, const struct forest *forest, const struct feature *from,
                   float *ret_values)
{
    for (uint32_t i = 0; i < estimator->feature_count; i++)
        ret_values[i] = estimator->text[i] ? word_value(forest, i, from[i].hash) : (float)from[i].number;
}
