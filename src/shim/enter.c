/* SPDX-License-Identifier: Apache-2.0 */
/* enter.c - the start of the runtime in a process, its contexts, and fork.
 *
 * The first hooked call decides: with nothing asked by the environment the library stays inert for good. Otherwise the
 * process page is made (a sealed memfd, so that it outlives any node side and can be handed to the next one), limits
 * from the environment are put into it, and the node side is told. A forked child is inert: it has no driver state.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/gate/admit.h"
#include "shim/kernel.h"
#include "shim/shim.h"

#define START_NS NSEC_SEC
#define CONTEXT_BYTES (512 * MIB) /* until the node side has seen how large it is */

static struct page private_page;
struct shim shim = { .on = SHIM_NOT_STARTED, .page = &private_page, .page_fd = -1 };
TLS struct shim_thread shim_thread;
static _Atomic uintptr_t contexts[PAGE_GPUS]; /* the first of each, for the helper */
static _Atomic uintptr_t primary[PAGE_GPUS];  /* that which the driver has of each */
static _Atomic uint32_t start_state;          /* 0 not begun; START_DONE; else the process that is at it */
#define START_DONE UINT32_MAX

uint64_t clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NSEC_SEC + (uint64_t)t.tv_nsec;
}

long futex_wait(const _Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns)
{
    struct timespec t = { (time_t)(timeout_ns / NSEC_SEC), (long)(timeout_ns % NSEC_SEC) };
    int saved = errno;
    long r = syscall(SYS_futex, word, FUTEX_WAIT, seen, &t, NULL, 0);

    errno = saved;
    return r;
}

/* By system call: the C library's own is a point where a thread may be cancelled, with our counts as they are then. */
void nap_ns(uint64_t ns)
{
    struct timespec t = { (time_t)(ns / NSEC_SEC), (long)(ns % NSEC_SEC) };
    int saved = errno;

    (void)syscall(SYS_nanosleep, &t, NULL);
    errno = saved;
}

void futex_wake(_Atomic uint32_t *word)
{
    int saved = errno;

    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    errno = saved;
}

void shim_note(const char *format, ...)
{
    char text[PAGE_ERROR_MAX];
    va_list ap;

    va_start(ap, format);
    (void)vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    memcpy(shim.page->health.error, text, sizeof(text));
    if (shim.debug)
        (void)dprintf(2, "muster-gpu: %s\n", text);
}

/* "20G", "512M", "1000": bytes. False: not set, or no such thing, which is said once and counts as not set. */
static bool size_env(const char *name, uint64_t *ret)
{
    static const char units[] = "KMGTkmgt";
    const char *text = getenv(name), *unit = NULL;
    unsigned long long value = 0;
    int saved = errno, shift = 0;
    char *end = NULL;

    if (!text || !*text)
        return false;
    errno = 0;
    if (*text >= '0' && *text <= '9')
        value = strtoull(text, &end, 10);
    if (end && *end)
        unit = strchr(units, *end);
    if (unit)
        shift = 10 * (int)((unit - units) % 4 + 1);
    if (!end || (*end && (!unit || end[1])) || errno || value > (UINT64_MAX >> shift)) {
        errno = saved;
        (void)dprintf(2, "muster-gpu: %s: '%s' is no size; 20G, 512M and a number of bytes are. Ignored\n", name, text);
        return false;
    }
    errno = saved;
    *ret = value << shift;
    return true;
}

static uint64_t bytes_env(const char *name, uint64_t otherwise)
{
    (void)size_env(name, &otherwise);
    return otherwise;
}

static bool flag_env(const char *name)
{
    const char *text = getenv(name);

    return text && *text && strcmp(text, "0") != 0;
}

int enter_page_fd(void)
{
    int fd = (int)syscall(SYS_memfd_create, "muster-gpu", 3u); /* close-on-exec, sealable */

    if (fd < 0)
        return -1;
    if (ftruncate(fd, PAGE_SIZE_BYTES) < 0 ||
        syscall(SYS_fcntl, fd, 1033, 1 | 2 | 4) < 0) { /* F_ADD_SEALS: seal, shrink, grow */
        close(fd);
        return -1;
    }
    return fd;
}

static void page_make(void)
{
    int fd = enter_page_fd();
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, PAGE_SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        return;
    }
    shim.page = p;
    shim.page_fd = fd;
}

