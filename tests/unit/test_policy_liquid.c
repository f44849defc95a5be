/* SPDX-License-Identifier: Apache-2.0 */
/* test_policy_liquid.c - Liquid in the simulator: its published workload, and best fit node by node against best fit by
 * buckets. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/core_internal.h"
#include "long_test.h"
#include "policy/list.h"
#include "policy/registry.h"
#include "sim/metrics/metrics.h"
#include "sim/scenario.h"
#include "solve/net_score.h"
#include "wire/cluster/cluster.h"
#include "work/place_batch.h"

/* ---- the published workload ---- */

/* Run times by placement of section 9: eight jobs of a server and two workers on three nodes of four GPUs. */
static const char table[] = "model,placement,seconds\n"
                            "vgg16,pww,510\nvgg16,pw:w,767\nvgg16,p:ww,1190\nvgg16,p:w:w,810\n"
                            "resnet50,pww,203\nresnet50,pw:w,204\nresnet50,p:ww,255\nresnet50,p:w:w,210\n"
                            "inception3,pww,289\ninception3,pw:w,295\ninception3,p:ww,310\ninception3,p:w:w,290\n";

enum { JOBS = 8, ORDERS_OF_JOBS = 1000 };

static void make_trace(struct trace *trace, uint64_t seed)
{
    static const char *const models[] = { "vgg16", "resnet50", "inception3" };
    static const usec_t alone[] = { 510 * USEC_SEC, 203 * USEC_SEC, 289 * USEC_SEC };
    uint32_t order[JOBS];
    struct rng rng;

    rng_seed(&rng, seed);
    for (uint32_t i = 0; i < JOBS; i++)
        order[i] = i % 3;
    for (uint32_t i = JOBS; i > 1; i--) {
        uint32_t k = (uint32_t)rng_below(&rng, i), model = order[k];

        order[k] = order[i - 1];
        order[i - 1] = model;
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        struct trace_job job;

        trace_job_init(&job);
        job.spec.id = i;
        job.spec.gpus = job.spec.gpus_min = job.spec.gpus_max = 3;
        job.spec.gpu_servers = 1;
        job.spec.bandwidth = 1;
        job.truth.duration = alone[order[i]];
        assert_int_equal(names_put(&trace->models, models[order[i]], strlen(models[order[i]]), &job.spec.model), 0);
        assert_int_equal(trace_add(trace, &job), 0);
    }
    trace_sort(trace);
}

struct figures {
    double jct, makespan;
};

/* `place`: of the policy; for batches their interval. */
static struct figures run(const char *policy, const char *place, const char *speed, uint64_t seed)
{
    const struct setting settings[] = { { "speed", speed },
                                        { strcmp(policy, "liquid-batch") == 0 ? "interval" : "place", place } };
    struct scenario_request request = { policy, settings, place ? 2 : 1 };
    struct cluster_spec cluster = { 0 };
    struct trace trace = { 0 };
    struct scenario scenario;
    struct run_result result = { 0 };
    struct error err = { 0 };
    struct figures figures;

    make_trace(&trace, seed);
    assert_int_equal(cluster_parse("3x4", &cluster, &err), 0);
    if (scenario_init(&scenario, &cluster, &trace, &request, &err) < 0 ||
        scenario_run(&scenario, seed, &result, &err) < 0)
        fail_msg("%s", err.text);
    figures = (struct figures){ result.summary.avg_jct, result.summary.makespan };
    assert_int_equal(result.summary.finished, JOBS);
    run_result_done(&result);
    scenario_done(&scenario);
    trace_done(&trace);
    cluster_spec_done(&cluster);
    return figures;
}

/* Over 1,000 orders, in five lots of 200: mean completion 646, 634, 613 and 531 s in the notes on the paper's artifact.
 */
