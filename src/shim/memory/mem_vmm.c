/* SPDX-License-Identifier: Apache-2.0 */
/* mem_vmm.c - memory the program maps itself (PyTorch's expandable segments do).
 *
 * A handle is charged until it is released *and* no longer mapped, in either order. Where memory is movable the program
 * gets a handle of our own instead of the driver's: the memory behind it can then be another one later. Such a piece is
 * movable while it is mapped once, as a whole, and its GPU may write it; that is when vmm.c knows it. Whatever shares
 * it, by export, by a second mapping, by multicast, fixes it where it is. Calls that change a mapping count as
 * submissions, so none of them meets a move.
 */
#include <errno.h>

#include "shim/shim.h"

#define MAPS 16384u
#define PIECES 16384u
#define VIRTUAL ((uint64_t)0x6d75 << 48) /* handles of our own: this, a generation, a slot */

#define NO_DRIVER(name)                                                                                                \
    if (unlikely(!HAVE(name)))                                                                                         \
    return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED

struct piece {
    CUmemGenericAllocationHandle real; /* while vmm.c does not know it */
    CUdeviceptr at;
    uint64_t size;
    struct cuda_mem_prop prop;
    int32_t refs;
    uint32_t maps, generation;
    int16_t gpu;
    bool leaves;                   /* nobody knows it any more */
    bool used, host, fixed, known; /* known: to vmm.c, which holds its memory then */
};

static struct {
    CUdeviceptr at;
    uint64_t size, key;
} maps[MAPS];
static struct piece pieces[PIECES];
static uint32_t maps_high;
static _Atomic uint32_t pieces_high;
/* Threads map and unmap pieces of their own side by side, and each looks at those of all: what is looked for, and what
 * says whose a slot is, is read and written under its lock. The rest of a piece is of those who use it. */
static _Atomic uint32_t maps_lock, pieces_lock;

static bool piece_eligible(int gpu, size_t size, const struct cuda_mem_prop *prop, unsigned long long flags)
{
    return flags == 0 && size <= VMM_CHUNK && size % VMM_GRAIN == 0 && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           prop->flags.usage == 0 && (unsigned int)prop->handle_types <= UINT16_MAX && vmm_eligible(gpu, size);
}

static struct piece *piece_of(CUmemGenericAllocationHandle handle)
{
    uint32_t slot = (uint32_t)(handle & 0xffff), generation = (uint32_t)(handle >> 16);
    bool found;

    if (handle >> 48 != VIRTUAL >> 48 || slot >= PIECES)
        return NULL;
    spin_lock(&pieces_lock);
    found = pieces[slot].used && pieces[slot].generation == generation;
    spin_unlock(&pieces_lock);
    return found ? &pieces[slot] : NULL;
}

static CUmemGenericAllocationHandle piece_handle(const struct piece *piece)
{
    return VIRTUAL | (uint64_t)piece->generation << 16 | (uint64_t)(piece - pieces);
}

static struct piece *piece_new(const struct piece *like)
{
    struct piece *piece = NULL;
    uint32_t i, generation;

    spin_lock(&pieces_lock);
    for (i = 0; i < pieces_high && pieces[i].used; i++)
        ;
    if (i == pieces_high && pieces_high < PIECES)
        pieces_high++;
    if (i < pieces_high) {
        piece = &pieces[i];
        generation = piece->generation + 1;
        *piece = *like;
        piece->used = true;
        piece->generation = generation;
        piece->refs = 1;
    }
    spin_unlock(&pieces_lock);
    return piece;
}

/* From slot *i on, one that lies in the range: that vmm.c knows, or else that is mapped there as a whole and may move.
 */
static struct piece *piece_next(uint32_t *i, CUdeviceptr ptr, size_t size, bool known)
{
    struct piece *found = NULL;

    spin_lock(&pieces_lock);
    for (; *i < pieces_high && !found; ++*i) {
        struct piece *p = &pieces[*i];

        if (p->used && p->at >= ptr &&
            (known ? p->known && p->at < ptr + size : !p->fixed && p->maps == 1 && p->at + p->size <= ptr + size))
            found = p;
    }
    spin_unlock(&pieces_lock);
    return found;
}

