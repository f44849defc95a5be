/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_singularity.c - the policy `singularity` on overloaded clusters, watched from outside: are the promises of
 * tiers kept in every window, does anybody lose work, does a GPU lie idle that somebody could use, how soon does a
 * premium job start on a full cluster. What its specification says that an implementation must reproduce:
 *
 *   1  stopped any number of times, the same work; only the latency is added   work_is_kept
 *   2  no window of an admitted job below its floor                            floors_are_kept, floors_on_few_gpus
 *   3  no GPU idle that a basic job could use                                  floors_are_kept
 *   4  a premium job starts within barrier and dump on a full cluster          floors_are_kept
 *
 * The watch keeps its own account from what it sees at every instant; it believes nothing the planner says but whom
 * something was promised.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "core/core_internal.h"
#include "long_test.h"
#include "model/splice.h"
#include "policy/singularity/singularity.h"
#include "sim/scenario.h"
#include "wire/cluster/cluster.h"

#define S(seconds) ((usec_t)(seconds)*USEC_SEC)

enum { JOBS_MAX = 2000 };

struct seen {
    bool promised, running, begun;
    uint8_t tier;
    int32_t gpus, world;
    usec_t begin, arrived, claimed; /* of the window; in the system; when it was first given GPUs */
    __int128 done;                  /* GPU-time in the window */
    bool held;
    ppm_t rate;
    __int128 work; /* progress in all, in millionths of microseconds */
    usec_t stood;  /* it held GPUs and did not run */
};

struct watch {
    struct seen jobs[JOBS_MAX];
    usec_t at;
    int64_t windows[TIER_COUNT], below[TIER_COUNT], idle, premium, premium_late;
    usec_t worst, premium_wait;
    int64_t bad;              /* proposals that the core refused */
    __int128 scattered, free; /* GPU-time free on nodes in use, and on all */
    uint32_t scattered_now, free_now;
    int64_t spanning, drained_late; /* instants at which a job lies in two regions; at which a node should be empty */
    usec_t closed_at[8];
    bool quiet; /* print nothing of what was missed */
};

static const ppm_t tau[TIER_COUNT] = { 950000, 700000, 0 };

static void window_over(struct watch *w, int64_t id, struct seen *j)
{
    __int128 least = (__int128)tau[j->tier] * USEC_HOUR * j->world / PPM_ONE;

    w->windows[j->tier]++;
    if (j->done + (__int128)j->world * USEC_MSEC < least) {
        usec_t missed = (usec_t)((least - j->done) / j->world);

        w->below[j->tier]++;
        w->worst = missed > w->worst ? missed : w->worst;
        if (!w->quiet)
            printf("# job %lld tier %d world %d: window from %lld s is %lld s short\n", (long long)id, j->tier,
                   j->world, (long long)(j->begin / USEC_SEC), (long long)(missed / USEC_SEC));
    }
    j->begin += USEC_HOUR;
    j->done = 0;
}

/* Between two instants nothing changes. */
static void account(struct watch *w, usec_t now)
{
    w->scattered += (__int128)w->scattered_now * (now - w->at);
    w->free += (__int128)w->free_now * (now - w->at);
    for (int64_t id = 0; id < JOBS_MAX; id++) {
        struct seen *j = &w->jobs[id];
        usec_t from = w->at;

        j->work += j->running ? (__int128)j->rate * (now - w->at) : 0;
        j->stood += j->held && !j->running ? now - w->at : 0;
        if (!j->promised)
            continue;
        while (now >= j->begin + USEC_HOUR) {
            usec_t end = j->begin + USEC_HOUR;

            if (j->running && end > from)
                j->done += (__int128)j->gpus * (end - from);
            from = end > from ? end : from;
            window_over(w, id, j);
        }
        if (j->running && now > from)
            j->done += (__int128)j->gpus * (now - from);
    }
    w->at = now;
}

