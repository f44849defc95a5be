/* SPDX-License-Identifier: Apache-2.0 */
/* fake_work.c - streams, kernels, events and graphs: one worker, first come, first served. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake.h"

CUresult cuCtxGetDevice(CUdevice *dev);
CUresult cuCtxGetCurrent(CUcontext *ctx);

struct CUfunc_st {
    const char *name;
    fake_kernel_fn fn;
    unsigned int args, us;
};
struct CUevent_st {
    CUcontext ctx;
    uint32_t generation;
    uint64_t seq;
    CUstream captured; /* its last record is part of a capture that began there */
    double ms;
};

static struct CUfunc_st kernels[64];
static unsigned int kernel_count;
static struct CUstream_st stream0;
static __thread struct CUstream_st stream_own;
static struct fake_work *head, *tail;
static uint64_t newest, done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;
static bool started;

FAKE_API CUfunction fake_kernel_register(const char *name, fake_kernel_fn fn, unsigned int arg_count, unsigned int us)
{
    struct CUfunc_st *k = &kernels[kernel_count++ % 64];

    *k = (struct CUfunc_st){ name, fn, arg_count, us };
    return k;
}

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void work_do(const struct fake_work *w)
{
    struct timespec nap = { w->us / 1000000, (long)(w->us % 1000000) * 1000 };

    if (w->us)
        nanosleep(&nap, NULL);
    if (w->fn)
        w->fn(w->args);
    if (w->copy.bytes && w->copy.fill < 0)
        memmove(w->copy.dst, w->copy.src, w->copy.bytes);
    else if (w->copy.bytes)
        memset(w->copy.dst, w->copy.fill, w->copy.bytes);
}

static void *worker(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct fake_work *w;

        while (!head)
            pthread_cond_wait(&more, &lock);
        w = head;
        head = w->next;
        if (!head)
            tail = NULL;
        pthread_mutex_unlock(&lock);
        work_do(w);
        pthread_mutex_lock(&lock);
        if (w->fn == NULL && w->args[0]) /* an event: when did it happen */
            ((struct CUevent_st *)(uintptr_t)w->args[0])->ms = now_ms();
        done = w->seq;
        free(w);
        pthread_cond_broadcast(&finished);
    }
    return NULL;
}

/* The null stream and the legacy one; the thread's own; or one that was made. */
static struct CUstream_st *stream_of(CUstream stream)
{
    if (stream == CU_STREAM_PER_THREAD)
        return &stream_own;
    return (uintptr_t)stream <= 1 ? &stream0 : stream;
}

CUstream fake_stream_of(CUstream stream)
{
    return stream_of(stream);
}

static void graph_add(struct fake_graph *g, const struct fake_work *work)
{
    struct fake_work *w = malloc(sizeof(*w));

    *w = *work;
    w->next = NULL;
    if (g->last)
        g->last->next = w;
    else
        g->first = w;
    g->last = w;
}

void fake_submit(CUstream stream, const struct fake_work *work)
{
    struct CUstream_st *s = stream_of(stream);
    CUcontext ctx = s->ctx;
    struct fake_work *w;
    pthread_t thread;

    if (s->capture) {
        graph_add(s->capture, work);
        return;
    }
    w = malloc(sizeof(*w));
    *w = *work;
    w->next = NULL;
    pthread_mutex_lock(&lock);
    if (!started) {
        started = true;
        pthread_create(&thread, NULL, worker, NULL);
        pthread_detach(thread);
    }
    w->seq = ++newest;
    s->last_seq = w->seq;
    if (ctx || (cuCtxGetCurrent(&ctx) == 0 && ctx))
        ctx->last_seq = fake_root(ctx)->last_seq = w->seq;
    if (tail)
        tail->next = w;
    else
        head = w;
    tail = w;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);
}

uint64_t fake_stream_seq(CUstream stream)
{
    return stream_of(stream)->last_seq;
}

uint64_t fake_newest(void)
{
    return newest;
}

bool fake_done(uint64_t seq)
{
    bool is;

    pthread_mutex_lock(&lock);
    is = done >= seq;
    pthread_mutex_unlock(&lock);
    return is;
}

void fake_wait(uint64_t seq)
{
    pthread_mutex_lock(&lock);
    while (done < seq)
        pthread_cond_wait(&finished, &lock);
    pthread_mutex_unlock(&lock);
}

void fake_wait_all(void)
{
    fake_wait(newest);
}

/* ---- launches */

static CUresult launch(CUfunction f, CUstream stream, void **params)
{
    struct fake_work w = { .fn = f->fn, .us = f->us };
    int code = fake_capture_submit(stream);

    if (code)
        return code;
    for (unsigned int i = 0; i < f->args && i < 8; i++)
        memcpy(&w.args[i], params[i], sizeof(uint64_t));
    fake_submit(stream, &w);
    return 0;
}

/* In the per-thread form the null stream is the thread's own. */
#define OWN(name, stream) (!(stream) && strstr(#name, "_ptsz") ? CU_STREAM_PER_THREAD : (stream))

#define LAUNCH(name)                                                                                                   \
    FAKE_API CUresult name(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,           \
                           unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,      \
                           void **extra)                                                                               \
    {                                                                                                                  \
        (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;                         \
        FAKE_ENTER(name);                                                                                              \
        return f ? launch(f, OWN(name, stream), params) : CUDA_ERROR_INVALID_VALUE;                                    \
    }
LAUNCH(cuLaunchKernel)
LAUNCH(cuLaunchKernel_ptsz)

#define LAUNCH_EX(name)                                                                                                \
    FAKE_API CUresult name(const struct cuda_launch_config *config, CUfunction f, void **params, void **extra)         \
    {                                                                                                                  \
        (void)extra;                                                                                                   \
        FAKE_ENTER(name);                                                                                              \
        return f && config ? launch(f, OWN(name, config->stream), params) : CUDA_ERROR_INVALID_VALUE;                  \
    }
LAUNCH_EX(cuLaunchKernelEx)
LAUNCH_EX(cuLaunchKernelEx_ptsz)

FAKE_API CUresult cuFuncGetName(const char **name, CUfunction f)
{
    *name = f->name;
    return 0;
}

FAKE_API CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *size)
{
    if (index >= f->args)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = 8 * index;
    *size = 8;
    return 0;
}

