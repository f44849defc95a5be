/* SPDX-License-Identifier: Apache-2.0 */
/* test_policy_gandiva.c - what Gandiva promises, on several seeds; G1 to G5 and G8 are golden stories. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/contract/plan.h"
#include "long_test.h"
#include "policy_play.h"

enum { JOBS_MAX = 512 };

struct seen {
    uint32_t by_kind[DECISION_COUNT];
    usec_t low_since[JOBS_MAX]; /* by job: a pair it is in does less than turns would, since; 0 = it does not */
    usec_t low_max;
    int64_t rates[2]; /* of the first two jobs, when they were last seen together */
    usec_t packed, unpacked;
};

struct run {
    const char *cluster, *policy;
    const char *set[6]; /* "key", "value", ... */
    const char *pairs, *speed;
    const char *costs, *search;
    uint64_t seed;
    uint32_t reload;
    const struct driver_event *script;
    size_t script_count;
    const uint32_t *skus;
};

static void note(void *arg, const struct core *core, const struct decision *d, const uint32_t *gpus)
{
    struct seen *seen = arg;

    (void)core;
    (void)gpus;
    seen->by_kind[d->kind]++;
    if (d->kind == DECISION_PACK && !seen->packed)
        seen->packed = d->at;
    if (d->kind == DECISION_UNPACK && !seen->unpacked)
        seen->unpacked = d->at;
    if (getenv("GANDIVA_LOG"))
        print_message("%.3f %s %lld\n", (double)d->at / 1e6, decision_name(d->kind), (long long)d->id);
}

/* Jobs run at rate 1 alone, so the rates of a pair are what they do together. */
static void look(void *arg, const struct core *core)
{
    struct seen *seen = arg;

    core_audit(core);
    for (uint32_t i = 0; i < core_job_top(core); i++) {
        const struct job *job = core_job(core, i), *mate;
        bool low = false;

        if (job->state == JOB_RUNNING && job->mate != JOB_NONE) {
            mate = core_job(core, job->mate);
            low = mate->state == JOB_RUNNING && job->rate + mate->rate < PPM_ONE;
            if (job->spec.id < 2 && mate->spec.id < 2 && mate->state == JOB_RUNNING)
                seen->rates[job->spec.id] = job->rate;
        }
        if (!low)
            seen->low_since[i] = 0;
        else if (seen->low_since[i] == 0)
            seen->low_since[i] = core_now(core);
        else if (core_now(core) - seen->low_since[i] > seen->low_max)
            seen->low_max = core_now(core) - seen->low_since[i];
    }
}

static struct run_result run(const struct run *how, const struct trace *trace, struct seen *seen)
{
    struct play p = { .cluster = how->cluster,
                      .policy = how->policy,
                      .seed = how->seed,
                      .reload = how->reload,
                      .script = how->script,
                      .script_count = how->script_count,
                      .skus = how->skus,
                      .on_decision = note,
                      .on_instant = look,
                      .arg = seen };
    const struct setting world[] = {
        { "pairs", how->pairs }, { "speed", how->speed }, { "costs", how->costs }, { "search", how->search }
    };
    struct run_result result;

    memset(seen, 0, sizeof(*seen));
    for (int i = 0; i < 6 && how->set[i]; i += 2)
        p.settings[i / 2] = (struct setting){ how->set[i], how->set[i + 1] };
    for (size_t i = 0, count = 0; i < sizeof(world) / sizeof(world[0]); i++)
        if (world[i].value)
            p.world[count++] = world[i];
    result = play(&p, trace);
    assert_int_equal(seen->by_kind[DECISION_BAD], 0);
    return result;
}

static void add(struct trace *trace, int64_t submit, int32_t gpus, int64_t seconds, const char *model)
{
    struct trace_job *job = add_job(trace, submit, gpus, seconds);

    if (model)
        assert_int_equal(names_put(&trace->models, model, strlen(model), &job->spec.model), 0);
}

