/* SPDX-License-Identifier: Apache-2.0 */
/* pages.c - which host memory is quickest to leave a GPU with, and to come back?
 *
 * pages [GIB] tries every kind below in a process of its own: made and pinned, filled from the GPU, let go, the process
 * checkpointed and restored by the driver (by another process, `pages checkpoint PID`), pinned again, read back by the
 * GPU and compared. A line of JSON each, to standard output and to $MUSTER_GPU_RESULTS.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/cuda_abi.h"

#define MIB ((size_t)1 << 20)
#define BLOCKS 1024u

enum from { FROM_NOTHING, FROM_PAGES, FROM_DRIVER, FROM_HANDLE };

static const struct kind {
    const char *name;
    enum from from;
    int map, advice, location, types; /* pages; handles */
    bool file, stays;                 /* stays pinned over the checkpoint */
} kinds[] = {
    { .name = "none", .from = FROM_NOTHING },
    { .name = "small", .from = FROM_PAGES, .map = MAP_PRIVATE | MAP_ANONYMOUS, .advice = MADV_NOHUGEPAGE },
    { .name = "huge", .from = FROM_PAGES, .map = MAP_PRIVATE | MAP_ANONYMOUS, .advice = MADV_HUGEPAGE },
    { .name = "hugetlb", .from = FROM_PAGES, .map = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB },
    { .name = "memfd", .from = FROM_PAGES, .map = MAP_SHARED, .advice = MADV_HUGEPAGE, .file = true },
    { .name = "huge-left",
      .from = FROM_PAGES,
      .map = MAP_PRIVATE | MAP_ANONYMOUS,
      .advice = MADV_HUGEPAGE,
      .stays = true },
    { .name = "driver-left", .from = FROM_DRIVER, .stays = true },
    { .name = "host-left", .from = FROM_HANDLE, .location = CU_MEM_LOCATION_TYPE_HOST, .stays = true },
    { .name = "host-file",
      .from = FROM_HANDLE,
      .location = CU_MEM_LOCATION_TYPE_HOST,
      .types = CU_MEM_HANDLE_POSIX_FILE },
    { .name = "numa-file",
      .from = FROM_HANDLE,
      .location = CU_MEM_LOCATION_TYPE_HOST_NUMA,
      .types = CU_MEM_HANDLE_POSIX_FILE },
};

