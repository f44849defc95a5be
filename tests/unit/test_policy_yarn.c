/* SPDX-License-Identifier: Apache-2.0 */
/* What a correct YARN-CS must show on any contended trace (the worked examples are stories in tests/golden): the study
 * of Philly is about these effects. Five seeds each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/core_internal.h"
#include "sim/metrics/metrics.h"
#include "sim/scenario.h"
#include "wire/cluster/cluster.h"

enum { SEEDS = 5, JOBS = 600 };

/* A third of the jobs asks for eight GPUs or more, and more is asked for than there is. */
static void draw_trace(struct trace *trace, uint64_t seed, int vcs)
{
    static const int32_t sizes[] = { 1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 16 };
    struct rng rng;
    usec_t submit = 0;
    uint32_t index;

    *trace = (struct trace){ 0 };
    rng_seed(&rng, seed);
    for (int v = 0; v < vcs; v++) {
        const char name[2] = { (char)('A' + v), '\0' };

        assert_int_equal(names_put(&trace->vcs, name, 1, &index), 0);
    }
    for (int i = 0; i < JOBS; i++) {
        struct trace_job job;

        trace_job_init(&job);
        submit += (usec_t)rng_below(&rng, 100) * USEC_SEC;
        job.spec.id = i;
        job.spec.submit = submit;
        job.spec.gpus = job.spec.gpus_min = job.spec.gpus_max = sizes[rng_below(&rng, 12)];
        job.spec.vc = vcs ? (uint32_t)rng_below(&rng, (uint64_t)vcs) : NAME_NONE;
        job.truth.duration = ((usec_t)60 << rng_below(&rng, 6)) * USEC_SEC;
        assert_int_equal(trace_add(trace, &job), 0);
    }
}

static void run(const struct cluster_spec *cluster, const struct trace *trace, const struct setting *settings,
                size_t count, struct run_result *ret)
{
    struct scenario_request request = { "yarn-cs", settings, count };
    struct scenario scenario;
    struct error err = { 0 };

    *ret = (struct run_result){ 0 };
    if (scenario_init(&scenario, cluster, trace, &request, &err) < 0 || scenario_run(&scenario, 1, ret, &err) < 0)
        fail_msg("%s", err.text);
    scenario_done(&scenario);
}

struct wide {
    double queue, locality; /* means over jobs of 8 GPUs and more */
};

static struct wide wide_of(const struct run_result *r)
{
    struct wide mean = { 0 };
    int count = 0;

    for (size_t i = 0; i < r->job_count; i++) {
        if (r->jobs[i].gpus < 8)
            continue;
        assert_int_equal(r->jobs[i].outcome, OUTCOME_DONE);
        mean.queue += (double)job_result_queue(&r->jobs[i]) / (double)USEC_SEC;
        mean.locality += r->jobs[i].locality;
        count++;
    }
    assert_true(count > JOBS / 5); /* at least 20 % ask for 8 or more */
    mean.queue /= count;
    mean.locality /= count;
    return mean;
}

/* Mean fragmentation delay of the jobs with that many GPUs, in seconds. */
static double fragmentation_of(const struct run_result *r, int32_t low, int32_t high)
{
    double sum = 0;
    int count = 0;

    for (size_t i = 0; i < r->job_count; i++)
        if (r->jobs[i].gpus >= low && r->jobs[i].gpus <= high) {
            sum += (double)r->jobs[i].fragmentation / (double)USEC_SEC;
            count++;
        }
    assert_true(count > 0);
    return sum / count;
}

static void fragmentation_grows_with_the_gang(void **state)
{
    struct cluster_spec cluster = { 0 };

    (void)state;
    assert_int_equal(cluster_parse("racks:2 nodes:4 gpus:8", &cluster, NULL), 0);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct trace trace;
        struct run_result result;
        double small, middle, large;

        draw_trace(&trace, seed, 0);
        run(&cluster, &trace, NULL, 0, &result);
        small = fragmentation_of(&result, 1, 2);
        middle = fragmentation_of(&result, 4, 8);
        large = fragmentation_of(&result, 16, 16);
        if (!(small < middle && middle < large))
            fail_msg("seed %d: %.1f, %.1f, %.1f s", (int)seed, small, middle, large);
        run_result_done(&result);
        trace_done(&trace);
    }
    cluster_spec_done(&cluster);
}

