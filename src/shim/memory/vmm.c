/* SPDX-License-Identifier: Apache-2.0 */
/* vmm.c - plain allocations built from the virtual memory interface, so that they can be moved.
 *
 * A segment is one address range; its memory is cut into chunks of at most 64 MiB, each on the device, in host
 * memory the GPU can read, or saved away. The address never changes. The lock guards the two tables for a few
 * instructions; a segment under construction or being freed is in neither.
 */
#include <errno.h>

#include "shim/shim.h"

#define SEGMENTS TOUCH_SEGMENTS
#define CHUNKS 65536u

static struct segment segments[SEGMENTS];
static struct chunk chunks[CHUNKS];
static uint32_t chunks_high, chunk_free = VMM_NONE;
static _Atomic uint32_t segments_high; /* read without the lock; a segment is whole before it counts */
static _Atomic uint32_t lock, native_only;
static _Atomic uint64_t births;
static _Atomic uint32_t peers_of[PAGE_GPUS]; /* a bit for each GPU that may read the memory of this one */

bool vmm_eligible(int gpu, uint64_t bytes)
{
    return shim.mode == MODE_SPILL && bytes >= VMM_GRAIN && !thread_captures() && gpu >= 0 && gpu < PAGE_GPUS &&
           !atomic_load_explicit(&native_only, memory_order_relaxed) && HAVE(cuMemCreate) && HAVE(cuMemMap) &&
           HAVE(cuMemSetAccess) && HAVE(cuMemAddressReserve) && HAVE(cuMemUnmap) && HAVE(cuMemRelease);
}

void vmm_native_from_now(void)
{
    atomic_store(&native_only, 1);
}

uint32_t vmm_segments(void)
{
    return segments_high;
}

struct segment *vmm_segment(uint32_t index)
{
    return &segments[index];
}

struct chunk *vmm_chunk(uint32_t index)
{
    return index < CHUNKS ? &chunks[index] : NULL;
}

static uint32_t chunk_new(void)
{
    uint32_t i;

    spin_lock(&lock);
    i = chunk_free;
    if (i != VMM_NONE)
        chunk_free = chunks[i].next;
    else if (chunks_high < CHUNKS)
        i = chunks_high++;
    spin_unlock(&lock);
    return i;
}

static void chunk_drop(uint32_t i)
{
    spin_lock(&lock);
    chunks[i].where = CHUNK_NONE;
    chunks[i].next = chunk_free;
    chunk_free = i;
    spin_unlock(&lock);
}

static bool rdma_capable(int gpu)
{
    static _Atomic int8_t known[PAGE_GPUS]; /* 0 unknown, 1 no, 2 yes */
    int value = 0;

    if (atomic_load(&known[gpu]) == 0) {
        if (!HAVE(cuDeviceGetAttribute) ||
            REAL(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_RDMA_WITH_VMM, gpu) != CUDA_SUCCESS)
            value = 0;
        atomic_store(&known[gpu], value ? 2 : 1);
    }
    return atomic_load(&known[gpu]) == 2;
}

CUresult vmm_create(int gpu, uint64_t size, bool host, uint32_t types, CUmemGenericAllocationHandle *ret)
{
    struct cuda_mem_prop prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .handle_types = host ? 0 : (int)types, /* host memory cannot be shared by handle */
                                  .location = { host ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                                                host ? 0 : gpu } };

    if (!host)
        prop.flags.rdma = rdma_capable(gpu);
    return REAL(cuMemCreate)(ret, size, &prop, 0);
}

CUresult vmm_access(int gpu, uint32_t peers, CUdeviceptr at, uint64_t size)
{
    struct cuda_access access[PAGE_GPUS] = { { { CU_MEM_LOCATION_TYPE_DEVICE, gpu }, CU_MEM_ACCESS_READWRITE } };
    size_t n = 1;

    for (int i = 0; i < PAGE_GPUS; i++)
        if (i != gpu && peers >> i & 1)
            access[n++] = (struct cuda_access){ { CU_MEM_LOCATION_TYPE_DEVICE, i }, CU_MEM_ACCESS_READWRITE };
    return REAL(cuMemSetAccess)(at, size, access, n);
}

