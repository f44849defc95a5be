/* SPDX-License-Identifier: Apache-2.0 */
/* Launches at the gate, and how long each wait lasts at most. The test is the node side, on a socket of its own, and
 * the guaranteed job as far as its arena shows it: alive, hung, or gone. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "calls.h"
#include "unit/shim_node.h"

#define SEC 1000000000ULL
#define MSEC 1000000ULL
#define MIB (1ull << 20)
#define THREADS 4
#define EACH 50
#define SEGMENT (4 * MIB)

void muster_step(void) __attribute__((weak));

static CUfunction nothing;

static void kernel(const uint64_t *args)
{
    (void)args;
}

static int setup(void **state)
{
    CUcontext ctx;

    (void)state;
    if (node_start() || cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) || play_begin())
        return 1;
    nothing = fake_kernel_register("nothing", kernel, 0, 0);
    return node_wait();
}

/* ---- launches */

static void gate_set(enum page_gate gate, uint64_t lease_ns)
{
    __atomic_store_n(&page->control.lease_until_ns, lease_ns, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->control.gate, gate, __ATOMIC_SEQ_CST);
}

static void guaranteed(pid_t pid, bool lives, uint64_t since_ns, uint64_t beat_ns)
{
    node_beats = lives;
    (void)usleep(50000); /* a beat that is under way */
    arena->rg_pid = (uint32_t)pid;
    arena->rg_since_ns = since_ns;
    arena->rg_beat_ns = beat_ns;
    __atomic_store_n(&arena->rg_state, RG_ACTIVE, __ATOMIC_SEQ_CST);
}

/* How long one takes. */
static uint64_t launch(void)
{
    uint64_t start = now_ns();

    assert_int_equal(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 0);
    return now_ns() - start;
}

static _Atomic uint32_t through;

static void *launch_once(void *arg)
{
    (void)arg;
    (void)cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    through++;
    return NULL;
}

/* Another thread's launch stands for as long as the gate is as it is, and goes on when it opens. */
static void stands_until_open(void)
{
    uint32_t before = through;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, launch_once, NULL), 0);
    (void)usleep(300000);
    assert_int_equal(through, before);
    gate_set(GATE_OPEN, now_ns() + 60 * SEC);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(through, before + 1);
}

/* Beside a guaranteed job that never leaves a gap a launch waits two seconds, and no longer. */
static void test_patience(void **state)
{
    uint64_t before = stat_of("fail_open");

    (void)state;
    guaranteed(getpid(), true, now_ns(), now_ns());
    gate_set(GATE_HARVEST, now_ns() + 60 * SEC);
    assert_in_range(launch(), 19 * SEC / 10, 10 * SEC);
    assert_int_equal(stat_of("fail_open"), before + 1);
    gate_set(GATE_OPEN, now_ns() + 60 * SEC);
}

static _Atomic uint32_t submitted, ahead;

static void long_one(const uint64_t *args)
{
    (void)args;
    (void)usleep(300000);
    ahead = submitted;
}

