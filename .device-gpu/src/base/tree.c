/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - see tree.h. A treap: a search tree by rank that is a heap by priority. Depth is O(log n) expected and the
 * priorities are fixed by the index, so recursion is bounded in practice by a few dozen frames.
 */
#include "base/tree.h"

#include <assert.h>
#include <stddef.h>

static uint32_t prio_of(uint32_t i)
{
    uint32_t x = i * 0x9e3779b1u + 0x7f4a7c15u;

    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    return x ^ (x >> 16);
}

static void update(struct tree_node *nodes, uint32_t i)
{
    struct tree_node *n = &nodes[i];

    n->sum = n->weight;
    n->min = n->aux;
    if (n->left != TREE_NONE) {
        n->sum += nodes[n->left].sum;
        if (nodes[n->left].min < n->min)
            n->min = nodes[n->left].min;
    }
    if (n->right != TREE_NONE) {
        n->sum += nodes[n->right].sum;
        if (nodes[n->right].min < n->min)
            n->min = nodes[n->right].min;
    }
}

/* Splits `root` into what comes before `rank` and the rest. */
static void split(struct tree_node *nodes, uint32_t root, const struct rank *rank, uint32_t *before, uint32_t *rest)
{
    if (root == TREE_NONE) {
        *before = *rest = TREE_NONE;
        return;
    }
    if (rank_before(&nodes[root].rank, rank)) {
        split(nodes, nodes[root].right, rank, &nodes[root].right, rest);
        *before = root;
    } else {
        split(nodes, nodes[root].left, rank, before, &nodes[root].left);
        *rest = root;
    }
    update(nodes, root);
}

static uint32_t merge(struct tree_node *nodes, uint32_t a, uint32_t b)
{
    if (a == TREE_NONE)
        return b;
    if (b == TREE_NONE)
        return a;
    if (nodes[a].prio >= nodes[b].prio) {
        nodes[a].right = merge(nodes, nodes[a].right, b);
        update(nodes, a);
        return a;
    }
    nodes[b].left = merge(nodes, a, nodes[b].left);
    update(nodes, b);
    return b;
}

void tree_insert(struct tree_node *nodes, uint32_t *root, uint32_t i)
{
    struct tree_node *n = &nodes[i];
    uint32_t *at = root;

    n->prio = prio_of(i);
    while (*at != TREE_NONE && nodes[*at].prio >= n->prio) {
        struct tree_node *up = &nodes[*at];

        up->sum += n->weight;
        if (n->aux < up->min)
            up->min = n->aux;
        at = rank_before(&n->rank, &up->rank) ? &up->left : &up->right;
    }
    split(nodes, *at, &n->rank, &n->left, &n->right);
    update(nodes, i);
    *at = i;
}

/* Removes below `at`; minima have to be recomputed on the way back, hence the recursion. */
static void remove_below(struct tree_node *nodes, uint32_t *at, uint32_t i)
{
    uint32_t here = *at;

    assert(here != TREE_NONE);
    if (here == i) {
        *at = merge(nodes, nodes[i].left, nodes[i].right);
        nodes[i].left = nodes[i].right = TREE_NONE;
        return;
    }
    remove_below(nodes, rank_before(&nodes[i].rank, &nodes[here].rank) ? &nodes[here].left : &nodes[here].right, i);
    update(nodes, here);
}

void tree_remove(struct tree_node *nodes, uint32_t *root, uint32_t i)
{
    remove_below(nodes, root, i);
}

uint32_t tree_first(const struct tree_node *nodes, uint32_t root)
{
    while (root != TREE_NONE && nodes[root].left != TREE_NONE)
        root = nodes[root].left;
    return root;
}

uint32_t tree_last(const struct tree_node *nodes, uint32_t root)
{
    while (root != TREE_NONE && nodes[root].right != TREE_NONE)
        root = nodes[root].right;
    return root;
}

uint32_t tree_after(const struct tree_node *nodes, uint32_t root, const struct rank *rank)
{
    uint32_t best = TREE_NONE;

    while (root != TREE_NONE) {
        if (rank_before(rank, &nodes[root].rank)) {
            best = root;
            root = nodes[root].left;
        } else {
            root = nodes[root].right;
        }
    }
    return best;
}

uint32_t tree_before(const struct tree_node *nodes, uint32_t root, const struct rank *rank)
{
    uint32_t best = TREE_NONE;

    while (root != TREE_NONE) {
        if (rank_before(&nodes[root].rank, rank)) {
            best = root;
            root = nodes[root].right;
        } else {
            root = nodes[root].left;
        }
    }
    return best;
}

int64_t tree_sum_before(const struct tree_node *nodes, uint32_t root, const struct rank *rank)
{
    int64_t sum = 0;

    while (root != TREE_NONE) {
        const struct tree_node *n = &nodes[root];

        if (rank_before(&n->rank, rank)) {
            sum += n->weight + tree_sum(nodes, n->left);
            root = n->right;
        } else {
            root = n->left;
        }
    }
    return sum;
}

uint32_t tree_first_aux(const struct tree_node *nodes, uint32_t root, const struct rank *from, int64_t bound)
{
    uint32_t found;

    if (root == TREE_NONE || nodes[root].min > bound)
        return TREE_NONE;
    if (from && rank_before(&nodes[root].rank, from))
        return tree_first_aux(nodes, nodes[root].right, from, bound);
    found = tree_first_aux(nodes, nodes[root].left, from, bound);
    if (found != TREE_NONE)
        return found;
    if (nodes[root].aux <= bound)
        return root;
    /* Everything to the right comes after `from` as well. */
    return tree_first_aux(nodes, nodes[root].right, NULL, bound);
}
