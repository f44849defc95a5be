/* SPDX-License-Identifier: Apache-2.0 */
/* What the node side lists: every process once, however many there are, and of each what became of its memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpurt/listing.h"
#include "unit/gpurt_process.h"

#define MIB ((uint64_t)1 << 20)

static struct node *node;
static char text[NODE_TEXT + 1];

static int setup(void **state)
{
    (void)state;
    node = node_make(256 * MIB);
    return node ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    node_drop(node);
    return 0;
}

/* The value of a key in the row of a process; UINT64_MAX: there is none. */
static uint64_t value(int pid, const char *key)
{
    char name[64];
    const char *row, *at;

    (void)snprintf(name, sizeof(name), "{\"pid\":%d,", pid);
    row = strstr(text, name);
    (void)snprintf(name, sizeof(name), "\"%s\":", key);
    at = row ? strstr(row, name) : NULL;
    return at ? strtoull(at + strlen(name), NULL, 10) : UINT64_MAX;
}

static struct client *process(int slot)
{
    struct client *c = process_make(node, slot, ROLE_OPPORTUNISTIC);

    c->page->size = sizeof(struct page);
    c->page->step.seq = 1 + (uint64_t)slot;
    c->page->memory[0].peak = 30 * MIB;
    c->page->step_peak[slot % PAGE_STEPS] = 20 * MIB;
    c->page->moves[0] = (struct page_moves){ .largest_hole = 48 * MIB,
                                             .spilled_bytes = 8 * MIB,
                                             .spill_ns = 5000,
                                             .spill_last_ns = 3000,
                                             .promoted_bytes = 4 * MIB,
                                             .promote_ns = 2500,
                                             .promote_last_ns = 1500 };
    c->page->memory[0].class_bytes[CLASS_CONTEXT] = 5 * MIB;
    c->rung_ns[STEP_EVICT] = 77;
    return c;
}

static void test_memory(void **state)
{
    struct client *c = process(3), *old = process(4);

    (void)state;
    old->page->torch.seq = 1;
    old->page->torch.allocated = 9 * MIB;
    old->page->size = offsetof(struct page, moves); /* as a library that knew nothing of it left it */
    assert_true(listing_answer(node, "json", text));
    assert_int_equal(value(1003, "peak_bytes"), 30 * MIB);
    assert_int_equal(value(1003, "step_peak_bytes"), 20 * MIB);
    assert_int_equal(value(1003, "largest_hole_bytes"), 48 * MIB);
    assert_int_equal(value(1003, "spilled_bytes"), 8 * MIB);
    assert_int_equal(value(1003, "spill_ns"), 5000);
    assert_int_equal(value(1003, "spill_last_ns"), 3000);
    assert_int_equal(value(1003, "promoted_bytes"), 4 * MIB);
    assert_int_equal(value(1003, "promote_ns"), 2500);
    assert_int_equal(value(1003, "promote_last_ns"), 1500);
    assert_int_equal(value(1003, "evict_ns"), 77);
    assert_int_equal(value(1003, "context_bytes"), 5 * MIB);
    assert_non_null(strstr(text, "\"context_known\":false"));
    assert_null(strstr(text, "\"context_known\":true"));
    assert_int_equal(value(1004, "peak_bytes"), 30 * MIB);
    assert_int_equal(value(1004, "step_peak_bytes"), 0);
    assert_int_equal(value(1004, "largest_hole_bytes"), 0);
    assert_int_equal(value(1004, "spilled_bytes"), 0);
    assert_null(strstr(text, "torch_")); /* one has none, of the other it cannot be */
    old->page->size = sizeof(struct page);
    assert_true(listing_answer(node, "json", text));
    assert_int_equal(value(1004, "torch_allocated_bytes"), 9 * MIB);
    assert_true(listing_answer(node, "top", text));
    assert_non_null(strstr(text, "TORCH-GIB"));
    old->page->size = offsetof(struct page, moves);
    /* Its limit leaves 48 MiB, the card itself 6. */
    node->gpu[0].memory.seen_mib = 250;
    c->page->limit[0].context_bytes = 5 * MIB;
    assert_true(listing_answer(node, "json", text));
    assert_int_equal(value(1003, "largest_hole_bytes"), 6 * MIB);
    assert_non_null(strstr(text, "\"context_known\":true"));
    node->gpu[0].memory.seen_mib = 300;
    assert_true(listing_answer(node, "json", text));
    assert_int_equal(value(1003, "largest_hole_bytes"), 0);
    c->arena[0] = -1;
    assert_true(listing_answer(node, "json", text));
    assert_int_equal(value(1003, "largest_hole_bytes"), 48 * MIB);
    assert_true(listing_answer(node, "top", text));
    assert_non_null(strstr(text, "HOLE-GIB"));
    assert_non_null(
        strstr(text, "\n1003          0.03       0.02      0.05      0.01     0.000      0.00     0.000\n"));
    assert_true(listing_answer(node, "ls", text));
    assert_null(strstr(text, "HOLE-GIB"));
    assert_false(listing_answer(node, "pause 1003", text));
}

static int rows(void)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, "{\"pid\":")) != NULL; at++)
        n++;
    return n;
}

/* As many as there may be, each with the longest row there is: more than one answer, none twice, none left out. */
static void test_many(void **state)
{
    uint64_t *words;
    int seen, from, answers = 1;
    const char *at;

    (void)state;
    for (int i = 0; i < NODE_CLIENTS; i++) {
        struct client *c = process(i);

        words = (uint64_t *)&c->page->memory[0];
        for (size_t k = 0; k < sizeof(c->page->memory[0]) / sizeof(*words); k++)
            words[k] = UINT64_MAX;
        memset(c->page->health.error, 'e', sizeof(c->page->health.error));
        memset(&c->page->moves[0], 0xff, sizeof(c->page->moves[0]));
        memset(&c->page->torch, 0xff, sizeof(c->page->torch));
        memset(c->job, 'j', sizeof(c->job) - 1);
        memset(c->rung_ns, 0xff, sizeof(c->rung_ns));
    }
    assert_true(listing_answer(node, "json", text));
    assert_true(strlen(text) < NODE_TEXT);
    seen = rows();
    at = strstr(text, "],\"next\":");
    assert_non_null(at);
    while (sscanf(at + (answers == 1 ? 9 : 1), "%d", &from) == 1) {
        char line[32];

        assert_int_equal(from, seen);
        (void)snprintf(line, sizeof(line), "rows %d", from);
        assert_true(listing_answer(node, line, text));
        assert_true(strlen(text) < NODE_TEXT);
        seen += rows();
        answers++;
        at = strchr(text, '\n');
        assert_non_null(at);
    }
    assert_int_equal(seen, NODE_CLIENTS);
    assert_true(answers > 2);
    assert_true(listing_answer(node, "rows -1", text));
    assert_string_equal(text, "\n");
    assert_true(listing_answer(node, "rows 99999", text));
    assert_string_equal(text, "\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
