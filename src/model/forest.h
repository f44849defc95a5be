/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* forest.h - regression forests and the estimator made of them, as plain data.
 *
 * An estimator turns what is known of a job before it runs (features: numbers and texts) into what it will need
 * (targets: one forest each). solve/ grows and asks trees, wire/ writes and reads the file, learn/ puts both together.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FOREST_FEATURES_MAX = 64,
    FOREST_TARGETS_MAX = 16,
    FOREST_TREES_MAX = 1000,
    FOREST_DEPTH_MAX = 24,
    FOREST_LEAF_VALUES = 8, /* order statistics kept of the rows in a leaf, ascending */
    FOREST_NAME_MAX = 64,
    FOREST_WORDS_MAX = 1 << 20, /* different texts of one feature */
};
#define FOREST_ROWS_MAX ((size_t)1 << 24)
#define FOREST_NODES_MAX ((uint32_t)1 << 25)

/* Goes left when value < cut; the right child follows the left one. feature < 0: a leaf, `next` counts leaves and `cut`
 * is the mean of its rows. */
struct forest_node {
    float cut;
    uint32_t next;
    int32_t feature;
};

struct forest_tree {
    struct forest_node *nodes; /* owned */
    float *values;             /* owned; FOREST_LEAF_VALUES a leaf */
    uint32_t node_count, leaf_count;
};

/* What a text stands for: the mean of the target over the rows that had it, drawn towards the mean of all. */
struct forest_word {
    uint64_t hash; /* FNV-1a of the text */
    float value;
};

struct forest {
    char name[FOREST_NAME_MAX];                     /* of the target */
    bool log;                                       /* grown on log(1 + value) */
    float mean;                                     /* of the target, as grown; what an unknown text stands for */
    float low, high;                                /* of the target, as told: answers stay between */
    struct forest_tree *trees;                      /* owned */
    uint32_t tree_count;                            /* 0: nothing to say */
    struct forest_word *words[FOREST_FEATURES_MAX]; /* owned; by hash, ascending; NULL for numbers */
    uint32_t word_count[FOREST_FEATURES_MAX];
};

struct estimator {
    uint32_t feature_count, target_count;
    char features[FOREST_FEATURES_MAX][FOREST_NAME_MAX];
    bool text[FOREST_FEATURES_MAX]; /* a text, not a number */
    uint64_t rows;                  /* it was trained on */
    uint64_t seed;
    struct forest *forests; /* owned */
};

/* One value of a feature as it comes: a number, or the hash of a text. */
struct feature {
    double number;
    uint64_t hash;
};

/* FNV-1a, 64 bits. */
static inline uint64_t feature_hash(const char *text, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325ULL;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3ULL;
    return hash;
}

void forest_tree_done(struct forest_tree *tree);
void forest_done(struct forest *forest);
void estimator_done(struct estimator *estimator);
