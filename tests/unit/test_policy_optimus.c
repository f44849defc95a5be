/* SPDX-License-Identifier: Apache-2.0 */
/* test_policy_optimus.c - that Optimus decides by what is reported and by nothing else, and what that brings. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng_real.h"
#include "core/core_internal.h"
#include "policy/optimus/optimus.h"
#include "policy/registry.h"
#include "sim/driver/driver.h"
#include "sim/metrics/metrics.h"
#include "wire/cluster/cluster.h"

struct play {
    const char *policy, *cluster;
    const char *keys[6], *values[6];
    uint32_t reload;
    driver_instant_fn watch; /* NULL: none */
    int bad;                 /* proposals that were refused */
    double error[4];         /* of remaining time, by quarter of the job's life */
    int errors[4];
    struct guess {
        usec_t at;
        uint32_t index;
        int64_t left;
    } * guesses;
    size_t guess_count, guess_max;
    usec_t noted;
    int32_t servers_most; /* seen of any job */
    double cpus_most;     /* of what a node has, on any node at any instant */
};

static void on_decision(void *arg, const struct core *core, const struct decision *decision, const uint32_t *gpus)
{
    (void)core;
    (void)gpus;
    ((struct play *)arg)->bad += decision->kind == DECISION_BAD;
}

/* Ids are indexes into the trace, so a prediction can be looked at when the job's end is known. */
static void on_instant(void *arg, const struct core *core)
{
    struct play *p = arg;

    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct job *job = core_job(core, i);

        if (job->state != JOB_RUNNING || job->word[WORD_LEFT] <= 0 || job->word[WORD_LEFT_AT] != core_now(core) ||
            p->guess_count == p->guess_max)
            continue;
        p->guesses[p->guess_count++] = (struct guess){ core_now(core), (uint32_t)job->spec.id, job->word[WORD_LEFT] };
    }
}

static void elastic_trace(struct trace *trace, uint64_t seed, int64_t gap)
{
    static const char *const models[] = { "bert", "gpt2", "inception3", "resnet50", "vgg16", "lstm" };
    struct rng rng;
    usec_t at = 0;

    rng_seed(&rng, seed);
    for (int i = 0; i < 40; i++) {
        const char *model = models[rng_below(&rng, 6)];
        struct trace_job job;

        trace_job_init(&job);
        at += (usec_t)rng_below(&rng, (uint64_t)(gap * USEC_SEC));
        job.spec.id = i;
        job.spec.submit = at;
        job.spec.gpus = 1 << rng_below(&rng, 3);
        job.spec.gpus_min = job.spec.gpus_max = job.spec.gpus;
        if (i % 5) {
            job.spec.gpus_min = 1;
            job.spec.gpus_max = 16;
        }
        job.truth.duration = (1800 + (usec_t)rng_below(&rng, 18000)) * USEC_SEC;
        assert_int_equal(names_put(&trace->models, model, strlen(model), &job.spec.model), 0);
        assert_int_equal(trace_add(trace, &job), 0);
    }
}

static void data_path(const char *name, char *out, size_t size)
{
    const char *source = getenv("MUSTER_SOURCE");

    (void)snprintf(out, size, "%s/data/%s", source ? source : ".", name);
}

static struct run_result run(struct play *p, const struct trace *trace)
{
    struct cluster_spec cluster = { 0 };
    struct run_result result = { 0 };
    struct policy_setup setup;
    struct error err = { 0 };
    struct driver_config config = { .trace = trace,
                                    .cluster = &cluster,
                                    .policies = &setup,
                                    .seed = 1,
                                    .reload_every = p->reload,
                                    .on_decision = on_decision,
                                    .on_decision_arg = p,
                                    .on_instant = p->guesses ? on_instant : p->watch,
                                    .on_instant_arg = p };
    uint32_t *vcs = mem_zalloc(trace->count, sizeof(*vcs));
    char path[512];

