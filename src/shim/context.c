/* SPDX-License-Identifier: Apache-2.0 */
/* context.c - the contexts of the process, each with a number that no other ever has.
 *
 * An event can be recorded on a stream of its own context alone, and a context may go, and another come at the same
 * address. So whatever we make in one is kept with the number of it, and made anew where that is another. Where there
 * is one context, as in nearly every program, the number is one word and no driver is asked.
 */
#include "shim/shim.h"

#define CONTEXTS 64u

static struct {
    _Atomic uintptr_t ctx; /* 0 = free */
    _Atomic uint32_t number;
    _Atomic int gpu;
} known[CONTEXTS];
static _Atomic uint32_t context_lock, context_only, context_lost;
static uint32_t numbers;

/* The number of the only one there is; 0: there are several, or none. Under the lock. */
static void only_find(void)
{
    uint32_t n = 0, number = 0;

    for (uint32_t i = 0; i < CONTEXTS; i++)
        if (atomic_load(&known[i].ctx)) {
            n++;
            number = atomic_load(&known[i].number);
        }
    atomic_store(&context_only, n == 1 && !atomic_load(&context_lost) ? number : 0);
}

static uint32_t find(CUcontext ctx)
{
    ctx = green_own(ctx);
    for (uint32_t i = 0; ctx && i < CONTEXTS; i++)
        if (atomic_load(&known[i].ctx) == (uintptr_t)ctx)
            return i;
    return CONTEXTS;
}

bool context_put(CUcontext ctx, int gpu)
{
    bool fresh;
    uint32_t i;

    if (find(ctx) < CONTEXTS)
        return false;
    spin_lock(&context_lock);
    fresh = find(ctx) == CONTEXTS;
    for (i = 0; fresh && i < CONTEXTS && atomic_load(&known[i].ctx); i++)
        ;
    if (fresh && i < CONTEXTS) {
        atomic_store(&known[i].gpu, gpu);
        atomic_store(&known[i].number, ++numbers);
        atomic_store(&known[i].ctx, (uintptr_t)ctx);
    } else if (fresh) {
        atomic_store(&context_lost, 1);
    }
    only_find();
    spin_unlock(&context_lock);
    return fresh;
}

uint32_t context_drop(CUcontext ctx, int *ret_gpu)
{
    uint32_t i, number = 0;

    spin_lock(&context_lock);
    i = find(ctx);
    if (i < CONTEXTS) {
        number = atomic_load(&known[i].number);
        *ret_gpu = atomic_load(&known[i].gpu);
        atomic_store(&known[i].number, 0);
        atomic_store(&known[i].ctx, 0);
    }
    only_find();
    spin_unlock(&context_lock);
    return number;
}

CUcontext context_next(int gpu, uint32_t *i)
{
    while (*i < CONTEXTS) {
        uintptr_t ctx = atomic_load(&known[*i].ctx);
        int of = atomic_load(&known[(*i)++].gpu);

        if (ctx && (gpu < 0 || of == gpu))
            return (CUcontext)ctx;
    }
    return NULL;
}

bool context_all(void)
{
    return atomic_load(&context_lost) == 0;
}

int context_gpu(CUcontext ctx)
{
    uint32_t i = find(ctx);

    return i < CONTEXTS ? atomic_load(&known[i].gpu) : -1;
}

uint32_t context_number(CUcontext ctx)
{
    uint32_t i = find(ctx);

    return i < CONTEXTS ? atomic_load(&known[i].number) : 0;
}

static bool alive(uint32_t number)
{
    for (uint32_t i = 0; number && i < CONTEXTS; i++)
        if (atomic_load(&known[i].number) == number)
            return true;
    return false;
}

CUcontext context_of(CUstream stream)
{
    CUcontext ctx = NULL;

    if ((uintptr_t)stream <= 2 || !HAVE(cuStreamGetCtx))
        return HAVE(cuCtxGetCurrent) && REAL(cuCtxGetCurrent)(&ctx) == CUDA_SUCCESS ? green_own(ctx) : NULL;
    if (REAL(cuStreamGetCtx)(stream, &ctx) == CUDA_SUCCESS && ctx)
        return green_own(ctx);
    return green_stream(stream); /* of which a driver may not tell */
}

uint32_t context_stream(CUstream stream)
{
    uint32_t only = atomic_load_explicit(&context_only, memory_order_relaxed);

    return likely(only) ? only : context_number(context_of(stream));
}

void event_forget(struct own_event *own)
{
    CUevent event = own->event;

    own->event = NULL;
    if (event && alive(own->context) && HAVE(cuEventDestroy_v2))
        (void)REAL(cuEventDestroy_v2)(event);
}

/* An event is made in the context that is current. */
static bool event_make(struct own_event *own, CUstream stream, unsigned int flags)
{
    CUcontext mine = NULL, now = NULL;
    CUresult r;

    if (likely(atomic_load(&context_only))) {
        r = REAL(cuEventCreate)(&own->event, flags);
    } else {
        mine = context_of(stream);
        if (!HAVE(cuCtxGetCurrent) || !HAVE(cuCtxSetCurrent) || REAL(cuCtxGetCurrent)(&now) != CUDA_SUCCESS ||
            (mine != green_own(now) && REAL(cuCtxSetCurrent)(mine) != CUDA_SUCCESS))
            return false;
        r = REAL(cuEventCreate)(&own->event, flags);
        if (mine != green_own(now))
            (void)REAL(cuCtxSetCurrent)(now);
    }
    if (r != CUDA_SUCCESS)
        own->event = NULL;
    return r == CUDA_SUCCESS;
}

bool event_record(struct own_event *own, CUstream stream, unsigned int flags)
{
    uint32_t context = context_stream(stream);

    for (int tries = 0; context && tries < 2; tries++) {
        if (own->event && own->context != context)
            event_forget(own);
        atomic_store_explicit(&own->context, context, memory_order_relaxed);
        if (!own->event && (!HAVE(cuEventCreate) || !event_make(own, stream, flags)))
            return false;
        if (REAL(cuEventRecord)(own->event, stream) == CUDA_SUCCESS)
            return true;
        event_forget(own);
    }
    return false;
}
