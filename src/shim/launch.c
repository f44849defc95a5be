/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - kernels, graphs and captures on their way to the driver.
 *
 * Inert, a wrapper looks at one word and jumps on. A launch inside a capture is recorded, not executed: it is
 * neither gated nor counted; the launch of the graph is.
 */
#include "shim/shim.h"

static uint32_t log2_of(unsigned int x)
{
    return x ? 31u - (uint32_t)__builtin_clz(x) : 0;
}

static uint64_t key_of(const void *f, unsigned int gx, unsigned int gy, unsigned int gz)
{
    uint64_t key = (uint64_t)(uintptr_t)f * 0x9e3779b97f4a7c15ULL;

    return (key ^ (uint64_t)(log2_of(gx) << 10 | log2_of(gy) << 5 | log2_of(gz))) | 1;
}

static void kernel_enter(struct submit *submit, CUfunction f, uint64_t key, CUstream stream)
{
    submit_enter(submit, SUBMIT_KERNEL, key, stream);
    if (likely(!submit->captured)) {
        __atomic_fetch_add(&submit->stripe->launches, 1, __ATOMIC_RELAXED);
        step_launch(f, key);
    }
}

#define NO_DRIVER(name)                                                                                                \
    if (unlikely(!HAVE(name)))                                                                                         \
    return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED

#define LAUNCH_KERNEL(name)                                                                                            \
    CUresult name(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,   \
                  unsigned int bz, unsigned int shared, CUstream stream, void **params, void **extra)                  \
    {                                                                                                                  \
        struct submit submit;                                                                                          \
        CUresult r;                                                                                                    \
                                                                                                                       \
        if (likely(!shim_ready())) {                                                                                   \
            NO_DRIVER(name);                                                                                           \
            return REAL(name)(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);                               \
        }                                                                                                              \
        kernel_enter(&submit, f, key_of(f, gx, gy, gz), stream);                                                       \
        if (unlikely(atomic_load_explicit(&touch_on, memory_order_relaxed)))                                           \
            touch_scan(f, params, extra);                                                                              \
        r = REAL(name)(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);                                      \
        submit_leave(&submit, r);                                                                                      \
        return r;                                                                                                      \
    }
LAUNCH_KERNEL(cuLaunchKernel)
LAUNCH_KERNEL(cuLaunchKernel_ptsz)

#define LAUNCH_EX(name)                                                                                                \
    CUresult name(const struct cuda_launch_config *config, CUfunction f, void **params, void **extra)                  \
    {                                                                                                                  \
        struct submit submit;                                                                                          \
        CUresult r;                                                                                                    \
                                                                                                                       \
        if (likely(!shim_ready()) || !config) {                                                                        \
            NO_DRIVER(name);                                                                                           \
            return REAL(name)(config, f, params, extra);                                                               \
        }                                                                                                              \
        kernel_enter(&submit, f, key_of(f, config->grid_x, config->grid_y, config->grid_z), config->stream);           \
        if (unlikely(atomic_load_explicit(&touch_on, memory_order_relaxed)))                                           \
            touch_scan(f, params, extra);                                                                              \
        r = REAL(name)(config, f, params, extra);                                                                      \
        submit_leave(&submit, r);                                                                                      \
        return r;                                                                                                      \
    }
LAUNCH_EX(cuLaunchKernelEx)
LAUNCH_EX(cuLaunchKernelEx_ptsz)

#define LAUNCH_COOPERATIVE(name)                                                                                       \
    CUresult name(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,   \
                  unsigned int bz, unsigned int shared, CUstream stream, void **params)                                \
    {                                                                                                                  \
        struct submit submit;                                                                                          \
        CUresult r;                                                                                                    \
                                                                                                                       \
        if (likely(!shim_ready())) {                                                                                   \
            NO_DRIVER(name);                                                                                           \
            return REAL(name)(f, gx, gy, gz, bx, by, bz, shared, stream, params);                                      \
        }                                                                                                              \
        kernel_enter(&submit, f, key_of(f, gx, gy, gz), stream);                                                       \
        if (unlikely(atomic_load_explicit(&touch_on, memory_order_relaxed)))                                           \
            touch_scan(f, params, NULL);                                                                               \
        r = REAL(name)(f, gx, gy, gz, bx, by, bz, shared, stream, params);                                             \
        submit_leave(&submit, r);                                                                                      \
        return r;                                                                                                      \
    }
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel)
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz)

/* Spans several GPUs: a gate that opens now and then could stop one of them and hang the rest. So it is let into gaps
 * that are not its own, as a copy is; paused, or while memory moves, it waits like everybody. */
CUresult cuLaunchCooperativeKernelMultiDevice(void *list, unsigned int count, unsigned int flags)
{
    struct submit submit;
    bool on = shim_ready();
    CUresult r;

    NO_DRIVER(cuLaunchCooperativeKernelMultiDevice);
    if (likely(!on))
        return REAL(cuLaunchCooperativeKernelMultiDevice)(list, count, flags);
    submit_enter(&submit, SUBMIT_COPY, 0, NULL);
    __atomic_fetch_add(&submit.stripe->launches, count, __ATOMIC_RELAXED);
    r = REAL(cuLaunchCooperativeKernelMultiDevice)(list, count, flags);
    submit_leave(&submit, r);
    return r;
}