static bool one_of_many(void)
{
    const char *ranks = getenv("WORLD_SIZE");

    return ranks && strtoul(ranks, NULL, 10) > 1;
}

static void role_read(void)
{
    const char *role = getenv("MUSTER_GPU_ROLE"), *mode = getenv("MUSTER_GPU_MEM"), *warm = getenv("MUSTER_GPU_WARM");
    uint64_t share;

    shim.role = ROLE_NONE;
    if (role && strcmp(role, "guaranteed") == 0)
        shim.role = ROLE_GUARANTEED;
    else if (role && strcmp(role, "opportunistic") == 0)
        shim.role = ROLE_OPPORTUNISTIC;
    shim.memory_bytes = bytes_env("MUSTER_GPU_MEMORY", 0);
    shim.host_bytes = bytes_env("MUSTER_GPU_HOST_MEMORY", 0);
    shim.pool_bytes = bytes_env("MUSTER_GPU_HOST_POOL", 0);
    share = bytes_env("MUSTER_GPU_SHARE", 0);
    shim.share = share < PAGE_PERMILLE ? (uint32_t)share : 0;
    /* Ranks pass their buffers to one another, by handles that movable memory does not have. */
    shim.mode = shim.role == ROLE_OPPORTUNISTIC && !one_of_many() ? MODE_SPILL : MODE_CAP;
    if (mode && strcmp(mode, "spill") == 0)
        shim.mode = MODE_SPILL;
    else if (mode && strcmp(mode, "cap") == 0)
        shim.mode = MODE_CAP;
    shim.required = flag_env("MUSTER_GPU_REQUIRED");
    shim.debug = flag_env("MUSTER_GPU_DEBUG");
    shim.warm = !(warm && strcmp(warm, "0") == 0);
    shim.split = flag_env("MUSTER_GPU_SPLIT");
    shim.tier_min = (uint32_t)bytes_env("MUSTER_GPU_TIER", 0);
    shim.window_us = (uint32_t)bytes_env("MUSTER_GPU_WINDOW", ADMIT_WINDOW_MAX_US);
    shim.leak_from = (uint32_t)bytes_env("MUSTER_GPU_LEAK_FROM", UINT32_MAX);
}

static void child_inert(void)
{
    atomic_store(&shim.on, 0);
    atomic_store(&shim.hold, 0);
    shim.page = &private_page; /* the other stays mapped: a call that was interrupted may still count there */
    if (shim.page_fd >= 0)
        (void)close(shim.page_fd);
    shim.page_fd = -1;
    shim.registered = false;
    memset(shim.arena, 0, sizeof(shim.arena));
    memset(shim.beside, 0, sizeof(shim.beside));
    helper_forked();
}

/* It may not end the program, and nothing else would hold an opportunistic one back: for that it counts for nothing. */
static bool switched_off(void)
{
    if (!flag_env("MUSTER_GPU_DISABLE"))
        return false;
    if (shim.role != ROLE_OPPORTUNISTIC)
        return true;
    (void)dprintf(2, "muster-gpu: MUSTER_GPU_DISABLE is ignored: nothing would hold this opportunistic job back\n");
    return false;
}

static void start_once(void)
{
    const char *socket = getenv("MUSTER_GPU_SOCKET");
    bool asked;

    role_read();
    asked = (socket && *socket) || shim.role != ROLE_NONE || shim.memory_bytes || flag_env("MUSTER_GPU_COUNT");
    if (!resolve_driver(true) || !asked || switched_off()) {
        atomic_store(&shim.on, 0);
        return;
    }
    page_make();
    shim.page->magic = PAGE_MAGIC;
    shim.page->abi = PAGE_ABI;
    shim.page->size = sizeof(struct page);
    shim.page->control.role = shim.role;
    shim.page->step.tier = TIER_TIME;
    for (int i = 0; i < PAGE_GPUS; i++) {
        shim.page->limit[i].cap_bytes = shim.memory_bytes;
        shim.page->limit[i].view_total_bytes = shim.memory_bytes;
        shim.page->limit[i].host_cap_bytes = shim.host_bytes;
        shim.page->limit[i].host_pool_bytes = shim.pool_bytes ? shim.pool_bytes : shim.memory_bytes / 8;
    }
    if (shim.mode == MODE_SPILL &&
        !(HAVE(cuMemCreate) && HAVE(cuMemMap) && HAVE(cuMemSetAccess) && HAVE(cuMemAddressReserve))) {
        shim.page->health.flags |= HEALTH_NO_MOVE;
        shim_note("this driver cannot map memory (CUDA 10.2 and later can): it is counted and limited, not moved");
    }
    if (resolve_differs())
        shim.page->health.flags |= HEALTH_LOOKUP_DIFFERS;
    if (kernel_mps()) {
        shim.page->health.flags |= HEALTH_MPS | HEALTH_NO_CHECKPOINT;
        shim_note("under MPS: the gate and limits work, time slices and releases do not; stop MPS to have them");
    }
    (void)pthread_atfork(NULL, NULL, child_inert);
    if (socket && *socket && helper_register() < 0)
        shim_note(NOTE_ALONE "at %s; limits from the environment hold", socket);
    atomic_store(&shim.on, 1);
}

