/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_amd.c - AMD's GPUs, from what their driver (amdgpu, with its compute part KFD) writes below /sys.
 *
 * No library: KFD's topology lists what can compute, in the order in which ROCm counts, and names the render node of
 * each, whose device has memory, load, sensors and error counts. Files that a driver does not have are left out.
 * Health: uncorrectable memory errors since the driver was loaded, or a device whose files are gone. Written after the
 * kernel's documentation and tested on a tree of files; not tried on AMD's hardware.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "gpu/gpu.h"

enum { KFD_NODES_MAX = 512, LINK_XGMI = 11, VENDOR_AMD = 0x1002, TEXT_MAX = 4096 };

struct amd {
    char root[256];
    unsigned int kfd_node[GPU_NODE_MAX], kfd_id[GPU_NODE_MAX];
    char device[GPU_NODE_MAX][400]; /* its directory */
};

/* A whole small file; its length, or -1. */
static ssize_t text_read(char *text, size_t size, const char *folder, const char *name)
{
    char path[PATH_MAX];
    ssize_t n;
    int fd;

    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        return -1;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    n = read(fd, text, size - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n;
}

/* A file that is one number, in the base; -1: it is not there, or no number. */
static int64_t number_read(const char *folder, const char *name, int base)
{
    char text[64], *end;
    int64_t value;

    if (text_read(text, sizeof(text), folder, name) <= 0)
        return -1;
    errno = 0;
    value = (int64_t)strtoull(text, &end, base);
    return end == text || errno ? -1 : value;
}

/* "key value" a line; 0: it is not there. */
static uint64_t property(const char *text, const char *key)
{
    size_t length = strlen(key);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0 && line[length] == ' ')
            return strtoull(line + length + 1, NULL, 10);
    }
    return 0;
}

static void amd_close(struct gpus *gpus)
{
    mem_free(gpus->inside);
}

/* Sensors are below hwmon/hwmonN, where N is any number. */
static int64_t sensor(const char *device, const char *name)
{
    char folder[PATH_MAX], path[PATH_MAX + 300];
    const struct dirent *entry;
    int64_t value = -1;
    DIR *dir;

    (void)snprintf(folder, sizeof(folder), "%s/hwmon", device);
    dir = opendir(folder);
    while (dir && value < 0 && (entry = readdir(dir))) {
        if (strncmp(entry->d_name, "hwmon", 5) != 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        value = number_read(path, name, 10);
    }
    if (dir)
        (void)closedir(dir);
    return value;
}

/* KFD tells for each process how much of each GPU's memory it has. */
static void processes_read(const struct amd *amd, uint32_t index, struct gpu_sample *ret)
{
    char folder[PATH_MAX], path[PATH_MAX + 300], name[32];
    const struct dirent *entry;
    DIR *dir;

    (void)snprintf(folder, sizeof(folder), "%s/sys/class/kfd/kfd/proc", amd->root);
    (void)snprintf(name, sizeof(name), "vram_%u", amd->kfd_id[index]);
    dir = opendir(folder);
    while (dir && ret->pid_count < GPU_PIDS_MAX && (entry = readdir(dir))) {
        long pid = strtol(entry->d_name, NULL, 10);
        int64_t bytes;

        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        bytes = pid > 0 ? number_read(path, name, 10) : 0;
        if (bytes <= 0)
            continue;
        ret->pids[ret->pid_count] = (pid_t)pid;
        ret->pid_mib[ret->pid_count] = (uint32_t)(bytes >> 20);
        ret->pid_util[ret->pid_count++] = -1;
    }
    if (dir)
        (void)closedir(dir);
}

static int amd_sample(struct gpus *gpus, uint32_t index, struct gpu_sample *ret)
{
    const struct amd *amd = gpus->inside;
    const char *device = amd->device[index];
    int64_t used = number_read(device, "mem_info_vram_used", 10), busy = number_read(device, "gpu_busy_percent", 10);
    int64_t power = sensor(device, "power1_average"), temp = sensor(device, "temp1_input");

    *ret = (struct gpu_sample){ 0 };
    if (used < 0)
        return -EIO;
    if (power < 0)
        power = sensor(device, "power1_input");
    ret->memory_mib = (uint32_t)(used >> 20);
    ret->util = (uint8_t)(busy < 0 ? 0 : busy > 100 ? 100 : busy);
    ret->power_w = power > 0 ? (uint32_t)(power / 1000000) : 0;
    ret->temp = (uint8_t)(temp <= 0 ? 0 : temp / 1000 > 255 ? 255 : temp / 1000);
    processes_read(amd, index, ret);
    return 0;
}

static void amd_health(struct gpus *gpus, uint32_t index, struct gpu_health *ret)
{
    const struct amd *amd = gpus->inside;
    char text[256];
    unsigned long long errors = 0;

    *ret = (struct gpu_health){ .ok = true };
    if (number_read(amd->device[index], "mem_info_vram_total", 10) < 0)
        (void)snprintf(ret->reason, sizeof(ret->reason), "the GPU fell off the bus");
    else if (text_read(text, sizeof(text), amd->device[index], "ras/umc_err_count") > 0 &&
             sscanf(text, "ue: %llu", &errors) == 1 && errors > 0) /* NOLINT(cert-err34-c) */
        (void)snprintf(ret->reason, sizeof(ret->reason), "%llu uncorrectable memory errors", errors);
    ret->ok = ret->reason[0] == '\0';
}

static const struct gpu_ops amd_ops = {
    .name = "amd",
    .close = amd_close,
    .sample = amd_sample,
    .health = amd_health,
};

/* Drivers of late tell the product's name; those before only its number. */
static void product_read(const char *device, unsigned int number, char *out, size_t size)
{
    static const struct {
        unsigned int number;
        const char *name;
    } known[] = {
        { 0x738c, "MI100" },  { 0x740f, "MI210" },  { 0x7408, "MI250X" }, { 0x740c, "MI250" },  { 0x74a0, "MI300A" },
        { 0x74a1, "MI300X" }, { 0x74a5, "MI325X" }, { 0x75a0, "MI350X" }, { 0x75a3, "MI355X" },
    };
    char text[96];

    (void)snprintf(out, size, "AMD-%04x", number);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].number == number)
            (void)snprintf(out, size, "%s", known[i].name);
    if (strncmp(out, "AMD-", 4) == 0 && text_read(text, sizeof(text), device, "product_name") > 1) {
        text[strcspn(text, "\n")] = '\0';
        gpu_sku_name(text, out, size);
    }
}

