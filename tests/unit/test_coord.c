/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator: its worked examples to the last number, and its loops against a modelled GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "coord/caps.h"
#include "coord/duty.h"
#include "coord/feedback.h"
#include "coord/pair.h"
#include "coord/ring.h"
#include "coord/trial.h"
#include "coord_gpu.h"

/* ---- duty */

static void test_duty_formula(void **state)
{
    static const struct {
        usec_t d, s;
        uint32_t x;
        usec_t extra;
    } cases[] = { { 100000, 0, 50, 99950 }, { 100000, 0, 25, 299950 }, { 150000, 50000, 50, 49950 },
                  { 199950, 99950, 50, 0 }, { 100000, 0, 90, 11061 },  { 400, 0, 90, 0 },
                  { 100000, 0, 100, 0 } };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(duty_extra(cases[i].d, cases[i].s, cases[i].x), cases[i].extra);
    assert_int_equal(duty_each(99950, 200), 499);
    assert_int_equal(duty_each(99950, 0), 99950);
}

/* Active time over all time comes to x exactly, whatever mini-batches do; each delay costs up to 50 us by itself. */
static void test_duty_carry(void **state)
{
    struct rng rng;

    (void)state;
    rng_seed(&rng, 7);
    for (uint32_t x = 5; x < 100; x += 5) {
        struct duty duty = { 0 };
        usec_t ran = 0, idled = 0, idle = 0;

        for (int i = 0; i < 20000; i++) {
            usec_t run = 300 + (usec_t)rng_below(&rng, 20000);

            ran += run;
            idled += idle;
            idle = duty_after(&duty, run + idle, idle, x);
            idle += idle ? (usec_t)rng_below(&rng, 51) : 0;
        }
        assert_true(llabs(100 * ran - (int64_t)x * (ran + idled)) * 1000 < 100 * ran); /* within 0.1 % */
    }
}

/* ---- AntMan's feedback */

/* Alone the mini-batch takes 100 ms; with the others k x / 100 more, k in thousandths. `took`: what it does, in
 * microseconds; NULL: not told. */
static void feedback_trace(uint32_t k, const uint32_t *x, const uint32_t *took, size_t count)
{
    struct feedback feedback;

    feedback_init(&feedback, FEEDBACK_EPS);
    for (size_t i = 0; i < count; i++) {
        uint32_t now = 100000 + k * feedback.x;

        assert_int_equal(feedback.x, x[i]);
        if (took)
            assert_int_equal(now, took[i]);
        (void)feedback_period(&feedback, (now - 100000) / 100, (usec_t)i * USEC_SEC);
    }
}

static void test_feedback_traces(void **state)
{
    static const uint32_t k02[] = { 10, 20, 30, 15, 25, 35, 17, 27, 13, 23 };
    static const uint32_t took[] = { 102000, 104000, 106000, 103000, 105000, 107000, 103400, 105400, 102600, 104600 };
    static const uint32_t k0[] = { 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 100 };
    static const uint32_t k1[] = { 10, 5, 15, 7, 3, 13, 6, 3, 13, 6 };

    (void)state;
    feedback_trace(200, k02, took, 10);
    feedback_trace(0, k0, NULL, 11);
    feedback_trace(1000, k1, NULL, 10);
}

static void test_feedback_pause(void **state)
{
    static const uint32_t x[] = { 5, 2, 1, 1 };
    struct feedback feedback;

    (void)state;
    feedback_init(&feedback, FEEDBACK_EPS);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(feedback_period(&feedback, 500, (usec_t)i), x[i]);
    assert_int_equal(feedback_period(&feedback, 500, 4), 0);
    assert_true(feedback_paused(&feedback, 3 + FEEDBACK_PAUSE));
    assert_int_equal(feedback_period(&feedback, 0, 3 + FEEDBACK_PAUSE), 0);
    assert_false(feedback_paused(&feedback, 4 + FEEDBACK_PAUSE));
    assert_int_equal(feedback.x, 1);
    assert_int_equal(feedback_period(&feedback, 0, 5 + FEEDBACK_PAUSE), 11);
}

