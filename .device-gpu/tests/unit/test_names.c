/* SPDX-License-Identifier: Apache-2.0 */
/* Strings kept once: numbers in order of first appearance, limits refused, failed allocations survived. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/names.h"

static void numbers_follow_first_appearance(void **state)
{
    struct names names = { 0 };
    uint32_t index = 77;

    (void)state;
    assert_int_equal(names_put(&names, "nlp", 3, &index), 0);
    assert_int_equal(index, 0);
    assert_int_equal(names_put(&names, "vision", 6, &index), 0);
    assert_int_equal(index, 1);
    assert_int_equal(names_put(&names, "nlp", 3, &index), 0);
    assert_int_equal(index, 0);
    assert_int_equal(names.count, 2);
    assert_string_equal(names_get(&names, 1), "vision");
    assert_string_equal(names_get(&names, NAME_NONE), "");
    assert_int_equal(names_find(&names, "vision", 6), 1);
    assert_int_equal(names_find(&names, "visio", 5), NAME_NONE);
    names_done(&names);
}

static void many_names_stay_apart(void **state)
{
    struct names names = { 0 };
    char text[32];
    uint32_t index;

    (void)state;
    for (unsigned i = 0; i < 5000; i++) {
        int length = snprintf(text, sizeof(text), "user%u", i);

        assert_int_equal(names_put(&names, text, (size_t)length, &index), 0);
        assert_int_equal(index, i);
    }
    for (unsigned i = 0; i < 5000; i++) {
        int length = snprintf(text, sizeof(text), "user%u", i);

        assert_int_equal(names_find(&names, text, (size_t)length), i);
    }
    names_done(&names);
}

static void too_long_is_refused(void **state)
{
    struct names names = { 0 };
    char text[NAME_LENGTH_MAX + 1];
    uint32_t index = 77;

    (void)state;
    memset(text, 'a', sizeof(text));
    assert_int_equal(names_put(&names, text, NAME_LENGTH_MAX, &index), 0);
    index = 77;
    assert_int_equal(names_put(&names, text, NAME_LENGTH_MAX + 1, &index), -ENAMETOOLONG);
    assert_int_equal(index, 77);
    names_done(&names);
}

/* Once per allocation, with that one failing: refused, nothing lost of what was there. */
static void failed_allocation_leaves_the_table_whole(void **state)
{
    (void)state;
    for (size_t nth = 1; nth < 200; nth++) {
        struct names names = { 0 };
        char text[32];
        uint32_t index;
        unsigned i;
        int r = 0;

        mem_fail_at(nth);
        for (i = 0; i < 64 && r == 0; i++) {
            int length = snprintf(text, sizeof(text), "n%u", i);

            r = names_put(&names, text, (size_t)length, &index);
        }
        mem_fail_at(0);
        if (r == 0) {
            names_done(&names);
            assert_true(nth > 64); /* it did fail, many times, before */
            return;
        }
        assert_int_equal(r, -ENOMEM);
        assert_int_equal(names.count, i - 1);
        for (unsigned k = 0; k < i - 1; k++) {
            int length = snprintf(text, sizeof(text), "n%u", k);

            assert_int_equal(names_find(&names, text, (size_t)length), k);
        }
        names_done(&names);
    }
    fail_msg("the last allocation was never reached");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_follow_first_appearance),
        cmocka_unit_test(many_names_stay_apart),
        cmocka_unit_test(too_long_is_refused),
        cmocka_unit_test(failed_allocation_leaves_the_table_whole),
    };

    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
