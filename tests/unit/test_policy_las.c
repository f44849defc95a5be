/* SPDX-License-Identifier: Apache-2.0 */
/* test_policy_las.c - least attained service: the reference trace, what must hold on it, and a naive simulation.
 *
 * The naive simulation walks all jobs at every event, as the rules say it, with no tree and no timer. It must agree on
 * the end and the preemptions of every job of many small random workloads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "core/core_internal.h"
#include "long_test.h"
#include "policy/order/las.h"
#include "policy/registry.h"
#include "policy_play.h"

/* ---- the reference trace ---- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

struct row {
    int64_t sum, median, p95, max, last, preemptions;
};

static struct row row_of(const struct run_result *result)
{
    struct row row = { 0 };
    size_t n = result->job_count;
    int64_t *jct = mem_zalloc(n, sizeof(*jct));

    assert_non_null(jct);
    for (size_t i = 0; i < n; i++) {
        const struct job_result *job = &result->jobs[i];

        assert_int_equal(job->end % USEC_SEC, 0);
        jct[i] = (job->end - job->submit) / USEC_SEC;
        row.sum += jct[i];
        row.last = job->end / USEC_SEC > row.last ? job->end / USEC_SEC : row.last;
        row.preemptions += job->preemptions;
    }
    qsort(jct, n, sizeof(*jct), by_value);
    row.median = jct[(n - 1) / 2];
    row.p95 = jct[(95 * n + 99) / 100 - 1];
    row.max = jct[n - 1];
    mem_free(jct);
    return row;
}

static const struct {
    struct play play;
    struct row row;
} reference[] = {
    { { .cluster = "15x4", .policy = "las", .settings = { { "queues", "3600s" } } },
      { 6016574, 674, 55562, 255451, 283464, 814 } },
    { { .cluster = "15x4", .policy = "las", .settings = { { "queues", "3600s" } }, .restart = 60 },
      { 6271791, 674, 57542, 257690, 285703, 883 } },
    { { .cluster = "15x4", .policy = "las", .settings = { { "queues", "3600s" }, { "knob", "8" } } },
      { 5970892, 674, 54254, 262325, 290338, 1626 } },
    { { .cluster = "15x4", .policy = "las", .settings = { { "queues", "3600s" }, { "knob", "2" } } },
      { 6189346, 1585, 61938, 272978, 300991, 3627 } },
    { { .cluster = "15x4", .policy = "las", .settings = { { "queues", "36000s" } } },
      { 5049126, 1302, 59442, 251924, 279937, 166 } },
    { { .cluster = "15x4", .policy = "las", .settings = { { "queues", "3600s,36000s,360000s" } } },
      { 4898303, 674, 59018, 251659, 279672, 630 } },
    { { .cluster = "15x4", .policy = "las", .settings = { { "queues", "1h,10h,100h" } }, .restart = 60 },
      { 5055753, 674, 60361, 251871, 279884, 666 } },
    { { .cluster = "15x4", .policy = "fifo" }, { 12514491, 20767, 64322, 258953, 286966, 0 } },
    { { .cluster = "15x4", .policy = "fifo-skip" }, { 7169279, 7821, 57950, 244860, 272873, 0 } },
    { { .cluster = "15x4", .policy = "srsf" }, { 4278591, 626, 44987, 270407, 298420, 573 } },
};

enum { ROW_K2, ROW_K2_COST, ROW_K2_KNOB8, ROW_K2_KNOB2, ROW_WIDE, ROW_K4, ROW_K4_COST, ROW_FIFO, ROW_SKIP, ROW_SRSF };

static void reference_rows(void **unused)
{
    struct row rows[sizeof(reference) / sizeof(*reference)];
    struct trace trace;

    (void)unused;
    make("r1", &trace);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct run_result result = play(&reference[i].play, &trace);

        rows[i] = row_of(&result);
        assert_int_equal(rows[i].sum, reference[i].row.sum);
        assert_int_equal(rows[i].median, reference[i].row.median);
        assert_int_equal(rows[i].p95, reference[i].row.p95);
        assert_int_equal(rows[i].max, reference[i].row.max);
        assert_int_equal(rows[i].last, reference[i].row.last);
        assert_int_equal(rows[i].preemptions, reference[i].row.preemptions);
        run_result_done(&result);
    }
    /* What the paper claims, on this trace: with the cost of preemption, at least 1.9 and 20 times better than strict
     * first come, first served; with four queues 2.3 times. And in between it and an oracle. */
    assert_true(rows[ROW_FIFO].sum * 10 >= rows[ROW_K2_COST].sum * 19);
    assert_true(rows[ROW_FIFO].median >= rows[ROW_K2_COST].median * 20);
    assert_true(rows[ROW_FIFO].sum * 10 >= rows[ROW_K4_COST].sum * 23);
    assert_true(rows[ROW_SRSF].sum <= rows[ROW_K4].sum);
    assert_true(rows[ROW_K4].sum <= rows[ROW_K2].sum);
    assert_true(rows[ROW_K2].sum <= rows[ROW_SKIP].sum);
    assert_true(rows[ROW_SKIP].sum <= rows[ROW_FIFO].sum);
    trace_done(&trace);
}

