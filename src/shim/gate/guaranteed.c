/* SPDX-License-Identifier: Apache-2.0 */
/* guaranteed.c - the guaranteed job tells its neighbours when the GPU is free.
 *
 * Streams hash into 64 slots, each with a count of submissions and the count known to be complete; a collision only
 * makes the answer later, never wrong. A wait marks its stream as complete up to what had been submitted before the
 * wait; when every slot is complete the arena says IDLE, with a prediction of the gap. The first submission after that
 * says ACTIVE: two stores a burst. For a program that never waits the helper records an event on each busy stream once
 * submissions have stopped, and polls it.
 */
#include "shim/gate/bulk.h"
#include "shim/gate/gap.h"
#include "shim/shim.h"

#define EVENTS 1024u
#define POLL_EVENTS 8u

struct slot {
    _Atomic uint64_t submitted, synced;
    _Atomic uintptr_t stream;
} __attribute__((aligned(64)));

static struct slot slots[RG_SLOTS];
static _Atomic uint64_t slots_used; /* a bit a slot */
static struct {
    _Atomic uintptr_t event;
    _Atomic uint32_t slot;
    _Atomic uint64_t mark;
} events[EVENTS];
static struct gap_book book, bursts;
static _Atomic uint32_t book_lock; /* of both: whoever goes active, goes idle or ends a step is another thread */
static _Atomic uint64_t burst_us, active_since;
static _Atomic uint64_t going_idle;    /* one thread says so at a time */
static _Atomic uint32_t polled_stream; /* the helper touches a stream just now */

static uint32_t slot_of(CUstream stream)
{
    return (uint32_t)(((uint64_t)(uintptr_t)stream * 0x9e3779b97f4a7c15ULL) >> 58);
}

struct arena *arena_mine(void)
{
    struct arena *arena = NULL;

    for (int i = 0; i < PAGE_GPUS && !arena; i++)
        arena = __atomic_load_n(&shim.arena[i], __ATOMIC_ACQUIRE);
    return arena;
}

