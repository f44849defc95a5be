/* SPDX-License-Identifier: Apache-2.0 */
/* mem_pool.c - memory the driver manages for the program: pools, graphs, device heaps.
 *
 * A pool is charged for what it has reserved, which the driver tells. Before it grows, the growth is reserved by one
 * atomic add, as for plain memory; afterwards the pool's charge is corrected to what it really reserved. A driver lets
 * a pool grow by steps of its own, 32 MiB and more: one that is above the limit by that is trimmed, and if it still is,
 * the allocation is freed again and refused.
 *
 * Threads allocate from one pool at once. Each draws a ticket before it asks what the pool holds, and a later ticket's
 * answer is never replaced by an earlier one's: it was read after everything the earlier one did. A reservation stands
 * until the answer that covers it does. So the account is never below what the driver holds, but for the step.
 */
#include <errno.h>
#include <sched.h>

#include "shim/shim.h"

#define POOLS 32
#define POOL_USED_CURRENT 7
#define POOL_LEAVES ((uintptr_t)1) /* it is being destroyed */
#define TICKET_SHIFT 40u           /* of a charge: KiB below, the ticket above */
#define CHARGE_KIB(word) ((word) & (((uint64_t)1 << TICKET_SHIFT) - 1))
#define RESERVE_TRIES 16u

#define NO_DRIVER(name)                                                                                                \
    if (unlikely(!HAVE(name)))                                                                                         \
    return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED

static struct pool {
    _Atomic uintptr_t pool;   /* 0 = free */
    _Atomic int gpu;          /* -1: of no GPU's memory */
    _Atomic uint32_t ticket;  /* drawn last */
    _Atomic uint64_t charge;  /* what is counted for it, and by whose answer */
    _Atomic uint64_t claimed; /* what threads are allocating from it now */
} pools[POOLS];
static _Atomic uint32_t pools_lock, pools_over; /* over: there have been more; theirs is counted by allocation */

static struct pool *pool_find(CUmemoryPool pool)
{
    for (int i = 0; i < POOLS; i++)
        if (atomic_load_explicit(&pools[i].pool, memory_order_acquire) == (uintptr_t)pool)
            return pool ? &pools[i] : NULL;
    return NULL;
}

/* `fresh`: nothing has been allocated from it. Another one, once there have been too many, may have allocations that
 * are counted one by one: it stays so. */
static struct pool *pool_remember(CUmemoryPool pool, int gpu, bool fresh)
{
    struct pool *p = pool_find(pool);

    if (p || !pool || (!fresh && atomic_load(&pools_over)))
        return p;
    spin_lock(&pools_lock);
    p = pool_find(pool);
    for (int i = 0; i < POOLS && !p; i++)
        if (atomic_load(&pools[i].pool) == 0) {
            p = &pools[i];
            atomic_store(&p->gpu, gpu);
            atomic_store(&p->claimed, 0);
            atomic_store_explicit(&p->pool, (uintptr_t)pool, memory_order_release);
        }
    spin_unlock(&pools_lock);
    if (!p) {
        atomic_store(&pools_over, 1);
        COUNT_ADD(unknown, 1);
    }
    return p;
}

static bool pool_ask(CUmemoryPool pool, int attr, uint64_t *ret)
{
    CUresult r;
    int mode;

    *ret = 0;
    if (!HAVE(cuMemPoolGetAttribute) || !capture_relax(&mode))
        return false;
    r = REAL(cuMemPoolGetAttribute)(pool, attr, ret);
    capture_restore(mode);
    return r == CUDA_SUCCESS;
}

/* The charge becomes what the driver says now. Growth is counted before it shows, so that whoever sees it in the charge
 * may give back what was reserved for it. Returns what the pool holds. */
static uint64_t pool_settle(struct pool *p)
{
    uintptr_t pool = atomic_load(&p->pool);
    uint64_t ticket = atomic_fetch_add(&p->ticket, 1) + 1u, old = atomic_load(&p->charge), bytes, kib;
    int gpu = atomic_load(&p->gpu);

    if (pool <= POOL_LEAVES || gpu < 0 ||
        !pool_ask((CUmemoryPool)pool, CU_MEMPOOL_ATTR_RESERVED_CURRENT, &bytes)) /* then the old figure stands */
        return CHARGE_KIB(old) * 1024;
    kib = (bytes + 1023) / 1024;
    ticket &= UINT64_MAX >> TICKET_SHIFT;
    while ((int32_t)((uint32_t)(ticket - (old >> TICKET_SHIFT)) << (TICKET_SHIFT - 32)) > 0) {
        uint64_t was = CHARGE_KIB(old), grown = kib > was ? kib - was : 0;

        if (grown)
            mem_force(gpu, CLASS_POOL, grown * 1024);
        if (atomic_compare_exchange_strong(&p->charge, &old, ticket << TICKET_SHIFT | kib)) {
            if (was > kib)
                mem_give_back(gpu, CLASS_POOL, (was - kib) * 1024);
            break;
        }
        if (grown)
            mem_give_back(gpu, CLASS_POOL, grown * 1024);
    }
    return bytes;
}