static void published_workload(void **state)
{
    static const char *const places[] = { "random", "spread", "pack", "liquid" };
    double jct[4] = { 0 }, makespan[4] = { 0 };
    char path[] = "/tmp/muster-roles-XXXXXX";
    int fd;

    (void)state;
    LONG_TEST();
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, table, sizeof(table) - 1), (ssize_t)sizeof(table) - 1);
    (void)close(fd);
    for (int lot = 0; lot < 5; lot++) {
        double mean[4] = { 0 };

        for (uint64_t seed = 0; seed < ORDERS_OF_JOBS / 5; seed++)
            for (int p = 0; p < 4; p++) {
                struct figures f = run("fifo", places[p], path, (uint64_t)lot * 1000 + seed);

                mean[p] += f.jct / (ORDERS_OF_JOBS / 5);
                jct[p] += f.jct / ORDERS_OF_JOBS;
                makespan[p] += f.makespan / ORDERS_OF_JOBS;
            }
        assert_true(mean[3] <= 0.90 * mean[2]); /* pack */
        assert_true(mean[3] <= 0.87 * mean[0]); /* random */
        assert_true(mean[3] <= 0.87 * mean[1]); /* spread */
    }
    (void)unlink(path);
    for (int p = 0; p < 4; p++)
        print_message("# %-8s mean completion %.0f s, makespan %.0f s; best fit is %.1f %% below\n", places[p], jct[p],
                      makespan[p], 100 * (1 - jct[3] / jct[p]));
    assert_true(jct[0] > 630 && jct[0] < 662);
    assert_true(jct[1] > 618 && jct[1] < 650);
    assert_true(jct[2] > 598 && jct[2] < 628);
    assert_true(jct[3] > 518 && jct[3] < 544);
}

/* ---- batches ---- */

/* Without the wait for the interval, placing together is better; and the same each time. */
static void batches_are_better(void **state)
{
    double one = 0, together = 0, waited = 0;
    char path[] = "/tmp/muster-roles-XXXXXX";
    int fd;

    (void)state;
    LONG_TEST();
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, table, sizeof(table) - 1), (ssize_t)sizeof(table) - 1);
    (void)close(fd);
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct figures f = run("liquid-batch", "0.1s", path, seed);

        assert_true(f.jct == run("liquid-batch", "0.1s", path, seed).jct);
        together += f.jct / 60;
        waited += run("liquid-batch", NULL, path, seed).jct / 60;
        one += run("liquid", NULL, path, seed).jct / 60;
    }
    (void)unlink(path);
    print_message("# mean completion: one by one %.0f s, in batches %.0f s, with 15 s of gathering %.0f s\n", one,
                  together, waited);
    assert_true(together <= one);
    assert_true(waited <= one + 45); /* three waves of jobs, an interval each */
}

