/* SPDX-License-Identifier: Apache-2.0 */
/* fake_capture.c - stream captures with the driver's rules, as its manual has them.
 *
 * A stream that captures records what is submitted to it, by any thread; one that waits for an event recorded there
 * joins in. A thread's mode says which calls it may make meanwhile: "global" (as at first) none that is not recorded
 * and might have had to be, while it captures itself, or any thread captures in the global mode; "thread local" none
 * while it captures itself; "relaxed" all. A call that is not allowed fails with 900, and the captures that forbade it
 * are invalid from then on: their end fails with 901. What conflicts with a capture in any mode makes it invalid too:
 * to wait for a device on which a stream captures, or for an event that was recorded in one. The legacy stream waits
 * for all streams that are not "non blocking", so while one of those captures nothing can be submitted to it (906).
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#define CAPTURES 64

static CUstream captured[CAPTURES]; /* every stream that captures */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int under_way;
static _Atomic uint64_t forbidden;
static __thread int thread_mode;
static __thread char thread_mark; /* its address is the thread */

/* The lock is held. */
static void capture_add(CUstream stream)
{
    for (int i = 0; i < CAPTURES; i++)
        if (!captured[i]) {
            captured[i] = stream;
            under_way++;
            return;
        }
}

static void capture_remove(CUstream stream)
{
    for (int i = 0; i < CAPTURES; i++)
        if (captured[i] == stream) {
            captured[i] = NULL;
            under_way--;
        }
    stream->capture = NULL;
    stream->origin = NULL;
    stream->invalid = false;
}

static void capture_spoil(CUstream origin)
{
    for (int i = 0; i < CAPTURES; i++)
        if (captured[i] && captured[i]->origin == origin)
            captured[i]->invalid = true;
}

static void origin_end(CUstream origin)
{
    for (int i = 0; i < CAPTURES; i++)
        if (captured[i] && captured[i] != origin && captured[i]->origin == origin)
            capture_remove(captured[i]);
    capture_remove(origin);
}

FAKE_API uint64_t fake_forbidden(void)
{
    return forbidden;
}

