/* SPDX-License-Identifier: Apache-2.0 */
/* fake_core.c - calls, devices, contexts, look-up functions. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake.h"

extern const int fake_version; /* of this library */
#define NAMES 1024

static struct {
    const char *name;
    uint64_t calls;
} called[NAMES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char fail_name[64];
static unsigned int fail_nth;
static int fail_code;
static bool fail_read;
static char stall_name[64];
static _Atomic uint32_t stalled;
static __thread uint64_t launches_mine;
static __thread CUcontext current;
__thread int fake_inside;
static struct CUctx_st contexts[64]; /* those of the GPUs first, then whatever else is made */
static _Atomic uint32_t contexts_made = 16;

static void fail_from_env(void)
{
    const char *text = getenv("FAKE_CUDA_FAIL");

    fail_read = true;
    if (text)
        (void)sscanf(text, "%63[^:]:%u:%d", fail_name, &fail_nth, &fail_code);
}

/* FAKE_CUDA_TRACE: a file that has the name of every call that reached the driver, in their order. */
static void trace_write(const char *name)
{
    static FILE *trace;
    static bool looked;
    const char *path = looked ? NULL : getenv("FAKE_CUDA_TRACE");

    looked = true;
    if (path)
        trace = fopen(path, "ae");
    if (trace && fprintf(trace, "%s\n", name) > 0)
        (void)fflush(trace);
}

FAKE_API void fake_fail(const char *name, unsigned int nth, int code)
{
    pthread_mutex_lock(&lock);
    fail_read = true;
    (void)snprintf(fail_name, sizeof(fail_name), "%s", name);
    fail_nth = nth;
    fail_code = code;
    pthread_mutex_unlock(&lock);
}

FAKE_API void fake_stall(const char *name)
{
    pthread_mutex_lock(&lock);
    (void)snprintf(stall_name, sizeof(stall_name), "%s", name);
    pthread_mutex_unlock(&lock);
}

FAKE_API bool fake_stalled(void)
{
    return stalled > 0;
}

FAKE_API uint64_t fake_launches_mine(void)
{
    return launches_mine;
}

/* FAKE_CUDA_STALL: a file with the name of a function whose calls do not return while it is there. */
static bool stall_file(const char *name)
{
    const char *path = getenv("FAKE_CUDA_STALL");
    char text[64] = "";
    FILE *f = path ? fopen(path, "re") : NULL;
    bool stands = f && fscanf(f, "%63s", text) == 1 && strcmp(text, name) == 0;

    if (f)
        (void)fclose(f);
    return stands;
}

/* A driver that does not come back from a call. */
static void stall_wait(const char *name)
{
    bool stands;

    stalled++;
    do {
        (void)usleep(1000);
        pthread_mutex_lock(&lock);
        stands = strcmp(stall_name, name) == 0;
        pthread_mutex_unlock(&lock);
    } while (stands || stall_file(name));
    stalled--;
}

int fake_enter(const char *name)
{
    int code = 0, i;
    bool stands;

    launches_mine += strcmp(name, "cuLaunchKernel") == 0;
    if (getenv("FAKE_CUDA_GONE") && access(getenv("FAKE_CUDA_GONE"), F_OK) == 0)
        return 46; /* the device is unavailable */
    if (fake_checkpoint_failed())
        return 999;
    pthread_mutex_lock(&lock);
    if (!fail_read)
        fail_from_env();
    for (i = 0; i < NAMES - 1 && called[i].name && strcmp(called[i].name, name) != 0; i++)
        ;
    called[i].name = name;
    called[i].calls++;
    trace_write(name);
    if (fail_code && strcmp(fail_name, name) == 0) {
        if (fail_nth == 0) {
            code = fail_code;
        } else if (--fail_nth == 0) {
            code = fail_code;
            fail_code = 0;
        }
    }
    stands = strcmp(stall_name, name) == 0;
    pthread_mutex_unlock(&lock);
    if (stands || stall_file(name))
        stall_wait(name);
    return code ? code : fake_capture_check(name);
}

FAKE_API bool fake_busy(void)
{
    return fake_inside > 0;
}

FAKE_API uint64_t fake_calls(const char *name)
{
    uint64_t n = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < NAMES && called[i].name; i++)
        if (strcmp(called[i].name, name) == 0)
            n = called[i].calls;
    pthread_mutex_unlock(&lock);
    return n;
}

int fake_device_count(void)
{
    const char *text = getenv("FAKE_CUDA_DEVICES");

    return text ? atoi(text) : 1;
}

static int version(void)
{
    const char *text = getenv("FAKE_CUDA_VERSION");

    return text ? atoi(text) : fake_version;
}

/* ---- contexts and devices */

FAKE_API CUresult cuInit(unsigned int flags)
{
    (void)flags;
    FAKE_ENTER(cuInit);
    return 0;
}

FAKE_API CUresult cuDriverGetVersion(int *v)
{
    *v = version();
    return 0;
}

FAKE_API CUresult cuDeviceGetCount(int *count)
{
    *count = fake_device_count();
    return 0;
}