/* What no planner sends is refused in words, and answered with nothing. */
static void bad_requests_are_refused(void **state)
{
    static const int64_t good[] = {
        PLACE_VERSION, 1, 10, 40, 1, 1, 2, 1, 0, 0, 4, 2, -1, 0, 0, 4, 1, -1, 1, 4, 1, 2, 1
    };
    enum { WORDS = sizeof(good) / sizeof(*good) };
    int64_t words[WORDS], out[16];
    struct work_answer answer = { out, 0, 16 };
    struct error err = { 0 };

    (void)state;
    assert_int_equal(work_run(SOLVE_PLACE, good, WORDS, &answer, &err), 0);
    assert_int_equal(answer.count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(out[i], 1);
    for (uint32_t i = 0; i < WORDS; i++) {
        assert_true(work_run(SOLVE_PLACE, good, i, &answer, &err) < 0);
        assert_int_equal(answer.count, 0);
        for (int k = 0; k < 3; k++) {
            memcpy(words, good, sizeof(good));
            words[i] = k == 0 ? INT64_MAX : k == 1 ? INT64_MIN : words[i] + 100000;
            if (work_run(SOLVE_PLACE, words, WORDS, &answer, &err) < 0)
                assert_int_equal(answer.count, 0);
        }
    }
    /* Nothing has room for seven tasks on five GPUs. */
    memcpy(words, good, sizeof(good));
    words[WORDS - 2] = 6;
    assert_int_equal(work_run(SOLVE_PLACE, words, WORDS, &answer, &err), -ENOSPC);
}

/* ---- gaps between jobs ---- */

enum { GAP_JOBS = 80 };

struct gap {
    double mean, jct;
    uint64_t count, digest;
};

/* 80 jobs of one GPU that are there from the start, on four GPUs: back to back. */
static struct gap run_gaps(const struct setting *settings, size_t count, usec_t stage, int estimate, uint64_t seed)
{
    struct scenario_request request = { "liquid", settings, count };
    struct cluster_spec cluster = { 0 };
    struct trace trace = { 0 };
    struct scenario scenario;
    struct run_result result = { 0 };
    struct error err = { 0 };
    struct gap gap;
    struct rng rng;

    rng_seed(&rng, seed);
    for (uint32_t i = 0; i < GAP_JOBS; i++) {
        struct trace_job job;

        trace_job_init(&job);
        job.spec.id = i;
        job.truth.duration = (usec_t)(200 + rng_below(&rng, 700)) * USEC_SEC;
        job.truth.launch = job.truth.save = stage;
        job.spec.estimate = estimate == 0 ? 0 : estimate > 0 ? 2 * job.truth.duration : job.truth.duration / 2;
        assert_int_equal(trace_add(&trace, &job), 0);
    }
    assert_int_equal(cluster_parse("1x4", &cluster, &err), 0);
    if (scenario_init(&scenario, &cluster, &trace, &request, &err) < 0)
        fail_msg("%s", err.text);
    scenario.driver.reload_every = seed == 1 && count == 1 ? 5 : 0; /* restarts of the controller change nothing */
    if (scenario_run(&scenario, seed, &result, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(result.summary.finished, GAP_JOBS);
    gap = (struct gap){ (double)result.idle_gap / (double)result.idle_gaps / (double)USEC_SEC, result.summary.avg_jct,
                        result.idle_gaps, result.summary.digest };
    run_result_done(&result);
    scenario_done(&scenario);
    trace_done(&trace);
    cluster_spec_done(&cluster);
    return gap;
}

/* Jobs that launch and save for 30 s each: four fifths of the idle time are gone, and more. */
static void prestart_closes_gaps(void **state)
{
    const struct setting on[] = { { "prestart", "on" } };
    double before = 0, after = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct gap off = run_gaps(NULL, 0, 30 * USEC_SEC, 0, seed), early = run_gaps(on, 1, 30 * USEC_SEC, 0, seed);

        assert_int_equal(off.count, GAP_JOBS - 4);
        assert_int_equal(early.count, GAP_JOBS - 4);
        assert_true(early.mean <= 0.2 * off.mean);
        assert_true(early.jct < off.jct);
        before += off.mean / 5;
        after += early.mean / 5;
    }
    print_message("# idle between jobs %.1f s, with prestart %.1f s: %.1f %% less\n", before, after,
                  100 * (1 - after / before));
}

/* Predictions of all stages wrong by up to a factor of two, at random; run times twice, or half, what they are. */
static void wrong_predictions_cost_nothing(void **state)
{
    const struct setting wrong[] = { { "stage-error", "1" }, { "estimate-error", "1" }, { "prestart", "on" } };
    const struct setting on[] = { { "prestart", "on" }, { "stage-error", "1" } };

    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct gap off = run_gaps(NULL, 0, 30 * USEC_SEC, 0, seed);
        struct gap drawn = run_gaps(wrong, 3, 30 * USEC_SEC, 0, seed);
        struct gap twice = run_gaps(on, 2, 30 * USEC_SEC, 1, seed), half = run_gaps(on, 2, 30 * USEC_SEC, -1, seed);

        print_message("# mean completion %.0f s; early: drawn %.0f, twice %.0f, half %.0f\n", off.jct, drawn.jct,
                      twice.jct, half.jct);
        assert_true(drawn.jct <= off.jct);
        assert_true(twice.jct <= off.jct);
        assert_true(half.jct <= off.jct);
    }
}

/* What is told at once leaves no gap; heartbeats cost half a beat. */
static void events_beat_heartbeats(void **state)
{
    const struct setting beat[] = { { "heartbeat", "5s" } };

    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct gap events = run_gaps(NULL, 0, 0, 0, seed), beats = run_gaps(beat, 1, 0, 0, seed);

        assert_true(events.mean < 0.5);
        assert_true(beats.mean > 1.5 && beats.mean < 3.5);
        if (seed == 1)
            print_message("# idle between jobs: events %.2f s, heartbeats of 5 s %.2f s\n", events.mean, beats.mean);
    }
}

