/* SPDX-License-Identifier: Apache-2.0 */
/* evict.c - every movable byte out of the GPU at bus speed, and home again.
 *
 * The copies go to host memory prepared in blocks ahead of time (area.c), from every GPU of the process at once, each
 * in its own context. Addresses stay reserved while their memory is gone; submissions stay held for as long, so nothing
 * can touch them. Nothing is unmapped before its copy is complete.
 */
#include <errno.h>

#include "shim/shim.h"

#define MOVING 65536u
#define EVENTS 1024u /* as many as there may be blocks */
#define LOST_NS (5 * NSEC_SEC)

static _Atomic uint64_t wanted;
static uint32_t evicted; /* a bit for the first GPU, and for each other that had something to move; 0 = never asked */

void evict_want(uint64_t bytes)
{
    atomic_store(&wanted, bytes);
}

/* The next GPU that the process uses, after this one; -1 none. */
static int gpu_next(int gpu)
{
    while (++gpu < PAGE_GPUS)
        if (enter_context_of(gpu))
            return gpu;
    return -1;
}

static uint64_t blocks_of(uint64_t bytes)
{
    return (bytes + AREA_BLOCK - 1) / AREA_BLOCK;
}

bool evict_prepare(void)
{
    int gpu = gpu_next(-1);
    uint64_t want = atomic_load(&wanted), cap, blocks = 0;

    if (shim.mode != MODE_SPILL || gpu < 0)
        return false;
    cap = shim.page->limit[gpu].host_cap_bytes;
    if (cap && want > cap)
        want = cap;
    for (; gpu >= 0 && want; gpu = gpu_next(gpu)) {
        uint64_t part = __atomic_load_n(&shim.page->memory[gpu].movable, __ATOMIC_RELAXED);

        part = part < want ? part : want; /* more than there is to move would only lie idle */
        want -= part;
        blocks += blocks_of(part);
        if (area_blocks() < blocks)
            return REAL(cuCtxSetCurrent)(enter_context_of(gpu)) == CUDA_SUCCESS && area_add(gpu);
    }
    return false;
}

/* The chunks of one kind, with their addresses: those of each GPU one after the other. */
struct moving {
    struct chunk *chunk;
    CUdeviceptr at;
    uint32_t peers;
    int gpu;
};
static struct moving moving[MOVING];

static uint32_t chunks_find(enum chunk_where where, uint64_t *ret_bytes)
{
    uint32_t n = 0;

    *ret_bytes = 0;
    for (int gpu = gpu_next(-1); gpu >= 0; gpu = gpu_next(gpu))
        for (uint32_t i = 0; i < vmm_segments(); i++) {
            struct segment *s = vmm_segment(i);
            CUdeviceptr at = s->base;

            if (!s->live || s->fixed || s->gpu != gpu)
                continue;
            for (uint32_t k = s->first; k != VMM_NONE && n < MOVING; k = vmm_chunk(k)->next) {
                struct chunk *c = vmm_chunk(k);

                if (c->where == (uint32_t)where) {
                    moving[n++] = (struct moving){ c, at, s->peers, gpu };
                    *ret_bytes += c->size;
                }
                at += c->size;
            }
        }
    return n;
}

static bool last_of_gpu(uint32_t i, uint32_t count)
{
    return i + 1 == count || moving[i + 1].gpu != moving[i].gpu;
}

/* Host memory for all of them. Each GPU's begins with a block of its own: an event is of one GPU's stream. */
static bool places_find(uint32_t count)
{
    uint64_t where = 0;

    evicted = 1u << gpu_next(-1);
    for (uint32_t i = 0; i < count; i++) {
        moving[i].chunk->saved_at = where;
        where += moving[i].chunk->size;
        evicted |= 1u << moving[i].gpu;
        while (area_blocks() < blocks_of(where)) {
            (void)REAL(cuCtxSetCurrent)(enter_context_of(moving[i].gpu));
            if (!area_add(moving[i].gpu))
                return false;
        }
        if (last_of_gpu(i, count))
            where = blocks_of(where) * AREA_BLOCK;
    }
    return true;
}

/* The copies of every chunk, on all GPUs at once; an event after each block of the area. */
static bool copies_queue(uint32_t count, struct own_event *events)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct chunk *c = moving[i].chunk;
        uint64_t block = c->saved_at / AREA_BLOCK, end = c->saved_at + c->size;

        if ((i == 0 || moving[i - 1].gpu != moving[i].gpu) && !move_on(moving[i].gpu))
            return false;
        if (area_copy(moving[i].gpu, moving[i].at, c->size, c->saved_at, true) != CUDA_SUCCESS)
            return false;
        end = last_of_gpu(i, count) ? blocks_of(end) : end / AREA_BLOCK;
        for (; block < end; block++)
            if (!event_record(&events[block], move_stream(), CU_EVENT_DISABLE_TIMING))
                return false;
    }
    return true;
}

/* False: it stays where it is. */
static bool chunk_release(const struct moving *m)
{
    struct chunk *c = m->chunk;

    if (REAL(cuMemUnmap)(m->at, c->size) != CUDA_SUCCESS)
        return false;
    (void)REAL(cuMemRelease)(c->handle);
    c->handle = 0;
    c->where = CHUNK_SAVED;
    mem_give_back(m->gpu, CLASS_VMM, c->size);
    __atomic_fetch_add(&shim.page->memory[m->gpu].saved, c->size, __ATOMIC_RELAXED);
    return true;
}