/* Whether a job that waits, or a basic one below its size, could have what is free now. */
static bool could_use(const struct core *core, uint32_t index, uint32_t free)
{
    const struct job *job = &core->jobs[index];
    usec_t since = job->disturbed > job->last_start ? job->disturbed : job->last_start;

    if (job->spec.tp > 1 || job->spec.pp > 1)
        return false; /* may be a matter of nodes */
    if (job_waits(job->state))
        return splice_least(&job->spec) <= (int32_t)free;
    if (job->state != JOB_RUNNING || core->now - since < 120 * USEC_SEC)
        return false;
    return splice_fit(&job->spec, job->gpus + (int32_t)free) > job->gpus;
}

static void look_idle(struct watch *w, const struct core *core)
{
    uint32_t free = view_free(&core->view, 0);

    if (core->planned_at != core->now || free == 0)
        return; /* it will be looked at a microsecond on */
    for (uint32_t i = 0; i < core->job_top; i++)
        if (core->jobs[i].state == JOB_STOPPING || core->jobs[i].sheds || core->jobs[i].state == JOB_CLAIMING)
            return; /* GPUs are on their way to somebody */
    for (uint32_t i = 0; i < core->job_top; i++)
        if (core->jobs[i].state != JOB_FREE && core->jobs[i].state != JOB_OFFERED && could_use(core, i, free)) {
            w->idle++;
            if (!w->quiet)
                printf("# %lld s: %u GPUs idle, job %lld (%d of %d) could use some\n",
                       (long long)(core->now / USEC_SEC), free, (long long)core->jobs[i].spec.id, core->jobs[i].gpus,
                       core->jobs[i].spec.gpus);
            return;
        }
}

/* Jobs lie in one region each, and a drained node is empty after ten minutes. */
static void look_nodes(struct watch *w, const struct core *core)
{
    const struct ledger *ledger = &core->ledger;

    for (uint32_t i = 0; i < core->job_top; i++) {
        uint32_t first = UINT32_MAX;

        for (uint32_t s = core->jobs[i].state == JOB_RUNNING ? core->jobs[i].shares : SHARE_NONE; s != SHARE_NONE;
             s = ledger->shares[s].next_of_job) {
            uint32_t domain = topo_above(&ledger->topo, ledger->gpus[ledger->shares[s].gpu].node, LEVEL_DOMAIN);

            w->spanning += first != UINT32_MAX && first != domain;
            first = domain;
        }
    }
    for (uint32_t n = 0; n < ledger->topo.node_count && n < 8; n++) {
        const struct node *node = &ledger->topo.nodes[n];
        bool empty = true;

        for (uint32_t g = node->first_gpu; g < node->first_gpu + node->gpus; g++)
            empty &= ledger->gpus[g].shares == SHARE_NONE;
        w->closed_at[n] = node->up ? 0 : w->closed_at[n] ? w->closed_at[n] : core->now;
        w->drained_late += !node->up && !empty && core->now - w->closed_at[n] > 10 * USEC_MIN;
    }
}

static void on_instant(void *arg, const struct core *core)
{
    struct watch *w = arg;

    account(w, core->now);
    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct job *job = &core->jobs[i];
        struct seen *j = &w->jobs[job->spec.id % JOBS_MAX];

        if (job->state == JOB_FREE || job->state == JOB_OFFERED)
            continue;
        if (!j->begun) {
            j->begun = true;
            j->arrived = core->now;
            j->claimed = -1;
        }
        if (!j->promised && floor_promised(job)) {
            j->promised = true;
            j->begin = core->now;
            j->world = job->spec.gpus;
            j->tier = job->tier;
        }
        j->running = job->state == JOB_RUNNING;
        j->held = job_holds(job->state) && job->state != JOB_CLAIMING;
        j->gpus = job->gpus;
        j->rate = j->running ? splice_rate(&job->spec, job->gpus, 30000) : 0;
        if (job->attempts > 0 && j->claimed < 0) {
            j->claimed = core->now;
            if (j->promised && j->tier == TIER_PREMIUM && j->begin == j->arrived) {
                w->premium++;
                /* Barrier and dump; and nobody is stopped within a second of its start. */
                w->premium_late += core->now - j->arrived > 4 * USEC_SEC;
                w->premium_wait = core->now - j->arrived > w->premium_wait ? core->now - j->arrived : w->premium_wait;
            }
        }
    }
    look_idle(w, core);
    look_nodes(w, core);
    w->scattered_now = w->free_now = 0;
    for (uint32_t n = 0; n < core->ledger.topo.node_count; n++) {
        const struct node *node = &core->ledger.topo.nodes[n];

        w->free_now += node->up ? node->free : 0;
        w->scattered_now += node->up && node->free < node->gpus ? node->free : 0;
    }
}