/* With little load all policies are the same to within a thousandth. */
static void low_load(void **unused)
{
    static const char *const policies[] = { "fifo-skip", "las", "srsf" };
    struct trace trace;
    struct run_result fifo;

    (void)unused;
    make("r1-low", &trace);
    fifo = play(&(struct play){ .cluster = "15x4", .policy = "fifo" }, &trace);
    for (size_t i = 0; i < 3; i++) {
        struct run_result other = play(&(struct play){ .cluster = "15x4", .policy = policies[i] }, &trace);
        int64_t a = row_of(&fifo).sum, b = row_of(&other).sum;

        assert_true((a > b ? a - b : b - a) * 1000 <= a);
        run_result_done(&other);
    }
    run_result_done(&fifo);
    trace_done(&trace);
}

/* ---- starvation ---- */

struct starving {
    uint32_t over; /* instants at which some job below the first queue had waited more than 8 times what it ran */
    uint32_t checked;
};

static void look_for_starving(void *arg, const struct core *core)
{
    struct starving *seen = arg;
    usec_t now = core_now(core);

    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct job *job = core_job(core, i);
        const int64_t *word = job->order_word;
        usec_t ran = job->ran - word[LAS_RAN];
        usec_t waited = job->waited_all + now - job->queued_at - word[LAS_WAITED];

        if (!job_waits(job->state) || job->attained - word[LAS_SERVICE] < 3600 * USEC_SEC)
            continue;
        seen->checked++;
        seen->over += waited > 8 * ran;
    }
}

static void starvation(void **unused)
{
    struct starving on = { 0 }, off = { 0 };
    struct trace trace;
    struct run_result result;

    (void)unused;
    make("r1", &trace);
    result = play(&(struct play){ .cluster = "15x4",
                                  .policy = "las",
                                  .settings = { { "queues", "3600s" }, { "knob", "8" } },
                                  .on_instant = look_for_starving,
                                  .arg = &on },
                  &trace);
    run_result_done(&result);
    result = play(&(struct play){ .cluster = "15x4",
                                  .policy = "las",
                                  .settings = { { "queues", "3600s" } },
                                  .on_instant = look_for_starving,
                                  .arg = &off },
                  &trace);
    run_result_done(&result);
    assert_true(on.checked > 1000);
    assert_int_equal(on.over, 0);
    assert_true(off.over > 0);
    trace_done(&trace);
}

/* ---- the naive simulation ---- */

enum { JOBS_MAX = 64, NAIVE_GPUS = 8 };

struct naive_job {
    int64_t submit, width, left, ran, waited, first, queue, end, warm; /* warm: seconds of restart still to go */
    int64_t preemptions;
    bool running;
};

struct naive {
    struct naive_job jobs[JOBS_MAX];
    int count;
    int64_t limits[4], limit_count, knob, restart, now;
};

static bool naive_alive(const struct naive *n, const struct naive_job *j)
{
    return j->submit <= n->now && j->end < 0;
}

static bool naive_before(const struct naive_job *a, const struct naive_job *b)
{
    if (a->queue != b->queue)
        return a->queue < b->queue;
    if ((a->first < 0) != (b->first < 0))
        return a->first >= 0;
    if (a->first != b->first)
        return a->first < b->first;
    return a->submit != b->submit ? a->submit < b->submit : a < b;
}

static int64_t naive_next(const struct naive *n)
{
    int64_t next = INT64_MAX;

    for (const struct naive_job *j = n->jobs; j < n->jobs + n->count; j++) {
        int64_t at = INT64_MAX;

        if (j->submit > n->now)
            at = j->submit;
        else if (j->end >= 0)
            continue;
        else if (j->running && j->warm)
            at = n->now + j->warm;
        else if (j->running) {
            at = n->now + j->left;
            if (j->queue < n->limit_count) {
                int64_t sinks = n->now + (n->limits[j->queue] - j->ran * j->width + j->width - 1) / j->width;

                at = sinks < at ? sinks : at;
            }
        } else if (n->knob && j->queue > 0)
            at = n->now + (n->knob * j->ran > j->waited ? n->knob * j->ran - j->waited : 0);
        next = at < next ? at : next;
    }
    return next;
}

