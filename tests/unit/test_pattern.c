/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of a job file: they find what the C library's regular expressions find, and cost no more than they should;
 * words of progress; the pace of a counter. */
#include <errno.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "coord/pace.h"
#include "wire/agent/progress.h"
#include "wire/text/pattern.h"

static void find(const char *text, const char *line, const char *expected)
{
    struct error err = { 0 };
    struct pattern pattern;
    size_t at = 0, size = 0;
    char got[64] = "";

    if (pattern_compile(text, &pattern, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    if (!pattern_find(&pattern, line, strlen(line), &at, &size)) {
        if (expected)
            fail_msg("%s does not find %s in %s", text, expected, line);
        return;
    }
    (void)snprintf(got, sizeof(got), "%.*s", (int)size, line + at);
    if (!expected || strcmp(got, expected) != 0)
        fail_msg("%s finds '%s' in %s", text, got, line);
}

static void test_finds(void **state)
{
    (void)state;
    find("step (\\d+)", "epoch 1 step 120/900 loss 0.731", "120");
    find("loss[ =:]*([-+0-9.eE]+)", "loss: 7.3e-1,", "7.3e-1");
    find("\\bstep", "a step", NULL); /* \b is the letter here */
    find("(?:loss|nll) ([\\d.]+)", "nll 2.5 loss 3", "2.5");
    find("^(\\d+)$", "42", "42");
    find("^(\\d+)$", "42 ", NULL);
    find("(\\d+)/\\d+ \\[", "  3%|x| 27/900 [00:01<00:40, 21.2it/s]", "27");
    find("[^ ]+", "  ab cd", "ab");
    find("a*", "baa", "");
    find("(a|ab)(c|bcd)?", "abcd", "a");
    find("\\[(\\w+)\\]", "x [y_1]", "y_1");
    find("\\S+=(\\S+)", " k=v ", "v");
}

static void test_refused(void **state)
{
    static const char *const bad[] = { "",     "(",     ")",     "a)",       "[a",  "*", "a**",
                                       "a{2}", "(?=a)", "[z-a]", "(?P<x>a)", "a|(", "+" };
    struct pattern pattern;
    struct error err;
    char deep[128], long_text[PATTERN_TEXT_MAX + 2];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err = (struct error){ 0 };
        if (pattern_compile(bad[i], &pattern, &err) != -EINVAL || !err.text[0])
            fail_msg("'%s' is taken", bad[i]);
    }
    memset(deep, '(', sizeof(deep) - 1);
    deep[sizeof(deep) - 1] = '\0';
    assert_int_equal(pattern_compile(deep, &pattern, NULL), -EINVAL);
    memset(long_text, 'a', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    assert_int_equal(pattern_compile(long_text, &pattern, NULL), -EINVAL);
}

/* A pattern of both dialects. */
static void grow(struct rng *rng, char *out, size_t room, int depth)
{
    static const char *const atoms[] = { "a", "b", "c", ".", "[ab]", "[^a]", "[a-c]" };
    size_t parts = 1 + rng_below(rng, 3);

    for (size_t i = 0; i < parts; i++) {
        char inner[64] = "";
        static const char *const marks[] = { "", "", "*", "+", "?" };

        if (depth > 0 && rng_below(rng, 3) == 0) {
            char left[24] = "", right[24] = "";

            grow(rng, left, sizeof(left), depth - 1);
            grow(rng, right, sizeof(right), depth - 1);
            (void)snprintf(inner, sizeof(inner), rng_below(rng, 2) ? "(%s|%s)" : "(%s%s)", left, right);
        } else {
            (void)snprintf(inner, sizeof(inner), "%s", atoms[rng_below(rng, 7)]);
        }
        if (strlen(out) + strlen(inner) + 2 < room)
            (void)snprintf(out + strlen(out), room - strlen(out), "%s%s", inner, marks[rng_below(rng, 5)]);
    }
}

static void test_as_others(void **state)
{
    struct rng rng;

    (void)state;
    rng_seed(&rng, 3);
    for (int i = 0; i < 3000; i++) {
        char text[100] = "", line[16];
        struct pattern pattern;
        regmatch_t match[1];
        size_t at, size, length = rng_below(&rng, 12);
        regex_t other;
        bool found;

        grow(&rng, text, sizeof(text), 2);
        for (size_t k = 0; k < length; k++)
            line[k] = (char)('a' + rng_below(&rng, 4));
        line[length] = '\0';
        if (!text[0] || regcomp(&other, text, REG_EXTENDED) != 0)
            continue;
        assert_int_equal(pattern_compile(text, &pattern, NULL), 0);
        found = pattern_find(&pattern, line, length, &at, &size);
        if (found != (regexec(&other, line, 1, match, 0) == 0))
            fail_msg("%s in %s: %d", text, line, found);
        if (found && !strchr(text, '(') && (regoff_t)at != match[0].rm_so)
            fail_msg("%s in %s begins at %zu, not %d", text, line, at, (int)match[0].rm_so);
        regfree(&other);
    }
}

/* What takes others exponential time takes this one none. */
static void test_bounded(void **state)
{
    struct pattern pattern;
    char line[512];
    size_t at, size;
    clock_t began = clock();

    (void)state;
    memset(line, 'a', sizeof(line));
    assert_int_equal(pattern_compile("((a*)*)*((a|a)*(a|aa)*)*b", &pattern, NULL), 0);
    for (int i = 0; i < 20; i++)
        assert_false(pattern_find(&pattern, line, sizeof(line), &at, &size));
    assert_true(clock() - began < 10 * CLOCKS_PER_SEC);
}

static void test_words(void **state)
{
    static const char *const nothing[] = { "step=nan",   "loss=inf", "loss=0x10", "step=-1", "step=1e30",
                                           "step=",      "=",        "step",      "",        "speed=3",
                                           "loss=1e300", "total=0",  "rank=70000" };
    struct progress_line line;

    (void)state;
    assert_true(progress_parse("step=120 loss=0.731 metric.acc=0.9 total=900", 44, &line));
    assert_int_equal(line.value[PROGRESS_STEP], 120);
    assert_int_equal(line.value[PROGRESS_LOSS], 731000000);
    assert_int_equal(line.value[PROGRESS_TOTAL], 900);
    assert_false(progress_has(&line, PROGRESS_EPOCH));
    assert_true(progress_parse("epoch=1.25 loss=-3e-2", 21, &line));
    assert_int_equal(line.value[PROGRESS_EPOCH], 1250);
    assert_int_equal(line.value[PROGRESS_LOSS], -30000000);
    for (size_t i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++)
        if (progress_parse(nothing[i], strlen(nothing[i]), &line))
            fail_msg("'%s' says something", nothing[i]);
}

/* Ten steps a second, with a validation of 20 s now and then, and a slow first look: the rate is ten. */
static void test_pace_steady(void **state)
{
    struct rng rng;
    struct pace pace = { 0 };
    usec_t now = 1000 * USEC_SEC;
    int64_t step = 0;

    (void)state;
    rng_seed(&rng, 4);
    pace_look(&pace, now, 0);
    now += 30 * USEC_SEC; /* compiles */
    pace_look(&pace, now, ++step);
    assert_int_equal(pace_rate(&pace), 0);
    for (int i = 0; i < 400; i++) {
        now += USEC_SEC / 10 + (usec_t)rng_below(&rng, 2000) - 1000;
        if (i % 90 == 89)
            now += 20 * USEC_SEC;
        pace_look(&pace, now, ++step);
        if (i > 30 && (pace_rate(&pace) < 9500000 || pace_rate(&pace) > 10500000))
            fail_msg("look %d: %lld", i, (long long)pace_rate(&pace));
    }
    /* Half as fast: seen after half the looks. */
    for (int i = 0; i < 60; i++) {
        now += USEC_SEC / 5;
        pace_look(&pace, now, ++step);
    }
    assert_in_range(pace_rate(&pace), 4800000, 5200000);
}

/* Whatever a counter says, the rate is within its bounds. */
static void test_pace_hostile(void **state)
{
    struct rng rng;
    struct pace pace = { 0 };
    usec_t now = 0;

    (void)state;
    rng_seed(&rng, 5);
    for (int i = 0; i < 20000; i++) {
        now += (usec_t)rng_below(&rng, 3) ? (usec_t)rng_below(&rng, 2 * USEC_SEC) : -(usec_t)rng_below(&rng, USEC_SEC);
        pace_look(&pace, now, rng_below(&rng, 4) ? (int64_t)(rng_next(&rng) >> 1) : (int64_t)rng_below(&rng, 100));
        assert_true(pace_rate(&pace) >= 0 && pace_rate(&pace) <= PACE_RATE_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds),        cmocka_unit_test(test_refused), cmocka_unit_test(test_as_others),
        cmocka_unit_test(test_bounded),      cmocka_unit_test(test_words),   cmocka_unit_test(test_pace_steady),
        cmocka_unit_test(test_pace_hostile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