/* Of a process that was forked while another thread was at it: that thread is not here, and nobody ends what it began.
 * Later forks are told by the C library. */
static void start_inherited(void)
{
    child_inert();
    (void)resolve_driver(true);
    atomic_store(&start_state, START_DONE);
}

void enter_start(void)
{
    struct inside_mark mark;
    uint32_t seen = 0, self = (uint32_t)getpid();
    int saved = errno;

    if (atomic_compare_exchange_strong(&start_state, &seen, self)) {
        signals_hold(&mark); /* nobody jumps out of this */
        thread_enter(&mark);
        start_once();
        shim_thread.depth = 0;
        atomic_store(&start_state, START_DONE);
        signals_release();
    } else if (seen != self && seen != START_DONE) {
        start_inherited();
    } else if (!thread_deeper()) {
        /* Another thread is at it, for 50 ms at most beyond the driver's own loading. Whoever did not wait for it would
         * pass us by: a context that nobody saw has no helper. */
        for (uint64_t until = clock_ns() + START_NS; atomic_load(&start_state) != START_DONE && clock_ns() < until;)
            nap_ns(50 * NSEC_USEC);
    } else {
        (void)resolve_driver(true);
    }
    errno = saved;
}

CUcontext enter_context_of(int gpu)
{
    return gpu >= 0 && gpu < PAGE_GPUS ? (CUcontext)atomic_load(&contexts[gpu]) : NULL;
}

int enter_device(void)
{
    CUdevice dev = -1;

    if (!HAVE(cuCtxGetDevice) || REAL(cuCtxGetDevice)(&dev) != CUDA_SUCCESS || dev < 0 || dev >= PAGE_GPUS)
        return -1;
    return dev;
}

/* The driver is only asked where there is more than one GPU to choose from. */
int enter_stream_device(CUstream stream)
{
    int known = 0, gpu = -1;

    for (int i = 0; i < PAGE_GPUS; i++)
        known += atomic_load_explicit(&contexts[i], memory_order_relaxed) != 0;
    if (known >= 2 && (uintptr_t)stream > 2)
        gpu = context_gpu(context_of(stream));
    return gpu < 0 ? enter_device() : gpu;
}

void enter_context(CUcontext ctx, CUdevice dev)
{
    struct page_memory *m;
    uint64_t context = CONTEXT_BYTES;
    uintptr_t none = 0;
    size_t total = 0;
    int saved = errno;

    if (!ctx || dev < 0 || dev >= PAGE_GPUS || !context_put(ctx, dev) ||
        !atomic_compare_exchange_strong(&contexts[dev], &none, (uintptr_t)ctx))
        return;
    m = &shim.page->memory[dev];
    if (HAVE(cuDeviceGetUuid_v2))
        (void)REAL(cuDeviceGetUuid_v2)((struct cuda_uuid *)m->uuid, dev);
    if (HAVE(cuDeviceTotalMem_v2) && REAL(cuDeviceTotalMem_v2)(&total, dev) == CUDA_SUCCESS)
        m->total_bytes = total;
    m->present = 1;
    shim.context_told = size_env("MUSTER_GPU_CONTEXT", &context);
    mem_force(dev, CLASS_CONTEXT, context);
    helper_start();
    helper_device(dev);
    python_try();
    errno = saved;
}