FAKE_API CUresult cuDeviceGet(CUdevice *dev, int ordinal)
{
    *dev = ordinal;
    return ordinal < fake_device_count() ? 0 : 101;
}

FAKE_API CUresult cuDeviceGetAttribute(int *value, int attr, CUdevice dev)
{
    *value = attr == CU_DEVICE_ATTRIBUTE_RDMA_WITH_VMM || attr == 145; /* and host memory can be mapped */
    if (attr == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
        *value = 0x40 + dev;
    return 0;
}

FAKE_API CUresult cuDeviceGetUuid_v2(struct cuda_uuid *uuid, CUdevice dev)
{
    memset(uuid, 0x40 + fake_card_of(dev), sizeof(*uuid));
    return 0;
}

/* Where the context was made, also after a restore elsewhere, as real drivers have done. */
FAKE_API CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice dev)
{
    FAKE_ENTER(cuDeviceGetPCIBusId);
    (void)snprintf(id, (size_t)size, "0000:%02X:00.0", 0x40 + dev);
    return 0;
}

static void group_make(uint32_t object);
static _Atomic int retained[16]; /* how often each GPU's own context is */

FAKE_API CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
    FAKE_ENTER(cuDevicePrimaryCtxRetain);
    if (dev < 0 || dev >= fake_device_count())
        return 101;
    *ctx = fake_primary_retain(dev);
    group_make(0x5c000010u + (uint32_t)dev);
    return 0;
}

CUcontext fake_primary_retain(CUdevice dev)
{
    contexts[dev].dev = dev;
    retained[dev]++;
    return &contexts[dev];
}

FAKE_API CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice dev)
{
    (void)flags;
    FAKE_ENTER(cuCtxCreate_v2);
    if (dev < 0 || dev >= fake_device_count())
        return 101;
    *ctx = &contexts[contexts_made++ % 64];
    (*ctx)->dev = dev;
    (void)fake_green_current(current, *ctx);
    current = *ctx;
    return 0;
}

/* What was made in it is refused from now on. */
static CUresult context_end(CUcontext ctx)
{
    fake_capture_over();
    fake_wait(ctx->last_seq);
    fake_memory_context_gone(ctx, ctx < &contexts[16]);
    ctx->generation++;
    return 0;
}

FAKE_API CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    FAKE_ENTER(cuCtxDestroy_v2);
    return ctx->of ? 201 : context_end(ctx);
}

FAKE_API CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    *flags = 0;
    *active = retained[dev] > 0;
    return 0;
}

FAKE_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    FAKE_ENTER(cuDevicePrimaryCtxRelease_v2);
    return fake_primary_release(dev);
}

CUresult fake_primary_release(CUdevice dev)
{
    return --retained[dev] == 0 ? context_end(&contexts[dev]) : 0;
}

FAKE_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    FAKE_ENTER(cuDevicePrimaryCtxReset_v2);
    return context_end(&contexts[dev]);
}

FAKE_API CUresult cuCtxSetCurrent(CUcontext ctx)
{
    FAKE_ENTER(cuCtxSetCurrent);
    if (!fake_green_current(current, ctx))
        return 201;
    current = ctx;
    return 0;
}

FAKE_API CUresult cuCtxGetCurrent(CUcontext *ctx)
{
    *ctx = current;
    return 0;
}

FAKE_API CUresult cuCtxGetDevice(CUdevice *dev)
{
    if (!current)
        return 201;
    *dev = current->dev;
    return 0;
}

/* ---- the driver's look-up: newest form the asked version knows, per-thread form with flag 2 */

static const struct {
    const char *base, *symbol;
    int since;
} versions[] = {
    { "cuGetProcAddress", "cuGetProcAddress_v2", 12000 },
    { "cuGetProcAddress", "cuGetProcAddress", 11030 },
    { "cuCtxSynchronize", "cuCtxSynchronize_v2", 13000 },
    { "cuCtxSynchronize", "cuCtxSynchronize", 2000 },
    { "cuStreamBeginCapture", "cuStreamBeginCapture_v2", 10010 },
    { "cuStreamBeginCapture", "cuStreamBeginCapture", 10000 },
    { "cuLaunchKernelEx", "cuLaunchKernelEx", 11060 },
    { "cuEventQuery", "cuLaunchKernel_v99", 99000 }, /* of a driver that is to come */
    { "cuEventQuery", "cuEventQuery", 2000 },
    { "cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2", 13000 },
    { "cuMemcpyBatchAsync", "cuMemcpyBatchAsync", 12080 },
};

FAKE_API void *fake_symbol(const char *name);

/* Since which version a function is there; 0 = always. */
static int since(const char *symbol)
{
    static const struct {
        const char *symbol;
        int since;
    } all[] = {
#define VERSION(name, since, per_thread, function) { #function, since },
#include "shim/versions.def"
#undef VERSION
#define UNHOOKED(name, since) { #name, since },
#include "unhooked.def"
#undef UNHOOKED
    };
    int first = 0;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i].symbol, symbol) == 0 && (first == 0 || all[i].since < first))
            first = all[i].since;
    return first;
}