static void write_pairs(char *path, const char *rows)
{
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

    assert_non_null(file);
    assert_true(fputs("model_a,model_b,rate_a,rate_b\n", file) >= 0);
    assert_true(fputs(rows, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* ---- G6: alone 10 and 8 mini-batches a second; together 7 and 5.6 stay, 4 and 3 do not ---- */

static void write_speeds(char *path, const char *rows)
{
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

    assert_non_null(file);
    assert_true(fputs("model,sku,gpus,nodes,iterations_per_second\n", file) >= 0);
    assert_true(fputs(rows, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* What the two do together, in millionths of what they do alone, to the last one. */
static void pair_of(const char *rows, int64_t a, int64_t b, bool undone)
{
    char path[] = "/tmp/muster-pairs-XXXXXX", speeds[] = "/tmp/muster-speeds-XXXXXX";
    struct run how = { "1x2", "fifo-skip+pack", .pairs = path, .speed = speeds, .seed = 1 };
    struct trace trace = { 0 };
    struct run_result result;
    struct seen seen;

    write_pairs(path, rows);
    write_speeds(speeds, "a,gpu,1,1,10\nb,gpu,1,1,8\nc,gpu,1,1,1\n");
    add(&trace, 0, 1, 4000, "a");
    add(&trace, 0, 1, 4000, "b");
    add(&trace, 10, 1, 400, "c");
    trace.jobs[0].truth.iterations = 40000;
    trace.jobs[1].truth.iterations = 32000;
    trace.jobs[2].truth.iterations = 400;
    result = run(&how, &trace, &seen);
    assert_true(seen.by_kind[DECISION_PACK] > 0);
    assert_int_equal(seen.rates[0], a);
    assert_int_equal(seen.rates[1], b);
    assert_int_equal(seen.by_kind[DECISION_UNPACK] > 0, undone);
    /* One profile window, and the microsecond in which it is judged. */
    assert_true(!undone || seen.unpacked - seen.packed <= 2 * USEC_MIN + 1);
    /* The third job has the GPU that came free at once, and not only when one of the others ends. */
    assert_true(result.jobs[2].start < 200 * USEC_SEC);
    run_result_done(&result);
    trace_done(&trace);
    (void)unlink(path);
    (void)unlink(speeds);
}

static void g6(void **unused)
{
    (void)unused;
    pair_of("a,b,0.7,0.7\na,c,0,0\nb,c,0,0\n", 700000, 700000, false);  /* 7 and 5.6 a second: 1.40 */
    pair_of("a,b,0.4,0.375\na,c,0,0\nb,c,0,0\n", 400000, 375000, true); /* 4 and 3: 0.775 */
}

/* ---- G7: ten trials of 100 minutes on two GPUs, compared at a tenth; the best two go on ---- */

static void g7(void **unused)
{
    struct driver_event script[8];
    struct trace trace = { 0 };
    struct run_result result;
    struct seen seen;
    usec_t last = 0;

    (void)unused;
    for (int i = 0; i < 10; i++)
        add(&trace, 0, 1, 6000, NULL);
    result = run(&(struct run){ "1x2", "fifo", .seed = 1 }, &trace, &seen);
    assert_int_equal(result.jobs[9].end / USEC_MIN, 500);
    run_result_done(&result);
    for (uint32_t i = 0; i < 8; i++)
        script[i] = (struct driver_event){ .at = 50 * USEC_MIN, .kind = EVENT_CANCEL, .target = i + 2 };
    result =
        run(&(struct run){ "1x2", "gandiva", { "optimise", "none" }, .seed = 1, .script = script, .script_count = 8 },
            &trace, &seen);
    for (int i = 2; i < 10; i++)
        assert_int_equal(result.jobs[i].run, 10 * USEC_MIN); /* all have just done their tenth */
    for (int i = 0; i < 2; i++)
        last = result.jobs[i].end > last ? result.jobs[i].end : last;
    assert_int_equal(last / USEC_MIN, 140);
    run_result_done(&result);
    trace_done(&trace);
}

/* ---- what must be so on every seed ---- */

/* Every job has its first turn within as many quanta as its server is high. */
static void soon(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct trace trace = { 0 };
        struct run_result result;
        struct seen seen;
        struct rng rng;
        int jobs = 30 + (int)seed * 10;

        rng_seed(&rng, seed);
        for (int i = 0, at = 0; i < jobs; i++, at += (int)rng_below(&rng, 20))
            add(&trace, at, 1, 1500 + (int64_t)rng_below(&rng, 1500), NULL);
        result = run(&(struct run){ "4x4", "gandiva", { "optimise", "none" }, .seed = seed }, &trace, &seen);
        for (int i = 0; i < jobs; i++) {
            int height = 0;

            for (int k = 0; k < jobs; k++)
                height += result.jobs[k].submit <= result.jobs[i].start && result.jobs[k].end > result.jobs[i].submit;
            height = (height + 15) / 16;
            assert_true(result.jobs[i].start - result.jobs[i].submit <= height * USEC_MIN);
        }
        run_result_done(&result);
        trace_done(&trace);
    }
}

/* Random jobs, models and pairs of every quality. A pair that does less than turns would is not together for longer
 * than it takes to see that; everybody ends; the same decisions when the core is saved and loaded on the way. */
static void pairs_undone(void **unused)
{
    uint32_t packed = 0, unpacked = 0;

    (void)unused;
    LONG_TEST();
    for (uint64_t seed = 1; seed <= 6; seed++) {
        char path[] = "/tmp/muster-pairs-XXXXXX", rows[2048] = "";
        struct run how = { "3x4", "gandiva", .pairs = path, .costs = "gandiva", .seed = seed };
        struct trace trace = { 0 };
        struct run_result result, again;
        struct seen seen;
        struct rng rng;

        rng_seed(&rng, seed);
        for (int a = 0; a < 6; a++)
            for (int b = a; b < 6; b++) {
                double x = (double)(1 + rng_below(&rng, 99)) / 100, y = (double)(1 + rng_below(&rng, 99)) / 100;

                (void)snprintf(rows + strlen(rows), sizeof(rows) - strlen(rows), "m%d,m%d,%.2f,%.2f\n", a, b, x,
                               a == b ? x : y);
            }
        write_pairs(path, rows);
        for (int i = 0, at = 0; i < 60; i++, at += (int)rng_below(&rng, 60)) {
            char model[8];

            (void)snprintf(model, sizeof(model), "m%d", (int)rng_below(&rng, 6));
            add(&trace, at, 1 << rng_below(&rng, 3), 300 + (int64_t)rng_below(&rng, 3000), model);
        }
        result = run(&how, &trace, &seen);
        packed += seen.by_kind[DECISION_PACK];
        unpacked += seen.by_kind[DECISION_UNPACK];
        assert_int_equal(seen.by_kind[DECISION_END], trace.count);
        if (getenv("GANDIVA_LOG"))
            print_message("# low %.6f s\n", (double)seen.low_max / 1e6);
        assert_true(seen.low_max <= 2 * USEC_MIN + 1); /* one profile window, and the microsecond until it is judged */
        how.reload = 7;
        again = run(&how, &trace, &seen);
        assert_true(again.summary.digest == result.summary.digest);
        run_result_done(&result);
        run_result_done(&again);
        trace_done(&trace);
        (void)unlink(path);
    }
    assert_true(packed > 60);
    assert_true(unpacked > 20);
}

/* ---- several GPU types: a trial that is faster is kept, another one undone ---- */

#define TYPES "nodes:1 gpus:2 sku:old; nodes:1 gpus:2 sku:new"

/* A cluster of two types and a table of speeds there. */
struct types {
    char speeds[32];
    struct run how;
    struct trace trace;
    struct seen seen;
};

static void types_begin(struct types *t, const char *speeds)
{
    *t = (struct types){ .speeds = "/tmp/muster-speeds-XXXXXX" };
    t->how = (struct run){ TYPES, "gandiva", .speed = t->speeds, .seed = 1 };
    write_speeds(t->speeds, speeds);
}

static void types_add(struct types *t, int64_t submit, const char *model)
{
    add(&t->trace, submit, 1, 3000, model);
    t->trace.jobs[t->trace.count - 1].truth.iterations = 3000;
}

static void types_end(struct types *t)
{
    trace_done(&t->trace);
    (void)unlink(t->speeds);
}

/* Model a is three times as fast on the newer type, b a third as fast; what the first of a model found out the second
 * knows. */
static void types_tried(void **unused)
{
    struct types t;
    struct run_result result;

    (void)unused;
    types_begin(&t, "a,old,1,1,1\na,new,1,1,3\nb,old,1,1,3\nb,new,1,1,1\n");
    types_add(&t, 0, "a");
    types_add(&t, 4000, "b");
    types_add(&t, 8000, "b");
    types_add(&t, 12000, "a");
    result = run(&t.how, &t.trace, &t.seen);
    assert_int_equal(result.jobs[0].migrations, 1); /* tried, and stays: 60 s at 1, the rest at 3 a second */
    assert_int_equal((result.jobs[0].end - result.jobs[0].submit) / USEC_SEC, 60 + (3000 - 60) / 3);
    assert_int_equal(result.jobs[1].migrations, 2); /* tried, slower, and back */
    assert_true(result.jobs[1].end - result.jobs[1].submit < (1000 + 3 * 60) * USEC_SEC);
    assert_int_equal(result.jobs[2].migrations, 0); /* known by now */
    assert_int_equal(result.jobs[3].migrations, 1);
    run_result_done(&result);
    t.how.set[0] = "optimise";
    t.how.set[1] = "none";
    result = run(&t.how, &t.trace, &t.seen);
    assert_int_equal((result.jobs[0].end - result.jobs[0].submit) / USEC_SEC, 3000);
    run_result_done(&result);
    types_end(&t);
}

/* A job that says which type it wants stays there. */
static void types_asked_for(void **unused)
{
    struct types t;
    struct run_result result;

    (void)unused;
    types_begin(&t, "a,old,1,1,1\na,new,1,1,3\n");
    types_add(&t, 0, "a");
    t.how.skus = (const uint32_t[]){ 1 };
    result = run(&t.how, &t.trace, &t.seen);
    assert_int_equal(result.jobs[0].migrations, 0);
    run_result_done(&result);
    types_end(&t);
}

/* Random jobs of six models with random speeds on three types: sooner on the mean than without, and the same decisions
 * when the core is saved and loaded on the way. */
static void types_help(void **unused)
{
    int64_t with = 0, without = 0;

    (void)unused;
    LONG_TEST();
    for (uint64_t seed = 1; seed <= 6; seed++) {
        char speeds[] = "/tmp/muster-speeds-XXXXXX", rows[4096] = "";
        struct run how = { "nodes:2 gpus:4 sku:k; nodes:2 gpus:4 sku:p; nodes:1 gpus:4 sku:v", "gandiva",
                           .speed = speeds, .costs = "gandiva", .seed = seed };
        struct trace trace = { 0 };
        struct run_result on, again, off;
        struct seen seen;
        struct rng rng;

        rng_seed(&rng, seed);
        for (int m = 0; m < 6; m++)
            for (int t = 0; t < 3; t++)
                for (int w = 1; w <= 4; w *= 2)
                    (void)snprintf(rows + strlen(rows), sizeof(rows) - strlen(rows), "m%d,%c,%d,1,%d\n", m, "kpv"[t], w,
                                   w * (1 + t * (1 + (int)(seed * 7 + (uint64_t)m * 5) % 4)));
        write_speeds(speeds, rows);
        for (int i = 0, at = 0; i < 50; i++, at += (int)rng_below(&rng, 240)) {
            char model[8];

            (void)snprintf(model, sizeof(model), "m%d", (int)rng_below(&rng, 6));
            add(&trace, at, 1 << rng_below(&rng, 3), 600 + (int64_t)rng_below(&rng, 3000), model);
            trace.jobs[i].truth.iterations = trace.jobs[i].truth.duration / USEC_SEC * trace.jobs[i].spec.gpus;
        }
        on = run(&how, &trace, &seen);
        how.reload = 7;
        again = run(&how, &trace, &seen);
        assert_true(on.summary.digest == again.summary.digest);
        how.reload = 0;
        how.set[0] = "optimise";
        how.set[1] = "pack,migrate,grow";
        off = run(&how, &trace, &seen);
        with += (int64_t)on.summary.avg_jct;
        without += (int64_t)off.summary.avg_jct;
        run_result_done(&on);
        run_result_done(&again);
        run_result_done(&off);
        trace_done(&trace);
        (void)unlink(speeds);
    }
    print_message("# mean completion on three types: %lld s, without moves between them %lld s\n", (long long)with / 6,
                  (long long)without / 6);
    assert_true(with * 10 < without * 9);
}

/* A day of twelve searches with a kill rule on eight GPUs: the winner is found sooner by about ten times. */
static void searches(void **unused)
{
    int64_t fifo = 0, gandiva = 0;

    (void)unused;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct trace trace = { 0 };
        struct run_result a, b;
        struct error err = { 0 };
        struct seen seen;

        assert_int_equal(gen_trace("search", &(struct gen_config){ .seed = seed }, &trace, &err), 0);
        a = run(&(struct run){ "2x4", "fifo", .costs = "gandiva", .search = "10%", .seed = seed }, &trace, &seen);
        b = run(&(struct run){ "2x4", "gandiva", .costs = "gandiva", .search = "10%", .seed = seed }, &trace, &seen);
        assert_int_equal(a.winners, 12);
        assert_int_equal(b.winners, 12);
        assert_true(a.winner_mean > 6 * b.winner_mean);
        fifo += a.winner_mean;
        gandiva += b.winner_mean;
        run_result_done(&a);
        run_result_done(&b);
        trace_done(&trace);
    }
    print_message("# time to the winner: fifo %lld s, gandiva %lld s, %.1f times\n", (long long)(fifo / 5000000),
                  (long long)(gandiva / 5000000), (double)fifo / (double)gandiva);
    assert_true(fifo > 8 * gandiva);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(g6),
        cmocka_unit_test(g7),
        cmocka_unit_test(soon),
        cmocka_unit_test(pairs_undone),
        cmocka_unit_test(searches),
        cmocka_unit_test(types_tried),
        cmocka_unit_test(types_asked_for),
        cmocka_unit_test(types_help),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
