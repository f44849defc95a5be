/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gpu.h - the GPUs of a node: what there is, how it is doing, who uses it.
 *
 * One table of functions a kind: NVIDIA's through NVML, opened at run time so that the program starts without it; AMD's
 * from the files of their driver; and emulated ones. Calls are short (microseconds to a few milliseconds) and made on
 * one thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { GPU_NODE_MAX = 256, GPU_PIDS_MAX = 16 };

struct gpu_info {
    char uuid[96];
    char bus[24]; /* PCI address, "0000:3b:00.0"; "" */
    uint32_t memory_mib;
    int minor;     /* of /dev/nvidiaN, or N of AMD's /dev/dri/renderDN; -1 */
    int numa;      /* -1 = not known */
    uint16_t link; /* GPUs with the same number reach each other by NVLink, or XGMI */
};

struct gpu_sample {
    uint8_t util, temp; /* percent, degrees Celsius */
    uint32_t memory_mib, power_w;
    uint32_t pid_count;
    pid_t pids[GPU_PIDS_MAX]; /* processes with a context on it */
    uint32_t pid_mib[GPU_PIDS_MAX];
    int16_t pid_util[GPU_PIDS_MAX]; /* percent of the last second or so; -1 = not known */
};

/* Why its clocks are below what it could do. */
enum gpu_throttle {
    GPU_THROTTLE_SET = 1,     /* somebody fixed them */
    GPU_THROTTLE_POWER = 2,   /* it draws all it may */
    GPU_THROTTLE_THERMAL = 4, /* heat */
    GPU_THROTTLE_BRAKE = 8,   /* the machine's power supply, or a fault of the hardware */
    GPU_THROTTLE_SYNC = 16,   /* it keeps step with another GPU */
};
enum { GPU_THROTTLES = 5 };

struct gpu_clocks {
    uint32_t sm_mhz, sm_max_mhz; /* 0 = not known */
    uint32_t reasons;            /* enum gpu_throttle, added up */
};

struct gpu_health {
    bool ok;
    char reason[64]; /* "XID 79", "2 uncorrectable ECC errors"; "" */
    pid_t foreign;   /* emulated: a process that is not ours; others are found by their samples */
};

struct gpus;

struct gpu_ops {
    const char *name;
    void (*close)(struct gpus *gpus);
    int (*sample)(struct gpus *gpus, uint32_t index, struct gpu_sample *ret);
    /* NULL, or -errno: this kind, or this driver, does not tell. */
    int (*clocks)(struct gpus *gpus, uint32_t index, struct gpu_clocks *ret);
    /* How it is now; changes are seen by asking again. */
    void (*health)(struct gpus *gpus, uint32_t index, struct gpu_health *ret);
};

struct gpus {
    const struct gpu_ops *ops;
    char sku[64]; /* "H100"; "" without GPUs */
    uint32_t count, memory_mib;
    uint32_t sockets, groups; /* as of model/cluster.h; at least 1 */
    bool fake, amd;
    struct gpu_info info[GPU_NODE_MAX];
    void *inside;
};

/* "8:H100" or "4"; the file holds lines "INDEX REASON" for the GPUs that are to look broken, or is missing. */
int gpus_open_fake(const char *text, const char *health_file, struct gpus **ret_gpus, struct error *err);
/* No driver, no library: no GPUs, 0 and a reason in *err. */
int gpus_open_nvml(struct gpus **ret_gpus, struct error *err);
/* From the files below ROOT/sys ("": of this machine). None: likewise. */
int gpus_open_amd(const char *root, struct gpus **ret_gpus, struct error *err);
void gpus_close(struct gpus *gpus);

/* "NVIDIA H100 80GB HBM3" -> "H100". */
void gpu_sku_name(const char *product, char *out, size_t size);
/* Memory of one, by its name; 0 = not known. */
uint32_t gpu_sku_memory(const char *sku);
bool gpu_sku_amd(const char *sku); /* AMD's: "MI300X" */

void gpu_link_join(struct gpus *gpus, uint16_t a, uint16_t b); /* two groups of links are one */

/* gpu_topo.c: sockets, groups and NUMA nodes from hwloc, of this machine (`xml` NULL) or of a file, by PCI address. */
int gpu_topology(struct gpus *gpus, const char *xml, struct error *err);
