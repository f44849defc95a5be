/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c - how long do launches take, and how much is in flight?
 *
 * Estimates: a table of (function, grid) -> moving average; one launch in 64 is bracketed by two timing events, outside
 * captures. In flight: every few launches a fence event is recorded with the sum of estimates so far; the newest
 * completed fence tells how much of the sum is done. Slots are claimed by compare-and-swap and polled by whoever gets
 * the polling flag; nobody waits for another here. All of it runs only while the gate is not open.
 */
#include "shim/shim.h"

#define ESTIMATES 4096u
#define UNKNOWN_US 50u
#define FENCES 64u
#define PROBES 16u
#define PROBE_EVERY 64u
#define FENCE_LAUNCHES 8u
#define FENCE_US 200u
#define LEFT_NS NSEC_SEC /* one that is being written for so long was jumped out of */

struct estimate {
    _Atomic uint64_t key;
    _Atomic uint32_t ns16; /* 16 ns units; 0 = unknown */
};

struct fence {
    struct own_event own;
    _Atomic uint64_t sum_us;
    _Atomic uint32_t state; /* 0 free, 1 being written, 2 recorded */
    _Atomic uint64_t since; /* when it was claimed; 0 while it is free */
};

struct probe {
    struct own_event start, end;
    _Atomic uint64_t key;
    _Atomic uint32_t state; /* 0 free, 1 open, 2 closed */
    _Atomic uint64_t since;
};

static struct estimate estimates[ESTIMATES];
static struct fence fences[FENCES];
static struct probe probes[PROBES];
static _Atomic uint64_t submitted_us, completed_us, fenced_us;
static _Atomic uint32_t since_fence, probe_turn;
static _Atomic uint64_t polling;

static struct estimate *estimate_at(uint64_t key)
{
    return &estimates[(key * 0x9e3779b97f4a7c15ULL) >> 52];
}

uint32_t fence_estimate(uint64_t key)
{
    struct estimate *e = estimate_at(key);
    uint32_t units = atomic_load_explicit(&e->ns16, memory_order_relaxed);

    if (atomic_load_explicit(&e->key, memory_order_relaxed) != key || units == 0)
        return UNKNOWN_US;
    /* Never nothing: what is in flight is the sum of these, and it alone bounds a flood of the shortest ones. */
    return units < 2000 / 16 ? 1 : (uint32_t)((uint64_t)units * 16 / 1000);
}

static void estimate_learn(uint64_t key, uint64_t ns)
{
    struct estimate *e = estimate_at(key);
    uint64_t old = (uint64_t)atomic_load_explicit(&e->ns16, memory_order_relaxed) * 16, mean = ns;

    if (atomic_load_explicit(&e->key, memory_order_relaxed) == key && old) {
        /* A long reading is often a preempted kernel: believe it slowly. */
        mean = ns < old ? old - (old - ns) / 4 : old + (ns - old) / 16;
    }
    atomic_store_explicit(&e->key, key, memory_order_relaxed);
    atomic_store_explicit(&e->ns16, (uint32_t)(mean / 16 ? (mean < NSEC_SEC * 60 ? mean / 16 : UINT32_MAX) : 1),
                          memory_order_relaxed);
}

/* A slot that is free, or that a thread left behind. */
static bool slot_claim(_Atomic uint32_t *state, _Atomic uint64_t *since)
{
    uint64_t now = clock_ns(), was = atomic_load(since);
    uint32_t seen = 0;

    if (!atomic_compare_exchange_strong(state, &seen, 1))
        return seen == 1 && was && now - was > LEFT_NS && atomic_compare_exchange_strong(since, &was, now);
    atomic_store(since, now);
    return true;
}

static void slot_free(_Atomic uint32_t *state, _Atomic uint64_t *since)
{
    atomic_store(since, 0);
    atomic_store(state, 0);
}

int32_t fence_probe_begin(uint64_t key, CUstream stream)
{
    struct estimate *e = estimate_at(key);
    bool known = atomic_load_explicit(&e->key, memory_order_relaxed) == key;
    uint32_t turn = atomic_fetch_add_explicit(&probe_turn, 1, memory_order_relaxed);

    if ((known && turn % PROBE_EVERY != 0) || (capture_any() && capture_into(stream)))
        return -1;
    for (uint32_t i = 0; i < PROBES; i++) {
        struct probe *p = &probes[(turn + i) % PROBES];

        if (!slot_claim(&p->state, &p->since))
            continue;
        atomic_store_explicit(&p->key, key, memory_order_relaxed);
        if (event_record(&p->start, stream, CU_EVENT_DEFAULT))
            return (int32_t)((turn + i) % PROBES);
        slot_free(&p->state, &p->since);
        return -1;
    }
    return -1;
}

