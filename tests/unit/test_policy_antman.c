/* SPDX-License-Identifier: Apache-2.0 */
/* test_policy_antman.c - AntMan in the simulator: what its spec calls "must reproduce", over several seeds, and the
 * invariant that no guaranteed job is delayed by an opportunistic one, on random traces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/core_internal.h"
#include "long_test.h"
#include "policy_play.h"

enum { SEEDS = 5, RANDOM = 40, JOBS = 120 };

static struct trace_job *last_job(struct trace *trace)
{
    return &trace->jobs[trace->count - 1];
}

/* ---- a pair of jobs ---- */

/* An owner of so much utilisation, and a guest that comes when it was measured. */
static struct run_result pair_run(uint16_t owner, uint16_t guest, const char *cluster)
{
    struct play p = { .cluster = cluster, .policy = "antman" };
    struct run_result result;
    struct trace trace = { 0 };

    add_job(&trace, 0, 1, 10000);
    last_job(&trace)->spec.utilisation = owner;
    add_job(&trace, 20, 1, 1000);
    last_job(&trace)->spec.utilisation = guest;
    last_job(&trace)->spec.klass = CLASS_OPPORTUNISTIC;
    result = play(&p, &trace);
    trace_done(&trace);
    return result;
}

/* Whatever the guest would do to it, the owner is slowed by less than 2 %; below 80 % there is something for the guest.
 */
static void test_interference(void **state)
{
    (void)state;
    for (uint16_t owner = 5; owner <= 100; owner = (uint16_t)(owner + 5))
        for (uint16_t guest = 5; guest <= 100; guest = (uint16_t)(guest + 19)) {
            struct run_result result = pair_run(owner, guest, "1x1");

            assert_int_equal(result.jobs[0].start, 0);
            assert_true(result.jobs[0].end <= 10200 * USEC_SEC);
            if (owner < 80) {
                assert_int_equal(result.jobs[1].start, 20 * USEC_SEC);
                assert_true(result.shared.guest_work > 0);
            } else {
                assert_true(result.jobs[1].start >= result.jobs[0].end); /* no candidate */
            }
            run_result_done(&result);
        }
}

/* Alone on a GPU it has all of it. */
static void test_alone(void **state)
{
    struct run_result result = pair_run(50, 50, "1x2");

    (void)state;
    assert_int_equal(result.jobs[1].start, 20 * USEC_SEC);
    assert_int_equal(result.jobs[1].end, 1020 * USEC_SEC);
    assert_int_equal(result.jobs[0].end, 10000 * USEC_SEC);
    run_result_done(&result);
}

/* An owner and two guests of so much utilisation, the second 200 s after the first; each has a model of its own. */
static struct run_result guests_run(uint16_t owner, uint16_t guest, const char *guests)
{
    struct play p = { .cluster = "1x1", .policy = "antman", .settings = { { "guests", guests }, { "below", "1" } } };
    struct run_result result;
    struct trace trace = { 0 };

    add_job(&trace, 0, 1, 20000);
    last_job(&trace)->spec.utilisation = owner;
    for (int i = 0; i < 2; i++) {
        add_job(&trace, 20 + 200 * i, 1, 1000);
        last_job(&trace)->spec.utilisation = guest;
        last_job(&trace)->spec.klass = CLASS_OPPORTUNISTIC;
    }
    for (size_t i = 0; i < trace.count; i++) {
        char name[2] = { (char)('a' + i), 0 };

        assert_int_equal(names_put(&trace.models, name, 1, &trace.jobs[i].spec.model), 0);
    }
    result = play(&p, &trace);
    trace_done(&trace);
    return result;
}

/* A second guest stays if both together have more than the first had; else it leaves when that was measured, is not
 * tried with it again, and the first is as fast as it was. */
static void test_second_guest(void **state)
{
    struct run_result one = guests_run(50, 90, "1"), two = guests_run(50, 90, "2"), small = guests_run(20, 30, "2");

    (void)state;
    assert_int_equal(one.jobs[2].preemptions, 0);
    assert_true(one.jobs[2].start >= one.jobs[1].end);
    assert_int_equal(two.jobs[1].preemptions, 0);
    assert_int_equal(two.jobs[2].preemptions, 1);
    assert_int_equal(two.jobs[2].start, 220 * USEC_SEC);
    assert_true(two.jobs[1].end <= one.jobs[1].end + 60 * USEC_SEC);
    assert_int_equal(small.jobs[1].preemptions + small.jobs[2].preemptions, 0);
    assert_int_equal(small.jobs[2].start, 220 * USEC_SEC);
    assert_true(small.jobs[2].end - small.jobs[2].start < 1100 * USEC_SEC);
    assert_true(small.jobs[1].end - small.jobs[1].start < 1100 * USEC_SEC);
    run_result_done(&one);
    run_result_done(&two);
    run_result_done(&small);
}

/* ---- random traces ---- */