/* ---- memory */

static void test_caps_burst(void **state)
{
    struct caps caps;

    (void)state;
    caps_init(&caps, 16384, 0, CAPS_MARGIN_MIB);
    caps.count = 1;
    caps.job[0].stable_mib = 1024;
    assert_true(caps_turn(&caps, 0));
    assert_int_equal(caps.job[0].cap_mib, 16384); /* nobody else is there */
    caps.job[0].used_mib = 5000;
    caps_begin(&caps);
    caps_report(&caps, USEC_SEC, 10240);
    assert_true(caps_turn(&caps, USEC_SEC));
    assert_int_equal(caps.rg_mib, 10752);
    assert_int_equal(caps.job[0].cap_mib, 5632);
    assert_false(caps_turn(&caps, USEC_SEC));

    /* A validation step: the others shrink first, its cap follows as they have. */
    caps_report(&caps, 2 * USEC_SEC, 13312);
    assert_int_equal(caps.rg_spilt, 2560);
    assert_true(caps_turn(&caps, 2 * USEC_SEC));
    assert_int_equal(caps.job[0].cap_mib, 2560);
    assert_int_equal(caps.rg_want, 13824);
    assert_int_equal(caps.rg_mib, 16384 - 5000);
    caps.job[0].used_mib = 2560;
    assert_true(caps_turn(&caps, 2 * USEC_SEC));
    assert_int_equal(caps.rg_mib, 13824);
    caps_report(&caps, 3 * USEC_SEC, 13312);
    assert_int_equal(caps.rg_spilt, 0);

    /* A minute after the burst the cap is what it was. */
    for (int s = 4; s <= 62; s++) {
        caps_report(&caps, s * USEC_SEC, 10240);
        (void)caps_turn(&caps, s * USEC_SEC);
        assert_int_equal(caps.rg_mib, 13824);
    }
    caps_report(&caps, 63 * USEC_SEC, 10240);
    assert_true(caps_turn(&caps, 63 * USEC_SEC));
    assert_int_equal(caps.rg_mib, 10752);
    assert_int_equal(caps.job[0].cap_mib, 5632);
}

static void test_caps_pause(void **state)
{
    struct caps caps;

    (void)state;
    caps_init(&caps, 16384, 384, CAPS_MARGIN_MIB);
    caps_begin(&caps);
    caps.count = 3;
    caps.job[0].stable_mib = 2048;
    caps.job[1].stable_mib = 4096;
    caps.job[2].stable_mib = 1024;
    caps_report(&caps, 0, 11488);
    (void)caps_turn(&caps, 0);
    assert_int_equal(caps.rg_mib, 12000); /* 4000 are left: the second cannot run, the third can */
    assert_false(caps.job[0].paused);
    assert_true(caps.job[1].paused);
    assert_false(caps.job[2].paused);
    assert_int_equal(caps.job[1].cap_mib, 0);
    assert_int_equal(caps.job[0].cap_mib, 2048 + 464);
    assert_int_equal(caps.job[2].cap_mib, 1024 + 464);
    caps.job[0].weight = 3;
    caps.job[2].weight = 1;
    (void)caps_turn(&caps, 0);
    assert_int_equal(caps.job[0].cap_mib, 2048 + 696);
    assert_int_equal(caps.job[2].cap_mib, 1024 + 232);
    caps_report(&caps, USEC_SEC, 20000); /* more than there is: it gets all */
    (void)caps_turn(&caps, USEC_SEC);
    assert_int_equal(caps.rg_mib, 16000);
    for (int i = 0; i < 3; i++)
        assert_true(caps.job[i].paused);
    caps_end(&caps);
    (void)caps_turn(&caps, 2 * USEC_SEC);
    assert_int_equal(caps.job[0].cap_mib + caps.job[1].cap_mib + caps.job[2].cap_mib, 16000);
}

/* Whatever everybody asks for: the device is never promised twice, a surge is on the device one turn
 * after it was seen, and nobody is below what it needs unless paused. */
