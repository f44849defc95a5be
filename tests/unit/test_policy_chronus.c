/* SPDX-License-Identifier: Apache-2.0 */
/* test_policy_chronus.c - what Chronus has to show: promises that are kept, over several seeds, with interruptions that
 * cost and estimates that are wrong; deadlines and best-effort jobs against the plain ways; admission against
 * exactness.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "sim/gen/gen.h"
#include "sim/metrics/metrics.h"
#include "sim/scenario.h"
#include "solve/lease.h"
#include "wire/cluster/cluster.h"

enum { SEEDS = 5, JOBS = 480 };

struct tried {
    double missed, best_effort; /* means over seeds */
    uint64_t broken, late, promised;
};

static void run(const char *cluster_text, const char *policy, struct trace *trace, const char *error, uint64_t seed,
                struct run_result *result)
{
    struct setting settings[] = { { "costs", "chronus" }, { "estimate-error", error }, { "place", "consolidate" } };
    struct scenario_request request = { policy, settings, 3 };
    struct cluster_spec cluster = { 0 };
    struct scenario scenario = { 0 };
    struct error err = { 0 };

    assert_int_equal(cluster_parse(cluster_text, &cluster, &err), 0);
    if (scenario_init(&scenario, &cluster, trace, &request, &err) < 0 ||
        scenario_run(&scenario, seed, result, &err) < 0)
        fail_msg("%s", err.text);
    scenario_done(&scenario);
    cluster_spec_done(&cluster);
}

/* R1 with deadlines, on a cluster that makes the load; every promise is looked at. */
static struct tried try_seeds(const char *cluster, const char *policy, ppm_t deadlines, const char *error)
{
    struct tried all = { 0 };

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct gen_config config = { .jobs = JOBS, .seed = seed, .deadlines = deadlines };
        struct run_result result = { 0 };
        struct trace trace = { 0 };
        struct error err = { 0 };

        assert_int_equal(gen_trace("r1", &config, &trace, &err), 0);
        run(cluster, policy, &trace, error, seed, &result);
        all.missed += result.summary.deadline_miss / SEEDS;
        all.best_effort += deadlines < PPM_ONE ? result.summary.best_effort_jct / SEEDS : 0;
        all.broken += result.summary.broken_promises;
        for (size_t i = 0; i < result.job_count; i++) {
            all.promised += result.jobs[i].promise != 0;
            all.late += result.jobs[i].promise && result.jobs[i].end > result.jobs[i].promise;
        }
        run_result_done(&result);
        trace_done(&trace);
    }
    return all;
}

/* Loads 0.7 to 2.0: nobody who was promised is late. */
static void kept(const char *error)
{
    static const char *const clusters[] = { "26x8", "18x8", "13x8", "9x8" };

    for (int i = 0; i < 4; i++) {
        struct tried t = try_seeds(clusters[i], "chronus", PPM_ONE / 2, error);

        assert_true(t.promised > SEEDS * JOBS / 4);
        assert_int_equal(t.broken, 0);
        assert_int_equal(t.late, 0);
    }
}

static void promises_are_kept(void **unused)
{
    (void)unused;
    kept("0");
}

static void promises_are_kept_with_errors(void **unused)
{
    (void)unused;
    kept("0.09");
}

/* Nodes of 6 GPUs and two types. */
static void promises_on_odd_nodes(void **unused)
{
    struct tried t = try_seeds("nodes:20 gpus:6 sku:A + nodes:5 gpus:4 sku:B", "chronus", PPM_ONE / 2, "0.09");

    (void)unused;
    assert_true(t.promised > SEEDS * JOBS / 8);
    assert_int_equal(t.broken, 0);
    assert_int_equal(t.late, 0);
}

/* Everybody has a deadline and there is 1.5 and 2 times as much work as can be done. */
static void more_deadlines_than_edf(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        const char *cluster = i ? "9x8" : "12x8";
        struct tried ours = try_seeds(cluster, "chronus", PPM_ONE, "0"), edf = try_seeds(cluster, "edf", PPM_ONE, "0");

        print_message("# %s: missed %.3f, edf %.3f\n", cluster, ours.missed, edf.missed);
        assert_true(ours.missed < edf.missed);
        assert_int_equal(ours.broken, 0);
    }
}

/* Half have deadlines: those that have none end sooner than under edf and fifo. */
static void best_effort_sooner(void **unused)
{
    struct tried ours = try_seeds("12x8", "chronus", PPM_ONE / 2, "0");
    struct tried edf = try_seeds("12x8", "edf", PPM_ONE / 2, "0");
    struct tried fifo = try_seeds("12x8", "fifo", PPM_ONE / 2, "0");

    (void)unused;
    print_message("# best effort %.0f s, edf %.0f s, fifo %.0f s\n", ours.best_effort, edf.best_effort,
                  fifo.best_effort);
    assert_true(ours.best_effort < edf.best_effort);
    assert_true(ours.best_effort < fifo.best_effort);
}

/* ---- admission against the exact answer ---- */

struct small {
    struct lease_task tasks[8];
    int32_t capacity[6], used[6], step[8];
    uint64_t bits[8];
    struct lease_problem problem;
};

static void draw(struct small *s, struct rng *rng)
{
    *s = (struct small){ 0 };
    s->problem = (struct lease_problem){ s->tasks, 2 + (int32_t)rng_below(rng, 7), 6, s->capacity, -1 };
    for (int l = 0; l < 6; l++)
        s->capacity[l] = 8;
    for (int32_t i = 0; i < s->problem.count; i++) {
        int32_t last = 1 + (int32_t)rng_below(rng, 6);

        s->tasks[i] = (struct lease_task){ .id = i,
                                           .size = 1 << rng_below(rng, 4),
                                           .need = 1 + (int32_t)rng_below(rng, (uint64_t)last),
                                           .steps = 1,
                                           .last = { last },
                                           .value = { 10 } };
    }
}

