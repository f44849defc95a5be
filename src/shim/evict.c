/* SPDX-License-Identifier: Apache-2.0 */
/* evict.c - every movable byte out of the GPU at bus speed, and home again.
 *
 * The copies go to host memory prepared in blocks ahead of time (area.c). Addresses stay reserved while their memory is
 * gone; submissions stay held for as long, so nothing can touch them. Nothing is unmapped before its copy is complete.
 */
#include <errno.h>
#include <string.h>

#include "shim/shim.h"

#define MOVING 65536u
#define EVENTS 1024u /* as many as there may be blocks */
#define LOST_NS (5 * NSEC_SEC)

static _Atomic uint64_t wanted;
static int evicted_gpu = -1;

void evict_want(uint64_t bytes)
{
    atomic_store(&wanted, bytes);
}

static int first_gpu(void)
{
    for (int i = 0; i < PAGE_GPUS; i++)
        if (enter_context_of(i))
            return i;
    return -1;
}

bool evict_prepare(void)
{
    int gpu = first_gpu();
    uint64_t want = atomic_load(&wanted), cap, movable;

    if (shim.mode != MODE_SPILL || gpu < 0)
        return false;
    cap = shim.page->limit[gpu].host_cap_bytes;
    movable = __atomic_load_n(&shim.page->memory[gpu].movable, __ATOMIC_RELAXED);
    if (want > movable) /* more than there is to move would only lie idle */
        want = movable;
    if (cap && want > cap)
        want = cap;
    if (area_blocks() * AREA_BLOCK >= want || REAL(cuCtxSetCurrent)(enter_context_of(gpu)) != CUDA_SUCCESS)
        return false;
    return area_add(gpu);
}

/* The chunks of one kind, with their addresses, in the order of the area. */
struct moving {
    struct chunk *chunk;
    CUdeviceptr at;
    uint32_t peers;
};
static struct moving moving[MOVING];

static uint32_t chunks_find(int gpu, enum chunk_where where, uint64_t *ret_bytes)
{
    uint32_t n = 0;

    *ret_bytes = 0;
    for (uint32_t i = 0; i < vmm_segments(); i++) {
        struct segment *s = vmm_segment(i);
        CUdeviceptr at = s->base;

        if (!s->live || s->fixed || s->gpu != gpu)
            continue;
        for (uint32_t k = s->first; k != VMM_NONE && n < MOVING; k = vmm_chunk(k)->next) {
            struct chunk *c = vmm_chunk(k);

            if (c->where == (uint32_t)where) {
                moving[n++] = (struct moving){ c, at, s->peers };
                *ret_bytes += c->size;
            }
            at += c->size;
        }
    }
    return n;
}

/* The copies of every chunk, an event after each block of the area. */
static bool copies_queue(int gpu, uint32_t count, CUevent *events)
{
    uint64_t where = 0;
    CUresult r = CUDA_SUCCESS;

    for (uint32_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
        struct chunk *c = moving[i].chunk;
        uint64_t block = where / AREA_BLOCK, end;

        c->saved_at = where;
        r = area_copy(gpu, moving[i].at, c->size, where, true);
        where += c->size;
        end = i + 1 == count ? (where - 1) / AREA_BLOCK + 1 : where / AREA_BLOCK;
        for (; block < end && r == CUDA_SUCCESS; block++) {
            if (!events[block])
                r = REAL(cuEventCreate)(&events[block], CU_EVENT_DISABLE_TIMING);
            if (r == CUDA_SUCCESS)
                r = REAL(cuEventRecord)(events[block], move_stream());
        }
    }
    return r == CUDA_SUCCESS;
}

/* False: it stays where it is. */
static bool chunk_release(int gpu, struct chunk *c, CUdeviceptr at)
{
    if (REAL(cuMemUnmap)(at, c->size) != CUDA_SUCCESS)
        return false;
    (void)REAL(cuMemRelease)(c->handle);
    c->handle = 0;
    c->where = CHUNK_SAVED;
    mem_give_back(gpu, CLASS_VMM, c->size);
    __atomic_fetch_add(&shim.page->memory[gpu].saved, c->size, __ATOMIC_RELAXED);
    return true;
}

