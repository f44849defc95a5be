/* SPDX-License-Identifier: Apache-2.0 */
/* threads_orders.c - as threads.c, the library's own sources in one program for the thread sanitizer, but what changes
 * is who is there: threads begin and end in the middle of orders, the program forks, and pools, mappings of its own,
 * graphs and copies run while it is paused, evicted, reloaded, given smaller and larger limits, spilled and promoted.
 * argv[1]: seconds,
 * argv[2]: how many threads map memory of their own, 1 when not given.
 */
#include <sys/wait.h>

#include "threads.h"

#define WORKERS 3

static _Atomic int begun, forks;
static uint64_t mappers = 1;

static void launch_some(int count)
{
    for (int i = 0; i < count; i++)
        (void)cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

/* Allocates, writes, launches, reads and frees, and is over: its life lies in the middle of whatever is ordered. */
static void *brief(void *arg)
{
    uint64_t word = (uint64_t)(uintptr_t)arg + 77, got = 0;
    CUdeviceptr at;

    (void)set_current(ctx);
    if (cuMemAlloc_v2(&at, 4 * MIB) != 0)
        return NULL;
    bad += cuMemcpyHtoD_v2(at + 64, &word, sizeof(word)) != 0;
    launch_some(3);
    (void)cuStreamSynchronize(NULL);
    bad += cuMemcpyDtoH_v2(&got, at + 64, sizeof(got)) != 0 || got != word;
    bad += cuMemFree_v2(at) != 0;
    return NULL;
}

static void *begins_threads(void *arg)
{
    (void)arg;
    while (!stop) {
        pthread_t two[2];

        for (uintptr_t i = 0; i < 2; i++)
            if (pthread_create(&two[i], NULL, brief, (void *)i))
                abort();
        begun += 2;
        for (int i = 0; i < 2; i++)
            pthread_join(two[i], NULL);
    }
    return NULL;
}

/* A child is inert and leaves at once, as a data loader's does before it starts another program. */
static void *forks_on(void *arg)
{
    (void)arg;
    while (!stop) {
        pid_t pid = fork();
        int status = 0;

        if (pid == 0)
            _exit(0);
        bad += pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
        forks++;
        (void)usleep(20000);
    }
    return NULL;
}

static CUdeviceptr mapped_new(uint64_t size)
{
    struct cuda_mem_prop prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    struct cuda_access access = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_READWRITE };
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at = 0;

    if (cuMemCreate(&handle, size, &prop, 0) != 0)
        return 0;
    bad += cuMemAddressReserve(&at, size, 0, 0, 0) || cuMemMap(at, size, 0, handle, 0) || cuMemRelease(handle) ||
           cuMemSetAccess(at, size, &access, 1);
    return at;
}

/* Pools, mappings of the program's own and steps, on a stream of its own. */
static void *works(void *arg)
{
    uint64_t word = (uint64_t)(uintptr_t)arg, got = 0;
    CUstream stream = NULL;

    (void)set_current(ctx);
    while (!stop) {
        CUdeviceptr pooled = 0, at = word <= mappers ? mapped_new(4 * MIB) : 0;

        if (at) {
            bad += cuMemcpyHtoD_v2(at, &word, sizeof(word)) != 0;
            (void)cuMemcpyHtoDAsync_v2(at + 4096, &word, sizeof(word), stream);
        }
        if (cuMemAllocAsync(&pooled, MIB, stream) == 0) {
            (void)cuMemcpyHtoDAsync_v2(pooled, &word, sizeof(word), stream);
            bad += cuMemFreeAsync(pooled, stream) != 0;
        }
        launch_some(4);
        (void)cuCtxSynchronize();
        muster_step();
        if (at) {
            bad += cuMemcpyDtoH_v2(&got, at, sizeof(got)) != 0 || got != word;
            bad += cuMemUnmap(at, 4 * MIB) != 0 || cuMemAddressFree(at, 4 * MIB) != 0;
        }
    }
    return NULL;
}

static void gate_set(uint32_t gate)
{
    __atomic_store_n(&page->control.lease_until_ns, now_ns() + 60000000000ULL, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->control.gate, gate, __ATOMIC_SEQ_CST);
}

static void cap_set(uint64_t bytes)
{
    __atomic_store_n(&page->limit[0].cap_bytes, bytes, __ATOMIC_SEQ_CST);
}

/* Each order a node side gives, in the order of a bad day. */
static void orders(void)
{
    gate_set(GATE_CLOSED);
    (void)command(OP_SYNC, 0);
    gate_set(GATE_OPEN);
    (void)usleep(10000);
    cap_set(16 * MIB);
    (void)command(OP_SPILL_TO, 8 * MIB);
    (void)usleep(10000);
    cap_set(64 * MIB);
    (void)command(OP_HOME, 0);
    (void)command(OP_TRIM, 0);
    cap_set(0);
    (void)command(OP_PROMOTE, 0);
    (void)command(OP_PREPARE, 16 * MIB);
    gate_set(GATE_CLOSED);
    (void)command(OP_EVICT_ALL, 0);
    (void)usleep(5000);
    (void)command(OP_RELOAD_ALL, 0);
    gate_set(GATE_HARVEST);
    (void)usleep(10000);
    gate_set(GATE_OPEN);
    (void)usleep(10000);
}

int main(int argc, char **argv)
{
    uint64_t end = threads_end(argc, argv), rounds = 0;
    int r = threads_begin();
    pthread_t thread[WORKERS + 2];

    if (r)
        return r;
    mappers = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (uintptr_t i = 0; i < WORKERS; i++)
        pthread_create(&thread[i], NULL, works, (void *)(i + 1));
    pthread_create(&thread[WORKERS], NULL, begins_threads, NULL);
    pthread_create(&thread[WORKERS + 1], NULL, forks_on, NULL);
    for (; now_ns() < end; rounds++)
        orders();
    stop = 1;
    for (int i = 0; i < WORKERS + 2; i++)
        pthread_join(thread[i], NULL);
    (void)printf("bad %d, %llu rounds of orders, %d threads, %d forks, spills %llu\n", bad, (unsigned long long)rounds,
                 begun, forks, (unsigned long long)stat_of("spills"));
    return bad != 0 || rounds == 0 || begun == 0 || forks == 0;
}
