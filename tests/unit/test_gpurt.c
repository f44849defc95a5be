/* SPDX-License-Identifier: Apache-2.0 */
/* The pure parts of the GPU runtime: admission, the share controller, baselines, gaps, periods, the guardian's journal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "coord/baseline.h"
#include "coord/share.h"
#include "gpurt/ladder/guard.h"
#include "shim/channel.h"
#include "shim/gate/admit.h"
#include "shim/gate/bulk.h"
#include "shim/gate/gap.h"
#include "shim/steps/period.h"
#include "shim/steps/rounds.h"

#define SEC 1000000000ULL

/* ---- the controller's exact traces, eps 20 */

static void trace(uint32_t factor, const uint32_t *expect, size_t count)
{
    struct share share;

    share_init(&share, 20);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(share.u, expect[i]);
        (void)share_period(&share, factor * share.u / 1000, i);
    }
}

static void test_share_traces(void **state)
{
    static const uint32_t a[] = { 25, 50, 100, 200, 400, 400, 400 }, b[] = { 25, 50, 100, 200, 200, 200 };
    static const uint32_t c[] = { 25, 50, 100, 200, 400, 800, 1000, 1000 };

    (void)state;
    trace(30, a, 7);
    trace(60, b, 6);
    trace(0, c, 8);
}

static void test_share_given(void **state)
{
    static const uint32_t s[] = { 0, 0, 0, 25, 25, 0, 70, 0 }, u[] = { 25, 50, 100, 200, 150, 112, 152, 38, 78 };
    struct share share;

    (void)state;
    share_init(&share, 20);
    assert_int_equal(share.u, u[0]);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(share_period(&share, s[i], i), u[i + 1]);
}

/* s = 2u: 25, then a pause of 30 s, 60 s, ... up to 600 s. */
static void test_share_pause(void **state)
{
    static const uint64_t spans[] = { 30000, 60000, 120000, 240000, 480000, 600000, 600000 };
    struct share share;
    uint64_t now = 1000;

    (void)state;
    share_init(&share, 20);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(share.u, 25);
        assert_int_equal(share_period(&share, 2 * share.u, now), 0);
        assert_true(share_paused(&share, now + spans[i] - 1));
        assert_int_equal(share_period(&share, 0, now + spans[i] - 1), 0);
        assert_false(share_paused(&share, now + spans[i]));
        now += spans[i];
    }
}

/* A tenth longer beside others than alone, of the same size: they disturb. */
static void test_bulk(void **state)
{
    struct bulk_book book = { 0 };
    uint64_t mib = 1 << 20;

    (void)state;
    assert_false(bulk_learn(&book, 8 * mib, 160000, true)); /* nothing to compare with */
    for (int i = 0; i < 50; i++)
        assert_false(bulk_learn(&book, 8 * mib, 160000, false));
    assert_false(bulk_learn(&book, 8 * mib, 170000, true));
    assert_false(bulk_learn(&book, 2 * mib, 170000, true)); /* another size is another matter */
    for (int i = 0; i < 30; i++)
        (void)bulk_learn(&book, 8 * mib, 180000, true);
    assert_true(bulk_learn(&book, 8 * mib, 180000, true));
    assert_false(bulk_learn(&book, 8 * mib, 160000, false)); /* they left */
    assert_false(bulk_learn(&book, 8 * mib, 165000, true));
    assert_false(bulk_learn(&book, UINT64_MAX, UINT64_MAX, true));
    assert_false(bulk_learn(&book, 0, 0, false));
}

/* ---- admission */

/* Launches of one length into a gap of 2000 us, the device working them off one after the other. */
static int admitted(uint32_t cost, uint32_t window)
{
    struct admit_knobs knobs = { .window_us = window, .guard_us = 150, .gap_min_us = 200 };
    uint64_t busy_until = 0;
    int count = 0;

    for (uint64_t t = 0; t < 2000; t++) {
        for (;;) {
            struct admit_state s = { .rg_state = RG_IDLE, .gap_pred_us = 2000, .elapsed_us = t, .cost_us = cost };

            s.inflight_us = busy_until > t ? busy_until - t : 0;
            if (admit_harvest(&knobs, &s) != ADMIT_GO)
                break;
            busy_until = (busy_until > t ? busy_until : t) + cost;
            count++;
        }
    }
    return count;
}