static void relaxing_trades_locality_for_time(void **state)
{
    static const struct setting never[] = { { "relax", "inf" } }, three[] = { { "relax", "3" } };
    struct cluster_spec cluster = { 0 };

    (void)state;
    assert_int_equal(cluster_parse("racks:2 nodes:4 gpus:8", &cluster, NULL), 0);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct trace trace;
        struct run_result result;
        struct wide strict, relaxed;

        draw_trace(&trace, seed, 0);
        run(&cluster, &trace, never, 1, &result);
        strict = wide_of(&result);
        run_result_done(&result);
        run(&cluster, &trace, three, 1, &result);
        relaxed = wide_of(&result);
        run_result_done(&result);
        /* The number of the locality goes up as locality gets worse. */
        if (!(relaxed.queue < strict.queue && relaxed.locality > strict.locality))
            fail_msg("seed %d: queueing %.1f -> %.1f s, locality %.3f -> %.3f", (int)seed, strict.queue, relaxed.queue,
                     strict.locality, relaxed.locality);
        trace_done(&trace);
    }
    cluster_spec_done(&cluster);
}

/* What reclaim could get for a virtual cluster: free GPUs, and of every other that is over its quota, newest first,
 * whatever can go without taking it below. */
static int64_t obtainable(const struct core *core, uint32_t for_vc)
{
    int64_t sum = (int64_t)view_free(&core->view, 0) * MGPU_ONE;

    for (uint32_t v = 0; v < core->vc_count; v++) {
        const struct vc *vc = &core->vcs[v];
        int64_t used = vc->used[0];

        for (uint32_t i = vc->run_last; v != for_vc && i != JOB_NONE; i = core->jobs[i].prev)
            if (used - core->jobs[i].gpus * MGPU_ONE >= vc->quota[0]) {
                used -= core->jobs[i].gpus * MGPU_ONE;
                sum += core->jobs[i].gpus * MGPU_ONE;
            }
    }
    return sum;
}

struct watch {
    int64_t inside, backing_off;
};

/* At every instant, for every job that waits inside its quota: it backs off, for no longer than it should, or not even
 * reclaim could make room. And it is never told that it waits for its fair share. */
static void watch(void *arg, const struct core *core)
{
    struct watch *seen = arg;

    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct job *job = &core->jobs[i];
        const struct vc *vc = &core->vcs[job->vc];
        bool inside = vc->used[0] + job_demand(job) <= vc->quota[0];

        if (!job_waits(job->state))
            continue;
        if (job->shape == UINT32_MAX) {
            assert_int_equal(core_reason(core, i), REASON_BACKOFF);
            assert_true(core->now - job->state_since < 120 * USEC_SEC);
            seen->backing_off++;
            continue;
        }
        if (core->planned_at == core->now)
            assert_int_equal(vc->queue.shapes[job->shape].over_quota, !inside);
        if (!inside)
            continue;
        seen->inside++;
        assert_true(core_reason(core, i) != REASON_VC_LIMIT && core_reason(core, i) != REASON_BORROW_LIMIT);
        assert_true(obtainable(core, job->vc) < job_demand(job));
    }
}

/* With reclaim at any load (preempt=0) and any GPUs as good as others, whoever is inside its quota has its GPUs at
 * once, unless whole gangs and others' quotas stand in the way. */
static void quotas_are_kept(void **state)
{
    static const struct setting settings[] = { { "preempt", "0" }, { "place", "count" }, { "hold", "off" } };
    struct cluster_spec cluster = { 0 };

    (void)state;
    assert_int_equal(cluster_parse("racks:2 nodes:4 gpus:8", &cluster, NULL), 0);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct scenario_request request = { "yarn-cs", settings, 3 };
        struct vc_spec vcs[2] = { { .policy = NAME_NONE, .quota = { 32 }, .borrow_max = -1 },
                                  { .policy = NAME_NONE, .quota = { 32 }, .borrow_max = -1 } };
        struct cluster_spec split = cluster;
        struct run_result result = { 0 };
        struct scenario scenario;
        struct trace trace;
        struct error err = { 0 };
        struct watch seen = { 0 };

        draw_trace(&trace, seed, 2);
        assert_int_equal(names_put(&cluster.names, "A", 1, &vcs[0].name), 0);
        assert_int_equal(names_put(&cluster.names, "B", 1, &vcs[1].name), 0);
        split.names = cluster.names;
        split.vcs = vcs;
        split.vc_count = 2;
        if (scenario_init(&scenario, &split, &trace, &request, &err) < 0)
            fail_msg("%s", err.text);
        scenario.driver.on_instant = watch;
        scenario.driver.on_instant_arg = &seen;
        if (scenario_run(&scenario, 1, &result, &err) < 0)
            fail_msg("%s", err.text);
        assert_true(seen.inside + seen.backing_off > 0);
        assert_true(result.summary.preemptions > 0);
        run_result_done(&result);
        scenario_done(&scenario);
        trace_done(&trace);
    }
    cluster_spec_done(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fragmentation_grows_with_the_gang),
        cmocka_unit_test(relaxing_trades_locality_for_time),
        cmocka_unit_test(quotas_are_kept),
    };

    return cmocka_run_group_tests_name("policy_yarn", tests, NULL, NULL);
}
