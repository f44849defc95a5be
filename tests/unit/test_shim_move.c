/* SPDX-License-Identifier: Apache-2.0 */
/* Movable memory without a node side: this test plays it, writing the process page by hand. A byte that moved is read
 * by an ordinary load at the address it always had, with the driver failing at every step in turn. */
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
#define SEGMENTS 6
#define SEGMENT (4 * MIB)

static CUdeviceptr at[SEGMENTS];
static char cgroup[] = "/tmp/muster-cgroup-XXXXXX"; /* no limit is written there yet */

static uint64_t word(int segment, uint64_t k)
{
    return (uint64_t)segment << 32 | k * 2654435761u;
}

static void fill(void)
{
    for (int s = 0; s < SEGMENTS; s++)
        for (uint64_t k = 0; k < SEGMENT / 4096; k++)
            ((uint64_t *)(uintptr_t)at[s])[k * 512] = word(s, k);
}

static void verify(const char *when)
{
    for (int s = 0; s < SEGMENTS; s++)
        for (uint64_t k = 0; k < SEGMENT / 4096; k++)
            if (((uint64_t *)(uintptr_t)at[s])[k * 512] != word(s, k))
                fail_msg("segment %d word %llu is wrong %s", s, (unsigned long long)k, when);
}

static int setup(void **state)
{
    CUcontext ctx;

    (void)state;
    if (!mkdtemp(cgroup) || setenv("MUSTER_GPU_CGROUP", cgroup, 1) != 0)
        return 1;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx))
        return 1;
    if (play_begin())
        return 1;
    for (int s = 0; s < SEGMENTS; s++)
        if (cuMemAlloc_v2(&at[s], SEGMENT))
            return 1;
    fill();
    return 0;
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

static void test_range(void **state)
{
    CUdeviceptr base;
    size_t size;

    (void)state;
    assert_int_equal(stat_of("movable"), SEGMENTS * SEGMENT);
    assert_int_equal(cuMemGetAddressRange_v2(&base, &size, at[2] + 3 * MIB), 0);
    assert_int_equal(base, at[2]);
    assert_int_equal(size, SEGMENT);
}

static void test_spill_and_back(void **state)
{
    uint64_t all = SEGMENTS * SEGMENT, start = now_ns(), spill_ns;

    (void)state;
    assert_int_equal(command(OP_SPILL_TO, all / 2), all / 2);
    assert_int_equal(stat_of("used"), all / 2);
    assert_int_equal(fake_device_used(0), all / 2);
    assert_int_equal(stat_of("host_backed"), all / 2);
    verify("after a spill");
    fill();
    verify("written in host memory");
    assert_int_equal(stat_of("spilled_bytes"), all / 2);
    assert_int_equal(stat_of("promoted_bytes"), 0);
    spill_ns = stat_of("spill_ns");
    assert_in_range(spill_ns, 1, now_ns() - start);
    assert_int_equal(page->moves[0].spill_last_ns, spill_ns);
    assert_int_equal(command(OP_PROMOTE, 0), all / 2);
    assert_int_equal(stat_of("used"), all);
    assert_int_equal(fake_device_used(0), all);
    verify("at home again");
    assert_int_equal(stat_of("promoted_bytes"), all / 2);
    assert_in_range(stat_of("promote_ns"), 1, now_ns() - start - spill_ns);
    assert_int_equal(page->moves[0].promote_last_ns, stat_of("promote_ns"));
    assert_int_equal(command(OP_PROMOTE, 0), 0); /* nothing to move: no move, and no time of one */
    assert_int_equal(page->moves[0].promote_last_ns, stat_of("promote_ns"));
    assert_int_equal(command(OP_SPILL_TO, all / 2), all / 2);
    assert_int_equal(stat_of("spilled_bytes"), all);
    assert_int_equal(stat_of("spill_ns"), spill_ns + page->moves[0].spill_last_ns);
    assert_int_equal(command(OP_PROMOTE, 0), all / 2);
}

static bool no_host(void)
{
    return stat_of("flags") & HEALTH_NO_HOST;
}

/* Nowhere to move it to: what fits is moved, the rest stays with its content, and the page says why. Then it is refused
 * what goes beyond its limit for good. */