/* Each block's chunks are released while the copies of the next ones run. Until the first is, the eviction can be given
 * up (waiter.c): -ETIMEDOUT. After that its program has to wait for the driver, as long as it takes. */
static int copies_collect(uint32_t count, const struct own_event *events)
{
    uint32_t i = 0, block = 0;
    CUresult r;

    for (; i < count; block++) {
        if (i == 0)
            watch_wait();
        r = REAL(cuEventSynchronize)(events[block].event);
        if (i == 0 && !watch_waited())
            return -ETIMEDOUT;
        if (r != CUDA_SUCCESS)
            return -EIO;
        for (; i < count && moving[i].chunk->saved_at + moving[i].chunk->size <= (block + 1) * AREA_BLOCK; i++)
            if (!chunk_release(&moving[i]))
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

/* For all that is to leave, of every GPU: by what the process was told, and new blocks by what its cgroup and the
 * machine have. */
static bool host_enough(void)
{
    uint64_t bytes = 0, blocks = 0;
    int first = gpu_next(-1);

    for (int gpu = first; gpu >= 0; gpu = gpu_next(gpu)) {
        const struct page_memory *m = &shim.page->memory[gpu];
        uint64_t movable = __atomic_load_n(&m->movable, __ATOMIC_RELAXED);
        uint64_t host =
            __atomic_load_n(&m->host_backed, __ATOMIC_RELAXED) + __atomic_load_n(&m->saved, __ATOMIC_RELAXED);

        movable = movable > host ? movable - host : 0;
        bytes += movable;
        blocks += blocks_of(movable);
    }
    return host_holds(first, bytes, blocks > area_blocks() ? (blocks - area_blocks()) * AREA_BLOCK : 0);
}

/* All that was queued, on every GPU of the eviction. Returns a bit for each whose driver does not say that it is done.
 */
static uint32_t copies_end(void)
{
    uint32_t failed = 0;

    for (int gpu = gpu_next(-1); gpu >= 0; gpu = gpu_next(gpu))
        if (evicted >> gpu & 1 && (!move_on(gpu) || REAL(cuStreamSynchronize)(move_stream()) != CUDA_SUCCESS))
            failed |= 1u << gpu;
    return failed;
}

int64_t evict_all(uint32_t unpin, uint64_t deadline_ns)
{
    static struct own_event events[EVENTS];
    uint64_t bytes;
    uint32_t count;
    int64_t back;
    int r;

    if (shim.page->health.state == STATE_EVICTED) {
        host_let_go(unpin); /* a release after all */
        return 0;
    }
    if (gpu_next(-1) < 0)
        return -ENODEV;
    if (!host_enough()) /* before anything stops */
        return -ENOMEM;
    if (!move_begin(MOVE_ALL, deadline_ns))
        return -EBUSY;
    state_set(STATE_EVICTING);
    count = chunks_find(CHUNK_DEVICE, &bytes);
    if (!places_find(count)) {
        state_set(STATE_RUNNING);
        move_end();
        return -ENOMEM;
    }
    r = copies_queue(count, events) ? copies_collect(count, events) : -EIO;
    if (r == -ETIMEDOUT) {
        move_end();
        return r;
    }
    if (r < 0) {
        /* What was saved comes back; the rest never left. */
        (void)copies_end();
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
static bool chunk_load(const struct moving *m)
{
    struct chunk *c = m->chunk;
    CUdeviceptr at = m->at;
    bool host = false;
    int gpu = m->gpu;

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

/* The driver would not bring memory of these GPUs home. Is that all it will say, of each? Then the process is held for
 * nothing: its calls go to the driver again, and get the driver's own errors. What was of other GPUs is home by now. */
static bool lost_look(uint32_t failed)
{
    CUresult r = CUDA_SUCCESS;

    for (int gpu = gpu_next(-1); gpu >= 0; gpu = gpu_next(gpu))
        if (failed >> gpu & 1 && (waiter_sync(enter_context_of(gpu), clock_ns() + LOST_NS, &r) < 0 || !error_lost(r)))
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
    uint32_t count, failed = 0;
    uint64_t bytes;

    (void)deadline_ns;
    enter_uuids(); /* it may have been restored on another GPU */
    if (shim.page->health.state != STATE_EVICTED || !evicted)
        return 0;
    state_set(STATE_RELOADING);
    count = chunks_find(CHUNK_SAVED, &bytes);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bit = 1u << moving[i].gpu;

        if ((i == 0 || moving[i - 1].gpu != moving[i].gpu) && !move_on(moving[i].gpu))
            failed |= bit;
        if (!(failed & bit) && !chunk_load(&moving[i]))
            failed |= bit;
    }
    failed |= copies_end();
    if (failed) { /* still held; the helper tries again */
        state_set(STATE_EVICTED);
        if (lost_look(failed))
            return -ENODEV;
        shim_note("no memory to come home to, or the driver would not: tried again when it is resumed");
        return -ENOMEM;
    }
    state_set(STATE_RUNNING);
    brief_set(false); /* what found no room is in host memory */
    move_end();
    return (int64_t)bytes;
}