    assert_non_null(vcs);
    config.job_vcs = vcs;
    world_config_init(&config.world);
    policy_setup(policy_find(p->policy), &setup);
    data_path("speeds.csv", path, sizeof(path));
    assert_int_equal(world_config_set(&config.world, "speed", path, &err), 0);
    for (int i = 0; i < 6 && p->keys[i]; i++)
        if (policy_set(&setup, p->keys[i], p->values[i], &err) < 0 &&
            world_config_set(&config.world, p->keys[i], p->values[i], &err) < 0)
            fail_msg("%s: %s", p->keys[i], err.text);
    assert_int_equal(cluster_parse(p->cluster ? p->cluster : "nodes:4 gpus:4 sku:V100", &cluster, &err), 0);
    if (driver_run(&config, &result, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(metrics_compute(&result), 0);
    assert_int_equal(p->bad, 0);
    assert_int_equal(result.summary.finished, trace->count);
    mem_free(vcs);
    cluster_spec_done(&cluster);
    return result;
}

static uint64_t digest_of(struct play p, const struct trace *trace)
{
    struct run_result result = run(&p, trace);
    uint64_t digest = result.summary.digest;

    run_result_done(&result);
    return digest;
}

/* Reports are all it knows: another estimate changes nothing, other reports do. An oracle believes the estimate. */
static void test_knows_reports_only(void **state)
{
    struct trace trace = { 0 };
    uint64_t plain, oracle;

    (void)state;
    elastic_trace(&trace, 3, 1200);
    plain = digest_of((struct play){ .policy = "optimus" }, &trace);
    assert_int_equal(digest_of((struct play){ .policy = "optimus" }, &trace), plain);
    assert_int_equal(
        digest_of((struct play){ .policy = "optimus", .keys = { "estimate-error" }, .values = { "3" } }, &trace),
        plain);
    assert_int_not_equal(
        digest_of((struct play){ .policy = "optimus", .keys = { "loss-noise" }, .values = { "0.1" } }, &trace), plain);
    oracle = digest_of((struct play){ .policy = "optimus", .keys = { "oracle" }, .values = { "on" } }, &trace);
    assert_int_not_equal(oracle, plain);
    assert_int_equal(digest_of((struct play){ .policy = "optimus",
                                              .keys = { "oracle", "loss-noise", "speed-noise" },
                                              .values = { "on", "0.5", "0.5" } },
                               &trace),
                     oracle);
    assert_int_not_equal(
        digest_of((struct play){ .policy = "optimus", .keys = { "oracle", "estimate-error" }, .values = { "on", "3" } },
                  &trace),
        oracle);
    trace_done(&trace);
}

/* What was learned survives a restart of the controller. */
static void test_reload(void **state)
{
    struct trace trace = { 0 };
    struct play p = { .policy = "optimus", .keys = { "migrate", "mtbf" }, .values = { "60s", "20h" } };
    uint64_t plain;

    (void)state;
    elastic_trace(&trace, 4, 1200);
    plain = digest_of(p, &trace);
    p.reload = 40;
    assert_int_equal(digest_of(p, &trace), plain);
    trace_done(&trace);
}

/* How long it said a job would still take, against how long it took. The prediction is for the size of that moment, so
 * only jobs that were left alone can be compared: one at a time on its own cluster. */
static void test_remaining_error(void **state)
{
    struct play p = { .policy = "optimus", .guess_max = 20000 };
    int runs = 12;

    (void)state;
    p.guesses = mem_zalloc(p.guess_max, sizeof(*p.guesses));
    assert_non_null(p.guesses);
    for (int seed = 1; seed <= runs; seed++) {
        struct trace trace = { 0 };
        struct run_result result;

        elastic_trace(&trace, (uint64_t)seed, 60000);
        p.guess_count = 0;
        result = run(&p, &trace);
        for (size_t i = 0; i < p.guess_count; i++) {
            const struct guess *g = &p.guesses[i];
            const struct job_result *job = &result.jobs[g->index];
            double left = (double)(job->end - g->at), life = (double)(job->end - job->start);
            int quarter = (int)(4 * (1 - left / life));

            /* Twice is the cap of what one prediction may add. */
            p.error[quarter] += fmin(fabs((double)g->left - left) / life, 2);
            p.errors[quarter]++;
        }
        run_result_done(&result);
        trace_done(&trace);
    }
    for (int q = 0; q < 4; q++)
        printf("# time to completion, quarter %d of a job's life: off by %.1f %% of it (%d predictions)\n", q + 1,
               p.errors[q] ? p.error[q] / p.errors[q] * 100 : 0, p.errors[q]);
    assert_true(p.errors[2] > 50 && p.error[2] / p.errors[2] < 0.20);
    assert_true(p.errors[3] > 50 && p.error[3] / p.errors[3] < 0.20);
    mem_free(p.guesses);
}

/* With room to share, sizes that fit are worth more than sizes that were asked for. */
static void test_better_than_fixed(void **state)
{
    double mean = 0, least = HUGE_VAL;

    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct play fixed = { .policy = "fifo-skip" }, sized = { .policy = "optimus" };
        struct trace trace = { 0 };
        struct run_result a, b;

        elastic_trace(&trace, seed, 4000);
        a = run(&fixed, &trace);
        b = run(&sized, &trace);
        mean += a.summary.avg_jct / b.summary.avg_jct / 10;
        least = fmin(least, a.summary.avg_jct / b.summary.avg_jct);
        assert_true(b.summary.gpu_utilization <= 1.0);
        run_result_done(&a);
        run_result_done(&b);
        trace_done(&trace);
    }
    printf("# average JCT at the sizes asked for over that of optimus: mean %.2f, least %.2f\n", mean, least);
    assert_true(mean > 1.0);
}

/* Jobs with parameter servers: sizes of both kinds follow the gain, and no node has more tasks than CPUs. */
static void look_at_servers(void *arg, const struct core *core)
{
    struct play *p = arg;
    const struct ledger *ledger = core_ledger(core);
    double used[64] = { 0 };

    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct job *job = core_job(core, i);
        int32_t servers = core_servers(core, i), parts[64] = { 0 }, nodes = 0, at = 0;

        if (!job_holds(job->state))
            continue;
        if (servers > p->servers_most)
            p->servers_most = servers;
        for (uint32_t s = job->shares; s != SHARE_NONE; s = ledger->shares[s].next_of_job)
            nodes += parts[ledger->gpus[ledger->shares[s].gpu].node]++ == 0;
        for (uint32_t n = 0; n < ledger->topo.node_count; n++)
            if (parts[n])
                used[n] += 2 * (parts[n] + servers / nodes + (at++ < servers % nodes));
    }
    for (uint32_t n = 0; n < ledger->topo.node_count; n++)
        p->cpus_most = fmax(p->cpus_most, used[n] / (4.0 * ledger->topo.nodes[n].gpus));
}