static void test_no_host(void **state)
{
    uint64_t all = SEGMENTS * SEGMENT;
    CUdeviceptr p = 0;

    (void)state;
    assert_int_equal(command(OP_SPILL_TO, all), 0);
    assert_false(no_host());
    page->limit[0].host_cap_bytes = SEGMENT; /* its own limit of host memory */
    assert_int_equal(command(OP_SPILL_TO, all / 2), SEGMENT);
    assert_true(no_host());
    assert_non_null(strstr(page->health.error, "no host memory for 8 MiB above its limit"));
    verify("with host memory for one segment");
    page->limit[0].cap_bytes = all;
    assert_int_equal(cuMemAlloc_v2(&p, 2 * SEGMENT), CUDA_ERROR_OUT_OF_MEMORY); /* softly, */
    assert_int_equal(cuMemAlloc_v2(&p, 2 * SEGMENT), CUDA_ERROR_OUT_OF_MEMORY); /* and for good */
    assert_int_equal(stat_of("soft_refusals"), 1);
    page->limit[0].cap_bytes = 0;
    page->limit[0].host_cap_bytes = 0;
    assert_int_equal(command(OP_SPILL_TO, all / 2), 2 * SEGMENT);
    assert_false(no_host());
    assert_int_equal(command(OP_PROMOTE, 0), all / 2);
    fake_fail("cuMemCreate", 0, CUDA_ERROR_OUT_OF_MEMORY); /* the driver has none; what was made ahead is left */
    (void)command(OP_SPILL_TO, 1);
    assert_true(no_host());
    verify("without any");
    fake_fail("", 0, 0);
    assert_int_equal(command(OP_SPILL_TO, all), 0); /* asked for nothing: nothing is missing */
    assert_false(no_host());
    (void)command(OP_PROMOTE, 0);
    assert_int_equal(stat_of("used"), all);
    verify("home again");
}

/* The job's cgroup is at its limit: what was made ahead is used, and no more is made. */
static void test_cgroup(void **state)
{
    uint64_t all = SEGMENTS * SEGMENT, odd = 6 * MIB; /* of that size there is nothing ready */
    CUdeviceptr p = 0;

    (void)state;
    assert_int_equal(cuMemAlloc_v2(&p, odd), 0);
    cgroup_write(cgroup, "memory.max", "1000000000\n");
    cgroup_write(cgroup, "memory.current", "999999999\n");
    (void)command(OP_SPILL_TO, 1);
    assert_true(no_host());
    assert_true(stat_of("used") >= odd);
    verify("at the limit of the cgroup");
    cgroup_write(cgroup, "memory.current", "900000000\n");
    (void)command(OP_SPILL_TO, 1);
    assert_false(no_host());
    assert_int_equal(stat_of("used"), 0);
    cgroup_write(cgroup, "memory.max", "max\n");
    assert_int_equal(command(OP_PROMOTE, 0), all + odd);
    assert_int_equal(cuMemFree_v2(p), 0);
    verify("after the cgroup had room");
}

/* A driver that does not map: a plain allocation is what the program asked for, and what it gets. Where there is no
 * memory the driver's own answer is the program's. */
static void test_native_instead(void **state)
{
    uint64_t all = SEGMENTS * SEGMENT, before = stat_of("unknown");
    CUdeviceptr p = 0;

    (void)state;
    fake_fail("cuMemAddressReserve", 1, CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuMemAlloc_v2(&p, SEGMENT), 0);
    assert_int_equal(stat_of("used"), all + SEGMENT);
    assert_int_equal(stat_of("movable"), all);
    assert_int_equal(stat_of("unknown"), before + 1);
    assert_int_equal(cuMemFree_v2(p), 0);
    assert_int_equal(stat_of("used"), all);
    fake_fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemAlloc_v2(&p, SEGMENT), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(stat_of("used"), all);
    assert_int_equal(fake_device_used(0), all);
}

/* The end of a step that took so long, written as the library would. */
static void step_play(uint32_t wall_us)
{
    uint64_t seq = page->step.seq;

    page->step.ring[seq % PAGE_STEPS] = (struct page_step_record){ .wall_us = wall_us };
    __atomic_store_n(&page->step.seq, seq + 1, __ATOMIC_RELEASE);
}

/* Memory comes home at the ends of steps: of one of 100 us a quarter is enough for one segment, no matter how long one
 * waits; a paused program has all of it at once. */
