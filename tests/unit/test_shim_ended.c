/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts that end, in a program that goes on: the driver frees what was made in them, and the account follows. So do
 * segments, which stand for plain memory. Run with movable memory and with the driver's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>

#include "calls.h"
#include "unit/shim_play.h"

#define MIB (1ull << 20)
#define SEC 1000000000ULL

static CUcontext first;
static bool movable;

static int setup(void **state)
{
    const char *mode = getenv("MUSTER_GPU_MEM");

    (void)state;
    movable = !(mode && strcmp(mode, "cap") == 0);
    return cuInit(0) || cuDevicePrimaryCtxRetain(&first, 0) || cuCtxSetCurrent(first) || play_begin();
}

static void again(void)
{
    CUcontext ctx = NULL;

    assert_int_equal(cuDevicePrimaryCtxRetain(&ctx, 0), 0);
    assert_ptr_equal(ctx, first);
    assert_int_equal(cuCtxSetCurrent(ctx), 0);
}

static void assert_nothing(void)
{
    assert_int_equal(stat_of("used"), 0);
    assert_int_equal(stat_of("movable"), 0);
    assert_int_equal(stat_of("host_backed"), 0);
    assert_int_equal(stat_of("saved"), 0);
    assert_int_equal(page->health.pinned_bytes, 0);
    for (int i = 0; i < CLASS_COUNT; i++)
        assert_int_equal(page->memory[0].class_bytes[i], 0);
    assert_int_equal(fake_device_used(0), 0);
}

/* Of every kind, and two resets: after each the program has all of its limit. */
static void test_reset(void **state)
{
    struct cuda_array_desc desc = { .width = 1024, .height = 1024, .format = 0x20, .channels = 1 };
    CUdeviceptr p[4] = { 0 }, more = 0;
    void *pinned = NULL;
    CUarray array;
    size_t pitch;

    (void)state;
    for (int i = 0; i < 2; i++) {
        array = (CUarray)(uintptr_t)0x5000;
        assert_int_equal(cuMemAlloc_v2(&p[0], 64 * MIB), 0);
        assert_int_equal(cuMemAlloc_v2(&p[1], 4096), 0);
        assert_int_equal(cuMemAllocPitch_v2(&p[2], &pitch, 1000, 1000, 4), 0);
        assert_int_equal(cuMemAllocManaged(&p[3], 8 * MIB, 1), 0);
        assert_int_equal(cuArrayCreate_v2(&array, &desc), 0);
        assert_int_equal(cuMemHostAlloc(&pinned, MIB, 0), 0);
        assert_int_equal(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB), 0);
        assert_int_equal(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, MIB), 0);
        assert_true(stat_of("used") > 90 * MIB);
        assert_int_equal(page->health.pinned_bytes, MIB);
        assert_int_equal(stat_of("movable"), movable ? 64 * MIB : 0);
        assert_int_equal(cuDevicePrimaryCtxReset_v2(0), 0);
        assert_nothing();
        free(pinned); /* which the fake does not do */
        again();
        assert_int_not_equal(cuMemFree_v2(p[0]), 0); /* the driver's own error */
        assert_int_not_equal(cuMemFree_v2(p[1]), 0);
        assert_int_equal(stat_of("used"), 0);
        assert_int_equal(cuMemAlloc_v2(&more, 250 * MIB), 0);
        assert_int_equal(stat_of("host_backed"), 0);
        assert_int_equal(cuMemFree_v2(more), 0);
        assert_nothing();
    }
}

/* It ends when it is released as often as it was retained, and not before. */
static void test_references(void **state)
{
    unsigned int flags = 0;
    CUdeviceptr p = 0;
    int active = 0;

    (void)state;
    do
        assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), 0);
    while (cuDevicePrimaryCtxGetState(0, &flags, &active) == 0 && active);
    again();
    again();
    assert_int_equal(cuMemAlloc_v2(&p, 16 * MIB), 0);
    *(uint64_t *)(uintptr_t)p = 17;
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), 0);
    assert_int_equal(stat_of("used"), 16 * MIB);
    assert_int_equal(*(uint64_t *)(uintptr_t)p, 17);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), 0);
    assert_nothing();
    again();
}

/* One of several takes its own and nothing else, also when it is not the current one. */
static void test_one_of_several(void **state)
{
    CUdeviceptr mine = 0, small = 0, theirs = 0, tiny = 0;
    CUcontext other = NULL;

    (void)state;
    assert_int_equal(cuMemAlloc_v2(&mine, 16 * MIB), 0);
    assert_int_equal(cuMemAlloc_v2(&small, 4096), 0);
    *(uint64_t *)(uintptr_t)mine = 18;
    assert_int_equal(cuCtxCreate_v2(&other, 0, 0), 0);
    assert_int_equal(cuMemAlloc_v2(&theirs, 32 * MIB), 0);
    assert_int_equal(cuMemAlloc_v2(&tiny, 8192), 0);
    assert_int_equal(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB), 0);
    assert_int_equal(stat_of("used"), 64 * MIB + 4096 + 8192);
    assert_int_equal(cuCtxSetCurrent(first), 0);
    assert_int_equal(cuCtxDestroy_v2(other), 0);
    assert_int_equal(stat_of("used"), 16 * MIB + 4096);
    assert_int_equal(fake_device_used(0), 16 * MIB + 4096);
    assert_int_equal(*(uint64_t *)(uintptr_t)mine, 18);
    assert_int_equal(cuMemFree_v2(mine), 0);
    assert_int_equal(cuMemFree_v2(small), 0);
    assert_nothing();
    fake_fail("cuCtxDestroy_v2", 1, 201); /* one that does not end keeps what it has */
    assert_int_equal(cuCtxCreate_v2(&other, 0, 0), 0);
    assert_int_equal(cuMemAlloc_v2(&tiny, 8192), 0);
    assert_int_equal(cuCtxDestroy_v2(other), 201);
    assert_int_equal(stat_of("used"), 8192);
    assert_int_equal(cuMemFree_v2(tiny), 0);
    assert_int_equal(cuCtxDestroy_v2(other), 0);
    assert_int_equal(cuCtxSetCurrent(first), 0);
    assert_nothing();
}

