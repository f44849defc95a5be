/* SPDX-License-Identifier: Apache-2.0 */
/* The planner against a second simulator that was written to be obviously right: job by job, on random workloads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../reference/naive.h"
#include "base/rng.h"
#include "sim/scenario.h"
#include "wire/cluster/cluster.h"

enum { JOBS_MAX = 120 };

static const char *const policies[] = {
    [NAIVE_STRICT] = "fifo", [NAIVE_SKIP] = "fifo-skip", [NAIVE_SRTF] = "srtf", [NAIVE_SRSF] = "srsf"
};

/* A cluster of one to three types, a few nodes of each. */
static void draw_cluster(struct rng *rng, int types, char *text, size_t size, struct naive_cluster *ret)
{
    size_t have = 0;

    *ret = (struct naive_cluster){ .types = types };
    for (int t = 0; t < types; t++) {
        int nodes = 1 + (int)rng_below(rng, 4), gpus = 1 + (int)rng_below(rng, 8);

        ret->gpus[t] = nodes * gpus;
        have += (size_t)snprintf(text + have, size - have, "%s%dx%d:T%d", t ? " + " : "", nodes, gpus, t);
    }
}

static bool fits(const struct naive_job *job, const struct naive_cluster *cluster)
{
    for (int t = 0; t < cluster->types; t++)
        if (job->types >> t & 1 && cluster->gpus[t] >= job->gpus)
            return true;
    return false;
}

/* Times are few, so that much happens at one instant. */
static int draw_jobs(struct rng *rng, const struct naive_cluster *cluster, struct naive_job *jobs)
{
    int count = 2 + (int)rng_below(rng, rng_below(rng, 4) ? 30 : JOBS_MAX - 2);
    int64_t widest = 1, submit = 0, gap = 1 + (int64_t)rng_below(rng, 30);
    bool fine = rng_below(rng, 4) == 0; /* to the microsecond */

    for (int t = 0; t < cluster->types; t++)
        widest = cluster->gpus[t] > widest ? cluster->gpus[t] : widest;
    for (int i = 0; i < count; i++) {
        int64_t unit = fine ? 1 + (int64_t)rng_below(rng, 999983) : USEC_SEC;

        submit += (int64_t)rng_below(rng, (uint64_t)gap) * unit;
        jobs[i] = (struct naive_job){ .submit = submit,
                                      .run = (1 + (int64_t)rng_below(rng, rng_below(rng, 3) ? 20 : 200)) * unit,
                                      .gpus = 1 + (int64_t)rng_below(rng, rng_below(rng, 3) ? 2 : (uint64_t)widest) };
        if (jobs[i].gpus > widest)
            jobs[i].gpus = widest;
        jobs[i].types = 1 + (unsigned)rng_below(rng, (1u << cluster->types) - 1);
        if (!fits(&jobs[i], cluster))
            jobs[i].types = (1u << cluster->types) - 1;
    }
    return count;
}

static void fill_trace(struct trace *trace, const struct naive_job *jobs, int count, int types)
{
    uint32_t index;
    char name[8];

    for (int t = 0; t < types; t++) {
        (void)snprintf(name, sizeof(name), "T%d", t);
        assert_int_equal(names_put(&trace->skus, name, 2, &index), 0);
    }
    for (int i = 0; i < count; i++) {
        struct trace_job job;

        trace_job_init(&job);
        job.spec.id = i;
        job.spec.submit = jobs[i].submit;
        job.spec.gpus = job.spec.gpus_min = job.spec.gpus_max = (int32_t)jobs[i].gpus;
        job.spec.sku_mask = jobs[i].types;
        job.truth.duration = jobs[i].run;
        assert_int_equal(trace_add(trace, &job), 0);
    }
}

static void compare(const struct run_result *result, const struct naive_job *jobs, int count, uint64_t seed,
                    const char *policy)
{
    for (int i = 0; i < count; i++) {
        const struct job_result *got = &result->jobs[i];

        if (got->start != jobs[i].start || got->end != jobs[i].end || got->preemptions != (uint32_t)jobs[i].preemptions)
            fail_msg("seed %llu, %s: job %d of %d: expected %lld..%lld, %d stops; got %lld..%lld, %u",
                     (unsigned long long)seed, policy, i, count, (long long)jobs[i].start, (long long)jobs[i].end,
                     jobs[i].preemptions, (long long)got->start, (long long)got->end, got->preemptions);
    }
}