static void test_home(void **state)
{
    void (*step)(void);
    uint64_t all = SEGMENTS * SEGMENT, seq, left = all / 2, since;

    (void)state;
    *(void **)&step = dlsym(RTLD_DEFAULT, "muster_step");
    assert_non_null(step);
    step(); /* a signal that silences the window of time, for ten seconds */
    assert_int_equal(command(OP_SPILL_TO, all / 2), all / 2);
    seq = command_post(OP_HOME, 0);
    since = now_ns();
    usleep(50000);
    if (now_ns() - since < 900000000ULL) /* after a second without a step it would begin */
        assert_int_equal(stat_of("host_backed"), left);
    while (left && now_ns() - since < 8000000000ULL) {
        step_play(100);
        left -= SEGMENT;
        for (int i = 0; i < 2000 && stat_of("host_backed") > left; i++)
            usleep(1000);
        assert_int_equal(stat_of("host_backed"), left);
    }
    for (int i = 0; i < 2000 && __atomic_load_n(&page->reply[seq % PAGE_RING].seq, __ATOMIC_ACQUIRE) != seq; i++)
        usleep(1000);
    assert_int_equal(page->reply[seq % PAGE_RING].bytes, all / 2);
    verify("brought home by steps");
    assert_int_equal(command(OP_SPILL_TO, all / 2), all / 2);
    seq = command_post(OP_HOME, 0);
    assert_int_equal(command(OP_SPILL_TO, all / 3), all / 6); /* overtakes it: no step ends, and it does not wait */
    step_play(100);
    usleep(50000);
    assert_int_equal(stat_of("host_backed"), all - all / 3);
    assert_true(page->reply[seq % PAGE_RING].seq != seq);
    assert_int_equal(command(OP_PROMOTE, 0), all - all / 3);
    verify("brought home after an overtaken order");
    step();
    assert_int_equal(command(OP_SPILL_TO, all / 2), all / 2);
    since = now_ns();
    assert_int_equal(command(OP_HOME, 0), all / 2); /* no step ends: after a second it comes home all the same */
    assert_in_range(now_ns() - since, 900000000ULL, 4900000000ULL);
    verify("brought home without a step");
    assert_int_equal(command(OP_SPILL_TO, all / 2), all / 2);
    page->control.lease_until_ns = now_ns() + 60000000000ULL;
    __atomic_store_n(&page->control.gate, GATE_CLOSED, __ATOMIC_SEQ_CST);
    assert_int_equal(command(OP_HOME, 0), all / 2);
    __atomic_store_n(&page->control.gate, GATE_OPEN, __ATOMIC_SEQ_CST);
    verify("brought home while paused");
}

static void doze(const uint64_t *args)
{
    (void)args;
}

static uint64_t submit_ms(CUfunction f, int count)
{
    uint64_t start = now_ns();

    for (int i = 0; i < count; i++)
        assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 0);
    return (now_ns() - start) / 1000000;
}

/* With memory in host memory a program may not run far ahead: a move would have to wait for all of it. */
static void test_short_queue(void **state)
{
    CUfunction f = fake_kernel_register("doze", doze, 0, 5000);
    uint64_t all = SEGMENTS * SEGMENT;

    (void)state;
    assert_true(submit_ms(f, 24) < 60);
    assert_int_equal(cuStreamSynchronize(NULL), 0);
    assert_int_equal(command(OP_SPILL_TO, all / 2), all / 2);
    assert_true(submit_ms(f, 24) >= 70); /* all but the last eight or so are over */
    assert_int_equal(command(OP_PROMOTE, 0), all / 2);
    assert_true(submit_ms(f, 24) < 60);
    assert_int_equal(cuStreamSynchronize(NULL), 0);
    verify("after a short queue");
}

/* Whatever the driver refuses, and wherever: the content stays (I2), the sums stay right, and it works the next time.
 */
