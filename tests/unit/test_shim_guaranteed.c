/* SPDX-License-Identifier: Apache-2.0 */
/* The guaranteed job's side, with the test as its node side. One whose memory is the driver's own finds the card full:
 * it says what is missing and waits while its neighbours make room, for 300 ms at most. One that never waits for the
 * GPU is seen to be idle all the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "calls.h"
#include "unit/shim_node.h"

#define MSEC 1000000ULL
#define MIB (1ull << 20)

static int setup(void **state)
{
    CUcontext ctx;

    (void)state;
    if (node_start() || cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) || play_begin())
        return 1;
    return node_wait();
}

static void *make_room(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5000 && !node_needed; i++)
        (void)usleep(1000);
    (void)usleep(50000);
    fake_fail("", 0, 0);
    return NULL;
}

static void test_room_is_made(void **state)
{
    CUdeviceptr p = 0;
    pthread_t neighbour;

    (void)state;
    node_needed = 0;
    fake_fail("cuMemAlloc_v2", 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(pthread_create(&neighbour, NULL, make_room, NULL), 0);
    assert_int_equal(cuMemAlloc_v2(&p, 8 * MIB), 0);
    assert_int_equal(pthread_join(neighbour, NULL), 0);
    assert_int_equal(node_needed, 8 * MIB);
    assert_int_equal(stat_of("used"), 8 * MIB);
    assert_int_equal(cuMemFree_v2(p), 0);
    assert_int_equal(stat_of("used"), 0);
}

static void test_none_is(void **state)
{
    uint64_t start = now_ns();
    CUdeviceptr p = 0;

    (void)state;
    node_needed = 0;
    fake_fail("cuMemAlloc_v2", 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemAlloc_v2(&p, 8 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    fake_fail("", 0, 0);
    assert_in_range(now_ns() - start, 290 * MSEC, 5000 * MSEC);
    for (int i = 0; i < 5000 && !node_needed; i++)
        (void)usleep(1000);
    assert_int_equal(node_needed, 8 * MIB);
    assert_int_equal(stat_of("used"), 0);
}

static void kernel(const uint64_t *args)
{
    (void)args;
}

static bool turns(uint32_t state)
{
    for (int i = 0; i < 10000 && __atomic_load_n(&arena->rg_state, __ATOMIC_SEQ_CST) != state; i++)
        (void)usleep(1000);
    return __atomic_load_n(&arena->rg_state, __ATOMIC_SEQ_CST) == state;
}

/* Nobody asks whether the kernel is complete: beside a neighbour the helper does, and the gap begins. */
static void test_never_waits(void **state)
{
    CUfunction brief = fake_kernel_register("brief", kernel, 0, 20000);

    (void)state;
    __atomic_store_n(&arena->ot_count, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cuLaunchKernel(brief, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 0);
        assert_int_equal(arena->rg_bursts, (uint64_t)i + 1);
        assert_true(turns(RG_IDLE));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_room_is_made), cmocka_unit_test(test_none_is),
                                        cmocka_unit_test(test_never_waits) };

    return cmocka_run_group_tests(tests, setup, node_end);
}
