/* SPDX-License-Identifier: Apache-2.0 */
/* A program that works in green contexts and never asks for its GPU's own: it is known all the same, and what the
 * program does in them is gated, counted and waited for. The fake refuses a green context to a second thread, and does
 * not tell the context of streams that green contexts make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "calls.h"
#include "unit/shim_node.h"

#define MSEC 1000000ULL
#define MIB (1ull << 20)

static CUgreenCtx green;
static CUcontext current, other;
static CUstream own, made; /* by the green context, and in it */
static CUfunction brief, slow;
static CUdeviceptr mem;
static _Atomic int ran;

static void kernel(const uint64_t *args)
{
    (void)args;
    ran++;
}

static int setup(void **state)
{
    (void)state;
    if (node_start() || cuInit(0) || cuGreenCtxCreate(&green, NULL, 0, 1) || cuCtxFromGreenCtx(&current, green) ||
        cuCtxSetCurrent(current) || play_begin() || node_wait()) /* an arena: its GPU has been told of */
        return 1;
    page->control.lease_until_ns = now_ns() + 60000 * MSEC;
    arena->rg_pid = (uint32_t)getpid();
    node_beats = 1;
    brief = fake_kernel_register("brief", kernel, 0, 300);
    slow = fake_kernel_register("slow", kernel, 0, 300000);
    return cuGreenCtxStreamCreate(&own, green, 1, 0) || cuStreamCreate(&made, 1) || cuMemAlloc_v2(&mem, 16 * MIB);
}

static void gate(enum page_gate to)
{
    __atomic_store_n(&arena->rg_since_ns, now_ns(), __ATOMIC_SEQ_CST);
    __atomic_store_n(&arena->rg_state, RG_IDLE, __ATOMIC_SEQ_CST);
    page->control.share = 500;
    __atomic_store_n(&page->control.gate, to, __ATOMIC_SEQ_CST);
}

static CUresult launch(CUfunction f, CUstream stream)
{
    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

/* Its memory is its GPU's, counted and movable; and moves wait for what its streams run. */
static void test_moves(void **state)
{
    (void)state;
    assert_int_equal(stat_of("used"), 16 * MIB);
    assert_int_equal(stat_of("movable"), 16 * MIB);
    *(uint64_t *)(uintptr_t)mem = 23;
    for (int i = 0; i < 2; i++) {
        int before = ran;
        uint64_t waits = fake_calls("cuCtxSynchronize");

        assert_int_equal(launch(slow, i ? own : made), 0);
        assert_int_equal(command(OP_SPILL_TO, 1), 16 * MIB);
        assert_int_equal(ran, before + 1);
        assert_int_equal(fake_calls("cuCtxSynchronize"), waits + 1);
        assert_int_equal(command(OP_PROMOTE, 0), 16 * MIB);
    }
    gate(GATE_CLOSED);
    assert_int_equal(command(OP_EVICT_ALL, 0), 16 * MIB);
    assert_int_equal(command(OP_RELOAD_ALL, 0), 16 * MIB);
    gate(GATE_OPEN);
    assert_int_equal(*(uint64_t *)(uintptr_t)mem, 23);
    assert_int_equal(fake_green_clashes(), 0);
}

static void *launcher(void *stream)
{
    (void)launch(brief, stream);
    return NULL;
}

/* A pause holds what goes into its streams, and is over when they are done. */
static void test_paused(void **state)
{
    pthread_t thread;
    int before;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(launch(slow, i ? own : made), 0);
        before = ran;
        gate(GATE_CLOSED);
        assert_int_equal(command(OP_SYNC, 0), 0);
        assert_int_equal(ran, before + 1);
        assert_int_equal(pthread_create(&thread, NULL, launcher, i ? own : made), 0);
        (void)usleep(100000);
        assert_int_equal(ran, before + 1);
        gate(GATE_OPEN);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(cuCtxSynchronize(), 0);
        assert_int_equal(ran, before + 2);
    }
    assert_int_equal(fake_green_clashes(), 0);
}

/* In flight is known of every stream, by events of its own GPU's: from the thread to which the green one is current,
 * and from another; with one context in the process, and with more. */
static void *harvester(void *stream)
{
    for (int i = 0; i < 100; i++)
        if (launch(brief, stream) != 0)
            return NULL;
    return stream;
}

static void harvest(void)
{
    uint64_t before = stat_of("fail_open"), events = fake_calls("cuEventRecord");
    pthread_t thread;
    void *r = NULL;

    gate(GATE_HARVEST);
    for (int i = 0; i < 2; i++) {
        assert_non_null(harvester(i ? own : made));
        assert_int_equal(pthread_create(&thread, NULL, harvester, i ? own : made), 0);
        assert_int_equal(pthread_join(thread, &r), 0);
        assert_non_null(r);
    }
    gate(GATE_OPEN);
    assert_int_equal(stat_of("fail_open"), before);
    assert_true(fake_calls("cuEventRecord") > events);
    assert_int_equal(fake_green_clashes(), 0);
    assert_int_equal(cuCtxSynchronize(), 0);
}

static void test_harvest(void **state)
{
    CUcontext now = NULL;

    (void)state;
    harvest();
    assert_int_equal(cuCtxCreate_v2(&other, 0, 1), 0);
    assert_int_equal(cuCtxSetCurrent(current), 0);
    harvest();
    assert_int_equal(cuCtxGetCurrent(&now), 0);
    assert_ptr_equal(now, current);
    assert_int_equal(cuCtxDestroy_v2(other), 0);
}

/* The one that it stands for is not ended by that; and the last green one takes what its GPU's own context held. */
static void test_ends(void **state)
{
    CUgreenCtx second = NULL;

    (void)state;
    assert_int_equal(cuCtxDestroy_v2(current), 201);
    assert_int_equal(command(OP_SPILL_TO, 1), 16 * MIB);
    assert_int_equal(command(OP_PROMOTE, 0), 16 * MIB);
    assert_int_equal(cuGreenCtxCreate(&second, NULL, 0, 1), 0);
    fake_fail("cuGreenCtxDestroy", 1, 1);
    assert_int_equal(cuGreenCtxDestroy(green), 1);
    harvest();
    assert_int_equal(cuCtxSetCurrent(NULL), 0);
    assert_int_equal(cuGreenCtxDestroy(green), 0);
    assert_int_equal(stat_of("used"), 16 * MIB);
    assert_int_equal(*(uint64_t *)(uintptr_t)mem, 23);
    assert_int_equal(cuGreenCtxDestroy(second), 0);
    assert_int_equal(stat_of("used"), 0);
    assert_int_equal(fake_device_used(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_moves), cmocka_unit_test(test_paused),
                                        cmocka_unit_test(test_harvest), cmocka_unit_test(test_ends) };

    return cmocka_run_group_tests(tests, setup, node_end);
}
