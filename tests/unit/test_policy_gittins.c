/* SPDX-License-Identifier: Apache-2.0 */
/* test_policy_gittins.c - the Gittins index, and the policy that orders by it: what it learns, and what it cannot know.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "long_test.h"
#include "policy_play.h"
#include "solve/gittins.h"

/* ---- the index ---- */

/* As the definition has it, sample by sample. */
static struct gittins by_definition(const int64_t *samples, size_t count, int64_t attained, int64_t delta)
{
    struct gittins g = { 0 };

    for (size_t i = 0; i < count; i++) {
        if (samples[i] <= attained)
            continue;
        g.ends += samples[i] - attained <= delta;
        g.spent += samples[i] - attained <= delta ? samples[i] - attained : delta;
    }
    return g;
}

static void check(const int64_t *from, size_t count, int64_t attained, int64_t delta, int64_t ends, int64_t spent)
{
    int64_t samples[16];
    __int128 sums[17];
    struct gittins g;

    memcpy(samples, from, count * sizeof(*from));
    gittins_prepare(samples, sums, count);
    g = gittins_index(samples, sums, count, attained, delta);
    assert_int_equal(g.ends, ends);
    assert_int_equal((int64_t)g.spent, spent);
}

/* Example T4: 3/1400, 1/1100 (the public simulator has 1/1200), 0. */
static void example_t4(void **unused)
{
    static const int64_t samples[] = { 4000, 100, 1000, 200, 100 };

    (void)unused;
    check(samples, 5, 0, 500, 3, 1400);
    check(samples, 5, 100, 500, 1, 1100);
    check(samples, 5, 200, 500, 0, 1000);
    check(samples, 5, 4000, 500, 0, 0); /* nobody ever needed more */
    check(samples, 5, 9000, 500, 0, 0);
    check(samples, 0, 0, 500, 0, 0);
}

/* Example T1: over {4, 8, 12} G(0) = 1/8, G(2) = G(4) = 1/6, G(6) = G(8) = 1/4, G(10) = 1/2. */
static void example_t1(void **unused)
{
    static const int64_t samples[] = { 4, 8, 12 };

    (void)unused;
    check(samples, 3, 0, 12, 3, 24);
    check(samples, 3, 2, 12, 3, 18);
    check(samples, 3, 4, 12, 2, 12);
    check(samples, 3, 6, 12, 2, 8);
    check(samples, 3, 8, 12, 1, 4);
    check(samples, 3, 10, 12, 1, 2);
    assert_int_equal(gittins_cost((struct gittins){ 3, 24 }, 100), 8);
    assert_int_equal(gittins_cost((struct gittins){ 3, 24 }, 7), 7);
    assert_int_equal(gittins_cost((struct gittins){ 0, 24 }, 100), 100);
}

static void random_samples(void **unused)
{
    int64_t samples[300];
    __int128 sums[301];
    struct rng rng;

    (void)unused;
    rng_seed(&rng, 5);
    for (int round = 0; round < 200; round++) {
        size_t count = (size_t)rng_below(&rng, 300);

        for (size_t i = 0; i < count; i++)
            samples[i] = 1 + (int64_t)rng_below(&rng, round % 2 ? 20 : (uint64_t)1 << 50);
        gittins_prepare(samples, sums, count);
        for (size_t i = 1; i < count; i++)
            assert_true(samples[i - 1] <= samples[i]);
        for (int k = 0; k < 20; k++) {
            int64_t attained = (int64_t)rng_below(&rng, round % 2 ? 25 : (uint64_t)1 << 50);
            int64_t delta = k == 0 ? INT64_MAX : 1 + (int64_t)rng_below(&rng, round % 2 ? 25 : (uint64_t)1 << 50);
            struct gittins a = gittins_index(samples, sums, count, attained, delta);
            struct gittins b = by_definition(samples, count, attained, delta);

            assert_int_equal(a.ends, b.ends);
            assert_true(a.spent == b.spent);
        }
    }
}

/* ---- the policy ---- */

/* Example T1 with its distribution as the history: ends at 2, 10 and 16 s, 9.33 s on average (the paper: 10.0). */
static void three_jobs(void **unused)
{
    static const svc_t history[] = { 4 * USEC_SEC, 8 * USEC_SEC, 12 * USEC_SEC };
    struct trace trace = { 0 };
    struct run_result result;

    (void)unused;
    add_job(&trace, 0, 2, 2);
    add_job(&trace, 0, 1, 8);
    add_job(&trace, 0, 2, 6);
    result = play(&(struct play){ .cluster = "1x2",
                                  .policy = "gittins",
                                  .settings = { { "queues", "12s" } },
                                  .history = history,
                                  .history_count = 3 },
                  &trace);
    assert_int_equal(result.jobs[0].end, 2 * USEC_SEC);
    assert_int_equal(result.jobs[1].end, 10 * USEC_SEC);
    assert_int_equal(result.jobs[2].end, 16 * USEC_SEC);
    run_result_done(&result);
    trace_done(&trace);
}

/* Jobs need 10 or 100 GPU-seconds. Who has had 10 and goes on needs 90 more, who is new 32 for each that ends: it goes
 * first, both times. With another history (all jobs need 100) nobody new does. */