void mem_pool_refresh(int gpu)
{
    for (int i = 0; i < POOLS && gpu >= 0; i++)
        if (atomic_load(&pools[i].pool) > POOL_LEAVES && atomic_load(&pools[i].gpu) == gpu)
            (void)pool_settle(&pools[i]);
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
    int mode;

    if (gpu < 0 || !HAVE(cuDeviceGetGraphMemAttribute) || !capture_relax(&mode))
        return;
    if (REAL(cuDeviceGetGraphMemAttribute)(gpu, CU_GRAPH_MEM_ATTR_RESERVED_CURRENT, &bytes) == CUDA_SUCCESS)
        mem_set_class(gpu, CLASS_GRAPH, bytes);
    capture_restore(mode);
}

/* Whose is a pool that was never seen? One of those every GPU has, or made before us: then the caller's. */
static int pool_device(CUmemoryPool pool)
{
    CUmemoryPool of = NULL;
    int count = 0;

    if (HAVE(cuDeviceGetCount))
        (void)REAL(cuDeviceGetCount)(&count);
    for (int i = 0; i < count && i < PAGE_GPUS; i++) {
        if (HAVE(cuDeviceGetDefaultMemPool) && REAL(cuDeviceGetDefaultMemPool)(&of, i) == CUDA_SUCCESS && of == pool)
            return i;
        if (HAVE(cuDeviceGetMemPool) && REAL(cuDeviceGetMemPool)(&of, i) == CUDA_SUCCESS && of == pool)
            return i;
    }
    return enter_device();
}

/* One allocation from a pool. */
struct ask {
    struct pool *pool; /* NULL: not among those we know */
    int gpu;
    uint64_t bytes, need, held; /* reserved for it; what the pool held before */
    bool beside;                /* others allocate from it as well */
};

/* False: none of a GPU's memory, or there is no telling whose. */
static bool ask_begin(struct ask *ask, CUmemoryPool pool, CUstream stream, size_t bytes)
{
    CUmemoryPool of = pool;

    *ask = (struct ask){ .bytes = bytes, .gpu = -1 };
    if (!pool) { /* of the GPU that the stream is on */
        ask->gpu = enter_stream_device(stream);
        if (ask->gpu >= 0 && HAVE(cuDeviceGetMemPool))
            (void)REAL(cuDeviceGetMemPool)(&of, ask->gpu);
    }
    ask->pool = pool_find(of);
    if (!ask->pool && of)
        ask->pool = pool_remember(of, pool ? pool_device(pool) : ask->gpu, false);
    if (ask->pool)
        ask->gpu = atomic_load(&ask->pool->gpu);
    else if (pool)
        ask->gpu = pool_device(pool);
    return ask->gpu >= 0;
}

/* The part that fits what the pool already holds costs nothing, unless others are after the same part. They may be done
 * with theirs in a moment: before a refusal they are given a few. */
static bool ask_reserve(struct ask *ask)
{
    struct pool *p = ask->pool;
    uint64_t claimed, used;

    if (!p) {
        ask->need = mem_round(ask->bytes);
        return mem_reserve(ask->gpu, CLASS_POOL, ask->need) == 0;
    }
    for (uint32_t tries = 0;; tries++) {
        CUmemoryPool pool = (CUmemoryPool)atomic_load(&p->pool);

        claimed = atomic_fetch_add(&p->claimed, ask->bytes) + ask->bytes;
        ask->beside = claimed > ask->bytes;
        if (!pool_ask(pool, CU_MEMPOOL_ATTR_RESERVED_CURRENT, &ask->held) || !pool_ask(pool, POOL_USED_CURRENT, &used))
            used = ask->held;
        ask->need = used + claimed > ask->held ? used + claimed - ask->held : 0;
        if (ask->need > ask->bytes)
            ask->need = ask->bytes;
        if (ask->need == 0 || mem_reserve(ask->gpu, CLASS_POOL, ask->need) == 0)
            return true;
        atomic_fetch_sub(&p->claimed, ask->bytes);
        if (!ask->beside || tries >= RESERVE_TRIES)
            return false;
        sched_yield();
    }
}

/* By how much is the process above its limit? */
static uint64_t above(int gpu)
{
    uint64_t cap = mem_cap(gpu), used = __atomic_load_n(&shim.page->memory[gpu].used, __ATOMIC_SEQ_CST);

    return cap && used > cap ? used - cap : 0;
}