static void random_trace(struct trace *trace, uint64_t seed)
{
    struct rng rng;
    int64_t submit = 0;

    rng_seed(&rng, seed);
    for (int i = 0; i < JOBS; i++) {
        int32_t gpus = 1 << rng_below(&rng, 4);

        submit += (int64_t)rng_below(&rng, 120);
        add_job(trace, submit, gpus, 20 + (int64_t)rng_below(&rng, 2000));
        last_job(trace)->spec.user = (uint32_t)rng_below(&rng, 4);
        last_job(trace)->spec.utilisation = (uint16_t)(5 + rng_below(&rng, 95));
        last_job(trace)->spec.memory_mib = (uint32_t)rng_below(&rng, 9000);
        if (rng_below(&rng, 2))
            last_job(trace)->spec.klass = CLASS_OPPORTUNISTIC;
    }
}

/* No guaranteed job waits while what it asks for is free, whoever is a guest there; and all that is held is held by
 * guaranteed jobs once. */
static void watch(void *arg, const struct core *core)
{
    (void)arg;
    core_audit(core);
}

static void test_nobody_delayed(void **state)
{
    (void)state;
    LONG_TEST();
    for (uint64_t seed = 0; seed < RANDOM; seed++) {
        struct play p = { .cluster = "nodes:3 gpus:8 gpu_memory:16G", .policy = "antman", .on_instant = watch };
        struct trace trace = { 0 }, alone = { 0 };
        struct run_result shared, other;

        if (seed % 2) {
            p.settings[0] = (struct setting){ "user-quota", "12" };
            p.settings[1] = (struct setting){ "guests", "2" };
        }
        random_trace(&trace, seed);
        shared = play(&p, &trace);
        for (size_t i = 0; i < trace.count; i++) {
            const struct job_result *job = &shared.jobs[i];

            assert_int_equal(job->outcome, OUTCOME_DONE);
            if (trace.jobs[i].spec.klass == CLASS_OPPORTUNISTIC)
                continue;
            assert_int_equal(job->preemptions, 0);
            assert_true(job->run * 100 <= trace.jobs[i].truth.duration * 102);
            assert_int_equal(trace_add(&alone, &trace.jobs[i]), 0);
            last_job(&alone)->truth.duration = job->run;
        }
        other = play(&p, &alone);
        for (size_t i = 0, k = 0; i < trace.count; i++)
            if (trace.jobs[i].spec.klass != CLASS_OPPORTUNISTIC) {
                assert_int_equal(shared.jobs[i].start, other.jobs[k].start);
                k++;
            }
        run_result_done(&shared);
        run_result_done(&other);
        trace_done(&trace);
        trace_done(&alone);
    }
}

/* A controller that restarts at every tenth instant decides the same; and so with every policy word in the snapshot. */
static void test_restarts(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 105; seed++) {
        struct play p = { .cluster = "nodes:3 gpus:8 gpu_memory:16G", .policy = "antman" };
        struct trace trace = { 0 };
        struct run_result plain, again;

        p.settings[0] = (struct setting){ "auto", "60s" };
        p.settings[1] = (struct setting){ "user-quota", "8" };
        random_trace(&trace, seed);
        for (size_t i = 0; i < trace.count; i += 3)
            trace.jobs[i].spec.klass = CLASS_AUTO;
        plain = play(&p, &trace);
        p.reload = 10;
        again = play(&p, &trace);
        assert_int_equal(plain.summary.digest, again.summary.digest);
        assert_true(plain.counters[0].value > 0); /* converted */
        assert_true(plain.counters[1].value > 0); /* upgraded */
        run_result_done(&plain);
        run_result_done(&again);
        trace_done(&trace);
    }
}

/* ---- the reference trace ---- */

/* Nearly a third of R1's jobs are opportunistic: GPUs are in use more than under capacity queues, while jobs come. */
static void test_r1(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct play p = { .cluster = "15x4", .policy = "antman", .until = 55610 };
        struct run_result antman, yarn;
        struct trace trace;
        struct rng rng;

        make("r1", &trace);
        rng_seed(&rng, seed);
        for (size_t i = 0; i < trace.count; i++) {
            trace.jobs[i].spec.utilisation = (uint16_t)(10 + rng_below(&rng, 80));
            trace.jobs[i].spec.klass = rng_below(&rng, 10) < 3 ? CLASS_OPPORTUNISTIC : CLASS_GUARANTEED;
        }
        antman = play(&p, &trace);
        p.policy = "yarn-cs";
        yarn = play(&p, &trace);
        print_message("seed %d: GPUs in use on the average: antman %.1f, yarn-cs %.1f\n", (int)seed,
                      antman.shared.busy / 55610e6, yarn.shared.busy / 55610e6);
        assert_true(antman.shared.busy > yarn.shared.busy);
        run_result_done(&antman);
        run_result_done(&yarn);
        trace_done(&trace);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interference),   cmocka_unit_test(test_alone),    cmocka_unit_test(test_second_guest),
        cmocka_unit_test(test_nobody_delayed), cmocka_unit_test(test_restarts), cmocka_unit_test(test_r1),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