/* Plain memory becomes readable from a peer as a whole; segments have to be told one by one. Nothing moves meanwhile.
 */
void vmm_peer(int owner, int peer, bool on)
{
    struct cuda_access access = { { CU_MEM_LOCATION_TYPE_DEVICE, peer }, on ? CU_MEM_ACCESS_READWRITE : 0 };
    uint32_t bit;

    if (owner < 0 || owner >= PAGE_GPUS || peer < 0 || peer >= PAGE_GPUS || owner == peer)
        return;
    bit = 1u << peer;
    if (on)
        atomic_fetch_or(&peers_of[owner], bit);
    else
        atomic_fetch_and(&peers_of[owner], ~bit);
    for (uint32_t i = 0; i < segments_high; i++) {
        struct segment *s = &segments[i];

        if (s->live != SEGMENT_OURS || s->gpu != owner)
            continue;
        s->peers = (uint16_t)(on ? s->peers | bit : s->peers & ~bit);
        if (REAL(cuMemSetAccess)(s->base, s->size, &access, 1) != CUDA_SUCCESS) {
            shim_note("GPU %d got no access to memory of GPU %d; new allocations are native", peer, owner);
            vmm_native_from_now();
        }
    }
}

/* Unmaps and releases every chunk of the list and drops it. */
static void chunks_tear(int gpu, CUdeviceptr at, uint32_t first)
{
    for (uint32_t i = first, next; i != VMM_NONE; i = next) {
        struct chunk *c = &chunks[i];

        next = c->next;
        if (c->where == CHUNK_DEVICE || c->where == CHUNK_HOST) {
            bool gone = REAL(cuMemUnmap)(at, c->size) == CUDA_SUCCESS;

            if (c->where == CHUNK_DEVICE)
                (void)REAL(cuMemRelease)(c->handle);
            else if (gone)
                stock_give(gpu, c->handle, c->size);
            else
                stock_drop(c->handle); /* of no use to another while it is shown there */
        }
        at += c->size;
        chunk_drop(i);
    }
}

/* Creates and maps the chunks of one range. On failure nothing is left mapped. */
static CUresult chunks_build(int gpu, CUdeviceptr base, uint64_t size, bool host, uint32_t *ret_first)
{
    uint32_t first = VMM_NONE, last = VMM_NONE;
    CUresult r = CUDA_SUCCESS;

    for (uint64_t at = 0; at < size && r == CUDA_SUCCESS; at += VMM_CHUNK) {
        uint64_t part = size - at < VMM_CHUNK ? size - at : VMM_CHUNK;
        uint32_t i = chunk_new();
        CUmemGenericAllocationHandle handle = 0;

        if (i == VMM_NONE) {
            r = VMM_FULL;
            break;
        }
        if (host)
            handle = stock_take(gpu, part);
        if (!handle)
            r = vmm_create(gpu, part, host, 0, &handle);
        if (r == CUDA_SUCCESS && (r = REAL(cuMemMap)(base + at, part, 0, handle, 0)) != CUDA_SUCCESS)
            (void)REAL(cuMemRelease)(handle);
        chunks[i] = (struct chunk){
            handle, part, 0, VMM_NONE, r != CUDA_SUCCESS ? CHUNK_NONE : (host ? CHUNK_HOST : CHUNK_DEVICE), 0
        };
        if (last == VMM_NONE)
            first = i;
        else
            chunks[last].next = i;
        last = i;
    }
    if (r == CUDA_SUCCESS)
        r = vmm_access(gpu, atomic_load(&peers_of[gpu]), base, size);
    if (r != CUDA_SUCCESS) {
        chunks_tear(gpu, base, first);
        return r;
    }
    *ret_first = first;
    return CUDA_SUCCESS;
}