static void test_spill_failures(void **state)
{
    static const char *const names[] = {
        "cuMemCreate",         "cuMemMap",      "cuMemSetAccess", "cuMemUnmap",        "cuMemcpyDtoDAsync_v2",
        "cuStreamSynchronize", "cuEventCreate", "cuEventRecord",  "cuEventSynchronize"
    };
    uint64_t all = SEGMENTS * SEGMENT;

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        for (unsigned int nth = 1; nth <= 12; nth += nth > 3 ? 4u : 1u) {
            fake_fail(names[i], nth, 999);
            (void)command(OP_SPILL_TO, all / 3);
            fake_fail("", 0, 0);
            verify(names[i]);
            assert_int_equal(stat_of("used") + stat_of("host_backed"), all);
            (void)command(OP_PROMOTE, 0);
            verify("after the promotion");
            if (stat_of("used") != all)
                fail_msg("%s %u: not all came home", names[i], nth);
            assert_int_equal(stat_of("host_backed"), 0);
        }
}

static bool noted(const char *text)
{
    return strstr(page->health.error, text) != NULL;
}

/* More than the process may have in host memory, or than its cgroup leaves: refused before anything stops, and it is
 * said which. What is there already is nobody's new memory. */
static void test_evict_limited(void **state)
{
    uint64_t all = SEGMENTS * SEGMENT;

    (void)state;
    page->limit[0].host_cap_bytes = 16 * MIB;
    assert_int_equal(command(OP_EVICT_ALL, 0), -ENOMEM);
    assert_true(noted("--host-memory leaves 16"));
    assert_int_equal(page->health.state, STATE_RUNNING);
    assert_int_equal(stat_of("saved"), 0);
    assert_int_equal(stat_of("area_bytes"), 0);
    page->limit[0].host_cap_bytes = 0;
    cgroup_write(cgroup, "memory.max", "134217728\n");
    cgroup_write(cgroup, "memory.current", "33554432\n");
    assert_int_equal(command(OP_EVICT_ALL, 0), -ENOMEM);
    assert_true(noted("memory.max of its cgroup leaves 96"));
    assert_int_equal(stat_of("area_bytes"), 0);
    for (int i = 0; i < 5000 && page->host.cgroup_left != 96 * MIB; i++)
        (void)usleep(1000);
    assert_int_equal(page->host.cgroup_left, 96 * MIB); /* the node side knows as well */
    verify("after evictions that were refused");
    cgroup_write(cgroup, "memory.max", "max\n");
    page->limit[0].host_cap_bytes = all;
    __atomic_store_n(&page->control.lease_until_ns, now_ns() + 60000000000ULL, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->control.gate, GATE_CLOSED, __ATOMIC_SEQ_CST);
    assert_int_equal(command(OP_EVICT_ALL, 0), all);
    assert_int_equal(command(OP_RELOAD_ALL, 0), all);
    cgroup_write(cgroup, "memory.max", "33554432\n");
    assert_int_equal(command(OP_EVICT_ALL, 0), all); /* its block is there */
    assert_int_equal(command(OP_RELOAD_ALL, 0), all);
    cgroup_write(cgroup, "memory.max", "max\n");
    page->limit[0].host_cap_bytes = 0;
    __atomic_store_n(&page->control.gate, GATE_OPEN, __ATOMIC_SEQ_CST);
    verify("after evictions below the limits");
}

static void test_evict_and_back(void **state)
{
    uint64_t all = SEGMENTS * SEGMENT;

    (void)state;
    __atomic_store_n(&page->control.lease_until_ns, now_ns() + 60000000000ULL, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->control.gate, GATE_CLOSED, __ATOMIC_SEQ_CST);
    assert_int_equal(command(OP_EVICT_ALL, 0), all);
    assert_int_equal(fake_device_used(0), 0);
    assert_int_equal(stat_of("saved"), all);
    assert_int_equal(command(OP_SPILL_TO, 1), 0); /* nothing to do, and nothing opened by it */
    assert_int_equal(command(OP_PROMOTE, 0), 0);
    assert_int_equal(command(OP_RELOAD_ALL, 0), all);
    __atomic_store_n(&page->control.gate, GATE_OPEN, __ATOMIC_SEQ_CST);
    assert_int_equal(fake_device_used(0), all);
    verify("after an eviction");
}

