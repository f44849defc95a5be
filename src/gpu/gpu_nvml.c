/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_nvml.c - NVIDIA's GPUs, through the library of their driver, opened at run time.
 *
 * A node without it simply has no GPUs. Calls that an old driver does not have are left out. Health: an XID from the
 * table below, uncorrectable memory errors since the driver was loaded, or a GPU the driver has lost; what a program
 * did wrong (XIDs 13, 31, 43, 45, ...) does not make its GPU ill.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "gpu/gpu.h"
#include "gpu/nvml_abi.h"

enum { EVENTS_A_CALL = 64, ECC_UNCORRECTED = 1, ECC_SINCE_LOAD = 0 };

struct nvml {
    void *library;
    struct nvml_calls call;
    struct nvml_device *device[GPU_NODE_MAX];
    struct nvml_events *events;
    unsigned int xid[GPU_NODE_MAX]; /* the last that was bad; 0 = none */
    unsigned long long util_seen[GPU_NODE_MAX];
};

/* Errors of the hardware, its memory, its links or its firmware. */
static const unsigned int xids_bad[] = { 46,  48,  61,  62,  64,  74,  79,  92,  95, 109,
                                         110, 119, 120, 136, 140, 143, 154, 155, 156 };

static bool xid_bad(unsigned long long xid)
{
    for (size_t i = 0; i < sizeof(xids_bad) / sizeof(xids_bad[0]); i++)
        if (xids_bad[i] == xid)
            return true;
    return false;
}

static void nvml_close(struct gpus *gpus)
{
    struct nvml *n = gpus->inside;

    if (!n)
        return;
    if (n->events && n->call.events_free)
        (void)n->call.events_free(n->events);
    if (n->call.shutdown)
        (void)n->call.shutdown();
    if (n->library)
        (void)dlclose(n->library);
    mem_free(n);
}

/* How busy each of its processes was since we last asked. One that was not is not named. */
static void processes_util(struct nvml *n, uint32_t index, struct gpu_sample *ret)
{
    struct nvml_process_util util[64];
    unsigned int count = sizeof(util) / sizeof(util[0]);
    bool told = n->call.process_util != NULL;
    unsigned long long seen = n->util_seen[index];
    int r = told ? n->call.process_util(n->device[index], util, &count, seen) : -1;

    for (uint32_t i = 0; i < ret->pid_count; i++) {
        unsigned long long newest = 0;

        ret->pid_util[i] = r == NVML_DONE || r == NVML_NOT_FOUND ? 0 : -1;
        for (unsigned int k = 0; r == NVML_DONE && k < count; k++)
            if ((pid_t)util[k].pid == ret->pids[i] && util[k].time >= newest) {
                newest = util[k].time;
                ret->pid_util[i] = util[k].sm <= 100 ? (int16_t)util[k].sm : -1;
            }
    }
    for (unsigned int k = 0; r == NVML_DONE && k < count; k++)
        n->util_seen[index] = util[k].time > n->util_seen[index] ? util[k].time : n->util_seen[index];
}

static int nvml_sample(struct gpus *gpus, uint32_t index, struct gpu_sample *ret)
{
    struct nvml *n = gpus->inside;
    struct nvml_device *device = n->device[index];
    struct nvml_process processes[64];
    struct nvml_memory memory = { 0 };
    struct nvml_util util = { 0 };
    unsigned int power = 0, temperature = 0, count = sizeof(processes) / sizeof(processes[0]);

    *ret = (struct gpu_sample){ 0 };
    if (n->call.memory(device, &memory) != NVML_DONE)
        return -EIO;
    if (n->call.util)
        (void)n->call.util(device, &util);
    if (n->call.power)
        (void)n->call.power(device, &power);
    if (n->call.temperature)
        (void)n->call.temperature(device, 0, &temperature);
    ret->memory_mib = (uint32_t)(memory.used >> 20);
    ret->util = (uint8_t)util.gpu;
    ret->power_w = power / 1000;
    ret->temp = (uint8_t)temperature;
    if (!n->call.processes || n->call.processes(device, &count, processes) != NVML_DONE)
        return 0;
    for (unsigned int i = 0; i < count && ret->pid_count < GPU_PIDS_MAX; i++) {
        bool told = processes[i].memory <= memory.total; /* a driver that may not tell says all bits set */

        ret->pid_mib[ret->pid_count] = told ? (uint32_t)(processes[i].memory >> 20) : 0;
        ret->pids[ret->pid_count++] = (pid_t)processes[i].pid;
    }
    processes_util(n, index, ret);
    return 0;
}