static void *symbol_of(const char *symbol, int asked)
{
    return since(symbol) <= asked ? fake_symbol(symbol) : NULL;
}

/* As libcuda does now and then: by the C library's function, from its own code, of itself. */
FAKE_API void *fake_asks(const char *name)
{
    void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), *found = self ? dlsym(self, name) : NULL;

    if (self && dlvsym(self, name, "libcuda.so.1"))
        found = dlvsym(self, name, "libcuda.so.1");

    if (self)
        (void)dlclose(self);
    return found;
}

static void *lookup(const char *base, int asked, int flags)
{
    static const char *const suffixes[] = { "_v4", "_v3", "_v2", "" };
    char name[128];
    void *p = NULL;
    bool special = false;

    if (asked > version())
        asked = version();
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        if (strcmp(versions[i].base, base) != 0)
            continue;
        special = true;
        if (asked >= versions[i].since)
            return fake_symbol(versions[i].symbol);
    }
    for (size_t i = 0; i < 4 && !special && !p; i++) {
        for (int k = 0; k < 2 && flags == 2 && !p; k++) {
            (void)snprintf(name, sizeof(name), "%s%s%s", base, suffixes[i], k ? "_ptds" : "_ptsz");
            p = symbol_of(name, asked);
        }
        (void)snprintf(name, sizeof(name), "%s%s", base, suffixes[i]);
        p = p ? p : symbol_of(name, asked);
    }
    return p;
}

/* What a profiler may do: its own function in front of the driver's, from the look-up alone. */
#define LAUNCH_PARAMS                                                                                                  \
    CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,                 \
        unsigned int bz, unsigned int shared, CUstream stream, void **params, void **extra

static CUresult tool_launch(LAUNCH_PARAMS)
{
    CUresult (*own)(LAUNCH_PARAMS) = NULL;

    FAKE_ENTER(tool);
    *(void **)&own = fake_symbol("cuLaunchKernel");
    return own(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

FAKE_API CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int asked, uint64_t flags, int *status)
{
    FAKE_ENTER(cuGetProcAddress_v2);
    if (!symbol[0]) { /* the runtime's first probe */
        *pfn = NULL;
        if (status)
            *status = 1;
        return CUDA_ERROR_NOT_FOUND;
    }
    *pfn = lookup(symbol, asked, (int)flags);
    if (getenv("FAKE_CUDA_TOOL") && strcmp(symbol, "cuLaunchKernel") == 0)
        *pfn = (void *)&tool_launch;
    if (status)
        *status = *pfn ? 0 : (lookup(symbol, 99999, 0) ? 2 : 1);
    return *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

FAKE_API CUresult cuGetProcAddress(const char *symbol, void **pfn, int asked, uint64_t flags)
{
    FAKE_ENTER(cuGetProcAddress);
    *pfn = lookup(symbol, asked, (int)flags);
    return *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* ---- the kernel driver's side of channel groups: this library's ioctl answers the descriptor it opened itself */

#define GROUP_FD_PATH "/dev/null"
static int group_fd = -1;
static uint64_t group_us = 2048;
static bool group_set;

FAKE_API int ioctl(int fd, unsigned long request, ...)
{
    struct {
        uint32_t client, object, cmd, flags;
        uint64_t params;
        uint32_t params_size, status;
    } * c;
    va_list ap;
    void *arg;

    va_start(ap, request);
    arg = va_arg(ap, void *);
    va_end(ap);
    if (fd != group_fd || (request >> 8 & 0xff) != 'F')
        return (int)syscall(SYS_ioctl, fd, request, arg);
    if ((request & 0xff) == 0x2A) {
        c = arg;
        c->status = 0;
        if (c->cmd == 0xA06C0103u) {
            group_us = *(uint64_t *)(uintptr_t)c->params;
            group_set = true;
        } else if (c->cmd == 0xA06C0104u) {
            *(uint64_t *)(uintptr_t)c->params = getenv("FAKE_SLICE_LIES") ? group_us + 1 : group_us;
        } else {
            c->status = 0x56;
        }
    }
    return 0;
}

static void group_make(uint32_t object)
{
    struct {
        uint32_t error, ecc, vaspace, engine;
    } params = { 0, 0, 0, 1 };
    struct {
        uint32_t root, parent, object, class;
        uint64_t params;
        uint32_t size, status;
    } alloc = { 0xc1d00001u, 0xc1d00002u, object, 0xA06C, (uint64_t)(uintptr_t)&params, sizeof(params), 0 };

    int (*call)(int, unsigned long, ...) = NULL;

    /* By the process' first definition, as a driver's call through its own table would go. */
    *(void **)&call = dlsym(RTLD_DEFAULT, "ioctl");
    if (group_fd < 0)
        group_fd = open(GROUP_FD_PATH, O_RDWR | O_CLOEXEC);
    (void)call(group_fd, 3ul << 30 | sizeof(alloc) << 16 | 'F' << 8 | 0x2B, &alloc);
}

FAKE_API uint64_t fake_slice_us(void)
{
    return group_set ? group_us : 0;
}
