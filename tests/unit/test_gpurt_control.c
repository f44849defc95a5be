/* SPDX-License-Identifier: Apache-2.0 */
/* The node side's turns, played with processes that are only pages: whose turn it is and for how long, ranks that close
 * after a step, and steps that say nothing because something else slows the GPU down. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "gpurt/control/turns.h"
#include "gpurt/node.h"
#include "gpurt_process.h"
#include "shim/channel.h"
#include "shim/gate/admit.h"

#define MSEC 1000000ULL
#define ALONE_US 10000u

static struct node *node;
static struct arena *arena;

static struct client *process_new(int slot, uint32_t role, const char *job)
{
    struct client *c = process_make(node, slot, role);

    c->util = -1;
    (void)snprintf(c->job, sizeof(c->job), "%s", job);
    return c;
}

static void step_add(struct client *c, uint64_t end_ns, uint32_t wall_us)
{
    struct page_step *step = &c->page->step;

    step->ring[step->seq % PAGE_STEPS] =
        (struct page_step_record){ .end_ns = end_ns, .wall_us = wall_us, .launches = 100 };
    step->seq++;
}

static int setup(void **state)
{
    (void)state;
    node = node_make((uint64_t)16 << 30);
    arena = mem_zalloc(1, sizeof(*arena));
    if (!node || !arena)
        return -1;
    node->eps = 20;
    node->gpu[0].arena = arena;
    node->gpu[0].loop.slowdown = -1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mem_free(arena);
    node_drop(node);
    return 0;
}

/* ---- orders */

/* A program has as long to save itself as whoever asked has given it, and not what a move may take. */
static void test_save_time(void **state)
{
    struct client *c = process_new(0, ROLE_OPPORTUNISTIC, "");

    (void)state;
    c->state = c->goal = CLIENT_RUNNING;
    c->step = STEP_SAVE;
    c->save_s = 290;
    c->step_seq = 7;
    c->signal = SIGUSR1;
    c->pid = getpid(); /* which would be ended by that, so nothing is sent */
    c->step_since_ns = node_now() - 280000 * MSEC;
    ladder_turn(node, c);
    assert_int_equal(c->step, STEP_SAVE);
    c->step_since_ns = node_now() - 293000 * MSEC;
    ladder_turn(node, c);
    assert_int_equal(c->step, STEP_NONE);
}

/* ---- turns */

static void test_turn_length(void **state)
{
    static const struct {
        uint32_t share, least, ms;
    } cases[] = { { 0, 0, 20 },      { 1000, 1000, 20 }, { 500, 500, 10 }, { 1000, 500, 20 },
                  { 1000, 250, 40 }, { 250, 250, 10 },   { 500, 250, 20 }, { 1000, 100, 100 },
                  { 100, 100, 10 },  { 1000, 1, 200 },   { 1, 1, 10 } };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(turn_length(cases[i].share, cases[i].least) / MSEC, cases[i].ms);
}

/* Milliseconds of 10 s that each of three has. */
static void turns_play(const uint32_t *shares, uint32_t *ret_ms)
{
    uint64_t now = 1000 * MSEC;

    memset(ret_ms, 0, 3 * sizeof(*ret_ms));
    for (int i = 0; i < 3; i++)
        node->client[i].duty = shares[i];
    for (int t = 0; t < 10000; t++, now += MSEC) {
        turns_rotate(node, 0, 3, now);
        assert_in_range(arena->ot_turn_pid, 1000, 1002); /* always exactly one of them */
        ret_ms[arena->ot_turn_pid - 1000]++;
    }
}

