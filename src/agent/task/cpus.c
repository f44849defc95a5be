/* SPDX-License-Identifier: Apache-2.0 */
/* cpus.c - see cpus.h. */
#include "agent/task/cpus.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/util.h"

enum { NUMAS_MAX = 64 };

static void numa_set(struct cpu_map *map, unsigned long first, unsigned long last, int numa)
{
    for (uint32_t i = 0; i < map->count; i++)
        if (map->number[i] >= first && map->number[i] <= last)
            map->numa[i] = (int16_t)numa;
}

/* "0-3,8-11" */
static void numa_read(struct cpu_map *map, int numa)
{
    CLEANUP_BYTES struct bytes text = { 0 };
    char path[80], *p, *end;

    (void)snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", numa);
    if (util_file_get(AT_FDCWD, path, 4096, &text, NULL) < 0)
        return;
    for (p = text.data; p && *p;) {
        unsigned long first = strtoul(p, &end, 10), last = first;

        if (end == p)
            return;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        numa_set(map, first, last, numa);
        p = *end == ',' ? end + 1 : NULL;
    }
}

void cpus_read(struct cpu_map *map)
{
    cpu_set_t set;

    *map = (struct cpu_map){ 0 };
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return;
    for (int i = 0; i < CPU_SETSIZE && map->count < CPUS_MAX; i++)
        if (CPU_ISSET((size_t)i, &set)) {
            map->numa[map->count] = -1;
            map->number[map->count++] = (uint16_t)i;
        }
    for (int numa = 0; numa < NUMAS_MAX; numa++)
        numa_read(map, numa);
}

uint32_t cpus_take(struct cpu_map *map, uint32_t want, uint64_t numas, uint16_t *out)
{
    uint32_t room = 0, got = 0;

    for (uint32_t i = 0; i < map->count; i++)
        room += !map->used[i];
    if (want == 0 || want > room)
        return 0;
    for (int near = 1; near >= 0; near--)
        for (uint32_t i = 0; i < map->count && got < want; i++) {
            bool close = map->numa[i] >= 0 && map->numa[i] < NUMAS_MAX && (numas >> map->numa[i] & 1);

            if (map->used[i] || close != near)
                continue;
            map->used[i] = true;
            out[got++] = map->number[i];
        }
    return got;
}

void cpus_mark(struct cpu_map *map, uint16_t number, bool used)
{
    for (uint32_t i = 0; i < map->count; i++)
        if (map->number[i] == number)
            map->used[i] = used;
}
