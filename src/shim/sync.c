/* SPDX-License-Identifier: Apache-2.0 */
/* sync.c - waits, queries, events and streams: what tells us that work is complete. */
#include "shim/gate/bulk.h"
#include "shim/shim.h"

#define NO_DRIVER(name)                                                                                                \
    if (unlikely(!HAVE(name)))                                                                                         \
    return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED

#define WAIT_STREAM(name)                                                                                              \
    CUresult name(CUstream stream)                                                                                     \
    {                                                                                                                  \
        struct inside_mark waits;                                                                                      \
        uint64_t mark = 0;                                                                                             \
        bool on = shim_ready(), rg = on && shim.role == ROLE_GUARANTEED;                                               \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        if (rg)                                                                                                        \
            mark = rg_mark(stream);                                                                                    \
        if (on)                                                                                                        \
            inside_wait(&waits);                                                                                       \
        r = REAL(name)(stream);                                                                                        \
        if (on) {                                                                                                      \
            inside_wait_end();                                                                                         \
            COUNT_ADD(syncs, 1);                                                                                       \
        }                                                                                                              \
        if (rg && r == CUDA_SUCCESS && unlikely(shim_thread.copy_bytes))                                               \
            bulk_waited(stream);                                                                                       \
        if (rg && r == CUDA_SUCCESS)                                                                                   \
            rg_synced(stream, mark);                                                                                   \
        return r;                                                                                                      \
    }
WAIT_STREAM(cuStreamSynchronize)
WAIT_STREAM(cuStreamSynchronize_ptsz)
WAIT_STREAM(cuStreamQuery)
WAIT_STREAM(cuStreamQuery_ptsz)

#define WAIT_CONTEXT(name, params, args)                                                                               \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        struct inside_mark waits;                                                                                      \
        uint64_t marks[RG_SLOTS];                                                                                      \
        bool on = shim_ready(), rg = on && shim.role == ROLE_GUARANTEED;                                               \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        if (rg)                                                                                                        \
            rg_mark_all(marks);                                                                                        \
        if (on)                                                                                                        \
            inside_wait(&waits);                                                                                       \
        r = REAL(name) args;                                                                                           \
        if (on) {                                                                                                      \
            inside_wait_end();                                                                                         \
            COUNT_ADD(syncs, 1);                                                                                       \
        }                                                                                                              \
        if (rg && r == CUDA_SUCCESS)                                                                                   \
            rg_synced_all(marks);                                                                                      \
        return r;                                                                                                      \
    }
WAIT_CONTEXT(cuCtxSynchronize, (void), ())
WAIT_CONTEXT(cuCtxSynchronize_v2, (CUcontext ctx), (ctx))

#define WAIT_EVENT(name)                                                                                               \
    CUresult name(CUevent event)                                                                                       \
    {                                                                                                                  \
        bool on = shim_ready();                                                                                        \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        r = REAL(name)(event);                                                                                         \
        if (on)                                                                                                        \
            COUNT_ADD(syncs, 1);                                                                                       \
        if (on && r == CUDA_SUCCESS && shim.role == ROLE_GUARANTEED)                                                   \
            rg_event_synced(event);                                                                                    \
        return r;                                                                                                      \
    }
WAIT_EVENT(cuEventSynchronize)
WAIT_EVENT(cuEventQuery)

#define EVENT_RECORD(name, params, args)                                                                               \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        bool rg = shim_ready() && shim.role == ROLE_GUARANTEED && !(capture_any() && capture_into(stream));            \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        if (rg)                                                                                                        \
            rg_event_record(event, stream);                                                                            \
        return REAL(name) args;                                                                                        \
    }
EVENT_RECORD(cuEventRecord, (CUevent event, CUstream stream), (event, stream))
EVENT_RECORD(cuEventRecord_ptsz, (CUevent event, CUstream stream), (event, stream))
EVENT_RECORD(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned int flags), (event, stream, flags))
EVENT_RECORD(cuEventRecordWithFlags_ptsz, (CUevent event, CUstream stream, unsigned int flags), (event, stream, flags))

#define STREAM_DESTROY(name)                                                                                           \
    CUresult name(CUstream stream)                                                                                     \
    {                                                                                                                  \
        bool on = shim_ready();                                                                                        \
        uint64_t capture = on && capture_any() ? capture_of(stream) : 0;                                               \
        CUresult r;                                                                                                    \
                                                                                                                       \
        if (on && shim.role == ROLE_GUARANTEED)                                                                        \
            rg_stream_gone(stream);                                                                                    \
        NO_DRIVER(name);                                                                                               \
        r = REAL(name)(stream);                                                                                        \
        if (unlikely(capture) && r == CUDA_SUCCESS)                                                                    \
            capture_drop(capture);                                                                                     \
        return r;                                                                                                      \
    }
STREAM_DESTROY(cuStreamDestroy)
STREAM_DESTROY(cuStreamDestroy_v2)