/* The same as jobs that come one second before a lease begins, when nothing can be started early. */
static void as_trace(const struct small *s, usec_t apart, struct trace *trace)
{
    for (int32_t i = 0; i < s->problem.count; i++) {
        const struct lease_task *t = &s->tasks[i];
        struct trace_job job;

        trace_job_init(&job);
        job.spec.id = i;
        job.spec.gpus = job.spec.gpus_min = job.spec.gpus_max = t->size;
        job.spec.submit = 1190 * USEC_SEC + i * apart;
        job.truth.duration = t->need * 1200 * USEC_SEC;
        job.spec.deadline_count = 1;
        job.spec.deadlines[0] = (struct deadline){ (1 + t->last[0]) * 1200 * USEC_SEC, 10 };
        assert_int_equal(trace_add(trace, &job), 0);
    }
}

static uint64_t promised(struct trace *trace, const char *search, int64_t *ret_exactly)
{
    struct setting settings[] = { { "save", "0" }, { "restore", "0" }, { "safety", "1" }, { "search", search } };
    struct scenario_request request = { "chronus", settings, 4 };
    struct cluster_spec cluster = { 0 };
    struct scenario scenario = { 0 };
    struct run_result result = { 0 };
    struct error err = { 0 };
    uint64_t count;

    assert_int_equal(cluster_parse("1x8", &cluster, &err), 0);
    if (scenario_init(&scenario, &cluster, trace, &request, &err) < 0 || scenario_run(&scenario, 1, &result, &err) < 0)
        fail_msg("%s", err.text);
    count = result.summary.admitted;
    for (uint32_t i = 0; i < result.counter_count; i++)
        if (strcmp(result.counters[i].name, "promised_exactly") == 0)
            *ret_exactly += result.counters[i].value;
    assert_int_equal(result.summary.broken_promises, 0);
    run_result_done(&result);
    scenario_done(&scenario);
    cluster_spec_done(&cluster);
    return count;
}

/* Up to 8 jobs and 6 leases: a set that can be scheduled is never refused. */
static void nobody_refused_who_fits(void **unused)
{
    struct rng rng;
    int feasible = 0;
    int64_t exactly = 0, none = 0;

    (void)unused;
    rng_seed(&rng, 7);
    for (int round = 0; round < 1000; round++) {
        struct small s;
        struct lease_plan plan;
        struct trace trace = { 0 };

        draw(&s, &rng);
        plan = (struct lease_plan){ s.bits, s.used, s.step };
        if (lease_search(&s.problem, 1000000, &plan) != 1)
            continue;
        feasible++;
        as_trace(&s, 0, &trace);
        assert_int_equal(promised(&trace, "100000", &none), s.problem.count);
        trace_done(&trace);
        /* The same with CBC alone, outside of the step, one job after the other. */
        trace = (struct trace){ 0 };
        as_trace(&s, USEC_SEC, &trace);
        assert_int_equal(promised(&trace, "0", &exactly), s.problem.count);
        trace_done(&trace);
    }
    assert_true(feasible > 50);
    assert_true(exactly > 0);
    assert_int_equal(none, 0);
}

/* ---- bad deadlines ---- */

static void refused(const struct jobspec *spec, const char *words)
{
    struct policy_setup setup;
    struct cluster_spec cluster = { 0 };
    struct core_config config = { .limits = { .jobs = 4 }, .policies = &setup };
    struct event submit = { .kind = EVENT_SUBMIT, .spec = spec };
    struct error err = { 0 };
    struct core *core;

    policy_setup(policy_find("chronus"), &setup);
    assert_int_equal(policy_set(&setup, "profile", "5m", &err), 0);
    assert_int_equal(cluster_parse("1x8", &cluster, &err), 0);
    assert_int_equal(core_new(&cluster, &config, &core, &err), 0);
    (void)core_step(core, 1000 * USEC_SEC);
    assert_true(core_offer(core, &submit, NULL, &err) < 0);
    assert_string_equal(err.text, words);
    core_free(core);
    cluster_spec_done(&cluster);
}

static void bad_deadlines(void **unused)
{
    struct jobspec spec = { .id = 7,
                            .submit = 1000 * USEC_SEC,
                            .gpus = 1,
                            .share = MGPU_ONE,
                            .gpus_min = 1,
                            .gpus_max = 1,
                            .deadline_count = 2,
                            .deadlines = { { 999 * USEC_SEC, 10 }, { 3000 * USEC_SEC, 5 } } };

    (void)unused;
    refused(&spec, "job 7: deadline 1 is in the past [BadDeadline.Past]");
    spec.deadlines[0].at = 4000 * USEC_SEC;
    refused(&spec, "job 7: deadline 2 is not later than the one before it [BadDeadline.Order]");
    spec.deadlines[0] = (struct deadline){ 2000 * USEC_SEC, 3 };
    refused(&spec, "job 7: deadline 2 is worth more (5) than the earlier one (3) [BadDeadline.Value]");
    spec.deadlines[0] = (struct deadline){ 1299 * USEC_SEC, 10 };
    refused(&spec, "job 7: its deadline comes before the 300 s in which it would be measured are over "
                   "[BadDeadline.Profile]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(promises_are_kept),     cmocka_unit_test(promises_are_kept_with_errors),
        cmocka_unit_test(promises_on_odd_nodes), cmocka_unit_test(more_deadlines_than_edf),
        cmocka_unit_test(best_effort_sooner),    cmocka_unit_test(nobody_refused_who_fits),
        cmocka_unit_test(bad_deadlines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
