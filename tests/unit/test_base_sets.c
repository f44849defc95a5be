/* SPDX-License-Identifier: Apache-2.0 */
/* Trees, heaps and bit sets against the plainest model of each, over random operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/heap.h"
#include "base/rng.h"
#include "base/tree.h"

enum { ELEMENTS = 200, STEPS = 4000 };

/* ---- trees: an array of who is in, and a look at everybody for every question ---- */

struct model {
    struct tree_node nodes[ELEMENTS];
    bool in[ELEMENTS];
    uint32_t root;
};

static void tree_draw(struct rng *rng, struct tree_node *node, uint32_t id)
{
    *node = (struct tree_node){ .rank = { (__int128)rng_below(rng, 20) - 10, (int64_t)rng_below(rng, 5), (int64_t)id },
                                .weight = (int64_t)rng_below(rng, 100),
                                .aux = (int64_t)rng_below(rng, 50) };
}

/* The nearest member after (before) a rank, by looking at all. */
static uint32_t near(const struct model *m, const struct rank *rank, bool after)
{
    uint32_t best = TREE_NONE;

    for (uint32_t i = 0; i < ELEMENTS; i++) {
        bool beyond = after ? rank_before(rank, &m->nodes[i].rank) : rank_before(&m->nodes[i].rank, rank);

        if (m->in[i] && beyond && (best == TREE_NONE || rank_before(&m->nodes[i].rank, &m->nodes[best].rank) == after))
            best = i;
    }
    return best;
}

static void tree_agrees(const struct model *m, struct rng *rng)
{
    const struct rank lowest = { .key = -1000 }, highest = { .key = 1000 };
    struct rank rank = { (__int128)rng_below(rng, 22) - 11, (int64_t)rng_below(rng, 6), (int64_t)rng_below(rng, 200) };
    int64_t sum = 0, before = 0, bound = (int64_t)rng_below(rng, 55);
    uint32_t first = TREE_NONE, first_from = TREE_NONE;

    for (uint32_t i = 0; i < ELEMENTS; i++) {
        const struct tree_node *n = &m->nodes[i];

        if (!m->in[i])
            continue;
        sum += n->weight;
        if (rank_before(&n->rank, &rank))
            before += n->weight;
        if (n->aux > bound)
            continue;
        if (first == TREE_NONE || rank_before(&n->rank, &m->nodes[first].rank))
            first = i;
        if (!rank_before(&n->rank, &rank) &&
            (first_from == TREE_NONE || rank_before(&n->rank, &m->nodes[first_from].rank)))
            first_from = i;
    }
    assert_int_equal(tree_sum(m->nodes, m->root), sum);
    assert_int_equal(tree_sum_before(m->nodes, m->root, &rank), before);
    assert_int_equal(tree_first(m->nodes, m->root), near(m, &lowest, true));
    assert_int_equal(tree_last(m->nodes, m->root), near(m, &highest, false));
    assert_int_equal(tree_after(m->nodes, m->root, &rank), near(m, &rank, true));
    assert_int_equal(tree_before(m->nodes, m->root, &rank), near(m, &rank, false));
    assert_int_equal(tree_first_aux(m->nodes, m->root, NULL, bound), first);
    assert_int_equal(tree_first_aux(m->nodes, m->root, &rank, bound), first_from);
}

static void trees(void **state)
{
    static struct model m;
    struct rng rng;

    (void)state;
    m.root = TREE_NONE;
    rng_seed(&rng, 1);
    for (int step = 0; step < STEPS; step++) {
        uint32_t i = (uint32_t)rng_below(&rng, ELEMENTS);

        if (m.in[i]) {
            tree_remove(m.nodes, &m.root, i);
        } else {
            tree_draw(&rng, &m.nodes[i], i);
            tree_insert(m.nodes, &m.root, i);
        }
        m.in[i] = !m.in[i];
        tree_agrees(&m, &rng);
    }
}