/* ---- by buckets, and node by node ---- */

enum { NODES = 24, GANG = 12 };

struct plain {
    uint32_t rack[NODES], domain[NODES], scratch[4][NODES];
    uint16_t gpus[NODES], used[NODES];
    double rack_hop[NODES], domain_hop[NODES];
    struct net_scratch s;
    struct net_map map;
};

static void plain_of(struct plain *plain, const struct core *core)
{
    const struct topo *topo = &core->ledger.topo;

    memset(plain, 0, sizeof(*plain));
    for (uint32_t n = 0; n < topo->node_count; n++) {
        plain->rack[n] = topo_above(topo, n, LEVEL_RACK) - topo_above(topo, 0, LEVEL_RACK);
        plain->domain[n] = topo_above(topo, n, LEVEL_DOMAIN) - topo_above(topo, 0, LEVEL_DOMAIN);
        plain->gpus[n] = topo->nodes[n].gpus;
        plain->used[n] = (uint16_t)(topo->nodes[n].gpus - topo->nodes[n].free);
        plain->rack_hop[n] = 1;
        plain->domain_hop[n] = 4;
    }
    plain->s = (struct net_scratch){ plain->scratch[0], plain->scratch[1], plain->scratch[2], plain->scratch[3], 0 };
    plain->map = (struct net_map){ .nodes = topo->node_count,
                                   .racks = plain->rack[topo->node_count - 1] + 1,
                                   .domains = plain->domain[topo->node_count - 1] + 1,
                                   .rack = plain->rack,
                                   .domain = plain->domain,
                                   .gpus = plain->gpus,
                                   .rack_hop = plain->rack_hop,
                                   .domain_hop = plain->domain_hop,
                                   .far = 40 };
}

/* The score of all tasks on the fullest node that has room for them; none: more than any. */
static double score_on_one(const struct plain *plain, const uint16_t *used, const struct net_job *job,
                           const uint8_t *is_server)
{
    uint32_t tasks = job->servers + job->workers, best = NODES, place[GANG];

    for (uint32_t n = 0; n < plain->map.nodes; n++)
        if (plain->gpus[n] - used[n] >= (int)tasks &&
            (best == NODES || plain->gpus[n] - used[n] < plain->gpus[best] - used[best]))
            best = n;
    for (uint32_t i = 0; i < tasks; i++)
        place[i] = best;
    return best == NODES ? 1e300 : net_score(&plain->map, used, job, is_server, place);
}

/* What the placement answers scores as the walk over every node does, or where that takes several nodes as all tasks on
 * the fullest node with room for them, whichever is less. Servers are as many as asked for, on GPUs of the answer. */