/* A job that is over has no more windows. */
static void on_decision(void *arg, const struct core *core, const struct decision *d, const uint32_t *gpus)
{
    struct watch *w = arg;

    (void)gpus;
    w->bad += d->kind == DECISION_BAD;
    if (d->kind != DECISION_END && d->kind != DECISION_FAIL)
        return;
    account(w, core->now);
    w->jobs[d->id % JOBS_MAX].promised = false;
    w->jobs[d->id % JOBS_MAX].running = w->jobs[d->id % JOBS_MAX].held = false;
}

/* More work than the cluster can do, by `load`, evenly over the time it would take; tiers dealt out: a fifth premium,
 * two fifths standard, the rest basic. Some of the larger jobs are tensor- or pipeline-parallel. */
static void make_trace(struct trace *trace, uint64_t seed, size_t jobs, int32_t gpus, ppm_t load)
{
    static const int32_t sizes[] = { 1, 1, 1, 2, 2, 4, 4, 8, 8, 16 };
    uint64_t kinds = gpus < 32 ? 9 : 10;
    int64_t work = 0;
    struct rng rng;

    rng_seed(&rng, seed);
    for (size_t i = 0; i < jobs; i++) {
        struct trace_job job;
        uint64_t deal = rng_below(&rng, 100), kind = rng_below(&rng, 4);
        int64_t base = (int64_t)600 << rng_below(&rng, 6);

        trace_job_init(&job);
        job.spec.id = (int64_t)i;
        job.spec.gpus = sizes[rng_below(&rng, kinds)];
        job.spec.gpus_min = job.spec.gpus_max = job.spec.gpus;
        job.spec.tier = deal < 20 ? TIER_PREMIUM : deal < 60 ? TIER_STANDARD : TIER_BASIC;
        if (job.spec.gpus % 4 == 0 && kind == 0)
            job.spec.tp = 2;
        if (job.spec.gpus % 8 == 0 && kind == 1)
            job.spec.pp = 4;
        job.truth.duration = S(base + (int64_t)rng_below(&rng, (uint64_t)base));
        work += job.truth.duration / USEC_SEC * job.spec.gpus;
        assert_int_equal(trace_add(trace, &job), 0);
    }
    for (size_t i = 0; i < jobs; i++)
        trace->jobs[i].spec.submit =
            S(rng_below(&rng, (uint64_t)muldiv_floor(work, PPM_ONE, (int64_t)gpus * load) + 1));
    trace_sort(trace);
}

struct play {
    const char *cluster;
    struct setting settings[4];
    const struct driver_event *script;
    size_t script_count;
    uint32_t reload, carry;
};

static struct run_result run(const struct play *play, const struct trace *trace, struct watch *w)
{
    /* Two GiB a second: no job of these takes more than a minute to be moved. */
    struct setting settings[6] = { { "costs", "singularity" }, { "ckpt-rate", "2" } };
    struct scenario_request request = { "singularity", settings, 2 };
    struct cluster_spec cluster = { 0 };
    struct run_result result = { 0 };
    struct scenario scenario;
    struct error err = { 0 };