void enter_uuids(void)
{
    struct cuda_uuid uuid;

    for (int i = 0; i < PAGE_GPUS; i++)
        if (enter_context_of(i) && HAVE(cuDeviceGetUuid_v2) && REAL(cuDeviceGetUuid_v2)(&uuid, i) == CUDA_SUCCESS &&
            memcmp(&uuid, shim.page->memory[i].uuid, sizeof(uuid)) != 0) {
            memcpy(shim.page->memory[i].uuid, &uuid, sizeof(uuid));
            view_moved(i);
            helper_device(i);
        }
}

/* Another of that GPU takes its place, if there is one. */
uint32_t enter_context_gone(CUcontext ctx)
{
    uintptr_t mine = (uintptr_t)ctx;
    uint32_t at = 0, number;
    int gpu = -1;

    number = mine && !green_stands(ctx) ? context_drop(ctx, &gpu) : 0; /* a green one does not end so */
    if (!number || gpu < 0)
        return 0;
    if (atomic_compare_exchange_strong(&contexts[gpu], &mine, (uintptr_t)context_next(gpu, &at)) &&
        !enter_context_of(gpu))
        mem_set_class(gpu, CLASS_CONTEXT, 0);
    return number;
}

/* The driver has freed what was made in it: allocations, arrays, heaps, pinned memory. */
static void context_ended(CUcontext ctx, uint32_t number)
{
    struct inside_mark mark;

    capture_context_gone(ctx);
    signals_hold(&mark);
    table_ended(number);
    vmm_ended(number);
    signals_release();
}

/* ---- the entry points that belong here */

#define NO_DRIVER(name)                                                                                                \
    if (unlikely(!HAVE(name)))                                                                                         \
    return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED

CUresult cuInit(unsigned int flags)
{
    (void)shim_ready();
    NO_DRIVER(cuInit);
    return REAL(cuInit)(flags);
}

#define CONTEXT_NEW(name, params, args)                                                                                \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        bool on = shim_ready();                                                                                        \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        r = REAL(name) args;                                                                                           \
        if (on && r == CUDA_SUCCESS && ctx)                                                                            \
            enter_context(*ctx, dev);                                                                                  \
        return r;                                                                                                      \
    }
CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
    bool on = shim_ready();
    CUresult r;

    NO_DRIVER(cuDevicePrimaryCtxRetain);
    r = REAL(cuDevicePrimaryCtxRetain)(ctx, dev);
    if (!on || r != CUDA_SUCCESS || !ctx || dev < 0 || dev >= PAGE_GPUS)
        return r;
    atomic_store(&primary[dev], (uintptr_t)*ctx);
    enter_context(*ctx, dev);
    return r;
}

CONTEXT_NEW(cuCtxCreate, (CUcontext * ctx, unsigned int flags, CUdevice dev), (ctx, flags, dev))
CONTEXT_NEW(cuCtxCreate_v2, (CUcontext * ctx, unsigned int flags, CUdevice dev), (ctx, flags, dev))
CONTEXT_NEW(cuCtxCreate_v3, (CUcontext * ctx, void *affinity, int count, unsigned int flags, CUdevice dev),
            (ctx, affinity, count, flags, dev))
CONTEXT_NEW(cuCtxCreate_v4, (CUcontext * ctx, void *params, unsigned int flags, CUdevice dev),
            (ctx, params, flags, dev))

/* It frees memory, so none of it meets a move: it waits as a copy does. One that was attached to more often than it is
 * detached from now lives on; nobody tells, so what it holds stays counted. */
#define CONTEXT_END(name, ends)                                                                                        \
    CUresult name(CUcontext ctx)                                                                                       \
    {                                                                                                                  \
        struct submit submit;                                                                                          \
        bool on = shim_ready();                                                                                        \
        uint32_t number;                                                                                               \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        if (!on)                                                                                                       \
            return REAL(name)(ctx);                                                                                    \
        submit_enter(&submit, SUBMIT_MEMORY, 0, NULL);                                                                 \
        number = enter_context_gone(ctx);                                                                              \
        r = REAL(name)(ctx);                                                                                           \
        if (r == CUDA_SUCCESS)                                                                                         \
            context_ended(ctx, (ends) ? number : 0);                                                                   \
        submit_leave(&submit, CUDA_ERROR_NOT_READY); /* nothing runs for it */                                         \
        return r;                                                                                                      \
    }