static void test_turns_by_share(void **state)
{
    static const uint32_t equal[] = { 0, 0, 0 }, half[] = { 0, 500, 500 }, quarter[] = { 0, 500, 250 };
    uint32_t ms[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        (void)process_new(i, ROLE_OPPORTUNISTIC, "");
    turns_play(equal, ms);
    for (int i = 0; i < 3; i++)
        assert_in_range(ms[i], 3300, 3380);
    turns_play(half, ms); /* 20, 10 and 10 of 40 */
    assert_in_range(ms[0], 4900, 5100);
    assert_in_range(ms[1], 2400, 2600);
    assert_in_range(ms[2], 2400, 2600);
    turns_play(quarter, ms); /* 40, 20 and 10 of 70 */
    assert_in_range(ms[0], 5600, 5800);
    assert_in_range(ms[1], 2750, 2950);
    assert_in_range(ms[2], 1350, 1500);
    /* One that is paused takes no turns, and one alone is nobody's turn. */
    node->client[0].state = CLIENT_PAUSED;
    for (uint64_t now = 20000 * MSEC; now < 21000 * MSEC; now += MSEC) {
        turns_rotate(node, 0, 2, now);
        assert_true(now < 20300 * MSEC || arena->ot_turn_pid != 1000);
    }
    turns_rotate(node, 0, 1, 30000 * MSEC);
    assert_int_equal(arena->ot_turn_pid, 0);
}

/* ---- ranks */

static enum page_gate gate_of(const struct client *c)
{
    struct admit_lease lease = { 0 };

    return admit_effective(&c->page->control, &lease, c->page->step.seq, c->page->control.close_by_ns - 1).gate;
}

/* Two ranks, one of which has ended a step more and counts from elsewhere: both close after the same one. */
static void test_ranks_close(void **state)
{
    struct client *a = process_new(0, ROLE_OPPORTUNISTIC, "train"), *b = process_new(1, ROLE_OPPORTUNISTIC, "train");
    struct client *other = process_new(2, ROLE_OPPORTUNISTIC, "other");
    uint64_t lease;

    (void)state;
    for (int i = 1; i <= 7; i++)
        step_add(a, (uint64_t)i * 100 * MSEC, 100000);
    for (int i = 1; i <= 6; i++) /* its seventh is not over yet */
        step_add(b, (uint64_t)i * 100 * MSEC, 100000);
    b->page->step.seq += 64; /* and it was noticed earlier */
    memcpy(&b->page->step.ring[(b->page->step.seq - 1) % PAGE_STEPS], &b->page->step.ring[5],
           sizeof(struct page_step_record));
    assert_true(ranks_many(node, a) && ranks_many(node, b));
    assert_false(ranks_many(node, other));
    ranks_gate(node, a, true);
    ranks_gate(node, b, true);
    assert_int_equal(a->page->control.gate, GATE_OPEN);
    ranks_gate(node, a, false);
    assert_int_equal(a->page->control.gate, GATE_CLOSING);
    assert_int_equal(b->page->control.gate, GATE_CLOSING);
    assert_int_equal(other->page->control.gate, GATE_OPEN);
    assert_int_equal(a->page->control.close_step, 9);  /* two more */
    assert_int_equal(b->page->control.close_step, 73); /* the same one: three more of its count */
    lease = node_now() + 3600000 * MSEC;
    a->page->control.lease_until_ns = b->page->control.lease_until_ns = lease;
    /* Open until then, each of them, and closed from then on. */
    assert_true(ranks_leaving(node, &node->gpu[0], 0));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gate_of(a), GATE_OPEN);
        step_add(a, (uint64_t)(8 + i) * 100 * MSEC, 100000);
    }
    assert_int_equal(gate_of(a), GATE_CLOSED);
    assert_true(ranks_leaving(node, &node->gpu[0], 0)); /* the other one */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gate_of(b), GATE_OPEN);
        step_add(b, (uint64_t)(7 + i) * 100 * MSEC, 100000);
    }
    assert_int_equal(gate_of(b), GATE_CLOSED);
    assert_false(ranks_leaving(node, &node->gpu[0], 0));
    /* Told again, it stays as it is. */
    ranks_gate(node, b, false);
    assert_int_equal(b->page->control.close_step, 73);
}

/* One whose steps do not end is closed when its time is up, wherever it is. */
static void test_ranks_late(void **state)
{
    struct client *a = process_new(0, ROLE_OPPORTUNISTIC, "train");
    struct admit_lease lease = { 0 };

    (void)state;
    (void)process_new(1, ROLE_OPPORTUNISTIC, "train");
    step_add(a, 100 * MSEC, 100000);
    ranks_gate(node, a, false);
    a->page->control.lease_until_ns = UINT64_MAX / 2;
    assert_true(ranks_leaving(node, &node->gpu[0], a->page->control.close_by_ns - 1));
    assert_false(ranks_leaving(node, &node->gpu[0], a->page->control.close_by_ns));
    assert_int_equal(admit_effective(&a->page->control, &lease, 1, a->page->control.close_by_ns).gate, GATE_CLOSED);
}

static uint32_t measured(void)
{
    return node->gpu[0].loop.baseline.buckets ? node->gpu[0].loop.baseline.bucket[0].count : 0;
}

/* What the guaranteed job does while ranks run on to their step is not what it does alone. */
static void test_ranks_baseline(void **state)
{
    struct client *rg = process_new(0, ROLE_GUARANTEED, ""), *a = process_new(1, ROLE_OPPORTUNISTIC, "train");
    struct client *b = process_new(2, ROLE_OPPORTUNISTIC, "train");

    (void)state;
    control_turn(node); /* a pair forms */
    assert_true(node->gpu[0].loop.baselining);
    control_turn(node);
    assert_int_equal(a->page->control.gate, GATE_CLOSING);
    a->page->control.close_by_ns = b->page->control.close_by_ns = UINT64_MAX; /* this test waits for no clock */
    for (int i = 0; i < 10; i++) {
        step_add(rg, 0, 2 * ALONE_US);
        control_turn(node);
    }
    assert_int_equal(measured(), 0);
    a->page->step.seq = a->page->control.close_step;
    control_turn(node);
    assert_int_equal(measured(), 0); /* one of them is still there */
    b->page->step.seq = b->page->control.close_step;
    for (int i = 0; i < 12; i++) {
        step_add(rg, 0, ALONE_US);
        control_turn(node);
    }
    assert_int_equal(measured(), 10); /* but for two in which the last launches end */
    assert_int_equal(baseline_of(&node->gpu[0].loop.baseline, 100), ALONE_US);
}