static void test_caps_random(void **state)
{
    struct rng rng;

    (void)state;
    rng_seed(&rng, 1);
    for (int round = 0; round < 300; round++) {
        struct caps caps;
        uint32_t total = 8192 + (uint32_t)rng_below(&rng, 73728);
        uint32_t wanted = 0;

        caps_init(&caps, total, (uint32_t)rng_below(&rng, 1024), CAPS_MARGIN_MIB);
        caps_begin(&caps);
        caps.count = (uint32_t)rng_below(&rng, 4);
        for (uint32_t i = 0; i < caps.count; i++)
            caps.job[i].stable_mib = (uint32_t)rng_below(&rng, total / 2);
        for (int t = 1; t < 200; t++) {
            uint32_t promised = caps.reserve_mib, asked = (uint32_t)rng_below(&rng, total - caps.reserve_mib - 512);

            if (rng_below(&rng, 4))
                asked /= 3;
            caps_report(&caps, t * USEC_SEC, asked);
            (void)caps_turn(&caps, t * USEC_SEC);
            promised += caps.rg_mib;
            for (uint32_t i = 0; i < caps.count; i++) {
                struct caps_job *job = &caps.job[i];

                assert_true(job->paused ? job->cap_mib == 0 : job->cap_mib >= job->stable_mib);
                promised += job->used_mib > job->cap_mib ? job->used_mib : job->cap_mib;
            }
            assert_true(promised <= total);
            assert_true(caps.rg_mib == caps.rg_want || caps.rg_want != wanted);
            wanted = caps.rg_want;
            for (uint32_t i = 0; i < caps.count; i++) /* by the next turn they have done as told, and used it */
                caps.job[i].used_mib = caps.job[i].cap_mib;
        }
    }
}

/* ---- several jobs */

static uint64_t speed(const uint32_t *table, uint32_t units)
{
    return table[units / 2 < 6 ? units / 2 : 5];
}

static void test_trial_example(void **state)
{
    static const uint32_t sr[] = { 0, 75, 85, 93, 97, 100 }, rn[] = { 0, 10, 20, 30, 40, 100 }, least[] = { 2, 2 };
    struct trial trial;
    int tried = 0;

    (void)state;
    assert_true(trial_init(&trial, 12, least, 2));
    assert_int_equal(trial.now[0], 6);
    assert_int_equal(trial.now[1], 6);
    assert_int_equal(speed(sr, trial.now[0]) + speed(rn, trial.now[1]), 123);
    while (trial_result(&trial, speed(sr, trial.now[0]) + speed(rn, trial.now[1])))
        assert_true(++tried < 30);
    assert_int_equal(trial.now[0], 2);
    assert_int_equal(trial.now[1], 10);
    assert_int_equal(trial.score, 175);
    assert_false(trial_result(&trial, 0));
    trial_again(&trial);
    assert_true(trial_result(&trial, 175));
}

static void test_trial_limits(void **state)
{
    static const uint32_t least[TRIAL_JOBS + 1] = { 3, 4, 5 };
    struct trial trial;

    (void)state;
    assert_false(trial_init(&trial, 11, least, 3));
    assert_false(trial_init(&trial, 11, least, 0));
    assert_false(trial_init(&trial, 100, least, TRIAL_JOBS + 1));
    assert_true(trial_init(&trial, 12, least, 3));
    assert_false(trial_result(&trial, 1)); /* nothing can be moved */
    assert_true(trial_init(&trial, 4, least, 1));
    assert_int_equal(trial.now[0], 4);
    assert_false(trial_result(&trial, 1));
}

