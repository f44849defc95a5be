/* SPDX-License-Identifier: Apache-2.0 */
/* What jobs say of their progress, as the log has it: epochs and speeds agree with one another whatever is told, and a
 * row costs little. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "ctl/state/entry/entry.h"
#include "ctl/state/measures.h"
#include "wire/agent/progress.h"

static void row_draw(struct rng *rng, int64_t *row)
{
    row[COLUMN_STEP] = rng_below(rng, 5) ? (int64_t)rng_below(rng, PROGRESS_COUNT_MAX) : -1;
    row[COLUMN_RATE] = (int64_t)rng_below(rng, 1000000000);
    row[COLUMN_EPOCH] = rng_below(rng, 2) ? (int64_t)rng_below(rng, 1000 * PROGRESS_EPOCH_MAX) : -1;
    row[COLUMN_TOTAL] = rng_below(rng, 2) ? 1 + (int64_t)rng_below(rng, PROGRESS_COUNT_MAX) : -1;
}

/* Whatever is told, nothing is below zero and nothing overflows. */
static void test_bounds(void **state)
{
    struct rng rng;

    (void)state;
    rng_seed(&rng, 11);
    for (int i = 0; i < 100000; i++) {
        int64_t row[MEASURES_ROW] = { 0 };

        row_draw(&rng, row);
        assert_true(measures_epoch(row) >= 0 && measures_speed(row) >= 0 && measures_all(row) >= 0);
        assert_true(measures_epoch(row) <= INT64_MAX / 64 && measures_speed(row) <= INT64_MAX / 64);
    }
}

/* Ten seconds later the job has done ten seconds' worth of epochs by its speed, in whichever unit it counts. */
static void test_agrees(void **state)
{
    static const int64_t totals[] = { -1, 50000 }, epochs[] = { -1, 0 };

    (void)state;
    for (int t = 0; t < 2; t++)
        for (int e = 0; e < 2; e++) {
            int64_t row[MEASURES_ROW] = { 0 }, before, speed, after;

            row[COLUMN_STEP] = 20000;
            row[COLUMN_RATE] = 100 * 1000000;
            row[COLUMN_TOTAL] = totals[t];
            row[COLUMN_EPOCH] = epochs[e] < 0 ? -1 : 20000 * 1000 / 500; /* 500 steps an epoch */
            before = measures_epoch(row);
            speed = measures_speed(row);
            row[COLUMN_STEP] += 1000;
            row[COLUMN_EPOCH] = epochs[e] < 0 ? -1 : 21000 * 1000 / 500;
            after = measures_epoch(row);
            assert_int_equal(after - before, speed * 10 / 1000000);
            if (totals[t] > 0) { /* and what is left is what it takes at that speed: 290 s */
                int64_t left = measures_all(row) - after;

                assert_in_range(left * 1000000 / speed, 289, 291);
            }
        }
}

/* A job that is told of once a minute costs the log less than a hundred bytes, its batch included; the same bytes are
 * read again. */
static void test_small(void **state)
{
    CLEANUP_BUF struct buf out = BUF_INIT(4096);
    struct entry entry = { .kind = ENTRY_MEASURES }, *again = NULL;
    struct number_list *rows = &entry.measures.rows;
    const int64_t row[MEASURES_ROW] = { 123456, 3, 1234567, 21500000, 731000000, 12345, 9000000, 97, 40960 };
    struct error err = { 0 };
    usec_t at;
    size_t count;

    (void)state;
    rows->items = mem_zalloc(MEASURES_ROW, sizeof(*rows->items));
    memcpy(rows->items, row, sizeof(row));
    rows->count = MEASURES_ROW;
    assert_int_equal(entry_check(&entry, &err), 0);
    batch_encode_begin(&out, 1767225600 * USEC_SEC, 1);
    batch_encode_entry(&out, &entry);
    print_message("a row in a batch of its own: %zu bytes\n", out.size);
    assert_true(out.size < 80);
    assert_int_equal(batch_decode(out.data, out.size, &at, &again, &count, &err), 0);
    assert_int_equal(count, 1);
    assert_int_equal(again[0].measures.rows.count, MEASURES_ROW);
    assert_memory_equal(again[0].measures.rows.items, row, sizeof(row));
    entries_free(again, count);
    entry_done(&entry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_agrees),
        cmocka_unit_test(test_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