#define LAUNCH_OLD(name, params, args, f, stream)                                                                      \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        struct submit submit;                                                                                          \
        CUresult r;                                                                                                    \
                                                                                                                       \
        if (likely(!shim_ready())) {                                                                                   \
            NO_DRIVER(name);                                                                                           \
            return REAL(name) args;                                                                                    \
        }                                                                                                              \
        kernel_enter(&submit, f, key_of(f, 1, 1, 1), stream);                                                          \
        r = REAL(name) args;                                                                                           \
        submit_leave(&submit, r);                                                                                      \
        return r;                                                                                                      \
    }
LAUNCH_OLD(cuLaunch, (CUfunction f), (f), f, NULL)
LAUNCH_OLD(cuLaunchGrid, (CUfunction f, int width, int height), (f, width, height), f, NULL)
LAUNCH_OLD(cuLaunchGridAsync, (CUfunction f, int width, int height, CUstream stream), (f, width, height, stream), f,
           stream)

#define LAUNCH_GRAPH(name)                                                                                             \
    CUresult name(CUgraphExec exec, CUstream stream)                                                                   \
    {                                                                                                                  \
        struct submit submit;                                                                                          \
        CUresult r;                                                                                                    \
                                                                                                                       \
        if (likely(!shim_ready())) {                                                                                   \
            NO_DRIVER(name);                                                                                           \
            return REAL(name)(exec, stream);                                                                           \
        }                                                                                                              \
        submit_enter(&submit, SUBMIT_GRAPH, key_of(exec, 0, 0, 0), stream);                                            \
        if (likely(!submit.captured)) {                                                                                \
            __atomic_fetch_add(&submit.stripe->graph_launches, 1, __ATOMIC_RELAXED);                                   \
            step_launch(NULL, key_of(exec, 0, 0, 0));                                                                  \
        }                                                                                                              \
        r = REAL(name)(exec, stream);                                                                                  \
        submit_leave(&submit, r);                                                                                      \
        return r;                                                                                                      \
    }
LAUNCH_GRAPH(cuGraphLaunch)
LAUNCH_GRAPH(cuGraphLaunch_ptsz)

/* ---- captures: a stream records instead of running */

#define PER_THREAD(name) (__builtin_strstr(#name, "_ptsz") != NULL) /* the null stream is the thread's own */

/* Memory moves only while none is under way, so one begins when no memory moves: it waits as a submission does. But not
 * in the middle of another of this thread's, which keeps everything where it is already. */
#define CAPTURE_BEGIN(name, params, args, mode_)                                                                       \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        struct inside_mark mark;                                                                                       \
        struct submit submit;                                                                                          \
        bool on = shim_ready(), nested = on && thread_captures();                                                      \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        if (!on)                                                                                                       \
            return REAL(name) args;                                                                                    \
        if (!nested)                                                                                                   \
            submit_enter_capture(&submit);                                                                             \
        capture_begin(&mark);                                                                                          \
        r = REAL(name) args;                                                                                           \
        capture_begun(stream, PER_THREAD(name), mode_, r);                                                             \
        if (!nested)                                                                                                   \
            submit_leave(&submit, r);                                                                                  \
        return r;                                                                                                      \
    }
#define GRAPH_PARAMS (CUstream stream, CUgraph graph, const CUgraphNode *deps, const void *data, size_t count, int mode)
CAPTURE_BEGIN(cuStreamBeginCapture, (CUstream stream), (stream), CU_STREAM_CAPTURE_MODE_GLOBAL)
CAPTURE_BEGIN(cuStreamBeginCapture_ptsz, (CUstream stream), (stream), CU_STREAM_CAPTURE_MODE_GLOBAL)
CAPTURE_BEGIN(cuStreamBeginCapture_v2, (CUstream stream, int mode), (stream, mode), mode)
CAPTURE_BEGIN(cuStreamBeginCapture_v2_ptsz, (CUstream stream, int mode), (stream, mode), mode)
CAPTURE_BEGIN(cuStreamBeginCaptureToGraph, GRAPH_PARAMS, (stream, graph, deps, data, count, mode), mode)
CAPTURE_BEGIN(cuStreamBeginCaptureToGraph_ptsz, GRAPH_PARAMS, (stream, graph, deps, data, count, mode), mode)

#define CAPTURE_END(name)                                                                                              \
    CUresult name(CUstream stream, CUgraph *graph)                                                                     \
    {                                                                                                                  \
        struct inside_mark mark;                                                                                       \
        CUresult r;                                                                                                    \
        bool on = shim_ready();                                                                                        \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        if (on)                                                                                                        \
            signals_hold(&mark);                                                                                       \
        r = REAL(name)(stream, graph);                                                                                 \
        if (on) {                                                                                                      \
            capture_ended(stream, PER_THREAD(name), r);                                                                \
            signals_release();                                                                                         \
            mem_graph_refresh(enter_device());                                                                         \
        }                                                                                                              \
        return r;                                                                                                      \
    }
CAPTURE_END(cuStreamEndCapture)
CAPTURE_END(cuStreamEndCapture_ptsz)
