/* SPDX-License-Identifier: Apache-2.0 */
/* More allocations than the library's tables hold: what does not fit is the driver's own, counted and limited, and no
 * program is refused for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "calls.h"
#include "unit/shim_play.h"

#define MIB (1ull << 20)
#define FULL 16384u
#define MORE 40u

static CUdeviceptr at[FULL + MORE];

static int setup(void **state)
{
    CUcontext ctx;

    (void)state;
    return cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) || play_begin();
}

static void test_segments(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < FULL + MORE; i++)
        if (cuMemAlloc_v2(&at[i], 2 * MIB) != 0)
            fail_msg("allocation %u was refused", i);
    assert_int_equal(stat_of("movable"), FULL * 2 * MIB);
    assert_int_equal(stat_of("used"), (FULL + MORE) * 2 * MIB);
    assert_int_equal(stat_of("unknown"), MORE);
    /* One is given back: the next is movable again. */
    assert_int_equal(cuMemFree_v2(at[7]), 0);
    assert_int_equal(cuMemAlloc_v2(&at[7], 2 * MIB), 0);
    assert_int_equal(stat_of("movable"), FULL * 2 * MIB);
    for (uint32_t i = 0; i < FULL + MORE; i++)
        if (cuMemFree_v2(at[i]) != 0)
            fail_msg("allocation %u was not given back", i);
    assert_int_equal(stat_of("used"), 0);
    assert_int_equal(fake_device_used(0), 0);
}

static void test_pieces(void **state)
{
    struct cuda_mem_prop prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    uint64_t before = stat_of("unknown");

    (void)state;
    for (uint32_t i = 0; i < FULL + MORE; i++)
        if (cuMemCreate(&at[i], 2 * MIB, &prop, 0) != 0)
            fail_msg("handle %u was refused", i);
    assert_int_equal(stat_of("used"), (FULL + MORE) * 2 * MIB);
    assert_int_equal(stat_of("unknown"), before + MORE);
    for (uint32_t i = 0; i < FULL + MORE; i++)
        if (cuMemRelease(at[i]) != 0)
            fail_msg("handle %u was not given back", i);
    assert_int_equal(stat_of("used"), 0);
    assert_int_equal(fake_device_used(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_segments), cmocka_unit_test(test_pieces) };

    return cmocka_run_group_tests(tests, setup, NULL);
}
