/* SPDX-License-Identifier: Apache-2.0 */
/* More contexts than one, or one that is made anew: what the library records in them, and what a move waits for. The
 * fake refuses events of another context, as drivers do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "calls.h"
#include "unit/shim_node.h"

#define MSEC 1000000ULL
#define MIB (1ull << 20)

static CUcontext first, other;
static CUfunction brief;
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
    if (node_start() || cuInit(0) || cuDevicePrimaryCtxRetain(&first, 0) || cuCtxSetCurrent(first) || play_begin() ||
        node_wait())
        return 1;
    page->control.lease_until_ns = now_ns() + 60000 * MSEC;
    arena->rg_pid = (uint32_t)getpid();
    node_beats = 1;
    brief = fake_kernel_register("brief", kernel, 0, 300);
    return cuMemAlloc_v2(&mem, 16 * MIB) || cuCtxCreate_v2(&other, 0, 0) || cuCtxSetCurrent(first);
}

static void harvest(bool on)
{
    __atomic_store_n(&arena->rg_since_ns, now_ns(), __ATOMIC_SEQ_CST);
    __atomic_store_n(&arena->rg_state, RG_IDLE, __ATOMIC_SEQ_CST);
    page->control.share = 500;
    __atomic_store_n(&page->control.gate, on ? GATE_HARVEST : GATE_OPEN, __ATOMIC_SEQ_CST);
}

/* The longest of so many launches, in ms. */
static uint64_t launches(int n, CUstream stream)
{
    uint64_t longest = 0;

    for (int i = 0; i < n; i++) {
        uint64_t start = now_ns();

        assert_int_equal(cuLaunchKernel(brief, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL), 0);
        longest = now_ns() - start > longest ? now_ns() - start : longest;
    }
    return longest / MSEC;
}

/* Events that cannot be recorded hold nobody up, and are counted. */
static void test_refused(void **state)
{
    uint64_t before;

    (void)state;
    harvest(true);
    (void)launches(100, NULL);
    before = stat_of("fail_open");
    fake_fail("cuEventRecord", 0, 400);
    assert_in_range(launches(20, NULL), 0, 500);
    fake_fail("", 0, 0);
    assert_true(stat_of("fail_open") > before);
    before = stat_of("fail_open");
    assert_in_range(launches(50, NULL), 0, 500);
    assert_int_equal(stat_of("fail_open"), before); /* made anew */
    harvest(false);
}

/* Two contexts in turn, on their own streams, and a stream of the one that is not current. */
static void test_two(void **state)
{
    uint64_t before = stat_of("fail_open");
    CUstream theirs = NULL;

    (void)state;
    harvest(true);
    assert_int_equal(cuCtxSetCurrent(other), 0);
    assert_int_equal(cuStreamCreate(&theirs, 1), 0);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(cuCtxSetCurrent(i % 2 ? first : other), 0);
        assert_in_range(launches(20, i % 3 ? theirs : NULL), 0, 500);
    }
    assert_int_equal(cuCtxSetCurrent(first), 0);
    harvest(false);
    assert_int_equal(stat_of("fail_open"), before);
    assert_int_equal(cuStreamSynchronize(theirs), 0);
}

/* What another context runs may use the memory: a move waits for it too. */
static void test_move_waits(void **state)
{
    CUfunction slow = fake_kernel_register("slow", kernel, 0, 300000);
    CUstream theirs = NULL;
    int before;

    (void)state;
    assert_int_equal(cuCtxSynchronize(), 0);
    assert_int_equal(cuCtxSetCurrent(other), 0);
    assert_int_equal(cuStreamCreate(&theirs, 1), 0);
    before = ran;
    assert_int_equal(cuLaunchKernel(slow, 1, 1, 1, 1, 1, 1, 0, theirs, NULL, NULL), 0);
    assert_int_equal(cuCtxSetCurrent(first), 0);
    assert_int_equal(command(OP_SPILL_TO, 1), 16 * MIB);
    assert_int_equal(ran, before + 1);
    assert_int_equal(command(OP_PROMOTE, 0), 16 * MIB);
}

/* One that goes takes our events with it; none of them is touched again. */
static void test_gone(void **state)
{
    uint64_t before = stat_of("fail_open");

    (void)state;
    harvest(true);
    assert_int_equal(cuCtxSetCurrent(other), 0);
    (void)launches(50, NULL);
    assert_int_equal(cuCtxSynchronize(), 0);
    assert_int_equal(cuCtxDestroy_v2(other), 0);
    assert_int_equal(cuCtxSetCurrent(first), 0);
    assert_in_range(launches(50, NULL), 0, 500);
    harvest(false);
    assert_in_range(stat_of("fail_open"), before, before + 64); /* at most what was in flight there */
    assert_int_equal(command(OP_SPILL_TO, 1), 16 * MIB);
    assert_int_equal(command(OP_PROMOTE, 0), 16 * MIB);
}

/* The GPU's own is emptied, and taken anew at the same address: events and streams of ours too, and moves go on. So it
 * is when it was released for the last time. */
static void test_anew(void **state)
{
    CUcontext again = NULL;

    (void)state;
    for (int i = 0; i < 2; i++) {
        harvest(true);
        (void)launches(50, NULL);
        harvest(false);
        assert_int_equal(cuCtxSynchronize(), 0);
        assert_int_equal(i ? cuDevicePrimaryCtxRelease_v2(0) : cuDevicePrimaryCtxReset_v2(0), 0);
        if (i == 0)
            assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), 0); /* as the runtime does, sooner or later */
        assert_int_equal(cuDevicePrimaryCtxRetain(&again, 0), 0);
        assert_ptr_equal(again, first);
        assert_int_equal(cuCtxSetCurrent(again), 0);
        assert_int_equal(cuMemAlloc_v2(&mem, 16 * MIB), 0); /* what it had went with it */
        harvest(true);
        assert_in_range(launches(50, NULL), 0, 500);
        harvest(false);
        assert_int_equal(command(OP_SPILL_TO, 1), 16 * MIB);
        assert_int_equal(command(OP_PROMOTE, 0), 16 * MIB);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_refused), cmocka_unit_test(test_two),
                                        cmocka_unit_test(test_move_waits), cmocka_unit_test(test_gone),
                                        cmocka_unit_test(test_anew) };

    return cmocka_run_group_tests(tests, setup, node_end);
}
