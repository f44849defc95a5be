/* SPDX-License-Identifier: Apache-2.0 */
/* Work in flight that does not end: because it waits for what its program does next, or because the driver does not
 * return. Whatever was ordered meanwhile, the program's next launch gets through, and its memory keeps its content. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "calls.h"
#include "unit/shim_play.h"

#define SEC 1000000000ULL
#define MIB (1ull << 20)
#define SEGMENT (4 * MIB)
#define SEGMENTS 3
#define MANY 40

static CUfunction nothing, waits;
static CUcontext ctx;
static CUdeviceptr at[SEGMENTS];
static _Atomic uint32_t flag, through;

static void kernel(const uint64_t *args)
{
    (void)args;
}

static void kernel_waits(const uint64_t *args)
{
    (void)args;
    while (!flag)
        (void)usleep(1000);
}

static int setup(void **state)
{
    (void)state;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) || play_begin())
        return 1;
    nothing = fake_kernel_register("nothing", kernel, 0, 0);
    waits = fake_kernel_register("waits", kernel_waits, 0, 0);
    for (int s = 0; s < SEGMENTS; s++)
        if (cuMemAlloc_v2(&at[s], SEGMENT))
            return 1;
    page->control.lease_until_ns = now_ns() + 600 * SEC;
    return 0;
}

static void fill(uint64_t seed)
{
    for (int s = 0; s < SEGMENTS; s++)
        for (uint64_t k = 0; k < SEGMENT / 4096; k++)
            ((uint64_t *)(uintptr_t)at[s])[k * 512] = seed + (uint64_t)s * 1000 + k;
}

static bool holds(uint64_t seed)
{
    bool all = true;

    for (int s = 0; s < SEGMENTS; s++)
        for (uint64_t k = 0; k < SEGMENT / 4096; k++)
            all = all && ((uint64_t *)(uintptr_t)at[s])[k * 512] == seed + (uint64_t)s * 1000 + k;
    return all;
}

static CUresult launch(CUfunction f)
{
    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

/* As many launches as asked for, in a thread that may stand still for good. */
static void *launches_go(void *arg)
{
    (void)cuCtxSetCurrent(ctx);
    for (uintptr_t i = 0; i < (uintptr_t)arg; i++)
        if (launch(nothing) == 0)
            through++;
    return NULL;
}

/* How long it took until all were through; UINT64_MAX: they are not after so many seconds. */
static uint64_t launches_ns(uintptr_t count, uint64_t seconds)
{
    uint64_t start = now_ns(), took = UINT64_MAX;
    pthread_t thread;

    through = 0;
    assert_int_equal(pthread_create(&thread, NULL, launches_go, (void *)count), 0);
    while (through < count && now_ns() - start < seconds * SEC)
        (void)usleep(1000);
    if (through >= count)
        took = now_ns() - start;
    flag = 1; /* what stands, stands no longer */
    fake_stall("");
    assert_int_equal(pthread_join(thread, NULL), 0);
    return took;
}

static int64_t reply_wait(uint64_t seq)
{
    struct page_reply *reply = &page->reply[seq % PAGE_RING];

    for (int i = 0; i < 60000 && __atomic_load_n(&reply->seq, __ATOMIC_ACQUIRE) != seq; i++)
        (void)usleep(1000);
    assert_int_equal(__atomic_load_n(&reply->seq, __ATOMIC_ACQUIRE), seq);
    return reply->result < 0 ? reply->result : (int64_t)reply->bytes;
}

static void gate_set(enum page_gate gate)
{
    __atomic_store_n(&page->control.gate, gate, __ATOMIC_SEQ_CST);
}

/* Another order meanwhile is refused at once, and does not make the program stand again. */
static void refused_at_once(void)
{
    uint64_t start = now_ns();

    assert_int_equal(command(OP_SPILL_TO, 1), -EBUSY);
    assert_true(now_ns() - start < 2 * SEC);
}

/* A kernel waits for what its program does after its next launch; or the driver's wait does not return. */
static void move_waits(const char *stalls)
{
    uint64_t seq, took;

    flag = 0;
    fill(1);
    if (stalls)
        fake_stall(stalls);
    else
        assert_int_equal(launch(waits), 0);
    seq = command_post(OP_SPILL_TO, 1);
    for (int i = 0; i < 500 && stalls && !fake_stalled(); i++)
        (void)usleep(1000);
    (void)usleep(100000);
    took = launches_ns(1, 15);
    if (took == UINT64_MAX)
        fail_msg("%s: a launch stands still for good", stalls ? stalls : "a kernel waits");
    assert_int_equal(reply_wait(seq), -EBUSY);
    assert_non_null(strstr(page->health.error, "did not end within 5 s"));
    refused_at_once();
    assert_int_equal(command(OP_SYNC, 0), 0); /* it has ended: that is known now */
    assert_int_equal(command(OP_SPILL_TO, 1), SEGMENTS * SEGMENT);
    assert_true(holds(1));
    assert_int_equal(command(OP_PROMOTE, 0), SEGMENTS * SEGMENT);
    assert_true(holds(1));
}