static void served_trace(struct trace *trace, uint64_t seed)
{
    static const char *const models[] = { "resnet50", "vgg16", "inception3", "lstm", "dqn", "gpt2" };
    struct rng rng;
    usec_t at = 0;

    rng_seed(&rng, seed);
    for (int i = 0; i < 24; i++) {
        const char *model = models[rng_below(&rng, 6)];
        struct trace_job job;

        trace_job_init(&job);
        at += (usec_t)rng_below(&rng, 5000) * USEC_SEC;
        job.spec.id = i;
        job.spec.submit = at;
        job.spec.gpus = 2;
        job.spec.gpus_min = 1;
        job.spec.gpus_max = 12;
        job.spec.servers = 2;
        job.spec.batch = 256;
        job.truth.iterations = 4000 + (int64_t)rng_below(&rng, 36000);
        assert_int_equal(names_put(&trace->models, model, strlen(model), &job.spec.model), 0);
        assert_int_equal(trace_add(trace, &job), 0);
    }
}

static void test_servers(void **state)
{
    char path[512];
    double mean = 0;

    (void)state;
    data_path("servers.csv", path, sizeof(path));
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct play fixed = { .policy = "fifo-skip",
                              .cluster = "nodes:6 gpus:4 sku:V100",
                              .keys = { "speed", "migrate" },
                              .values = { path, "20s" } };
        struct play sized = fixed, told;
        struct trace trace = { 0 };
        struct run_result a, b, c;

        sized.policy = "optimus";
        sized.watch = look_at_servers;
        told = sized;
        told.keys[2] = "oracle";
        told.values[2] = "on";
        served_trace(&trace, seed);
        a = run(&fixed, &trace);
        b = run(&sized, &trace);
        c = run(&told, &trace);
        printf("# servers, seed %d: average JCT %.0f s as asked for, %.0f s sized, %.0f s by an oracle; up to %d "
               "servers\n",
               (int)seed, a.summary.avg_jct, b.summary.avg_jct, c.summary.avg_jct, (int)sized.servers_most);
        if (sized.cpus_most > 1 + 1e-9)
            fail_msg("a node has %.3f times its CPUs in use", sized.cpus_most);
        assert_true(sized.servers_most > 2);
        mean += a.summary.avg_jct / b.summary.avg_jct / 6;
        run_result_done(&a);
        run_result_done(&b);
        run_result_done(&c);
        trace_done(&trace);
    }
    printf("# servers: average JCT as asked for over that of optimus: mean %.2f\n", mean);
    assert_true(mean > 1.1);
}

/* One GPU in ten is slow, and so is every gang on it: workers that are found slow are replaced. */
static void test_stragglers(void **state)
{
    double mean = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct play off = { .policy = "optimus",
                            .cluster = "nodes:10 gpus:4 sku:V100",
                            .keys = { "slow", "migrate", "stragglers" },
                            .values = { "0.1", "20s", "off" } };
        struct play on = off;
        struct trace trace = { 0 };
        struct run_result a, b;

        on.values[2] = "on";
        elastic_trace(&trace, seed, 4000);
        a = run(&off, &trace);
        b = run(&on, &trace);
        mean += a.summary.avg_jct / b.summary.avg_jct / 6;
        run_result_done(&a);
        run_result_done(&b);
        trace_done(&trace);
    }
    printf("# stragglers: average JCT without over with replacing them: mean %.2f\n", mean);
    assert_true(mean > 1.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_knows_reports_only),
        cmocka_unit_test(test_reload),
        cmocka_unit_test(test_remaining_error),
        cmocka_unit_test(test_better_than_fixed),
        cmocka_unit_test(test_servers),
        cmocka_unit_test(test_stragglers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