/* Of two guaranteed processes each tells its own gaps only: in a gap of one the other may be at work. So nobody
 * harvests while there are two, and again when one has left or is paused. */
static void test_two_guaranteed(void **state)
{
    struct client *rg = process_new(0, ROLE_GUARANTEED, ""), *ot = process_new(1, ROLE_OPPORTUNISTIC, ""), *second;

    (void)state;
    control_turn(node);
    assert_int_equal(node->gpu[0].loop.law, PAIR_GAPS);
    second = process_new(2, ROLE_GUARANTEED, "");
    control_turn(node);
    assert_int_equal(node->gpu[0].loop.law, PAIR_DUTY);
    for (int i = 0; i < 40; i++) { /* what it is alone is known then */
        step_add(rg, 0, ALONE_US);
        control_turn(node);
        assert_int_not_equal(ot->page->control.gate, GATE_HARVEST);
        assert_int_not_equal(ot->page->control.gate, GATE_OPEN);
    }
    assert_int_equal(ot->page->control.gate, GATE_DUTY);
    second->state = second->goal = CLIENT_PAUSED;
    control_turn(node);
    assert_int_equal(node->gpu[0].loop.law, PAIR_GAPS);
    second->state = second->goal = CLIENT_RUNNING;
    control_turn(node);
    assert_int_equal(node->gpu[0].loop.law, PAIR_DUTY);
    second->arena[0] = -1; /* on another GPU */
    control_turn(node);
    assert_int_equal(node->gpu[0].loop.law, PAIR_GAPS);
}

/* By its start a process is told from a later one of the same number, before it is stopped or released: the kernel is
 * asked, not the process. */
