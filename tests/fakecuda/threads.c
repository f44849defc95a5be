/* SPDX-License-Identifier: Apache-2.0 */
/* threads.c - the library's own sources, linked into one program for the thread sanitizer: threads allocate, launch,
 * wait, copy and end steps while its helper spills, promotes, evicts and reloads and the gate goes through all it can
 * be. As a guaranteed job (MUSTER_GPU_ROLE) they tell when it is idle, and time their copies. The driver is the fake
 * one, found as the real one is. tools/threads builds and runs it. argv[1]: seconds.
 */
#include "threads.h"

#define WORKERS 4

static char bulk[2 * MIB];

/* By calls, as programs do: what reaches "GPU memory" past the driver may do so while it is on its way elsewhere. */
static void word_put(CUdeviceptr at, uint64_t word)
{
    bad += cuMemcpyHtoD_v2(at, &word, sizeof(word)) != 0;
}

static bool word_is(CUdeviceptr at, uint64_t word)
{
    uint64_t got = 0;

    return cuMemcpyDtoH_v2(&got, at, sizeof(got)) == 0 && got == word;
}

static void *work(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg, word = seed;

    (void)set_current(ctx);
    while (!stop) {
        CUdeviceptr at;
        size_t free_bytes, total;

        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        if (cuMemAlloc_v2(&at, (2 + seed % 3 * 2) * MIB) != 0)
            continue;
        word_put(at, word);
        (void)cuMemcpyHtoDAsync_v2(at + 4096, &word, 8, NULL);
        for (int i = 0; i < 4; i++)
            (void)cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
        if (seed % 8 == 1) {
            (void)cuMemcpyHtoDAsync_v2(at, bulk, sizeof(bulk), NULL);
            (void)cuStreamSynchronize(NULL);
            word_put(at, word);
        }
        if (seed % 4 == 0)
            (void)cuStreamSynchronize(NULL);
        else
            (void)cuCtxSynchronize();
        (void)cuMemGetInfo_v2(&free_bytes, &total);
        muster_step();
        (void)usleep(500);
        (void)cuMemsetD8_v2(at + 8192, 1, 64);
        bad += !word_is(at, word);
        if (cuMemFree_v2(at) != 0)
            bad++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t end = threads_end(argc, argv);
    int r = threads_begin();
    pthread_t thread[WORKERS];

    if (r)
        return r;
    for (uintptr_t i = 0; i < WORKERS; i++)
        pthread_create(&thread[i], NULL, work, (void *)(i + 1));
    while (now_ns() < end) {
        (void)command(OP_SPILL_TO, 2 * MIB);
        (void)command(OP_PROMOTE, 0);
        __atomic_store_n(&page->control.lease_until_ns, now_ns() + 60000000000ULL, __ATOMIC_SEQ_CST);
        __atomic_store_n(&page->control.gate, GATE_CLOSED, __ATOMIC_SEQ_CST);
        (void)command(OP_EVICT_ALL, 0);
        (void)command(OP_RELOAD_ALL, 0);
        __atomic_store_n(&page->control.share, 1000, __ATOMIC_SEQ_CST);
        __atomic_store_n(&page->control.duty, 300, __ATOMIC_SEQ_CST);
        for (int gate = GATE_OPEN; gate < GATE_CLOSED; gate++) {
            __atomic_store_n(&page->control.gate, (uint32_t)gate, __ATOMIC_SEQ_CST);
            (void)usleep(20000);
        }
        __atomic_store_n(&page->control.gate, GATE_OPEN, __ATOMIC_SEQ_CST);
    }
    stop = 1;
    for (int i = 0; i < WORKERS; i++)
        pthread_join(thread[i], NULL);
    (void)printf("bad %d, spills %llu, used %llu\n", bad, (unsigned long long)stat_of("spills"),
                 (unsigned long long)stat_of("used"));
    return bad != 0;
}
