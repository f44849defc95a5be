/* SPDX-License-Identifier: Apache-2.0 */
/* Captures, in both roles. A graph holds what the program submits and nothing else, whichever thread submits it and
 * whatever the gate says; nothing of the library's makes a capture invalid; and a capture is over when the driver says
 * so, or when its stream, context or thread has gone. The fake driver has the driver's rules: fake_capture.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "calls.h"
#include "unit/shim_node.h"

#define MIB (1ull << 20)
#define SECOND 1000000000ULL
#define LAUNCHES 20

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);

static CUcontext ctx;
static CUfunction nothing, slow;
static CUstream into, beside;
static CUdeviceptr memory;
static bool guaranteed;

static void kernel(const uint64_t *args)
{
    (void)args;
}

static int setup(void **state)
{
    (void)state;
    guaranteed = getenv("MUSTER_GPU_ROLE") && strcmp(getenv("MUSTER_GPU_ROLE"), "guaranteed") == 0;
    if (node_start() || cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) || play_begin() ||
        node_wait() || cuStreamCreate(&into, CU_STREAM_NON_BLOCKING) || cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING))
        return 1;
    nothing = fake_kernel_register("nothing", kernel, 0, 0);
    slow = fake_kernel_register("slow", kernel, 0, 300000);
    page->control.lease_until_ns = now_ns() + 3600 * SECOND;
    node_beats = 1;
    return cuMemAlloc_v2(&memory, 64 * MIB);
}

static void gate_set(uint32_t gate)
{
    __atomic_store_n(&page->control.gate, gate, __ATOMIC_SEQ_CST);
}

/* A neighbour's launch would wait: the guaranteed job's gap is too short for any. */
static void harvest_set(void)
{
    arena->rg_pid = (uint32_t)getpid();
    arena->gap_pred_us = 1;
    arena->rg_since_ns = now_ns();
    arena->rg_state = RG_ACTIVE;
    page->control.share = 500;
    gate_set(GATE_HARVEST);
}

static void duty_set(void)
{
    page->control.duty = 1;
    gate_set(GATE_DUTY);
}

static void closed_set(void)
{
    gate_set(GATE_CLOSED);
}

static void open_set(void)
{
    gate_set(GATE_OPEN);
}

static void settle(void)
{
    open_set();
    arena->rg_state = RG_IDLE;
    page->control.share = page->control.duty = 1000;
    assert_int_equal(cuCtxSynchronize(), 0);
}

static int launch(CUstream stream)
{
    return cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

/* As PyTorch's backward pass: another thread, the same stream. */
static void *backward(void *stream)
{
    int bad = cuCtxSetCurrent(ctx);

    for (int i = 0; i < LAUNCHES; i++)
        bad |= launch(stream);
    bad |= cuMemcpyDtoDAsync_v2(memory, memory + 4096, 4096, stream);
    return bad ? stream : NULL;
}

static void in_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    void *bad = NULL;

    assert_int_equal(pthread_create(&thread, NULL, fn, arg), 0);
    assert_int_equal(pthread_join(thread, &bad), 0);
    assert_null(bad);
}

static int nodes(CUgraph graph, bool events)
{
    int n = 0;

    for (struct fake_work *w = ((struct fake_graph *)(void *)graph)->first; w; w = w->next)
        n += !events || (!w->fn && w->args[0]);
    return n;
}

/* What was captured since is the program's alone, and nobody waited. */
static void capture_check(uint64_t start, uint64_t forbidden, int expected)
{
    CUgraph graph = NULL;

    assert_int_equal(fake_forbidden(), forbidden);
    assert_in_range(now_ns() - start, 0, SECOND);
    assert_int_equal(cuStreamEndCapture(into, &graph), 0);
    assert_int_equal(nodes(graph, true), 0);
    assert_int_equal(nodes(graph, false), expected);
    assert_int_equal(stat_of("captures"), 0);
}