/* References and mappings change together: of two threads that take the last of each, one finds that nobody knows the
 * piece any more, and its memory and its charge go. */
static void piece_drop(struct piece *piece, int32_t refs, int32_t mappings)
{
    bool last;

    spin_lock(&pieces_lock);
    piece->refs -= refs;
    if (piece->maps)
        piece->maps -= (uint32_t)mappings;
    last = piece->used && !piece->leaves && piece->refs <= 0 && piece->maps == 0;
    piece->leaves |= last;
    spin_unlock(&pieces_lock);
    if (!last)
        return;
    if (!piece->host)
        (void)REAL(cuMemRelease)(piece->real);
    else if (piece->fixed)
        stock_drop(piece->real);
    else
        stock_give(piece->gpu, piece->real, piece->size);
    if (piece->host)
        __atomic_fetch_sub(&shim.page->memory[piece->gpu].host_backed, piece->size, __ATOMIC_RELAXED);
    else
        mem_give_back(piece->gpu, CLASS_VMM, piece->size);
    if (piece->host)
        brief_set(false);
    spin_lock(&pieces_lock);
    piece->used = false;
    spin_unlock(&pieces_lock);
}

/* Back from vmm.c, wherever its memory is by now. */
static void piece_recall(struct piece *piece)
{
    struct chunk chunk;

    if (!piece->known || !vmm_piece_take(piece->at, &chunk))
        return;
    spin_lock(&pieces_lock);
    piece->real = chunk.handle;
    piece->host = chunk.where == CHUNK_HOST;
    piece->known = false;
    spin_unlock(&pieces_lock);
}

static void piece_fix(struct piece *piece)
{
    spin_lock(&pieces_lock);
    piece->fixed = true;
    spin_unlock(&pieces_lock);
    piece_recall(piece);
}

/* To vmm.c: mapped, written by its GPU, shared with nobody. */
static void piece_publish(struct piece *piece, uint32_t peers)
{
    struct segment segment = { .base = piece->at, .size = piece->size, .gpu = piece->gpu, .peers = (uint16_t)peers };
    struct chunk chunk = { .handle = piece->real,
                           .size = piece->size,
                           .next = VMM_NONE,
                           .where = piece->host ? CHUNK_HOST : CHUNK_DEVICE,
                           .types = (uint16_t)piece->prop.handle_types };

    bool known = vmm_piece_put(&segment, &chunk);

    spin_lock(&pieces_lock);
    piece->known = known;
    spin_unlock(&pieces_lock);
}

/* No room for it on the device. One that was made ahead, if there is: making one takes milliseconds, and a program may
 * ask for hundreds. */
