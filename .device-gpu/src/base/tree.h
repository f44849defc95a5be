/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* tree.h - ordered sets of small integers, with sums and minima.
 *
 * A forest of balanced search trees whose nodes live in one caller-owned array: element i is nodes[i], a tree is the
 * index of its root, and an element is in at most one tree at a time. Balance comes from priorities that are a hash
 * of the index, so the same elements give the same shape whatever the order of operations.
 *
 * Every node knows the sum of `weight` and the minimum of `aux` in its subtree: "how much comes before this rank" and
 * "the first whose aux is at most x" are one descent.
 */
#include <stdbool.h>
#include <stdint.h>

#define TREE_NONE UINT32_MAX

/* Ordered by key, then time, then id: the last two make every order total. */
struct rank {
    __int128 key;
    int64_t time;
    int64_t id;
};

struct tree_node {
    struct rank rank;
    int64_t weight, sum;
    int64_t aux, min;
    uint32_t left, right;
    uint32_t prio;
};

static inline bool rank_before(const struct rank *a, const struct rank *b)
{
    if (a->key != b->key)
        return a->key < b->key;
    if (a->time != b->time)
        return a->time < b->time;
    return a->id < b->id;
}

/* Sets the fields of nodes[i] from the arguments and puts it into the tree. It must be in none. */
void tree_insert(struct tree_node *nodes, uint32_t *root, uint32_t i);

/* Takes nodes[i] out of the tree it is in. Its rank must be what it was when it went in. */
void tree_remove(struct tree_node *nodes, uint32_t *root, uint32_t i);

/* First and last element, TREE_NONE if empty. */
uint32_t tree_first(const struct tree_node *nodes, uint32_t root);
uint32_t tree_last(const struct tree_node *nodes, uint32_t root);

/* The element after (before) the given rank, which need not be in the tree. */
uint32_t tree_after(const struct tree_node *nodes, uint32_t root, const struct rank *rank);
uint32_t tree_before(const struct tree_node *nodes, uint32_t root, const struct rank *rank);

/* Sum of the weights of all elements that come before `rank`. */
int64_t tree_sum_before(const struct tree_node *nodes, uint32_t root, const struct rank *rank);

/* The first element at or after `from` (NULL: from the start) with aux <= bound. */
uint32_t tree_first_aux(const struct tree_node *nodes, uint32_t root, const struct rank *from, int64_t bound);

static inline int64_t tree_sum(const struct tree_node *nodes, uint32_t root)
{
    return root == TREE_NONE ? 0 : nodes[root].sum;
}