static void test_kernel_waits(void **state)
{
    (void)state;
    move_waits(NULL);
}

static void test_driver_waits(void **state)
{
    (void)state;
    move_waits("cuCtxSynchronize");
}

/* A pause says so, and its gate is the node side's to open. */
static void test_pause(void **state)
{
    uint64_t start = now_ns();

    (void)state;
    flag = 0;
    assert_int_equal(launch(waits), 0);
    gate_set(GATE_CLOSED);
    assert_int_equal(command(OP_SYNC, 0), -ETIMEDOUT);
    assert_in_range(now_ns() - start, 4 * SEC, 9 * SEC);
    assert_non_null(strstr(page->health.error, "did not end within 5 s"));
    assert_int_equal(command(OP_EVICT_ALL, 0), -EBUSY);
    gate_set(GATE_OPEN);
    assert_int_equal(launches_ns(1, 5) < SEC, 1);
    assert_int_equal(command(OP_SYNC, 0), 0);
}

/* The copies of a move do not end. The program goes on, and what it writes from then on is what it finds. */
static void copy_stalls(enum page_op op, const char *name)
{
    uint64_t seq, start = now_ns();
    pthread_t thread;

    fill(1);
    through = 0;
    fake_stall(name);
    seq = command_post(op, op == OP_SPILL_TO);
    for (int i = 0; i < 5000 && !fake_stalled(); i++)
        (void)usleep(1000);
    assert_true(fake_stalled());
    assert_int_equal(pthread_create(&thread, NULL, launches_go, (void *)1), 0);
    while (!through && now_ns() - start < 60 * SEC)
        (void)usleep(1000);
    if (through)
        fill(2);
    assert_int_equal(page->health.state == STATE_RUNNING || !through, 1);
    fake_stall("");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(reply_wait(seq), -ETIMEDOUT);
    assert_non_null(strstr(page->health.error, "a copy did not end"));
    assert_true(holds(2));
    assert_int_equal(stat_of("used") + stat_of("host_backed"), SEGMENTS * SEGMENT);
    assert_int_equal(stat_of("saved"), 0);
    (void)command(OP_PROMOTE, 0);
    assert_int_equal(stat_of("used"), SEGMENTS * SEGMENT);
    assert_true(holds(2));
}

static void test_copy_stalls(void **state)
{
    (void)state;
    copy_stalls(OP_SPILL_TO, "cuEventSynchronize");
    copy_stalls(OP_EVICT_ALL, "cuEventSynchronize");
}

/* While memory lies in host memory a launch waits for those before it: two seconds, and not again for a while. */
static void test_brief(void **state)
{
    uint64_t took, before = stat_of("fail_open");

    (void)state;
    assert_int_equal(command(OP_SPILL_TO, 1), SEGMENTS * SEGMENT);
    flag = 0;
    assert_int_equal(launch(waits), 0);
    took = launches_ns(MANY, 15);
    assert_in_range(took, 1 * SEC, 6 * SEC);
    assert_int_equal(stat_of("fail_open"), before + 1);
    assert_int_equal(cuStreamSynchronize(NULL), 0);
    assert_int_equal(command(OP_PROMOTE, 0), SEGMENTS * SEGMENT);
}

/* The GPU goes in the middle of an eviction: the program is not held for what will never come home. The last of all. */
static void test_gone(void **state)
{
    char path[] = "/tmp/muster-gone-XXXXXX";
    int fd = mkstemp(path);
    uint64_t seq;

    (void)state;
    assert_true(fd >= 0 && unlink(path) == 0 && setenv("FAKE_CUDA_GONE", path, 1) == 0);
    (void)close(fd);
    fake_stall("cuEventSynchronize");
    seq = command_post(OP_EVICT_ALL, 0);
    for (int i = 0; i < 5000 && !fake_stalled(); i++)
        (void)usleep(1000);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    fake_stall("");
    assert_int_equal(reply_wait(seq), -ENODEV);
    assert_true(stat_of("flags") & HEALTH_LOST);
    assert_non_null(strstr(page->health.error, "was lost (driver error 46)"));
    assert_int_equal(page->health.state, STATE_RUNNING);
    assert_int_equal(launch(nothing), 46);
    (void)close(fd);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel_waits), cmocka_unit_test(test_driver_waits), cmocka_unit_test(test_pause),
        cmocka_unit_test(test_copy_stalls),  cmocka_unit_test(test_brief),        cmocka_unit_test(test_gone),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
