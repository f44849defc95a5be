/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* nvml_abi.h - the few calls of NVIDIA's management library that are used, as function pointers: name, result type is
 * always int (0 = done), arguments. The library is opened at run time; structures are those of its stable ABI. */
#include <stdint.h>

struct nvml_device;
struct nvml_events;

struct nvml_pci {
    char bus_legacy[16];
    unsigned int domain, bus, device, id, subsystem;
    char bus_id[32];
};

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_util {
    unsigned int gpu, memory;
};

struct nvml_process {
    unsigned int pid;
    unsigned long long memory;
    unsigned int instance, compute_instance;
};

struct nvml_process_util {
    unsigned int pid;
    unsigned long long time;
    unsigned int sm, memory, encoder, decoder;
};

struct nvml_event {
    struct nvml_device *device;
    unsigned long long type, data;
    unsigned int instance, compute_instance;
};

enum {
    NVML_DONE = 0,
    NVML_NOT_FOUND = 6,
    NVML_TOO_SMALL = 7,
    NVML_LOST = 15,
    NVML_EVENT_DOUBLE_BIT = 2,
    NVML_EVENT_XID = 8,
    NVML_LINKS_MAX = 18,
    NVML_REMOTE_GPU = 0,
    NVML_REMOTE_SWITCH = 2,
    NVML_CLOCK_SM = 1,
};

#define NVML_CALLS(X)                                                                                                  \
    X(init, "nvmlInit_v2", (void))                                                                                     \
    X(shutdown, "nvmlShutdown", (void))                                                                                \
    X(count, "nvmlDeviceGetCount_v2", (unsigned int *))                                                                \
    X(by_index, "nvmlDeviceGetHandleByIndex_v2", (unsigned int, struct nvml_device **))                                \
    X(name, "nvmlDeviceGetName", (struct nvml_device *, char *, unsigned int))                                         \
    X(uuid, "nvmlDeviceGetUUID", (struct nvml_device *, char *, unsigned int))                                         \
    X(pci, "nvmlDeviceGetPciInfo_v3", (struct nvml_device *, struct nvml_pci *))                                       \
    X(memory, "nvmlDeviceGetMemoryInfo", (struct nvml_device *, struct nvml_memory *))                                 \
    X(minor, "nvmlDeviceGetMinorNumber", (struct nvml_device *, unsigned int *))                                       \
    X(util, "nvmlDeviceGetUtilizationRates", (struct nvml_device *, struct nvml_util *))                               \
    X(power, "nvmlDeviceGetPowerUsage", (struct nvml_device *, unsigned int *))                                        \
    X(temperature, "nvmlDeviceGetTemperature", (struct nvml_device *, int, unsigned int *))                            \
    X(clock, "nvmlDeviceGetClockInfo", (struct nvml_device *, int, unsigned int *))                                    \
    X(clock_max, "nvmlDeviceGetMaxClockInfo", (struct nvml_device *, int, unsigned int *))                             \
    X(slowed, "nvmlDeviceGetCurrentClocksEventReasons", (struct nvml_device *, unsigned long long *))                  \
    X(throttled, "nvmlDeviceGetCurrentClocksThrottleReasons", (struct nvml_device *, unsigned long long *))            \
    X(processes, "nvmlDeviceGetComputeRunningProcesses_v3",                                                            \
      (struct nvml_device *, unsigned int *, struct nvml_process *))                                                   \
    X(process_util, "nvmlDeviceGetProcessUtilization",                                                                 \
      (struct nvml_device *, struct nvml_process_util *, unsigned int *, unsigned long long))                          \
    X(link_state, "nvmlDeviceGetNvLinkState", (struct nvml_device *, unsigned int, unsigned int *))                    \
    X(link_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2", (struct nvml_device *, unsigned int, struct nvml_pci *))     \
    X(link_kind, "nvmlDeviceGetNvLinkRemoteDeviceType", (struct nvml_device *, unsigned int, int *))                   \
    X(ecc, "nvmlDeviceGetTotalEccErrors", (struct nvml_device *, int, int, unsigned long long *))                      \
    X(events_new, "nvmlEventSetCreate", (struct nvml_events **))                                                       \
    X(events_free, "nvmlEventSetFree", (struct nvml_events *))                                                         \
    X(events_add, "nvmlDeviceRegisterEvents", (struct nvml_device *, unsigned long long, struct nvml_events *))        \
    X(events_wait, "nvmlEventSetWait_v2", (struct nvml_events *, struct nvml_event *, unsigned int))

struct nvml_calls {
#define X(field, symbol, arguments) int(*field) arguments;
    NVML_CALLS(X)
#undef X
};
