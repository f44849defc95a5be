/* SPDX-License-Identifier: Apache-2.0 */
/* mem_native.c - plain, pitched and managed allocations, arrays, pinned host memory.
 *
 * Above the cap the first answer is "out of memory" (the soft refusal), so that the framework drops its cache and asks
 * again. A second request finds room, or host memory where segments are movable, or is refused for good. So it is for
 * a neighbour on a card that others have filled. A pointer we never saw goes to the driver.
 */
#include <errno.h>

#include "shim/shim.h"

#define NO_DRIVER(name)                                                                                                \
    if (unlikely(!HAVE(name)))                                                                                         \
    return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED

static CUresult refuse(int gpu, uint64_t bytes)
{
    (void)mem_soft_refuse(gpu, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult alloc_plain(int gpu, size_t bytes, CUdeviceptr *dptr);

/* No room for it on the device. */
static CUresult alloc_host(int gpu, uint64_t size, size_t bytes, CUdeviceptr *dptr)
{
    CUresult r;

    if (mem_soft_refuse(gpu, bytes) || !host_allow(gpu, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = vmm_alloc(gpu, size, true, dptr);
    return r == VMM_FULL ? CUDA_ERROR_OUT_OF_MEMORY : r;
}

static CUresult alloc_segment(int gpu, size_t bytes, CUdeviceptr *dptr)
{
    uint64_t size = (bytes + VMM_GRAIN - 1) / VMM_GRAIN * VMM_GRAIN;
    uint32_t tries = 0;
    CUresult r;

    if (mem_reserve(gpu, CLASS_VMM, size) < 0)
        return alloc_host(gpu, size, bytes, dptr);
    do
        r = vmm_alloc(gpu, size, false, dptr);
    while (r == CUDA_ERROR_OUT_OF_MEMORY && mem_need_wait(gpu, size, &tries));
    if (r == CUDA_SUCCESS)
        return r;
    mem_give_back(gpu, CLASS_VMM, size);
    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        return mem_crowded(gpu, size) ? alloc_host(gpu, size, bytes, dptr) : r;
    /* Not for want of memory: our tables are full, or the driver does not map. Then it is native, and stays put. */
    COUNT_ADD(unknown, 1);
    return alloc_plain(gpu, bytes, dptr);
}

static CUresult alloc_plain(int gpu, size_t bytes, CUdeviceptr *dptr)
{
    uint64_t size = mem_round(bytes);
    uint32_t tries = 0;
    CUresult r;

    if (mem_reserve(gpu, CLASS_NATIVE, size) < 0)
        return refuse(gpu, bytes);
    do
        r = REAL(cuMemAlloc_v2)(dptr, bytes);
    while (r == CUDA_ERROR_OUT_OF_MEMORY && mem_need_wait(gpu, size, &tries));
    if (r != CUDA_SUCCESS || !table_put(*dptr, size, gpu, CLASS_NATIVE))
        mem_give_back(gpu, CLASS_NATIVE, size);
    return r;
}

/* Waits first, while handlers may run, and counts then, while none does. */
CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
    bool on = shim_ready(), segment;
    struct inside_mark mark;
    struct submit submit;
    CUresult r;
    int gpu;

    NO_DRIVER(cuMemAlloc_v2);
    if (likely(!on) || thread_deeper() || !dptr || !bytes || (gpu = enter_device()) < 0)
        return REAL(cuMemAlloc_v2)(dptr, bytes);
    segment = vmm_eligible(gpu, bytes);
    if (segment)
        submit_enter(&submit, SUBMIT_MEMORY, 0, NULL);
    signals_hold(&mark);
    thread_enter(&mark);
    r = segment ? alloc_segment(gpu, bytes, dptr) : alloc_plain(gpu, bytes, dptr);
    shim_thread.depth = 0;
    signals_release();
    if (segment)
        submit_leave(&submit, r);
    return r;
}

/* What is counted in the table under `key`: reserved, then asked of the driver, for as long as a guaranteed job waits
 * for room. No handler runs in between: it might jump out with the reservation. */
#define ALLOC_COUNTED(r, gpu, class, size, call, key)                                                                  \
    do {                                                                                                               \
        struct inside_mark mark_;                                                                                      \
        uint32_t tries_ = 0;                                                                                           \
                                                                                                                       \
        signals_hold(&mark_);                                                                                          \
        if (mem_reserve(gpu, class, size) < 0) {                                                                       \
            r = refuse(gpu, size);                                                                                     \
        } else {                                                                                                       \
            do                                                                                                         \
                r = (call);                                                                                            \
            while (r == CUDA_ERROR_OUT_OF_MEMORY && mem_need_wait(gpu, size, &tries_));                                \
            if (r != CUDA_SUCCESS || !table_put(key, size, gpu, class))                                                \
                mem_give_back(gpu, class, size);                                                                       \
        }                                                                                                              \
        signals_release();                                                                                             \
    } while (0)

CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytes)
{
    uint64_t size = mem_round(bytes);
    bool on = shim_ready();
    CUresult r;
    int gpu;

    NO_DRIVER(cuMemAlloc);
    if (!on || !dptr || (gpu = enter_device()) < 0)
        return REAL(cuMemAlloc)(dptr, bytes);
    ALLOC_COUNTED(r, gpu, CLASS_NATIVE, size, REAL(cuMemAlloc)(dptr, bytes), *dptr);
    return r;
}

#define PITCH_GRAIN 512u
#define ALLOC_PITCH(name, ptr_t, size_type)                                                                            \
    CUresult name(ptr_t *dptr, size_type *pitch, size_type width, size_type height, unsigned int element)              \
    {                                                                                                                  \
        uint64_t size = mem_round(((uint64_t)width + PITCH_GRAIN - 1) / PITCH_GRAIN * PITCH_GRAIN * height);           \
        bool on = shim_ready();                                                                                        \
        CUresult r;                                                                                                    \
        int gpu;                                                                                                       \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        if (!on || !dptr || (gpu = enter_device()) < 0)                                                                \
            return REAL(name)(dptr, pitch, width, height, element);                                                    \
        ALLOC_COUNTED(r, gpu, CLASS_NATIVE, size, REAL(name)(dptr, pitch, width, height, element), *dptr);             \
        return r;                                                                                                      \
    }
ALLOC_PITCH(cuMemAllocPitch_v2, CUdeviceptr, size_t)
ALLOC_PITCH(cuMemAllocPitch, CUdeviceptr_v1, unsigned int)

/* A charge leaves the table before the driver frees: once it has, the driver may give the same address to another
 * thread, whose charge must not be mistaken for this one.
 */
static struct charge charge_lift(uint64_t key)
{
    struct charge charge = { 0 };

    (void)table_take(key, &charge);
    return charge;
}

static void charge_settle(const struct charge *charge, CUresult r)
{
    if (!charge->key)
        return;
    if (r != CUDA_SUCCESS)
        table_back(charge);
    else if (charge->class < CLASS_COUNT)
        mem_give_back(charge->gpu, charge->class, charge->bytes);
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    uint32_t on = shim_state();
    struct inside_mark mark;
    struct submit submit;
    struct charge charge;
    CUresult r;

    NO_DRIVER(cuMemFree_v2);
    if (likely(!on) || !dptr)
        return REAL(cuMemFree_v2)(dptr);
    if (unlikely(on == SHIM_LEAVING)) /* by what runs at the exit: nothing is moved any more, nobody is waited for */
        return vmm_free(dptr, &r) ? r : REAL(cuMemFree_v2)(dptr);
    if (vmm_range(dptr, NULL, NULL)) {
        bool ours;

        submit_enter(&submit, SUBMIT_MEMORY, 0, NULL);
        ours = vmm_free(dptr, &r);
        submit_leave(&submit, CUDA_SUCCESS);
        if (ours)
            return r;
    }
    signals_hold(&mark);
    charge = charge_lift(dptr);
    r = REAL(cuMemFree_v2)(dptr);
    charge_settle(&charge, r);
    signals_release();
    return r;
}

CUresult cuMemFree(CUdeviceptr_v1 dptr)
{
    bool on = shim_ready();
    struct charge charge = { 0 };
    CUresult r;

    NO_DRIVER(cuMemFree);
    if (on)
        charge = charge_lift(dptr);
    r = REAL(cuMemFree)(dptr);
    charge_settle(&charge, r);
    return r;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
    uint64_t size = mem_round(bytes);
    bool on = shim_ready();
    CUresult r;
    int gpu;

    NO_DRIVER(cuMemAllocManaged);
    if (!on || !dptr || (gpu = enter_device()) < 0)
        return REAL(cuMemAllocManaged)(dptr, bytes, flags);
    ALLOC_COUNTED(r, gpu, CLASS_MANAGED, size, REAL(cuMemAllocManaged)(dptr, bytes, flags), *dptr);
    if (r == CUDA_SUCCESS)
        __atomic_fetch_or(&shim.page->health.flags, HEALTH_NO_CHECKPOINT, __ATOMIC_RELAXED);
    return r;
}

/* ---- arrays: the size is computed, then corrected where the driver tells it */

static uint64_t format_bytes(int format)
{
    switch (format) {
    case 0x01: /* unsigned 8 */
    case 0x08: /* signed 8 */
        return 1;
    case 0x02: /* unsigned 16 */
    case 0x09: /* signed 16 */
    case 0x10: /* half */
        return 2;
    default: /* 32 bits, and formats we do not know */
        return 4;
    }
}

static uint64_t array_bytes(const struct cuda_array3d_desc *d)
{
    uint64_t h = d->height ? d->height : 1, z = d->depth ? d->depth : 1;

    return mem_round((uint64_t)d->width * h * z * d->channels * format_bytes(d->format));
}

#define ARRAY_CREATE(name, ptr_t, desc_t, more_params, args, size)                                                     \
    CUresult name(ptr_t *array, const struct desc_t *desc more_params)                                                 \
    {                                                                                                                  \
        bool on = shim_ready();                                                                                        \
        uint64_t bytes;                                                                                                \
        CUresult r;                                                                                                    \
        int gpu;                                                                                                       \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        if (!on || !array || !desc || (gpu = enter_device()) < 0)                                                      \
            return REAL(name) args;                                                                                    \
        bytes = (size);                                                                                                \
        ALLOC_COUNTED(r, gpu, CLASS_ARRAY, bytes, REAL(name) args, (uint64_t)(uintptr_t)*array | TABLE_ARRAY);         \
        return r;                                                                                                      \
    }
#define FLAT(d) (&(struct cuda_array3d_desc){ (d)->width, (d)->height, 0, (d)->format, (d)->channels, 0 })
#define COMMA ,
ARRAY_CREATE(cuArrayCreate_v2, CUarray, cuda_array_desc, , (array, desc), array_bytes(FLAT(desc)))
ARRAY_CREATE(cuArray3DCreate_v2, CUarray, cuda_array3d_desc, , (array, desc), array_bytes(desc))
ARRAY_CREATE(cuMipmappedArrayCreate, CUmipmappedArray, cuda_array3d_desc, COMMA unsigned int levels,
             (array, desc, levels), array_bytes(desc) / 3 * 4)

#define ARRAY_DESTROY(name, ptr_t)                                                                                     \
    CUresult name(ptr_t array)                                                                                         \
    {                                                                                                                  \
        bool on = shim_ready();                                                                                        \
        struct charge charge = { 0 };                                                                                  \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        if (on)                                                                                                        \
            charge = charge_lift((uint64_t)(uintptr_t)array | TABLE_ARRAY);                                            \
        r = REAL(name)(array);                                                                                         \
        charge_settle(&charge, r);                                                                                     \
        return r;                                                                                                      \
    }
ARRAY_DESTROY(cuArrayDestroy, CUarray)
ARRAY_DESTROY(cuMipmappedArrayDestroy, CUmipmappedArray)

/* ---- pinned host memory: counted for the suspend estimate */

static CUresult pinned(CUresult r, const void *ptr, uint64_t bytes)
{
    if (r == CUDA_SUCCESS && table_put((uint64_t)(uintptr_t)ptr, bytes, 0, CLASS_COUNT))
        __atomic_fetch_add(&shim.page->health.pinned_bytes, bytes, __ATOMIC_RELAXED);
    return r;
}

static CUresult unpinned(CUresult r, const void *ptr)
{
    struct charge charge;

    if (r == CUDA_SUCCESS && table_take((uint64_t)(uintptr_t)ptr, &charge))
        __atomic_fetch_sub(&shim.page->health.pinned_bytes, charge.bytes, __ATOMIC_RELAXED);
    return r;
}

#define PIN(name, params, args, at, bytes)                                                                             \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        bool on = shim_ready();                                                                                        \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        r = REAL(name) args;                                                                                           \
        return on && r == CUDA_SUCCESS ? pinned(r, at, bytes) : r;                                                     \
    }
#define UNPIN(name)                                                                                                    \
    CUresult name(void *ptr)                                                                                           \
    {                                                                                                                  \
        bool on = shim_ready();                                                                                        \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        r = REAL(name)(ptr);                                                                                           \
        return on ? unpinned(r, ptr) : r;                                                                              \
    }
PIN(cuMemHostAlloc, (void **ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags), *ptr, bytes)
PIN(cuMemAllocHost_v2, (void **ptr, size_t bytes), (ptr, bytes), *ptr, bytes)
PIN(cuMemAllocHost, (void **ptr, unsigned int bytes), (ptr, bytes), *ptr, bytes)
PIN(cuMemHostRegister_v2, (void *ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags), ptr, bytes)
PIN(cuMemHostRegister, (void *ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags), ptr, bytes)
UNPIN(cuMemFreeHost)
UNPIN(cuMemHostUnregister)
