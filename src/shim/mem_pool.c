/* SPDX-License-Identifier: Apache-2.0 */
/* mem_pool.c - memory the driver manages for the program: pools, graphs, device heaps.
 *
 * A pool is charged for what it has reserved, which the driver tells; before it grows, the growth is reserved by
 * estimate and corrected afterwards.
 */
#include <errno.h>

#include "shim/shim.h"

#define POOLS 32
#define POOL_USED_CURRENT 7

#define NO_DRIVER(name)                                                                                                \
    if (unlikely(!HAVE(name)))                                                                                         \
    return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED

static struct {
    _Atomic uintptr_t pool;
    _Atomic int gpu;
} pools[POOLS];

static void pool_remember(CUmemoryPool pool, int gpu)
{
    for (int i = 0; i < POOLS; i++)
        if (atomic_load(&pools[i].pool) == (uintptr_t)pool)
            return;
    for (int i = 0; i < POOLS; i++) {
        uintptr_t none = 0;

        if (!atomic_compare_exchange_strong(&pools[i].pool, &none, (uintptr_t)pool))
            continue;
        atomic_store(&pools[i].gpu, gpu);
        return;
    }
    COUNT_ADD(unknown, 1);
}

static uint64_t pool_value(CUmemoryPool pool, int attr)
{
    uint64_t value = 0;

    if (!pool || !HAVE(cuMemPoolGetAttribute) || REAL(cuMemPoolGetAttribute)(pool, attr, &value) != CUDA_SUCCESS)
        return 0;
    return value;
}

void mem_pool_refresh(int gpu)
{
    uint64_t sum = 0;
    bool any = false;

    for (int i = 0; i < POOLS; i++) {
        uintptr_t pool = atomic_load(&pools[i].pool);

        if (pool && atomic_load(&pools[i].gpu) == gpu) {
            sum += pool_value((CUmemoryPool)pool, CU_MEMPOOL_ATTR_RESERVED_CURRENT);
            any = true;
        }
    }
    if (any)
        mem_set_class(gpu, CLASS_POOL, sum);
}

/* A graph takes its memory when it is launched, not when it is built: the helper asks, of a GPU whose graphs do. */
static _Atomic uint32_t graphs_allocate; /* a bit a GPU */

static void graph_allocates(void)
{
    int gpu = enter_device();

    if (gpu >= 0)
        atomic_fetch_or(&graphs_allocate, (uint32_t)1 << gpu);
}

/* Not while the process is moved or away: a call of the driver's would wait there, and the helper with it. */
void mem_graph_look(int gpu)
{
    if (unlikely(atomic_load_explicit(&graphs_allocate, memory_order_relaxed) >> gpu & 1) &&
        shim.page->health.state == STATE_RUNNING)
        mem_graph_refresh(gpu);
}

void mem_graph_refresh(int gpu)
{
    uint64_t bytes = 0;

    if (gpu >= 0 && HAVE(cuDeviceGetGraphMemAttribute) &&
        REAL(cuDeviceGetGraphMemAttribute)(gpu, CU_GRAPH_MEM_ATTR_RESERVED_CURRENT, &bytes) == CUDA_SUCCESS)
        mem_set_class(gpu, CLASS_GRAPH, bytes);
}

/* Room for `bytes` more in the pool? The part that fits what it already holds costs nothing. */
static int pool_reserve(CUmemoryPool pool, int gpu, size_t bytes)
{
    uint64_t held = pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_CURRENT), used = pool_value(pool, POOL_USED_CURRENT);

    if (used + bytes <= held)
        return 0;
    return mem_reserve(gpu, CLASS_POOL, used + bytes - held);
}

static CUmemoryPool pool_default(int gpu)
{
    CUmemoryPool pool = NULL;

    if (HAVE(cuDeviceGetMemPool) && REAL(cuDeviceGetMemPool)(&pool, gpu) == CUDA_SUCCESS)
        return pool;
    return NULL;
}

#define POOL_ALLOC(name, params, args, which)                                                                          \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        bool on = shim_ready();                                                                                        \
        CUmemoryPool from;                                                                                             \
        CUresult r;                                                                                                    \
        int gpu;                                                                                                       \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        if (on && unlikely(thread_captures())) /* it becomes a node of the graph */                                    \
            graph_allocates();                                                                                         \
        if (!on || thread_captures() || (gpu = enter_device()) < 0)                                                    \
            return REAL(name) args;                                                                                    \
        from = (which);                                                                                                \
        if (from)                                                                                                      \
            pool_remember(from, gpu);                                                                                  \
        if (pool_reserve(from, gpu, bytes) < 0) {                                                                      \
            (void)mem_soft_refuse(gpu, bytes);                                                                         \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                                           \
        }                                                                                                              \
        r = REAL(name) args;                                                                                           \
        mem_pool_refresh(gpu);                                                                                         \
        return r;                                                                                                      \
    }
