/* SPDX-License-Identifier: Apache-2.0 */
/* capture.c - see capture.h.
 *
 * A capture is over when the driver says so: an end that fails because it was asked of another stream, or by another
 * thread than may, ends nothing. What is never ended ends with its stream, its context or its thread: otherwise nothing
 * would be moved any more in this process.
 *
 * Calls of ours and the beginning of a capture are Dekker's pattern again: whoever calls counts itself in `own`, then
 * looks at `captures`; a capture is counted first, and then waits until nobody is in a call that did not see it. Not
 * for long: after that time a call is in the driver, which has looked already. So a handler that jumped out of such a
 * call costs the captures after it that time and no more.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/shim.h"

#define MOST 64u /* more than these at a time are counted, and have to be ended */
#define OWN_NS (2 * NSEC_MSEC)
#define ALONE_NS (60 * NSEC_SEC) /* one in the relaxed mode may be ended by another thread than began it */
#define NO_MODE (-1)

enum { FREE, CLAIMED, LIVE, STATES };

static struct {
    _Atomic uint32_t word; /* its state, and STATES times how often it was used: another capture is another word */
    _Atomic uintptr_t stream;
    _Atomic int32_t tid;
    _Atomic(CUcontext) ctx;
    _Atomic int mode;
    _Atomic uint64_t alone_ns; /* since when its thread is known to be gone; the helper's */
} captures[MOST];
static _Atomic uint32_t beyond; /* those that found no room */
static _Atomic uint32_t own;

static int32_t tid_mine(void)
{
    if (!shim_thread.tid)
        shim_thread.tid = (int32_t)syscall(SYS_gettid);
    return shim_thread.tid;
}

static bool stream_captures(CUstream stream)
{
    int status = 0;

    return REAL(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* The null stream is the legacy one or the thread's own, as the function that was called takes it. The legacy one never
 * captures; while a stream that waits for it does, whatever is submitted to it is an error, and asking says so. Our
 * events of either would go to the legacy one. */
bool capture_into(CUstream stream)
{
    if (!HAVE(cuStreamIsCapturing) || !HAVE(cuThreadExchangeStreamCaptureMode))
        return true; /* nobody can tell, or nobody may ask whether work is complete: none of it is held up */
    return stream_captures(stream) || (!stream && stream_captures(CU_STREAM_PER_THREAD));
}

bool capture_mine(void)
{
    for (uint32_t i = 0; i < MOST && shim_thread.tid; i++)
        if (atomic_load(&captures[i].word) % STATES == LIVE && atomic_load(&captures[i].tid) == shim_thread.tid)
            return true;
    return false;
}

void capture_begin(struct inside_mark *mark)
{
    uint64_t until = clock_ns() + OWN_NS;

    signals_hold(mark);
    atomic_fetch_add(&shim.captures, 1);
    while (atomic_load(&own) && clock_ns() < until)
        nap_ns(20 * NSEC_USEC);
}

static void capture_note(CUstream stream, int mode)
{
    CUcontext ctx = NULL;

    if (HAVE(cuCtxGetCurrent))
        (void)REAL(cuCtxGetCurrent)(&ctx);
    for (uint32_t i = 0; i < MOST; i++) {
        uint32_t word = atomic_load(&captures[i].word);

        if (word % STATES != FREE || !atomic_compare_exchange_strong(&captures[i].word, &word, word + CLAIMED))
            continue;
        atomic_store(&captures[i].stream, (uintptr_t)stream);
        atomic_store(&captures[i].tid, tid_mine());
        captures[i].ctx = ctx;
        captures[i].mode = mode;
        captures[i].alone_ns = 0;
        atomic_store(&captures[i].word, word + LIVE);
        return;
    }
    atomic_fetch_add(&beyond, 1);
}

void capture_begun(CUstream stream, bool per_thread, int mode, CUresult r)
{
    if (r == CUDA_SUCCESS)
        capture_note(per_thread && !stream ? CU_STREAM_PER_THREAD : stream, mode);
    else
        atomic_fetch_sub(&shim.captures, 1);
    signals_release();
}

/* The thread's own stream has one name in all threads. */
uint64_t capture_of(CUstream stream)
{
    for (uint32_t i = 0; i < MOST; i++) {
        uint32_t word = atomic_load(&captures[i].word);

        if (word % STATES == LIVE && atomic_load(&captures[i].stream) == (uintptr_t)stream &&
            (stream != CU_STREAM_PER_THREAD || atomic_load(&captures[i].tid) == tid_mine()))
            return (uint64_t)word * MOST + i;
    }
    return 0;
}

void capture_drop(uint64_t capture)
{
    uint32_t i = (uint32_t)(capture % MOST), word = (uint32_t)(capture / MOST);

    if (capture && atomic_compare_exchange_strong(&captures[i].word, &word, word - LIVE + STATES))
        atomic_fetch_sub(&shim.captures, 1);
}

void capture_ended(CUstream stream, bool per_thread, CUresult r)
{
    CUstream name = per_thread && !stream ? CU_STREAM_PER_THREAD : stream;
    uint64_t capture = capture_of(name);
    uint32_t some = atomic_load(&beyond);
    bool over = r == CUDA_SUCCESS;

    if (capture && !over)
        over = HAVE(cuStreamIsCapturing) ? !stream_captures(name) : r == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (over)
        capture_drop(capture);
    while (!capture && over && some)
        if (atomic_compare_exchange_weak(&beyond, &some, some - 1)) {
            atomic_fetch_sub(&shim.captures, 1);
            return;
        }
}

void capture_context_gone(CUcontext ctx)
{
    for (uint32_t i = 0; i < MOST && ctx; i++) {
        uint32_t word = atomic_load(&captures[i].word);

        if (word % STATES == LIVE && captures[i].ctx == ctx)
            capture_drop((uint64_t)word * MOST + i);
    }
}

/* Only the thread that began it can end it, in every mode but the relaxed one. */
void capture_tidy(void)
{
    uint64_t now = clock_ns();

    for (uint32_t i = 0; i < MOST; i++) {
        uint32_t word = atomic_load(&captures[i].word);

        if (word % STATES != LIVE || !thread_gone(atomic_load(&captures[i].tid)))
            continue;
        if (!captures[i].alone_ns)
            captures[i].alone_ns = now;
        if (captures[i].mode != CU_STREAM_CAPTURE_MODE_RELAXED || now - captures[i].alone_ns > ALONE_NS)
            capture_drop((uint64_t)word * MOST + i);
    }
}

/* ---- calls of our own */

bool capture_relax(int *ret_mode)
{
    *ret_mode = NO_MODE;
    if (likely(atomic_load(&shim.captures) == 0))
        return true;
    *ret_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (HAVE(cuThreadExchangeStreamCaptureMode) && REAL(cuThreadExchangeStreamCaptureMode)(ret_mode) == CUDA_SUCCESS)
        return true;
    *ret_mode = NO_MODE;
    return false;
}

void capture_restore(int mode)
{
    if (unlikely(mode != NO_MODE))
        (void)REAL(cuThreadExchangeStreamCaptureMode)(&mode);
}

bool capture_own_begin(int *ret_mode)
{
    atomic_fetch_add(&own, 1);
    if (capture_relax(ret_mode))
        return true;
    atomic_fetch_sub(&own, 1);
    return false;
}

void capture_own_end(int mode)
{
    capture_restore(mode);
    atomic_fetch_sub(&own, 1);
}

bool capture_forbids(void)
{
    return capture_any() && !HAVE(cuThreadExchangeStreamCaptureMode);
}
