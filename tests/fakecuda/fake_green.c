/* SPDX-License-Identifier: Apache-2.0 */
/* fake_green.c - green contexts: each keeps the context of its GPU, waits for which wait for it too. One that is
 * current to a thread cannot become so to another. */
#include <stdatomic.h>
#include <stdlib.h>

#include "fake.h"

struct CUgreenCtx_st {
    struct CUctx_st ctx;
};
static _Atomic uint64_t clashes;

FAKE_API CUresult cuGreenCtxCreate(CUgreenCtx *green, void *desc, CUdevice dev, unsigned int flags)
{
    (void)desc, (void)flags;
    FAKE_ENTER(cuGreenCtxCreate);
    if (dev < 0 || dev >= fake_device_count())
        return 101;
    *green = calloc(1, sizeof(**green));
    (*green)->ctx.dev = dev;
    (*green)->ctx.of = fake_primary_retain(dev);
    return 0;
}

FAKE_API CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    FAKE_ENTER(cuGreenCtxDestroy);
    fake_wait(green->ctx.last_seq);
    return fake_primary_release(green->ctx.dev); /* what is left of it is not used again */
}

FAKE_API CUresult cuCtxFromGreenCtx(CUcontext *ctx, CUgreenCtx green)
{
    FAKE_ENTER(cuCtxFromGreenCtx);
    *ctx = &green->ctx;
    return 0;
}

FAKE_API CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned int flags, int priority)
{
    (void)flags, (void)priority;
    FAKE_ENTER(cuGreenCtxStreamCreate);
    *stream = calloc(1, sizeof(**stream));
    (*stream)->apart = (*stream)->green = true;
    (*stream)->dev = green->ctx.dev;
    (*stream)->ctx = &green->ctx;
    return 0;
}

FAKE_API CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *green);
FAKE_API CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *green)
{
    *green = (uintptr_t)stream > 2 && stream->ctx && stream->ctx->of ? (CUgreenCtx)stream->ctx : NULL;
    return 0;
}

bool fake_green_current(CUcontext from, CUcontext to)
{
    const void *none = NULL, *mine = &fake_inside;

    if (from == to)
        return true;
    if (to && to->of && !atomic_compare_exchange_strong(&to->thread_of, &none, mine)) {
        clashes++;
        return false;
    }
    if (from && from->of)
        from->thread_of = NULL;
    return true;
}

FAKE_API uint64_t fake_green_clashes(void)
{
    return clashes;
}
