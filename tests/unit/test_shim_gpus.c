/* SPDX-License-Identifier: Apache-2.0 */
/* A process with memory on several GPUs: an eviction takes all of it or nothing, and each byte comes home to its own
 * GPU. The fake refuses what one GPU's stream does to memory it was given no access to. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "calls.h"
#include "unit/shim_play.h"

#define MIB (1ull << 20)
#define SEC 1000000000ULL
#define GPUS 3
#define SEGMENTS 3
#define BLOCK (256 * MIB)

#define BIG (270 * MIB) /* of the second, which has more than a block of host memory holds */

static const uint64_t size_of[GPUS] = { 4 * MIB, 6 * MIB, 2 * MIB };
static CUcontext ctx[GPUS];
static CUdeviceptr big;
static CUdeviceptr at[GPUS][SEGMENTS];
static char cgroup[] = "/tmp/muster-cgroup-XXXXXX";

static uint64_t word(int gpu, int segment, uint64_t k)
{
    return (uint64_t)gpu << 48 | (uint64_t)segment << 32 | k * 2654435761u;
}

static void verify(const char *when)
{
    for (int g = 0; g < GPUS; g++)
        for (int s = 0; s < SEGMENTS; s++)
            for (uint64_t k = 0; k < size_of[g] / 4096; k++)
                if (((uint64_t *)(uintptr_t)at[g][s])[k * 512] != word(g, s, k))
                    fail_msg("GPU %d, segment %d, word %llu is wrong %s", g, s, (unsigned long long)k, when);
    for (uint64_t k = 0; big && k < BIG / MIB; k++)
        if (((uint64_t *)(uintptr_t)big)[k * MIB / 8] != word(1, SEGMENTS, k))
            fail_msg("word %llu of the large one is wrong %s", (unsigned long long)k, when);
}

static uint64_t bytes_of(int gpu)
{
    return SEGMENTS * size_of[gpu] + (big && gpu == 1 ? BIG : 0);
}

static uint64_t all(void)
{
    uint64_t sum = 0;

    for (int g = 0; g < GPUS; g++)
        sum += bytes_of(g);
    return sum;
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(cgroup) || setenv("MUSTER_GPU_CGROUP", cgroup, 1) != 0 || cuInit(0))
        return 1;
    for (int g = 0; g < GPUS; g++)
        if (cuDevicePrimaryCtxRetain(&ctx[g], g))
            return 1;
    if (play_begin())
        return 1;
    for (int s = 0; s < SEGMENTS; s++)
        for (int g = 0; g < GPUS; g++) {
            if (cuCtxSetCurrent(ctx[g]) || cuMemAlloc_v2(&at[g][s], size_of[g]))
                return 1;
            for (uint64_t k = 0; k < size_of[g] / 4096; k++)
                ((uint64_t *)(uintptr_t)at[g][s])[k * 512] = word(g, s, k);
        }
    if (cuCtxSetCurrent(ctx[1]) || cuMemAlloc_v2(&big, BIG))
        return 1;
    for (uint64_t k = 0; k < BIG / MIB; k++)
        ((uint64_t *)(uintptr_t)big)[k * MIB / 8] = word(1, SEGMENTS, k);
    return cuCtxSetCurrent(ctx[0]);
}

static int teardown(void **state)
{
    char path[128];

    (void)state;
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", cgroup, i ? "memory.max" : "memory.current");
        (void)unlink(path);
    }
    (void)rmdir(cgroup);
    return 0;
}

static void pause_it(bool on)
{
    __atomic_store_n(&page->control.lease_until_ns, now_ns() + 60 * SEC, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->control.gate, on ? GATE_CLOSED : GATE_OPEN, __ATOMIC_SEQ_CST);
}

static void assert_home(const char *when)
{
    assert_int_equal(page->health.state, STATE_RUNNING);
    for (int g = 0; g < GPUS; g++) {
        assert_int_equal(page->memory[g].saved, 0);
        assert_int_equal(page->memory[g].host_backed, 0);
        assert_int_equal(page->memory[g].used, bytes_of(g));
        assert_int_equal(fake_device_used(g), bytes_of(g));
    }
    verify(when);
}

