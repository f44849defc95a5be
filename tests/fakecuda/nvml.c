/* SPDX-License-Identifier: Apache-2.0 */
/* nvml.c - as much of NVML as tests need: one GPU of 256 MiB, 100 in use, by this process and by process 1. With
 * FAKE_NVML_FILE it can be found by counting, and the lines "PID MIB UTIL" of that file are who uses it
 * and how busy each of them is; without UTIL it is not. A line "clock MHZ MOST REASONS" is what its clocks are, and
 * why: the driver's bits, in hexadecimal. FAKE_NVML_OLD: by the name that call had before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MIB (1ull << 20)

struct process {
    unsigned int pid;
    unsigned long long used;
    unsigned int gpu, compute;
};

static unsigned int users(struct process *infos, unsigned int most, unsigned long long *ret_sum)
{
    const char *path = getenv("FAKE_NVML_FILE");
    FILE *f = path ? fopen(path, "re") : NULL;
    unsigned long long mib;
    unsigned int n = 0, pid;
    char line[128];

    *ret_sum = 0;
    while (f && n < most && fgets(line, sizeof(line), f)) {
        unsigned int util = 0;

        if (sscanf(line, "%u %llu %u", &pid, &mib, &util) < 2)
            continue;
        infos[n++] = (struct process){ pid, mib * MIB, util, 0 };
        *ret_sum += mib * MIB;
    }
    if (f)
        (void)fclose(f);
    return n;
}

API int nvmlShutdown(void)
{
    return 0;
}

API int nvmlDeviceGetCount_v2(unsigned int *count)
{
    *count = getenv("FAKE_NVML_FILE") ? 1 : 0;
    return 0;
}

API int nvmlDeviceGetName(void *device, char *text, unsigned int size)
{
    (void)device;
    (void)snprintf(text, size, "Fake GPU");
    return 0;
}

API int nvmlInit_v2(void)
{
    return 0;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
    static int gpu;

    *device = &gpu;
    return index ? 2 : 0;
}

API int nvmlDeviceGetUUID(void *device, char *text, unsigned int size)
{
    (void)device;
    (void)snprintf(text, size, "GPU-40404040-4040-4040-4040-404040404040");
    return 0;
}

/* A line "lost": the GPU has fallen off the bus. */
static int lost(void)
{
    const char *path = getenv("FAKE_NVML_FILE");
    FILE *f = path ? fopen(path, "re") : NULL;
    char line[128];
    int r = 0;

    while (f && fgets(line, sizeof(line), f))
        if (line[0] == 'l')
            r = 15;
    if (f)
        (void)fclose(f);
    return r;
}

API int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory)
{
    struct process all[32];

    (void)device;
    if (lost())
        return lost();
    memory[0] = 256 * MIB;
    memory[2] = 100 * MIB;
    if (getenv("FAKE_NVML_FILE"))
        (void)users(all, 32, &memory[2]);
    memory[1] = memory[2] < memory[0] ? memory[0] - memory[2] : 0;
    return 0;
}

struct process_util {
    unsigned int pid;
    unsigned long long time;
    unsigned int sm, memory, encoder, decoder;
};

API int nvmlDeviceGetProcessUtilization(void *device, struct process_util *utils, unsigned int *count,
                                        unsigned long long since)
{
    struct process all[32];
    unsigned long long sum;
    unsigned int n = users(all, 32, &sum), kept = 0;

    (void)device;
    for (unsigned int i = 0; i < n && kept < *count; i++)
        if (all[i].gpu)
            utils[kept++] = (struct process_util){ .pid = all[i].pid, .time = since + 1, .sm = all[i].gpu };
    *count = kept;
    return kept ? 0 : 6;
}

API int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, struct process *infos)
{
    unsigned long long sum;

    (void)device;
    if (*count < 2)
        return 7;
    if (getenv("FAKE_NVML_FILE")) {
        *count = users(infos, *count, &sum);
        return 0;
    }
    *count = 2;
    infos[0] = (struct process){ (unsigned int)getpid(), 40 * MIB, 0, 0 };
    infos[1] = (struct process){ 1, 60 * MIB, 0, 0 };
    return 0;
}

static int clocks(unsigned int *mhz, unsigned int *most, unsigned long long *reasons)
{
    const char *path = getenv("FAKE_NVML_FILE");
    FILE *f = path ? fopen(path, "re") : NULL;
    char line[128];
    int r = 3; /* not supported */

    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "clock %u %u %llx", mhz, most, reasons) == 3)
            r = 0;
    if (f)
        (void)fclose(f);
    return r;
}

API int nvmlDeviceGetClockInfo(void *device, int kind, unsigned int *mhz)
{
    unsigned int most;
    unsigned long long reasons;

    (void)device;
    return kind == 1 ? clocks(mhz, &most, &reasons) : 2;
}

API int nvmlDeviceGetMaxClockInfo(void *device, int kind, unsigned int *mhz)
{
    unsigned int now;
    unsigned long long reasons;

    (void)device;
    return kind == 1 ? clocks(&now, mhz, &reasons) : 2;
}

API int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons)
{
    unsigned int now, most;

    (void)device;
    return getenv("FAKE_NVML_OLD") ? 3 : clocks(&now, &most, reasons);
}

API int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons)
{
    unsigned int now, most;

    (void)device;
    return clocks(&now, &most, reasons);
}
