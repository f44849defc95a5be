/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of memory counts, and what has a limit is refused above it without the driver being asked: the library in
 * front of the fake driver with four GPUs, 64 MiB of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "calls.h"
#include "unit/shim_play.h"

#define MIB (1ull << 20)
#define GPUS 4

static CUcontext ctx[GPUS];

static int setup(void **state)
{
    (void)state;
    if (cuInit(0))
        return 1;
    for (int i = 0; i < GPUS; i++)
        if (cuDevicePrimaryCtxRetain(&ctx[i], i))
            return 1;
    return cuCtxSetCurrent(ctx[0]) || play_begin();
}

static uint64_t held(int gpu, enum page_class class)
{
    return __atomic_load_n(&page->memory[gpu].class_bytes[class], __ATOMIC_RELAXED);
}

/* The fake leaves the handle as it was: any will do. */
static void test_arrays(void **state)
{
    struct cuda_array_desc flat = { .width = 1024, .height = 1024, .format = 0x20, .channels = 1 };
    struct cuda_array3d_desc deep = { .width = 256, .height = 256, .depth = 64, .format = 0x10, .channels = 2 };
    CUarray a = (CUarray)0x1000, b = (CUarray)0x2000;
    CUmipmappedArray m = (CUmipmappedArray)0x3000;
    uint64_t calls;

    (void)state;
    assert_int_equal(cuArrayCreate_v2(&a, &flat), 0);
    assert_int_equal(held(0, CLASS_ARRAY), 4 * MIB);
    assert_int_equal(cuArray3DCreate_v2(&b, &deep), 0);
    assert_int_equal(held(0, CLASS_ARRAY), 20 * MIB);
    assert_int_equal(cuMipmappedArrayCreate(&m, &deep, 8), 0); /* a third more for the smaller ones */
    assert_int_equal(held(0, CLASS_ARRAY), 20 * MIB + 16 * MIB / 3 * 4);
    assert_int_equal(page->memory[0].used, held(0, CLASS_ARRAY));
    flat.height = 16384;
    calls = fake_calls("cuArrayCreate_v2");
    assert_int_equal(cuArrayCreate_v2(&a, &flat), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake_calls("cuArrayCreate_v2"), calls);
    fake_fail("cuArray3DCreate_v2", 1, 1); /* the driver's own refusal counts nothing */
    deep.depth = 1;
    assert_int_equal(cuArray3DCreate_v2(&b, &deep), 1);
    assert_int_equal(cuMipmappedArrayDestroy(m), 0);
    assert_int_equal(cuArrayDestroy(b), 0);
    assert_int_equal(cuArrayDestroy(a), 0);
    assert_int_equal(cuArrayDestroy(a), 0); /* never seen: the driver's business */
    assert_int_equal(page->memory[0].used, 0);
}

static void test_managed(void **state)
{
    CUdeviceptr p = 0;
    uint64_t calls = fake_calls("cuMemAllocManaged");

    (void)state;
    assert_int_equal(cuMemAllocManaged(&p, 65 * MIB, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake_calls("cuMemAllocManaged"), calls);
    assert_int_equal(page->health.flags & HEALTH_NO_CHECKPOINT, 0);
    assert_int_equal(cuMemAllocManaged(&p, 7 * MIB, 1), 0);
    assert_int_equal(held(0, CLASS_MANAGED), 8 * MIB);
    assert_int_equal(page->health.flags & HEALTH_NO_CHECKPOINT, HEALTH_NO_CHECKPOINT);
    assert_int_equal(cuMemFree_v2(p), 0);
    assert_int_equal(page->memory[0].used, 0);
}

/* The functions of before CUDA 4, whose addresses have 32 bits. */
static void test_old(void **state)
{
    CUdeviceptr_v1 p = 0x4000, q = 0x8000;
    unsigned int pitch = 0;

    (void)state;
    assert_int_equal(cuMemAlloc(&p, 6 << 20), 0);
    assert_int_equal(cuMemAllocPitch(&q, &pitch, 1000, 4096, 4), 0);
    assert_int_equal(held(0, CLASS_NATIVE), 10 * MIB);
    assert_int_equal(cuMemAlloc(&p, 60 << 20), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemFree(p), 0);
    assert_int_equal(cuMemFree(q), 0);
    assert_int_equal(page->memory[0].used, 0);
}

/* What kernels allocate and print to is set aside by the driver, whatever the limit says. */
static void test_heaps(void **state)
{
    (void)state;
    assert_int_equal(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB), 0);
    assert_int_equal(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 2 * MIB), 0);
    assert_int_equal(page->memory[0].used, 10 * MIB);
    assert_int_equal(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 4 * MIB), 0);
    assert_int_equal(page->memory[0].used, 6 * MIB);
    fake_fail("cuCtxSetLimit", 1, 1);
    assert_int_equal(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 * MIB), 1);
    assert_int_equal(page->memory[0].used, 6 * MIB);
    assert_int_equal(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 0), 0);
    assert_int_equal(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 0), 0);
    assert_int_equal(page->memory[0].used, 0);
}