/* Kernels so short that they cost nothing: ten thousand of them do not queue up behind one that is not over. */
static void test_flood(void **state)
{
    CUfunction slow = fake_kernel_register("long", long_one, 0, 0);

    (void)state;
    guaranteed(getpid(), true, now_ns(), now_ns());
    arena->gap_pred_us = 0;
    __atomic_store_n(&arena->rg_state, RG_IDLE, __ATOMIC_SEQ_CST);
    page->control.share = 500;
    gate_set(GATE_HARVEST, now_ns() + 60 * SEC);
    fake_elapsed(300);
    for (int i = 0; i < 300; i++) /* until that is known */
        (void)launch();
    assert_int_equal(cuCtxSynchronize(), 0);
    (void)launch();
    assert_int_equal(cuLaunchKernel(slow, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 0);
    for (submitted = 0; submitted < 10000; submitted++)
        (void)launch();
    assert_int_equal(cuCtxSynchronize(), 0);
    assert_in_range(ahead, 100, 1000);
    fake_elapsed(-1);
    gate_set(GATE_OPEN, now_ns() + 60 * SEC);
}

/* A closed gate, and a lease that ends in centuries: held for as long as a node side may give, and no longer. */
static void test_years(void **state)
{
    (void)state;
    gate_set(GATE_CLOSED, 0xdeadbeefdeadbeefULL);
    assert_in_range(launch(), 14 * SEC, 40 * SEC);
    gate_set(GATE_OPEN, now_ns() + 60 * SEC);
}

/* One that has been at the same burst for two seconds without a sign of life counts as idle. */
static void test_hung(void **state)
{
    uint64_t before = stat_of("fail_open");

    (void)state;
    guaranteed(getpid(), false, now_ns() - 3 * SEC, now_ns() - 3 * SEC);
    gate_set(GATE_HARVEST, now_ns() + 60 * SEC);
    assert_in_range(launch(), 0, 15 * SEC / 10);
    assert_int_equal(stat_of("fail_open"), before);
    gate_set(GATE_OPEN, now_ns() + 60 * SEC);
}

/* When the node side has gone nobody tells of a guaranteed job that ended: 200 ms after its last sign it is looked for.
 */
static void test_gone(void **state)
{
    uint64_t start;
    pid_t pid = fork();

    (void)state;
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    start = now_ns();
    guaranteed(pid, false, start, start);
    gate_set(GATE_HARVEST, start - 1);
    assert_in_range(launch(), 0, 15 * SEC / 10); /* before it would count as hung */
    assert_in_range(now_ns() - start, 200 * MSEC, 19 * SEC / 10);
    start = now_ns();
    guaranteed(getpid(), false, start, start); /* one that is there keeps its burst */
    assert_in_range(launch(), SEC, 10 * SEC);
    gate_set(GATE_OPEN, now_ns() + 60 * SEC);
}

/* A gate that closes after a step: when the step is over, or when its time is, whichever comes first. */
static void test_closing(void **state)
{
    struct page_control *control = &page->control;

    (void)state;
    control->close_from = GATE_OPEN;
    control->close_step = page->step.seq + 1;
    control->close_by_ns = now_ns() + 60 * SEC;
    gate_set(GATE_CLOSING, now_ns() + 60 * SEC);
    assert_in_range(launch(), 0, 5 * SEC);
    muster_step();
    stands_until_open();
    control->close_step = page->step.seq + 1000; /* no boundary comes */
    control->close_by_ns = now_ns() + 200 * MSEC;
    gate_set(GATE_CLOSING, now_ns() + 60 * SEC);
    (void)usleep(250000);
    stands_until_open();
}

static void *launch_many(void *arg)
{
    uint64_t before = fake_launches_mine();

    for (int i = 0; i < EACH; i++)
        (void)cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    *(uint64_t *)arg = fake_launches_mine() - before;
    return NULL;
}

/* Whatever held them up, it is the caller's own thread that brings each launch to the driver. */
static void test_own_thread(void **state)
{
    uint64_t mine[THREADS] = { 0 };
    pthread_t thread[THREADS];

    (void)state;
    gate_set(GATE_CLOSED, now_ns() + 60 * SEC);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, launch_many, &mine[i]), 0);
    (void)usleep(200000);
    gate_set(GATE_OPEN, now_ns() + 60 * SEC);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_int_equal(mine[i], EACH);
    }
}