static bool forbids(CUstream origin)
{
    bool mine = origin->capturer == &thread_mark;

    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (mine && origin->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return true;
    return !mine && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && origin->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

/* Calls that a graph would not repeat. */
static bool unsafe(const char *name)
{
    static const char *const names[] = { "cuEventQuery",
                                         "cuEventSynchronize",
                                         "cuEventElapsedTime",
                                         "cuMemAlloc_v2",
                                         "cuMemFree_v2",
                                         "cuMemAllocPitch_v2",
                                         "cuMemAllocManaged",
                                         "cuMemCreate",
                                         "cuMemRelease",
                                         "cuMemMap",
                                         "cuMemUnmap",
                                         "cuMemSetAccess",
                                         "cuMemAddressReserve",
                                         "cuMemAddressFree",
                                         "cuMemHostAlloc",
                                         "cuMemHostRegister_v2",
                                         "cuMemHostUnregister",
                                         "cuMemFreeHost",
                                         "cuMemcpyHtoD_v2",
                                         "cuMemcpyDtoH_v2",
                                         "cuMemsetD8_v2",
                                         "cuStreamQuery",
                                         "cuMemPoolTrimTo",
                                         "cuMemExportToShareableHandle",
                                         "cuMemPoolGetAttribute",
                                         "cuDeviceGraphMemTrim",
                                         "cuDeviceGetGraphMemAttribute",
                                         "cuMemImportFromShareableHandle" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

int fake_capture_check(const char *name)
{
    bool conflict = strncmp(name, "cuCtxSynchronize", 16) == 0;
    int code = 0;

    if (!under_way || (!conflict && !unsafe(name)))
        return 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < CAPTURES; i++)
        if (captured[i] && captured[i] == captured[i]->origin && (conflict || forbids(captured[i]))) {
            capture_spoil(captured[i]);
            code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    pthread_mutex_unlock(&lock);
    forbidden += code != 0;
    return code;
}

/* What submitting to this stream gives: 0, or the error. */
int fake_capture_submit(CUstream stream)
{
    int code = 0;

    if (!under_way)
        return 0;
    pthread_mutex_lock(&lock);
    if ((uintptr_t)stream <= 1) {
        for (int i = 0; i < CAPTURES; i++)
            if (captured[i] && !captured[i]->apart) {
                capture_spoil(captured[i]->origin);
                code = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
            }
    } else if (fake_stream_of(stream)->invalid) {
        code = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

/* A wait for what a capture has recorded. */
int fake_capture_wait(CUstream origin)
{
    pthread_mutex_lock(&lock);
    capture_spoil(origin);
    pthread_mutex_unlock(&lock);
    forbidden++;
    return CUDA_ERROR_CAPTURED_EVENT;
}

void fake_capture_join(CUstream stream, CUstream origin)
{
    pthread_mutex_lock(&lock);
    if (!stream->capture && origin->capture) {
        stream->capture = origin->capture;
        stream->origin = origin;
        capture_add(stream);
    }
    pthread_mutex_unlock(&lock);
}

void fake_capture_gone(CUstream stream)
{
    pthread_mutex_lock(&lock);
    if (stream->capture && stream->origin == stream)
        origin_end(stream);
    else if (stream->capture)
        capture_remove(stream);
    pthread_mutex_unlock(&lock);
}

void fake_capture_over(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < CAPTURES; i++)
        if (captured[i])
            origin_end(captured[i]->origin);
    pthread_mutex_unlock(&lock);
}

/* ---- the functions */

FAKE_API CUresult cuThreadExchangeStreamCaptureMode(int *mode);
FAKE_API CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
    int old = thread_mode;

    FAKE_ENTER(cuThreadExchangeStreamCaptureMode);
    if (*mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    thread_mode = *mode;
    *mode = old;
    return 0;
}

FAKE_API CUresult cuStreamIsCapturing(CUstream stream, int *status);
FAKE_API CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
    int code = 0;

    FAKE_ENTER(cuStreamIsCapturing);
    pthread_mutex_lock(&lock);
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    if ((uintptr_t)stream <= 1) {
        for (int i = 0; i < CAPTURES; i++)
            if (captured[i] && !captured[i]->apart)
                code = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    } else if (fake_stream_of(stream)->capture) {
        *status =
            fake_stream_of(stream)->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

static CUresult capture_begin(CUstream name, int mode)
{
    CUstream stream = fake_stream_of(name);

    if ((uintptr_t)name <= 1)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture || mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return 401; /* illegal state */
    pthread_mutex_lock(&lock);
    stream->capture = calloc(1, sizeof(*stream->capture));
    stream->origin = stream;
    stream->mode = mode;
    stream->capturer = &thread_mark;
    stream->invalid = false;
    capture_add(stream);
    pthread_mutex_unlock(&lock);
    return 0;
}

static CUresult capture_end(CUstream name, CUgraph *graph)
{
    CUstream stream = fake_stream_of(name);
    CUresult r = 0;

    *graph = NULL;
    pthread_mutex_lock(&lock);
    if ((uintptr_t)name <= 1 || !stream->capture) {
        r = 401; /* illegal state */
    } else if (stream->origin != stream) {
        r = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    } else if (stream->capturer != &thread_mark && stream->mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
        r = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    } else {
        if (stream->invalid)
            r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        else
            *graph = (CUgraph)(void *)stream->capture;
        origin_end(stream);
    }
    pthread_mutex_unlock(&lock);
    return r;
}

#define OWN(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)
FAKE_API CUresult cuStreamBeginCapture(CUstream stream)
{
    FAKE_ENTER(cuStreamBeginCapture);
    return capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

FAKE_API CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    FAKE_ENTER(cuStreamBeginCapture_v2);
    return capture_begin(stream, mode);
}

FAKE_API CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode)
{
    FAKE_ENTER(cuStreamBeginCapture_v2_ptsz);
    return capture_begin(OWN(stream), mode);
}

FAKE_API CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    FAKE_ENTER(cuStreamEndCapture);
    return capture_end(stream, graph);
}

FAKE_API CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
    FAKE_ENTER(cuStreamEndCapture_ptsz);
    return capture_end(OWN(stream), graph);
}
