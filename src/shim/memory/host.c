/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - how much host memory may be taken now: what the machine can spare, what the job's cgroup leaves, what the
 * process was told. Files are read by the helper alone; whoever allocates takes from what it saw last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/shim.h"

#define SPARE (1024 * MIB) /* the machine's last is not ours to pin */
#define PATH_BYTES 512
#define LOOK_NS (250 * NSEC_MSEC)

static _Atomic uint64_t left = UINT64_MAX; /* of what the helper saw last; nothing is known until then */

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

static uint64_t room_cgroup(void)
{
    uint64_t most = cgroup_number(cgroup_dir(), "memory.max"), now;

    now = most == UINT64_MAX ? 0 : cgroup_number(cgroup_dir(), "memory.current");
    if (now == UINT64_MAX || most == UINT64_MAX)
        return UINT64_MAX;
    return most > now ? most - now : 0;
}

static uint64_t room_machine(void)
{
    uint64_t room = host_available();

    return room > SPARE ? room - SPARE : 0;
}

uint64_t host_spare(void)
{
    uint64_t machine = room_machine(), cgroup = room_cgroup();

    return machine < cgroup ? machine : cgroup;
}

/* Of what the process was told it may have there, with all its GPUs together. */
static uint64_t room_told(int gpu)
{
    uint64_t cap = __atomic_load_n(&shim.page->limit[gpu].host_cap_bytes, __ATOMIC_RELAXED), held = 0;

    for (int i = 0; i < PAGE_GPUS && cap; i++)
        held += __atomic_load_n(&shim.page->memory[i].host_backed, __ATOMIC_RELAXED) +
                __atomic_load_n(&shim.page->memory[i].saved, __ATOMIC_RELAXED);
    return cap == 0 ? UINT64_MAX : cap > held ? cap - held : 0;
}

uint64_t host_room(int gpu)
{
    uint64_t seen = host_spare(), told = room_told(gpu);

    return seen < told ? seen : told;
}

bool host_holds(int gpu, uint64_t bytes, uint64_t fresh)
{
    uint64_t told = room_told(gpu), cgroup = room_cgroup(), machine = room_machine();

    if (bytes <= told && fresh <= cgroup && fresh <= machine)
        return true;
    shim_note("%llu MiB of host memory are needed and %s %llu",
              (unsigned long long)((bytes > told ? bytes : fresh) / MIB),
              bytes > told     ? "--host-memory leaves"
              : fresh > cgroup ? "memory.max of its cgroup leaves"
                               : "the machine can spare",
              (unsigned long long)((bytes > told     ? told
                                    : fresh > cgroup ? cgroup
                                                     : machine) /
                                   MIB));
    return false;
}

/* What lies ready was taken before: it is there for whoever asks. */
void host_look(uint64_t now_ns)
{
    static uint64_t looked;
    uint64_t cgroup, machine;

    if (shim.mode != MODE_SPILL || now_ns - looked < LOOK_NS)
        return;
    looked = now_ns;
    cgroup = room_cgroup();
    machine = room_machine();
    __atomic_store_n(&shim.page->host.cgroup_left, cgroup, __ATOMIC_RELAXED);
    __atomic_store_n(&shim.page->host.known, 1, __ATOMIC_RELEASE);
    atomic_store(&left, (machine < cgroup ? machine : cgroup) +
                            __atomic_load_n(&shim.page->health.pool_bytes, __ATOMIC_RELAXED));
}

/* Without this a program above its limit would pin memory until the kernel ends somebody. */
bool host_allow(int gpu, uint64_t bytes)
{
    uint64_t seen = atomic_load(&left);

    if (room_told(gpu) < bytes)
        return false;
    while (seen >= bytes && seen != UINT64_MAX)
        if (atomic_compare_exchange_weak(&left, &seen, seen - bytes))
            return true;
    return seen == UINT64_MAX;
}
