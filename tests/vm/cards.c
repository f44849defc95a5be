/* SPDX-License-Identifier: Apache-2.0 */
/* cards.c - a machine without GPUs that tells of four: as much of NVML as an agent asks at its start, and nobody uses
 * them. The agent takes them for real, so that it fences their device files, which no driver is behind: to open one
 * that is allowed gives ENXIO, one that is not EPERM.
 */
#include <stdio.h>

#define API __attribute__((visibility("default")))

enum { CARDS = 4, BAD_INDEX = 2 };

static char cards[CARDS];

static unsigned int number_of(const void *device)
{
    return (unsigned int)((const char *)device - cards);
}

API int nvmlInit_v2(void)
{
    return 0;
}

API int nvmlShutdown(void)
{
    return 0;
}

API int nvmlDeviceGetCount_v2(unsigned int *count)
{
    *count = CARDS;
    return 0;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
    if (index >= CARDS)
        return BAD_INDEX;
    *device = &cards[index];
    return 0;
}

API int nvmlDeviceGetName(void *device, char *text, unsigned int size)
{
    (void)device;
    (void)snprintf(text, size, "NVIDIA H100 80GB HBM3");
    return 0;
}

API int nvmlDeviceGetUUID(void *device, char *text, unsigned int size)
{
    (void)snprintf(text, size, "GPU-00000000-0000-0000-0000-%012u", number_of(device));
    return 0;
}

API int nvmlDeviceGetMinorNumber(void *device, unsigned int *minor)
{
    *minor = number_of(device);
    return 0;
}

API int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *total_free_used)
{
    (void)device;
    total_free_used[0] = total_free_used[1] = 80ull << 30;
    total_free_used[2] = 0;
    return 0;
}

API int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, void *infos)
{
    (void)device;
    (void)infos;
    *count = 0;
    return 0;
}