    for (int i = 0; i < 4 && play->settings[i].key; i++)
        settings[request.count++] = play->settings[i];
    assert_int_equal(cluster_parse(play->cluster, &cluster, &err), 0);
    if (scenario_init(&scenario, &cluster, trace, &request, &err) < 0)
        fail_msg("%s", err.text);
    scenario.driver.reload_every = play->reload;
    scenario.driver.carry_every = play->carry;
    scenario.driver.script = play->script;
    scenario.driver.script_count = play->script_count;
    scenario.driver.on_instant = on_instant;
    scenario.driver.on_instant_arg = w;
    scenario.driver.on_decision = on_decision;
    scenario.driver.on_decision_arg = w;
    if (scenario_run(&scenario, 1, &result, &err) < 0)
        fail_msg("%s", err.text);
    scenario_done(&scenario);
    cluster_spec_done(&cluster);
    return result;
}

enum { SEEDS = 8 };

/* Overload by half, by two, by three. */
static void floors_are_kept(void **state)
{
    static const ppm_t loads[] = { 1500000, 2000000, 3000000 };

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct watch *w = mem_zalloc(1, sizeof(*w));
        struct trace trace = { 0 };
        struct run_result result;
        usec_t lost = 0;

        assert_non_null(w);
        make_trace(&trace, seed, 400, 64, loads[seed % 3]);
        result = run(&(struct play){ .cluster = "8x8" }, &trace, w);
        for (size_t i = 0; i < trace.count; i++) {
            lost += result.jobs[i].lost;
            assert_int_equal(result.jobs[i].outcome, OUTCOME_DONE);
        }
        printf("# seed %llu, load %.1f: %lld premium windows (%lld below), %lld standard (%lld below, worst %lld s); "
               "%llu preemptions, %llu splices, %lld s lost; %lld instants with an idle GPU; %lld premium arrivals, "
               "%lld later than 4 s (longest %lld s)\n",
               (unsigned long long)seed, (double)loads[seed % 3] / 1e6, (long long)w->windows[TIER_PREMIUM],
               (long long)w->below[TIER_PREMIUM], (long long)w->windows[TIER_STANDARD],
               (long long)w->below[TIER_STANDARD], (long long)(w->worst / USEC_SEC),
               (unsigned long long)result.summary.preemptions, (unsigned long long)result.summary.splices,
               (long long)(lost / USEC_SEC), (long long)w->idle, (long long)w->premium, (long long)w->premium_late,
               (long long)(w->premium_wait / USEC_SEC));
        assert_int_equal(w->below[TIER_PREMIUM], 0);
        assert_int_equal(w->below[TIER_STANDARD], 0);
        assert_int_equal(lost, 0);
        assert_int_equal(w->bad, 0);
        assert_int_equal(w->idle, 0);
        assert_true(w->premium > 0);
        assert_int_equal(w->premium_late, 0);
        run_result_done(&result);
        trace_done(&trace);
        mem_free(w);
    }
}

/* Where a job is a good part of the cluster, what is promised comes in large steps; tensor-parallel groups find GPUs
 * enough, but not side by side. All sorts of tiers, and of one only. */
static void floors_on_few_gpus(void **state)
{
    static const struct {
        const char *name;
        int32_t gpus;
    } clusters[] = { { "4x8", 32 }, { "2x8", 16 }, { "4x4", 16 } };
    static const ppm_t loads[] = { 1500000, 2000000, 3000000 };
    int64_t windows = 0;

    (void)state;
    LONG_TEST();
    for (uint64_t seed = 1; seed <= 10; seed++)
        for (int c = 0; c < 9; c++) {
            struct watch *w = mem_zalloc(1, sizeof(*w));
            struct trace trace = { 0 };
            struct run_result result;

            assert_non_null(w);
            make_trace(&trace, seed, 150, clusters[c / 3].gpus, loads[seed % 3]);
            for (size_t i = 0; i < trace.count && c % 3; i++)
                trace.jobs[i].spec.tier = c % 3 == 1 ? TIER_STANDARD : TIER_PREMIUM;
            result = run(&(struct play){ .cluster = clusters[c / 3].name }, &trace, w);
            windows += w->windows[TIER_PREMIUM] + w->windows[TIER_STANDARD];
            for (size_t i = 0; i < trace.count; i++)
                assert_int_equal(result.jobs[i].lost, 0);
            if (w->below[TIER_PREMIUM] || w->below[TIER_STANDARD])
                fail_msg("seed %d on %s, kind %d", (int)seed, clusters[c / 3].name, c % 3);
            assert_int_equal(w->bad, 0);
            run_result_done(&result);
            trace_done(&trace);
            mem_free(w);
        }
    printf("# %lld windows on 16 and 32 GPUs, none below its floor\n", (long long)windows);
    assert_true(windows > 10000);
}