static struct driver {
    CUresult (*cuInit)(unsigned int);
    CUresult (*cuDevicePrimaryCtxRetain)(CUcontext *, CUdevice);
    CUresult (*cuDeviceGetAttribute)(int *, int, CUdevice);
    CUresult (*cuCtxSetCurrent)(CUcontext);
    CUresult (*cuCtxSynchronize)(void);
    CUresult (*cuMemAlloc_v2)(CUdeviceptr *, size_t);
    CUresult (*cuMemFree_v2)(CUdeviceptr);
    CUresult (*cuMemsetD8_v2)(CUdeviceptr, unsigned char, size_t);
    CUresult (*cuMemcpyDtoDAsync_v2)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
    CUresult (*cuMemcpyDtoHAsync_v2)(void *, CUdeviceptr, size_t, CUstream);
    CUresult (*cuMemcpyHtoDAsync_v2)(CUdeviceptr, const void *, size_t, CUstream);
    CUresult (*cuMemcpyDtoH_v2)(void *, CUdeviceptr, size_t);
    CUresult (*cuMemHostRegister_v2)(void *, size_t, unsigned int);
    CUresult (*cuMemHostUnregister)(void *);
    CUresult (*cuMemHostAlloc)(void **, size_t, unsigned int);
    CUresult (*cuMemAddressReserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
    CUresult (*cuMemCreate)(CUmemGenericAllocationHandle *, size_t, const struct cuda_mem_prop *, unsigned long long);
    CUresult (*cuMemMap)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
    CUresult (*cuMemUnmap)(CUdeviceptr, size_t);
    CUresult (*cuMemRelease)(CUmemGenericAllocationHandle);
    CUresult (*cuMemSetAccess)(CUdeviceptr, size_t, const struct cuda_access *, size_t);
    CUresult (*cuMemExportToShareableHandle)(void *, CUmemGenericAllocationHandle, int, unsigned long long);
    CUresult (*cuMemImportFromShareableHandle)(CUmemGenericAllocationHandle *, void *, int);
    CUresult (*cuCheckpointProcessLock)(int, struct cuda_ckpt_lock *);
    CUresult (*cuCheckpointProcessCheckpoint)(int, void *);
    CUresult (*cuCheckpointProcessRestore)(int, struct cuda_ckpt_restore *);
    CUresult (*cuCheckpointProcessUnlock)(int, void *);
} cu;

struct block {
    char *at; /* pages */
    CUmemGenericAllocationHandle handle;
    int fd;
};

static struct {
    const struct kind *kind;
    struct block block[BLOCKS];
    size_t count, size;
    CUdeviceptr base, device; /* where handles are mapped; one block on the GPU */
} run;

static char words[512];

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void say(const char *text)
{
    const char *path = getenv("MUSTER_GPU_RESULTS"), *experiment = getenv("MUSTER_GPU_EXPERIMENT");
    const char *when = getenv("MUSTER_GPU_RUN");
    FILE *f = path ? fopen(path, "ae") : NULL;

    (void)printf("RESULT pages %s\n", text);
    (void)fflush(stdout);
    if (!f)
        return;
    (void)fprintf(f, "{\"name\": \"pages\", \"experiment\": \"%s\", \"run\": \"%s\", %s}\n",
                  experiment ? experiment : "", when ? when : "", text);
    (void)fclose(f);
}

static void add(const char *name, double value)
{
    size_t n = strlen(words);

    (void)snprintf(words + n, sizeof(words) - n, ", \"%s\": %.4f", name, value);
}

static void must(CUresult r, const char *what)
{
    char text[768];

    if (r == CUDA_SUCCESS)
        return;
    (void)snprintf(text, sizeof(text), "%s, \"error\": \"%s: %d\"", words, what, r);
    say(text);
    exit(0); /* a finding, too */
}
#define MUST(name, ...) must(cu.name ? cu.name(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND, #name)

static bool driver_open(void)
{
    void *h = dlopen("libcuda.so.1", RTLD_NOW);

    if (!h)
        return false;
#define GET(name) *(void **)&cu.name = dlsym(h, #name)
    GET(cuInit), GET(cuDevicePrimaryCtxRetain), GET(cuDeviceGetAttribute), GET(cuCtxSetCurrent), GET(cuCtxSynchronize);
    GET(cuMemAlloc_v2), GET(cuMemFree_v2), GET(cuMemsetD8_v2), GET(cuMemcpyDtoDAsync_v2), GET(cuMemcpyDtoHAsync_v2);
    GET(cuMemcpyHtoDAsync_v2), GET(cuMemcpyDtoH_v2), GET(cuMemHostRegister_v2), GET(cuMemHostUnregister);
    GET(cuMemHostAlloc), GET(cuMemAddressReserve), GET(cuMemCreate), GET(cuMemMap), GET(cuMemUnmap), GET(cuMemRelease);
    GET(cuMemSetAccess), GET(cuMemExportToShareableHandle), GET(cuMemImportFromShareableHandle);
    GET(cuCheckpointProcessLock), GET(cuCheckpointProcessCheckpoint), GET(cuCheckpointProcessRestore);
    GET(cuCheckpointProcessUnlock);
#undef GET
    return true;
}

/* ---- making, letting go, taking up again */

static void pages_make(void)
{
    int fd = run.kind->file ? memfd_create("pages", MFD_CLOEXEC) : -1;
    size_t bytes = run.count * run.size;
    char *p;

    if (fd >= 0 && ftruncate(fd, (off_t)bytes) < 0)
        must(errno, "ftruncate");
    p = mmap(NULL, bytes + 2 * MIB, PROT_READ | PROT_WRITE, run.kind->map, fd, 0);
    if (p == MAP_FAILED)
        must(errno, "mmap");
    if (fd < 0)
        p = (char *)(((uintptr_t)p + 2 * MIB - 1) / (2 * MIB) * (2 * MIB));
    if (run.kind->advice)
        (void)madvise(p, bytes, run.kind->advice);
    for (size_t i = 0; i < bytes; i += 4096)
        p[i] = 0;
    for (size_t i = 0; i < run.count; i++)
        run.block[i].at = p + i * run.size;
}

static void block_map(size_t i)
{
    struct cuda_access access = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_READWRITE };

