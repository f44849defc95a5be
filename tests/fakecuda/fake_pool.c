/* SPDX-License-Identifier: Apache-2.0 */
/* fake_pool.c - pools: what is freed stays reserved until trimmed. */
#include <stdlib.h>

#include "fake.h"

CUresult cuCtxGetDevice(CUdevice *dev);

#define POOL_STEP (32ull << 20)

static struct CUmemPoolHandle_st default_pool[FAKE_DEVICES];
static CUmemoryPool current_pool[FAKE_DEVICES]; /* NULL: the default one */
static uint64_t pools_reserved[FAKE_DEVICES];   /* of all pools of the device together */

/* What a pool holds is a whole number of steps. The caller holds the lock. */
void fake_pool_resize(CUmemoryPool pool, uint64_t bytes)
{
    bytes = (bytes + POOL_STEP - 1) / POOL_STEP * POOL_STEP;
    pools_reserved[pool->dev] += bytes - pool->reserved;
    pool->reserved = bytes;
}

static CUmemoryPool pool_current(CUdevice dev)
{
    default_pool[dev].dev = dev;
    return current_pool[dev] ? current_pool[dev] : &default_pool[dev];
}

FAKE_API uint64_t fake_pools_reserved(int dev)
{
    uint64_t bytes;

    fake_memory_lock();
    bytes = pools_reserved[dev];
    fake_memory_unlock();
    return bytes;
}

FAKE_API CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
    CUdevice dev;

    FAKE_ENTER(cuMemAllocAsync);
    if ((uintptr_t)stream > 2)
        dev = stream->dev; /* it is the stream that says which GPU */
    else if (cuCtxGetDevice(&dev) != 0)
        return 201;
    return fake_memory_alloc(dptr, bytes, dev, pool_current(dev));
}

FAKE_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    (void)stream;
    FAKE_ENTER(cuMemAllocFromPoolAsync);
    return fake_memory_alloc(dptr, bytes, pool->dev, pool);
}

FAKE_API CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream)
{
    FAKE_ENTER(cuMemFreeAsync);
    fake_wait(fake_stream_seq(stream));
    return fake_memory_free(dptr, false);
}

FAKE_API CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    FAKE_ENTER(cuMemPoolTrimTo);
    fake_memory_lock();
    keep = keep / POOL_STEP * POOL_STEP; /* until it has no more than that, or none that is all free */
    if (pool->reserved > keep)
        fake_pool_resize(pool, pool->used > keep ? pool->used : keep);
    fake_memory_unlock();
    return 0;
}

FAKE_API CUresult cuMemPoolCreate(CUmemoryPool *pool, const struct cuda_opaque *props)
{
    const struct cuda_mem_prop *p = (const void *)props; /* they begin alike */

    FAKE_ENTER(cuMemPoolCreate);
    *pool = calloc(1, sizeof(**pool));
    (*pool)->dev = p->location.id;
    return 0;
}

FAKE_API CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    FAKE_ENTER(cuMemPoolDestroy);
    if (pool->used)
        return CUDA_ERROR_INVALID_VALUE; /* a real one waits for the last of it to be freed */
    fake_memory_lock();
    fake_pool_resize(pool, 0);
    fake_memory_unlock();
    free(pool);
    return 0;
}

FAKE_API CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    FAKE_ENTER(cuDeviceSetMemPool);
    current_pool[dev] = pool;
    return 0;
}

FAKE_API CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    *pool = pool_current(dev);
    return 0;
}

FAKE_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
    (void)pool_current(dev);
    *pool = &default_pool[dev];
    return 0;
}

FAKE_API CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attr, void *value)
{
    fake_memory_lock();
    *(uint64_t *)value = attr == CU_MEMPOOL_ATTR_RESERVED_CURRENT ? pool->reserved : pool->used;
    fake_memory_unlock();
    return 0;
}