/* Each block's chunks are released while the copies of the next ones run. Until the first is, the eviction can be given
 * up (waiter.c): -ETIMEDOUT. After that its program has to wait for the driver, as long as it takes. */
static int copies_collect(int gpu, uint32_t count, CUevent *events)
{
    uint32_t i = 0, block = 0;
    CUresult r;

    for (; i < count; block++) {
        if (i == 0)
            watch_wait();
        r = REAL(cuEventSynchronize)(events[block]);
        if (i == 0 && !watch_waited())
            return -ETIMEDOUT;
        if (r != CUDA_SUCCESS)
            return -EIO;
        for (; i < count && moving[i].chunk->saved_at + moving[i].chunk->size <= (block + 1) * AREA_BLOCK; i++)
            if (!chunk_release(gpu, moving[i].chunk, moving[i].at))
                return -EIO;
    }
    return 0;
}

static void state_set(enum page_state state)
{
    __atomic_store_n(&shim.page->health.state, state, __ATOMIC_RELEASE);
}

/* A release comes next: the driver's checkpoint pays for host memory that it knows or that is mapped. */
static void host_let_go(uint32_t unpin)
{
    area_unpin(unpin);
    if (unpin)
        stock_shut();
}

/* For all that is to leave: by what the process was told, and new blocks by what its cgroup and the machine have. */
static bool host_enough(int gpu)
{
    const struct page_memory *m = &shim.page->memory[gpu];
    uint64_t bytes = __atomic_load_n(&m->movable, __ATOMIC_RELAXED), ready = area_blocks() * AREA_BLOCK;
    uint64_t host = __atomic_load_n(&m->host_backed, __ATOMIC_RELAXED) + __atomic_load_n(&m->saved, __ATOMIC_RELAXED);

    bytes = bytes > host ? bytes - host : 0;
    return host_holds(gpu, bytes, bytes > ready ? (bytes - ready + AREA_BLOCK - 1) / AREA_BLOCK * AREA_BLOCK : 0);
}

int64_t evict_all(uint32_t unpin, uint64_t deadline_ns)
{
    static CUevent events[EVENTS];
    static uint32_t made_in; /* the number of the context they are of */
    int gpu = first_gpu();
    uint64_t bytes;
    uint32_t count;
    int64_t back;
    int r;

    if (shim.page->health.state == STATE_EVICTED) {
        host_let_go(unpin); /* a release after all */
        return 0;
    }
    if (gpu < 0)
        return -ENODEV;
    if (!host_enough(gpu)) /* before anything stops */
        return -ENOMEM;
    if (!move_begin(gpu, deadline_ns))
        return -EBUSY;
    state_set(STATE_EVICTING);
    count = chunks_find(gpu, CHUNK_DEVICE, &bytes);
    while (area_blocks() * AREA_BLOCK < bytes)
        if (!area_add(gpu)) {
            state_set(STATE_RUNNING);
            move_end();
            return -ENOMEM;
        }
    if (made_in != context_number(enter_context_of(gpu))) { /* they went with it */
        memset(events, 0, sizeof(events));
        made_in = context_number(enter_context_of(gpu));
    }
    evicted_gpu = gpu;
    r = copies_queue(gpu, count, events) ? copies_collect(gpu, count, events) : -EIO;
    if (r == -ETIMEDOUT) {
        move_end();
        return r;
    }
    if (r < 0) {
        /* What was saved comes back; the rest never left. */
        (void)REAL(cuStreamSynchronize)(move_stream());
        state_set(STATE_EVICTED);
        back = evict_reload(deadline_ns);
        if (back < 0)
            return back;
        shim_note("the driver would not copy its memory or let go of it; all of it is where it was: try again");
        return -EIO;
    }
    host_let_go(unpin);
    state_set(STATE_EVICTED);
    return (int64_t)bytes; /* submissions stay held */
}

