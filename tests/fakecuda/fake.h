/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* fake.h - a CUDA driver made of ordinary memory, for tests on machines without a GPU.
 *
 * A GPU is a memfd; device memory is a mapping of it, so a spilled or evicted byte is a real byte. Kernels are C
 * functions run by one worker thread in the order of submission, each lasting a declared time. FAKE_CUDA_MEMORY (MiB,
 * 1024), FAKE_CUDA_DEVICES (1), FAKE_CUDA_FAIL=name:nth:code, FAKE_CUDA_CKPT_FAIL=nth, FAKE_CUDA_VERSION (13000),
 * FAKE_CUDA_TRACE=file, FAKE_CUDA_STALL=file, FAKE_CUDA_GONE=file.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda_abi.h"

typedef void (*fake_kernel_fn)(const uint64_t *args);

/* A kernel of `arg_count` 8-byte arguments (at most 8) that lasts `us` microseconds. */
CUfunction fake_kernel_register(const char *name, fake_kernel_fn fn, unsigned int arg_count, unsigned int us);
/* How often the driver's own function ran: what reached it. */
uint64_t fake_calls(const char *name);
uint64_t fake_device_used(int dev);
uint64_t fake_pools_reserved(int dev);     /* what its pools hold, in use or not */
void fake_others(int dev, uint64_t bytes); /* other processes hold so much of it */
void *fake_asks(const char *name);         /* what the driver finds when it looks one of its own functions up */
bool fake_is_host(CUdeviceptr ptr);        /* what is mapped there lies in host memory */
uint64_t fake_mapped_host(void);           /* bytes of host memory that are mapped for the GPU or registered with it */
uint64_t fake_grants(int dev);             /* how often this GPU was given access to a mapping */
uint64_t fake_slice_us(void);              /* of the newest channel group; 0 = none set */
void fake_graph_holds(int dev, uint64_t bytes); /* what graphs have taken of this GPU's memory */
bool fake_busy(void); /* this thread is in a call of the driver: a handler that interrupted it there must not call */
void fake_inside_alloc(void (*fn)(void)); /* called by the next plain allocation, from inside the driver */
void fake_fail(const char *name, unsigned int nth, int code); /* the nth call from now on; nth 0 = every call */
void fake_stall(const char *name); /* calls of it do not return until another name is given */
bool fake_stalled(void);           /* somebody is in one */
uint64_t fake_forbidden(void);     /* calls that a capture forbade */
uint64_t fake_green_clashes(void); /* how often a green context was to be current to two threads */
void fake_elapsed(int64_t ns);     /* between any two events, from now on; below 0: what it was */
uint64_t fake_launches_mine(void); /* kernels that this very thread brought to the driver */

/* Inside the fake. */
#define FAKE_API __attribute__((visibility("default")))
struct fake_work {
    fake_kernel_fn fn;
    uint64_t args[8];
    unsigned int us;
    struct {
        void *dst;
        const void *src;
        uint64_t bytes;
        int fill; /* -1: a copy */
    } copy;
    struct fake_work *next;
    uint64_t seq;
};
struct fake_graph {
    struct fake_work *first, *last;
};
struct CUctx_st {
    int dev;
    uint32_t generation; /* changes when what was in it is gone */
    uint64_t last_seq;
    struct CUctx_st *of;             /* of a green one: the one of its GPU, with which it has all but this in common */
    _Atomic(const void *) thread_of; /* of a green one: to which it is current */
};
static inline CUcontext fake_root(CUcontext ctx)
{
    return ctx && ctx->of ? ctx->of : ctx;
}
CUcontext fake_primary_retain(CUdevice dev);
CUresult fake_primary_release(CUdevice dev);
bool fake_green_current(CUcontext from, CUcontext to); /* false: it is another thread's */

struct CUstream_st {
    uint64_t last_seq;
    CUdevice dev;
    CUcontext ctx;
    struct fake_graph *capture;
    CUstream origin;      /* while it captures: on which that began */
    const void *capturer; /* of an origin: the thread, and the mode it began in */
    int mode;
    bool green;          /* made by the green context itself */
    bool invalid, apart; /* apart: it does not wait for the legacy stream */
};
int fake_enter(const char *name); /* counts; a code to fail with, or 0 */
int fake_device_count(void);
int fake_card_of(int dev);        /* which card a device of this process is now */
bool fake_checkpoint_enter(void); /* waits while this process is locked; false: nobody can lock it */
void fake_checkpoint_leave(void);
bool fake_checkpoint_failed(void); /* this process was given up in one */
#define FAKE_DEVICES 4
struct CUmemPoolHandle_st {
    uint64_t reserved, used;
    int dev;
};
/* Of a pool, or plain with NULL. What is freed of a pool leaves it what it holds; `plain` is what else may be. */
CUresult fake_memory_alloc(CUdeviceptr *dptr, size_t bytes, int dev, CUmemoryPool pool);
CUresult fake_memory_free(CUdeviceptr dptr, bool plain);
bool fake_memory_elsewhere(CUdeviceptr ptr, CUstream stream);
void fake_memory_lock(void); /* of pools as well */
void fake_memory_unlock(void);
void fake_pool_resize(CUmemoryPool pool, uint64_t bytes);
void fake_memory_context_gone(CUcontext ctx, bool primary);
CUresult fake_memory_save(void); /* all of it, to host memory; the cards have it back */
CUresult fake_memory_bring(const int *from, const int *to, unsigned int pairs);
void fake_submit(CUstream stream, const struct fake_work *work);
uint64_t fake_stream_seq(CUstream stream);
CUstream fake_stream_of(CUstream stream);
int fake_capture_check(const char *name); /* a call of that name: 0, or the error, and captures it made invalid */
int fake_capture_submit(CUstream stream); /* the same of a submission */
int fake_capture_wait(CUstream origin);   /* of a wait for an event of a capture that began there */
void fake_capture_join(CUstream stream, CUstream origin);
void fake_capture_gone(CUstream stream);
void fake_capture_over(void); /* all of them: a context has ended */
void fake_wait(uint64_t seq);
bool fake_done(uint64_t seq);
void fake_wait_all(void);
uint64_t fake_newest(void);
extern __thread int fake_inside; /* calls this thread is in */
struct fake_call {
    int before;
    bool counted; /* the outermost, of a process that can be checkpointed */
};
static inline struct fake_call fake_begin(void)
{
    struct fake_call call = { fake_inside++, false };

    call.counted = call.before == 0 && fake_checkpoint_enter();
    return call;
}
static inline void fake_leave(const struct fake_call *call)
{
    if (call->counted)
        fake_checkpoint_leave();
    fake_inside = call->before;
}
#define FAKE_ENTER(name)                                                                                               \
    __attribute__((cleanup(fake_leave), unused)) struct fake_call call_ = fake_begin();                                \
    do {                                                                                                               \
        int code_ = fake_enter(#name);                                                                                 \
        if (code_)                                                                                                     \
            return code_;                                                                                              \
    } while (0)