static void test_evict_failures(void **state)
{
    static const char *const names[] = { "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2",
                                         "cuMemcpyDtoDAsync_v2", "cuEventRecord",
                                         "cuEventSynchronize",   "cuMemUnmap",
                                         "cuMemCreate",          "cuMemMap",
                                         "cuMemSetAccess",       "cuMemImportFromShareableHandle",
                                         "cuMemHostRegister_v2", "cuMemHostUnregister" };
    uint64_t all = SEGMENTS * SEGMENT;

    (void)state;
    __atomic_store_n(&page->control.lease_until_ns, now_ns() + 60000000000ULL, __ATOMIC_SEQ_CST);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        for (unsigned int nth = 1; nth <= 7; nth += nth > 2 ? 3u : 1u) {
            __atomic_store_n(&page->control.gate, GATE_CLOSED, __ATOMIC_SEQ_CST);
            fake_fail(names[i], nth, 999);
            (void)command(OP_EVICT_ALL, nth % 2 ? PAGE_PERMILLE : 0); /* for a release, too */
            (void)command(OP_RELOAD_ALL, 0);
            fake_fail("", 0, 0);
            (void)command(OP_RELOAD_ALL, 0);
            __atomic_store_n(&page->control.gate, GATE_OPEN, __ATOMIC_SEQ_CST);
            verify(names[i]);
            assert_int_equal(stat_of("saved"), 0);
            assert_int_equal(stat_of("used") + stat_of("host_backed"), all);
            (void)command(OP_PROMOTE, 0);
            assert_int_equal(stat_of("used"), all);
        }
}

/* The driver lets go of nothing: that is no eviction, and the program goes on with all it had. */
static void test_evict_refused(void **state)
{
    uint64_t all = SEGMENTS * SEGMENT;

    (void)state;
    __atomic_store_n(&page->control.lease_until_ns, now_ns() + 60000000000ULL, __ATOMIC_SEQ_CST);
    for (unsigned int nth = 0; nth < 4; nth++) { /* every one, or the first, second, third */
        __atomic_store_n(&page->control.gate, GATE_CLOSED, __ATOMIC_SEQ_CST);
        fake_fail("cuMemUnmap", nth, 206);
        assert_int_equal(command(OP_EVICT_ALL, 0), -EIO);
        fake_fail("", 0, 0);
        assert_int_equal(page->health.state, STATE_RUNNING);
        assert_non_null(strstr(page->health.error, "all of it is where it was"));
        __atomic_store_n(&page->control.gate, GATE_OPEN, __ATOMIC_SEQ_CST);
        assert_int_equal(stat_of("saved"), 0);
        assert_int_equal(stat_of("used"), all);
        verify("after an eviction that was none");
    }
}

/* For a release the driver lets go of the host memory as well, at once or when it was evicted before. */
static void test_evict_unpinned(void **state)
{
    uint64_t all = SEGMENTS * SEGMENT, block = 256ull << 20; /* a spill that failed may have left what it was at */

    (void)state;
    __atomic_store_n(&page->control.lease_until_ns, now_ns() + 60000000000ULL, __ATOMIC_SEQ_CST);
    for (uint64_t first = 0; first <= PAGE_PERMILLE; first += PAGE_PERMILLE) {
        __atomic_store_n(&page->control.gate, GATE_CLOSED, __ATOMIC_SEQ_CST);
        assert_int_equal(command(OP_EVICT_ALL, first), all);
        if (first == 0) {
            assert_true(fake_mapped_host() >= block);
            assert_int_equal(command(OP_EVICT_ALL, PAGE_PERMILLE), 0);
        }
        assert_true(fake_mapped_host() < block);
        assert_int_equal(command(OP_RELOAD_ALL, 0), all);
        __atomic_store_n(&page->control.gate, GATE_OPEN, __ATOMIC_SEQ_CST);
        verify("after its host memory was let go of");
    }
}

/* The card is full when the job comes home: it runs from host memory, and moves when there is room. */
static void test_reload_without_room(void **state)
{
    uint64_t all = SEGMENTS * SEGMENT;

    (void)state;
    __atomic_store_n(&page->control.lease_until_ns, now_ns() + 60000000000ULL, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->control.gate, GATE_CLOSED, __ATOMIC_SEQ_CST);
    assert_int_equal(command(OP_EVICT_ALL, 0), all);
    fake_fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(command(OP_RELOAD_ALL, 0), all);
    __atomic_store_n(&page->control.gate, GATE_OPEN, __ATOMIC_SEQ_CST);
    assert_true(stat_of("host_backed") > 0);
    verify("from host memory");
    (void)command(OP_PROMOTE, 0);
    assert_int_equal(stat_of("used"), all);
    verify("at home");
}