static void test_pinned(void **state)
{
    static char mine[8192];
    void *host = malloc(1); /* the fake leaves it as it was, and frees it */

    (void)state;
    assert_int_equal(cuMemHostRegister_v2(mine, sizeof(mine), 0), 0);
    assert_int_equal(page->health.pinned_bytes, sizeof(mine));
    assert_int_equal(cuMemAllocHost_v2(&host, 2 * MIB), 0);
    assert_int_equal(page->health.pinned_bytes, sizeof(mine) + 2 * MIB);
    assert_int_equal(cuMemHostUnregister(mine), 0);
    assert_int_equal(cuMemFreeHost(host), 0);
    assert_int_equal(page->health.pinned_bytes, 0);
    assert_int_equal(page->memory[0].used, 0); /* none of the GPU's */
}

static void test_pools(void **state)
{
    CUmemoryPool pool = NULL;
    CUdeviceptr p = 0;
    uint64_t calls = fake_calls("cuMemAllocFromPoolAsync");

    (void)state;
    assert_int_equal(cuDeviceGetMemPool(&pool, 0), 0);
    assert_int_equal(cuMemAllocFromPoolAsync(&p, 65 * MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake_calls("cuMemAllocFromPoolAsync"), calls);
    assert_int_equal(cuMemAllocAsync(&p, 4 * MIB, NULL), 0);
    assert_int_equal(held(0, CLASS_POOL), 32 * MIB); /* as much as the driver reserved for it */
    assert_int_equal(cuMemFreeAsync(p, NULL), 0);
    assert_int_equal(cuMemPoolTrimTo(pool, 0), 0);
    assert_int_equal(page->memory[0].used, 0);
}

static bool graphs_become(int gpu, uint64_t bytes)
{
    for (int i = 0; i < 2000 && held(gpu, CLASS_GRAPH) != bytes; i++)
        usleep(1000);
    return held(gpu, CLASS_GRAPH) == bytes;
}

/* A graph takes its memory when it is launched, long after the library saw it being built: by a node of its own (GPU
 * 0), by one of the general kind (1), recorded (2). Of a GPU whose graphs allocate nothing nobody asks (3). */
static void test_graphs(void **state)
{
    int alloc_node = CU_GRAPH_NODE_TYPE_MEM_ALLOC, kernel_node = 0;
    CUgraphNode node = NULL;
    CUstream stream = NULL;
    CUgraph graph = NULL;
    CUdeviceptr p = 0;

    (void)state;
    assert_int_equal(cuGraphAddMemAllocNode(&node, NULL, NULL, 0, &alloc_node), 0);
    assert_int_equal(cuCtxSetCurrent(ctx[1]), 0);
    assert_int_equal(cuGraphAddNode(&node, NULL, NULL, 0, &alloc_node), 0);
    assert_int_equal(cuCtxSetCurrent(ctx[2]), 0);
    assert_int_equal(cuStreamCreate(&stream, 1), 0);
    assert_int_equal(cuStreamBeginCapture_v2(stream, 0), 0);
    assert_int_equal(cuMemAllocAsync(&p, 4 * MIB, stream), 0);
    assert_int_equal(cuStreamEndCapture(stream, &graph), 0);
    assert_int_equal(cuCtxSetCurrent(ctx[3]), 0);
    assert_int_equal(cuGraphAddNode_v2(&node, NULL, NULL, NULL, 0, &kernel_node), 0);
    assert_int_equal(cuCtxSetCurrent(ctx[0]), 0);
    for (int i = 0; i < GPUS; i++)
        fake_graph_holds(i, (uint64_t)(2 + i) * 2 * MIB); /* they are launched */
    for (int i = 0; i < 3; i++)
        if (!graphs_become(i, (uint64_t)(2 + i) * 2 * MIB))
            fail_msg("graphs of GPU %d hold %llu bytes", i, (unsigned long long)held(i, CLASS_GRAPH));
    assert_int_equal(held(3, CLASS_GRAPH), 0);
    assert_int_equal(page->memory[0].used, 4 * MIB);
    assert_int_equal(cuMemAlloc_v2(&p, 62 * MIB), CUDA_ERROR_OUT_OF_MEMORY); /* it counts against the limit */
    assert_int_equal(cuDeviceGraphMemTrim(0), 0);
    assert_int_equal(page->memory[0].used, 0);
}

static uint64_t asked(void)
{
    return fake_calls("cuDeviceGetGraphMemAttribute");
}

/* While the process is moved or away nobody asks: the driver would answer when it is back, and the helper wait for it.
 */
static void test_graphs_away(void **state)
{
    uint64_t before;

    (void)state;
    __atomic_store_n(&page->health.state, STATE_EVICTED, __ATOMIC_SEQ_CST);
    assert_int_equal(command(OP_PING, 0), 0); /* what was under way is over */
    assert_int_equal(command(OP_PING, 0), 0);
    before = asked();
    usleep(100000);
    assert_int_equal(command(OP_PING, 0), 0); /* it turned meanwhile */
    assert_int_equal(asked(), before);
    __atomic_store_n(&page->health.state, STATE_RUNNING, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 5000 && asked() == before; i++)
        usleep(1000);
    assert_true(asked() > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays), cmocka_unit_test(test_managed),     cmocka_unit_test(test_old),
        cmocka_unit_test(test_heaps),  cmocka_unit_test(test_pinned),      cmocka_unit_test(test_pools),
        cmocka_unit_test(test_graphs), cmocka_unit_test(test_graphs_away),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