static void pool_trim(struct pool *p, uint64_t held)
{
    uint64_t over = above(atomic_load(&p->gpu));

    if (over && HAVE(cuMemPoolTrimTo))
        (void)REAL(cuMemPoolTrimTo)((CUmemoryPool)atomic_load(&p->pool), held > over ? held - over : 0);
    (void)pool_settle(p);
}

/* It has been given. If the pool grew past the limit for it, or is there while others make it grow, it goes back, at
 * once and not in the order of a stream: nobody has used it. */
static CUresult ask_keep(const struct ask *ask, CUdeviceptr *dptr)
{
    uint64_t held = pool_settle(ask->pool);

    if (ask->need)
        mem_give_back(ask->gpu, CLASS_POOL, ask->need);
    if (likely(above(ask->gpu) == 0) || (ask->need == 0 && !ask->beside && held <= ask->held))
        return CUDA_SUCCESS;
    pool_trim(ask->pool, held);
    if (above(ask->gpu) == 0)
        return CUDA_SUCCESS;
    if (!HAVE(cuMemFree_v2) || REAL(cuMemFree_v2)(*dptr) != CUDA_SUCCESS)
        return CUDA_SUCCESS; /* better above than lost */
    *dptr = 0;
    pool_trim(ask->pool, held);
    __atomic_fetch_add(&shim.page->memory[ask->gpu].cap_hits, 1, __ATOMIC_RELAXED);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult ask_end(const struct ask *ask, CUresult r, CUdeviceptr *dptr)
{
    if (!ask->pool) {
        if (r != CUDA_SUCCESS || !table_put(*dptr, ask->need, ask->gpu, CLASS_POOL))
            mem_give_back(ask->gpu, CLASS_POOL, ask->need);
        return r;
    }
    if (r == CUDA_SUCCESS) {
        r = ask_keep(ask, dptr);
        if (r != CUDA_SUCCESS)
            (void)mem_soft_refuse(ask->gpu, ask->bytes);
    } else {
        (void)pool_settle(ask->pool);
        if (ask->need)
            mem_give_back(ask->gpu, CLASS_POOL, ask->need);
    }
    atomic_fetch_sub(&ask->pool->claimed, ask->bytes);
    return r;
}

#define POOL_ALLOC(name, params, args, which)                                                                          \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        bool on = shim_ready(), captured = on && capture_any() && capture_into(stream);                                \
        struct inside_mark mark;                                                                                       \
        uint32_t tries = 0;                                                                                            \
        struct ask ask;                                                                                                \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        if (unlikely(captured)) /* it becomes a node of the graph */                                                   \
            graph_allocates();                                                                                         \
        if (!on || !dptr || captured || !ask_begin(&ask, which, stream, bytes))                                        \
            return REAL(name) args;                                                                                    \
        signals_hold(&mark);                                                                                           \
        if (ask_reserve(&ask)) {                                                                                       \
            do                                                                                                         \
                r = REAL(name) args;                                                                                   \
            while (r == CUDA_ERROR_OUT_OF_MEMORY && mem_need_wait(ask.gpu, bytes, &tries));                            \
            r = ask_end(&ask, r, dptr);                                                                                \
        } else {                                                                                                       \
            (void)mem_soft_refuse(ask.gpu, bytes);                                                                     \
            r = CUDA_ERROR_OUT_OF_MEMORY;                                                                              \
        }                                                                                                              \
        signals_release();                                                                                             \
        return r;                                                                                                      \
    }
#define FROM_DEFAULT (CUdeviceptr * dptr, size_t bytes, CUstream stream)
#define FROM_POOL (CUdeviceptr * dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
POOL_ALLOC(cuMemAllocAsync, FROM_DEFAULT, (dptr, bytes, stream), NULL)
POOL_ALLOC(cuMemAllocAsync_ptsz, FROM_DEFAULT, (dptr, bytes, stream), NULL)
POOL_ALLOC(cuMemAllocFromPoolAsync, FROM_POOL, (dptr, bytes, pool, stream), pool)
POOL_ALLOC(cuMemAllocFromPoolAsync_ptsz, FROM_POOL, (dptr, bytes, pool, stream), pool)

/* Of a pool that is one too many. */
static void freed(CUdeviceptr dptr)
{
    struct charge charge;

    if (atomic_load(&pools_over) && table_take(dptr, &charge) && charge.class < CLASS_COUNT)
        mem_give_back(charge.gpu, charge.class, charge.bytes);
}

static void refresh(CUmemoryPool pool)
{
    struct pool *p = pool_find(pool);

    if (p)
        (void)pool_settle(p);
}