/* Against every split: with concave speeds the search finds the best, and it always ends. */
static void test_trial_concave(void **state)
{
    struct rng rng;

    (void)state;
    rng_seed(&rng, 3);
    for (int round = 0; round < 200; round++) {
        uint32_t table[2][17] = { { 0 } }, least[2] = { 1, 1 }, best = 0, tried = 0;
        struct trial trial;

        for (int j = 0; j < 2; j++)
            for (uint32_t u = 1, gain = 200; u <= 16; u++) {
                gain = (uint32_t)rng_below(&rng, gain + 1);
                table[j][u] = table[j][u - 1] + gain + 1;
            }
        for (uint32_t u = 1; u < 16; u++)
            best = table[0][u] + table[1][16 - u] > best ? table[0][u] + table[1][16 - u] : best;
        assert_true(trial_init(&trial, 16, least, 2));
        while (trial_result(&trial, table[0][trial.now[0]] + table[1][trial.now[1]]))
            assert_true(++tried < 200);
        assert_int_equal(trial.score, best);
    }
}

/* ---- the window */

static void test_ring(void **state)
{
    struct ring ring;

    (void)state;
    ring_init(&ring);
    assert_int_equal(ring_mean(&ring, 0, 10), -1);
    assert_int_equal(ring_peak(&ring, 0, 60), 0);
    for (int s = 0; s < 20; s++)
        ring_add(&ring, s * USEC_SEC, s < 10 ? 90 : 40, (uint32_t)s);
    assert_int_equal(ring_mean(&ring, 19 * USEC_SEC, 10), 4000);
    assert_int_equal(ring_mean(&ring, 19 * USEC_SEC, 20), 6500);
    assert_int_equal(ring_mean(&ring, 19 * USEC_SEC, 60), 6500); /* no more is known */
    assert_int_equal(ring_peak(&ring, 19 * USEC_SEC, 60), 19);
    ring_add(&ring, 19 * USEC_SEC + 5, 100, 7); /* the same second: the higher memory stays */
    assert_int_equal(ring_peak(&ring, 19 * USEC_SEC, 1), 19);
    assert_int_equal(ring_mean(&ring, 19 * USEC_SEC, 1), 10000);
    ring_add(&ring, 29 * USEC_SEC, 250, 1); /* nine seconds of silence count as the last, and 250 % as 100 */
    assert_int_equal(ring_mean(&ring, 29 * USEC_SEC, 10), 10000);
    ring_add(&ring, 3 * USEC_SEC, 0, 99999); /* a clock that went back */
    assert_int_equal(ring_mean(&ring, 29 * USEC_SEC, 10), 10000);
    ring_add(&ring, 1000 * USEC_SEC, 10, 2);
    assert_int_equal(ring_mean(&ring, 1000 * USEC_SEC, 60), (59 * 100 + 10) * 100 / 60);
    assert_int_equal(ring_peak(&ring, 1000 * USEC_SEC, 60), 2);
    assert_int_equal(ring_mean(&ring, 1030 * USEC_SEC, 10), 1000);
}

/* ---- the loop around a pair, on a modelled GPU */

/* For any interference: within the tolerance on the average, no oscillation, and the neighbour gets something whenever
 * there is something to get. */
static void test_pair_settles(void **state)
{
    (void)state;
    for (uint32_t k = 0; k <= 1000; k += 10) {
        struct gpu gpu;

        gpu_init(&gpu, PAIR_GAPS, 20, k);
        gpu_run(&gpu, 60 * USEC_SEC);
        gpu_clear(&gpu);
        gpu_run(&gpu, 200 * USEC_SEC);
        assert_true(gpu_slower(&gpu) <= 20);
        assert_true(gpu.high > 0);
        if (k <= 700) { /* beyond that even the least share is too much, and there are pauses */
            assert_int_equal(gpu.low, gpu.high);
            assert_int_equal(gpu.reversals, 0);
        }
        if (k == 0)
            assert_int_equal(gpu.low, 1000);
    }
}

/* Steps vary by 3 % both ways: it keeps the tolerance as far as that can be measured, and never swings far out of it.
 */
static void test_pair_noise(void **state)
{
    (void)state;
    for (uint32_t k = 50; k <= 500; k += 50) {
        struct gpu gpu;

        gpu_init(&gpu, PAIR_GAPS, 20, k);
        gpu.noise = 30;
        gpu_run(&gpu, 60 * USEC_SEC);
        gpu_clear(&gpu);
        gpu_run(&gpu, 230 * USEC_SEC);
        /* The median of twenty such steps is itself off by up to 1.3 %, which the tolerance is then counted from. */
        assert_true(gpu_slower(&gpu) <= 35);
        assert_true((int64_t)gpu.k * gpu.high / 1000 <= 60); /* in no period more than three times the tolerance */
    }
}