static void test_admit_gap(void **state)
{
    (void)state;
    assert_int_equal(admitted(200, 600), 9);
    assert_int_equal(admitted(1000, 600), 1);
}

/* More may be in flight only with time slices, a share that is nearly all, and a gap that is known and long. */
static void test_admit_window(void **state)
{
    (void)state;
    assert_int_equal(admit_window(600, 3000, 1000, 8000, true), 3000);
    assert_int_equal(admit_window(600, 3000, 1000, 4000, true), 1500);
    assert_int_equal(admit_window(600, 3000, 1000, 1000, true), 600);
    assert_int_equal(admit_window(600, 3000, 1000, 0, true), 600);
    assert_int_equal(admit_window(550, 3000, 899, 8000, true), 550);
    assert_int_equal(admit_window(600, 3000, 1000, 8000, false), 600);
    assert_int_equal(admit_window(600, 3000, UINT32_MAX, UINT32_MAX, true), 3000);
    assert_int_equal(admit_window(600, 1200, 1000, 8000, true), 1200); /* as an experiment asks */
}

static void test_admit_table(void **state)
{
    static const struct {
        struct admit_knobs knobs;
        struct admit_state state;
        enum admit_verdict expect;
    } cases[] = {
        { { 600, 100, 200, 0, 750 }, { .rg_state = RG_ABSENT, .cost_us = 9999 }, ADMIT_GO },
        { { 600, 100, 200, 0, 750 }, { .rg_state = 77 }, ADMIT_GO }, /* garbage in the page */
        { { 600, 100, 200, 0, 750 }, { .rg_state = RG_ACTIVE }, ADMIT_WAIT_RG },
        { { 600, 100, 200, 50, 750 }, { .rg_state = RG_ACTIVE }, ADMIT_GO_LEAK },
        { { 600, 100, 200, 50, 750 }, { .rg_state = RG_ACTIVE, .leak_empty = true }, ADMIT_WAIT_RG },
        { { 600, 100, 200, 50, 750 },
          { .rg_state = RG_ACTIVE, .burst_pred_us = 1000, .elapsed_us = 700 },
          ADMIT_WAIT_RG },
        { { 600, 100, 200, 50, 750 },
          { .rg_state = RG_ACTIVE, .burst_pred_us = 1000, .elapsed_us = 750 },
          ADMIT_GO_LEAK },
        { { 600, 100, 200, 0, 750 }, { .rg_state = RG_IDLE, .gap_pred_us = 150 }, ADMIT_WAIT_SHORT },
        { { 600, 100, 200, 0, 750 }, { .rg_state = RG_IDLE, .inflight_us = 500, .cost_us = 200 }, ADMIT_WAIT_FENCE },
        { { 600, 100, 200, 0, 750 },
          { .rg_state = RG_IDLE, .cost_us = 5000 },
          ADMIT_GO }, /* unknown gap, nothing there */
        { { 600, 100, 200, 0, 750 },
          { .rg_state = RG_IDLE, .gap_pred_us = 1000, .elapsed_us = 950, .cost_us = 50 },
          ADMIT_WAIT_FENCE },
        { { 600, 100, 200, 0, 750 },
          { .rg_state = RG_IDLE, .gap_pred_us = 1000, .elapsed_us = 50, .cost_us = 20000 },
          ADMIT_GO }, /* fits no gap: only at its start */
        { { 600, 100, 200, 0, 750 },
          { .rg_state = RG_IDLE, .gap_pred_us = 1000, .elapsed_us = 50, .cost_us = 20000, .unsliced = true },
          ADMIT_WAIT_FENCE }, /* and without time slices only as a leak */
        { { 600, 100, 200, 50, 750 },
          { .rg_state = RG_IDLE, .gap_pred_us = 1000, .elapsed_us = 50, .cost_us = 20000, .unsliced = true },
          ADMIT_GO_LEAK },
        { { 600, 100, 200, 50, 750 },
          { .rg_state = RG_IDLE, .gap_pred_us = 1000, .cost_us = 20000, .unsliced = true, .leak_empty = true },
          ADMIT_WAIT_FENCE },
        { { 600, 100, 200, 0, 750 },
          { .rg_state = RG_IDLE, .gap_pred_us = 1000, .elapsed_us = 500, .cost_us = 20000 },
          ADMIT_WAIT_FENCE },
        { { 600, 100, 200, 0, 750 },
          { .rg_state = RG_IDLE, .gap_pred_us = 1000, .elapsed_us = 5000, .cost_us = 50 },
          ADMIT_GO }, /* the gap has outlived its prediction */
        { { 600, -100, 200, 0, 750 },
          { .rg_state = RG_IDLE, .gap_pred_us = 1000, .elapsed_us = 1000, .cost_us = 50 },
          ADMIT_GO }, /* a guard below nothing reaches beyond the end, */
        { { 600, -100, 200, 0, 750 },
          { .rg_state = RG_IDLE, .gap_pred_us = 1000, .elapsed_us = 1051, .cost_us = 50 },
          ADMIT_WAIT_FENCE }, /* so far and no further */
        { { 600, 100, 200, 50, 0 }, { .rg_state = RG_ACTIVE, .burst_pred_us = 1000 }, ADMIT_GO_LEAK },
        { { 600, 100, 200, 50, 0 },
          { .rg_state = RG_ACTIVE, .inflight_us = 560, .cost_us = 50 },
          ADMIT_WAIT_RG }, /* no more than a window of it */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (admit_harvest(&cases[i].knobs, &cases[i].state) != cases[i].expect)
            fail_msg("case %zu", i);
}

/* Below 5 us a launch costs nothing; those that are in flight count all the same. */
static void test_admit_tiny(void **state)
{
    static const struct admit_knobs knobs = { 600, 100, 200, 0, 750 };
    static const struct {
        struct admit_state state;
        enum admit_verdict expect;
    } cases[] = {
        { { .gap_pred_us = 1000, .elapsed_us = 900, .cost_us = 4 }, ADMIT_GO },
        { { .gap_pred_us = 1000, .elapsed_us = 900, .cost_us = 5 }, ADMIT_WAIT_FENCE },
        { { .gap_pred_us = 1000, .elapsed_us = 895, .cost_us = 5 }, ADMIT_GO },
        { { .gap_pred_us = 1000, .elapsed_us = 901, .cost_us = 0 }, ADMIT_WAIT_FENCE },
        { { .gap_pred_us = 1000, .elapsed_us = 899, .inflight_us = 1, .cost_us = 1 }, ADMIT_GO },
        { { .gap_pred_us = 1000, .elapsed_us = 899, .inflight_us = 2, .cost_us = 1 }, ADMIT_WAIT_FENCE },
        { { .inflight_us = 600, .cost_us = 4 }, ADMIT_GO },
        { { .inflight_us = 596, .cost_us = 5 }, ADMIT_WAIT_FENCE },
        { { .inflight_us = 601, .cost_us = 4 }, ADMIT_WAIT_FENCE },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct admit_state s = cases[i].state;

        s.rg_state = RG_IDLE;
        if (admit_harvest(&knobs, &s) != cases[i].expect)
            fail_msg("case %zu", i);
    }
}

static void test_admit_map(void **state)
{
    struct admit_knobs k;

    (void)state;
    admit_map(0, &k);
    assert_int_equal(k.window_us, 100);
    assert_int_equal(k.guard_us, 400);
    assert_int_equal(k.gap_min_us, 1200);
    admit_map(1000, &k);
    assert_int_equal(k.window_us, 600);
    assert_int_equal(k.guard_us, 100);
    assert_int_equal(k.gap_min_us, 200);
    assert_int_equal(k.leak, 100);
    admit_leak(&k, 1000, false);
    assert_int_equal(k.leak, 100);
    assert_int_equal(k.leak_from, ADMIT_LEAK_FROM);
    admit_leak(&k, ADMIT_WIDE_SHARE - 1, true);
    assert_int_equal(k.leak, 100);
    admit_leak(&k, ADMIT_WIDE_SHARE, true); /* slices keep it from running before its time */
    assert_int_equal(k.leak, ADMIT_LEAK_WIDE);
    assert_int_equal(k.leak_from, ADMIT_LEAK_WIDE_FROM);
    admit_map(4000000000u, &k); /* clamped */
    assert_int_equal(k.window_us, 600);
}

/* The node side is gone: what holds, and until when. */
static void test_admit_orphan(void **state)
{
    struct page_control c = { .gate = GATE_CLOSED, .lease_until_ns = 100 * SEC, .share = 900 };
    struct admit_lease lease = { 0 };
    struct admit_rule r;

    (void)state;
    assert_int_equal(admit_effective(&c, &lease, 0, 100 * SEC).gate, GATE_CLOSED);
    r = admit_effective(&c, &lease, 0, 101 * SEC);
    assert_int_equal(r.gate, GATE_DUTY);
    assert_int_equal(r.duty, 100);
    assert_int_equal(admit_effective(&c, &lease, 0, 161 * SEC).gate, GATE_OPEN);
    c.gate_until_ns = 1000 * SEC; /* outlives the lease by 30 s at most */
    assert_int_equal(admit_effective(&c, &lease, 0, 130 * SEC).gate, GATE_CLOSED);
    assert_int_equal(admit_effective(&c, &lease, 0, 131 * SEC).gate, GATE_DUTY);
    assert_int_equal(admit_effective(&c, &lease, 0, 191 * SEC).gate, GATE_OPEN);
    c = (struct page_control){ .gate = GATE_HARVEST, .lease_until_ns = 100 * SEC, .share = 900 };
    assert_int_equal(admit_effective(&c, &lease, 0, 99 * SEC).share, 900);
    r = admit_effective(&c, &lease, 0, 120 * SEC);
    assert_int_equal(r.gate, GATE_HARVEST);
    assert_int_equal(r.share, 200);
    assert_int_equal(admit_effective(&c, &lease, 0, 161 * SEC).gate, GATE_OPEN);
    c.gate = 99;
    assert_int_equal(admit_effective(&c, &lease, 0, 0).gate, GATE_OPEN);
}

/* A lease of years, as nobody gives it: it ends all the same, and does not begin again when its time comes near. */
static void test_admit_garbage(void **state)
{
    struct page_control c = { .gate = GATE_CLOSED, .lease_until_ns = 0xdeadbeefdeadbeefULL };
    struct admit_lease lease = { 0 };

    (void)state;
    c.gate_until_ns = c.lease_until_ns;
    assert_int_equal(admit_effective(&c, &lease, 0, 1000 * SEC).gate, GATE_CLOSED);
    assert_int_equal(admit_effective(&c, &lease, 0, 1015 * SEC).gate, GATE_CLOSED);
    assert_int_equal(admit_effective(&c, &lease, 0, 1046 * SEC).gate, GATE_DUTY);
    assert_int_equal(admit_effective(&c, &lease, 0, 1106 * SEC).gate, GATE_OPEN);
    assert_int_equal(admit_effective(&c, &lease, 0, 100000 * SEC).gate, GATE_OPEN);
    c = (struct page_control){ .gate = GATE_CLOSED, .lease_until_ns = 200 * SEC };
    assert_int_equal(admit_effective(&c, &lease, 0, 100 * SEC).gate, GATE_CLOSED);
    assert_int_equal(admit_effective(&c, &lease, 0, 116 * SEC).gate, GATE_DUTY);
    assert_int_equal(admit_effective(&c, &lease, 0, 190 * SEC).gate, GATE_OPEN);
    c.lease_until_ns = 195 * SEC; /* what a node side gives counts from then on */
    assert_int_equal(admit_effective(&c, &lease, 0, 191 * SEC).gate, GATE_CLOSED);
    admit_lease_own(&lease, 900 * SEC); /* and what the process gives itself, however long */
    c.lease_until_ns = 900 * SEC;
    assert_int_equal(admit_effective(&c, &lease, 0, 899 * SEC).gate, GATE_CLOSED);
    assert_int_equal(admit_effective(&c, &lease, 0, 901 * SEC).gate, GATE_DUTY);
}

/* Whether the guaranteed job is looked for: not while somebody keeps the lease, nor while it shows life. */
static void test_admit_doubt(void **state)
{
    (void)state;
    assert_false(admit_doubt(10 * SEC, 1, 10 * SEC));
    assert_false(admit_doubt(10 * SEC, 11 * SEC, 11 * SEC));
    assert_false(admit_doubt(10 * SEC, 11 * SEC, 11 * SEC + 200000000));
    assert_true(admit_doubt(10 * SEC, 11 * SEC, 11 * SEC + 200000001));
    assert_true(admit_doubt(10 * SEC, 9 * SEC, 10 * SEC + 1));
    assert_false(admit_doubt(10 * SEC, UINT64_MAX, 20 * SEC)); /* garbage */
    assert_false(admit_doubt(UINT64_MAX, 0, 20 * SEC));
}

static void test_admit_bucket(void **state)
{
    struct admit_bucket b = { 0 };
    uint64_t now = SEC;
    int64_t ran = 0;

    (void)state;
    for (; now < 11 * SEC; now += 100000)
        if (admit_bucket_ready(&b, now, 250, 2000)) {
            admit_bucket_spend(&b, 500);
            ran += 500;
        }
    assert_in_range((uint64_t)ran, 2490000, 2510000); /* a quarter of ten seconds */
}

/* ---- gaps, baselines, periods */

static void test_gap(void **state)
{
    struct gap_book book = { 0 };

    (void)state;
    assert_int_equal(gap_begin(&book), 0);
    for (int i = 0; i < 100; i++) {
        gap_boundary(&book);
        (void)gap_begin(&book);
        gap_end(&book, 8000);
        (void)gap_begin(&book);
        gap_end(&book, i % 2 ? 100 : 300);
    }
    gap_boundary(&book);
    assert_int_equal(gap_begin(&book), 8000);
    gap_end(&book, 8000);
    assert_in_range(gap_begin(&book), 50, 150); /* mean 200, deviation about 100 */
    gap_void(&book);
    assert_in_range(gap_begin(&book), 50, 150); /* what was none has moved nothing */
    gap_boundary(&book);                        /* told while it is under way: it is the second one all the same */
    gap_end(&book, 200);
    assert_int_equal(gap_begin(&book), 8000);
}

static void test_baseline(void **state)
{
    struct baseline b;
    uint32_t launches[9], wall[9];

    (void)state;
    baseline_reset(&b);
    assert_int_equal(baseline_of(&b, 400), 0);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(baseline_add(&b, 400 + i % 4, 10000 + i), i + 1);
    assert_int_equal(baseline_of(&b, 401), 10010);
    assert_int_equal(baseline_of(&b, 420), 0); /* another kind of step */
    for (uint32_t i = 0; i < 9; i++) {
        launches[i] = i < 6 ? 400 : 900;
        wall[i] = i < 6 ? 10410 : 99999; /* an evaluation phase is no slowdown */
    }
    assert_int_equal(baseline_slowdown(&b, launches, wall, 9), 40);
    assert_int_equal(baseline_slowdown(&b, launches + 6, wall + 6, 3), -1);
    wall[0] = 5000;
    assert_int_equal(baseline_slowdown(&b, launches, wall, 1), 0);
}

static void test_period(void **state)
{
    static uint16_t ids[20000], layers[20000];
    static uint32_t mib[20000];
    uint64_t seed = 1;

    (void)state;
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t k = i % 454;

        ids[i] = (uint16_t)((k * k * 31 + k * 7) & 0xffff);
        mib[i] = 1000 + (k < 227 ? k : 454 - k); /* least at k == 0 */
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        if (seed >> 58 == 0) /* 1.6 % of the launches differ */
            ids[i] = (uint16_t)(seed >> 20);
    }
    assert_int_equal(period_find(ids, 20000), 454);
    /* Twenty layers of twelve launches each, then 200 others; the newest launch is inside the layers. */
    for (uint32_t i = 0; i < 20000; i++)
        layers[i] = (uint16_t)(i % 440 < 240 ? i % 440 % 12 : i % 440 * 31);
    assert_int_equal(period_find(layers, 440 * 40 + 230), 440);
    assert_int_equal(period_find(ids, 1000), 0); /* too little to tell */
    assert_int_equal(period_anchor(mib, 20000, 454), (20000 - 1) % 454);
    for (uint32_t i = 0; i < 20000; i++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        ids[i] = (uint16_t)(seed >> 40);
    }
    assert_int_equal(period_find(ids, 20000), 0);
}