void fence_probe_end(int32_t probe, CUstream stream)
{
    struct probe *p;

    if (probe < 0)
        return;
    p = &probes[probe];
    if (!(capture_any() && capture_into(stream)) && event_record(&p->end, stream, CU_EVENT_DEFAULT) &&
        p->end.context == p->start.context)
        atomic_store(&p->state, 2);
    else
        slot_free(&p->state, &p->since);
}

static void completed_raise(uint64_t sum)
{
    uint64_t seen = atomic_load(&completed_us);

    while (seen < sum && !atomic_compare_exchange_weak(&completed_us, &seen, sum))
        ;
}

/* Nobody can tell when this work is complete: then nobody waits for it. */
static void fence_lost(uint64_t sum)
{
    completed_raise(sum);
    COUNT_ADD(fail_open, 1);
}

/* A slot whose event is of the stream's context, so that programs with several do not make them anew each time; one of
 * another's if there is none. */
static void fence_record(CUstream stream, uint64_t sum)
{
    uint32_t context;
    bool recorded;

    if (capture_any() && capture_into(stream)) /* by another thread, since this one has asked */
        return;
    context = context_stream(stream);
    for (uint32_t i = 0; i < 2 * FENCES; i++) {
        struct fence *f = &fences[i % FENCES];
        uint32_t of = atomic_load_explicit(&f->own.context, memory_order_relaxed);

        if ((i < FENCES && of && of != context) || !slot_claim(&f->state, &f->since))
            continue;
        recorded = event_record(&f->own, stream, CU_EVENT_DISABLE_TIMING);
        atomic_store_explicit(&f->sum_us, sum, memory_order_relaxed);
        atomic_store(&since_fence, 0);
        atomic_store(&fenced_us, sum);
        if (recorded) {
            atomic_store(&f->state, 2);
        } else {
            slot_free(&f->state, &f->since);
            fence_lost(sum);
        }
        return;
    }
}

void fence_submitted(CUstream stream, uint32_t cost_us)
{
    uint64_t sum = atomic_fetch_add(&submitted_us, cost_us) + cost_us;
    uint32_t n = atomic_fetch_add_explicit(&since_fence, 1, memory_order_relaxed) + 1;

    if (n >= FENCE_LAUNCHES || sum - atomic_load_explicit(&fenced_us, memory_order_relaxed) >= FENCE_US)
        fence_record(stream, sum);
}

void fence_cover(CUstream stream)
{
    uint64_t sum = atomic_load(&submitted_us);

    /* Work after the last fence has none of its own yet; a waiter needs one, or it would wait for nothing. */
    if (atomic_load(&fenced_us) < sum)
        fence_record(stream, sum);
}

static void probes_poll(void)
{
    CUresult r;
    float ms;

    for (uint32_t i = 0; i < PROBES; i++) {
        uint64_t key = atomic_load(&probes[i].key);

        if (atomic_load(&probes[i].state) != 2)
            continue;
        r = REAL(cuEventQuery)(probes[i].end.event);
        if (r == CUDA_ERROR_NOT_READY)
            continue;
        if (r == CUDA_SUCCESS && HAVE(cuEventElapsedTime) &&
            REAL(cuEventElapsedTime)(&ms, probes[i].start.event, probes[i].end.event) == CUDA_SUCCESS &&
            atomic_load(&probes[i].key) == key)
            estimate_learn(key, (uint64_t)((double)ms * 1e6));
        slot_free(&probes[i].state, &probes[i].since);
    }
}

/* A thread that was off the processor for a second is taken over here, and goes on beside its successor: what it asks
 * of may be another fence by now. So the sum is that of before the question, and a fence that has another stays. */
void fence_poll(void)
{
    int mode;

    if (!HAVE(cuEventQuery) || !flag_try(&polling))
        return;
    if (!capture_own_begin(&mode)) {
        flag_end(&polling);
        return;
    }
    for (uint32_t i = 0; i < FENCES; i++) {
        uint64_t sum;
        CUresult r;

        if (atomic_load(&fences[i].state) != 2)
            continue;
        sum = atomic_load(&fences[i].sum_us);
        r = REAL(cuEventQuery)(fences[i].own.event);
        if (r == CUDA_ERROR_NOT_READY)
            continue;
        if (r != CUDA_SUCCESS)
            COUNT_ADD(fail_open, 1); /* the next who records on it finds out whether it has to be made anew */
        completed_raise(sum);
        if (atomic_load(&fences[i].sum_us) == sum)
            slot_free(&fences[i].state, &fences[i].since);
    }
    probes_poll();
    capture_own_end(mode);
    flag_end(&polling);
}

uint64_t fence_inflight_us(void)
{
    uint64_t done = atomic_load(&completed_us), sum = atomic_load(&submitted_us);

    return sum > done ? sum - done : 0;
}