static CUresult host_make(int gpu, CUmemGenericAllocationHandle *ret, size_t size)
{
    if (mem_soft_refuse(gpu, size) || !host_allow(gpu, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret = stock_take(gpu, size);
    return *ret ? CUDA_SUCCESS : vmm_create(gpu, size, true, 0, ret);
}

/* For as long as a guaranteed job waits for room. */
static CUresult device_make(int gpu, CUmemGenericAllocationHandle *ret, size_t size, const struct cuda_mem_prop *prop,
                            unsigned long long flags)
{
    uint32_t tries = 0;
    CUresult r;

    do
        r = REAL(cuMemCreate)(ret, size, prop, flags);
    while (r == CUDA_ERROR_OUT_OF_MEMORY && mem_need_wait(gpu, size, &tries));
    return r;
}

/* Counted where it succeeds, and where is told. */
static CUresult piece_memory(int gpu, CUmemGenericAllocationHandle *ret, size_t size, const struct cuda_mem_prop *prop,
                             bool *ret_host)
{
    CUresult r;

    *ret_host = mem_reserve(gpu, CLASS_VMM, size) < 0;
    if (*ret_host)
        return host_make(gpu, ret, size);
    r = device_make(gpu, ret, size, prop, 0);
    if (r == CUDA_SUCCESS)
        return r;
    mem_give_back(gpu, CLASS_VMM, size);
    *ret_host = r == CUDA_ERROR_OUT_OF_MEMORY && mem_crowded(gpu, size);
    return *ret_host ? host_make(gpu, ret, size) : r;
}

static CUresult piece_create(CUmemGenericAllocationHandle *handle, size_t size, const struct cuda_mem_prop *prop)
{
    int gpu = prop->location.id;
    struct page_memory *m = &shim.page->memory[gpu];
    CUmemGenericAllocationHandle real = 0;
    struct piece *piece, like;
    bool host = false;
    CUresult r = piece_memory(gpu, &real, size, prop, &host);

    like = (struct piece){ .real = real, .size = size, .prop = *prop, .gpu = (int16_t)gpu, .host = host };
    piece = r == CUDA_SUCCESS ? piece_new(&like) : NULL;
    if (!piece) {
        if (r == CUDA_SUCCESS) {
            COUNT_ADD(unknown, 1);
            if (!host && table_put(real ^ TABLE_HANDLE, size, gpu, CLASS_VMM)) {
                *handle = real; /* no more of ours: the driver's own, which stays put */
                return CUDA_SUCCESS;
            }
            (void)REAL(cuMemRelease)(real);
        }
        if (!host && r == CUDA_SUCCESS)
            mem_give_back(gpu, CLASS_VMM, size);
        return r == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : r;
    }
    if (host) {
        __atomic_fetch_add(&m->host_backed, size, __ATOMIC_RELAXED);
        brief_set(false);
    }
    *handle = piece_handle(piece);
    return CUDA_SUCCESS;
}

static CUresult plain_create(CUmemGenericAllocationHandle *handle, size_t size, const struct cuda_mem_prop *prop,
                             unsigned long long flags)
{
    int gpu = prop->location.id;
    CUresult r;

    if (mem_reserve(gpu, CLASS_VMM, size) < 0) {
        (void)mem_soft_refuse(gpu, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    r = device_make(gpu, handle, size, prop, flags);
    if (r != CUDA_SUCCESS || !table_put(*handle ^ TABLE_HANDLE, size, gpu, CLASS_VMM))
        mem_give_back(gpu, CLASS_VMM, size);
    return r;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const struct cuda_mem_prop *prop,
                     unsigned long long flags)
{
    struct inside_mark mark;
    bool on = shim_ready();
    CUresult r;
    int gpu;

    NO_DRIVER(cuMemCreate);
    if (!on || !handle || !prop || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop->location.id < 0 ||
        prop->location.id >= PAGE_GPUS)
        return REAL(cuMemCreate)(handle, size, prop, flags);
    gpu = prop->location.id;
    signals_hold(&mark);
    r = piece_eligible(gpu, size, prop, flags) ? piece_create(handle, size, prop)
                                               : plain_create(handle, size, prop, flags);
    signals_release();
    return r;
}

static void handle_dropped(uint64_t key)
{
    struct charge charge;
    int32_t refs;

    if (table_ref(key, -1, &refs) && refs <= 0 && table_take(key, &charge))
        mem_give_back(charge.gpu, charge.class, charge.bytes);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    bool on = shim_ready();
    struct piece *piece = piece_of(handle);
    CUresult r;

    NO_DRIVER(cuMemRelease);
    if (piece) {
        piece_drop(piece, 1, 0);
        return CUDA_SUCCESS;
    }
    r = REAL(cuMemRelease)(handle);
    if (on && r == CUDA_SUCCESS)
        handle_dropped(handle ^ TABLE_HANDLE);
    return r;
}

/* ---- mappings */

static void map_remember(CUdeviceptr at, uint64_t size, uint64_t key)
{
    uint32_t i;

    spin_lock(&maps_lock);
    for (i = 0; i < MAPS && maps[i].size; i++)
        ;
    if (i < MAPS) {
        maps[i].at = at;
        maps[i].size = size;
        maps[i].key = key;
        maps_high = i >= maps_high ? i + 1 : maps_high;
    }
    spin_unlock(&maps_lock);
    if (i == MAPS)
        COUNT_ADD(unknown, 1);
}

/* The key of a mapping that begins in the range (or covers `ptr` when size is 0), forgotten when `take`; 0 none. */
static uint64_t map_find(CUdeviceptr ptr, uint64_t size, bool take)
{
    uint64_t key = 0;

    spin_lock(&maps_lock);
    for (uint32_t i = 0; i < maps_high && !key; i++)
        if (maps[i].size && (size ? maps[i].at >= ptr && maps[i].at < ptr + size
                                  : ptr >= maps[i].at && ptr < maps[i].at + maps[i].size)) {
            key = maps[i].key;
            if (take)
                maps[i].size = 0;
        }
    spin_unlock(&maps_lock);
    return key;
}

static CUresult piece_map(struct piece *piece, CUdeviceptr ptr, size_t size, size_t offset, unsigned long long flags)
{
    struct submit submit;
    CUresult r;

    submit_enter(&submit, SUBMIT_MEMORY, 0, NULL);
    if (piece->maps > 0)
        piece_fix(piece);
    r = REAL(cuMemMap)(ptr, size, offset, piece->real, flags);
    if (r == CUDA_SUCCESS) {
        spin_lock(&pieces_lock);
        piece->maps++;
        piece->at = ptr;
        if (offset || size != piece->size)
            piece->fixed = true;
        spin_unlock(&pieces_lock);
        map_remember(ptr, size, piece_handle(piece));
    }
    submit_leave(&submit, r);
    return r;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    bool on = shim_ready();
    struct piece *piece = piece_of(handle);
    int32_t refs;
    CUresult r;

    NO_DRIVER(cuMemMap);
    if (piece)
        return piece_map(piece, ptr, size, offset, flags);
    r = REAL(cuMemMap)(ptr, size, offset, handle, flags);
    if (on && r == CUDA_SUCCESS && table_ref(handle ^ TABLE_HANDLE, 1, &refs))
        map_remember(ptr, size, handle ^ TABLE_HANDLE);
    return r;
}

static void maps_forget(CUdeviceptr ptr, size_t size)
{
    struct piece *piece;
    uint64_t key;

    while ((key = map_find(ptr, size, true))) {
        piece = piece_of(key);
        if (piece)
            piece_drop(piece, 0, 1);
        else
            handle_dropped(key);
    }
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    struct submit submit;
    bool on = shim_ready();
    struct piece *piece;
    uint32_t i = 0;
    CUresult r;

    NO_DRIVER(cuMemUnmap);
    if (!on && !pieces_high)
        return REAL(cuMemUnmap)(ptr, size);
    submit_enter(&submit, SUBMIT_MEMORY, 0, NULL);
    while ((piece = piece_next(&i, ptr, size, true)))
        piece_recall(piece);
    r = REAL(cuMemUnmap)(ptr, size);
    if (r == CUDA_SUCCESS)
        maps_forget(ptr, size);
    submit_leave(&submit, r);
    return r;
}

/* Which GPUs may write what lies between: that decides whether a piece can be moved, and for whom it is mapped again.
 */
static void access_changed(CUdeviceptr ptr, size_t size, const struct cuda_access *desc, size_t count)
{
    struct piece *p;
    uint32_t i = 0;

    while ((p = piece_next(&i, ptr, size, false))) {
        uint32_t peers = 0;
        bool own = false;

        for (size_t k = 0; k < count; k++) {
            if (desc[k].location.type != CU_MEM_LOCATION_TYPE_DEVICE || desc[k].flags != CU_MEM_ACCESS_READWRITE)
                continue;
            own |= desc[k].location.id == p->gpu;
            if (desc[k].location.id != p->gpu && desc[k].location.id >= 0 && desc[k].location.id < PAGE_GPUS)
                peers |= 1u << desc[k].location.id;
        }
        if (own && !p->known)
            piece_publish(p, peers);
        else if (own)
            (void)vmm_piece_peers(p->at, peers);
        else
            piece_fix(p); /* read-only, or not for its own GPU: we could not give that back */
    }
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const struct cuda_access *desc, size_t count)
{
    struct submit submit;
    bool on = shim_ready();
    CUresult r;

    NO_DRIVER(cuMemSetAccess);
    if ((!on && !pieces_high) || !desc)
        return REAL(cuMemSetAccess)(ptr, size, desc, count);
    submit_enter(&submit, SUBMIT_MEMORY, 0, NULL);
    r = REAL(cuMemSetAccess)(ptr, size, desc, count);
    if (r == CUDA_SUCCESS)
        access_changed(ptr, size, desc, count);
    submit_leave(&submit, r);
    return r;
}

/* ---- what else takes or gives handles */

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    struct submit submit;
    bool on = shim_ready();
    struct piece *piece;
    int32_t refs;
    CUresult r;

    NO_DRIVER(cuMemRetainAllocationHandle);
    if (!on || !handle)
        return REAL(cuMemRetainAllocationHandle)(handle, addr);
    submit_enter(&submit, SUBMIT_MEMORY, 0, NULL);
    r = REAL(cuMemRetainAllocationHandle)(handle, addr);
    piece = piece_of(map_find((CUdeviceptr)(uintptr_t)addr, 0, false));
    if (r == CUDA_SUCCESS && piece) {
        (void)REAL(cuMemRelease)(*handle);
        spin_lock(&pieces_lock);
        piece->refs++;
        spin_unlock(&pieces_lock);
        *handle = piece_handle(piece);
    } else if (r == CUDA_SUCCESS && !table_ref(*handle ^ TABLE_HANDLE, 1, &refs)) {
        vmm_fix((CUdeviceptr)(uintptr_t)addr);
    }
    submit_leave(&submit, r);
    return r;
}

CUresult cuMemGetAllocationPropertiesFromHandle(struct cuda_mem_prop *prop, CUmemGenericAllocationHandle handle)
{
    struct piece *piece;

    (void)shim_ready();
    NO_DRIVER(cuMemGetAllocationPropertiesFromHandle);
    piece = piece_of(handle);
    if (!piece || !prop)
        return REAL(cuMemGetAllocationPropertiesFromHandle)(prop, handle);
    *prop = piece->prop;
    return CUDA_SUCCESS;
}

/* From here on others may hold it: it stays where it is. */
static CUmemGenericAllocationHandle handle_shared(CUmemGenericAllocationHandle handle)
{
    struct piece *piece = piece_of(handle);

    if (!piece)
        return handle;
    piece_fix(piece);
    __atomic_fetch_or(&shim.page->health.flags, HEALTH_SHARED, __ATOMIC_RELAXED);
    return piece->real;
}

static void address_shared(CUdeviceptr ptr)
{
    struct piece *piece = piece_of(map_find(ptr, 0, false));

    if (piece)
        piece_fix(piece);
    else
        vmm_fix(ptr);
}

#define SHARING(name, params, args, before)                                                                            \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        struct submit submit;                                                                                          \
        bool on = shim_ready();                                                                                        \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        if (!on)                                                                                                       \
            return REAL(name) args;                                                                                    \
        submit_enter(&submit, SUBMIT_MEMORY, 0, NULL);                                                                 \
        before;                                                                                                        \
        r = REAL(name) args;                                                                                           \
        submit_leave(&submit, r);                                                                                      \
        return r;                                                                                                      \
    }
SHARING(cuMemExportToShareableHandle,
        (void *share, CUmemGenericAllocationHandle handle, int type, unsigned long long flags),
        (share, handle, type, flags), handle = handle_shared(handle))
SHARING(cuMulticastBindMem,
        (CUmemGenericAllocationHandle mc, size_t offset, CUmemGenericAllocationHandle handle, size_t memoffset,
         size_t size, unsigned long long flags),
        (mc, offset, handle, memoffset, size, flags), handle = handle_shared(handle))
SHARING(cuMulticastBindAddr,
        (CUmemGenericAllocationHandle mc, size_t offset, CUdeviceptr ptr, size_t size, unsigned long long flags),
        (mc, offset, ptr, size, flags), address_shared(ptr))
SHARING(cuMemGetHandleForAddressRange,
        (void *handle, CUdeviceptr dptr, size_t size, int type, unsigned long long flags),
        (handle, dptr, size, type, flags), address_shared(dptr))
