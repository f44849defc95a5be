/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c - wrappers made from the table alone: copies, fills, and calls that are only counted.
 *
 * Copies are not gated in HARVEST (copy engines have groups of their own); they wait while the job is paused or its
 * memory is being moved, and tell the guaranteed job's idle detection that a stream is busy.
 */
#include "shim/gate/bulk.h"
#include "shim/shim.h"

#define SYNC ((CUstream)(uintptr_t)-1)

static void copy_enter(struct submit *submit, CUstream stream, uint64_t bytes)
{
    submit_enter(submit, SUBMIT_COPY, 0, stream == SYNC ? NULL : stream);
    if (unlikely(submit->captured))
        return;
    __atomic_fetch_add(&submit->stripe->copies, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&submit->stripe->bytes_copied, bytes, __ATOMIC_RELAXED);
}

static void copy_leave(struct submit *submit, CUstream stream, CUresult r)
{
    submit_leave(submit, r);
    /* A synchronous copy waits for itself only; its slot is complete as far as this thread can tell. */
    if (stream == SYNC && shim.role == ROLE_GUARANTEED)
        rg_synced(NULL, rg_mark(NULL));
}

/* ---- large copies between host and GPU: bulk.h */

/* Into what a copy is cut. Inside a capture it is recorded as it is. */
static size_t bulk_piece(const struct submit *submit, size_t bytes)
{
    const struct arena *arena;

    if (likely(bytes <= BULK_LARGE) || submit->captured)
        return bytes;
    if (shim.split)
        return BULK_PIECE;
    arena = shim.role == ROLE_OPPORTUNISTIC ? arena_mine() : NULL;
    return arena && __atomic_load_n(&arena->rg_copy_slow, __ATOMIC_RELAXED) ? BULK_PIECE : bytes;
}

static void bulk_took(uint64_t bytes, uint64_t ns)
{
    static struct bulk_book book;
    static _Atomic uint64_t busy;
    struct arena *arena = arena_mine();

    if (!arena || !flag_try(&busy)) /* another thread's copy tells as much */
        return;
    __atomic_store_n(&arena->rg_copy_slow,
                     bulk_learn(&book, bytes, ns, __atomic_load_n(&arena->ot_count, __ATOMIC_RELAXED) != 0),
                     __ATOMIC_RELAXED);
    flag_end(&busy);
}

static uint64_t launches_mine(void)
{
    return __atomic_load_n(&counters_mine()->launches, __ATOMIC_RELAXED); /* others of the stripe count there too */
}

static void bulk_begin(const struct submit *submit, size_t bytes, CUstream stream)
{
    if (likely(bytes < BULK_LEAST) || shim.role != ROLE_GUARANTEED || submit->captured)
        return;
    shim_thread.copy_ns = clock_ns();
    shim_thread.copy_bytes = bytes;
    shim_thread.copy_stream = (uintptr_t)stream;
    shim_thread.copy_launches = launches_mine();
}

void bulk_waited(const void *stream)
{
    if (shim_thread.copy_bytes && shim_thread.copy_stream == (uintptr_t)stream &&
        shim_thread.copy_launches == launches_mine())
        bulk_took(shim_thread.copy_bytes, clock_ns() - shim_thread.copy_ns);
    shim_thread.copy_bytes = 0;
}

#define BULK(name, params, stream_, call)                                                                              \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        size_t at = 0, part = n;                                                                                       \
        struct submit submit;                                                                                          \
        CUresult r;                                                                                                    \
                                                                                                                       \
        if (likely(!shim_ready())) {                                                                                   \
            if (unlikely(!HAVE(name)))                                                                                 \
                return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;                                                           \
            return REAL(name) call;                                                                                    \
        }                                                                                                              \
        copy_enter(&submit, stream_, n);                                                                               \
        bulk_begin(&submit, n, stream_);                                                                               \
        do {                                                                                                           \
            part = bulk_piece(&submit, n) < n - at ? bulk_piece(&submit, n) : n - at;                                  \
            r = REAL(name) call;                                                                                       \
            at += part;                                                                                                \
        } while (r == CUDA_SUCCESS && at < n);                                                                         \
        copy_leave(&submit, stream_, r);                                                                               \
        if (stream_ == SYNC && unlikely(shim_thread.copy_bytes))                                                       \
            bulk_waited(SYNC);                                                                                         \
        return r;                                                                                                      \
    }
#define HOST(pointer) ((char *)(uintptr_t)(pointer) + at)
BULK(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t n), SYNC, (dst + at, HOST(src), part))
BULK(cuMemcpyHtoD_v2_ptds, (CUdeviceptr dst, const void *src, size_t n), SYNC, (dst + at, HOST(src), part))
BULK(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t n, CUstream stream), stream,
     (dst + at, HOST(src), part, stream))
BULK(cuMemcpyHtoDAsync_v2_ptsz, (CUdeviceptr dst, const void *src, size_t n, CUstream stream), stream,
     (dst + at, HOST(src), part, stream))
BULK(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t n), SYNC, (HOST(dst), src + at, part))
BULK(cuMemcpyDtoH_v2_ptds, (void *dst, CUdeviceptr src, size_t n), SYNC, (HOST(dst), src + at, part))
BULK(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t n, CUstream stream), stream,
     (HOST(dst), src + at, part, stream))
BULK(cuMemcpyDtoHAsync_v2_ptsz, (void *dst, CUdeviceptr src, size_t n, CUstream stream), stream,
     (HOST(dst), src + at, part, stream))

/* ---- all others */

#define HOOK_COPY(name, group, act, params, args, stream_, bytes_)                                                     \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        struct submit submit;                                                                                          \
        CUresult r;                                                                                                    \
                                                                                                                       \
        if (likely(!shim_ready())) {                                                                                   \
            if (unlikely(!HAVE(name)))                                                                                 \
                return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;                                                           \
            return REAL(name) args;                                                                                    \
        }                                                                                                              \
        copy_enter(&submit, stream_, bytes_);                                                                          \
        r = REAL(name) args;                                                                                           \
        copy_leave(&submit, stream_, r);                                                                               \
        return r;                                                                                                      \
    }
#define HOOK_TRACK(name, group, act, params, args)                                                                     \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        if (shim_ready())                                                                                              \
            COUNT_ADD(tracked, 1);                                                                                     \
        if (unlikely(!HAVE(name)))                                                                                     \
            return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;                                                               \
        return REAL(name) args;                                                                                        \
    }
#define HOOK_SPECIAL(name, group, act, params, args)
#include "shim/hooks.def"