/* ---- streams and events */

FAKE_API CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    FAKE_ENTER(cuStreamCreate);
    *stream = calloc(1, sizeof(**stream));
    (*stream)->apart = flags & CU_STREAM_NON_BLOCKING;
    (void)cuCtxGetDevice(&(*stream)->dev);
    (void)cuCtxGetCurrent(&(*stream)->ctx);
    return 0;
}

FAKE_API CUresult cuStreamGetCtx(CUstream stream, CUcontext *ctx)
{
    if ((uintptr_t)stream <= 2)
        return cuCtxGetCurrent(ctx);
    if (stream->green)
        return CUDA_ERROR_NOT_SUPPORTED;
    *ctx = stream->ctx;
    return 0;
}

FAKE_API CUresult cuStreamDestroy_v2(CUstream stream)
{
    FAKE_ENTER(cuStreamDestroy_v2);
    fake_capture_gone(stream);
    fake_wait(fake_stream_seq(stream));
    free(stream);
    return 0;
}

FAKE_API CUresult cuStreamSynchronize(CUstream stream)
{
    FAKE_ENTER(cuStreamSynchronize);
    if (stream_of(stream)->capture) {
        (void)fake_capture_wait(stream_of(stream)->origin);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    fake_wait(fake_stream_seq(stream));
    return 0;
}

FAKE_API CUresult cuStreamQuery(CUstream stream)
{
    FAKE_ENTER(cuStreamQuery);
    return fake_done(fake_stream_seq(stream)) ? 0 : CUDA_ERROR_NOT_READY;
}

FAKE_API CUresult cuCtxSynchronize(void)
{
    CUcontext ctx = NULL;

    FAKE_ENTER(cuCtxSynchronize);
    (void)cuCtxGetCurrent(&ctx);
    if (!ctx)
        return 201;
    fake_wait(ctx->last_seq); /* of this context, not of others */
    return 0;
}

FAKE_API CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    FAKE_ENTER(cuCtxSynchronize_v2);
    fake_wait(ctx->last_seq);
    return 0;
}

FAKE_API CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    (void)flags;
    *event = calloc(1, sizeof(**event));
    (void)cuCtxGetCurrent(&(*event)->ctx);
    (*event)->generation = (*event)->ctx ? fake_root((*event)->ctx)->generation : 0;
    return 0;
}

/* Its context has gone, or been made anew. */
static bool event_dead(CUevent event)
{
    return event->ctx && event->generation != fake_root(event->ctx)->generation;
}

FAKE_API CUresult cuEventDestroy_v2(CUevent event)
{
    if (event_dead(event))
        abort(); /* of a driver nobody knows what that does */
    fake_wait(event->seq);
    free(event);
    return 0;
}

FAKE_API CUresult cuEventRecord(CUevent event, CUstream stream)
{
    struct fake_work w = { .args = { (uint64_t)(uintptr_t)event } };
    CUcontext ctx = stream_of(stream)->ctx;
    int code;

    FAKE_ENTER(cuEventRecord);
    if (!ctx)
        (void)cuCtxGetCurrent(&ctx);
    if (event_dead(event) || (event->ctx && fake_root(event->ctx) != fake_root(ctx)))
        return 400;
    code = fake_capture_submit(stream);
    if (code)
        return code;
    event->captured = stream_of(stream)->origin;
    fake_submit(stream, &w);
    event->seq = fake_stream_seq(stream);
    return 0;
}

FAKE_API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
FAKE_API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    (void)flags;
    FAKE_ENTER(cuStreamWaitEvent);
    if (event->captured)
        fake_capture_join(stream_of(stream), event->captured);
    return 0;
}

FAKE_API CUresult cuEventQuery(CUevent event)
{
    FAKE_ENTER(cuEventQuery);
    if (event_dead(event))
        return 400;
    if (event->captured)
        return fake_capture_wait(event->captured);
    return fake_done(event->seq) ? 0 : CUDA_ERROR_NOT_READY;
}

FAKE_API CUresult cuEventSynchronize(CUevent event)
{
    FAKE_ENTER(cuEventSynchronize);
    if (event->captured)
        return fake_capture_wait(event->captured);
    fake_wait(event->seq);
    return 0;
}

static _Atomic int64_t elapsed_ns = -1;

FAKE_API void fake_elapsed(int64_t ns)
{
    elapsed_ns = ns;
}

FAKE_API CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    FAKE_ENTER(cuEventElapsedTime);
    *ms = elapsed_ns < 0 ? (float)(end->ms - start->ms) : (float)((double)elapsed_ns / 1e6);
    return 0;
}

/* ---- graphs; captures are fake_capture.c */

FAKE_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    FAKE_ENTER(cuGraphInstantiateWithFlags);
    *exec = (CUgraphExec)(void *)graph;
    return 0;
}

FAKE_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    int code;

    FAKE_ENTER(cuGraphLaunch);
    code = fake_capture_submit(stream);
    if (code)
        return code;
    for (struct fake_work *w = ((struct fake_graph *)(void *)exec)->first; w; w = w->next)
        fake_submit(stream, w);
    return 0;
}