/* Out of every GPU, also for a release, and home to the one it was of. */
static void test_there_and_back(void **state)
{
    (void)state;
    for (uint64_t unpin = 0; unpin <= PAGE_PERMILLE; unpin += PAGE_PERMILLE / 2) {
        pause_it(true);
        assert_int_equal(command(OP_EVICT_ALL, unpin), all());
        for (int g = 0; g < GPUS; g++) {
            assert_int_equal(fake_device_used(g), 0);
            assert_int_equal(page->memory[g].used, 0);
            assert_int_equal(page->memory[g].saved, bytes_of(g));
        }
        assert_int_equal(stat_of("area_bytes"), 4 * BLOCK); /* each GPU's own */
        if (unpin == PAGE_PERMILLE)
            assert_true(fake_mapped_host() < BLOCK);
        assert_int_equal(command(OP_RELOAD_ALL, 0), all());
        pause_it(false);
        assert_home("after an eviction");
    }
}

/* What is allocated and freed in between changes whose a block is. */
static void test_blocks_change_hands(void **state)
{
    CUdeviceptr more = 0;

    (void)state;
    for (int i = 0; i < 2; i++) {
        if (i == 0)
            assert_int_equal(cuMemAlloc_v2(&more, 300 * MIB), 0); /* of the first: its blocks are two now */
        else
            assert_int_equal(cuMemFree_v2(more), 0);
        pause_it(true);
        assert_int_equal(command(OP_EVICT_ALL, 0), all() + (i ? 0 : 300 * MIB));
        assert_int_equal(command(OP_RELOAD_ALL, 0), all() + (i ? 0 : 300 * MIB));
        pause_it(false);
        verify("in blocks of others");
    }
    assert_home("in blocks of others");
}

/* Whatever the driver refuses, of whichever GPU: all of it is home, and all of it leaves the next time. */
static void test_failures(void **state)
{
    static const char *const names[] = { "cuMemcpyDtoHAsync_v2",
                                         "cuMemcpyHtoDAsync_v2",
                                         "cuMemcpyDtoDAsync_v2",
                                         "cuEventSynchronize",
                                         "cuMemUnmap",
                                         "cuMemCreate",
                                         "cuMemMap",
                                         "cuMemSetAccess",
                                         "cuMemImportFromShareableHandle",
                                         "cuMemHostRegister_v2",
                                         "cuMemHostUnregister",
                                         "cuCtxSetCurrent" };

    (void)state;
    assert_int_equal(cuMemFree_v2(big), 0);
    big = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        for (unsigned int nth = 1; nth <= 9; nth += nth % 4 ? 3u : 5u) {
            bool out;

            pause_it(true);
            fake_fail(names[i], nth, 206);
            out = command(OP_EVICT_ALL, nth % 2 ? PAGE_PERMILLE : 0) >= 0;
            if (!out && page->health.state == STATE_RUNNING)
                for (int g = 0; g < GPUS; g++)
                    assert_int_equal(page->memory[g].saved, 0); /* nothing */
            (void)command(OP_RELOAD_ALL, 0);
            fake_fail("", 0, 0);
            (void)command(OP_RELOAD_ALL, 0);
            pause_it(false);
            verify(names[i]);
            for (uint32_t g = 0; g < GPUS; g++)
                (void)command_gpu(g, OP_PROMOTE, 0);
            assert_home(names[i]);
        }
}

/* What it may have in host memory it may have once, not once a GPU. */
static void test_limited(void **state)
{
    (void)state;
    for (int g = 0; g < GPUS; g++)
        page->limit[g].host_cap_bytes = all() - MIB;
    assert_int_equal(command(OP_EVICT_ALL, 0), -ENOMEM);
    assert_non_null(strstr(page->health.error, "306 MiB of host memory are needed and --host-memory leaves 305"));
    assert_home("after an eviction that was refused");
    assert_int_equal(command_gpu(1, OP_SPILL_TO, BIG), 3 * size_of[1]);
    assert_int_equal(command_gpu(0, OP_EVICT_ALL, 0), -ENOMEM); /* what lies there already counts, whosever it is */
    assert_non_null(strstr(page->health.error, "288 MiB of host memory are needed and --host-memory leaves 287"));
    assert_int_equal(command_gpu(1, OP_PROMOTE, 0), 3 * size_of[1]);
    for (int g = 0; g < GPUS; g++)
        page->limit[g].host_cap_bytes = 0;
    assert_home("with host memory for nearly all of it");
}

