/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cpus.h - which CPUs of the node a task has: its own, near its GPUs where there is a choice. */
#include <stdbool.h>
#include <stdint.h>

enum { CPUS_MAX = 1024 };

struct cpu_map {
    uint32_t count;
    uint16_t number[CPUS_MAX]; /* as the kernel counts */
    int16_t numa[CPUS_MAX];    /* -1 = not known */
    bool used[CPUS_MAX];
};

void cpus_read(struct cpu_map *map); /* those this process may use */
/* Takes `want` free ones, those of the memory nodes in the mask first; numbers into `out`. Returns want, or 0 when
 * there are not as many: then none is taken. */
uint32_t cpus_take(struct cpu_map *map, uint32_t want, uint64_t numas, uint16_t *out);
void cpus_mark(struct cpu_map *map, uint16_t number, bool used);
