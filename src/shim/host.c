/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - how much host memory may be taken now: what the machine can spare, what the job's cgroup leaves, what the
 * process was told. Only the helper comes here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/shim.h"

#define SPARE (1024 * MIB) /* the machine's last is not ours to pin */
#define PATH_BYTES 512

uint64_t host_available(void)
{
    char text[256];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");

    if (!f)
        return 0;
    while (fgets(text, sizeof(text), f))
        if (sscanf(text, "MemAvailable: %llu kB", &kib) == 1)
            break;
    (void)fclose(f);
    return (uint64_t)kib * 1024;
}

/* The number in a file of the cgroup; UINT64_MAX: "max", or no such file. */
static uint64_t cgroup_number(const char *dir, const char *name)
{
    char path[PATH_BYTES + 32], text[32];
    unsigned long long value = UINT64_MAX;
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "re");
    if (!f)
        return UINT64_MAX;
    if (fgets(text, sizeof(text), f) && *text >= '0' && *text <= '9')
        value = strtoull(text, NULL, 10);
    (void)fclose(f);
    return value;
}

/* Of the one hierarchy; found once. MUSTER_GPU_CGROUP names another directory. */
static const char *cgroup_dir(void)
{
    static char dir[PATH_BYTES], line[PATH_BYTES];
    const char *told = getenv("MUSTER_GPU_CGROUP");
    FILE *f;

    if (told)
        return told;
    if (dir[0])
        return dir;
    f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) == 0 &&
            snprintf(dir, sizeof(dir), "/sys/fs/cgroup%s", line + 3) >= (int)sizeof(dir))
            dir[0] = '\0';
    }
    if (f)
        (void)fclose(f);
    return dir[0] ? dir : "/sys/fs/cgroup";
}

uint64_t host_room(int gpu)
{
    uint64_t room = host_available(), most = cgroup_number(cgroup_dir(), "memory.max"), now;
    uint64_t cap = shim.page->limit[gpu].host_cap_bytes;
    uint64_t held = __atomic_load_n(&shim.page->memory[gpu].host_backed, __ATOMIC_RELAXED);

    room = room > SPARE ? room - SPARE : 0;
    now = most == UINT64_MAX ? 0 : cgroup_number(cgroup_dir(), "memory.current");
    if (now != UINT64_MAX && most != UINT64_MAX)
        room = most <= now ? 0 : most - now < room ? most - now : room;
    if (cap)
        room = cap <= held ? 0 : cap - held < room ? cap - held : room;
    return room;
}