static void kernel(const uint64_t *args)
{
    ++*(uint64_t *)(uintptr_t)args[0];
}

/* A closed gate holds a launch, and lets it go when the lease has ended: nobody waits for the dead. */
static void test_gate_lease(void **state)
{
    CUfunction f = fake_kernel_register("count", kernel, 1, 0);
    uint64_t count = 0, arg = (uint64_t)(uintptr_t)&count, start = now_ns();
    void *params[1] = { &arg };

    (void)state;
    __atomic_store_n(&page->control.lease_until_ns, start + 300000000ULL, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->control.gate, GATE_CLOSED, __ATOMIC_SEQ_CST);
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), 0);
    assert_int_equal(cuStreamSynchronize(NULL), 0);
    assert_in_range(now_ns() - start, 290000000ULL, 5000000000ULL); /* a machine with other work takes its time */
    assert_int_equal(count, 1);
    __atomic_store_n(&page->control.gate, GATE_OPEN, __ATOMIC_SEQ_CST);
}

/* Any bytes at all in the node side's half of the page: the program goes on. */
static void test_page_garbage(void **state)
{
    CUfunction f = fake_kernel_register("count2", kernel, 1, 0);
    uint64_t count = 0, arg = (uint64_t)(uintptr_t)&count, seed = 1;
    void *params[1] = { &arg };
    struct page_control saved = page->control;

    (void)state;
    for (int i = 0; i < 300; i++) {
        unsigned char *p = (unsigned char *)&page->control;

        for (size_t k = 0; k < offsetof(struct page_control, command_seq); k++) {
            seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
            p[k] = (unsigned char)(seed >> 56);
        }
        if (page->control.gate == GATE_CLOSED) /* which holds a launch for as long as a lease may be: shim_gate */
            page->control.gate = GATE_HARVEST;
        page->control.duty |= 512; /* a duty of zero would wait its two seconds */
        assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), 0);
    }
    page->control = saved;
    page->control.gate = GATE_OPEN;
    assert_int_equal(cuStreamSynchronize(NULL), 0);
    assert_int_equal(count, 300);
}

static void test_slice(void **state)
{
    (void)state;
    assert_int_equal(stat_of("slice_groups"), 1);
    assert_int_equal(command(OP_SET_SLICE, 200), 0);
    assert_int_equal(fake_slice_us(), 200);
    assert_int_equal(command(OP_SET_SLICE, 0), 0);
    assert_int_equal(fake_slice_us(), 2048); /* what the driver had */
    (void)setenv("FAKE_SLICE_LIES", "1", 1);
    assert_true(command(OP_SET_SLICE, 300) < 0); /* the read-back disagrees: off for good */
    (void)unsetenv("FAKE_SLICE_LIES");
    assert_true(command(OP_SET_SLICE, 300) < 0);
    assert_int_equal(stat_of("slice_ok"), 0);
}

static void test_free_all(void **state)
{
    (void)state;
    for (int s = 0; s < SEGMENTS; s++)
        assert_int_equal(cuMemFree_v2(at[s]), 0);
    assert_int_equal(stat_of("used"), 0);
    assert_int_equal(stat_of("movable"), 0);
    assert_int_equal(fake_device_used(0), 0);
    assert_int_equal(command(OP_PING, 0), 0);
    assert_true(command((enum page_op)99, 0) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range),          cmocka_unit_test(test_spill_and_back),
        cmocka_unit_test(test_no_host),        cmocka_unit_test(test_cgroup),
        cmocka_unit_test(test_native_instead), cmocka_unit_test(test_home),
        cmocka_unit_test(test_short_queue),    cmocka_unit_test(test_spill_failures),
        cmocka_unit_test(test_evict_limited),  cmocka_unit_test(test_evict_and_back),
        cmocka_unit_test(test_evict_failures), cmocka_unit_test(test_evict_refused),
        cmocka_unit_test(test_evict_unpinned), cmocka_unit_test(test_reload_without_room),
        cmocka_unit_test(test_gate_lease),     cmocka_unit_test(test_page_garbage),
        cmocka_unit_test(test_slice),          cmocka_unit_test(test_free_all),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