/* Bits of the driver's answer. That it idles (1), or that a display wants it so (256), slows nobody down. */
static uint32_t throttle_of(unsigned long long reasons)
{
    static const struct {
        unsigned long long bits;
        uint32_t means;
    } known[] = { { 0x2, GPU_THROTTLE_SET },
                  { 0x4, GPU_THROTTLE_POWER },
                  { 0x20 | 0x40, GPU_THROTTLE_THERMAL },
                  { 0x80, GPU_THROTTLE_BRAKE },
                  { 0x10, GPU_THROTTLE_SYNC } };
    uint32_t all = 0;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        all |= reasons & known[i].bits ? known[i].means : 0;
    if ((reasons & 0x8) && !(all & GPU_THROTTLE_THERMAL)) /* the hardware did it, and it was not heat */
        all |= GPU_THROTTLE_BRAKE;
    return all;
}

static int nvml_clocks(struct gpus *gpus, uint32_t index, struct gpu_clocks *ret)
{
    const struct nvml *n = gpus->inside;
    struct nvml_device *device = n->device[index];
    unsigned long long reasons = 0;
    unsigned int mhz = 0;
    bool told = false;

    *ret = (struct gpu_clocks){ 0 };
    if (n->call.clock && n->call.clock(device, NVML_CLOCK_SM, &mhz) == NVML_DONE)
        ret->sm_mhz = mhz;
    if (n->call.clock_max && n->call.clock_max(device, NVML_CLOCK_SM, &mhz) == NVML_DONE)
        ret->sm_max_mhz = mhz;
    if (n->call.slowed)
        told = n->call.slowed(device, &reasons) == NVML_DONE;
    if (!told && n->call.throttled) /* its name before driver 535 */
        told = n->call.throttled(device, &reasons) == NVML_DONE;
    ret->reasons = told ? throttle_of(reasons) : 0;
    return told || ret->sm_mhz ? 0 : -ENOTSUP;
}

/* Everything that happened since we last asked, without waiting. */
static void events_take(struct gpus *gpus)
{
    struct nvml *n = gpus->inside;
    struct nvml_event event;

    for (int i = 0; n->events && i < EVENTS_A_CALL && n->call.events_wait(n->events, &event, 0) == NVML_DONE; i++)
        for (uint32_t g = 0; g < gpus->count; g++)
            if (n->device[g] == event.device && (event.type & NVML_EVENT_XID) && xid_bad(event.data))
                n->xid[g] = (unsigned int)event.data;
}

static void nvml_health(struct gpus *gpus, uint32_t index, struct gpu_health *ret)
{
    struct nvml *n = gpus->inside;
    struct nvml_memory memory;
    unsigned long long errors = 0;

    *ret = (struct gpu_health){ .ok = true };
    events_take(gpus);
    if (n->call.memory(n->device[index], &memory) == NVML_LOST) {
        (void)snprintf(ret->reason, sizeof(ret->reason), "XID 79: the GPU fell off the bus");
    } else if (n->xid[index]) {
        (void)snprintf(ret->reason, sizeof(ret->reason), "XID %u", n->xid[index]);
    } else if (n->call.ecc && n->call.ecc(n->device[index], ECC_UNCORRECTED, ECC_SINCE_LOAD, &errors) == NVML_DONE &&
               errors > 0) {
        (void)snprintf(ret->reason, sizeof(ret->reason), "%llu uncorrectable memory errors", errors);
    }
    ret->ok = ret->reason[0] == '\0';
}

static const struct gpu_ops nvml_ops = {
    .name = "nvml",
    .close = nvml_close,
    .sample = nvml_sample,
    .clocks = nvml_clocks,
    .health = nvml_health,
};

/* POSIX has dlsym() give functions as data pointers. */
static void symbol_find(void *library, const char *name, void *field)
{
    void *symbol = dlsym(library, name);

    memcpy(field, &symbol, sizeof(symbol));
}

static int library_open(struct nvml *n, struct error *err)
{
    const char *name = "libnvidia-ml.so.1";

    n->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        return error_set(err, -ENOENT, "%s is not there: no NVIDIA driver", name);
#define X(field, symbol, arguments) symbol_find(n->library, symbol, &n->call.field);
    NVML_CALLS(X)
#undef X
    if (!n->call.init || !n->call.count || !n->call.by_index || !n->call.memory || !n->call.uuid || !n->call.name)
        return error_set(err, -ENOSYS, "%s is too old", name);
    if (n->call.init() != NVML_DONE) {
        n->call.shutdown = NULL;
        return error_set(err, -ENODEV, "%s does not start: is the driver loaded?", name);
    }
    return 0;
}

