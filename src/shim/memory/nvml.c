/* SPDX-License-Identifier: Apache-2.0 */
/* nvml.c - NVML's answers about memory, as the program's limit has them. Only with MUSTER_GPU_NVML_VIEW=1.
 *
 * Frameworks and nvidia-smi read memory from NVML, not from CUDA. With the view on, a GPU is as large as the limit, and
 * in use is what this program (or, where it has no context, the programs of its session) holds; the processes of others
 * are not shown. Everything else is NVML's own.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/shim.h"

#define LIBRARY "libnvidia-ml.so.1"
#define NVML_ERROR_UNINITIALIZED 1
#define PROCESSES 256u
#define UUID_TEXT 96

typedef void *nvml_device;
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_memory_v2 {
    unsigned int version;
    unsigned long long total, reserved, free, used;
};
struct nvml_process_v1 {
    unsigned int pid;
    unsigned long long used;
};
struct nvml_process {
    unsigned int pid;
    unsigned long long used;
    unsigned int gpu_instance, compute_instance;
};

EXPORT int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory *memory);
EXPORT int nvmlDeviceGetMemoryInfo_v2(nvml_device device, struct nvml_memory_v2 *memory);
EXPORT int nvmlDeviceGetComputeRunningProcesses(nvml_device device, unsigned int *count, struct nvml_process_v1 *infos);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(nvml_device device, unsigned int *count, struct nvml_process *infos);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device device, unsigned int *count, struct nvml_process *infos);

static bool view_on(void)
{
    static _Atomic uint32_t known; /* 1 off, 2 on */
    const char *text;

    if (!atomic_load_explicit(&known, memory_order_relaxed)) {
        text = getenv("MUSTER_GPU_NVML_VIEW");
        atomic_store(&known, text && *text && strcmp(text, "0") != 0 ? 2 : 1);
    }
    return atomic_load_explicit(&known, memory_order_relaxed) == 2;
}

void *nvml_pick(const char *name)
{
    static const struct {
        const char *name;
        void *fn;
    } ours[] = {
        { "nvmlDeviceGetMemoryInfo", (void *)&nvmlDeviceGetMemoryInfo },
        { "nvmlDeviceGetMemoryInfo_v2", (void *)&nvmlDeviceGetMemoryInfo_v2 },
        { "nvmlDeviceGetComputeRunningProcesses", (void *)&nvmlDeviceGetComputeRunningProcesses },
        { "nvmlDeviceGetComputeRunningProcesses_v2", (void *)&nvmlDeviceGetComputeRunningProcesses_v2 },
        { "nvmlDeviceGetComputeRunningProcesses_v3", (void *)&nvmlDeviceGetComputeRunningProcesses_v3 },
    };

    if (!view_on())
        return NULL;
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        if (strcmp(name, ours[i].name) == 0 && resolve_in(LIBRARY, name))
            return ours[i].fn;
    return NULL;
}

/* "GPU-2a8d5603-f56d-...": which of this process' GPUs is it? -1 none. */
static int gpu_of(nvml_device device)
{
    int (*get)(nvml_device, char *, unsigned int) = NULL;
    char text[UUID_TEXT] = "", bytes[16];
    size_t n = 0;

    *(void **)&get = resolve_in(LIBRARY, "nvmlDeviceGetUUID");
    if (!get || get(device, text, sizeof(text)) != 0 || strncmp(text, "GPU-", 4) != 0)
        return -1;
    for (const char *p = text + 4; *p && n < 32; p++) {
        int digit = *p >= 'a' ? *p - 'a' + 10 : *p - '0';

        if (*p == '-')
            continue;
        bytes[n / 2] = (char)(n % 2 ? bytes[n / 2] << 4 | digit : digit);
        n++;
    }
    for (int i = 0; i < PAGE_GPUS && n == 32; i++)
        if (shim.page->memory[i].present && memcmp(shim.page->memory[i].uuid, bytes, 16) == 0)
            return i;
    return -1;
}

