/* SPDX-License-Identifier: Apache-2.0 */
/* reenter.c - the library called again on a thread that is in it already, or that is on its way out.
 *
 * reenter storm SECONDS: a signal 200 us after the last, whose handler allocates, frees, launches and ends steps; the
 * thread it interrupts does the same, while memory moves and the gate changes (with STORM_PLAY; under a node side that
 * is its business). reenter gate: the handler launches while its thread waits at a closed gate. reenter hold: while its
 * thread is inside, and memory is to move. reenter thread: a destructor of a thread's own data calls. reenter exit:
 * what was registered with atexit() before the first call does, when the library has already let go. Exits 0 when all
 * was as it should be.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#define PLAY_FAIL(...) abort()
#include "calls.h"
#include "unit/shim_play.h"

#define MIB (1ull << 20)
#define SEC 1000000000ULL

void muster_step(void) __attribute__((weak));

static CUcontext ctx;
static CUfunction small, large;
static CUdeviceptr kept;
static pthread_t first;
static _Atomic uint64_t launches, handled, answered, wrong;
static _Atomic int stop, began, ended;

static void launch(CUfunction f)
{
    errno = 1234; /* whatever interrupted a wait, no program sees it */
    wrong += cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != 0 || errno != 1234;
    launches++;
}

/* Answered by the library alone, under its lock. */
static void question(void)
{
    CUdeviceptr base;
    size_t size = 0;

    wrong += cuMemGetAddressRange_v2(&base, &size, kept + MIB) != 0 || base != kept || size != 4 * MIB;
}

/* One of everything that takes a lock of the library's. */
static void calls(void)
{
    CUdeviceptr moving, native;

    question();
    if (cuMemAlloc_v2(&moving, 2 * MIB) == 0)
        wrong += cuMemFree_v2(moving) != 0;
    if (cuMemAlloc_v2(&native, 4096) == 0)
        wrong += cuMemFree_v2(native) != 0;
    launch(small);
    muster_step();
}

static void storm_handler(int number)
{
    int saved = errno;

    (void)number;
    if (!fake_busy()) { /* the driver's own locks are its own matter */
        calls();
        handled++;
    }
    answered++;
    errno = saved;
}

static void launch_handler(int number)
{
    (void)number;
    began = 1;
    launch(small);
    handled++;
}

static void handler_set(void (*fn)(int))
{
    struct sigaction action = { .sa_handler = fn, .sa_flags = SA_RESTART };

    (void)sigaction(SIGUSR1, &action, NULL);
}

static void *storm_thread(void *arg)
{
    (void)arg;
    for (uint64_t sent = 0; !stop; sent++) {
        (void)usleep(200);
        (void)pthread_kill(first, SIGUSR1);
        while (answered <= sent && !stop) /* with the next one waiting already, the program would never go on */
            (void)usleep(50);
    }
    return NULL;
}

static void gate_set(uint32_t gate)
{
    __atomic_store_n(&page->control.lease_until_ns, now_ns() + 60 * SEC, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->control.gate, gate, __ATOMIC_SEQ_CST);
}

static void order(enum page_op op, uint64_t arg)
{
    int64_t r = command(op, arg);

    if (r >= 0)
        return;
    (void)fprintf(stderr, "order %d: %lld\n", (int)op, (long long)r);
    wrong++;
}

/* A node side with many orders. */
static void *play_thread(void *arg)
{
    (void)arg;
    while (!stop) {
        order(OP_SPILL_TO, 2 * MIB);
        order(OP_PROMOTE, 0);
        gate_set(GATE_CLOSED);
        order(OP_EVICT_ALL, 0);
        order(OP_RELOAD_ALL, 0);
        page->control.duty = 500;
        gate_set(GATE_DUTY);
        (void)usleep(20000);
        gate_set(GATE_OPEN);
        (void)usleep(20000);
    }
    return NULL;
}

static int storm(uint64_t seconds)
{
    uint64_t end = now_ns() + seconds * SEC, seen, before = stat_of("launches"), used = stat_of("used");
    pthread_t timer, node;
    bool play = getenv("STORM_PLAY") != NULL;

    handler_set(storm_handler);
    pthread_create(&timer, NULL, storm_thread, NULL);
    if (play)
        pthread_create(&node, NULL, play_thread, NULL);
    while (now_ns() < end) {
        calls();
        for (int i = 0; i < 500; i++) /* so that a good part of the time is spent where a signal would hurt */
            question();
    }
    stop = 1;
    pthread_join(timer, NULL);
    if (play)
        pthread_join(node, NULL);
    wrong += cuStreamSynchronize(NULL) != 0;
    seen = stat_of("launches") - before;
    (void)printf("%llu launches, %llu seen, %llu handlers, %llu wrong, %lld bytes more\n", (unsigned long long)launches,
                 (unsigned long long)seen, (unsigned long long)handled, (unsigned long long)wrong,
                 (long long)(stat_of("used") - used));
    return wrong || !handled || seen != launches || stat_of("used") != used;
}