static void test_start_seen(void **state)
{
    struct message_hello hello = { .head = { MSG_HELLO, sizeof(hello) }, .abi = PAGE_ABI, .start_ticks = 1 };
    struct page page = { .magic = PAGE_MAGIC, .abi = PAGE_ABI, .size = sizeof(page) };
    int ends[2], fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    assert_true(fd >= 0 && ftruncate(fd, PAGE_SIZE_BYTES) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    assert_int_equal(pwrite(fd, &page, sizeof(page), 0), sizeof(page));
    /* As a library sends it that does not tell its version yet. */
    assert_true(channel_send(ends[1], &hello, offsetof(struct message_hello, version), fd));
    node->run_dir = "/nonexistent";
    node->pending[0] = ends[0];
    node_pending(node, 0);
    assert_int_equal(node->client[0].pid, getpid());
    assert_string_equal(node->client[0].version, "");
    assert_int_equal(node->client[0].start_ticks, channel_start_ticks(getpid()));
    (void)munmap(node->client[0].page, PAGE_SIZE_BYTES);
    node->client[0].page = NULL;
    close(ends[0]);
    close(ends[1]);
    close(fd);
}

/* ---- what nobody on the GPU did */

static void test_clocks_judged(void **state)
{
    struct clocks c = { 0 };
    const struct gpu_clocks hot = { 1200, 1980, GPU_THROTTLE_THERMAL }, full = { 1700, 1980, GPU_THROTTLE_POWER };

    (void)state;
    assert_true(clocks_judged(&c, 1000 * MSEC));
    clocks_note(&c, &full, 1000 * MSEC); /* its own draw: a neighbour's as well */
    assert_true(clocks_judged(&c, 1000 * MSEC));
    for (uint32_t bit = 1; bit <= GPU_THROTTLE_SYNC; bit *= 2) {
        const struct gpu_clocks seen = { 1200, 1980, bit };

        c = (struct clocks){ 0 };
        clocks_note(&c, &seen, 1000 * MSEC);
        assert_int_equal(clocks_judged(&c, 1100 * MSEC), bit == GPU_THROTTLE_SET || bit == GPU_THROTTLE_POWER);
    }
    clocks_note(&c, &hot, 2000 * MSEC);
    clocks_note(&c, &full, 2250 * MSEC);
    assert_false(clocks_judged(&c, 2750 * MSEC)); /* half a second beyond */
    assert_true(clocks_judged(&c, 2751 * MSEC));
}

/* Steps twice as long, under a neighbour: a cut, unless it is hot. */
static uint32_t pair_play(bool hot)
{
    struct pair pair;
    usec_t now = USEC_SEC;
    uint32_t u = 0;

    pair_begin(&pair, PAIR_GAPS, 20, now);
    for (int i = 0; i < 300; i++) {
        now += ALONE_US;
        pair_step(&pair, 100, ALONE_US);
        u = pair_turn(&pair, now);
    }
    while (pair.baselining || u < 200) {
        now += ALONE_US;
        pair_step(&pair, 100, ALONE_US);
        u = pair_turn(&pair, now);
    }
    for (int i = 0; i < 400; i++) {
        now += 2 * ALONE_US;
        if (hot)
            pair_hold(&pair, now);
        else if (!pair.baselining && !pair.probing) /* closed, they do not disturb */
            pair_step(&pair, 100, 2 * ALONE_US);
        else
            pair_step(&pair, 100, ALONE_US);
        (void)pair_turn(&pair, now);
    }
    assert_int_equal(baseline_of(&pair.baseline, 100), ALONE_US); /* nothing of it is what alone is */
    return pair.share.u;
}

static void test_hold(void **state)
{
    (void)state;
    assert_true(pair_play(false) < 100);
    assert_true(pair_play(true) >= 200);
}

/* A first look at being alone, while it is hot, measures nothing; afterwards it does. */
static void test_hold_look(void **state)
{
    struct pair pair;
    usec_t now = USEC_SEC;

    (void)state;
    pair_begin(&pair, PAIR_GAPS, 20, now);
    for (int i = 0; i < 100; i++) {
        now += 2 * ALONE_US;
        pair_step(&pair, 100, 2 * ALONE_US);
        pair_hold(&pair, now);
        assert_int_equal(pair_turn(&pair, now), 0);
    }
    assert_int_equal(pair.baseline.buckets, 0);
    for (int i = 0; i < 22; i++) {
        assert_int_equal(pair_turn(&pair, now), 0);
        pair_step(&pair, 100, ALONE_US);
    }
    assert_int_equal(pair_turn(&pair, now), 25);
    assert_int_equal(baseline_of(&pair.baseline, 100), ALONE_US);
}

static void test_throttled_steps(void **state)
{
    struct client *rg = process_new(0, ROLE_GUARANTEED, "");
    struct gpu_arena *gpu = &node->gpu[0];

    (void)state;
    control_turn(node);
    gpu->clocks.foreign_ns = UINT64_MAX / 2; /* for ever */
    for (int i = 0; i < 5; i++) {
        step_add(rg, 0, 2 * ALONE_US);
        control_turn(node);
    }
    assert_int_equal(gpu->before.buckets, 0); /* this is not what it is before anybody comes */
    gpu->clocks.foreign_ns = 0;
    step_add(rg, 0, ALONE_US);
    control_turn(node);
    assert_int_equal(baseline_of(&gpu->before, 100), ALONE_US);
}

static void test_clocks_told(void **state)
{
    static char text[20000];
    const struct gpu_clocks hot = { 1200, 1980, GPU_THROTTLE_THERMAL | GPU_THROTTLE_POWER };

    (void)state;
    assert_int_equal(clocks_text(node, text, sizeof(text)), 0); /* NVML has not told of it */
    assert_int_equal(clocks_json(node, 1, text, sizeof(text)), 0);
    memset(node->gpu[0].uuid, 0x40, 16);
    clocks_note(&node->gpu[0].clocks, &hot, 1000 * MSEC);
    node->gpu[0].clocks.power_w = 700;
    node->gpu[0].clocks.temp = 88;
    (void)clocks_text(node, text, sizeof(text));
    assert_string_equal(text,
                        "GPU 40404040  1200 of 1980 MHz  700 W  88 C  0% busy  at its power limit  slowed by heat\n");
    (void)clocks_json(node, 1000 * MSEC, text, sizeof(text));
    assert_non_null(strstr(text, "\"clock_mhz\":1200,\"clock_max_mhz\":1980,\"power_w\":700,\"temperature_c\":88"));
    assert_non_null(strstr(text, "\"judged\":false,\"throttle\":[\"power\",\"thermal\"],\"health\":\"\"}"));
    (void)snprintf(node->gpu[0].clocks.ill, sizeof(node->gpu[0].clocks.ill), "XID 79: the GPU fell off the bus");
    (void)clocks_text(node, text, sizeof(text));
    assert_non_null(strstr(text, "  out of order: XID 79: the GPU fell off the bus\n"));
    assert_int_equal(clocks_json(node, 1, text, 100), 0); /* whole or not at all */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_save_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_turn_length, setup, teardown),
        cmocka_unit_test_setup_teardown(test_turns_by_share, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ranks_close, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ranks_late, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ranks_baseline, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_guaranteed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_start_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clocks_judged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hold, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hold_look, setup, teardown),
        cmocka_unit_test_setup_teardown(test_throttled_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clocks_told, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
