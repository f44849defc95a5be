/* SPDX-License-Identifier: Apache-2.0 */
/* spill.c - chunks between device and host memory, at the same address.
 *
 * The device is quiet while a chunk moves: submissions are held and the context has been waited for. A batch of chunks
 * is copied to host memory mapped at a scratch range; only after the copies have completed without error is each
 * chunk's address pointed at its new memory. The old memory is released last, so any failure leaves the chunk where it
 * was, with its content. Host chunks are slow to make, so a pool of them is filled ahead of time.
 */
#include <errno.h>
#include <string.h>

#include "shim/shim.h"

#define BATCH 64u
#define POOL_MAX 4096u
#define POOL_SIZES 32u
#define POOL_SPARE (512 * MIB)
#define GROUP 8u /* pieces that are made readable by one call, so that the first copies begin early all the same */
/* A program that waits for the GPU drops its cache when its step is over. It is waited for as long as the copies of all
 * that is above the limit would still be in time. */
#define TRIM_LEAST_NS (30 * NSEC_MSEC)
#define TRIM_MOST_NS (150 * NSEC_MSEC)
#define SPILL_GOAL_NS (180 * NSEC_MSEC)
#define SPILL_RATE 37u /* bytes a nanosecond, to host memory */

static struct {
    CUmemGenericAllocationHandle handle;
    uint64_t size;
} pool[POOL_MAX];
static uint32_t pool_count;
static _Atomic uint32_t pool_lock; /* of the pool and its count */
static CUdeviceptr scratch;
static bool scratch_stuck;
static CUstream stream;
static struct move_times times;
static uint64_t room; /* host memory the spill under way may still take */
static bool no_host;  /* and it was not enough */

struct pick {
    struct chunk *chunk;
    CUdeviceptr at;
    uint32_t peers;
    CUmemGenericAllocationHandle fresh;
};

CUstream move_stream(void)
{
    if (!stream && HAVE(cuStreamCreate))
        (void)REAL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
    return stream;
}

const struct move_times *move_times(void)
{
    return &times;
}

/* Until all is complete. The driver's error is the program's as well; it says what to do. */
bool device_wait(void)
{
    CUresult r = REAL(cuCtxSynchronize)();

    if (r != CUDA_SUCCESS)
        shim_note("the GPU does not answer: driver error %d, which the program sees too; end it", r);
    return r == CUDA_SUCCESS;
}

bool move_begin(int gpu, uint64_t deadline_ns)
{
    uint64_t start = clock_ns();
    bool quiet;
    CUcontext ctx = enter_context_of(gpu);

    /* While evicted, everything is held already, and must stay so. */
    if (!ctx || shim.page->health.state != STATE_RUNNING)
        return false;
    (void)REAL(cuCtxSetCurrent)(ctx); /* where that fails the wait below tells */
    gate_hold();
    quiet = gate_quiet(deadline_ns) && device_wait() && move_stream();
    times.wait_ns = clock_ns() - start;
    if (!quiet)
        gate_release();
    return quiet;
}

void move_end(void)
{
    gate_release();
}