static bool mine(unsigned int pid)
{
    return (pid_t)pid == getpid() || getsid((pid_t)pid) == getsid(0);
}

/* What programs of this session hold there, as NVML tells. */
static uint64_t session_used(nvml_device device)
{
    int (*get)(nvml_device, unsigned int *, struct nvml_process *) = NULL;
    struct nvml_process infos[PROCESSES / 8];
    unsigned int count = PROCESSES / 8;
    uint64_t sum = 0;

    *(void **)&get = resolve_in(LIBRARY, "nvmlDeviceGetComputeRunningProcesses_v3");
    if (!get || get(device, &count, infos) != 0)
        return 0;
    for (unsigned int i = 0; i < count && i < PROCESSES / 8; i++)
        sum += mine(infos[i].pid) && infos[i].used != ~0ull ? infos[i].used : 0;
    return sum;
}

/* The limit, and what of it is in use. False: there is none. */
static bool view(nvml_device device, uint64_t real_total, uint64_t *ret_total, uint64_t *ret_used)
{
    int gpu = gpu_of(device);
    uint64_t cap = gpu >= 0 ? shim.page->limit[gpu].view_total_bytes : shim.memory_bytes;

    if (!cap || cap > real_total)
        return false;
    *ret_total = cap;
    *ret_used = gpu >= 0 ? __atomic_load_n(&shim.page->memory[gpu].used, __ATOMIC_RELAXED) : session_used(device);
    *ret_used = *ret_used < cap ? *ret_used : cap;
    return true;
}

int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory *memory)
{
    int (*real)(nvml_device, struct nvml_memory *) = NULL, r;
    uint64_t total, used;

    *(void **)&real = resolve_in(LIBRARY, "nvmlDeviceGetMemoryInfo");
    r = real ? real(device, memory) : NVML_ERROR_UNINITIALIZED;
    if (r == 0 && view_on() && shim_ready() && memory && view(device, memory->total, &total, &used))
        *memory = (struct nvml_memory){ total, total - used, used };
    return r;
}

int nvmlDeviceGetMemoryInfo_v2(nvml_device device, struct nvml_memory_v2 *memory)
{
    int (*real)(nvml_device, struct nvml_memory_v2 *) = NULL, r;
    uint64_t total, used;

    *(void **)&real = resolve_in(LIBRARY, "nvmlDeviceGetMemoryInfo_v2");
    r = real ? real(device, memory) : NVML_ERROR_UNINITIALIZED;
    if (r == 0 && view_on() && shim_ready() && memory && view(device, memory->total, &total, &used))
        *memory = (struct nvml_memory_v2){ memory->version, total, 0, total - used, used };
    return r;
}

/* NVML's list without the processes of others; the caller's room was for all of them. */
#define RUNNING(name, info)                                                                                            \
    int name(nvml_device device, unsigned int *count, struct info *infos)                                              \
    {                                                                                                                  \
        int (*real)(nvml_device, unsigned int *, struct info *) = NULL, r;                                             \
        unsigned int kept = 0;                                                                                         \
                                                                                                                       \
        *(void **)&real = resolve_in(LIBRARY, #name);                                                                  \
        r = real ? real(device, count, infos) : NVML_ERROR_UNINITIALIZED;                                              \
        if (r != 0 || !view_on() || !count || !infos)                                                                  \
            return r;                                                                                                  \
        for (unsigned int i = 0; i < *count; i++)                                                                      \
            if (mine(infos[i].pid))                                                                                    \
                infos[kept++] = infos[i];                                                                              \
        *count = kept;                                                                                                 \
        return r;                                                                                                      \
    }
RUNNING(nvmlDeviceGetComputeRunningProcesses, nvml_process_v1)
RUNNING(nvmlDeviceGetComputeRunningProcesses_v2, nvml_process)
RUNNING(nvmlDeviceGetComputeRunningProcesses_v3, nvml_process)
