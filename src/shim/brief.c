/* SPDX-License-Identifier: Apache-2.0 */
/* brief.c - a short queue.
 *
 * Memory moves only when the device is quiet, so whatever is in flight is waited for. A framework runs a whole step
 * ahead of the GPU; with part of the memory in host memory that is seconds. So while a move is coming, and as long as
 * anything lies in host memory, a launch first waits until all but the last few have completed. The GPU stays busy, and
 * a move begins within a few kernels.
 */
#include "shim/shim.h"

#define SLOTS 4u /* an event after every second launch: at most eight in flight */

static struct {
    CUevent event;
    _Atomic uint32_t state; /* 0 free, 1 being used, 2 recorded */
} slots[SLOTS];
static _Atomic uint32_t turn, moving;

void brief_set(bool on)
{
    bool host = false;

    if (on)
        atomic_fetch_add(&moving, 1);
    for (int i = 0; i < PAGE_GPUS; i++)
        host |= __atomic_load_n(&shim.page->memory[i].host_backed, __ATOMIC_RELAXED) != 0;
    if (!on && atomic_load(&moving))
        atomic_fetch_sub(&moving, 1);
    if (host || atomic_load(&moving))
        atomic_fetch_or(&shim.hold, HOLD_SHORT);
    else
        atomic_fetch_and(&shim.hold, ~HOLD_SHORT);
}

void brief_wait(void)
{
    uint32_t at = atomic_load(&turn) / 2 % SLOTS, recorded = 2, left = shim_thread.brief_slot;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    if (left && frame_left(shim_thread.brief_at, here, thread_own())) { /* it jumped out of that wait */
        shim_thread.brief_slot = 0;
        atomic_store(&slots[left - 1].state, 0);
    }
    if (!HAVE(cuEventSynchronize) || !atomic_compare_exchange_strong(&slots[at].state, &recorded, 1))
        return;
    shim_thread.brief_at = here;
    shim_thread.brief_slot = at + 1;
    (void)REAL(cuEventSynchronize)(slots[at].event); /* ends when the GPU does, as the program's own waits */
    shim_thread.brief_slot = 0;
    atomic_store(&slots[at].state, 0);
}

void brief_mark(CUstream stream)
{
    uint32_t n = atomic_fetch_add(&turn, 1), at = n / 2 % SLOTS, idle = 0;
    CUevent *event = &slots[at].event;

    if (n % 2 == 0 || !HAVE(cuEventCreate) || !HAVE(cuEventRecord) ||
        !atomic_compare_exchange_strong(&slots[at].state, &idle, 1))
        return;
    if ((*event || REAL(cuEventCreate)(event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) &&
        REAL(cuEventRecord)(*event, stream) == CUDA_SUCCESS)
        atomic_store(&slots[at].state, 2);
    else
        atomic_store(&slots[at].state, 0);
}
