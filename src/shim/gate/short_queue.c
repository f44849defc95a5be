/* SPDX-License-Identifier: Apache-2.0 */
/* short_queue.c - a short queue.
 *
 * Memory moves only when the device is quiet, so whatever is in flight is waited for. A framework runs a whole step
 * ahead of the GPU; with part of the memory in host memory that is seconds. So while a move is coming, and as long as
 * anything lies in host memory, a launch first waits until all but the last few have completed. The GPU stays busy, and
 * a move begins within a few kernels.
 *
 * Work in flight may wait for what the program does after this launch. So no launch waits longer than at a gate, and
 * when one has, none does for a minute: such a program loses a thirtieth of its time, not all of it.
 */
#include "shim/gate/admit.h"
#include "shim/shim.h"

#define SLOTS 4u                /* an event after every second launch: at most eight in flight */
#define SPIN_NS (2 * NSEC_MSEC) /* as the driver's own wait does: the next kernels may be short */
#define OFF_NS (60 * NSEC_SEC)

static struct {
    struct own_event own;
    _Atomic uint32_t state; /* 0 free, 1 being used, 2 recorded */
} slots[SLOTS];
static _Atomic uint32_t turn, moving;
static _Atomic uint64_t off_until;

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

static bool event_wait(CUevent event)
{
    uint64_t start = clock_ns(), now;

    while (REAL(cuEventQuery)(event) == CUDA_ERROR_NOT_READY) {
        now = clock_ns();
        if (now - start > ADMIT_G_MAX_NS)
            return false;
        if (now - start > SPIN_NS)
            nap_ns(30 * NSEC_USEC);
    }
    return true;
}

void brief_wait(void)
{
    uint32_t at = atomic_load(&turn) / 2 % SLOTS, recorded = 2, left = shim_thread.brief_slot;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    int mode;

    if (left && frame_left(shim_thread.brief_at, here, thread_own())) { /* it jumped out of that wait */
        shim_thread.brief_slot = 0;
        atomic_store(&slots[left - 1].state, 0);
    }
    if (!HAVE(cuEventQuery) || clock_ns() < atomic_load(&off_until) ||
        !atomic_compare_exchange_strong(&slots[at].state, &recorded, 1))
        return;
    shim_thread.brief_at = here;
    shim_thread.brief_slot = at + 1;
    if (capture_own_begin(&mode)) {
        bool ended = event_wait(slots[at].own.event);

        capture_own_end(mode);
        if (!ended) {
            atomic_store(&off_until, clock_ns() + OFF_NS);
            COUNT_ADD(fail_open, 1);
        }
    }
    shim_thread.brief_slot = 0;
    atomic_store(&slots[at].state, 0);
}

void brief_mark(CUstream stream)
{
    uint32_t n = atomic_fetch_add(&turn, 1), at = n / 2 % SLOTS, idle = 0;

    if (n % 2 == 0 || !HAVE(cuEventCreate) || !HAVE(cuEventRecord) || (capture_any() && capture_into(stream)) ||
        !atomic_compare_exchange_strong(&slots[at].state, &idle, 1))
        return;
    if (event_record(&slots[at].own, stream, CU_EVENT_DISABLE_TIMING))
        atomic_store(&slots[at].state, 2);
    else
        atomic_store(&slots[at].state, 0);
}