/* Memory that the program maps itself is of no context, and stays. */
static void test_mapped_stays(void **state)
{
    struct cuda_mem_prop prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    struct cuda_access access = { prop.location, CU_MEM_ACCESS_READWRITE };
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0;

    (void)state;
    assert_int_equal(cuMemCreate(&handle, 4 * MIB, &prop, 0), 0);
    assert_int_equal(cuMemAddressReserve(&at, 4 * MIB, 0, 0, 0), 0);
    assert_int_equal(cuMemMap(at, 4 * MIB, 0, handle, 0), 0);
    assert_int_equal(cuMemSetAccess(at, 4 * MIB, &access, 1), 0);
    *(uint64_t *)(uintptr_t)at = 19;
    assert_int_equal(cuDevicePrimaryCtxReset_v2(0), 0);
    again();
    assert_int_equal(stat_of("used"), 4 * MIB);
    assert_int_equal(*(uint64_t *)(uintptr_t)at, 19);
    assert_int_equal(cuMemUnmap(at, 4 * MIB), 0);
    assert_int_equal(cuMemRelease(handle), 0);
    assert_int_equal(cuMemAddressFree(at, 4 * MIB), 0);
    assert_nothing();
}

/* What pools and graphs held went with the GPU's own context. Pools are used on. */
static void test_pools(void **state)
{
    struct cuda_mem_prop prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    CUmemoryPool pool = NULL;
    CUdeviceptr p = 0;

    (void)state;
    assert_int_equal(cuMemPoolCreate(&pool, (const struct cuda_opaque *)&prop), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cuMemAllocAsync(&p, 20 * MIB, NULL), 0);
        assert_int_equal(cuMemAllocFromPoolAsync(&p, 40 * MIB, pool, NULL), 0);
        assert_int_equal(stat_of("used"), 96 * MIB); /* by steps of 32 */
        assert_int_equal(cuDevicePrimaryCtxReset_v2(0), 0);
        assert_nothing();
        again();
    }
    assert_int_equal(cuMemPoolDestroy(pool), 0);
}

void *fake_symbol(const char *name);

/* Memory that the driver freed by itself, as with a context of which we do not know that it ended: when it gives the
 * address anew, what it was given for before is settled. */
static void test_given_anew(void **state)
{
    CUresult (*behind)(CUdeviceptr) = NULL;
    CUdeviceptr p = 0, before = 0;
    uint64_t lost = 0;

    (void)state;
    *(void **)&behind = fake_symbol("cuMemFree_v2");
    for (int i = 0; i < 100 && (i == 0 || p != before); i++) {
        before = p;
        assert_int_equal(cuMemAlloc_v2(&p, MIB), 0);
        assert_int_equal(behind(p), 0);
        lost += MIB;
    }
    assert_int_equal(p, before);
    assert_int_equal(stat_of("used"), lost - MIB);
    assert_int_equal(cuDevicePrimaryCtxReset_v2(0), 0);
    assert_nothing();
    again();
}

static _Atomic int ended;

static void *reset(void *arg)
{
    (void)arg;
    (void)cuCtxSetCurrent(first);
    if (cuDevicePrimaryCtxReset_v2(0) == 0)
        ended = 1;
    return NULL;
}

/* While memory is away nothing ends: the reset waits as a copy does, and takes what has come home. */
static void test_evicted(void **state)
{
    CUdeviceptr p = 0;
    pthread_t thread;

    (void)state;
    if (!movable)
        return;
    assert_int_equal(cuMemAlloc_v2(&p, 16 * MIB), 0);
    __atomic_store_n(&page->control.lease_until_ns, now_ns() + 60 * SEC, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->control.gate, GATE_CLOSED, __ATOMIC_SEQ_CST);
    assert_int_equal(command(OP_EVICT_ALL, 0), 16 * MIB);
    assert_int_equal(pthread_create(&thread, NULL, reset, NULL), 0);
    (void)usleep(200000);
    assert_int_equal(ended, 0);
    assert_int_equal(stat_of("saved"), 16 * MIB);
    assert_int_equal(command(OP_RELOAD_ALL, 0), 16 * MIB);
    __atomic_store_n(&page->control.gate, GATE_OPEN, __ATOMIC_SEQ_CST);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(ended, 1);
    assert_nothing();
    again();
    assert_int_equal(cuMemAlloc_v2(&p, 16 * MIB), 0); /* and moves go on */
    assert_int_equal(command(OP_SPILL_TO, 1), 16 * MIB);
    assert_int_equal(cuDevicePrimaryCtxReset_v2(0), 0); /* in host memory, too */
    assert_nothing();
    again();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reset),        cmocka_unit_test(test_references), cmocka_unit_test(test_one_of_several),
        cmocka_unit_test(test_mapped_stays), cmocka_unit_test(test_given_anew), cmocka_unit_test(test_pools),
        cmocka_unit_test(test_evicted),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
