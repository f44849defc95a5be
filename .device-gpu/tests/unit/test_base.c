/* SPDX-License-Identifier: Apache-2.0 */
/* The small things everything stands on: errors in words, memory that can fail, units that saturate, seeds. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/rng.h"
#include "base/rng_real.h"
#include "base/units.h"

static void error_is_built_from_the_inside_out(void **state)
{
    struct error err = { 0 };

    (void)state;
    assert_int_equal(error_set(&err, -EINVAL, "gpus: %d is below 1", 0), -EINVAL);
    assert_int_equal(error_prefix(&err, -ENOENT, "job '%s'", "bert"), -ENOENT);
    assert_string_equal(err.text, "job 'bert': gpus: 0 is below 1");
    assert_int_equal(err.code, -ENOENT);
    assert_int_equal(error_set(NULL, -EINVAL, "nobody listens"), -EINVAL);
    assert_int_equal(error_prefix(NULL, -EINVAL, "nobody listens"), -EINVAL);
}

static void error_too_long_says_so(void **state)
{
    struct error err = { 0 };
    char text[2 * ERROR_TEXT_MAX];

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    (void)error_set(&err, -EINVAL, "%s", text);
    assert_int_equal(strlen(err.text), ERROR_TEXT_MAX - 1);
    assert_string_equal(err.text + ERROR_TEXT_MAX - 4, "...");

    (void)error_set(&err, -EINVAL, "%.*s", ERROR_TEXT_MAX - 3, text);
    (void)error_prefix(&err, -EINVAL, "file");
    assert_memory_equal(err.text, "file: xxx", 9);
    assert_string_equal(err.text + ERROR_TEXT_MAX - 4, "...");
    (void)error_prefix(&err, -EINVAL, "%s", text);
    assert_string_equal(err.text + ERROR_TEXT_MAX - 4, "...");
}

static void memory_fails_at_the_nth_call(void **state)
{
    void *first, *second, *third;

    (void)state;
    mem_fail_at(2);
    first = mem_zalloc(1, 8);
    second = mem_zalloc(1, 8);
    third = mem_zalloc(1, 8);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    mem_free(first);
    mem_free(third);
    mem_free(NULL);
}

static void memory_sizes_do_not_wrap(void **state)
{
    char *block = mem_zalloc(4, 4);
    volatile size_t huge = SIZE_MAX / 2 + 1; /* times 2 is 0 modulo 2^64 */

    (void)state;
    assert_non_null(block);
    assert_null(mem_zalloc(huge, 2));
    assert_null(mem_resize(block, huge, 2));
    for (int i = 0; i < 16; i++)
        assert_int_equal(block[i], 0);
    mem_free(block);
}

static void growing_stops_at_its_limit(void **state)
{
    int *block = NULL;
    size_t capacity = 0;

    (void)state;
    assert_int_equal(mem_grow((void **)&block, &capacity, 1, 100, sizeof(*block)), 0);
    assert_int_equal(capacity, 16);
    assert_int_equal(mem_grow((void **)&block, &capacity, 70, 100, sizeof(*block)), 0);
    assert_int_equal(capacity, 100); /* 128 would pass the limit */
    block[99] = 7;
    assert_int_equal(mem_grow((void **)&block, &capacity, 101, 100, sizeof(*block)), -E2BIG);
    mem_fail_at(1);
    assert_int_equal(mem_grow((void **)&block, &capacity, 150, 200, sizeof(*block)), -ENOMEM);
    mem_fail_at(0);
    assert_int_equal(capacity, 100);
    assert_int_equal(block[99], 7);
    mem_free(block);
}

static int closed;

static void thing_close(int *thing)
{
    if (thing)
        closed++;
}

DEFINE_CLEANUP(int *, thing_close)

static int *give_or_drop(int *thing, bool give)
{
    CLEANUP(thing_close) int *mine = thing;

    return give ? take(mine) : NULL;
}

static void a_taken_pointer_is_not_closed(void **state)
{
    int thing;

    (void)state;
    closed = 0;
    assert_null(give_or_drop(&thing, false));
    assert_int_equal(closed, 1);
    assert_ptr_equal(give_or_drop(&thing, true), &thing);
    assert_int_equal(closed, 1);
}

static void products_saturate_and_round_as_named(void **state)
{
    (void)state;
    assert_int_equal(muldiv_floor(7, 3, 2), 10);
    assert_int_equal(muldiv_ceil(7, 3, 2), 11);
    assert_int_equal(muldiv_floor(8, 3, 2), 12);
    assert_int_equal(muldiv_ceil(8, 3, 2), 12);
    assert_int_equal(muldiv_ceil(0, 5, 3), 0);
    assert_int_equal(muldiv_floor(INT64_MAX, INT64_MAX, INT64_MAX), INT64_MAX);
    assert_int_equal(muldiv_floor(INT64_MAX, 2, 1), INT64_MAX);
    assert_int_equal(muldiv_ceil(INT64_MAX, INT64_MAX, 1), INT64_MAX);
    assert_int_equal(svc_of(8 * MGPU_ONE, USEC_HOUR), 8 * USEC_HOUR);
    assert_int_equal(svc_of(250, USEC_SEC), 250000);
    /* Ten thousand GPUs for ten years fit. */
    assert_true(svc_of(10000 * (int64_t)MGPU_ONE, 3650 * USEC_DAY) < INT64_MAX);
}

static void seeds_repeat_and_differ(void **state)
{
    struct rng a, b, c;
    int same = 0;

    (void)state;
    rng_seed(&a, 1);
    rng_seed(&b, 1);
    rng_seed(&c, 2);
    for (int i = 0; i < 1000; i++) {
        uint64_t x = rng_next(&a);

        assert_true(x == rng_next(&b));
        same += x == rng_next(&c);
    }
    assert_int_equal(same, 0);
    /* The first outputs of splitmix64 from seed 0, as published with the generator. */
    rng_seed(&a, 0);
    assert_true(rng_next(&a) == 0xe220a8397b1dcdafULL);
    assert_true(rng_next(&a) == 0x6e789e6aa1b965f4ULL);
}

static void draws_stay_in_range_and_fill_it(void **state)
{
    struct rng rng;
    int seen[7] = { 0 };
    double sum = 0;

    (void)state;
    rng_seed(&rng, 42);
    for (int i = 0; i < 70000; i++) {
        uint64_t x = rng_below(&rng, 7);
        double unit = rng_unit(&rng);

        assert_true(x < 7);
        seen[x]++;
        assert_true(unit >= 0 && unit < 1);
        sum += unit;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(seen[i], 9500, 10500); /* 10000 give or take five standard deviations */
    assert_true(sum > 0.49 * 70000 && sum < 0.51 * 70000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_is_built_from_the_inside_out),   cmocka_unit_test(error_too_long_says_so),
        cmocka_unit_test(memory_fails_at_the_nth_call),         cmocka_unit_test(memory_sizes_do_not_wrap),
        cmocka_unit_test(growing_stops_at_its_limit),           cmocka_unit_test(a_taken_pointer_is_not_closed),
        cmocka_unit_test(products_saturate_and_round_as_named), cmocka_unit_test(seeds_repeat_and_differ),
        cmocka_unit_test(draws_stay_in_range_and_fill_it),
    };

    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
