/* SPDX-License-Identifier: Apache-2.0 */
/* jump.c - a handler of the program's jumps out of a call of the library's, which then never returns.
 *
 * jump held: out of a launch and an allocation that wait until memory has moved. jump fault: out of a launch whose
 * arguments are nowhere, by the handler of the fault; the thread does not call again. jump timers: forty times, behind
 * a gate. jump gone: and ends. jump alloc: out of an allocation. jump wait: out of a wait for the GPU, in a guaranteed
 * job. jump stacks: which frames have gone. jump storm SECONDS: out of anything, again and again, while another thread
 * launches by a share and memory moves. Afterwards nothing counts as inside, orders are carried out, and what is
 * counted is what the driver has given. Exits 0 when all was so.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

#define PLAY_FAIL(...) abort()
#include "calls.h"
#include "shim/inside.h"
#include "unit/shim_play.h"

#define MIB (1ull << 20)
#define SEC 1000000000ULL

void muster_step(void) __attribute__((weak));

static CUcontext ctx;
static CUfunction small, large, counting;
static CUdeviceptr kept;
static sigjmp_buf out;
static pthread_t first;
static _Atomic int stop, armed, wrong;
static _Atomic uint64_t jumps, others, slowest;

static void jump(int number)
{
    (void)number;
    siglongjmp(out, 1);
}

static void handler_set(int number, void (*fn)(int))
{
    struct sigaction action = { .sa_handler = fn };

    (void)sigaction(number, &action, NULL);
}

static void gate_set(uint32_t gate)
{
    __atomic_store_n(&page->control.lease_until_ns, now_ns() + 60 * SEC, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->control.gate, gate, __ATOMIC_SEQ_CST);
}

static void expect(bool good, const char *what)
{
    if (good)
        return;
    (void)printf("wrong: %s\n", what);
    wrong = 1;
}

static void launch(CUfunction f, void **params)
{
    if (cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) != 0)
        wrong = 1;
}

static void alarm_in(useconds_t us)
{
    struct itimerval timer = { .it_value = { 0, (suseconds_t)us } };

    (void)setitimer(ITIMER_REAL, &timer, NULL);
}

/* Memory moves and comes back: nobody counts as inside for good. */
static void orders_work(void)
{
    expect(command(OP_SPILL_TO, 2 * MIB) > 0, "memory is spilled");
    expect(command(OP_PROMOTE, 0) > 0, "and comes home");
    expect(stat_of("inside") == 0, "nobody is inside");
}

static void allocations_count(void)
{
    uint64_t used = stat_of("used");
    CUdeviceptr p = 0, native = 0;

    expect(cuMemAlloc_v2(&p, 2 * MIB) == 0 && stat_of("used") == used + 2 * MIB, "an allocation counts");
    expect(cuMemAlloc_v2(&native, 4096) == 0 && stat_of("used") == used + 2 * MIB + 4096, "a small one too");
    expect(cuMemFree_v2(p) == 0 && cuMemFree_v2(native) == 0 && stat_of("used") == used,
           "and no more when it is freed");
}

/* The helper holds everything until the long kernel is over; what comes meanwhile waits. */
static void held(void)
{
    uint64_t used = stat_of("used"), seq;
    struct page_reply *reply;
    volatile int out_of = 0;
    CUdeviceptr p;

    handler_set(SIGALRM, jump);
    launch(large, NULL);
    seq = command_post(OP_SPILL_TO, 2 * MIB);
    reply = &page->reply[seq % PAGE_RING];
    (void)usleep(100000);
    if (sigsetjmp(out, 1) == 0) {
        alarm_in(50000);
        launch(small, NULL);
        expect(false, "a launch is held");
    }
    out_of++;
    if (out_of == 1 && sigsetjmp(out, 1) == 0) {
        alarm_in(50000);
        (void)cuMemAlloc_v2(&p, 8 * MIB);
        expect(false, "an allocation is held");
    }
    expect(stat_of("inside") == 0 && stat_of("used") == used, "what waits is not inside, and counts nothing");
    while (__atomic_load_n(&reply->seq, __ATOMIC_ACQUIRE) != seq)
        (void)usleep(1000);
    expect(reply->result == 0 && command(OP_PROMOTE, 0) > 0, "the move they waited for");
}

static void fault_once(void)
{
    void *nowhere[1] = { (void *)16 };

    handler_set(SIGSEGV, jump);
    if (sigsetjmp(out, 1) == 0) {
        launch(counting, nowhere);
        expect(false, "a fault");
    }
}

/* Launches behind a gate are timed now and then. What was jumped out of leaves its timer behind, for a second. */
static void timers(void)
{
    uint64_t before, end;

    page->control.duty = 100;
    gate_set(GATE_DUTY);
    for (int i = 0; i < 40; i++)
        fault_once();
    (void)usleep(1200000);
    before = fake_calls("cuEventElapsedTime");
    end = now_ns() + 20 * SEC;
    while (fake_calls("cuEventElapsedTime") == before && now_ns() < end) {
        gate_set(GATE_DUTY);
        launch(small, NULL);
        (void)cuStreamSynchronize(NULL);
    }
    expect(fake_calls("cuEventElapsedTime") > before, "launches are timed again");
    gate_set(GATE_OPEN);
}

/* The address is written to nowhere. The signals that were held back meanwhile are not held for good. */
static void fault_alloc(void)
{
    sigset_t mask;

    handler_set(SIGSEGV, jump);
    for (volatile int i = 0; i < 3; i++)
        if (sigsetjmp(out, 1) == 0) {
            (void)cuMemAlloc_v2((CUdeviceptr *)(uintptr_t)16, 2 * MIB);
            expect(false, "a fault");
        }
    allocations_count();
    expect(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0 && !sigismember(&mask, SIGUSR1), "signals are not blocked");
}

