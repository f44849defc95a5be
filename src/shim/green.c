/* SPDX-License-Identifier: Apache-2.0 */
/* green.c - green contexts: a part of a GPU's processors for the work in some streams.
 *
 * By the driver's manual such a context is the GPU's own one with other resources: it keeps that one alive, its memory
 * is that one's, whoever waits for that one waits for its work too. So the GPU's own context is known from the first
 * green one on, and what is of a green one counts as of that: events, allocations, waits. A green one may be current to
 * one thread at a time: no thread of ours makes it so, and none of the program's does for us.
 */
#include "shim/shim.h"

#define GREENS                                                                                                         \
    64u /* of what is beyond nobody knows which streams are whose: its launches are not waited for at gates */

static struct {
    _Atomic uintptr_t green; /* 0 = free */
    _Atomic uintptr_t ctx;   /* by which it is current; 0 = not asked for yet */
    _Atomic int dev;
} greens[GREENS];
static _Atomic uint32_t greens_seen, greens_lock;

#define NO_DRIVER(name)                                                                                                \
    if (unlikely(!HAVE(name)))                                                                                         \
    return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED

static uint32_t green_find(CUgreenCtx green)
{
    uint32_t i = 0;

    while (i < GREENS && atomic_load(&greens[i].green) != (uintptr_t)green)
        i++;
    return i;
}

static void green_put(CUgreenCtx green, CUcontext ctx, CUdevice dev)
{
    uint32_t i;

    spin_lock(&greens_lock);
    i = green_find(NULL);
    if (i < GREENS) {
        atomic_store(&greens[i].dev, dev);
        atomic_store(&greens[i].ctx, (uintptr_t)ctx);
        atomic_store(&greens[i].green, (uintptr_t)green);
    }
    spin_unlock(&greens_lock);
    atomic_store(&greens_seen, 1);
    if (i == GREENS)
        COUNT_ADD(unknown, 1);
}

/* The GPU of the green context that this one stands for; -1: for none. */
static int green_dev(CUcontext ctx)
{
    for (uint32_t i = 0; ctx && i < GREENS; i++)
        if (atomic_load(&greens[i].ctx) == (uintptr_t)ctx && atomic_load(&greens[i].green))
            return atomic_load(&greens[i].dev);
    return -1;
}

bool green_stands(CUcontext ctx)
{
    return unlikely(atomic_load_explicit(&greens_seen, memory_order_relaxed)) && green_dev(ctx) >= 0;
}

CUcontext green_own(CUcontext ctx)
{
    int dev = likely(!atomic_load_explicit(&greens_seen, memory_order_relaxed)) ? -1 : green_dev(ctx);

    return dev < 0 ? ctx : enter_primary_of(dev);
}

CUcontext green_stream(CUstream stream)
{
    CUgreenCtx green = NULL;
    uint32_t i = GREENS;

    if (atomic_load(&greens_seen) && HAVE(cuStreamGetGreenCtx) &&
        REAL(cuStreamGetGreenCtx)(stream, &green) == CUDA_SUCCESS && green)
        i = green_find(green);
    return i < GREENS ? enter_primary_of(atomic_load(&greens[i].dev)) : NULL;
}

CUresult cuGreenCtxCreate(CUgreenCtx *ctx, void *desc, CUdevice dev, unsigned int flags)
{
    bool on = shim_ready();
    CUresult r;

    NO_DRIVER(cuGreenCtxCreate);
    r = REAL(cuGreenCtxCreate)(ctx, desc, dev, flags);
    if (!on || r != CUDA_SUCCESS || !ctx || dev < 0 || dev >= PAGE_GPUS)
        return r;
    COUNT_ADD(tracked, 1);
    enter_primary(dev);
    green_put(*ctx, NULL, dev);
    return r;
}

CUresult cuCtxFromGreenCtx(CUcontext *ctx, CUgreenCtx green)
{
    bool on = shim_ready();
    uint32_t i;
    CUresult r;

    NO_DRIVER(cuCtxFromGreenCtx);
    r = REAL(cuCtxFromGreenCtx)(ctx, green);
    if (!on || r != CUDA_SUCCESS || !ctx || !green)
        return r;
    i = green_find(green);
    if (i < GREENS)
        atomic_store(&greens[i].ctx, (uintptr_t)*ctx);
    return r;
}

/* It may have been the last to keep the GPU's own context: so it meets no move, as nothing does that ends one. */
CUresult cuGreenCtxDestroy(CUgreenCtx ctx)
{
    struct submit submit;
    bool on = shim_ready();
    uintptr_t stands = 0;
    CUresult r;
    int dev = -1;
    uint32_t i;

    NO_DRIVER(cuGreenCtxDestroy);
    if (!on || !ctx)
        return REAL(cuGreenCtxDestroy)(ctx);
    COUNT_ADD(tracked, 1);
    submit_enter(&submit, SUBMIT_MEMORY, 0, NULL);
    i = green_find(ctx);
    if (i < GREENS) { /* before another may be made at its address */
        dev = atomic_load(&greens[i].dev);
        stands = atomic_exchange(&greens[i].ctx, 0);
        atomic_store(&greens[i].green, 0);
    }
    r = REAL(cuGreenCtxDestroy)(ctx);
    if (r == CUDA_SUCCESS)
        for (int k = 0; k < PAGE_GPUS; k++)
            enter_primary_look(k);
    else if (dev >= 0)
        green_put(ctx, (CUcontext)stands, dev);
    submit_leave(&submit, CUDA_ERROR_NOT_READY);
    return r;
}