/* Rounds of optimizers: `text` is who steps, one letter each; the number of ends in its last `tail` steps. */
static int ends(struct rounds *rounds, const char *text, size_t times, size_t tail)
{
    size_t all = strlen(text) * times;
    int count = 0;

    for (size_t i = 0; i < all; i++)
        if (rounds_step(rounds, (uint16_t)text[i % strlen(text)]) && i >= all - tail)
            count++;
    return count;
}

static void test_rounds(void **state)
{
    struct rounds r = { 0 };

    (void)state;
    assert_int_equal(ends(&r, "a", 100, 100), 100); /* one optimizer: every step, from the first */
    assert_int_equal(ends(&r, "b", 100, 100), 100); /* a new one in its place */
    r = (struct rounds){ 0 };
    assert_int_equal(ends(&r, "dg", 3, 6), 5 + 1); /* nothing repeats yet: all but the one before the last */
    assert_int_equal(ends(&r, "dg", 50, 100), 50);
    assert_false(rounds_step(&r, 'd')); /* the end of a round is with the second */
    assert_true(rounds_step(&r, 'g'));
    /* One is left out, as with an overflow in half precision: still one end a round, and soon at its end again. */
    assert_in_range(ends(&r, "g", 1, 1) + ends(&r, "dg", 30, 60), 30, 31);
    assert_false(rounds_step(&r, 'd'));
    assert_true(rounds_step(&r, 'g'));
    r = (struct rounds){ 0 };
    assert_int_equal(ends(&r, "dddddg", 50, 240), 40);
    assert_int_equal(ends(&r, "ddddd", 1, 5), 0);
    assert_int_equal(ends(&r, "g", 1, 1), 1);
    assert_int_equal(ends(&r, "hik", 40, 60), 20); /* another phase of the program */
    r = (struct rounds){ 0 };
    assert_int_equal(ends(&r, "abcdefghijklmnopq", 20, 170), 170); /* more than are looked for: all */
}