static bool segment_publish(const struct segment *segment)
{
    uint32_t i;

    spin_lock(&lock);
    for (i = 0; i < segments_high && segments[i].live; i++)
        ;
    if (i == segments_high && segments_high < SEGMENTS)
        atomic_fetch_add(&segments_high, 1);
    else if (i == segments_high)
        i = SEGMENTS;
    if (i < SEGMENTS) {
        segments[i] = *segment;
        segments[i].born = atomic_fetch_add(&births, 1);
    }
    spin_unlock(&lock);
    return i < SEGMENTS;
}

CUresult vmm_alloc(int gpu, uint64_t size, bool host, CUdeviceptr *ret)
{
    struct page_memory *m = &shim.page->memory[gpu];
    struct segment segment;
    CUdeviceptr base = 0;
    uint32_t first;
    CUresult r;

    r = REAL(cuMemAddressReserve)(&base, size, VMM_GRAIN, 0, 0);
    if (r != CUDA_SUCCESS)
        return r;
    r = chunks_build(gpu, base, size, host, &first);
    if (r != CUDA_SUCCESS) {
        (void)REAL(cuMemAddressFree)(base, size);
        return r;
    }
    segment = (struct segment){ .base = base,
                                .size = size,
                                .first = first,
                                .context = context_stream(NULL),
                                .gpu = (int16_t)gpu,
                                .live = SEGMENT_OURS,
                                .peers = (uint16_t)atomic_load(&peers_of[gpu]) };
    if (!segment_publish(&segment)) {
        chunks_tear(gpu, base, first);
        (void)REAL(cuMemAddressFree)(base, size);
        return VMM_FULL;
    }
    __atomic_fetch_add(&m->movable, size, __ATOMIC_RELAXED);
    if (host) {
        __atomic_fetch_add(&m->host_backed, size, __ATOMIC_RELAXED);
        brief_set(false);
    }
    *ret = base;
    return CUDA_SUCCESS;
}

bool vmm_look(uint32_t i, uint64_t *ret_base, uint64_t *ret_size, uint64_t *ret_born)
{
    bool live;

    spin_lock(&lock);
    live = segments[i].live != SEGMENT_FREE;
    *ret_base = segments[i].base;
    *ret_size = segments[i].size;
    *ret_born = segments[i].born;
    spin_unlock(&lock);
    return live;
}

static bool segment_find(CUdeviceptr ptr, enum segment_kind kind, bool exact, bool take, struct segment *ret)
{
    bool found = false;

    spin_lock(&lock);
    for (uint32_t i = 0; i < segments_high && !found; i++) {
        struct segment *s = &segments[i];

        if (s->live != (uint16_t)kind || ptr < s->base || ptr >= s->base + s->size || (exact && ptr != s->base))
            continue;
        found = true;
        *ret = *s;
        if (take)
            s->live = SEGMENT_FREE;
    }
    spin_unlock(&lock);
    return found;
}

bool vmm_range(CUdeviceptr ptr, CUdeviceptr *base, uint64_t *size)
{
    struct segment s;

    if (segments_high == 0 || !segment_find(ptr, SEGMENT_OURS, false, false, &s))
        return false;
    if (base)
        *base = s.base;
    if (size)
        *size = s.size;
    return true;
}