static bool becomes(const _Atomic int *what)
{
    for (int i = 0; i < 20000 && !*what; i++)
        (void)usleep(1000);
    return *what != 0;
}

static void *gate_thread(void *arg)
{
    (void)arg;
    while (stat_of("gate_waits") == 0) /* it stands at the gate */
        (void)usleep(1000);
    (void)pthread_kill(first, SIGUSR1);
    wrong += !becomes(&began);
    (void)usleep(200000);
    wrong += ended != 0 || handled != 0; /* both wait: a pause is a pause */
    gate_set(GATE_OPEN);
    return NULL;
}

static int gate(void)
{
    pthread_t other;

    handler_set(launch_handler);
    gate_set(GATE_CLOSED);
    pthread_create(&other, NULL, gate_thread, NULL);
    launch(small);
    ended = 1;
    pthread_join(other, NULL);
    (void)printf("%llu launches, %llu handlers, %llu wrong\n", (unsigned long long)launches,
                 (unsigned long long)handled, (unsigned long long)wrong);
    return wrong || handled != 1 || launches != 2 || stat_of("launches") != 2;
}

static _Atomic int64_t hold_result = -1;

static void *hold_thread(void *arg)
{
    uint64_t seq;

    (void)arg;
    (void)usleep(50000); /* the copy waits for the kernel before it, inside */
    seq = command_post(OP_SPILL_TO, 2 * MIB);
    (void)usleep(50000); /* the helper waits for the copy */
    (void)pthread_kill(first, SIGUSR1);
    while (__atomic_load_n(&page->reply[seq % PAGE_RING].seq, __ATOMIC_ACQUIRE) != seq)
        (void)usleep(1000);
    hold_result = page->reply[seq % PAGE_RING].result;
    return NULL;
}

static int hold(void)
{
    pthread_t other;
    uint64_t word;

    handler_set(launch_handler);
    pthread_create(&other, NULL, hold_thread, NULL);
    launch(large);
    wrong += cuMemcpyDtoH_v2(&word, kept, sizeof(word)) != 0;
    pthread_join(other, NULL);
    (void)printf("result %lld, %llu handlers, %llu wrong\n", (long long)hold_result, (unsigned long long)handled,
                 (unsigned long long)wrong);
    return wrong || handled != 1 || hold_result != 0;
}

static void destructor(void *value)
{
    (void)value;
    calls();
    handled++;
}

static void *key_thread(void *arg)
{
    wrong += cuCtxSetCurrent(ctx) != 0 || pthread_setspecific(*(pthread_key_t *)arg, arg) != 0;
    calls();
    return NULL;
}

static int thread_exit(void)
{
    uint64_t used = stat_of("used");
    pthread_key_t key;
    pthread_t other;

    wrong += pthread_key_create(&key, destructor) != 0;
    for (int i = 0; i < 20; i++) {
        pthread_create(&other, NULL, key_thread, &key);
        pthread_join(other, NULL);
    }
    (void)printf("%llu destructors, %llu wrong\n", (unsigned long long)handled, (unsigned long long)wrong);
    return wrong || handled != 20 || stat_of("launches") != 40 || stat_of("used") != used;
}

/* Runs after the library has let go: it registered later, so its end came earlier. */
static void late(void)
{
    CUdeviceptr native = 0;

    if (!kept)
        return;
    wrong += stat_of("on") != 0;
    wrong += cuMemFree_v2(kept) != 0; /* a segment of the library's making, which the driver does not know */
    wrong += cuMemAlloc_v2(&native, 2 * MIB) != 0 || cuMemFree_v2(native) != 0;
    launch(small);
    wrong += cuStreamSynchronize(NULL) != 0 || fake_device_used(0) != 0;
    (void)printf("%llu wrong, %llu bytes left\n", (unsigned long long)wrong, (unsigned long long)fake_device_used(0));
    (void)fflush(stdout);
    _exit(wrong != 0);
}

static void nothing(const uint64_t *args)
{
    (void)args;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    first = pthread_self();
    if (strcmp(what, "exit") == 0)
        (void)atexit(late);
    errno = 1234;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) || errno != 1234)
        return 2;
    if (play_begin() || !muster_step)
        return 2;
    small = fake_kernel_register("small", nothing, 0, 1);
    large = fake_kernel_register("large", nothing, 0, 400000);
    if (cuMemAlloc_v2(&kept, 4 * MIB))
        return 2;
    if (strcmp(what, "storm") == 0)
        return storm(argc > 2 ? strtoull(argv[2], NULL, 10) : 2);
    if (strcmp(what, "gate") == 0)
        return gate();
    if (strcmp(what, "hold") == 0)
        return hold();
    if (strcmp(what, "thread") == 0)
        return thread_exit();
    return strcmp(what, "exit") == 0 ? 0 : 2;
}
