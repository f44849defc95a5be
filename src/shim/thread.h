/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* thread.h - what a thread knows of itself; included by shim.h, whose words it uses. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/inside.h"

/* Per-thread state; `depth` notices a wrapper re-entered on the same thread. */
struct shim_thread {
    struct inside *inside; /* NULL until its first call */
    uint32_t depth, stripe;
    uint32_t precise;
    int32_t tid;           /* 0 until it begins a capture */
    uint32_t locks, light; /* of ours that it holds; of those, whether it is in one of the other kind */
    _Atomic uint32_t *light_lock;
    uintptr_t light_at, depth_at, brief_at,
        locks_at;        /* frames in which it took that lock, went deeper, or waits: see inside.h */
    uint32_t brief_slot; /* 1 + what it waits for */
    uint64_t signals;    /* that were blocked before the first */
    uint64_t refused_ns, refused_bytes, asked_ns;
    uint64_t copy_ns, copy_bytes, copy_launches, copy_stream; /* the last large copy: bulk.h */
};
extern TLS struct shim_thread shim_thread;

/* Is the thread in a wrapper already? Not if it has jumped out of it. */
static inline bool thread_deeper(void)
{
    if (likely(!shim_thread.depth))
        return false;
    if (!frame_gone(shim_thread.depth_at, MARK_HOLD, (uintptr_t)__builtin_frame_address(0)))
        return true;
    shim_thread.depth = 0;
    return false;
}

static inline void thread_enter(struct inside_mark *mark)
{
    frame_mark(mark, MARK_HOLD);
    shim_thread.depth_at = (uintptr_t)mark;
    shim_thread.depth = 1;
}
