/* SPDX-License-Identifier: Apache-2.0 */
/* Accounting, the cap, and what a program is told: the library in front of the fake driver, cap 64 MiB. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "calls.h"

#define MIB (1ull << 20)

static uint64_t (*stat_of)(const char *);
static CUcontext ctx;

static int setup(void **state)
{
    (void)state;
    *(void **)&stat_of = dlsym(RTLD_DEFAULT, "muster_gpu_stat");
    return cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx);
}

static void test_view(void **state)
{
    size_t free_bytes = 0, total = 0;
    CUdeviceptr p;

    (void)state;
    assert_int_equal(stat_of("used"), 0);
    assert_int_equal(cuMemGetInfo_v2(&free_bytes, &total), 0);
    assert_int_equal(total, 64 * MIB);
    assert_int_equal(free_bytes, 64 * MIB);
    assert_int_equal(cuMemGetInfo_v2(NULL, NULL), 0);
    assert_int_equal(cuDeviceTotalMem_v2(&total, 0), 0);
    assert_int_equal(total, 64 * MIB);
    assert_int_equal(cuMemAlloc_v2(&p, 10 * MIB), 0);
    assert_int_equal(cuMemGetInfo_v2(&free_bytes, NULL), 0);
    assert_int_equal(free_bytes, 54 * MIB);
    assert_int_equal(cuMemFree_v2(p), 0);
    assert_int_equal(stat_of("used"), 0);
}

static CUdeviceptr inner;
static CUresult inner_result = -1;

/* As a tool in the driver would: by the name everybody finds, which is ours. */
static void alloc_again(void)
{
    inner_result = cuMemAlloc_v2(&inner, 1 * MIB);
}

/* A wrapper that is entered again on its own thread passes straight through: the driver's own answer, counted by the
 * outer call alone, and nobody waits. */
static void test_entered_again(void **state)
{
    CUdeviceptr outer = 0;

    (void)state;
    fake_inside_alloc(alloc_again);
    assert_int_equal(cuMemAlloc_v2(&outer, 4 * MIB), 0);
    assert_int_equal(inner_result, 0);
    assert_true(inner && inner != outer);
    assert_int_equal(stat_of("used"), 4 * MIB);
    assert_int_equal(cuMemFree_v2(inner), 0); /* never seen: the driver's */
    assert_int_equal(stat_of("used"), 4 * MIB);
    assert_int_equal(cuMemFree_v2(outer), 0);
    assert_int_equal(stat_of("used"), 0);
    fake_inside_alloc(NULL);
}

