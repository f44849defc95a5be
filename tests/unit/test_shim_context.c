/* SPDX-License-Identifier: Apache-2.0 */
/* How large a context is: a fixed figure until the node side, which this test plays, has seen it; then that, for the
 * limit as for what is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "calls.h"
#include "unit/shim_play.h"

#define MIB (1ull << 20)

static CUcontext ctx;

static int setup(void **state)
{
    (void)state;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx))
        return 1;
    return play_begin();
}

/* The helper looks every few milliseconds. */
static void tell(uint64_t bytes)
{
    __atomic_store_n(&page->limit[0].context_bytes, bytes, __ATOMIC_SEQ_CST);
    assert_int_equal(command(OP_PING, 0), 0);
    assert_int_equal(command(OP_PING, 0), 0);
}

static void test_fixed(void **state)
{
    CUdeviceptr p;

    (void)state;
    tell(0);
    assert_int_equal(stat_of("context"), 512 * MIB);
    assert_int_equal(stat_of("used"), 512 * MIB);
    page->limit[0].cap_bytes = 520 * MIB;
    assert_int_equal(cuMemAlloc_v2(&p, 16 * MIB), CUDA_ERROR_OUT_OF_MEMORY); /* the context counts against the limit */
    assert_int_equal(stat_of("used"), 512 * MIB);
}

static void test_learned(void **state)
{
    CUdeviceptr p;
    uint64_t peak = stat_of("peak");

    (void)state;
    tell(300 * MIB);
    assert_int_equal(stat_of("context"), 300 * MIB);
    assert_int_equal(stat_of("used"), 300 * MIB);
    assert_int_equal(stat_of("peak"), peak - 212 * MIB);
    assert_int_equal(stat_of("largest_hole"), 220 * MIB);
    assert_int_equal(cuMemAlloc_v2(&p, 64 * MIB), 0);
    assert_int_equal(stat_of("host_backed"), 0);
    tell(400 * MIB); /* it grew: what is held is held, and the limit counts it */
    assert_int_equal(stat_of("used"), 464 * MIB);
    assert_int_equal(cuMemAlloc_v2(&p, 64 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    page->limit[0].cap_bytes = 0;
}

static void test_garbage(void **state)
{
    (void)state;
    tell(UINT64_MAX);
    assert_int_equal(stat_of("context"), 400 * MIB);
    tell(4096 * MIB); /* more than the card has */
    assert_int_equal(stat_of("context"), 400 * MIB);
    tell(0);
    assert_int_equal(stat_of("context"), 400 * MIB);
}

static void test_destroyed(void **state)
{
    (void)state;
    assert_int_equal(cuCtxDestroy_v2(ctx), 0);
    assert_int_equal(stat_of("context"), 0);
    tell(300 * MIB);
    assert_int_equal(stat_of("context"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_learned),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_destroyed),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