CONTEXT_END(cuCtxDestroy, true)
CONTEXT_END(cuCtxDestroy_v2, true)
CONTEXT_END(cuCtxDetach, false)

/* The GPU's own context is empty after a reset, and after the last release; whoever retains it then has a new one,
 * often at the same address. */
static bool primary_active(CUdevice dev)
{
    unsigned int flags;
    int active = 1;

    return !HAVE(cuDevicePrimaryCtxGetState) ||
           REAL(cuDevicePrimaryCtxGetState)(dev, &flags, &active) != CUDA_SUCCESS || active;
}

/* With it go the captures of its streams, and what pools and graphs of its GPU held. */
static void primary_gone(CUdevice dev)
{
    CUcontext ctx = (CUcontext)atomic_load(&primary[dev]);
    uint32_t number = enter_context_gone(ctx);

    context_ended(ctx, number);
    if (number)
        mem_pool_ended(dev);
}

CUcontext enter_primary_of(int gpu)
{
    return (CUcontext)atomic_load(&primary[gpu]);
}

/* Somebody else keeps it, and it is not known yet. */
void enter_primary(CUdevice dev)
{
    CUcontext ctx = NULL;

    if (!HAVE(cuDevicePrimaryCtxRetain) || REAL(cuDevicePrimaryCtxRetain)(&ctx, dev) != CUDA_SUCCESS)
        return;
    atomic_store(&primary[dev], (uintptr_t)ctx);
    enter_context(ctx, dev);
    if (HAVE(cuDevicePrimaryCtxRelease_v2))
        (void)REAL(cuDevicePrimaryCtxRelease_v2)(dev);
    else if (HAVE(cuDevicePrimaryCtxRelease))
        (void)REAL(cuDevicePrimaryCtxRelease)(dev);
}

void enter_primary_look(CUdevice dev)
{
    if (enter_primary_of(dev) && context_number(enter_primary_of(dev)) && !primary_active(dev))
        primary_gone(dev);
}

#define PRIMARY_END(name, over)                                                                                        \
    CUresult name(CUdevice dev)                                                                                        \
    {                                                                                                                  \
        struct submit submit;                                                                                          \
        bool on = shim_ready();                                                                                        \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        if (!on)                                                                                                       \
            return REAL(name)(dev);                                                                                    \
        COUNT_ADD(tracked, 1);                                                                                         \
        submit_enter(&submit, SUBMIT_MEMORY, 0, NULL);                                                                 \
        r = REAL(name)(dev);                                                                                           \
        if (r == CUDA_SUCCESS && dev >= 0 && dev < PAGE_GPUS && (over))                                                \
            primary_gone(dev);                                                                                         \
        submit_leave(&submit, CUDA_ERROR_NOT_READY);                                                                   \
        return r;                                                                                                      \
    }
PRIMARY_END(cuDevicePrimaryCtxRelease, !primary_active(dev))
PRIMARY_END(cuDevicePrimaryCtxRelease_v2, !primary_active(dev))
PRIMARY_END(cuDevicePrimaryCtxReset, true)
PRIMARY_END(cuDevicePrimaryCtxReset_v2, true)

/* The calling thread's context may read memory of the peer's GPU, or no longer. */
#define PEER(name, params, args, on_)                                                                                  \
    CUresult name params                                                                                               \
    {                                                                                                                  \
        struct submit submit;                                                                                          \
        bool on = shim_ready();                                                                                        \
        CUresult r;                                                                                                    \
                                                                                                                       \
        NO_DRIVER(name);                                                                                               \
        if (!on)                                                                                                       \
            return REAL(name) args;                                                                                    \
        submit_enter(&submit, SUBMIT_COPY, 0, NULL);                                                                   \
        r = REAL(name) args;                                                                                           \
        if (r == CUDA_SUCCESS)                                                                                         \
            vmm_peer(context_gpu(peer), enter_device(), on_);                                                          \
        submit_leave(&submit, r);                                                                                      \
        return r;                                                                                                      \
    }
PEER(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags), (peer, flags), true)
PEER(cuCtxDisablePeerAccess, (CUcontext peer), (peer), false)