static void one_case(uint64_t seed, int types)
{
    struct rng rng;
    struct naive_cluster cluster;
    struct naive_job jobs[JOBS_MAX];
    struct cluster_spec spec = { 0 };
    struct trace trace = { 0 };
    struct error err = { 0 };
    char text[128], restart[24];
    int count;

    rng_seed(&rng, seed);
    draw_cluster(&rng, types, text, sizeof(text), &cluster);
    count = draw_jobs(&rng, &cluster, jobs);
    (void)snprintf(restart, sizeof(restart), "%d", rng_below(&rng, 2) ? 0 : 1 + (int)rng_below(&rng, 60));
    assert_int_equal(cluster_parse(text, &spec, &err), 0);
    fill_trace(&trace, jobs, count, types);
    for (int p = NAIVE_STRICT; p <= NAIVE_SRSF; p++) {
        struct setting settings[] = { { "restart", restart } };
        struct scenario_request request = { policies[p], settings, 1 };
        struct run_result result = { 0 };
        struct scenario scenario;

        naive_run(jobs, count, &cluster, (enum naive_policy)p, atoi(restart) * USEC_SEC);
        if (scenario_init(&scenario, &spec, &trace, &request, &err) < 0 ||
            scenario_run(&scenario, seed, &result, &err) < 0)
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
        compare(&result, jobs, count, seed, policies[p]);
        run_result_done(&result);
        scenario_done(&scenario);
    }
    trace_done(&trace);
    cluster_spec_done(&spec);
}

/* 400, or as many as MUSTER_CASES says. */
static uint64_t cases(void)
{
    const char *text = getenv("MUSTER_CASES");

    return text ? strtoull(text, NULL, 10) : 400;
}

static void one_type(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= cases(); seed++)
        one_case(seed, 1);
}

static void several_types(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= cases(); seed++)
        one_case(~seed, 2 + (int)(seed % 2));
}

/* The second simulator is itself held to the published table. */
static void naive_gives_r1(void **state)
{
    static const struct {
        enum naive_policy policy;
        int64_t sum;
        int preemptions;
    } rows[] = { { NAIVE_STRICT, 12514491, 0 },
                 { NAIVE_SKIP, 7169279, 0 },
                 { NAIVE_SRTF, 4774565, 777 },
                 { NAIVE_SRSF, 4278591, 573 } };
    static struct naive_job jobs[480];
    const struct naive_cluster cluster = { .gpus = { 60 }, .types = 1 };
    uint64_t x = 1;
    int64_t submit = 0;

    (void)state;
#define U() (x = x * 6364136223846793005ULL + 1442695040888963407ULL, (int64_t)(x >> 33))
    for (int i = 0; i < 480; i++) {
        int64_t v = U() % 100, gpus = v < 70 ? 1 : v < 78 ? 2 : v < 88 ? 4 : v < 98 ? 8 : 16;
        int64_t a = U() % 12, b = U() % 12, base = (int64_t)60 << (a < b ? a : b), run = base + U() % base;

        submit += U() % 240;
        jobs[i] = (struct naive_job){ .submit = submit, .run = run, .gpus = gpus, .types = 1 };
    }
#undef U
    for (size_t r = 0; r < sizeof(rows) / sizeof(*rows); r++) {
        int64_t sum = 0;
        int preemptions = 0;

        naive_run(jobs, 480, &cluster, rows[r].policy, 0);
        for (int i = 0; i < 480; i++) {
            sum += jobs[i].end - jobs[i].submit;
            preemptions += jobs[i].preemptions;
        }
        assert_int_equal(sum, rows[r].sum);
        assert_int_equal(preemptions, rows[r].preemptions);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(naive_gives_r1),
        cmocka_unit_test(one_type),
        cmocka_unit_test(several_types),
    };

    return cmocka_run_group_tests_name("sim_reference", tests, NULL, NULL);
}