static void learns(void **unused)
{
    static const svc_t mixed[] = { 10 * USEC_SEC, 10 * USEC_SEC, 10 * USEC_SEC, 100 * USEC_SEC };
    static const svc_t long_ones[] = { 100 * USEC_SEC, 100 * USEC_SEC };
    struct trace trace = { 0 };
    struct run_result result;
    struct play p = { .cluster = "1x1", .policy = "gittins", .settings = { { "queues", "1000s" } } };

    (void)unused;
    add_job(&trace, 0, 1, 100);
    add_job(&trace, 20, 1, 10);
    add_job(&trace, 70, 1, 10);
    p.history = mixed;
    p.history_count = 4;
    result = play(&p, &trace);
    assert_int_equal(result.jobs[1].end, 30 * USEC_SEC);
    assert_int_equal(result.jobs[0].preemptions, 2);
    run_result_done(&result);
    p.history = long_ones;
    p.history_count = 2;
    result = play(&p, &trace);
    assert_int_equal(result.jobs[0].end, 100 * USEC_SEC);
    assert_int_equal(result.jobs[0].preemptions, 0);
    run_result_done(&result);
    trace_done(&trace);
}

/* Without a history it learns from what ends here: at first as las (with its queues), then better. Saved and loaded
 * after every instant it decides the same. */
static void online(void **unused)
{
    struct trace trace;
    struct run_result las, own, again;
    static const struct setting queues = { "queues", "36000s,360000000s" };

    (void)unused;
    LONG_TEST();
    make("r1", &trace);
    las = play(&(struct play){ .cluster = "15x4", .policy = "las", .settings = { queues } }, &trace);
    own = play(&(struct play){ .cluster = "15x4", .policy = "gittins", .settings = { queues } }, &trace);
    again = play(&(struct play){ .cluster = "15x4", .policy = "gittins", .settings = { queues }, .reload = 1 }, &trace);
    assert_true(own.summary.digest != las.summary.digest);
    assert_true(own.summary.digest == again.summary.digest);
    assert_true(own.summary.avg_jct < las.summary.avg_jct);
    run_result_done(&las);
    run_result_done(&own);
    run_result_done(&again);
    trace_done(&trace);
}

/* ---- what it cannot know ---- */

struct past {
    usec_t until;
    uint64_t digest, decisions;
};

static void remember(void *arg, const struct core *core, const struct decision *decision, const uint32_t *gpus)
{
    struct past *past = arg;

    (void)core;
    if (decision->at >= past->until)
        return;
    past->decisions++;
    past->digest = rng_mix(past->digest ^ (uint64_t)decision->at);
    past->digest = rng_mix(past->digest ^ (uint64_t)decision->id << 8 ^ (uint64_t)decision->kind);
    for (uint32_t i = 0; i < decision->gpu_count; i++)
        past->digest = rng_mix(past->digest ^ gpus[i]);
}

/* Two workloads that are the same up to an instant: whoever has not ended by then needs three times as long in the
 * second, whoever comes later is another job. Returns whether all decisions before are the same. */
static bool same_past(const char *policy, const char *knob, int64_t until, uint64_t *ret_decisions)
{
    struct past one = { .until = until * USEC_SEC }, two = one;
    struct play p = { .cluster = "15x4",
                      .policy = policy,
                      .settings = { { knob ? "knob" : NULL, knob } },
                      .on_decision = remember,
                      .arg = &one };
    struct trace trace;
    struct run_result result;

    make("r1", &trace);
    result = play(&p, &trace);
    for (size_t i = 0; i < trace.count; i++) {
        struct trace_job *job = &trace.jobs[i];

        if (result.jobs[i].end < one.until && result.jobs[i].end >= 0)
            continue;
        job->truth.duration *= 3;
        if (job->spec.submit >= one.until)
            job->truth.duration = 7 * USEC_SEC;
    }
    run_result_done(&result);
    p.arg = &two;
    result = play(&p, &trace);
    run_result_done(&result);
    trace_done(&trace);
    *ret_decisions = one.decisions;
    return one.digest == two.digest && one.decisions == two.decisions;
}

static void knows_no_future(void **unused)
{
    static const int64_t instants[] = { 1000, 10000, 20000, 40000, 55000, 90000 };
    uint64_t decisions, told = 0;

    (void)unused;
    for (size_t i = 0; i < sizeof(instants) / sizeof(*instants); i++) {
        assert_true(same_past("gittins", NULL, instants[i], &decisions));
        assert_true(same_past("gittins", "4", instants[i], &decisions));
        assert_true(same_past("las", NULL, instants[i], &decisions));
        assert_true(decisions > 2);
        /* One that is told the run times gives itself away. */
        told += !same_past("srsf", NULL, instants[i], &decisions);
    }
    assert_true(told >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_t4),      cmocka_unit_test(example_t1), cmocka_unit_test(random_samples),
        cmocka_unit_test(three_jobs),      cmocka_unit_test(learns),     cmocka_unit_test(online),
        cmocka_unit_test(knows_no_future),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
