/* SPDX-License-Identifier: Apache-2.0 */
/* nvml.c - as much of NVML as tests of the view need: one GPU of 256 MiB, 100 in use, by this process and by process 1.
 */
#include <stdio.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MIB (1ull << 20)

struct process {
    unsigned int pid;
    unsigned long long used;
    unsigned int gpu, compute;
};

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

API int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory)
{
    (void)device;
    memory[0] = 256 * MIB;
    memory[1] = 156 * MIB;
    memory[2] = 100 * MIB;
    return 0;
}

API int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, struct process *infos)
{
    (void)device;
    if (*count < 2)
        return 7;
    *count = 2;
    infos[0] = (struct process){ (unsigned int)getpid(), 40 * MIB, 0, 0 };
    infos[1] = (struct process){ 1, 60 * MIB, 0, 0 };
    return 0;
}