static void test_journal(void **state)
{
    char dir[] = "/tmp/muster-journal-XXXXXX", path[64];
    struct guard_journal out = { 4711, 99, GUARD_CHECKPOINTED, 12345, "4041" }, in;
    struct error err = { 0 };
    FILE *f;

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(guard_journal_write(dir, &out, &err), 0);
    assert_int_equal(guard_journal_read(dir, 4711, &in, &err), 0);
    assert_int_equal(in.bytes, 12345);
    assert_string_equal(in.gpus, "4041");
    assert_int_equal(in.pid, 4711);
    assert_int_equal(in.start_ticks, 99);
    assert_int_equal(in.state, GUARD_CHECKPOINTED);
    assert_true(guard_journal_read(dir, 4712, &in, &err) < 0);
    (void)snprintf(path, sizeof(path), "%s/guard-4712.journal", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs("4712 1 nonsense\n", f);
    (void)fclose(f);
    assert_true(guard_journal_read(dir, 4712, &in, &err) < 0);
    assert_non_null(strstr(err.text, ":1:"));
    (void)unlink(path);
    (void)snprintf(path, sizeof(path), "%s/guard-4711.journal", dir);
    (void)unlink(path);
    (void)rmdir(dir);
    assert_true(channel_start_ticks(getpid()) > 0);
    assert_int_equal(channel_start_ticks(0x7ffffff0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bulk),         cmocka_unit_test(test_share_traces),  cmocka_unit_test(test_share_given),
        cmocka_unit_test(test_share_pause),  cmocka_unit_test(test_admit_gap),     cmocka_unit_test(test_admit_window),
        cmocka_unit_test(test_admit_table),  cmocka_unit_test(test_admit_tiny),    cmocka_unit_test(test_admit_map),
        cmocka_unit_test(test_admit_orphan), cmocka_unit_test(test_admit_garbage), cmocka_unit_test(test_admit_bucket),
        cmocka_unit_test(test_admit_doubt),  cmocka_unit_test(test_gap),           cmocka_unit_test(test_baseline),
        cmocka_unit_test(test_period),       cmocka_unit_test(test_rounds),        cmocka_unit_test(test_journal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