/* A move is over, whatever came of it: how much, and how long from the order to the end of it. */
static int64_t move_count(int gpu, bool out, int64_t bytes, uint64_t start)
{
    struct page_moves *m = &shim.page->moves[gpu];
    uint64_t ns = clock_ns() - start;

    if (bytes <= 0)
        return bytes;
    __atomic_fetch_add(out ? &m->spilled_bytes : &m->promoted_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(out ? &m->spill_ns : &m->promote_ns, ns, __ATOMIC_RELAXED);
    __atomic_store_n(out ? &m->spill_last_ns : &m->promote_last_ns, ns, __ATOMIC_RELAXED);
    return bytes;
}

CUmemGenericAllocationHandle spill_pool_take(uint64_t size)
{
    CUmemGenericAllocationHandle handle = 0;

    spin_lock(&pool_lock);
    for (uint32_t i = pool_count; i-- > 0 && !handle;)
        if (pool[i].size == size) {
            handle = pool[i].handle;
            pool[i] = pool[--pool_count];
        }
    spin_unlock(&pool_lock);
    if (handle)
        __atomic_fetch_sub(&shim.page->health.pool_bytes, size, __ATOMIC_RELAXED);
    return handle;
}

/* Kept for the next spill: making one takes twenty times as long as filling it. */
bool spill_pool_put(CUmemGenericAllocationHandle handle, uint64_t size)
{
    bool kept = false;

    spin_lock(&pool_lock);
    if (pool_count < POOL_MAX) {
        pool[pool_count].handle = handle;
        pool[pool_count++].size = size;
        kept = true;
    }
    spin_unlock(&pool_lock);
    if (kept)
        __atomic_fetch_add(&shim.page->health.pool_bytes, size, __ATOMIC_RELAXED);
    return kept;
}

/* How many of this size there are; 0: of any. */
static uint32_t pool_have(uint64_t size)
{
    uint32_t n = 0;

    spin_lock(&pool_lock);
    for (uint32_t i = 0; i < pool_count; i++)
        n += size == 0 || pool[i].size == size;
    spin_unlock(&pool_lock);
    return n;
}

/* The sizes of the chunks that would go first, up to the pool's bytes; the first size of which there are too few. Only
 * the program's threads change the lists, so a torn read here costs a chunk of the wrong size and nothing else. */
static uint64_t pool_missing(int gpu, uint64_t want)
{
    struct {
        uint64_t size;
        uint32_t count;
    } sizes[POOL_SIZES] = { 0 };
    uint64_t sum = 0;

    for (uint32_t i = 0; i < vmm_segments() && sum < want; i++) {
        struct segment *s = vmm_segment(i);
        uint32_t steps = 0;

        if (!s->live || s->fixed || s->gpu != gpu)
            continue;
        for (uint32_t k = s->first; vmm_chunk(k) && sum < want && steps++ < POOL_MAX; k = vmm_chunk(k)->next) {
            uint64_t size = vmm_chunk(k)->size;
            uint32_t j;

            if (vmm_chunk(k)->where != CHUNK_DEVICE || size == 0 || size > VMM_CHUNK)
                continue;
            for (j = 0; j < POOL_SIZES && sizes[j].count && sizes[j].size != size; j++)
                ;
            if (j == POOL_SIZES)
                return 0;
            sizes[j].size = size;
            sizes[j].count++;
            sum += size;
        }
    }
    for (uint32_t j = 0; j < POOL_SIZES && sizes[j].count; j++)
        if (pool_have(sizes[j].size) < sizes[j].count)
            return sizes[j].size;
    return 0;
}

/* One chunk more of those that would be missing if so much had to leave now. False: none is, or it cannot be had. */
static bool pool_make(int gpu, uint64_t want)
{
    uint64_t size = pool_have(0) < POOL_MAX ? pool_missing(gpu, want) : 0;
    CUmemGenericAllocationHandle handle;

    if (size == 0 || host_room(gpu) < size + __atomic_load_n(&shim.page->health.pool_bytes, __ATOMIC_RELAXED) ||
        REAL(cuCtxSetCurrent)(enter_context_of(gpu)) != CUDA_SUCCESS ||
        vmm_create(gpu, size, true, 0, &handle) != CUDA_SUCCESS)
        return false;
    if (!spill_pool_put(handle, size))
        (void)REAL(cuMemRelease)(handle);
    return true;
}

/* The machine runs out of memory: what lies here unused is its. */
static bool pool_shed(void)
{
    CUmemGenericAllocationHandle handle;
    uint64_t size;

    if (pool_have(0) == 0 || host_available() >= POOL_SPARE)
        return false;
    spin_lock(&pool_lock);
    size = pool_count ? pool[pool_count - 1].size : 0;
    spin_unlock(&pool_lock);
    handle = size ? spill_pool_take(size) : 0;
    if (handle)
        (void)REAL(cuMemRelease)(handle);
    return handle != 0;
}

bool spill_fill_pool(int gpu)
{
    static uint64_t looked;
    uint64_t now = clock_ns();

    if (shim.mode != MODE_SPILL || !enter_context_of(gpu) || now - looked < 20 * NSEC_MSEC)
        return false;
    if (pool_shed() || pool_make(gpu, shim.page->limit[gpu].host_pool_bytes))
        return true;
    looked = now;
    return false;
}

/* The framework's cache first. The helper has nothing else to do meanwhile: what host memory is missing is made. */
static void cache_drop(int gpu, uint64_t above)
{
    uint64_t start = clock_ns(), copies = above / SPILL_RATE, patience = TRIM_LEAST_NS;
    bool more = true;

    if (copies + TRIM_LEAST_NS < SPILL_GOAL_NS)
        patience = SPILL_GOAL_NS - copies < TRIM_MOST_NS ? SPILL_GOAL_NS - copies : TRIM_MOST_NS;
    if (!python_trim())
        return;
    while (!python_trimmed() && clock_ns() < start + patience) {
        more = more && pool_make(gpu, above);
        if (!more)
            nap_ns(200 * NSEC_USEC);
    }
    times.trim_ns = clock_ns() - start;
}

/* A scratch range the driver would not unmap is left to it; the next batch reserves another. */
static void scratch_unmap(CUdeviceptr at, uint64_t size)
{
    if (REAL(cuMemUnmap)(at, size) != CUDA_SUCCESS)
        scratch_stuck = true;
}

/* Host memory for a chunk: one made ahead, or a new one while there is room. */
static bool host_take(int gpu, struct pick *p)
{
    uint64_t cap = shim.page->limit[gpu].host_cap_bytes, size = p->chunk->size;

    p->fresh = 0;
    no_host = cap && size > room; /* its own limit counts what was made ahead as well */
    if (!no_host)
        p->fresh = spill_pool_take(size);
    if (!no_host && !p->fresh)
        no_host = size > room || vmm_create(gpu, size, true, p->chunk->types, &p->fresh) != CUDA_SUCCESS;
    if (no_host)
        return false;
    room -= size < room ? size : room;
    return true;
}

/* New memory for up to GROUP picks, mapped one behind the other at `at`, readable by one call, and the copies queued.
 * Returns how many are under way; fewer than asked for: no more can be had. */
static uint32_t group_copy(int gpu, struct pick *picks, uint32_t count, bool to_host, CUdeviceptr at)
{
    uint64_t size = 0, done = 0;
    uint32_t n, i = 0;

    for (n = 0; n < count; n++) {
        struct pick *p = &picks[n];

        if (to_host ? !host_take(gpu, p)
                    : vmm_create(gpu, p->chunk->size, false, p->chunk->types, &p->fresh) != CUDA_SUCCESS)
            break;
        if (REAL(cuMemMap)(at + size, p->chunk->size, 0, p->fresh, 0) != CUDA_SUCCESS) {
            (void)REAL(cuMemRelease)(p->fresh);
            break;
        }
        size += p->chunk->size;
    }
    if (n && vmm_access(gpu, 0, at, size) == CUDA_SUCCESS)
        for (;
             i < n && REAL(cuMemcpyDtoDAsync_v2)(at + done, picks[i].at, picks[i].chunk->size, stream) == CUDA_SUCCESS;
             i++)
            done += picks[i].chunk->size;
    if (i < n)
        scratch_unmap(at + done, size - done);
    for (uint32_t k = i; k < n; k++)
        (void)REAL(cuMemRelease)(picks[k].fresh);
    return i;
}

/* Returns how many copies are under way, and how much of the scratch range they take. */
static uint32_t batch_copy(int gpu, struct pick *picks, uint32_t count, bool to_host, uint64_t *ret_size)
{
    uint32_t n = 0, group, got;

    *ret_size = 0;
    if (scratch_stuck)
        scratch = 0;
    scratch_stuck = false;
    if (!scratch && REAL(cuMemAddressReserve)(&scratch, BATCH * VMM_CHUNK, VMM_GRAIN, 0, 0) != CUDA_SUCCESS)
        return 0;
    do {
        group = count - n < GROUP ? count - n : GROUP;
        got = group_copy(gpu, picks + n, group, to_host, scratch + *ret_size);
        for (uint32_t i = 0; i < got; i++)
            *ret_size += picks[n + i].chunk->size;
        n += got;
    } while (n < count && got == group);
    return n;
}

/* The chunk's address now shows the new memory; the old handle is released. False: nothing changed. */
static bool pick_switch(int gpu, struct pick *p, bool to_host)
{
    struct chunk *c = p->chunk;

    if (REAL(cuMemUnmap)(p->at, c->size) != CUDA_SUCCESS)
        return false;
    if (REAL(cuMemMap)(p->at, c->size, 0, p->fresh, 0) != CUDA_SUCCESS ||
        vmm_access(gpu, p->peers, p->at, c->size) != CUDA_SUCCESS) {
        (void)REAL(cuMemUnmap)(p->at, c->size);
        if (REAL(cuMemMap)(p->at, c->size, 0, c->handle, 0) != CUDA_SUCCESS ||
            vmm_access(gpu, p->peers, p->at, c->size) != CUDA_SUCCESS)
            shim_note("a chunk of %llu bytes could not be mapped back", (unsigned long long)c->size);
        return false;
    }
    if (!to_host && spill_pool_put(c->handle, c->size))
        ; /* kept for the next spill */
    else
        (void)REAL(cuMemRelease)(c->handle);
    c->handle = p->fresh;
    c->where = to_host ? CHUNK_HOST : CHUNK_DEVICE;
    return true;
}

static int64_t batch_move(int gpu, struct pick *picks, uint32_t count, bool to_host)
{
    struct page_memory *m = &shim.page->memory[gpu];
    uint64_t scratch_size;
    uint32_t under_way = batch_copy(gpu, picks, count, to_host, &scratch_size);
    bool copied = under_way && REAL(cuStreamSynchronize)(stream) == CUDA_SUCCESS;
    int64_t moved = 0;

    /* A wait that failed says nothing about the copies: what they touch stays mapped until one has succeeded. */
    if (under_way && !copied && REAL(cuStreamSynchronize)(stream) != CUDA_SUCCESS) {
        scratch_stuck = true;
        under_way = 0;
    }

    if (under_way)
        scratch_unmap(scratch, scratch_size);
    for (uint32_t i = 0; i < under_way; i++) {
        uint64_t size = picks[i].chunk->size;

        if (!copied || !pick_switch(gpu, &picks[i], to_host)) {
            (void)REAL(cuMemRelease)(picks[i].fresh);
            continue;
        }
        moved += (int64_t)size;
        if (to_host) {
            mem_give_back(gpu, CLASS_VMM, size);
            __atomic_fetch_add(&m->host_backed, size, __ATOMIC_RELAXED);
            __atomic_fetch_add(&m->spills, 1, __ATOMIC_RELAXED);
        } else {
            __atomic_fetch_sub(&m->host_backed, size, __ATOMIC_RELAXED);
            __atomic_fetch_add(&m->promotions, 1, __ATOMIC_RELAXED);
        }
    }
    if (!to_host)
        for (uint32_t i = 0; i < count; i++)
            if (picks[i].chunk->where != CHUNK_DEVICE)
                mem_give_back(gpu, CLASS_VMM, picks[i].chunk->size);
    return moved;
}

/* The next chunks of that kind, worth at most `most` bytes (the last one may go over): what the last step did not use
 * is the first to leave, and the last to come home. */
static uint32_t picks_find(int gpu, enum chunk_where where, uint64_t most, struct pick *picks)
{
    static uint32_t order[TOUCH_SEGMENTS];
    uint32_t n = 0, count = touch_order(gpu, where == CHUNK_HOST, order);
    uint64_t sum = 0;

    for (uint32_t i = 0; i < count && n < BATCH && sum < most; i++) {
        struct segment *s = vmm_segment(order[i]);
        CUdeviceptr at = s->base;

        for (uint32_t k = s->first; k != VMM_NONE && n < BATCH && sum < most; k = vmm_chunk(k)->next) {
            struct chunk *c = vmm_chunk(k);

            if (c->where == (uint32_t)where) {
                picks[n++] = (struct pick){ c, at, s->peers, 0 };
                sum += c->size;
            }
            at += c->size;
        }
    }
    return n;
}

/* A program that cannot be moved because there is nowhere to move it to: the node side pauses it. */
static void host_tell(uint64_t above)
{
    if (!no_host || !above) {
        __atomic_fetch_and(&shim.page->health.flags, ~(uint64_t)HEALTH_NO_HOST, __ATOMIC_RELAXED);
        return;
    }
    __atomic_fetch_or(&shim.page->health.flags, HEALTH_NO_HOST, __ATOMIC_RELAXED);
    shim_note("no host memory for %llu MiB above its limit", (unsigned long long)((above + MIB - 1) / MIB));
}

static uint64_t above_of(int gpu, uint64_t target)
{
    uint64_t used = __atomic_load_n(&shim.page->memory[gpu].used, __ATOMIC_RELAXED);

    return used > target ? used - target : 0;
}

int64_t spill_to(int gpu, uint64_t target, uint64_t deadline_ns)
{
    struct pick picks[BATCH];
    int64_t moved = 0, r;
    uint64_t start = clock_ns(), asked = start, above = above_of(gpu, target);

    times = (struct move_times){ 0 };
    no_host = false;
    if (above) {
        brief_set(true);
        cache_drop(gpu, above);
        above = above_of(gpu, target);
        if (!above)
            brief_set(false);
    }
    if (!above) {
        host_tell(0);
        return 0;
    }
    if (!move_begin(gpu, deadline_ns)) {
        brief_set(false);
        return -EBUSY;
    }
    start = clock_ns();
    room = host_room(gpu);
    while ((above = above_of(gpu, target)) != 0 && clock_ns() < deadline_ns) {
        uint32_t n = picks_find(gpu, CHUNK_DEVICE, above, picks);

        r = n ? batch_move(gpu, picks, n, true) : 0;
        if (r <= 0)
            break;
        moved += r;
    }
    times.copy_ns = clock_ns() - start;
    brief_set(false);
    move_end();
    host_tell(above_of(gpu, target));
    return move_count(gpu, true, moved, asked);
}

int64_t spill_promote(int gpu, uint64_t most, uint64_t deadline_ns)
{
    struct pick picks[BATCH];
    int64_t moved = 0, r;
    uint64_t start, asked = clock_ns();

    times = (struct move_times){ 0 };
    if (__atomic_load_n(&shim.page->memory[gpu].host_backed, __ATOMIC_RELAXED) == 0)
        return 0;
    if (!move_begin(gpu, deadline_ns))
        return -EBUSY;
    start = clock_ns();
    while ((most == 0 || (uint64_t)moved < most) && clock_ns() < deadline_ns) {
        uint32_t n = picks_find(gpu, CHUNK_HOST, most ? most - (uint64_t)moved : UINT64_MAX, picks), fit = 0;

        while (fit < n && mem_reserve(gpu, CLASS_VMM, picks[fit].chunk->size) == 0)
            fit++;
        r = fit ? batch_move(gpu, picks, fit, false) : 0;
        if (r <= 0)
            break;
        moved += r;
    }
    times.copy_ns = clock_ns() - start;
    brief_set(false);
    move_end();
    return move_count(gpu, false, moved, asked);
}