/* The same elements give the same shape, whatever the order they came in. */
static void tree_shape_is_canonical(void **state)
{
    static struct model a, b;
    struct rng rng;

    (void)state;
    a.root = b.root = TREE_NONE;
    rng_seed(&rng, 2);
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        tree_draw(&rng, &a.nodes[i], i);
        b.nodes[i] = a.nodes[i];
    }
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        tree_insert(a.nodes, &a.root, i);
        tree_insert(b.nodes, &b.root, ELEMENTS - 1 - i);
    }
    assert_int_equal(a.root, b.root);
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        assert_int_equal(a.nodes[i].left, b.nodes[i].left);
        assert_int_equal(a.nodes[i].right, b.nodes[i].right);
    }
}

/* ---- heaps ---- */

static void heaps(void **state)
{
    static usec_t at[ELEMENTS];
    struct heap heap;
    void *memory = mem_zalloc(heap_size(ELEMENTS), 1);
    struct rng rng;

    (void)state;
    assert_non_null(memory);
    heap_init(&heap, memory, ELEMENTS);
    for (int i = 0; i < ELEMENTS; i++)
        at[i] = USEC_NEVER;
    rng_seed(&rng, 3);
    for (int step = 0; step < STEPS; step++) {
        uint32_t i = (uint32_t)rng_below(&rng, ELEMENTS), first = HEAP_NONE, count = 0;

        at[i] = rng_below(&rng, 3) ? (usec_t)rng_below(&rng, 40) : USEC_NEVER;
        heap_set(&heap, i, at[i]);
        for (uint32_t k = 0; k < ELEMENTS; k++) {
            assert_int_equal(heap_at(&heap, k), at[k]);
            count += at[k] != USEC_NEVER;
            /* Equal instants by index: the first that is strictly earlier wins. */
            if (at[k] != USEC_NEVER && (first == HEAP_NONE || at[k] < at[first]))
                first = k;
        }
        assert_int_equal(heap.count, count);
        assert_int_equal(heap_first(&heap), first);
        assert_int_equal(heap_next(&heap), first == HEAP_NONE ? USEC_NEVER : at[first]);
    }
    mem_free(memory);
}

/* ---- bit sets, one word to three levels ---- */

static void bits_of(uint32_t size, uint64_t seed)
{
    struct bits bits;
    void *memory = mem_zalloc(bits_size(size), 1);
    unsigned char *in = mem_zalloc(size, 1);
    struct rng rng;

    assert_non_null(memory);
    assert_non_null(in);
    bits_init(&bits, memory, size);
    rng_seed(&rng, seed);
    for (int step = 0; step < 500; step++) {
        uint32_t i = (uint32_t)rng_below(&rng, size), from = (uint32_t)rng_below(&rng, size), next;

        if (rng_below(&rng, 3)) {
            bits_set(&bits, i);
            in[i] = 1;
        } else {
            bits_clear(&bits, i);
            in[i] = 0;
        }
        assert_int_equal(bits_has(&bits, i), in[i]);
        for (next = from; next < size && !in[next]; next++)
            ;
        assert_int_equal(bits_next(&bits, from), next < size ? next : BITS_NONE);
        for (next = 0; next < size && !in[next]; next++)
            ;
        assert_int_equal(bits_next(&bits, 0), next < size ? next : BITS_NONE);
    }
    mem_free(memory);
    mem_free(in);
}

static void bit_sets(void **state)
{
    static const uint32_t sizes[] = { 1, 2, 63, 64, 65, 127, 128, 4095, 4096, 4097, 300000 };

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        bits_of(sizes[i], i + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees),
        cmocka_unit_test(tree_shape_is_canonical),
        cmocka_unit_test(heaps),
        cmocka_unit_test(bit_sets),
    };

    return cmocka_run_group_tests_name("base_sets", tests, NULL, NULL);
}
