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

/* Every kind of allocation that takes memory of the card. */
static CUresult plain(CUdeviceptr *p)
{
    return cuMemAlloc_v2(p, 8 * MIB);
}

static CUresult pitched(CUdeviceptr *p)
{
    size_t pitch;

    return cuMemAllocPitch_v2(p, &pitch, 8192, 1024, 4);
}

static CUresult created(CUdeviceptr *p)
{
    const struct cuda_mem_prop prop = { .type = 1, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };

    return cuMemCreate(p, 8 * MIB, &prop, 0);
}

static CUresult pooled(CUdeviceptr *p)
{
    return cuMemAllocAsync(p, 8 * MIB, NULL);
}

static CUresult pooled_from(CUdeviceptr *p)
{
    CUmemoryPool pool = NULL;

    (void)cuDeviceGetMemPool(&pool, 0);
    return cuMemAllocFromPoolAsync(p, 8 * MIB, pool, NULL);
}

static CUresult array(CUdeviceptr *p)
{
    const struct cuda_array_desc desc = { .width = 2048, .height = 1024, .format = 0x20, .channels = 1 };

    *p = 0x1000; /* the fake leaves it as it was */
    return cuArrayCreate_v2((CUarray *)p, &desc);
}

static CUresult unpooled(CUdeviceptr p)
{
    CUmemoryPool pool = NULL;

    return cuMemFreeAsync(p, NULL) || cuDeviceGetMemPool(&pool, 0) || cuMemPoolTrimTo(pool, 0);
}

static CUresult unarray(CUdeviceptr p)
{
    return cuArrayDestroy((CUarray)(uintptr_t)p);
}

static const struct {
    const char *name;
    CUresult (*alloc)(CUdeviceptr *);
    CUresult (*release)(CUdeviceptr);
    uint64_t held;
} kinds[] = {
    { "cuMemAlloc_v2", plain, cuMemFree_v2, 8 * MIB },
    { "cuMemAllocPitch_v2", pitched, cuMemFree_v2, 8 * MIB },
    { "cuMemCreate", created, cuMemRelease, 8 * MIB },
    { "cuMemAllocAsync", pooled, unpooled, 32 * MIB },
    { "cuMemAllocFromPoolAsync", pooled_from, unpooled, 32 * MIB },
    { "cuArrayCreate_v2", array, unarray, 8 * MIB },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void test_room_is_made(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        CUdeviceptr p = 0;
        pthread_t neighbour;
        CUresult r;

        node_needed = 0;
        fake_fail(kinds[i].name, 0, CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(pthread_create(&neighbour, NULL, make_room, NULL), 0);
        r = kinds[i].alloc(&p);
        if (r != 0)
            fail_msg("%s: %d", kinds[i].name, r);
        assert_int_equal(pthread_join(neighbour, NULL), 0);
        assert_int_equal(node_needed, 8 * MIB);
        assert_int_equal(stat_of("used"), kinds[i].held);
        assert_int_equal(kinds[i].release(p), 0);
        assert_int_equal(stat_of("used"), 0);
    }
}

static void test_none_is(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        uint64_t start = now_ns();
        CUdeviceptr p = 0;

        node_needed = 0;
        fake_fail(kinds[k].name, 0, CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(kinds[k].alloc(&p), CUDA_ERROR_OUT_OF_MEMORY);
        fake_fail("", 0, 0);
        if (now_ns() - start < 290 * MSEC)
            fail_msg("%s was refused after %llu us", kinds[k].name, (unsigned long long)(now_ns() - start) / 1000);
        assert_in_range(now_ns() - start, 290 * MSEC, 5000 * MSEC);
        for (int i = 0; i < 5000 && !node_needed; i++)
            (void)usleep(1000);
        assert_int_equal(node_needed, 8 * MIB);
        assert_int_equal(stat_of("used"), 0);
    }
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