    MUST(cuMemMap, run.base + i * run.size, run.size, 0, run.block[i].handle, 0);
    MUST(cuMemSetAccess, run.base + i * run.size, run.size, &access, 1);
}

static void handles_make(void)
{
    struct cuda_mem_prop prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .handle_types = run.kind->types,
                                  .location = { run.kind->location, 0 } };
    int node = -1;

    MUST(cuDeviceGetAttribute, &node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0);
    add("numa_id", node);
    if (run.kind->location == CU_MEM_LOCATION_TYPE_HOST_NUMA)
        prop.location.id = node < 0 ? 0 : node;
    MUST(cuMemAddressReserve, &run.base, run.count * run.size, 2 * MIB, 0, 0);
    for (size_t i = 0; i < run.count; i++) {
        MUST(cuMemCreate, &run.block[i].handle, run.size, &prop, 0);
        if (run.kind->types)
            MUST(cuMemExportToShareableHandle, &run.block[i].fd, run.block[i].handle, CU_MEM_HANDLE_POSIX_FILE, 0);
    }
}

static void pin(bool again)
{
    for (size_t i = 0; i < run.count; i++) {
        struct block *b = &run.block[i];

        if (run.kind->from == FROM_PAGES)
            MUST(cuMemHostRegister_v2, b->at, run.size, 0);
        if (run.kind->from == FROM_HANDLE && again)
            MUST(cuMemImportFromShareableHandle, &b->handle, (void *)(intptr_t)b->fd, CU_MEM_HANDLE_POSIX_FILE);
        if (run.kind->from == FROM_HANDLE)
            block_map(i);
    }
}

static void unpin(void)
{
    for (size_t i = 0; i < run.count; i++) {
        if (run.kind->from == FROM_PAGES)
            MUST(cuMemHostUnregister, run.block[i].at);
        if (run.kind->from == FROM_HANDLE) {
            MUST(cuMemUnmap, run.base + i * run.size, run.size);
            MUST(cuMemRelease, run.block[i].handle);
        }
    }
}

static void block_copy(size_t i, bool out)
{
    CUdeviceptr host = run.base + i * run.size;

    if (run.kind->from == FROM_HANDLE)
        MUST(cuMemcpyDtoDAsync_v2, out ? host : run.device, out ? run.device : host, run.size, NULL);
    else if (out)
        MUST(cuMemcpyDtoHAsync_v2, run.block[i].at, run.device, run.size, NULL);
    else
        MUST(cuMemcpyHtoDAsync_v2, run.device, run.block[i].at, run.size, NULL);
}

static unsigned int number_of(size_t i)
{
    return (unsigned int)(i % 251 + 1) * 0x01010101u;
}

/* All blocks there or back; each holds its own number. Gigabytes a second. */
static double copies(bool out)
{
    double start = now_s();

    for (size_t i = 0; i < run.count; i++) {
        if (out)
            MUST(cuMemsetD8_v2, run.device, (unsigned char)number_of(i), run.size);
        block_copy(i, out);
    }
    MUST(cuCtxSynchronize);
    return (double)(run.count * run.size) / 1e9 / (now_s() - start);
}

static unsigned int compare(void)
{
    unsigned int bad = 0, word;

    for (size_t i = 0; i < run.count; i++) {
        block_copy(i, false);
        for (size_t at = 0; at < run.size; at += run.size / 7 / 4 * 4) {
            MUST(cuMemcpyDtoH_v2, &word, run.device + (at + 4 <= run.size ? at : run.size - 4), 4);
            bad += word != number_of(i);
        }
    }
    return bad;
}