static void compare(struct core *core, const struct place_request *request)
{
    struct place_ctx *ctx = &core->vcs[0].place;
    uint32_t servers = request->servers, tasks = (uint32_t)request->gpus, walked[GANG], asked[GANG], at = 0, w = 0;
    struct net_job job = { 0, servers, tasks - servers, request->bandwidth, 0 };
    uint32_t server_nodes[GANG], worker_nodes[GANG], p = 0;
    uint8_t is_server[GANG];
    uint16_t before[NODES];
    struct plain plain;
    struct net_fit fit;
    double a, b, one;

    plain_of(&plain, core);
    memcpy(before, plain.used, sizeof(before));
    net_interleave(servers, tasks - servers, is_server);
    fit = (struct net_fit){ &plain.map, plain.used, NULL, 0, NULL, &plain.s };
    ctx->server_count = 0;
    if (place_liquid.find(ctx, request) < 0) {
        assert_int_equal(net_best_fit(&fit, &job, is_server, walked), -1);
        return;
    }
    assert_int_equal(net_best_fit(&fit, &job, is_server, walked), 0);
    assert_int_equal(ctx->server_count, servers);
    for (uint32_t i = 0; i < tasks; i++) {
        bool serves = false;

        for (uint32_t k = 0; k < servers; k++)
            serves |= ctx->servers[k] == ctx->out[i];
        if (serves)
            server_nodes[p++] = core->ledger.gpus[ctx->out[i]].node;
        else
            worker_nodes[w++] = core->ledger.gpus[ctx->out[i]].node;
    }
    assert_int_equal(p, servers);
    for (p = w = 0; at < tasks; at++)
        asked[at] = is_server[at] ? server_nodes[p++] : worker_nodes[w++];
    a = net_score(&plain.map, before, &job, is_server, asked);
    b = net_score(&plain.map, before, &job, is_server, walked);
    one = net_nodes(&job, walked, &plain.s) == 1 ? b : score_on_one(&plain, before, &job, is_server);
    if (servers <= 1 && a > (b < one ? b : one) + 1e-9)
        fail_msg("score %.6f, the walk over every node has %.6f, all on one node %.6f", a, b, one);
}

static void buckets_are_enough(void **state)
{
    struct rng rng;

    (void)state;
    rng_seed(&rng, 3);
    for (int round = 0; round < 1500; round++) {
        struct policy_setup policy;
        struct core_config config = { .limits = { .jobs = 64 }, .policies = &policy, .seed = 1 };
        uint32_t racks = 1 + (uint32_t)rng_below(&rng, 4), nodes = 1 + (uint32_t)rng_below(&rng, 4), gpus = 4;
        struct place_request request = { .share = MGPU_ONE, .bandwidth = 1 + (uint32_t)rng_below(&rng, 3) };
        struct cluster_spec cluster = { 0 };
        struct core *core;
        char text[64];

        policy_setup(policy_find("liquid"), &policy);
        (void)snprintf(text, sizeof(text), "racks:%u nodes:%u gpus:%u", racks, nodes, gpus);
        assert_int_equal(cluster_parse(text, &cluster, NULL), 0);
        assert_int_equal(core_new(&cluster, &config, &core, NULL), 0);
        for (uint32_t g = 0; g < racks * nodes * gpus; g++)
            if (rng_below(&rng, 3) == 0)
                assert_int_equal(core_offer(core, &(struct event){ .kind = EVENT_GPU, .target = g }, NULL, NULL), 0);
        (void)core_step(core, 0);
        request.gpus = 1 + (int32_t)rng_below(&rng, 8);
        request.servers = (uint32_t)rng_below(&rng, (uint64_t)request.gpus < 3 ? (uint64_t)request.gpus : 3);
        compare(core, &request);
        core_free(core);
        cluster_spec_done(&cluster);
    }
}

/* ---- predictions ---- */

struct learned {
    uint64_t digest;
    double jct;
    char warning[256];
};

/* 200 jobs of one GPU by four programs, each with its own utilisation and memory, on four GPUs of 16 GiB. */
static struct learned run_learned(const struct setting *settings, size_t count)
{
    static const char *const models[] = { "bert", "vgg16", "dqn", "lstm" };
    struct scenario_request request = { "liquid", settings, count };
    struct cluster_spec cluster = { 0 };
    struct trace trace = { 0 };
    struct scenario scenario;
    struct run_result result = { 0 };
    struct error err = { 0 };
    struct learned learned;
    struct rng rng;

    rng_seed(&rng, 4);
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t m = (uint32_t)rng_below(&rng, 4);
        struct trace_job job;