/* However often a job was stopped, moved and resized: its progress adds up to its duration, and what it held GPUs for
 * without running is what barriers, dumps and copies took, to the microsecond of each. */
static void work_is_kept(void **state)
{
    uint64_t disturbed = 0, most = 0, equal = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct watch *w = mem_zalloc(1, sizeof(*w));
        struct trace trace = { 0 };
        struct run_result result;

        assert_non_null(w);
        make_trace(&trace, seed, 300, 64, 2000000);
        result = run(&(struct play){ .cluster = "8x8", .settings = { { "save-every", "0" } } }, &trace, w);
        for (size_t i = 0; i < trace.count; i++) {
            const struct job_result *job = &result.jobs[i];
            const struct seen *j = &w->jobs[job->id];
            uint64_t times = job->preemptions + job->splices + job->migrations;
            int64_t error = (int64_t)(j->work / PPM_ONE) - trace.jobs[i].truth.duration;

            assert_int_equal(job->lost, 0);
            assert_true(error >= -(int64_t)times - 1 && error <= (int64_t)times + 1);
            /* Less where one was stopped again before it was back. */
            assert_true(j->stood <= job->overhead);
            equal += j->stood == job->overhead;
            disturbed += times > 0;
            most = times > most ? times : most;
        }
        run_result_done(&result);
        trace_done(&trace);
        mem_free(w);
    }
    printf(
        "# %llu jobs were disturbed, one of them %llu times: all their work was kept; %llu of %d stood still for just "
        "what was charged\n",
        (unsigned long long)disturbed, (unsigned long long)most, (unsigned long long)equal, 300 * SEEDS);
    assert_true(disturbed > 100);
    assert_true(equal * 100 >= 300 * SEEDS * 90);
}

/* Two regions, of which one node after the other is drained for an hour. No job lies in both; what stands on a drained
 * node leaves it, with all that it has done. */
static void regions_and_maintenance(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct watch *w = mem_zalloc(1, sizeof(*w));
        struct driver_event script[16];
        struct trace trace = { 0 };
        struct run_result result;
        uint64_t moved = 0;

        assert_non_null(w);
        make_trace(&trace, seed, 200, 64, 1500000);
        for (uint32_t n = 0; n < 16; n++)
            script[n] = (struct driver_event){ .at = S(7200) * (n / 2 + 1) + (n % 2) * USEC_HOUR,
                                               .kind = EVENT_NODE,
                                               .target = n / 2,
                                               .up = n % 2 == 1,
                                               .value = n % 2 == 0 };
        w->quiet = true; /* what is drained is missing, so floors are not held against it */
        result =
            run(&(struct play){ .cluster = "domains:2 racks:1 nodes:4 gpus:8", .script = script, .script_count = 16 },
                &trace, w);
        for (size_t i = 0; i < trace.count; i++) {
            assert_int_equal(result.jobs[i].outcome, OUTCOME_DONE);
            assert_int_equal(result.jobs[i].lost, 0);
            moved += result.jobs[i].migrations + result.jobs[i].preemptions;
        }
        assert_true(moved > 0);
        assert_int_equal(w->spanning, 0);
        assert_int_equal(w->drained_late, 0);
        assert_int_equal(w->bad, 0);
        run_result_done(&result);
        trace_done(&trace);
        mem_free(w);
    }
}

