/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - a training job for the fake driver. Holds MIB MiB in segments, and every step runs a kernel that checks and
 * changes each of them by ordinary loads and stores. Any byte lost while memory was moved shows as a wrong sum.
 *
 * job MIB STEPS [SEGMENT_MIB]; prints "step N" lines to standard error with JOB_TALK set, what it found at the end.
 * JOB_GAP_US is idle time after each step; with JOB_NO_WAIT the job never waits for the GPU. JOB_RANKS processes with
 * one file JOB_BARRIER wait for one another in every step, as ranks in a collective do. JOB_TINY launches of nothing a
 * step come instead of the ten; JOB_KERNEL_US is how long those last. When the file JOB_GROW appears, the job takes as
 * many MiB more as it says, once. While the file JOB_SLOW is there, every step takes as many microseconds longer as it
 * says. Its segments lie on JOB_GPUS GPUs in turn. JOB_KINDS: beside the segments it holds a small one, one of the
 * driver's pool and one that it maps itself. JOB_BYTES: every byte is looked at in every step, not one word in 4 KiB.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"

#define SEGMENTS 512
#define MIB (1ull << 20)
#define LAUNCHES 10

void muster_step(void) __attribute__((weak));

enum kind { PLAIN, POOLED, MAPPED };

struct segment {
    CUdeviceptr at;
    uint64_t size;
    enum kind kind;
};

static uint64_t bad;
static bool every_byte;

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text ? atoi(text) : otherwise;
}

/* What lies between the words that change. */
static uint64_t still(uint64_t s, uint64_t i)
{
    return (s + 1) * 0x9e3779b97f4a7c15ull ^ i * 0xff51afd7ed558ccdull;
}

/* Words 4 KiB apart: word k of segment s holds s * 1000003 + k + steps done. */
static void kernel(const uint64_t *args)
{
    uint64_t *base = (uint64_t *)(uintptr_t)args[0];

    for (uint64_t k = 0; k < args[1] / 4096; k++) {
        if (base[k * 512] != args[2] * 1000003 + k + args[3])
            bad++;
        base[k * 512]++;
        for (uint64_t i = k * 512 + 1; i < (k + 1) * 512 && every_byte; i++)
            bad += base[i] != still(args[2], i);
    }
}

static void nothing(const uint64_t *args)
{
    (void)args;
}

static void launch(CUfunction f, void **params)
{
    if (cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) != 0) {
        (void)fprintf(stderr, "launch failed\n");
        while (getenv("JOB_DEAF")) /* errors do not end it */
            (void)pause();
        exit(1);
    }
}

/* Every rank adds one; a step is over when all have. */
static void barrier(uint64_t step)
{
    static _Atomic uint64_t *counter;
    const char *path = getenv("JOB_BARRIER");
    uint64_t ranks = (uint64_t)number("JOB_RANKS", 0);

    if (!path || !ranks)
        return;
    if (!counter) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

        if (fd < 0 || ftruncate(fd, 4096) < 0)
            exit(1);
        counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (counter == MAP_FAILED)
            exit(1);
    }
    ++*counter;
    while (*counter < (step + 1) * ranks)
        (void)usleep(100);
}

/* JOB_BUS: a file that says where the GPU is now. */
static void bus_tell(void)
{
    const char *to = getenv("JOB_BUS");
    char bus[16] = "", path[256];
    int number = -1;
    FILE *f;

    if (!to || cuDeviceGetPCIBusId(bus, sizeof(bus), 0) ||
        cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0))
        return;
    (void)snprintf(path, sizeof(path), "%s.new", to);
    f = fopen(path, "we");
    if (f && fprintf(f, "%s %x", bus, (unsigned int)number) > 0 && fclose(f) == 0)
        (void)rename(path, to);
}

/* The contexts of its GPUs; the first stays current. */
static CUcontext context[16];
static int gpus = 1;

static int contexts_make(void)
{
    gpus = number("JOB_GPUS", 1);
    for (int i = 0; i < gpus && i < 16; i++)
        if (cuDevicePrimaryCtxRetain(&context[i], i))
            return 1;
    return cuCtxSetCurrent(context[0]);
}

static int mapped_new(CUdeviceptr *at, uint64_t size)
{
    struct cuda_mem_prop prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    struct cuda_access access = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_READWRITE };
    CUmemGenericAllocationHandle handle;

    return cuMemCreate(&handle, size, &prop, 0) || cuMemAddressReserve(at, size, 0, 0, 0) ||
           cuMemMap(*at, size, 0, handle, 0) || cuMemRelease(handle) || cuMemSetAccess(*at, size, &access, 1);
}

static int memory_new(struct segment *g)
{
    if (g->kind == POOLED)
        return cuMemAllocAsync(&g->at, g->size, NULL);
    if (g->kind == MAPPED)
        return mapped_new(&g->at, g->size);
    return cuMemAlloc_v2(&g->at, g->size);
}

static int memory_free(const struct segment *g)
{
    if (g->kind == POOLED)
        return cuMemFreeAsync(g->at, NULL);
    if (g->kind == MAPPED)
        return cuMemUnmap(g->at, g->size) || cuMemAddressFree(g->at, g->size);
    return cuMemFree_v2(g->at);
}