/* Sizes above 1 MiB count in steps of 2; the refusal leaves nothing behind. */
static void test_cap(void **state)
{
    CUdeviceptr a, b;
    uint64_t soft = stat_of("soft_refusals");

    (void)state;
    assert_int_equal(cuMemAlloc_v2(&a, 39 * MIB), 0);
    assert_int_equal(stat_of("used"), 40 * MIB);
    assert_int_equal(cuMemAlloc_v2(&b, 30 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(stat_of("soft_refusals"), soft + 1);
    assert_int_equal(cuMemAlloc_v2(&b, 30 * MIB), CUDA_ERROR_OUT_OF_MEMORY); /* the second time for good */
    assert_int_equal(stat_of("soft_refusals"), soft + 1);
    assert_int_equal(stat_of("used"), 40 * MIB);
    assert_int_equal(cuMemAlloc_v2(&b, 24 * MIB), 0);
    assert_int_equal(cuMemFree_v2(a), 0);
    assert_int_equal(cuMemFree_v2(b), 0);
    assert_int_equal(stat_of("used"), 0);
}

/* The driver's own refusal gives the reservation back; its complaints pass unchanged. */
static void test_driver_refuses(void **state)
{
    CUdeviceptr p;

    (void)state;
    fake_fail("cuMemAlloc_v2", 1, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemAlloc_v2(&p, 4 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(stat_of("used"), 0);
    assert_int_equal(cuMemAlloc_v2(NULL, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFree_v2(0xdead000), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(stat_of("used"), 0);
}

static void test_kinds(void **state)
{
    struct cuda_mem_prop prop = { .type = 1, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    struct cuda_array_desc desc = { 1024, 1024, 0x20, 1 };
    CUmemGenericAllocationHandle h;
    CUmemoryPool pool;
    CUarray array = NULL;
    CUdeviceptr p, q, va;
    size_t pitch;
    void *host;

    (void)state;
    assert_int_equal(cuMemAllocPitch_v2(&p, &pitch, 1000, 4096, 4), 0);
    assert_int_equal(stat_of("used"), 4 * MIB);
    assert_int_equal(cuMemFree_v2(p), 0);
    assert_int_equal(cuMemAllocManaged(&p, 8 * MIB, 1), 0);
    assert_int_equal(stat_of("used"), 8 * MIB);
    assert_int_equal(cuMemFree_v2(p), 0);
    /* A pool is charged for what it has reserved, until it is trimmed. */
    assert_int_equal(cuMemAllocAsync(&q, 5 * MIB, NULL), 0);
    assert_int_equal(stat_of("used"), 32 * MIB);
    assert_int_equal(cuMemFreeAsync(q, NULL), 0);
    assert_int_equal(stat_of("used"), 32 * MIB);
    assert_int_equal(cuMemAllocAsync(&q, 70 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuDeviceGetMemPool(&pool, 0), 0);
    assert_int_equal(cuMemPoolTrimTo(pool, 0), 0);
    assert_int_equal(stat_of("used"), 0);
    /* A handle is charged until it is released and unmapped, in either order. */
    assert_int_equal(cuMemCreate(&h, 4 * MIB, &prop, 0), 0);
    assert_int_equal(cuMemAddressReserve(&va, 4 * MIB, 0, 0, 0), 0);
    assert_int_equal(cuMemMap(va, 4 * MIB, 0, h, 0), 0);
    assert_int_equal(cuMemRelease(h), 0);
    assert_int_equal(stat_of("used"), 4 * MIB);
    assert_int_equal(cuMemUnmap(va, 4 * MIB), 0);
    assert_int_equal(stat_of("used"), 0);
    assert_int_equal(cuMemAddressFree(va, 4 * MIB), 0);
    assert_int_equal(cuMemCreate(&h, 70 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuArrayCreate_v2(&array, &desc), 0);
    assert_int_equal(cuMemHostAlloc(&host, 3 * MIB, 0), 0);
    assert_int_equal(stat_of("pinned"), 3 * MIB);
    assert_int_equal(cuMemFreeHost(host), 0);
    assert_int_equal(stat_of("pinned"), 0);
}

static bool hole_becomes(uint64_t bytes)
{
    struct timespec nap = { 0, 1000000 };

    for (int i = 0; i < 20000 && stat_of("largest_hole") != bytes; i++)
        (void)nanosleep(&nap, NULL);
    return stat_of("largest_hole") == bytes;
}

/* Whatever a step held at its most is kept with it, though it was given back before the step ended; what the limit
 * leaves in one piece is told by the helper, every few milliseconds. */
static void test_step_peak(void **state)
{
    void (*step)(void);
    CUdeviceptr kept, gone, none;
    uint64_t held = stat_of("used"); /* by the tests before */

    (void)state;
    *(void **)&step = dlsym(RTLD_DEFAULT, "muster_step");
    assert_non_null(step);
    step();
    assert_int_equal(cuMemAlloc_v2(&kept, 10 * MIB), 0);
    assert_int_equal(cuMemAlloc_v2(&gone, 20 * MIB), 0);
    assert_int_equal(cuMemFree_v2(gone), 0);
    step();
    assert_int_equal(stat_of("step_peak"), held + 30 * MIB);
    step();
    assert_int_equal(stat_of("step_peak"), held + 10 * MIB); /* of this step alone */
    assert_true(hole_becomes(54 * MIB - held));
    assert_int_equal(cuMemAlloc_v2(&gone, 5 * MIB), 0); /* counts as 6 */
    assert_true(hole_becomes(48 * MIB - held));
    assert_int_equal(cuMemAlloc_v2(&none, 50 * MIB), CUDA_ERROR_OUT_OF_MEMORY); /* more than the hole */
    assert_int_equal(cuMemFree_v2(gone), 0);
    assert_int_equal(cuMemFree_v2(kept), 0);
    assert_true(hole_becomes(64 * MIB - held));
    assert_int_equal(cuMemAlloc_v2(&kept, 64 * MIB - held), 0); /* and it is one piece */
    assert_int_equal(cuMemFree_v2(kept), 0);
}

/* Eight threads at the cap: never above it, and at the end nothing is left. */
static void *hammer(void *arg)
{
    CUdeviceptr mine[8] = { 0 };
    unsigned int seed = (unsigned int)(uintptr_t)arg;

    (void)cuCtxSetCurrent(ctx);
    for (int i = 0; i < 400; i++) {
        seed = seed * 1103515245u + 12345u;
        CUdeviceptr *p = &mine[seed >> 8 & 7];

        if (*p) {
            (void)cuMemFree_v2(*p);
            *p = 0;
        } else if (cuMemAlloc_v2(p, (2 + (seed >> 16 & 15)) * MIB) != 0) {
            *p = 0;
        }
        if (stat_of("used") > 80 * MIB) /* a reservation may stand for an instant before it is taken back */
            return (void *)1;
        if (fake_device_used(0) > 64 * MIB)
            return (void *)2;
    }
    for (int i = 0; i < 8; i++)
        if (mine[i])
            (void)cuMemFree_v2(mine[i]);
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t threads[8];
    uint64_t before = stat_of("used");

    (void)state;
    for (uintptr_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)(i + 1)), 0);
    for (int i = 0; i < 8; i++) {
        void *r;

        assert_int_equal(pthread_join(threads[i], &r), 0);
        assert_null(r);
    }
    assert_int_equal(stat_of("used"), before);
    assert_int_equal(fake_device_used(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_view),           cmocka_unit_test(test_entered_again), cmocka_unit_test(test_cap),
        cmocka_unit_test(test_driver_refuses), cmocka_unit_test(test_kinds),         cmocka_unit_test(test_step_peak),
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