/* The helper does not come back from a call of the driver's: gates work, limits hold, orders are not answered. */
static void test_helper_dead(void **state)
{
    CUdeviceptr kept, more;
    uint64_t seq, beat;

    (void)state;
    gate_set(GATE_OPEN, now_ns() + 60 * SEC);
    assert_int_equal(cuMemAlloc_v2(&kept, SEGMENT), 0);
    fake_stall("cuMemCreate");
    assert_int_equal(command(OP_PREPARE, SEGMENT), 0);
    for (int i = 0; i < 10000 && !fake_stalled(); i++)
        (void)usleep(1000);
    assert_true(fake_stalled());
    beat = page->health.beat_ns;
    seq = command_post(OP_PING, 0);
    assert_in_range(launch(), 0, 5 * SEC);
    gate_set(GATE_CLOSED, now_ns() + 60 * SEC);
    stands_until_open();
    gate_set(GATE_CLOSED, now_ns() + 300 * MSEC); /* nor does the end of a lease need it */
    assert_in_range(launch(), 200 * MSEC, 10 * SEC);
    gate_set(GATE_OPEN, now_ns() + 60 * SEC);
    page->limit[0].cap_bytes = SEGMENT;
    assert_int_equal(cuMemAlloc_v2(&more, MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemAlloc_v2(&more, MIB), CUDA_ERROR_OUT_OF_MEMORY);
    page->limit[0].cap_bytes = 0;
    assert_int_not_equal(page->reply[seq % PAGE_RING].seq, seq);
    assert_int_equal(page->health.beat_ns, beat); /* by which the node side knows */
    fake_stall("");
    for (int i = 0; i < 10000 && __atomic_load_n(&page->reply[seq % PAGE_RING].seq, __ATOMIC_ACQUIRE) != seq; i++)
        (void)usleep(1000);
    assert_int_equal(page->reply[seq % PAGE_RING].seq, seq);
    assert_int_equal(cuMemFree_v2(kept), 0);
}

/* ---- locks */

static CUdeviceptr kept;

static void segment_cycle(void)
{
    CUdeviceptr p;

    if (cuMemAlloc_v2(&p, SEGMENT) == 0)
        (void)cuMemFree_v2(p);
}

static void native_cycle(void)
{
    CUdeviceptr p;

    if (cuMemAlloc_v2(&p, 4096) == 0)
        (void)cuMemFree_v2(p);
}

static void launch_cycle(void)
{
    (void)cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    (void)cuStreamSynchronize(NULL);
}

/* Answered by the library, under its lock; the end of a step takes others. */
static void questions(void)
{
    CUdeviceptr base;
    size_t size, more;

    (void)cuMemGetAddressRange_v2(&base, &size, kept + MIB);
    (void)cuMemGetInfo_v2(&size, &more);
    muster_step();
}

typedef void (*calls_fn)(void);

static void *calls_run(void *arg)
{
    CUcontext ctx;

    if (cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0)
        for (const calls_fn *fn = arg; *fn; fn++)
            (*fn)();
    through++;
    return NULL;
}

static bool through_soon(uint32_t count)
{
    for (int i = 0; i < 10000 && through < count; i++)
        (void)usleep(1000);
    return through >= count;
}

/* While one thread is inside a call of the driver's that does not return, the others' calls do. */
static void test_no_lock(void **state)
{
    static calls_fn segments[] = { segment_cycle, NULL }, natives[] = { native_cycle, NULL };
    static calls_fn launches[] = { launch_cycle, NULL };
    static calls_fn but_segments[] = { native_cycle, questions, launch_cycle, NULL };
    static calls_fn but_natives[] = { questions, launch_cycle, NULL };
    static calls_fn but_launches[] = { segment_cycle, native_cycle, questions, NULL };
    static const struct {
        const char *name;
        calls_fn *stands, *goes_on;
    } rows[] = {
        { "cuMemAddressReserve", segments, but_segments },
        { "cuMemCreate", segments, but_segments },
        { "cuMemMap", segments, but_segments },
        { "cuMemSetAccess", segments, but_segments },
        { "cuMemUnmap", segments, but_segments },
        { "cuMemRelease", segments, but_segments },
        { "cuMemAddressFree", segments, but_segments },
        { "cuMemAlloc_v2", natives, but_natives },
        { "cuMemFree_v2", natives, but_natives },
        { "cuLaunchKernel", launches, but_launches },
        { "cuStreamSynchronize", launches, but_launches },
    };

    (void)state;
    gate_set(GATE_OPEN, now_ns() + 60 * SEC);
    assert_int_equal(cuMemAlloc_v2(&kept, SEGMENT), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t before = through;
        bool stood, went;
        pthread_t one, other;

        fake_stall(rows[i].name);
        assert_int_equal(pthread_create(&one, NULL, calls_run, rows[i].stands), 0);
        for (int k = 0; k < 10000 && !fake_stalled(); k++)
            (void)usleep(1000);
        stood = fake_stalled() && through == before;
        assert_int_equal(pthread_create(&other, NULL, calls_run, rows[i].goes_on), 0);
        went = through_soon(before + 1);
        stood = stood && fake_stalled();
        fake_stall("");
        assert_int_equal(pthread_join(one, NULL), 0);
        assert_int_equal(pthread_join(other, NULL), 0);
        if (!stood || !went)
            fail_msg("%s: %s", rows[i].name, stood ? "others wait for it" : "was not called");
    }
    assert_int_equal(cuMemFree_v2(kept), 0);
}

/* ---- what is not a launch of one kernel, and writes memory all the same */

static void call_several(void)
{
    (void)cuLaunchCooperativeKernelMultiDevice(NULL, 0, 0);
}

#define VALUE(what, bits, suffix)                                                                                      \
    static void call_##what##bits##suffix(void)                                                                        \
    {                                                                                                                  \
        (void)cuStream##what##Value##bits##suffix(NULL, kept, 1, 0);                                                   \
    }
#define VALUES(what, bits)                                                                                             \
    VALUE(what, bits, )                                                                                                \
    VALUE(what, bits, _ptsz)                                                                                           \
    VALUE(what, bits, _v2)                                                                                             \
    VALUE(what, bits, _v2_ptsz)
VALUES(Write, 32)
VALUES(Write, 64)
VALUES(Wait, 32)
VALUES(Wait, 64)
#define BATCH(suffix)                                                                                                  \
    static void call_batch##suffix(void)                                                                               \
    {                                                                                                                  \
        (void)cuStreamBatchMemOp##suffix(NULL, 0, NULL, 0);                                                            \
    }
BATCH()
BATCH(_ptsz)
BATCH(_v2)
BATCH(_v2_ptsz)

#define VALUE_ROWS(what, bits)                                                                                         \
    { "cuStream" #what "Value" #bits, call_##what##bits },                                                             \
        { "cuStream" #what "Value" #bits "_ptsz", call_##what##bits##_ptsz },                                          \
        { "cuStream" #what "Value" #bits "_v2", call_##what##bits##_v2 },                                              \
    {                                                                                                                  \
        "cuStream" #what "Value" #bits "_v2_ptsz", call_##what##bits##_v2_ptsz                                         \
    }
static const struct held_row {
    const char *name;
    calls_fn call;
} held_rows[] = {
    { "cuLaunchCooperativeKernelMultiDevice", call_several },
    VALUE_ROWS(Write, 32),
    VALUE_ROWS(Write, 64),
    VALUE_ROWS(Wait, 32),
    VALUE_ROWS(Wait, 64),
    { "cuStreamBatchMemOp", call_batch },
    { "cuStreamBatchMemOp_ptsz", call_batch_ptsz },
    { "cuStreamBatchMemOp_v2", call_batch_v2 },
    { "cuStreamBatchMemOp_v2_ptsz", call_batch_v2_ptsz },
};
#define HELD_ROWS (sizeof(held_rows) / sizeof(held_rows[0]))

/* All of them at once, each in a thread of its own. Which are in the driver after a while, and whether all are in the
 * end, when whatever holds them was let go of. */
static void held_run(const char *what, void (*let_go)(void))
{
    calls_fn calls[HELD_ROWS][2] = { 0 };
    uint64_t before[HELD_ROWS];
    pthread_t thread[HELD_ROWS];
    uint32_t start = through;
    const char *passed = NULL;

    for (size_t i = 0; i < HELD_ROWS; i++) {
        calls[i][0] = held_rows[i].call;
        before[i] = fake_calls(held_rows[i].name);
        assert_int_equal(pthread_create(&thread[i], NULL, calls_run, calls[i]), 0);
    }
    (void)usleep(let_go ? 300000 : 0);
    for (size_t i = 0; i < HELD_ROWS && let_go; i++)
        if (fake_calls(held_rows[i].name) != before[i])
            passed = held_rows[i].name;
    if (let_go)
        let_go();
    if (!through_soon(start + HELD_ROWS))
        fail_msg("%s: some never came through", what);
    for (size_t i = 0; i < HELD_ROWS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_int_equal(fake_calls(held_rows[i].name), before[i] + 1);
    }
    if (passed)
        fail_msg("%s: %s was not held", what, passed);
}

static void gate_open(void)
{
    gate_set(GATE_OPEN, now_ns() + 60 * SEC);
}

static void move_on(void)
{
    fake_stall("");
}

static void test_held(void **state)
{
    uint64_t seq;

    (void)state;
    gate_open();
    assert_int_equal(cuMemAlloc_v2(&kept, SEGMENT), 0);
    gate_set(GATE_CLOSED, now_ns() + 60 * SEC);
    held_run("paused", gate_open);
    guaranteed(getpid(), true, now_ns(), now_ns()); /* busy, and alive */
    gate_set(GATE_HARVEST, now_ns() + 60 * SEC);
    held_run("beside a busy guaranteed job", NULL);
    node_beats = 0;
    __atomic_store_n(&arena->rg_state, RG_ABSENT, __ATOMIC_SEQ_CST);
    gate_open();
    fake_stall("cuEventSynchronize"); /* in the middle of a move */
    seq = command_post(OP_SPILL_TO, 1);
    for (int i = 0; i < 5000 && !fake_stalled(); i++)
        (void)usleep(1000);
    assert_true(fake_stalled());
    held_run("while memory moves", move_on);
    for (int i = 0; i < 5000 && page->reply[seq % PAGE_RING].seq != seq; i++)
        (void)usleep(1000);
    assert_int_equal(page->reply[seq % PAGE_RING].bytes, SEGMENT);
    assert_int_equal(cuMemFree_v2(kept), 0);
}

static void *capture_end(void *arg)
{
    CUgraph graph;

    return cuStreamEndCapture(arg, &graph) == 0 ? NULL : arg;
}

/* A capture may end on another thread than it began on. Whoever began it then runs what it launches: counted, and held
 * as everybody's. */
static void test_capture_moves(void **state)
{
    CUstream stream = NULL;
    pthread_t other;
    void *bad;
    uint64_t before, took;

    (void)state;
    gate_set(GATE_OPEN, now_ns() + 60 * SEC);
    assert_int_equal(cuStreamCreate(&stream, 1), 0);
    assert_int_equal(cuStreamBeginCapture_v2(stream, 2), 0); /* in the mode that allows it */
    before = stat_of("launches");
    assert_int_equal(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL), 0);
    assert_int_equal(stat_of("launches"), before); /* recorded */
    assert_int_equal(pthread_create(&other, NULL, capture_end, stream), 0);
    assert_int_equal(pthread_join(other, &bad), 0);
    assert_null(bad);
    gate_set(GATE_CLOSED, now_ns() + 300 * MSEC);
    took = launch();
    assert_true(took > 200 * MSEC);
    assert_int_equal(stat_of("launches"), before + 1);
    gate_set(GATE_OPEN, now_ns() + 60 * SEC);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patience),      cmocka_unit_test(test_flood),       cmocka_unit_test(test_years),
        cmocka_unit_test(test_hung),          cmocka_unit_test(test_gone),        cmocka_unit_test(test_closing),
        cmocka_unit_test(test_own_thread),    cmocka_unit_test(test_helper_dead), cmocka_unit_test(test_no_lock),
        cmocka_unit_test(test_capture_moves), cmocka_unit_test(test_held),
    };

    return cmocka_run_group_tests(tests, setup, node_end);
}