#define FROM_DEFAULT (CUdeviceptr * dptr, size_t bytes, CUstream stream)
#define FROM_POOL (CUdeviceptr * dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
POOL_ALLOC(cuMemAllocAsync, FROM_DEFAULT, (dptr, bytes, stream), pool_default(gpu))
POOL_ALLOC(cuMemAllocAsync_ptsz, FROM_DEFAULT, (dptr, bytes, stream), pool_default(gpu))
POOL_ALLOC(cuMemAllocFromPoolAsync, FROM_POOL, (dptr, bytes, pool, stream), pool)
POOL_ALLOC(cuMemAllocFromPoolAsync_ptsz, FROM_POOL, (dptr, bytes, pool, stream), pool)

/* What changes a pool's reservation is passed on, then the reservation is read again. */
#define POOL_AFTER(name, params, args)                                                                                 \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        bool on = shim_ready();                                                                                        \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        r = REAL(name) args;                                                                                           \
        if (on && !thread_captures())                                                                                  \
            mem_pool_refresh(enter_device());                                                                          \
        return r;                                                                                                      \
    }
POOL_AFTER(cuMemFreeAsync, (CUdeviceptr dptr, CUstream stream), (dptr, stream))
POOL_AFTER(cuMemFreeAsync_ptsz, (CUdeviceptr dptr, CUstream stream), (dptr, stream))
POOL_AFTER(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep), (pool, keep))
POOL_AFTER(cuMemPoolSetAttribute, (CUmemoryPool pool, int attr, void *value), (pool, attr, value))
POOL_AFTER(cuDeviceSetMemPool, (CUdevice dev, CUmemoryPool pool), (dev, pool))

CUresult cuMemPoolCreate(CUmemoryPool *pool, const struct cuda_opaque *props)
{
    bool on = shim_ready();
    CUresult r;

    NO_DRIVER(cuMemPoolCreate);
    r = REAL(cuMemPoolCreate)(pool, props);
    if (on && r == CUDA_SUCCESS && enter_device() >= 0)
        pool_remember(*pool, enter_device());
    return r;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    bool on = shim_ready();
    CUresult r;

    NO_DRIVER(cuMemPoolDestroy);
    for (int i = 0; on && i < POOLS; i++) {
        uintptr_t mine = (uintptr_t)pool;

        if (mine && atomic_compare_exchange_strong(&pools[i].pool, &mine, 0))
            break;
    }
    r = REAL(cuMemPoolDestroy)(pool);
    if (on)
        mem_pool_refresh(enter_device());
    return r;
}

#define GRAPH_NODE(name, params_, args, allocates)                                                                     \
    CUresult name params_                                                                                              \
    {                                                                                                                  \
        bool on = shim_ready();                                                                                        \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        r = REAL(name) args;                                                                                           \
        if (on && r == CUDA_SUCCESS && (allocates))                                                                    \
            graph_allocates();                                                                                         \
        return r;                                                                                                      \
    }
#define NODE_ALLOCATES (params && *(const int *)params == CU_GRAPH_NODE_TYPE_MEM_ALLOC) /* what it begins with */
GRAPH_NODE(cuGraphAddMemAllocNode,
           (CUgraphNode * node, CUgraph graph, const CUgraphNode *deps, size_t count, void *params),
           (node, graph, deps, count, params), true)
GRAPH_NODE(cuGraphAddNode, (CUgraphNode * node, CUgraph graph, const CUgraphNode *deps, size_t count, void *params),
           (node, graph, deps, count, params), NODE_ALLOCATES)
GRAPH_NODE(cuGraphAddNode_v2,
           (CUgraphNode * node, CUgraph graph, const CUgraphNode *deps, const void *data, size_t count, void *params),
           (node, graph, deps, data, count, params), NODE_ALLOCATES)

CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
    bool on = shim_ready();
    CUresult r;

    NO_DRIVER(cuDeviceGraphMemTrim);
    r = REAL(cuDeviceGraphMemTrim)(dev);
    if (on)
        mem_graph_refresh(dev);
    return r;
}

CUresult cuCtxSetLimit(int limit, size_t value)
{
    static _Atomic uint64_t heap[PAGE_GPUS][2];
    bool on = shim_ready();
    CUresult r;
    int gpu;

    NO_DRIVER(cuCtxSetLimit);
    r = REAL(cuCtxSetLimit)(limit, value);
    if (!on || r != CUDA_SUCCESS || (limit != CU_LIMIT_MALLOC_HEAP_SIZE && limit != CU_LIMIT_PRINTF_FIFO_SIZE) ||
        (gpu = enter_device()) < 0)
        return r;
    mem_give_back(gpu, CLASS_NATIVE, atomic_exchange(&heap[gpu][limit == CU_LIMIT_MALLOC_HEAP_SIZE], value));
    mem_force(gpu, CLASS_NATIVE, value);
    return r;
}
