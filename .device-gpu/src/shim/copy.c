/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c - wrappers made from the table alone: copies, fills, and calls that are only counted.
 *
 * Copies are not gated in HARVEST (copy engines have groups of their own); they wait while the job is paused or its
 * memory is being moved, and tell the guaranteed job's idle detection that a stream is busy.
 */
#include "shim/shim.h"

#define SYNC ((CUstream)(uintptr_t)-1)

static void copy_enter(struct submit *submit, CUstream stream, uint64_t bytes)
{
    submit_enter(submit, SUBMIT_COPY, 0, stream == SYNC ? NULL : stream);
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
