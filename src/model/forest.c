/* SPDX-License-Identifier: Apache-2.0 */
/* forest.c - see forest.h. */
#include "model/forest.h"

#include "base/alloc.h"

void forest_tree_done(struct forest_tree *tree)
{
    mem_free(tree->nodes);
    mem_free(tree->values);
    *tree = (struct forest_tree){ 0 };
}

void forest_done(struct forest *forest)
{
    for (uint32_t i = 0; i < forest->tree_count; i++)
        forest_tree_done(&forest->trees[i]);
    mem_free(forest->trees);
    for (int i = 0; i < FOREST_FEATURES_MAX; i++)
        mem_free(forest->words[i]);
    *forest = (struct forest){ 0 };
}

void estimator_done(struct estimator *estimator)
{
    for (uint32_t i = 0; i < estimator->target_count; i++)
        forest_done(&estimator->forests[i]);
    mem_free(estimator->forests);
    *estimator = (struct estimator){ 0 };
}