static void naive_advance(struct naive *n, int64_t to)
{
    int64_t span = to - n->now;

    for (struct naive_job *j = n->jobs; j < n->jobs + n->count; j++) {
        if (!naive_alive(n, j))
            continue;
        if (!j->running) {
            j->waited += j->ran ? span : 0;
        } else if (j->warm) {
            j->warm -= span;
        } else {
            j->ran += span;
            j->left -= span;
        }
    }
    n->now = to;
    for (struct naive_job *j = n->jobs; j < n->jobs + n->count; j++) {
        if (naive_alive(n, j) && j->running && j->left == 0)
            j->end = to;
        if (!naive_alive(n, j))
            continue;
        while (j->running && j->queue < n->limit_count && j->ran * j->width >= n->limits[j->queue])
            j->queue++;
        if (n->knob && !j->running && j->queue > 0 && j->waited >= n->knob * j->ran)
            j->queue = j->ran = j->waited = 0;
    }
}

static void naive_walk(struct naive *n)
{
    int64_t room = NAIVE_GPUS;
    bool done[JOBS_MAX] = { false };

    for (;;) {
        struct naive_job *best = NULL;

        for (struct naive_job *j = n->jobs; j < n->jobs + n->count; j++)
            if (naive_alive(n, j) && !done[j - n->jobs] && (!best || naive_before(j, best)))
                best = j;
        if (!best)
            return;
        done[best - n->jobs] = true;
        if (best->width <= room) {
            room -= best->width;
            if (!best->running && best->first >= 0)
                best->warm = n->restart;
            best->running = true;
            best->first = best->first < 0 ? n->now : best->first;
        } else if (best->running) {
            best->running = false;
            best->warm = 0;
            best->preemptions++;
        }
    }
}

static void against_naive(void **unused)
{
    (void)unused;
    LONG_TEST();
    for (uint64_t seed = 0; seed < 120; seed++) {
        struct naive n = { .count = 40, .now = -1, .limit_count = 2, .limits = { 128, 512 } };
        char knob[16];
        struct trace trace = { 0 };
        struct run_result result;
        struct rng rng;
        int64_t submit = 0;

        rng_seed(&rng, seed);
        n.restart = (int64_t)(seed % 3) * 10;
        n.knob = (int64_t)(seed / 3 % 4);
        for (int i = 0; i < n.count; i++) {
            int64_t run = 1 + (int64_t)rng_below(&rng, 8) * (int64_t)rng_below(&rng, 40);
            int32_t width = 1 << rng_below(&rng, 4);
            n.jobs[i] = (struct naive_job){ .submit = submit, .width = width, .left = run, .first = -1, .end = -1 };
            add_job(&trace, submit, width, run);
            submit += (int64_t)rng_below(&rng, 60);
        }
        (void)snprintf(knob, sizeof(knob), "%d", (int)n.knob);
        for (int64_t at = naive_next(&n); at != INT64_MAX; at = naive_next(&n)) {
            naive_advance(&n, at);
            naive_walk(&n);
        }
        result = play(&(struct play){ .cluster = "1x8",
                                      .policy = "las",
                                      .settings = { { "queues", "128s,512s" }, { "knob", knob } },
                                      .restart = n.restart,
                                      .reload = seed % 2 },
                      &trace);
        for (int i = 0; i < n.count; i++) {
            if (result.jobs[i].end != n.jobs[i].end * USEC_SEC)
                print_message("seed %d, job %d\n", (int)seed, i);
            assert_int_equal(result.jobs[i].end, n.jobs[i].end * USEC_SEC);
            assert_int_equal(result.jobs[i].preemptions, n.jobs[i].preemptions);
        }
        run_result_done(&result);
        trace_done(&trace);
    }
}

/* ---- learned thresholds ---- */

/* Nine jobs needed 100 GPU-seconds and one 1,000: half of all they needed is had when each has had 95. So a sinks
 * there, and b, which waits since 50 s, comes before it. Without learning the threshold of an hour stays. */
