/* SPDX-License-Identifier: Apache-2.0 */
/* stock.c - host chunks held ready for what has to leave the GPU: to make one takes twenty times as long as to fill it.
 *
 * The helper fills the stock while it has nothing else to do, with the sizes that would be asked for, and opens the
 * window of each (window.c). What comes home and what the program frees goes back to it.
 */
#include "shim/shim.h"

#define MOST 4096u
#define SIZES 32u
#define SPARE (512 * MIB)

static struct ready {
    CUmemGenericAllocationHandle handle;
    uint64_t size;
    int16_t gpu; /* whose it was last */
    bool looked; /* its window is open, or cannot be */
} ready[MOST];
static uint32_t count;
static _Atomic uint32_t lock; /* of both */

CUmemGenericAllocationHandle stock_take(int gpu, uint64_t size)
{
    CUmemGenericAllocationHandle handle = 0;
    uint32_t best = MOST;

    spin_lock(&lock);
    for (uint32_t i = count; i-- > 0 && (best == MOST || ready[best].gpu != gpu);)
        if (ready[i].size == size && (best == MOST || ready[i].gpu == gpu))
            best = i;
    if (best < MOST) {
        handle = ready[best].handle;
        ready[best] = ready[--count];
        __atomic_fetch_sub(&shim.page->health.pool_bytes, size, __ATOMIC_RELAXED);
    }
    spin_unlock(&lock);
    return handle;
}

void stock_drop(CUmemGenericAllocationHandle handle)
{
    window_close(handle);
    (void)REAL(cuMemRelease)(handle);
}

static void stock_put(int gpu, CUmemGenericAllocationHandle handle, uint64_t size, bool looked)
{
    bool kept = false;

    spin_lock(&lock);
    if (count < MOST) {
        ready[count++] = (struct ready){ handle, size, (int16_t)gpu, looked };
        __atomic_fetch_add(&shim.page->health.pool_bytes, size, __ATOMIC_RELAXED); /* before another takes it */
        kept = true;
    }
    spin_unlock(&lock);
    if (!kept)
        stock_drop(handle);
}

void stock_give(int gpu, CUmemGenericAllocationHandle handle, uint64_t size)
{
    stock_put(gpu, handle, size, false);
}

void stock_shut(void)
{
    spin_lock(&lock);
    for (uint32_t i = 0; i < count; i++)
        ready[i].looked = false;
    spin_unlock(&lock);
    window_close_all();
}

/* How many of this size there are; 0: of any. */
static uint32_t stock_have(uint64_t size)
{
    uint32_t n = 0;

    spin_lock(&lock);
    for (uint32_t i = 0; i < count; i++)
        n += size == 0 || ready[i].size == size;
    spin_unlock(&lock);
    return n;
}

/* The sizes of the chunks that would go first, up to so many bytes; the first size of which there are too few. Only
 * the program's threads change the lists, so a torn read here costs a chunk of the wrong size and nothing else. */
static uint64_t size_missing(int gpu, uint64_t want)
{
    struct {
        uint64_t size;
        uint32_t count;
    } sizes[SIZES] = { 0 };
    uint64_t sum = 0;

    for (uint32_t i = 0; i < vmm_segments() && sum < want; i++) {
        struct segment *s = vmm_segment(i);
        uint32_t steps = 0;

        if (!s->live || s->fixed || s->gpu != gpu)
            continue;
        for (uint32_t k = s->first; vmm_chunk(k) && sum < want && steps++ < MOST; k = vmm_chunk(k)->next) {
            uint64_t size = vmm_chunk(k)->size;
            uint32_t j;

            if (vmm_chunk(k)->where != CHUNK_DEVICE || size == 0 || size > VMM_CHUNK)
                continue;
            for (j = 0; j < SIZES && sizes[j].count && sizes[j].size != size; j++)
                ;
            if (j == SIZES)
                return 0;
            sizes[j].size = size;
            sizes[j].count++;
            sum += size;
        }
    }
    for (uint32_t j = 0; j < SIZES && sizes[j].count; j++)
        if (stock_have(sizes[j].size) < sizes[j].count)
            return sizes[j].size;
    return 0;
}

bool stock_make(int gpu, uint64_t want)
{
    uint64_t size = stock_have(0) < MOST ? size_missing(gpu, want) : 0;
    CUmemGenericAllocationHandle handle;

    if (size == 0 || host_room(gpu) < size + __atomic_load_n(&shim.page->health.pool_bytes, __ATOMIC_RELAXED) ||
        REAL(cuCtxSetCurrent)(enter_context_of(gpu)) != CUDA_SUCCESS ||
        vmm_create(gpu, size, true, 0, &handle) != CUDA_SUCCESS)
        return false;
    (void)window_open(gpu, handle, size);
    stock_put(gpu, handle, size, true);
    return true;
}

/* One window more. It leaves the stock meanwhile: whoever takes memory out of it may let go of it at once. */
static bool stock_open(int gpu)
{
    struct ready one = { 0 };

    spin_lock(&lock);
    for (uint32_t i = 0; i < count && !one.handle; i++)
        if (!ready[i].looked && ready[i].gpu == gpu) {
            one = ready[i];
            ready[i] = ready[--count];
        }
    spin_unlock(&lock);
    if (!one.handle)
        return false;
    __atomic_fetch_sub(&shim.page->health.pool_bytes, one.size, __ATOMIC_RELAXED);
    if (REAL(cuCtxSetCurrent)(enter_context_of(gpu)) == CUDA_SUCCESS)
        (void)window_open(gpu, one.handle, one.size);
    stock_put(gpu, one.handle, one.size, true);
    return true;
}

/* The machine runs out of memory: what lies here unused is its. */
static bool stock_shed(void)
{
    CUmemGenericAllocationHandle handle;
    uint64_t size;
    int gpu;

    if (stock_have(0) == 0 || host_available() >= SPARE)
        return false;
    spin_lock(&lock);
    size = count ? ready[count - 1].size : 0;
    gpu = count ? ready[count - 1].gpu : 0;
    spin_unlock(&lock);
    handle = size ? stock_take(gpu, size) : 0;
    if (handle)
        stock_drop(handle);
    return handle != 0;
}

bool stock_fill(int gpu)
{
    static uint64_t looked[PAGE_GPUS]; /* when nothing was left to do */
    uint64_t now = clock_ns();

    if (shim.mode != MODE_SPILL || !enter_context_of(gpu) || now - looked[gpu] < 20 * NSEC_MSEC)
        return false;
    if (stock_shed() || stock_make(gpu, shim.page->limit[gpu].host_pool_bytes) || stock_open(gpu))
        return true;
    looked[gpu] = now;
    return false;
}