/* Light load and jobs that keep their size: what lies free, and how much of it on nodes that somebody uses. */
static void defragmentation(void **state)
{
    int64_t before = 0, after = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        int64_t mean[2];

        for (int with = 0; with < 2; with++) {
            struct watch *w = mem_zalloc(1, sizeof(*w));
            struct trace trace = { 0 };
            struct run_result result;

            assert_non_null(w);
            w->quiet = true; /* without splicing GPUs do lie idle */
            make_trace(&trace, seed, 300, 128, 600000);
            result = run(&(struct play){ .cluster = "16x8",
                                         .settings = { { "splice", "off" },
                                                       { "optimise", with ? "defrag" : "none" },
                                                       { "save-every", "0" } } },
                         &trace, w);
            mean[with] = (int64_t)(w->scattered * 100 / (w->free ? w->free : 1));
            assert_int_equal(w->bad, 0);
            for (size_t i = 0; i < trace.count; i++)
                assert_int_equal(result.jobs[i].lost, 0);
            if (with)
                printf("# seed %llu: of the free GPUs %lld %% lie on nodes in use without, %lld %% with defrag "
                       "(%llu moves)\n",
                       (unsigned long long)seed, (long long)mean[0], (long long)mean[1],
                       (unsigned long long)result.summary.migrations);
            run_result_done(&result);
            trace_done(&trace);
            mem_free(w);
        }
        before += mean[0];
        after += mean[1];
    }
    printf("# mean of %d seeds: %lld %% without, %lld %% with\n", SEEDS, (long long)(before / SEEDS),
           (long long)(after / SEEDS));
    assert_true(after * 2 < before * 1);
}

enum { EVENTS = 40 };

/* Nodes are drained, die and come back, people cancel; everything is saved and loaded, or carried over, on the way. No
 * proposal is refused, everybody ends, and a crash takes no more than what was done since the last checkpoint. */
static void anything_goes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct driver_event script[EVENTS];
        struct watch *w = mem_zalloc(1, sizeof(*w));
        struct trace trace = { 0 };
        struct run_result result;
        struct rng rng;
        usec_t at = 0;

        assert_non_null(w);
        w->quiet = true;
        rng_seed(&rng, 1000 + seed);
        make_trace(&trace, seed, 150, 64, 2000000);
        for (int i = 0; i < EVENTS; i++) {
            bool cancel = rng_below(&rng, 5) == 0;

            at += S(rng_below(&rng, 3000));
            script[i] = (struct driver_event){ .at = at,
                                               .kind = cancel ? EVENT_CANCEL : EVENT_NODE,
                                               .target = (uint32_t)rng_below(&rng, cancel ? 150 : 8),
                                               .up = rng_below(&rng, 2) == 0,
                                               .value = (int32_t)rng_below(&rng, 2) };
        }
        for (uint32_t n = 0; n < 8; n++) /* the last word: all are up */
            script[EVENTS - 8 + n] = (struct driver_event){ .at = at, .kind = EVENT_NODE, .target = n, .up = true };
        result = run(&(struct play){ .cluster = seed % 2 ? "8x8" : "domains:2 racks:1 nodes:4 gpus:8",
                                     .script = script,
                                     .script_count = EVENTS,
                                     .reload = seed % 3 == 0 ? 17 : 0,
                                     .carry = seed % 3 == 1 ? 23 : 0 },
                     &trace, w);
        assert_int_equal(w->bad, 0);
        for (size_t i = 0; i < trace.count; i++) {
            assert_true(result.jobs[i].outcome == OUTCOME_DONE || result.jobs[i].outcome == OUTCOME_FAILED);
            assert_true(result.jobs[i].lost <= (int64_t)(result.jobs[i].preemptions + 1) * 31 * USEC_MIN);
        }
        run_result_done(&result);
        trace_done(&trace);
        mem_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floors_are_kept), cmocka_unit_test(floors_on_few_gpus),
        cmocka_unit_test(work_is_kept),    cmocka_unit_test(regions_and_maintenance),
        cmocka_unit_test(defragmentation), cmocka_unit_test(anything_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
