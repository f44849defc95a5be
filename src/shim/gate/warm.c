/* SPDX-License-Identifier: Apache-2.0 */
/* warm.c - the guaranteed job's context comes back before its gap ends.
 *
 * A GPU that changes hands needs a tenth of a millisecond and more for it, and the guaranteed job would pay for that
 * with every step. So when its neighbour has nothing left in flight and nothing more that fits into this gap, it says
 * so in the page of the GPU's neighbours, and the guaranteed job's helper fills four bytes of its own: the hand-over is
 * done while the job is still away. Only then: a fill while a neighbour's kernels run would cost two hand-overs instead
 * of one.
 *
 * The page is the neighbours' to write, and all that a wrong word in it can do is one fill a gap. MUSTER_GPU_WARM=0
 * turns it off.
 */
#include "shim/gate/bulk.h"
#include "shim/shim.h"

#define WAIT_NS NSEC_MSEC
#define IN_TIME_NS (150 * NSEC_USEC) /* before a burst: to be told and to change hands */

static _Atomic uint64_t done_ns; /* when a neighbour said so last */
static uint64_t warmed;          /* the gap that was seen to, by its number; the helper's alone */

static struct beside *beside_mine(void)
{
    for (int i = 0; i < PAGE_GPUS; i++) /* of the GPU whose arena is arena_mine() */
        if (__atomic_load_n(&shim.arena[i], __ATOMIC_ACQUIRE))
            return __atomic_load_n(&shim.beside[i], __ATOMIC_ACQUIRE);
    return NULL;
}

void warm_done(const struct arena *arena)
{
    struct beside *beside = beside_mine();
    uint32_t gap = (uint32_t)__atomic_load_n(&arena->rg_bursts, __ATOMIC_RELAXED);

    if (!beside || shim.role != ROLE_OPPORTUNISTIC || __atomic_load_n(&beside->done_gap, __ATOMIC_RELAXED) == gap)
        return;
    atomic_store(&done_ns, clock_ns());
    __atomic_store_n(&beside->done_gap, gap, __ATOMIC_RELEASE);
    futex_wake((_Atomic uint32_t *)&beside->done_gap);
}

void warm_burst(const struct arena *arena)
{
    static _Atomic uint64_t seen;
    uint64_t burst = __atomic_load_n(&arena->rg_bursts, __ATOMIC_RELAXED);
    uint64_t begun = __atomic_load_n(&arena->rg_since_ns, __ATOMIC_RELAXED), done = atomic_load(&done_ns);

    if (atomic_exchange(&seen, burst) == burst)
        return;
    fence_poll();
    COUNT_ADD(gaps, 1);
    if (fence_inflight_us() || (done < begun && begun - done < IN_TIME_NS))
        COUNT_ADD(gaps_late, 1);
}

bool warm_paired(void)
{
    struct arena *arena = shim.role == ROLE_GUARANTEED && shim.warm ? arena_mine() : NULL;

    return arena && beside_mine() && __atomic_load_n(&arena->ot_count, __ATOMIC_RELAXED);
}

bool warm_wanted(void)
{
    struct arena *arena = warm_paired() ? arena_mine() : NULL;

    return arena && __atomic_load_n(&arena->rg_state, __ATOMIC_RELAXED) == RG_IDLE &&
           __atomic_load_n(&arena->gap_pred_us, __ATOMIC_RELAXED) >
               __atomic_load_n(&arena->gap_floor_us, __ATOMIC_RELAXED) &&
           warmed != __atomic_load_n(&arena->rg_bursts, __ATOMIC_RELAXED);
}

static void fill(void)
{
    static CUdeviceptr word;
    static CUstream stream;
    static uint32_t made_in; /* the number of the context both are of */
    uint32_t context = context_stream(NULL);

    if (atomic_load(&shim.captures) || atomic_load(&shim.hold) || !HAVE(cuMemsetD8Async) || !HAVE(cuMemAlloc_v2) ||
        !HAVE(cuStreamCreate) || shim.page->health.state != STATE_RUNNING)
        return;
    if (made_in != context) {
        word = 0;
        stream = NULL;
        made_in = context;
    }
    if (!word && REAL(cuMemAlloc_v2)(&word, 256) != CUDA_SUCCESS)
        return;
    if (!stream && REAL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return;
    if (REAL(cuMemsetD8Async)(word, 0, 4, stream) == CUDA_SUCCESS)
        COUNT_ADD(warmed, 1);
}

void warm_turn(void)
{
    struct arena *arena = arena_mine();
    struct beside *beside = beside_mine();
    uint64_t gap = arena ? __atomic_load_n(&arena->rg_bursts, __ATOMIC_RELAXED) : 0;
    uint32_t done = beside ? __atomic_load_n(&beside->done_gap, __ATOMIC_ACQUIRE) : 0;

    if (!arena || !beside)
        return;
    if (done != (uint32_t)gap) {
        futex_wait((_Atomic uint32_t *)&beside->done_gap, done, WAIT_NS);
        return;
    }
    warmed = gap;
    if (__atomic_load_n(&arena->rg_state, __ATOMIC_ACQUIRE) == RG_IDLE)
        fill();
}
