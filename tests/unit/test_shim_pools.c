/* SPDX-License-Identifier: Apache-2.0 */
/* Pools under the limit: the library in front of the fake driver with two GPUs, 64 MiB of each. The fake's pools grow
 * in steps of 32 MiB, as real ones do. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "calls.h"
#include "unit/shim_play.h"

#define MIB (1ull << 20)
#define THREADS 8
#define ROUNDS 300
#define MINE 6
#define KNOWN 32 /* pools the library knows one by one */

static CUcontext ctx[2];

static int setup(void **state)
{
    (void)state;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx[0], 0) || cuDevicePrimaryCtxRetain(&ctx[1], 1))
        return 1;
    return cuCtxSetCurrent(ctx[0]) || play_begin();
}

static uint64_t used(int gpu)
{
    return __atomic_load_n(&page->memory[gpu].used, __ATOMIC_SEQ_CST);
}

/* 4 MiB would fit, the 32 the driver takes for them do not: the program is refused, and nothing stays behind. */
static void test_step(void **state)
{
    CUdeviceptr p = 0, q = 0;

    (void)state;
    assert_int_equal(cuMemAlloc_v2(&p, 40 * MIB), 0);
    assert_int_equal(cuMemAllocAsync(&q, 4 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake_pools_reserved(0), 0);
    assert_int_equal(fake_device_used(0), 40 * MIB);
    assert_int_equal(used(0), 40 * MIB);
    assert_int_equal(cuMemFree_v2(p), 0);
    assert_int_equal(cuMemAllocAsync(&q, 4 * MIB, NULL), 0);
    assert_int_equal(used(0), 32 * MIB);
    assert_int_equal(cuMemAllocAsync(&p, 28 * MIB, NULL), 0); /* what it holds already costs nothing */
    assert_int_equal(used(0), 32 * MIB);
    page->limit[0].cap_bytes = 16 * MIB; /* nor is it refused under a limit that was lowered since */
    assert_int_equal(cuMemFreeAsync(p, NULL), 0);
    assert_int_equal(cuMemAllocAsync(&p, 20 * MIB, NULL), 0);
    page->limit[0].cap_bytes = 64 * MIB;
    assert_int_equal(cuMemFreeAsync(p, NULL), 0);
    assert_int_equal(cuMemFreeAsync(q, NULL), 0);
}

/* What a pool holds is not plain memory's; the driver's own refusal leaves nothing reserved; below the limit the driver
 * is asked for nothing more than the program did. */
static void test_beside_plain(void **state)
{
    CUmemoryPool pool = NULL;
    CUdeviceptr p[2] = { 0 };
    uint64_t trims;

    (void)state;
    assert_int_equal(cuDeviceGetMemPool(&pool, 0), 0);
    assert_int_equal(cuMemPoolTrimTo(pool, 0), 0);
    assert_int_equal(used(0), 0);
    fake_fail("cuMemAllocAsync", 1, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemAllocAsync(&p[0], 4 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(used(0), 0);
    trims = fake_calls("cuMemPoolTrimTo");
    assert_int_equal(cuMemAllocAsync(&p[0], 4 * MIB, NULL), 0);
    assert_int_equal(fake_calls("cuMemPoolTrimTo"), trims);
    assert_int_equal(cuMemAlloc_v2(&p[1], 30 * MIB), 0);
    assert_int_equal(cuMemAlloc_v2(&p[1], 4 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemFree_v2(p[1]), 0);
    assert_int_equal(cuMemFreeAsync(p[0], NULL), 0);
    assert_int_equal(cuMemPoolTrimTo(pool, 0), 0);
    assert_int_equal(used(0), 0);
}

static pthread_barrier_t meet;
static CUmemoryPool second;
static _Atomic int wrong, granted;

/* All call at once; when all have returned the driver holds no more than the limit, and the account is what it holds.
 */
static void *hammer(void *arg)
{
    struct {
        CUdeviceptr at;
        bool plain;
    } mine[MINE] = { 0 };
    unsigned int seed = (unsigned int)(uintptr_t)arg * 7919u;

    (void)cuCtxSetCurrent(ctx[0]);
    for (int i = 0; i < ROUNDS; i++) {
        unsigned int k = (seed = seed * 1103515245u + 12345u) >> 8 & 7, bytes = (1 + (seed >> 16 & 7)) << 20;

        (void)pthread_barrier_wait(&meet);
        if (k < MINE && mine[k].at) {
            (void)(mine[k].plain ? cuMemFree_v2(mine[k].at) : cuMemFreeAsync(mine[k].at, NULL));
            mine[k].at = 0;
        } else if (k < MINE) {
            mine[k].plain = k == 0;
            if ((k == 0   ? cuMemAlloc_v2(&mine[k].at, bytes)
                 : k == 1 ? cuMemAllocFromPoolAsync(&mine[k].at, bytes, second, NULL)
                          : cuMemAllocAsync(&mine[k].at, bytes, NULL)) == 0)
                granted++;
            else
                mine[k].at = 0;
        } else if (k == 7) {
            (void)cuMemPoolTrimTo(second, 0);
        }
        (void)pthread_barrier_wait(&meet);
        if (used(0) > 64 * MIB || fake_pools_reserved(0) > used(0))
            wrong++;
    }
    for (int k = 0; k < MINE; k++)
        if (mine[k].at)
            (void)(mine[k].plain ? cuMemFree_v2(mine[k].at) : cuMemFreeAsync(mine[k].at, NULL));
    return NULL;
}

static void test_threads(void **state)
{
    struct cuda_mem_prop prop = { .type = 1, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    pthread_t threads[THREADS];
    CUmemoryPool pool = NULL;

    (void)state;
    assert_int_equal(pthread_barrier_init(&meet, NULL, THREADS), 0);
    assert_int_equal(cuMemPoolCreate(&second, (const void *)&prop), 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(wrong, 0);
    assert_true(granted > ROUNDS / 4);
    assert_int_equal(used(0), fake_pools_reserved(0));
    assert_int_equal(cuDeviceGetMemPool(&pool, 0), 0);
    assert_int_equal(cuMemPoolTrimTo(pool, 0), 0);
    assert_int_equal(cuMemPoolDestroy(second), 0);
    assert_int_equal(used(0), 0);
    assert_int_equal(fake_pools_reserved(0), 0);
}

/* A pool counts for its own GPU, whichever is current: by its properties, by being that GPU's default one, by the
 * stream. */
static void test_whose(void **state)
{
    struct cuda_mem_prop prop = { .type = 1, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 1 } };
    CUmemoryPool pool = NULL, own = NULL;
    CUdeviceptr p = 0;
    CUstream stream = NULL;

    (void)state;
    assert_int_equal(cuDeviceGetDefaultMemPool(&own, 1), 0);
    assert_int_equal(cuMemAllocFromPoolAsync(&p, 4 * MIB, own, NULL), 0);
    assert_int_equal(used(0), 0);
    assert_int_equal(used(1), 32 * MIB);
    assert_int_equal(cuMemFreeAsync(p, NULL), 0);
    assert_int_equal(cuMemPoolTrimTo(own, 0), 0);
    assert_int_equal(used(1), 0);
    assert_int_equal(cuMemPoolCreate(&pool, (const void *)&prop), 0);
    assert_int_equal(cuMemAllocFromPoolAsync(&p, 4 * MIB, pool, NULL), 0);
    assert_int_equal(used(0), 0);
    assert_int_equal(used(1), 32 * MIB);
    assert_int_equal(cuMemFreeAsync(p, NULL), 0);
    assert_int_equal(cuMemPoolDestroy(pool), 0);
    assert_int_equal(used(1), 0);
    assert_int_equal(cuCtxSetCurrent(ctx[1]), 0);
    assert_int_equal(cuStreamCreate(&stream, 1), 0);
    assert_int_equal(cuCtxSetCurrent(ctx[0]), 0);
    assert_int_equal(cuMemAllocAsync(&p, 4 * MIB, stream), 0);
    assert_int_equal(used(0), 0);
    assert_int_equal(used(1), 32 * MIB);
    assert_int_equal(cuMemFreeAsync(p, stream), 0);
    assert_int_equal(cuMemPoolTrimTo(own, 0), 0);
    assert_int_equal(used(1), 0);
}

/* More than the library can tell apart: the rest is counted by what is allocated from it, and limited all the same. */
static void test_many(void **state)
{
    struct cuda_mem_prop prop = { .type = 1, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 1 } };
    CUmemoryPool pool[KNOWN + 2] = { 0 };
    CUdeviceptr p = 0, q = 0;

    (void)state;
    for (int i = 0; i < KNOWN + 2; i++)
        assert_int_equal(cuMemPoolCreate(&pool[i], (const void *)&prop), 0);
    assert_int_equal(cuCtxSetCurrent(ctx[1]), 0);
    assert_int_equal(cuMemAllocFromPoolAsync(&p, 40 * MIB, pool[KNOWN + 1], NULL), 0);
    assert_int_equal(used(1), 40 * MIB);
    assert_int_equal(cuMemAllocFromPoolAsync(&q, 40 * MIB, pool[KNOWN], NULL), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemAllocFromPoolAsync(&q, 8 * MIB, pool[KNOWN], NULL), 0);
    assert_int_equal(used(1), 48 * MIB);
    assert_int_equal(cuMemFreeAsync(q, NULL), 0);
    assert_int_equal(cuMemFree_v2(p), 0);
    assert_int_equal(used(1), 0);
    for (int i = 0; i < KNOWN + 2; i++)
        assert_int_equal(cuMemPoolDestroy(pool[i]), 0);
    assert_int_equal(cuMemPoolCreate(&pool[0], (const void *)&prop), 0); /* there is a place again */
    assert_int_equal(cuMemAllocFromPoolAsync(&p, 8 * MIB, pool[0], NULL), 0);
    assert_int_equal(used(1), 32 * MIB);
    assert_int_equal(cuMemFreeAsync(p, NULL), 0);
    assert_int_equal(cuMemPoolDestroy(pool[0]), 0);
    assert_int_equal(used(1), 0);
    assert_int_equal(cuCtxSetCurrent(ctx[0]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step),  cmocka_unit_test(test_beside_plain), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_whose), cmocka_unit_test(test_many),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