static void checkpointed(void)
{
    char command[512], path[256], line[128] = "";
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    double down = -1, up = -1;
    FILE *f;

    path[n > 0 ? n : 0] = '\0';
    (void)snprintf(command, sizeof(command), "%s checkpoint %d", path, (int)getpid());
    f = popen(command, "re");
    if (f && fgets(line, sizeof(line), f) && sscanf(line, "%lf %lf", &down, &up) == 2) {
        add("checkpoint_s", down);
        add("restore_s", up);
    }
    if (f)
        (void)pclose(f);
    if (up < 0)
        must(CUDA_ERROR_NOT_SUPPORTED, *line ? strtok(line, "\n") : "checkpoint");
}

static void timed(const char *name, void (*what)(void))
{
    double start = now_s();

    what();
    add(name, now_s() - start);
}

static void pin_first(void)
{
    pin(false);
}

static void pin_again(void)
{
    pin(true);
}

static void driver_make(void)
{
    for (size_t i = 0; i < run.count; i++)
        MUST(cuMemHostAlloc, (void **)&run.block[i].at, run.size, 0);
}

static int try_kind(const struct kind *kind, double gib)
{
    CUcontext ctx;
    char text[768];
    bool memory = kind->from != FROM_NOTHING;

    run.kind = kind;
    run.size = gib < 1 ? 2 * MIB : 512 * MIB; /* less than a GiB is a try of this program */
    run.count = (size_t)(gib * 1024 * (double)MIB) / run.size;
    run.count = run.count < BLOCKS ? run.count : BLOCKS;
    (void)snprintf(words, sizeof(words), "\"kind\": \"%s\", \"gib\": %.3f", kind->name, gib);
    MUST(cuInit, 0);
    MUST(cuDevicePrimaryCtxRetain, &ctx, 0);
    MUST(cuCtxSetCurrent, ctx);
    if (memory) {
        MUST(cuMemAlloc_v2, &run.device, run.size);
        timed("make_s", kind->from == FROM_PAGES ? pages_make : kind->from == FROM_DRIVER ? driver_make : handles_make);
        timed("pin_s", pin_first);
        add("out_gbs", copies(true));
        MUST(cuMemFree_v2, run.device);
        if (!kind->stays)
            timed("unpin_s", unpin);
    }
    checkpointed();
    if (memory) {
        MUST(cuMemAlloc_v2, &run.device, run.size);
        if (!kind->stays)
            timed("again_s", pin_again);
        add("in_gbs", copies(false));
        add("bad", compare());
    }
    (void)snprintf(text, sizeof(text), "%s", words);
    say(text);
    return 0;
}

/* The other process: down and up again, how long each took. */
static int checkpoint_other(int pid)
{
    struct cuda_ckpt_lock lock = { .timeout_ms = 10000 };
    double start, middle;
    CUresult r = cu.cuInit(0);

    start = now_s();
    if (!cu.cuCheckpointProcessLock || r || (r = cu.cuCheckpointProcessLock(pid, &lock)) ||
        (r = cu.cuCheckpointProcessCheckpoint(pid, NULL))) {
        (void)printf("checkpoint gave %d\n", r);
        return 1;
    }
    middle = now_s();
    if ((r = cu.cuCheckpointProcessRestore(pid, NULL)) || (r = cu.cuCheckpointProcessUnlock(pid, NULL))) {
        (void)printf("restore gave %d\n", r);
        return 1;
    }
    (void)printf("%.4f %.4f\n", middle - start, now_s() - middle);
    return 0;
}

int main(int argc, char **argv)
{
    double gib = argc > 1 ? strtod(argv[1], NULL) : 8;
    int status;

    if (argc == 3 && strcmp(argv[1], "checkpoint") == 0)
        return driver_open() ? checkpoint_other(atoi(argv[2])) : 77;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        pid_t child = fork();

        if (child == 0) {
            if (!driver_open())
                _exit(77);
            exit(try_kind(&kinds[i], gib > 0 ? gib : 8));
        }
        if (child < 0 || waitpid(child, &status, 0) != child)
            return 1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
            (void)printf("SKIP no CUDA driver\n");
            return 77;
        }
        if (WIFSIGNALED(status)) {
            (void)snprintf(words, sizeof(words), "\"kind\": \"%s\", \"error\": \"signal %d\"", kinds[i].name,
                           WTERMSIG(status));
            say(words);
        }
    }
    return 0;
}