/* Of a segment that nobody can find any more. */
static CUresult segment_tear(const struct segment *s)
{
    struct page_memory *m = &shim.page->memory[s->gpu];
    CUresult r;
    int mode;

    for (uint32_t i = s->first; i != VMM_NONE; i = chunks[i].next) {
        if (chunks[i].where == CHUNK_DEVICE)
            mem_give_back(s->gpu, CLASS_VMM, chunks[i].size);
        else if (chunks[i].where == CHUNK_HOST)
            __atomic_fetch_sub(&m->host_backed, chunks[i].size, __ATOMIC_RELAXED);
        else
            __atomic_fetch_sub(&m->saved, chunks[i].size, __ATOMIC_RELAXED);
    }
    (void)capture_relax(&mode);
    chunks_tear(s->gpu, s->base, s->first);
    r = REAL(cuMemAddressFree)(s->base, s->size);
    capture_restore(mode);
    __atomic_fetch_sub(&m->movable, s->size, __ATOMIC_RELAXED);
    return r;
}

/* As the plain call does: wait for the device, then take the memory away. */
bool vmm_free(CUdeviceptr ptr, CUresult *ret)
{
    struct inside_mark mark;
    struct segment s;
    int mode;

    if (!segment_find(ptr, SEGMENT_OURS, true, false, &s))
        return false;
    if (HAVE(cuCtxSynchronize) && capture_own_begin(&mode)) {
        if (atomic_load(&shim.captures) == 0) /* a device on which a stream captures cannot be waited for */
            (void)REAL(cuCtxSynchronize)();
        capture_own_end(mode);
    }
    signals_hold(&mark);
    if (!segment_find(ptr, SEGMENT_OURS, true, true, &s)) {
        signals_release();
        return false; /* freed twice at once */
    }
    *ret = segment_tear(&s);
    signals_release();
    if (atomic_load(&shim.hold) & HOLD_SHORT)
        brief_set(false);
    return true;
}

/* The driver has freed what was plain in that context, and waited for its work: what stands for such memory goes too.
 */
void vmm_ended(uint32_t context)
{
    struct segment s;

    for (uint32_t i = 0; context && i < segments_high; i++) {
        bool taken;

        spin_lock(&lock);
        s = segments[i];
        taken = s.live == SEGMENT_OURS && s.context == context;
        if (taken)
            segments[i].live = SEGMENT_FREE;
        spin_unlock(&lock);
        if (taken)
            (void)segment_tear(&s);
    }
    if (atomic_load(&shim.hold) & HOLD_SHORT)
        brief_set(false);
}

void vmm_fix(CUdeviceptr ptr)
{
    spin_lock(&lock);
    for (uint32_t i = 0; i < segments_high; i++)
        if (segments[i].live && ptr >= segments[i].base && ptr < segments[i].base + segments[i].size)
            segments[i].fixed = 1;
    spin_unlock(&lock);
}

/* ---- pieces: mappings the program made itself, one chunk each */

bool vmm_piece_put(const struct segment *piece, const struct chunk *chunk)
{
    struct segment segment = *piece;
    uint32_t i = chunk_new();

    if (i == VMM_NONE)
        return false;
    chunks[i] = *chunk;
    segment.first = i;
    segment.live = SEGMENT_PIECE;
    if (!segment_publish(&segment)) {
        chunk_drop(i);
        return false;
    }
    __atomic_fetch_add(&shim.page->memory[piece->gpu].movable, piece->size, __ATOMIC_RELAXED);
    return true;
}

bool vmm_piece_take(CUdeviceptr base, struct chunk *ret)
{
    struct segment s;

    if (!segment_find(base, SEGMENT_PIECE, true, true, &s))
        return false;
    *ret = chunks[s.first];
    chunk_drop(s.first);
    __atomic_fetch_sub(&shim.page->memory[s.gpu].movable, s.size, __ATOMIC_RELAXED);
    return true;
}

bool vmm_piece_peers(CUdeviceptr base, uint32_t peers)
{
    bool found = false;

    spin_lock(&lock);
    for (uint32_t i = 0; i < segments_high && !found; i++)
        if (segments[i].live == SEGMENT_PIECE && segments[i].base == base) {
            segments[i].peers = (uint16_t)peers;
            found = true;
        }
    spin_unlock(&lock);
    return found;
}