static void go_active(struct arena *arena)
{
    uint32_t idle = RG_IDLE, predicted;
    uint64_t now, since;

    if (!__atomic_compare_exchange_n(&arena->rg_state, &idle, RG_ACTIVE, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return;
    now = clock_ns();
    since = __atomic_exchange_n(&arena->rg_since_ns, now, __ATOMIC_RELAXED);
    atomic_store(&active_since, now);
    __atomic_store_n(&arena->rg_beat_ns, now, __ATOMIC_RELAXED);
    __atomic_fetch_add(&arena->rg_bursts, 1, __ATOMIC_RELAXED);
    if (!spin_light(&book_lock))
        return;
    gap_end(&book, (uint32_t)(now > since ? (now - since) / NSEC_USEC : 0));
    predicted = gap_begin(&bursts);
    spin_light_end(&book_lock);
    __atomic_store_n(&arena->burst_pred_us, predicted, __ATOMIC_RELAXED);
}

static bool all_synced(void)
{
    for (uint64_t bits = atomic_load(&slots_used); bits; bits &= bits - 1) {
        struct slot *s = &slots[__builtin_ctzll(bits)];

        if (atomic_load(&s->synced) < atomic_load(&s->submitted))
            return false;
    }
    return true;
}

static void go_idle(void)
{
    struct arena *arena = arena_mine();
    uint64_t now, span, since;
    uint32_t predicted;

    if (!arena || __atomic_load_n(&arena->rg_state, __ATOMIC_RELAXED) != RG_ACTIVE || !all_synced() ||
        !flag_try(&going_idle))
        return;
    now = clock_ns();
    since = atomic_load(&active_since);
    span = now > since ? (now - since) / NSEC_USEC : 0;
    atomic_fetch_add(&burst_us, span);
    predicted = 0;
    if (spin_light(&book_lock)) {
        gap_end(&bursts, (uint32_t)span);
        predicted = gap_begin(&book);
        spin_light_end(&book_lock);
    }
    __atomic_store_n(&arena->gap_pred_us, predicted, __ATOMIC_RELAXED);
    __atomic_store_n(&arena->rg_since_ns, now, __ATOMIC_RELAXED);
    __atomic_store_n(&arena->rg_beat_ns, now, __ATOMIC_RELAXED);
    __atomic_store_n(&arena->rg_state, RG_IDLE, __ATOMIC_SEQ_CST);
    if (!all_synced()) { /* a submission slipped in: it saw ACTIVE and did not store */
        __atomic_store_n(&arena->rg_state, RG_ACTIVE, __ATOMIC_SEQ_CST);
        if (spin_light(&book_lock)) {
            gap_void(&book);
            spin_light_end(&book_lock);
        }
    }
    flag_end(&going_idle);
    if (__atomic_load_n(&arena->ot_count, __ATOMIC_RELAXED))
        futex_wake((_Atomic uint32_t *)&arena->rg_state);
}

void rg_submit(CUstream stream)
{
    uint32_t n = slot_of(stream);
    struct arena *arena = arena_mine();

    if (unlikely(!(atomic_load_explicit(&slots_used, memory_order_relaxed) >> n & 1))) {
        atomic_fetch_or(&slots_used, (uint64_t)1 << n);
        atomic_store(&slots[n].stream, (uintptr_t)stream);
    }
    atomic_fetch_add(&slots[n].submitted, 1);
    if (arena && unlikely(__atomic_load_n(&arena->rg_state, __ATOMIC_RELAXED) != RG_ACTIVE))
        go_active(arena);
}

uint64_t rg_mark(CUstream stream)
{
    return atomic_load(&slots[slot_of(stream)].submitted);
}

static void slot_raise(uint32_t n, uint64_t mark)
{
    uint64_t seen = atomic_load(&slots[n].synced);

    while (seen < mark && !atomic_compare_exchange_weak(&slots[n].synced, &seen, mark))
        ;
}

void rg_synced(CUstream stream, uint64_t mark)
{
    slot_raise(slot_of(stream), mark);
    go_idle();
}

void rg_mark_all(uint64_t *marks)
{
    for (uint32_t n = 0; n < RG_SLOTS; n++)
        marks[n] = atomic_load(&slots[n].submitted);
}

void rg_synced_all(const uint64_t *marks)
{
    for (uint32_t n = 0; n < RG_SLOTS; n++)
        slot_raise(n, marks[n]);
    go_idle();
}

static uint32_t event_at(CUevent event)
{
    return (uint32_t)(((uint64_t)(uintptr_t)event * 0x9e3779b97f4a7c15ULL) >> 54);
}

void rg_event_record(CUevent event, CUstream stream)
{
    uint32_t i = event_at(event), n = slot_of(stream);

    atomic_store(&events[i].event, 0);
    atomic_store(&events[i].slot, n);
    atomic_store(&events[i].mark, atomic_load(&slots[n].submitted));
    atomic_store(&events[i].event, (uintptr_t)event);
}

void rg_event_synced(CUevent event)
{
    uint32_t i = event_at(event), n;
    uint64_t mark;

    if (atomic_load(&events[i].event) != (uintptr_t)event)
        return;
    n = atomic_load(&events[i].slot);
    mark = atomic_load(&events[i].mark);
    if (atomic_load(&events[i].event) != (uintptr_t)event) /* overwritten while we read */
        return;
    slot_raise(n, mark);
    go_idle();
}

void rg_stream_gone(CUstream stream)
{
    uint32_t n = slot_of(stream);

    atomic_store(&slots[n].stream, 0);
    for (int i = 0; i < 1000 && atomic_load(&polled_stream) == n + 1; i++)
        futex_wait(&polled_stream, n + 1, NSEC_USEC * 100);
}

/* Worth a look every 50 us: somebody shares the GPU, and work is in flight that nobody waits for. */
bool rg_wants_poll(void)
{
    struct arena *arena = arena_mine();

    if (shim.role != ROLE_GUARANTEED || !arena || __atomic_load_n(&arena->ot_count, __ATOMIC_RELAXED) == 0)
        return false;
    return __atomic_load_n(&arena->rg_state, __ATOMIC_RELAXED) == RG_ACTIVE &&
           inside_waiters() == 0; /* they will tell */
}

/* One busy stream: record an event once submissions stopped, then ask it. */
static void slot_poll(uint32_t n)
{
    static struct own_event own[RG_SLOTS];
    static uint64_t mark[RG_SLOTS], last[RG_SLOTS];
    struct slot *s = &slots[n];
    uint64_t submitted = atomic_load(&s->submitted);
    bool moved = last[n] != submitted;

    last[n] = submitted;
    if (mark[n]) {
        if (REAL(cuEventQuery)(own[n].event) == CUDA_ERROR_NOT_READY)
            return;
        slot_raise(n, mark[n]);
        mark[n] = 0;
    }
    /* Whether a stream belongs to a capture is not asked of one that may go this instant: it is looked at afterwards.
     */
    if (moved || atomic_load(&s->synced) >= submitted || atomic_load(&shim.captures))
        return;
    atomic_store(&polled_stream, n + 1);
    if (atomic_load(&s->stream) || n == slot_of(NULL)) {
        if (event_record(&own[n], (CUstream)atomic_load(&s->stream), CU_EVENT_DISABLE_TIMING))
            mark[n] = submitted;
    } else {
        slot_raise(n, submitted); /* the stream is gone, and its work with it */
    }
    atomic_store(&polled_stream, 0);
}

void rg_poll(void)
{
    int mode;

    if (!HAVE(cuEventQuery) || !HAVE(cuEventRecord) || !HAVE(cuEventCreate))
        return;
    if (!capture_own_begin(&mode)) /* around the records too: one that begins waits for them */
        return;
    for (uint64_t bits = atomic_load(&slots_used); bits; bits &= bits - 1)
        slot_poll((uint32_t)__builtin_ctzll(bits));
    capture_own_end(mode);
    go_idle();
}

uint32_t rg_burst_us_take(void)
{
    if (spin_light(&book_lock)) {
        gap_boundary(&book);
        gap_boundary(&bursts);
        spin_light_end(&book_lock);
    }
    return (uint32_t)atomic_exchange(&burst_us, 0);
}