/* Device memory again, or host memory the GPU can read when the card is full: slow, but the job goes on. */
static bool chunk_load(int gpu, const struct moving *m)
{
    struct chunk *c = m->chunk;
    CUdeviceptr at = m->at;
    bool host = false;

    if (vmm_create(gpu, c->size, false, c->types, &c->handle) != CUDA_SUCCESS) {
        host = true;
        if (vmm_create(gpu, c->size, true, c->types, &c->handle) != CUDA_SUCCESS)
            return false;
    }
    if (REAL(cuMemMap)(at, c->size, 0, c->handle, 0) != CUDA_SUCCESS) {
        (void)REAL(cuMemRelease)(c->handle);
        return false;
    }
    if (vmm_access(gpu, m->peers, at, c->size) != CUDA_SUCCESS ||
        area_copy(gpu, at, c->size, c->saved_at, false) != CUDA_SUCCESS) {
        if (REAL(cuStreamSynchronize)(move_stream()) == CUDA_SUCCESS) {
            (void)REAL(cuMemUnmap)(at, c->size);
            (void)REAL(cuMemRelease)(c->handle);
        }
        return false;
    }
    c->where = host ? CHUNK_HOST : CHUNK_DEVICE;
    __atomic_fetch_sub(&shim.page->memory[gpu].saved, c->size, __ATOMIC_RELAXED);
    if (host)
        __atomic_fetch_add(&shim.page->memory[gpu].host_backed, c->size, __ATOMIC_RELAXED);
    else
        mem_force(gpu, CLASS_VMM, c->size);
    return true;
}

/* What a context answers that will answer nothing else any more: its GPU is gone or broken, its own work broke it, or
 * it was destroyed. 999 is what drivers say of a GPU that fell off the bus. */
static bool error_lost(CUresult r)
{
    /* clang-format off */
    static const uint16_t lost[] = {
        4, 201, 709,                                            /* shut down, no context, a destroyed one */
        46, 100, 214, 220, 226, 911, 999,                       /* unavailable, none, ECC, links, contained, external */
        700, 702, 710, 714, 715, 716, 717, 718, 719, 721,       /* illegal addresses and the like, time, assertions */
        806, 810                                                /* MPS has failed, or ended it */
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
        if (r == (CUresult)lost[i])
            return true;
    return false;
}

/* The driver would not bring the memory home. Is that all it will say? Then the process is held for nothing: its calls
 * go to the driver again, and get the driver's own errors. */
static bool lost_look(int gpu)
{
    CUresult r = CUDA_SUCCESS;

    if (waiter_sync(enter_context_of(gpu), clock_ns() + LOST_NS, &r) < 0 || !error_lost(r))
        return false;
    __atomic_fetch_or(&shim.page->health.flags, HEALTH_LOST, __ATOMIC_RELAXED);
    shim_note("the GPU or its context was lost (driver error %d), and the memory with it: the program is told; end it",
              r);
    state_set(STATE_RUNNING);
    move_end();
    return true;
}

int64_t evict_reload(uint64_t deadline_ns)
{
    uint64_t bytes;
    uint32_t count, i;
    bool all;

    (void)deadline_ns;
    enter_uuids(); /* it may have been restored on another GPU */
    if (shim.page->health.state != STATE_EVICTED || evicted_gpu < 0)
        return 0;
    all = REAL(cuCtxSetCurrent)(enter_context_of(evicted_gpu)) == CUDA_SUCCESS;
    state_set(STATE_RELOADING);
    count = chunks_find(evicted_gpu, CHUNK_SAVED, &bytes);
    for (i = 0; i < count && all; i++)
        all = chunk_load(evicted_gpu, &moving[i]);
    if (REAL(cuStreamSynchronize)(move_stream()) != CUDA_SUCCESS)
        all = false;
    if (!all) { /* still held; the helper tries again */
        state_set(STATE_EVICTED);
        if (lost_look(evicted_gpu))
            return -ENODEV;
        shim_note("no memory to come home to, or the driver would not: tried again when it is resumed");
        return -ENOMEM;
    }
    state_set(STATE_RUNNING);
    brief_set(false); /* what found no room is in host memory */
    move_end();
    return (int64_t)bytes;
}