static void capture_round(void (*gate)(void))
{
    uint64_t forbidden = fake_forbidden(), launches = stat_of("launches"), copies = stat_of("copies"), start;

    assert_int_equal(cuStreamBeginCapture_v2(into, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    gate();
    start = now_ns();
    assert_null(backward(into));
    in_thread(backward, into);
    assert_int_equal(stat_of("launches"), launches);
    assert_int_equal(stat_of("copies"), copies);
    capture_check(start, forbidden, 2 * LAUNCHES + 2);
    settle();
}

static void test_any_gate(void **state)
{
    (void)state;
    capture_round(open_set);
    capture_round(harvest_set);
    capture_round(duty_set);
    capture_round(closed_set);
}

static void test_host_memory(void **state)
{
    (void)state;
    if (stat_of("movable") == 0)
        return; /* of a guaranteed job nothing moves */
    assert_true(command(OP_SPILL_TO, 1) > 0);
    assert_true(stat_of("host_backed") > 0);
    capture_round(open_set);
    capture_round(harvest_set);
    capture_round(duty_set);
    assert_true(command(OP_PROMOTE, UINT64_MAX) > 0);
}

/* Another stream's launches run, gated as always: what is asked of the driver for that spoils nothing. */
static void test_beside_a_capture(void **state)
{
    uint64_t forbidden = fake_forbidden(), launches = stat_of("launches"), polls;

    (void)state;
    if (stat_of("movable"))
        assert_true(command(OP_SPILL_TO, 1) > 0);
    assert_int_equal(cuStreamBeginCapture_v2(into, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    page->control.duty = 500;
    gate_set(GATE_DUTY);
    polls = fake_calls("cuEventQuery") + fake_calls("cuEventSynchronize");
    for (int i = 0; i < 5; i++)
        in_thread(backward, beside);
    assert_int_equal(launch(into), 0);
    assert_int_equal(stat_of("launches"), launches + 5 * LAUNCHES);
    if (!guaranteed)
        assert_true(fake_calls("cuEventQuery") + fake_calls("cuEventSynchronize") > polls);
    capture_check(now_ns(), forbidden, 1);
    settle();
    if (stat_of("movable"))
        assert_true(command(OP_PROMOTE, UINT64_MAX) > 0);
}

/* The helper asks whether work is complete, and fills the stock, in the middle of a capture. */
static void test_helper(void **state)
{
    uint64_t forbidden = fake_forbidden(), start, made = fake_calls("cuMemCreate");

    (void)state;
    arena->ot_count = 1;
    if (guaranteed)
        assert_int_equal(cuLaunchKernel(slow, 1, 1, 1, 1, 1, 1, 0, beside, NULL, NULL), 0);
    (void)usleep(50000); /* until it has its event */
    assert_int_equal(cuStreamBeginCapture_v2(into, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    page->limit[0].host_pool_bytes = 64 * MIB;
    (void)usleep(500000);
    start = now_ns();
    in_thread(backward, into);
    if (guaranteed)
        assert_int_equal(__atomic_load_n(&arena->rg_state, __ATOMIC_SEQ_CST), RG_IDLE);
    else
        assert_true(fake_calls("cuMemCreate") > made);
    capture_check(start, forbidden, LAUNCHES + 1);
    arena->ot_count = 0;
    page->limit[0].host_pool_bytes = 0;
    settle();
}

/* A driver that has no relaxed mode is asked nothing while a capture is under way. */
static void test_not_relaxed(void **state)
{
    uint64_t forbidden = fake_forbidden(), polls;

    (void)state;
    assert_int_equal(cuStreamBeginCapture_v2(into, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    page->control.duty = 500;
    gate_set(GATE_DUTY);
    fake_fail("cuThreadExchangeStreamCaptureMode", 0, CUDA_ERROR_NOT_SUPPORTED);
    polls = fake_calls("cuEventQuery") + fake_calls("cuEventSynchronize");
    for (int i = 0; i < 5; i++)
        in_thread(backward, beside);
    assert_int_equal(fake_calls("cuEventQuery") + fake_calls("cuEventSynchronize"), polls);
    fake_fail("", 0, 0);
    capture_check(now_ns(), forbidden, 0);
    settle();
}

/* A stream that waits for an event of the capture is part of it. */
static void test_forked_stream(void **state)
{
    uint64_t forbidden = fake_forbidden();
    CUgraph graph = NULL;
    CUevent event;

    (void)state;
    assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), 0);
    assert_int_equal(cuStreamBeginCapture_v2(into, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    duty_set();
    assert_int_equal(cuEventRecord(event, into), 0);
    assert_int_equal(cuStreamWaitEvent(beside, event, 0), 0);
    in_thread(backward, beside);
    assert_int_equal(fake_forbidden(), forbidden);
    assert_int_equal(cuStreamEndCapture(into, &graph), 0);
    assert_int_equal(nodes(graph, false), LAUNCHES + 2);
    assert_int_equal(nodes(graph, true), 1);
    settle();
}

/* The null stream in the per-thread form is the thread's own, which captures; the legacy one cannot be used meanwhile,
 * and only the program is told so. */
static void test_default_streams(void **state)
{
    uint64_t events = fake_calls("cuEventRecord");
    CUgraph graph = NULL;

    (void)state;
    assert_int_equal(cuStreamBeginCapture_v2_ptsz(NULL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), 0);
    duty_set();
    for (int i = 0; i < LAUNCHES; i++)
        assert_int_equal(cuLaunchKernel_ptsz(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 0);
    assert_int_equal(stat_of("captures"), 1);
    assert_int_equal(cuStreamEndCapture_ptsz(NULL, &graph), 0);
    assert_int_equal(stat_of("captures"), 0);
    assert_int_equal(nodes(graph, false), LAUNCHES);
    assert_int_equal(cuStreamBeginCapture_v2_ptsz(NULL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), 0);
    assert_int_equal(launch(NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_int_equal(cuStreamEndCapture_ptsz(NULL, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(stat_of("captures"), 0);
    assert_int_equal(fake_calls("cuEventRecord"), events);
    settle();
}

static void *end_elsewhere(void *stream)
{
    CUgraph graph;

    return cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD ? NULL : stream;
}

static void *allocate(void *expected)
{
    CUdeviceptr p = 0;
    int r;

    (void)cuCtxSetCurrent(ctx);
    r = cuMemAlloc_v2(&p, 1 * MIB);
    if (r == 0)
        (void)cuMemFree_v2(p);
    return r == (int)(intptr_t)expected ? NULL : &guaranteed;
}

/* An end that ends nothing. Then one of a capture that the program itself has made invalid. */
static void test_end(void **state)
{
    CUgraph graph = NULL;

    (void)state;
    assert_int_equal(cuStreamBeginCapture_v2(into, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    assert_int_equal(cuStreamEndCapture(beside, &graph), 401);
    in_thread(end_elsewhere, into);
    assert_int_equal(stat_of("captures"), 1);
    closed_set();
    assert_int_equal(launch(into), 0);
    open_set();
    in_thread(allocate, (void *)(intptr_t)CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(stat_of("captures"), 1);
    closed_set();
    assert_int_equal(launch(into), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(cuStreamEndCapture(into, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(stat_of("captures"), 0);
    settle();
}

static void *begin(void *stream)
{
    bool bad = cuCtxSetCurrent(ctx) || cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);

    return bad ? stream : NULL;
}

static bool captures_turn(uint64_t n)
{
    for (int i = 0; i < 5000 && stat_of("captures") != n; i++)
        (void)usleep(1000);
    return stat_of("captures") == n;
}

/* Nobody ends it: its stream goes, its thread, its context. */
static void test_abandoned(void **state)
{
    CUstream stream;

    (void)state;
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(stat_of("captures"), 0);
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
    in_thread(begin, stream);
    assert_true(captures_turn(0));
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    if (stat_of("movable")) {
        assert_true(command(OP_SPILL_TO, 1) > 0); /* what lies there can be moved again */
        assert_true(command(OP_PROMOTE, UINT64_MAX) > 0);
    }
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    assert_int_equal(cuDevicePrimaryCtxReset_v2(0), 0);
    assert_int_equal(stat_of("captures"), 0);
}

static bool replied(uint64_t seq)
{
    for (int i = 0; i < 5000 && __atomic_load_n(&page->reply[seq % PAGE_RING].seq, __ATOMIC_ACQUIRE) != seq; i++)
        (void)usleep(1000);
    return __atomic_load_n(&page->reply[seq % PAGE_RING].seq, __ATOMIC_ACQUIRE) == seq;
}

static void *begin_and_end(void *done)
{
    CUgraph graph;

    (void)cuCtxSetCurrent(ctx);
    if (cuStreamBeginCapture_v2(into, CU_STREAM_CAPTURE_MODE_GLOBAL) == 0)
        *(_Atomic int *)done = 1;
    (void)cuStreamEndCapture(into, &graph);
    return NULL;
}

static void waits_for(void (*go)(void))
{
    static _Atomic int done;
    pthread_t thread;

    done = 0;
    assert_int_equal(pthread_create(&thread, NULL, begin_and_end, (void *)(uintptr_t)&done), 0);
    (void)usleep(300000);
    assert_int_equal(done, 0);
    go();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(done, 1);
    assert_int_equal(stat_of("captures"), 0);
}

static void driver_goes_on(void)
{
    fake_stall("");
}

/* One does not begin while the job is paused or its memory moves. */
static void test_begin_waits(void **state)
{
    uint64_t seq;

    (void)state;
    closed_set();
    waits_for(open_set);
    if (stat_of("movable") == 0)
        return;
    fake_stall("cuMemUnmap");
    seq = command_post(OP_SPILL_TO, 1);
    for (int i = 0; i < 5000 && !fake_stalled(); i++)
        (void)usleep(1000);
    assert_true(fake_stalled());
    waits_for(driver_goes_on);
    assert_true(replied(seq));
    assert_true(command(OP_PROMOTE, UINT64_MAX) > 0);
}

/* No memory moves under a capture, and an allocation of another thread's is not refused to have PyTorch give memory
 * back, which it cannot do then. */
static void *allocate_much(void *arg)
{
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr p = 0;
    CUresult r;

    (void)arg;
    (void)cuCtxSetCurrent(ctx);
    (void)cuThreadExchangeStreamCaptureMode(&mode); /* as PyTorch does around its allocations */
    r = cuMemAlloc_v2(&p, 32 * MIB);
    return r || cuMemFree_v2(p) ? &guaranteed : NULL;
}

static void test_memory(void **state)
{
    uint64_t forbidden = fake_forbidden(), refusals = stat_of("soft_refusals"), seq;

    (void)state;
    if (stat_of("movable") == 0)
        return;
    assert_int_equal(cuStreamBeginCapture_v2(into, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    page->limit[0].cap_bytes = 70 * MIB;
    in_thread(allocate_much, NULL);
    page->limit[0].cap_bytes = 0;
    assert_int_equal(stat_of("soft_refusals"), refusals);
    seq = command_post(OP_SPILL_TO, 1);
    (void)usleep(300000);
    assert_int_equal(stat_of("host_backed"), 0);
    in_thread(backward, into); /* though the helper holds submissions already */
    capture_check(now_ns(), forbidden, LAUNCHES + 1);
    assert_true(replied(seq));
    assert_true(stat_of("host_backed") > 0);
    assert_true(command(OP_PROMOTE, UINT64_MAX) > 0);
}

/* A case that failed leaves nothing to the next. */
static int teardown(void **state)
{
    CUgraph graph;

    (void)state;
    fake_stall("");
    fake_fail("", 0, 0);
    open_set();
    (void)cuStreamEndCapture(into, &graph);
    (void)cuStreamEndCapture_ptsz(NULL, &graph);
    return 0;
}

#define CASE(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_any_gate),    CASE(test_helper),        CASE(test_host_memory),     CASE(test_beside_a_capture),
        CASE(test_not_relaxed), CASE(test_forked_stream), CASE(test_default_streams), CASE(test_end),
        CASE(test_begin_waits), CASE(test_memory),        CASE(test_abandoned),
    };

    return cmocka_run_group_tests(tests, setup, node_end);
}
