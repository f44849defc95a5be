/* SPDX-License-Identifier: Apache-2.0 */
/* An opportunistic job with movable memory on a card that others have filled, with the test as its node side. It is
 * refused once, so that its framework drops its cache, and gets host memory then. What would not fit on the card alone
 * is refused as the driver says; so is what the machine's memory has no room for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "calls.h"
#include "unit/shim_node.h"

#define MIB (1ull << 20)
#define CARD (64 * MIB) /* FAKE_CUDA_MEMORY */
#define PART (8 * MIB)

static const struct cuda_mem_prop prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                           .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
static const struct cuda_access own = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_READWRITE };

static int setup(void **state)
{
    CUcontext ctx;

    (void)state;
    if (node_start() || setenv("MUSTER_GPU_CGROUP", node_dir, 1) || cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) ||
        cuCtxSetCurrent(ctx) || play_begin())
        return 1;
    return node_wait();
}

static int teardown(void **state)
{
    char path[128];

    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", node_dir, i ? "memory.max" : "memory.current");
        (void)unlink(path);
    }
    return node_end(state);
}

static void fill(CUdeviceptr at)
{
    for (uint64_t k = 0; k < PART / 4096; k++)
        ((uint64_t *)(uintptr_t)at)[k * 512] = at + k;
}

static void verify(CUdeviceptr at)
{
    for (uint64_t k = 0; k < PART / 4096; k++)
        assert_int_equal(((uint64_t *)(uintptr_t)at)[k * 512], at + k);
}

static void test_host_memory(void **state)
{
    uint64_t refusals = stat_of("soft_refusals");
    CUdeviceptr p = 0;

    (void)state;
    fake_others(0, CARD - PART / 2);
    assert_int_equal(cuMemAlloc_v2(&p, PART), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(stat_of("used"), 0);
    assert_int_equal(cuMemAlloc_v2(&p, PART), 0);
    assert_int_equal(stat_of("soft_refusals"), refusals + 1);
    assert_int_equal(stat_of("used"), 0);
    assert_int_equal(stat_of("host_backed"), PART);
    assert_true(fake_is_host(p));
    fill(p);
    fake_others(0, 0); /* they leave: it comes home */
    assert_int_equal(command(OP_PROMOTE, 0), PART);
    assert_false(fake_is_host(p));
    assert_int_equal(stat_of("used"), PART);
    verify(p);
    assert_int_equal(cuMemFree_v2(p), 0);
    assert_int_equal(fake_device_used(0), 0);
}

/* As PyTorch's expandable segments ask for it. */
static void test_pieces(void **state)
{
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr base = 0;

    (void)state;
    assert_int_equal(cuMemAddressReserve(&base, PART, 0, 0, 0), 0);
    fake_others(0, CARD);
    (void)usleep(600000); /* the refusal of the test before is forgotten */
    assert_int_equal(cuMemCreate(&handle, PART, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemCreate(&handle, PART, &prop, 0), 0);
    assert_int_equal(stat_of("used"), 0);
    assert_int_equal(stat_of("host_backed"), PART);
    assert_int_equal(cuMemMap(base, PART, 0, handle, 0), 0);
    assert_int_equal(cuMemSetAccess(base, PART, &own, 1), 0);
    assert_true(fake_is_host(base));
    fill(base);
    fake_others(0, 0);
    assert_int_equal(command(OP_PROMOTE, 0), PART);
    assert_false(fake_is_host(base));
    verify(base);
    assert_int_equal(cuMemUnmap(base, PART), 0);
    assert_int_equal(cuMemRelease(handle), 0);
    assert_int_equal(cuMemAddressFree(base, PART), 0);
    assert_int_equal(stat_of("used"), 0);
    assert_int_equal(fake_device_used(0), 0);
}

/* Whoever looks for the largest batch that fits must be told that this one does not. */
static void test_too_large(void **state)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p = 0, most = 0;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(cuMemAlloc_v2(&p, CARD + PART), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemAlloc_v2(&most, CARD - PART / 2), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cuMemAlloc_v2(&p, PART), CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(cuMemCreate(&handle, PART, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    }
    assert_int_equal(stat_of("host_backed"), 0);
    assert_int_equal(stat_of("used"), CARD - PART / 2);
    assert_int_equal(cuMemFree_v2(most), 0);
    assert_int_equal(stat_of("used"), 0);
}

static bool refused_for_good(void)
{
    CUdeviceptr p = 0;

    (void)cuMemAlloc_v2(&p, PART);
    if (p)
        (void)cuMemFree_v2(p);
    p = 0;
    if (cuMemAlloc_v2(&p, PART) != 0)
        return true;
    (void)cuMemFree_v2(p);
    return false;
}

/* Its cgroup is at its limit: it is the program that is told, not the kernel. Above a limit as on a full card. */
static void test_no_host(void **state)
{
    (void)state;
    fake_others(0, CARD);
    cgroup_write(node_dir, "memory.max", "1000000000\n");
    cgroup_write(node_dir, "memory.current", "999000000\n");
    for (int i = 0; i < 100 && !refused_for_good(); i++)
        (void)usleep(50000); /* the helper looks four times a second */
    assert_true(refused_for_good());
    assert_int_equal(stat_of("host_backed"), 0);
    fake_others(0, 0);
    page->limit[0].cap_bytes = PART / 2;
    assert_true(refused_for_good());
    page->limit[0].cap_bytes = 0;
    cgroup_write(node_dir, "memory.current", "100000000\n");
    fake_others(0, CARD);
    for (int i = 0; i < 100 && refused_for_good(); i++)
        (void)usleep(50000);
    assert_false(refused_for_good());
    fake_others(0, 0);
    assert_int_equal(stat_of("host_backed"), 0);
    assert_int_equal(stat_of("used"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_host_memory), cmocka_unit_test(test_pieces),
                                        cmocka_unit_test(test_too_large), cmocka_unit_test(test_no_host) };

    return cmocka_run_group_tests(tests, setup, teardown);
}