/* The memory of each GPU goes into whole blocks: that much the cgroup has to leave. */
static void test_cgroup(void **state)
{
    CUdeviceptr more = 0;

    (void)state;
    assert_int_equal(stat_of("area_bytes"), 4 * BLOCK); /* the first has one, the second two, the third one */
    assert_int_equal(cuCtxSetCurrent(ctx[2]), 0);
    assert_int_equal(cuMemAlloc_v2(&more, 252 * MIB), 0);
    assert_int_equal(cuCtxSetCurrent(ctx[0]), 0);
    cgroup_write(cgroup, "memory.max", "268435455\n");
    cgroup_write(cgroup, "memory.current", "0\n");
    pause_it(true);
    assert_int_equal(command(OP_EVICT_ALL, 0), -ENOMEM);
    assert_non_null(strstr(page->health.error, "256 MiB of host memory are needed and memory.max"));
    cgroup_write(cgroup, "memory.max", "max\n");
    assert_int_equal(command(OP_EVICT_ALL, 0), all() + 252 * MIB);
    assert_int_equal(stat_of("area_bytes"), 5 * BLOCK);
    assert_int_equal(command(OP_RELOAD_ALL, 0), all() + 252 * MIB);
    pause_it(false);
    assert_int_equal(cuMemFree_v2(more), 0);
    assert_home("after the cgroup had room");
}

/* Made ahead of time: as many blocks as the order will take. */
static void test_prepared(void **state)
{
    (void)state;
    assert_int_equal(stat_of("area_bytes"), 0);
    assert_int_equal(command(OP_PREPARE, 4096 * MIB), 0);
    for (int i = 0; i < 10000 && stat_of("area_bytes") < 4 * BLOCK; i++)
        (void)usleep(1000);
    (void)usleep(50000);
    assert_int_equal(stat_of("area_bytes"), 4 * BLOCK);
    assert_int_equal(command(OP_PREPARE, 0), 0);
}

/* The card of one is full: its part is in host memory, and the others' is home. */
static void test_one_full(void **state)
{
    (void)state;
    pause_it(true);
    assert_int_equal(command(OP_EVICT_ALL, 0), all());
    fake_others(1, 1024 * MIB);
    assert_int_equal(command(OP_RELOAD_ALL, 0), all());
    pause_it(false);
    assert_int_equal(page->memory[1].host_backed, bytes_of(1));
    assert_int_equal(fake_device_used(0), bytes_of(0));
    assert_int_equal(fake_device_used(2), bytes_of(2));
    verify("from host memory");
    fake_others(1, 0);
    assert_int_equal(command_gpu(1, OP_PROMOTE, 0), bytes_of(1));
    assert_home("after its card had room");
}

static _Atomic int ran;

static void kernel(const uint64_t *args)
{
    (void)args;
    ran++;
}

/* Work of any GPU may use any of the memory, as a peer's does: it is over before one byte moves. */
static void test_work_waited_for(void **state)
{
    CUfunction slow = fake_kernel_register("slow", kernel, 0, 300000);

    (void)state;
    for (int i = 0; i < 2; i++) {
        uint64_t before = fake_calls("cuCtxSynchronize");

        assert_int_equal(cuCtxSetCurrent(ctx[2]), 0);
        assert_int_equal(cuLaunchKernel(slow, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 0);
        assert_int_equal(cuCtxSetCurrent(ctx[0]), 0);
        pause_it(true);
        if (i == 0)
            assert_int_equal(command(OP_EVICT_ALL, 0), all());
        else
            assert_int_equal(command_gpu(0, OP_SPILL_TO, 1), bytes_of(0));
        assert_int_equal(ran, i + 1); /* the fake's cards have one queue between them, so: */
        assert_int_equal(fake_calls("cuCtxSynchronize"), before + GPUS);
        if (i == 0)
            assert_int_equal(command(OP_RELOAD_ALL, 0), all());
        else
            assert_int_equal(command_gpu(0, OP_PROMOTE, 0), bytes_of(0));
        pause_it(false);
        assert_home("after work of another GPU");
    }
}

/* A node side that is gone: the helper brings it home, to every GPU. */
static void test_orphan(void **state)
{
    (void)state;
    pause_it(true);
    assert_int_equal(command(OP_EVICT_ALL, PAGE_PERMILLE), all());
    __atomic_store_n(&page->control.lease_until_ns, now_ns(), __ATOMIC_SEQ_CST);
    for (int i = 0; i < 10000 && __atomic_load_n(&page->health.state, __ATOMIC_ACQUIRE) != STATE_RUNNING; i++)
        (void)usleep(1000);
    pause_it(false);
    assert_home("brought home by the helper");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prepared),        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_cgroup),          cmocka_unit_test(test_blocks_change_hands),
        cmocka_unit_test(test_limited),         cmocka_unit_test(test_one_full),
        cmocka_unit_test(test_work_waited_for), cmocka_unit_test(test_failures),
        cmocka_unit_test(test_orphan),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