/* What changes a pool's reservation is passed on, then the reservation is read again. */
#define POOL_AFTER(name, params, args, before, after)                                                                  \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        bool on = shim_ready();                                                                                        \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        if (!on || thread_captures())                                                                                  \
            return REAL(name) args;                                                                                    \
        before;                                                                                                        \
        r = REAL(name) args;                                                                                           \
        if (!capture_any()) { /* else it is read with the next */                                                      \
            after;                                                                                                     \
        }                                                                                                              \
        return r;                                                                                                      \
    }
POOL_AFTER(cuMemFreeAsync, (CUdeviceptr dptr, CUstream stream), (dptr, stream), freed(dptr),
           mem_pool_refresh(enter_stream_device(stream)))
POOL_AFTER(cuMemFreeAsync_ptsz, (CUdeviceptr dptr, CUstream stream), (dptr, stream), freed(dptr),
           mem_pool_refresh(enter_stream_device(stream)))
POOL_AFTER(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep), (pool, keep), , refresh(pool))
POOL_AFTER(cuMemPoolSetAttribute, (CUmemoryPool pool, int attr, void *value), (pool, attr, value), , refresh(pool))
POOL_AFTER(cuDeviceSetMemPool, (CUdevice dev, CUmemoryPool pool), (dev, pool), , mem_pool_refresh(dev))

/* Whose it is its properties say, which begin as those of an allocation do. */
CUresult cuMemPoolCreate(CUmemoryPool *pool, const struct cuda_opaque *props)
{
    const struct cuda_mem_prop *of = (const void *)props;
    bool on = shim_ready();
    CUresult r;
    int gpu;

    NO_DRIVER(cuMemPoolCreate);
    r = REAL(cuMemPoolCreate)(pool, props);
    if (!on || r != CUDA_SUCCESS)
        return r;
    gpu = of->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? of->location.id : -1;
    (void)pool_remember(*pool, gpu < PAGE_GPUS ? gpu : -1, true);
    return r;
}

static void pool_lift(struct pool *p)
{
    uint64_t held = atomic_fetch_and(&p->charge, ~(((uint64_t)1 << TICKET_SHIFT) - 1));

    mem_give_back(atomic_load(&p->gpu), CLASS_POOL, CHARGE_KIB(held) * 1024);
}

/* None of them is asked any more: it may be gone as well. One that is not is known again when it is used. */
void mem_pool_ended(int gpu)
{
    spin_lock(&pools_lock);
    for (int i = 0; i < POOLS; i++)
        if (atomic_load(&pools[i].pool) > POOL_LEAVES && atomic_load(&pools[i].gpu) == gpu) {
            atomic_store(&pools[i].pool, POOL_LEAVES);
            pool_lift(&pools[i]);
            atomic_store(&pools[i].pool, 0);
        }
    spin_unlock(&pools_lock);
    if (atomic_load(&pools_over))
        table_pools_ended(gpu);
    mem_set_class(gpu, CLASS_GRAPH, 0);
}

/* Its charge goes when it has, and its place is taken by no other meanwhile. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    bool on = shim_ready();
    struct pool *p = on ? pool_find(pool) : NULL;
    CUresult r;

    NO_DRIVER(cuMemPoolDestroy);
    if (p)
        atomic_store(&p->pool, POOL_LEAVES);
    r = REAL(cuMemPoolDestroy)(pool);
    if (p && r == CUDA_SUCCESS)
        pool_lift(p);
    if (p)
        atomic_store(&p->pool, r == CUDA_SUCCESS ? 0 : (uintptr_t)pool);
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
    bool on = shim_ready(), heap = limit == CU_LIMIT_MALLOC_HEAP_SIZE;
    CUcontext ctx = NULL;
    struct charge old;
    uint64_t key;
    CUresult r;
    int gpu;

    NO_DRIVER(cuCtxSetLimit);
    r = REAL(cuCtxSetLimit)(limit, value);
    if (!on || r != CUDA_SUCCESS || (!heap && limit != CU_LIMIT_PRINTF_FIFO_SIZE) || (gpu = enter_device()) < 0 ||
        !HAVE(cuCtxGetCurrent) || REAL(cuCtxGetCurrent)(&ctx) != CUDA_SUCCESS)
        return r;
    key = ((uint64_t)(uintptr_t)ctx | TABLE_HEAP) + heap; /* which is at no odd address */
    if (table_take(key, &old))
        mem_give_back(old.gpu, old.class, old.bytes);
    mem_force(gpu, CLASS_NATIVE, value);
    if (!table_put(key, value, gpu, CLASS_NATIVE))
        mem_give_back(gpu, CLASS_NATIVE, value);
    return r;
}