        trace_job_init(&job);
        job.spec.id = i;
        job.spec.submit = (usec_t)i * 20 * USEC_SEC;
        job.spec.batch = 16u << rng_below(&rng, 3);
        job.spec.utilisation = (uint16_t)(20 + 20 * m);
        job.spec.memory_mib = 2000 + 1500 * m;
        job.truth.duration = (usec_t)(100 + rng_below(&rng, 200)) * USEC_SEC;
        job.truth.launch = job.truth.save = 10 * USEC_SEC;
        assert_int_equal(names_put(&trace.models, models[m], strlen(models[m]), &job.spec.model), 0);
        assert_int_equal(trace_add(&trace, &job), 0);
    }
    trace_sort(&trace);
    assert_int_equal(cluster_parse("1x4", &cluster, &err), 0);
    cluster.skus[0].memory_mib = 16384;
    if (scenario_init(&scenario, &cluster, &trace, &request, &err) < 0 || scenario_run(&scenario, 1, &result, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(result.summary.finished, 200);
    learned = (struct learned){ .digest = result.summary.digest, .jct = result.summary.avg_jct };
    memcpy(learned.warning, result.warning, sizeof(learned.warning));
    run_result_done(&result);
    scenario_done(&scenario);
    trace_done(&trace);
    cluster_spec_done(&cluster);
    return learned;
}

static void put_file(char *path, const void *data, size_t size)
{
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), (ssize_t)size);
    (void)close(fd);
}

/* A model that is missing, cut short, of an older version or about something else: a warning, and the very decisions
 * that would have been taken without one. */
static void bad_models_change_nothing(void **state)
{
    char none[] = "/tmp/muster-no-such-model", old[] = "/tmp/muster-model-XXXXXX", text[] = "/tmp/muster-model-XXXXXX";
    const struct setting missing[] = { { "estimator", none } }, older[] = { { "estimator", old } };
    const struct setting other[] = { { "estimator", text } };
    struct learned plain = run_learned(NULL, 0), l;

    (void)state;
    put_file(old, "MUSTERFC\0\0\0\0aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb", 44);
    put_file(text, "model,batch\nbert,32\n", 20);
    assert_string_equal(plain.warning, "");
    l = run_learned(missing, 1);
    assert_int_equal(l.digest, plain.digest);
    assert_non_null(strstr(l.warning, "requests are taken as stated"));
    l = run_learned(older, 1);
    assert_int_equal(l.digest, plain.digest);
    assert_non_null(strstr(l.warning, "version 0; this program reads version 1"));
    l = run_learned(other, 1);
    assert_int_equal(l.digest, plain.digest);
    assert_non_null(strstr(l.warning, "not a model"));
    (void)unlink(old);
    (void)unlink(text);
}

/* Shares by utilisation: more jobs at once, none beyond the memory of a GPU; learned while it runs, the same each time.
 */
static void shares_by_prediction(void **state)
{
    const struct setting share[] = { { "share-gpus", "on" }, { "retrain", "20" } };
    struct learned whole = run_learned(NULL, 0), told = run_learned(share, 1), learned = run_learned(share, 2);

    (void)state;
    print_message("# mean completion: whole GPUs %.0f s, shared as told %.0f s, as learned %.0f s\n", whole.jct,
                  told.jct, learned.jct);
    assert_true(told.jct < whole.jct);
    assert_true(learned.jct < whole.jct);
    assert_int_equal(learned.digest, run_learned(share, 2).digest);
    assert_string_equal(learned.warning, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_workload),       cmocka_unit_test(buckets_are_enough),
        cmocka_unit_test(prestart_closes_gaps),     cmocka_unit_test(batches_are_better),
        cmocka_unit_test(bad_requests_are_refused), cmocka_unit_test(bad_models_change_nothing),
        cmocka_unit_test(shares_by_prediction),     cmocka_unit_test(wrong_predictions_cost_nothing),
        cmocka_unit_test(events_beat_heartbeats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