static void links_read(struct gpus *gpus, uint32_t index)
{
    const struct amd *amd = gpus->inside;
    char folder[PATH_MAX], text[TEXT_MAX];

    for (unsigned int link = 0; link < GPU_NODE_MAX; link++) {
        (void)snprintf(folder, sizeof(folder), "%s/sys/class/kfd/kfd/topology/nodes/%u/io_links/%u", amd->root,
                       amd->kfd_node[index], link);
        if (text_read(text, sizeof(text), folder, "properties") <= 0)
            return;
        for (uint32_t k = 0; property(text, "type") == LINK_XGMI && k < gpus->count; k++)
            if (amd->kfd_node[k] == property(text, "node_to"))
                gpu_link_join(gpus, gpus->info[index].link, gpus->info[k].link);
    }
}

/* One that can compute and has a render node is a GPU of ours. */
static void node_read(struct gpus *gpus, unsigned int node)
{
    struct amd *amd = gpus->inside;
    struct gpu_info *info = &gpus->info[gpus->count];
    char folder[PATH_MAX], text[TEXT_MAX], bus[24], device[sizeof(amd->device[0])];
    int64_t id, memory, numa;
    unsigned int place, domain, minor;
    uint64_t unique;

    (void)snprintf(folder, sizeof(folder), "%s/sys/class/kfd/kfd/topology/nodes/%u", amd->root, node);
    id = number_read(folder, "gpu_id", 10);
    if (id <= 0 || text_read(text, sizeof(text), folder, "properties") <= 0)
        return; /* a processor */
    minor = (unsigned int)property(text, "drm_render_minor");
    place = (unsigned int)property(text, "location_id");
    domain = (unsigned int)property(text, "domain");
    (void)snprintf(device, sizeof(device), "%s/sys/class/drm/renderD%u/device", amd->root, minor);
    memory = number_read(device, "mem_info_vram_total", 10);
    if (number_read(device, "vendor", 16) != VENDOR_AMD || memory <= 0)
        return;
    numa = number_read(device, "numa_node", 10);
    unique = property(text, "unique_id");
    *info = (struct gpu_info){ .memory_mib = (uint32_t)(memory >> 20),
                               .minor = (int)minor,
                               .numa = numa >= 0 && numa < 4096 ? (int)numa : -1,
                               .link = (uint16_t)gpus->count };
    (void)snprintf(bus, sizeof(bus), "%04x:%02x:%02x.%x", domain & 0xffff, place >> 8 & 0xff, place >> 3 & 0x1f,
                   place & 7);
    memcpy(info->bus, bus, sizeof(bus));
    if (unique)
        (void)snprintf(info->uuid, sizeof(info->uuid), "GPU-%016llx", (unsigned long long)unique);
    else
        (void)snprintf(info->uuid, sizeof(info->uuid), "GPU-%s", bus);
    memcpy(amd->device[gpus->count], device, sizeof(device));
    if (gpus->count == 0)
        product_read(device, (unsigned int)property(text, "device_id"), gpus->sku, sizeof(gpus->sku));
    amd->kfd_node[gpus->count] = node;
    amd->kfd_id[gpus->count++] = (unsigned int)id;
}

int gpus_open_amd(const char *root, struct gpus **ret_gpus, struct error *err)
{
    struct gpus *gpus = mem_zalloc(1, sizeof(*gpus));
    struct amd *amd = gpus ? mem_zalloc(1, sizeof(*amd)) : NULL;

    if (!amd || snprintf(amd->root, sizeof(amd->root), "%s", root) >= (int)sizeof(amd->root)) {
        mem_free(amd);
        mem_free(gpus);
        return error_set(err, -ENOMEM, "no memory");
    }
    gpus->ops = &amd_ops;
    gpus->inside = amd;
    gpus->amd = true;
    gpus->sockets = gpus->groups = 1;
    for (unsigned int node = 0; node < KFD_NODES_MAX && gpus->count < GPU_NODE_MAX; node++)
        node_read(gpus, node);
    for (uint32_t i = 0; i < gpus->count; i++)
        links_read(gpus, i);
    gpus->memory_mib = gpus->count ? gpus->info[0].memory_mib : 0;
    if (!gpus->count)
        (void)error_set(err, -ENODEV, "%s/sys/class/kfd has no GPUs: no AMD driver", root);
    *ret_gpus = gpus;
    return 0;
}