static void *fault_thread(void *arg)
{
    (void)arg;
    if (cuCtxSetCurrent(ctx) != 0)
        wrong = 1;
    fault_once();
    return NULL;
}

static void gone(void)
{
    pthread_t other;

    pthread_create(&other, NULL, fault_thread, NULL);
    pthread_join(other, NULL);
    (void)printf("%llu inside at first\n", (unsigned long long)stat_of("inside")); /* 1, mostly */
}

static void wait_out(void)
{
    handler_set(SIGSEGV, jump);
    if (sigsetjmp(out, 1) == 0) {
        (void)cuStreamSynchronize((CUstream)(uintptr_t)16);
        expect(false, "a fault");
    }
    (void)printf("%llu waiting at first\n", (unsigned long long)stat_of("waiters"));
    for (int i = 0; i < 10000 && stat_of("waiters"); i++)
        (void)usleep(1000);
    expect(stat_of("waiters") == 0, "it waits no more");
}

/* Addresses as they may be: the first thread's data lie below its stack, another's above. */
static void stacks(void)
{
    expect(frame_left(1000, 1000, 100) && frame_left(1000, 1010, 100), "the first thread, as deep or less deep");
    expect(!frame_left(1000, 990, 100), "deeper: a handler");
    expect(frame_left(1000, 1010, 5000) && !frame_left(1000, 990, 5000), "another thread");
    expect(!frame_left(1000, 6000, 5000), "on a stack beyond its data: a handler's own");
    expect(frame_left(500, 1010, 5000), "left from a handler's own stack below");
    expect(!frame_left(UINTPTR_MAX, 1010, 5000), "the helper's never");
}

static void jump_outside(int number)
{
    (void)number;
    if (fake_busy() || !armed) /* out of the driver nobody may jump: its locks are its own matter */
        return;
    jumps++;
    siglongjmp(out, 1);
}

static void *storm_thread(void *arg)
{
    (void)arg;
    while (!stop) {
        (void)usleep(100 + (useconds_t)(now_ns() % 300));
        (void)pthread_kill(first, SIGUSR1);
    }
    return NULL;
}

/* Nobody else is stopped by what was left behind. */
static void *other_thread(void *arg)
{
    (void)arg;
    if (cuCtxSetCurrent(ctx) != 0)
        wrong = 1;
    while (!stop) {
        uint64_t before = now_ns();

        launch(small, NULL);
        others++;
        if (now_ns() - before > slowest)
            slowest = now_ns() - before;
    }
    return NULL;
}

static void *play_thread(void *arg)
{
    (void)arg;
    for (uint32_t i = 0; !stop; i++) {
        page->control.duty = 900;
        gate_set(i % 2 ? GATE_DUTY : GATE_OPEN);
        expect(command(OP_SPILL_TO, 2 * MIB) >= 0 && command(OP_PROMOTE, 0) >= 0, "orders in the storm");
    }
    return NULL;
}

static void storm(uint64_t seconds)
{
    void *(*const play[])(void *) = { storm_thread, other_thread, play_thread };
    uint64_t end = now_ns() + seconds * SEC;
    pthread_t threads[3];

    handler_set(SIGUSR1, jump_outside);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, play[i], NULL);
    (void)sigsetjmp(out, 1);
    armed = 1;
    while (now_ns() < end) {
        CUdeviceptr p = 0;

        launch(small, NULL);
        if (stat_of("used") < 200 * MIB && cuMemAlloc_v2(&p, 2 * MIB) == 0) /* jumped out of here, it is lost */
            (void)cuMemFree_v2(p);
        muster_step();
    }
    armed = 0;
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    gate_set(GATE_OPEN);
    expect(cuCtxSynchronize() == 0, "the driver answers");
    (void)printf("%llu jumps, %llu launches of another thread, the slowest %llu ms\n", (unsigned long long)jumps,
                 (unsigned long long)others, (unsigned long long)(slowest / 1000000));
    expect(jumps > 50 && others > 50, "there was a storm");
    expect(stat_of("used") == fake_device_used(0), "what is counted is what the driver gave");
}

static void nothing(const uint64_t *args)
{
    (void)args;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    first = pthread_self();
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) || play_begin())
        return 2;
    small = fake_kernel_register("small", nothing, 0, 1);
    large = fake_kernel_register("large", nothing, 0, 900000);
    counting = fake_kernel_register("counting", nothing, 1, 1);
    if (cuMemAlloc_v2(&kept, 4 * MIB))
        return 2;
    if (strcmp(what, "stacks") == 0)
        stacks();
    else if (strcmp(what, "wait") == 0)
        wait_out();
    else if (strcmp(what, "held") == 0)
        held();
    else if (strcmp(what, "fault") == 0)
        fault_once();
    else if (strcmp(what, "alloc") == 0)
        fault_alloc();
    else if (strcmp(what, "timers") == 0)
        timers();
    else if (strcmp(what, "gone") == 0)
        gone();
    else if (strcmp(what, "storm") == 0)
        storm(argc > 2 ? strtoull(argv[2], NULL, 10) : 2);
    else
        return 2;
    if (strcmp(what, "wait") != 0)
        orders_work();
    allocations_count();
    (void)printf("%s\n", wrong ? "wrong" : "right");
    return wrong;
}