static void device_read(struct nvml *n, struct gpu_info *info, struct nvml_device *device, char *product, size_t size)
{
    struct nvml_memory memory = { 0 };
    struct nvml_pci pci = { 0 };
    unsigned int minor = 0;

    *info = (struct gpu_info){ .minor = -1, .numa = -1 };
    (void)n->call.uuid(device, info->uuid, sizeof(info->uuid));
    (void)n->call.name(device, product, (unsigned int)size);
    if (n->call.memory(device, &memory) == NVML_DONE)
        info->memory_mib = (uint32_t)(memory.total >> 20);
    if (n->call.minor && n->call.minor(device, &minor) == NVML_DONE)
        info->minor = (int)minor;
    if (n->call.pci && n->call.pci(device, &pci) == NVML_DONE)
        (void)snprintf(info->bus, sizeof(info->bus), "%04x:%02x:%02x.0", pci.domain & 0xffff, pci.bus & 0xff,
                       pci.device & 0xff);
}

/* GPUs that a link, or a switch all of them hang on, joins get the number of the first of them. */
static void links_read(struct gpus *gpus)
{
    struct nvml *n = gpus->inside;
    int first_on_switch = -1;

    for (uint32_t i = 0; i < gpus->count; i++)
        gpus->info[i].link = (uint16_t)i;
    for (uint32_t i = 0; n->call.link_state && i < gpus->count; i++)
        for (unsigned int link = 0; link < NVML_LINKS_MAX; link++) {
            struct nvml_pci pci = { 0 };
            unsigned int active = 0;
            int kind = NVML_REMOTE_GPU;

            if (n->call.link_state(n->device[i], link, &active) != NVML_DONE || !active)
                continue;
            if (n->call.link_kind)
                (void)n->call.link_kind(n->device[i], link, &kind);
            if (kind == NVML_REMOTE_SWITCH) {
                if (first_on_switch >= 0)
                    gpu_link_join(gpus, gpus->info[first_on_switch].link, gpus->info[i].link);
                else
                    first_on_switch = (int)i;
                break;
            }
            if (!n->call.link_remote || n->call.link_remote(n->device[i], link, &pci) != NVML_DONE)
                continue;
            for (uint32_t k = 0; k < gpus->count; k++) {
                char bus[24];

                (void)snprintf(bus, sizeof(bus), "%04x:%02x:%02x.0", pci.domain & 0xffff, pci.bus & 0xff,
                               pci.device & 0xff);
                if (strcmp(bus, gpus->info[k].bus) == 0)
                    gpu_link_join(gpus, gpus->info[i].link, gpus->info[k].link);
            }
        }
}

static void events_open(struct gpus *gpus)
{
    struct nvml *n = gpus->inside;

    if (!n->call.events_new || !n->call.events_add || !n->call.events_wait ||
        n->call.events_new(&n->events) != NVML_DONE) {
        n->events = NULL;
        return;
    }
    for (uint32_t i = 0; i < gpus->count; i++)
        (void)n->call.events_add(n->device[i], NVML_EVENT_XID | NVML_EVENT_DOUBLE_BIT, n->events);
}

static void devices_read(struct gpus *gpus)
{
    struct nvml *n = gpus->inside;
    char product[96] = "", first[96] = "";
    unsigned int count = 0;

    if (n->call.count(&count) != NVML_DONE)
        return;
    for (unsigned int i = 0; i < count && gpus->count < GPU_NODE_MAX; i++) {
        struct nvml_device *device;

        if (n->call.by_index(i, &device) != NVML_DONE)
            continue;
        device_read(n, &gpus->info[gpus->count], device, product, sizeof(product));
        if (gpus->count == 0)
            (void)snprintf(first, sizeof(first), "%s", product);
        n->device[gpus->count++] = device;
    }
    gpu_sku_name(first, gpus->sku, sizeof(gpus->sku));
    gpus->memory_mib = gpus->count ? gpus->info[0].memory_mib : 0;
    links_read(gpus);
    events_open(gpus);
}

int gpus_open_nvml(struct gpus **ret_gpus, struct error *err)
{
    struct gpus *gpus = mem_zalloc(1, sizeof(*gpus));
    struct nvml *n = gpus ? mem_zalloc(1, sizeof(*n)) : NULL;

    if (!n) {
        mem_free(gpus);
        return error_set(err, -ENOMEM, "no memory");
    }
    gpus->ops = &nvml_ops;
    gpus->inside = n;
    gpus->sockets = gpus->groups = 1;
    if (library_open(n, err) == 0)
        devices_read(gpus);
    *ret_gpus = gpus;
    return 0;
}