static void learned(void **unused)
{
    svc_t history[10] = { 1000 * USEC_SEC };
    struct trace trace = { 0 };
    struct play p = { .cluster = "1x1",
                      .policy = "las",
                      .settings = { { "queues", "1h" }, { "learn", "on" } },
                      .history = history,
                      .history_count = 10 };
    struct run_result result;

    (void)unused;
    for (int i = 1; i < 10; i++)
        history[i] = 100 * USEC_SEC;
    add_job(&trace, 0, 1, 500);
    add_job(&trace, 50, 1, 10);
    result = play(&p, &trace);
    assert_int_equal(result.jobs[1].start, 95 * USEC_SEC);
    run_result_done(&result);
    p.settings[1].value = "off";
    result = play(&p, &trace);
    assert_int_equal(result.jobs[1].start, 500 * USEC_SEC);
    run_result_done(&result);
    trace_done(&trace);
}

/* From what ends on the way; the same when the core is loaded again after every instant. */
static void learned_online(void **unused)
{
    struct play p = { .cluster = "15x4", .policy = "las", .settings = { { "learn", "on" } } };
    struct run_result off, on, again;
    struct trace trace;

    (void)unused;
    LONG_TEST();
    make("r1", &trace);
    on = play(&p, &trace);
    p.reload = 1;
    again = play(&p, &trace);
    p.settings[0].value = "off";
    off = play(&p, &trace);
    assert_true(on.summary.digest == again.summary.digest);
    assert_true(on.summary.digest != off.summary.digest);
    run_result_done(&off);
    run_result_done(&on);
    run_result_done(&again);
    trace_done(&trace);
}

/* ---- small things ---- */

/* Example T6: 8 GPUs, 1,000 of 3,600 GPU-seconds attained at 50 s. */
/* Example T1, a thousand times as long: with a quantum of 1/100 jobs of one service take turns to their end, and the
 * mean is 12.66 where few queues have 11.67 (tests/golden/las_t1.txt): why priorities are discretised. */
static void small_quantum(void **unused)
{
    static const int64_t jobs[][2] = { { 2, 2000 }, { 1, 8000 }, { 2, 6000 } };
    struct trace trace = { 0 };
    struct run_result result;
    int64_t sum = 0;

    (void)unused;
    for (int i = 0; i < 3; i++)
        add_job(&trace, 0, (int32_t)jobs[i][0], jobs[i][1]);
    result = play(&(struct play){ .cluster = "1x2", .policy = "las", .settings = { { "quantum", "10s" } } }, &trace);
    for (int i = 0; i < 3; i++)
        sum += result.jobs[i].end / USEC_SEC;
    assert_int_equal(sum, 3 * 12660);
    assert_true(result.jobs[0].preemptions + result.jobs[1].preemptions + result.jobs[2].preemptions > 1000);
    run_result_done(&result);
    trace_done(&trace);
}

static void crossing(void **unused)
{
    (void)unused;
    assert_int_equal(las_crossing(50 * USEC_SEC, 2600 * USEC_SEC, 8 * MGPU_ONE), 375 * USEC_SEC);
    assert_int_equal(las_crossing(0, 10 * USEC_SEC, 4 * MGPU_ONE), 3 * USEC_SEC); /* 2.5, rounded up */
    assert_int_equal(las_crossing(0, 10 * USEC_SEC, 500), 20 * USEC_SEC);         /* half a GPU */
}

static void lists(void **unused)
{
    static const char *const bad[] = { "", "1s,", ",1s", "2s,1s", "1s,1s", "0s", "x", "1s;2s", "inf" };
    struct policy_setup setup;
    struct error err;
    char text[128] = "1s";

    (void)unused;
    policy_setup(policy_find("las"), &setup);
    assert_int_equal(setup.order_params[3], 3);
    assert_int_equal(setup.order_params[6], 360000 * USEC_SEC);
    assert_int_equal(policy_set(&setup, "queues", "90,10m,2h", &err), 0);
    assert_int_equal(setup.order_params[3], 3);
    assert_int_equal(setup.order_params[4], 90 * USEC_SEC);
    assert_int_equal(setup.order_params[5], 600 * USEC_SEC);
    assert_int_equal(setup.order_params[6], 7200 * USEC_SEC);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(policy_set(&setup, "queues", bad[i], &err), -22);
    assert_int_equal(setup.order_params[3], 3); /* a refused value changes nothing */
    for (int i = 2; i <= 17; i++) {
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), ",%ds", i);
        assert_int_equal(policy_set(&setup, "queues", text, &err), i <= 16 ? 0 : -22);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_rows), cmocka_unit_test(low_load),       cmocka_unit_test(starvation),
        cmocka_unit_test(learned),        cmocka_unit_test(learned_online), cmocka_unit_test(against_naive),
        cmocka_unit_test(small_quantum),  cmocka_unit_test(crossing),       cmocka_unit_test(lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