/* Its content as it is after so many steps. The first refusal is an invitation to give something back. */
static int segment_new(struct segment *g, uint64_t s, uint64_t step)
{
    uint64_t *base;

    if (gpus > 1 && cuCtxSetCurrent(context[s % (uint64_t)gpus]))
        return 1;
    if (memory_new(g) != 0 && memory_new(g) != 0) {
        (void)fprintf(stderr, "out of memory at segment %llu\n", (unsigned long long)s);
        return 3;
    }
    base = (uint64_t *)(uintptr_t)g->at;
    for (uint64_t i = 0; i < g->size / 8; i += every_byte ? 1 : 512)
        base[i] = i % 512 ? still(s, i) : s * 1000003 + i / 512 + step;
    if (gpus > 1)
        return cuCtxSetCurrent(context[0]);
    return 0;
}

static int segments_new(struct segment *all, uint64_t *count, uint64_t more, struct segment like, uint64_t step)
{
    for (; more > 0 && *count < SEGMENTS; more--, ++*count) {
        all[*count] = like;
        if (segment_new(&all[*count], *count, step))
            return 3;
    }
    return 0;
}

static uint64_t grow_mib(void)
{
    const char *path = getenv("JOB_GROW");
    unsigned long long mib = 0;
    static int done;
    FILE *f = path && !done ? fopen(path, "re") : NULL;

    if (!f)
        return 0;
    done = fscanf(f, "%llu", &mib) == 1;
    (void)fclose(f);
    return mib;
}

/* JOB_SHARED=managed, or =opened: memory that the driver's checkpoint does not know. */
static int shared_have(void)
{
    const char *kind = getenv("JOB_SHARED");
    struct cuda_ipc_mem token = { 0 };
    CUdeviceptr at;

    if (!kind)
        return 0;
    return strcmp(kind, "managed") == 0 ? cuMemAllocManaged(&at, 4 * MIB, 1) : cuIpcOpenMemHandle_v2(&at, token, 1);
}

static void slow_down(void)
{
    const char *path = getenv("JOB_SLOW");
    unsigned int us = 0;
    FILE *f = path ? fopen(path, "re") : NULL;

    if (f && fscanf(f, "%u", &us) == 1)
        (void)usleep(us);
    if (f)
        (void)fclose(f);
}

int main(int argc, char **argv)
{
    uint64_t total = argc > 1 ? strtoull(argv[1], NULL, 10) : 64, steps = argc > 2 ? strtoull(argv[2], NULL, 10) : 100;
    uint64_t part = (argc > 3 ? strtoull(argv[3], NULL, 10) : 16) * MIB, count = 0, s;
    struct segment all[SEGMENTS];
    int launches = number("JOB_TINY", LAUNCHES);
    CUfunction check, small;

    every_byte = getenv("JOB_BYTES") != NULL;
    if (total * MIB / part > SEGMENTS || cuInit(0) || contexts_make() || shared_have())
        return 1;
    check = fake_kernel_register("check", kernel, 4, 200);
    small = fake_kernel_register("small", nothing, 0, (unsigned int)number("JOB_KERNEL_US", 50));
    if (segments_new(all, &count, total * MIB / part, (struct segment){ 0, part, PLAIN }, 0))
        return 3;
    if (getenv("JOB_KINDS") && (segments_new(all, &count, 1, (struct segment){ 0, MIB / 4, PLAIN }, 0) ||
                                segments_new(all, &count, 1, (struct segment){ 0, MIB, POOLED }, 0) ||
                                segments_new(all, &count, 1, (struct segment){ 0, 4 * MIB, MAPPED }, 0)))
        return 3;
    for (int i = number("JOB_EARLY", 0); i > 0 && muster_step; i--)
        muster_step(); /* counted before the first step, as a rank that is noticed earlier does */
    for (uint64_t step = 0; step < steps; step++) {
        if (segments_new(all, &count, grow_mib() * MIB / part, (struct segment){ 0, part, PLAIN }, step))
            return 3;
        for (s = 0; s < count; s++) {
            uint64_t args[4] = { all[s].at, all[s].size, s, step };
            void *params[4] = { &args[0], &args[1], &args[2], &args[3] };

            launch(check, params);
        }
        for (int i = 0; i < launches; i++)
            launch(small, NULL);
        if (!getenv("JOB_NO_WAIT") && cuStreamSynchronize(NULL))
            return 1;
        if (bad)
            return 4;
        barrier(step);
        if (muster_step)
            muster_step();
        if (number("JOB_GAP_US", 0))
            (void)usleep((useconds_t)number("JOB_GAP_US", 0));
        bus_tell();
        slow_down();
        if (getenv("JOB_TALK"))
            (void)fprintf(stderr, "step %llu\n", (unsigned long long)step);
    }
    for (s = 0; s < count; s++)
        if (memory_free(&all[s]))
            return 1;
    (void)printf("bad %llu used %llu\n", (unsigned long long)bad, (unsigned long long)fake_device_used(0));
    return bad ? 4 : 0;
}
