/* SPDX-License-Identifier: Apache-2.0 */
/* waiter.c - the second thread of ours, which waits for the GPU so that the helper and the program need not.
 *
 * A wait of the driver's has no deadline, and work in flight may wait for what the program does next: a kernel that
 * polls a flag, a stream that waits for a value. While memory moves the program's next call is held, so a wait that
 * nobody bounds would never end. The helper therefore has this thread wait for the context and takes its answer, or
 * gives the move up at its deadline. Then this thread stays inside until the driver returns, and whoever wants another
 * wait is told at once.
 *
 * Of a move under way it looks after the waits for copies, which the helper makes itself: hundreds an order, and a
 * hand-over each would cost more than they do. One that has not ended for twenty looks is given up on while the helper
 * is still inside: submissions go on, and the helper finds out when the driver returns. That is only right while the
 * program's addresses all show its memory; where some of it is away, nobody asks for it.
 */
#include <errno.h>

#include "shim/shim.h"

#define IDLE_NS (3600 * NSEC_SEC)
#define LOOK_NS NSEC_SEC
#define LOOKS 20u /* of its own time: one that was stopped for a while gives nothing up for that */

enum { WATCH_NONE, WATCH_WORKS, WATCH_WAITS, WATCH_OVER, WATCH_KINDS };

static _Atomic uint32_t asked, answered; /* futexes: how often somebody wanted a wait, and how many have ended */
static _Atomic uint32_t started;
static _Atomic uint32_t watched; /* WATCH_* and, times WATCH_KINDS, which wait it is */
static CUcontext context;        /* of the wait asked for */
static CUresult result;

/* The helper has been in the same wait for too long: what it holds goes on without it. */
static void watch(uint32_t seen)
{
    uint32_t word, last = 0, looks = 0;

    while ((word = atomic_load(&watched)) % WATCH_KINDS != WATCH_NONE && atomic_load(&asked) == seen) {
        looks = word == last && word % WATCH_KINDS == WATCH_WAITS ? looks + 1 : 0;
        last = word;
        if (looks >= LOOKS && atomic_compare_exchange_strong(&watched, &word, WATCH_OVER)) {
            shim_note("a copy did not end within %u s: the move was given up; look at the GPU, or end the program",
                      LOOKS);
            __atomic_store_n(&shim.page->health.state, STATE_RUNNING, __ATOMIC_RELEASE);
            gate_release();
            return;
        }
        (void)futex_wait(&asked, seen, LOOK_NS);
    }
}

static void *waiter_main(void *arg)
{
    uint32_t seen = atomic_load(&answered);
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    (void)arg;
    shim_thread.depth = 1; /* whatever it calls is the driver's own */
    shim_thread.depth_at = UINTPTR_MAX;
    if (HAVE(cuThreadExchangeStreamCaptureMode)) /* what it waits for is no part of anybody's capture */
        (void)REAL(cuThreadExchangeStreamCaptureMode)(&mode);
    while (!atomic_load(&shim.stopping)) {
        watch(seen);
        if (atomic_load(&asked) == seen) {
            (void)futex_wait(&asked, seen, IDLE_NS);
            continue;
        }
        result = REAL(cuCtxSetCurrent)(context);
        if (result == CUDA_SUCCESS)
            result = REAL(cuCtxSynchronize)();
        atomic_store(&answered, ++seen);
        futex_wake(&answered);
    }
    return NULL;
}

bool waiter_inside(void)
{
    return atomic_load(&asked) != atomic_load(&answered);
}

int waiter_sync(CUcontext ctx, uint64_t until_ns, CUresult *ret)
{
    uint32_t seen = atomic_load(&answered), no = 0;
    uint64_t now;

    if (waiter_inside())
        return -EBUSY;
    if (atomic_compare_exchange_strong(&started, &no, 1) && !helper_thread(waiter_main)) {
        atomic_store(&started, 0);
        return -EAGAIN;
    }
    context = ctx;
    atomic_store(&asked, seen + 1);
    futex_wake(&asked);
    while (waiter_inside() && (now = clock_ns()) < until_ns)
        (void)futex_wait(&answered, seen, until_ns - now);
    if (waiter_inside())
        return -ETIMEDOUT;
    *ret = result;
    return 0;
}

void watch_begin(void)
{
    atomic_store(&watched, WATCH_WORKS);
}

void watch_end(void)
{
    atomic_store(&watched, WATCH_NONE);
}

void watch_wait(void)
{
    static uint32_t number;
    uint32_t works = WATCH_WORKS;

    (void)atomic_compare_exchange_strong(&watched, &works, ++number * WATCH_KINDS + WATCH_WAITS);
}

bool watch_waited(void)
{
    uint32_t word = atomic_load(&watched);

    if (word % WATCH_KINDS != WATCH_WAITS)
        return word != WATCH_OVER;
    return atomic_compare_exchange_strong(&watched, &word, WATCH_WORKS);
}

void waiter_forked(void)
{
    atomic_store(&started, 0);
    atomic_store(&asked, atomic_load(&answered));
    atomic_store(&watched, WATCH_NONE);
}