/* The neighbour's work suddenly hurts more than before: within four periods the step is back inside the tolerance. */
static void test_pair_surge(void **state)
{
    (void)state;
    for (uint32_t k = 30; k <= 2000; k += 70) {
        struct gpu gpu;

        gpu_init(&gpu, PAIR_GAPS, 20, 0);
        gpu_run(&gpu, 60 * USEC_SEC);
        assert_int_equal(gpu.u, 1000);
        gpu.k = k;
        gpu.step_us = 20000;
        /* Steps are up to three times as long, a period has at least eight, and eight more without the neighbour tell
         * whether it was to blame. */
        gpu_run(&gpu, 4 * 8 * 20000 * 3 + 4 * 8 * 20000 + 4 * 500 * USEC_MSEC);
        assert_true((int64_t)gpu.k * gpu.u / 1000 <= 20);
    }
}

/* Another batch size: other steps, that are no interference. It measures alone again and goes on. */
static void test_pair_phase(void **state)
{
    struct gpu gpu;

    (void)state;
    gpu_init(&gpu, PAIR_GAPS, 20, 0);
    gpu_run(&gpu, 30 * USEC_SEC);
    assert_int_equal(gpu.u, 1000);
    gpu.step_us = 33000;
    gpu.launches = 800;
    for (int i = 0; i < 20 && baseline_of(&gpu.pair.baseline, 800) == 0; i++)
        gpu_run(&gpu, 100 * USEC_MSEC);
    assert_true(gpu.pair.baselining);
    assert_int_equal(gpu.u, 0);
    gpu_run(&gpu, 2 * USEC_SEC);
    assert_false(gpu.pair.baselining);
    assert_int_equal(gpu.u, 1000);
    assert_int_equal(baseline_of(&gpu.pair.baseline, 800), 33000);
    assert_int_equal(baseline_of(&gpu.pair.baseline, 400), 0);
}

/* Looks at being alone: two whole ones, then six steps at a time, at a hundredth of the neighbour's time. */
static void test_pair_looks(void **state)
{
    struct gpu gpu;
    usec_t closed = 0;
    uint32_t looks = 0;

    (void)state;
    gpu_init(&gpu, PAIR_GAPS, 20, 0);
    gpu_run(&gpu, 600 * USEC_MSEC);
    assert_false(gpu.pair.baselining);
    assert_int_equal(gpu.pair.baseline.bucket[0].count, 20);
    gpu_run(&gpu, 4 * USEC_SEC);
    assert_int_equal(gpu.pair.looks, 2);
    assert_int_equal(gpu.pair.baseline.bucket[0].count, 20);
    for (int i = 0; i < 40000; i++) { /* 200 s */
        bool before = gpu.pair.baselining;

        gpu_run(&gpu, 5 * USEC_MSEC);
        closed += gpu.u ? 0 : 5 * USEC_MSEC;
        looks += gpu.pair.baselining && !before;
    }
    assert_in_range(looks, 9, 13);
    assert_in_range(closed, USEC_SEC, 25 * USEC_SEC / 10);
    assert_int_equal(gpu.u, 1000);
    /* Steps of a second: no oftener than every five minutes. */
    gpu.step_us = USEC_SEC;
    gpu.launches = 4000;
    gpu_run(&gpu, 200 * USEC_SEC);
    looks = 0;
    for (int i = 0; i < 120000; i++) { /* 600 s */
        bool before = gpu.pair.baselining;

        gpu_run(&gpu, 5 * USEC_MSEC);
        looks += gpu.pair.baselining && !before;
    }
    assert_in_range(looks, 1, 2);
}

/* The first look is made while the neighbour still loads its code and takes its memory: steps are 1 % longer than they
 * are alone. A tolerance counted from there would be half as much again. */
static void test_pair_biased(void **state)
{
    struct gpu gpu;

    (void)state;
    gpu_init(&gpu, PAIR_GAPS, 20, 25);
    gpu.step_us = 20200;
    gpu_run(&gpu, 600 * USEC_MSEC);
    assert_int_equal(baseline_of(&gpu.pair.baseline, 400), 20200);
    gpu.step_us = 20000;
    gpu_run(&gpu, 10 * USEC_SEC);
    assert_int_equal(baseline_of(&gpu.pair.baseline, 400), 20000);
    /* And later, when clocks have fallen with the heat. */
    gpu.step_us = 20150;
    gpu_run(&gpu, 60 * USEC_SEC);
    assert_int_equal(baseline_of(&gpu.pair.baseline, 400), 20150);
}

/* A cut by one noisy period where the steps lie above half the tolerance at any share: the share comes back. */
static void test_pair_held(void **state)
{
    struct pair pair;
    uint32_t u = 0, low = SHARE_MAX;
    usec_t now = 0;

    (void)state;
    pair_begin(&pair, PAIR_GAPS, 20, now);
    for (; now < 60 * USEC_SEC; now += 10 * USEC_MSEC) {
        bool noisy = now >= 20 * USEC_SEC && now < 21 * USEC_SEC;

        /* Before the noise hardly anything, after it always 12 permille as soon as anybody is let in. */
        pair_step(&pair, 400, u == 0 ? 10000 : noisy ? 10250 : now < 20 * USEC_SEC ? 10050 : 10120);
        u = pair_turn(&pair, now);
        low = u && now > 21 * USEC_SEC && u < low ? u : low;
        if (now == 20 * USEC_SEC - 10 * USEC_MSEC)
            assert_int_equal(u, 1000);
    }
    assert_in_range(low, 400, 800);
    assert_int_equal(pair.share.u, 1000);
}

/* A guaranteed job of which no steps can be seen: its neighbours wait ten seconds, then the gate's own rule does. */
static void test_pair_silent(void **state)
{
    struct pair pair;

    (void)state;
    pair_begin(&pair, PAIR_GAPS, 20, 0);
    assert_int_equal(pair_turn(&pair, 10 * USEC_SEC - 1), 0);
    assert_int_equal(pair_turn(&pair, 10 * USEC_SEC), SHARE_START);
    assert_int_equal(pair.slowdown, -1);
}

/* AntMan's own law keeps mini-batches near the tolerance and never starves either of the two. */
static void test_pair_duty(void **state)
{
    (void)state;
    for (uint32_t k = 0; k <= 1000; k += 50) {
        struct gpu gpu;

        gpu_init(&gpu, PAIR_DUTY, FEEDBACK_EPS, k);
        gpu_run(&gpu, 60 * USEC_SEC);
        gpu_clear(&gpu);
        gpu_run(&gpu, 200 * USEC_SEC);
        /* It probes by ten points, so what it costs beyond the tolerance is at most a probe's worth. */
        assert_true(gpu_slower(&gpu) <= 50 + (int64_t)k / 20);
        assert_true(gpu.low >= 10);
        assert_true(gpu.high >= 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_duty_formula),
        cmocka_unit_test(test_duty_carry),
        cmocka_unit_test(test_feedback_traces),
        cmocka_unit_test(test_feedback_pause),
        cmocka_unit_test(test_caps_burst),
        cmocka_unit_test(test_caps_pause),
        cmocka_unit_test(test_caps_random),
        cmocka_unit_test(test_trial_example),
        cmocka_unit_test(test_trial_limits),
        cmocka_unit_test(test_trial_concave),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_pair_settles),
        cmocka_unit_test(test_pair_noise),
        cmocka_unit_test(test_pair_surge),
        cmocka_unit_test(test_pair_phase),
        cmocka_unit_test(test_pair_looks),
        cmocka_unit_test(test_pair_biased),
        cmocka_unit_test(test_pair_held),
        cmocka_unit_test(test_pair_silent),
        cmocka_unit_test(test_pair_duty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
