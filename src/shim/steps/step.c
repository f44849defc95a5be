/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - mini-batch boundaries, from the best signal there is.
 *
 * A boundary is a hint for speed; nothing is ever correct because of one. Tier 0 is a call from the program, 1 a hook
 * on the optimizer, 2 the first other kernel after a run of optimizer kernels, 3 the period of the launch sequence, 4 a
 * window of time. A better tier, once seen, silences the worse ones; ten seconds of silence from it undo that.
 */
#include <string.h>

#include "shim/shim.h"
#include "shim/steps/period.h"
#include "shim/steps/rounds.h"

#define NAMES 4096u
#define TIER_SILENCE (10 * NSEC_SEC)
#define WINDOW_NS (250 * NSEC_MSEC)
#define TIER2_AFTER (3 * NSEC_SEC)

static uint16_t ids[PERIOD_RING];
static uint32_t mib[PERIOD_RING];
static _Atomic uint64_t position, next_boundary;
static _Atomic uint32_t period, misses;
static struct {
    _Atomic uintptr_t f;
    _Atomic uint32_t kind; /* 1 optimizer, 2 other */
} names[NAMES];
static _Atomic uint32_t in_optimizer, best = TIER_TIME;
static _Atomic uint64_t best_at, last_ns, last_launches;
static _Atomic uint64_t step_lock;

EXPORT void muster_step(void);
EXPORT uint64_t muster_gpu_stat(const char *name);
EXPORT void muster_gpu_switch(int on);
EXPORT void *muster_gpu_real(const char *name);

static uint64_t launches_total(void)
{
    uint64_t sum = 0;

    for (int i = 0; i < PAGE_STRIPES; i++)
        sum += __atomic_load_n(&shim.page->counters[i].launches, __ATOMIC_RELAXED) +
               __atomic_load_n(&shim.page->counters[i].graph_launches, __ATOMIC_RELAXED);
    return sum;
}

static int gpu_first(void)
{
    for (int i = 0; i < PAGE_GPUS; i++)
        if (enter_context_of(i))
            return i;
    return 0;
}

static void record_write(enum page_tier tier, uint64_t now)
{
    struct page_step *step = &shim.page->step;
    uint64_t total = launches_total(), last = atomic_exchange(&last_ns, now);
    uint64_t before = atomic_exchange(&last_launches, total);
    struct page_step_record *r = &step->ring[step->seq % PAGE_STEPS];
    uint64_t peak = mem_step_peak(gpu_first());

    if (last == 0)
        return;
    r->end_ns = now;
    __atomic_store_n(&r->wall_us, (uint32_t)((now - last) / NSEC_USEC), __ATOMIC_RELAXED);
    r->launches = (uint32_t)(total - before);
    r->busy_us = rg_burst_us_take();
    r->tier = tier;
    r->used_bytes = __atomic_load_n(&shim.page->memory[gpu_first()].used, __ATOMIC_RELAXED);
    __atomic_store_n(&shim.page->step_peak[step->seq % PAGE_STEPS], peak, __ATOMIC_RELAXED);
    __atomic_store_n(&step->tier, tier, __ATOMIC_RELAXED);
    step->confidence = tier <= TIER_OPTIMIZER ? 1000 : (tier == TIER_KERNEL ? 900 : (tier == TIER_PERIOD ? 600 : 100));
    __atomic_store_n(&step->seq, step->seq + 1, __ATOMIC_RELEASE);
    touch_step(step->seq);
}

void step_boundary(enum page_tier tier)
{
    uint64_t now = clock_ns();

    if ((uint32_t)tier < shim.tier_min)
        return;
    if ((uint32_t)tier > atomic_load(&best) && now - atomic_load(&best_at) < TIER_SILENCE)
        return;
    if (!flag_try(&step_lock))
        return; /* another thread writes a boundary this instant: one is enough */
    atomic_store(&best, tier);
    atomic_store(&best_at, now);
    record_write(tier, now);
    flag_end(&step_lock);
}

/* `which` is an optimizer: an object, or the kernels of one run. */
void step_optimizer(enum page_tier tier, uint64_t which)
{
    static struct rounds rounds[TIER_COUNT];
    static _Atomic uint64_t lock;
    bool end;

    if (tier >= TIER_COUNT || !flag_try(&lock))
        return; /* two at the same instant: one is enough */
    end = rounds_step(&rounds[tier], (uint16_t)(which * 0x9e3779b97f4a7c15ULL >> 48));
    flag_end(&lock);
    if (end)
        step_boundary(tier);
}

void muster_step(void)
{
    if (shim_ready())
        step_boundary(TIER_CALL);
}

static bool name_is_optimizer(const char *name)
{
    static const char *const words[] = {
        "multi_tensor_apply", "MultiTensorApply", "adam", "Adam", "sgd", "SGD", "lamb", "Lamb", "lion", "Lion"
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

static uint32_t kind_of(CUfunction f)
{
    uint32_t i = (uint32_t)(((uint64_t)(uintptr_t)f * 0x9e3779b97f4a7c15ULL) >> 52);
    const char *name = NULL;
    uint32_t kind = 2;
    int mode;

    if (atomic_load_explicit(&names[i].f, memory_order_relaxed) == (uintptr_t)f)
        return atomic_load_explicit(&names[i].kind, memory_order_relaxed);
    if (!capture_relax(&mode))
        return kind;
    /* A launch may name a function of a context or a kernel of a library; only the driver can tell which. */
    if (!HAVE(cuFuncGetName) || REAL(cuFuncGetName)(&name, f) != CUDA_SUCCESS)
        name = NULL;
    if (!name && HAVE(cuKernelGetName) && REAL(cuKernelGetName)(&name, (CUkernel)(void *)f) != CUDA_SUCCESS)
        name = NULL;
    capture_restore(mode);
    if (name && name_is_optimizer(name))
        kind = 1;
    atomic_store_explicit(&names[i].kind, kind, memory_order_relaxed);
    atomic_store_explicit(&names[i].f, (uintptr_t)f, memory_order_relaxed);
    return kind;
}

void step_launch(CUfunction f, uint64_t key)
{
    uint64_t at;
    uint32_t run;

    if (likely(atomic_load_explicit(&best, memory_order_relaxed) <= TIER_OPTIMIZER))
        return;
    at = atomic_fetch_add_explicit(&position, 1, memory_order_relaxed);
    __atomic_store_n(&ids[at % PERIOD_RING], (uint16_t)(key >> 40 ^ key >> 13), __ATOMIC_RELAXED);
    __atomic_store_n(&mib[at % PERIOD_RING],
                     (uint32_t)(__atomic_load_n(&shim.page->memory[gpu_first()].used, __ATOMIC_RELAXED) / MIB),
                     __ATOMIC_RELAXED);
    if (f) {
        run = atomic_load_explicit(&in_optimizer, memory_order_relaxed);
        if (kind_of(f) == 1) /* what an optimizer launches, and how large, says which one it is */
            atomic_store_explicit(&in_optimizer, (run * 31 + (uint32_t)(key ^ key >> 32)) | 1, memory_order_relaxed);
        else if (run && (run = atomic_exchange_explicit(&in_optimizer, 0, memory_order_relaxed)) != 0)
            step_optimizer(TIER_KERNEL, run);
    }
    if (atomic_load_explicit(&period, memory_order_relaxed) &&
        at == atomic_load_explicit(&next_boundary, memory_order_relaxed)) {
        atomic_fetch_add(&next_boundary, atomic_load(&period));
        step_boundary(TIER_PERIOD);
    }
}

/* Helper, now and then: is there a period, and is it still the same? */
static void period_look(void)
{
    static uint16_t copy[PERIOD_RING];
    static uint32_t copy_mib[PERIOD_RING];
    uint64_t at = atomic_load(&position);
    uint32_t n = at < PERIOD_RING ? (uint32_t)at : PERIOD_RING, found, phase;

    for (uint32_t i = 0; i < n; i++) {
        copy[i] = __atomic_load_n(&ids[(at - n + i) % PERIOD_RING], __ATOMIC_RELAXED);
        copy_mib[i] = __atomic_load_n(&mib[(at - n + i) % PERIOD_RING], __ATOMIC_RELAXED);
    }
    found = period_find(copy, n);
    if (found == atomic_load(&period) && found) {
        atomic_store(&misses, 0);
        if (atomic_load(&next_boundary) > atomic_load(&position))
            return;
    } else if (atomic_load(&period) && atomic_fetch_add(&misses, 1) < 2) {
        return; /* three misses in a row before the lock is given up */
    }
    atomic_store(&period, found);
    atomic_store(&misses, 0);
    if (found) {
        phase = period_anchor(copy_mib, n, found);
        atomic_store(&next_boundary, at - 1 - phase + found * (1 + (atomic_load(&position) - at + phase) / found));
    }
}

void step_poll(void)
{
    static uint64_t looked, window;
    uint64_t now = clock_ns();

    if (atomic_load(&best) <= TIER_KERNEL && now - atomic_load(&best_at) < TIER_SILENCE)
        return;
    if (now - looked > 500 * NSEC_MSEC) {
        looked = now;
        period_look();
    }
    if (now - window > WINDOW_NS) {
        window = now;
        step_boundary(TIER_TIME);
    }
}

/* For measuring what the library costs: 0 makes it inert, 1 active again. Memory is not counted in between. */
void muster_gpu_switch(int on)
{
    if (shim.page_fd >= 0)
        atomic_store(&shim.on, on ? 1 : 0);
}

/* The driver's own function behind a wrapper, for measuring the difference in one process; NULL: no such name. */
void *muster_gpu_real(const char *name)
{
    (void)shim_ready();
    return resolve_real(name);
}

/* One number for tests and tools inside the process; UINT64_MAX: no such name. */
uint64_t muster_gpu_stat(const char *name)
{
    struct page_counters sum = { 0 };
    struct page_memory *m = &shim.page->memory[gpu_first()];
    struct page_moves *moves = &shim.page->moves[gpu_first()];
    uint64_t seq = __atomic_load_n(&shim.page->step.seq, __ATOMIC_ACQUIRE);

    for (int i = 0; i < PAGE_STRIPES; i++) {
        struct page_counters *c = &shim.page->counters[i];

        sum.launches += __atomic_load_n(&c->launches, __ATOMIC_RELAXED);
        sum.graph_launches += __atomic_load_n(&c->graph_launches, __ATOMIC_RELAXED);
        sum.copies += __atomic_load_n(&c->copies, __ATOMIC_RELAXED);
        sum.syncs += __atomic_load_n(&c->syncs, __ATOMIC_RELAXED);
        sum.gate_waits += __atomic_load_n(&c->gate_waits, __ATOMIC_RELAXED);
        sum.gated_ns += __atomic_load_n(&c->gated_ns, __ATOMIC_RELAXED);
        sum.unknown += __atomic_load_n(&c->unknown, __ATOMIC_RELAXED);
        sum.fail_open += __atomic_load_n(&c->fail_open, __ATOMIC_RELAXED);
        sum.bytes_copied += __atomic_load_n(&c->bytes_copied, __ATOMIC_RELAXED);
    }
#define STAT(text, value)                                                                                              \
    if (strcmp(name, text) == 0)                                                                                       \
    return (uint64_t)(value)
    STAT("on", atomic_load(&shim.on) == 1);
    STAT("registered", shim.registered);
    STAT("role", shim.role);
    STAT("mode", shim.mode);
    STAT("launches", sum.launches);
    STAT("graph_launches", sum.graph_launches);
    STAT("copies", sum.copies);
    STAT("bytes_copied", sum.bytes_copied);
    STAT("syncs", sum.syncs);
    STAT("gate_waits", sum.gate_waits);
    STAT("gated_ns", sum.gated_ns);
    STAT("unknown", sum.unknown);
    STAT("fail_open", sum.fail_open);
    STAT("used", __atomic_load_n(&m->used, __ATOMIC_RELAXED));
    STAT("peak", __atomic_load_n(&m->peak, __ATOMIC_RELAXED));
    STAT("host_backed", __atomic_load_n(&m->host_backed, __ATOMIC_RELAXED));
    STAT("saved", __atomic_load_n(&m->saved, __ATOMIC_RELAXED));
    STAT("movable", __atomic_load_n(&m->movable, __ATOMIC_RELAXED));
    STAT("cap_hits", __atomic_load_n(&m->cap_hits, __ATOMIC_RELAXED));
    STAT("soft_refusals", __atomic_load_n(&m->soft_refusals, __ATOMIC_RELAXED));
    STAT("spills", __atomic_load_n(&m->spills, __ATOMIC_RELAXED));
    STAT("promotions", __atomic_load_n(&m->promotions, __ATOMIC_RELAXED));
    STAT("context", __atomic_load_n(&m->class_bytes[CLASS_CONTEXT], __ATOMIC_RELAXED));
    STAT("largest_hole", __atomic_load_n(&moves->largest_hole, __ATOMIC_RELAXED));
    STAT("spilled_bytes", __atomic_load_n(&moves->spilled_bytes, __ATOMIC_RELAXED));
    STAT("spill_ns", __atomic_load_n(&moves->spill_ns, __ATOMIC_RELAXED));
    STAT("promoted_bytes", __atomic_load_n(&moves->promoted_bytes, __ATOMIC_RELAXED));
    STAT("promote_ns", __atomic_load_n(&moves->promote_ns, __ATOMIC_RELAXED));
    STAT("step_peak", seq ? __atomic_load_n(&shim.page->step_peak[(seq - 1) % PAGE_STEPS], __ATOMIC_RELAXED) : 0);
    STAT("steps", seq);
    STAT("tier", __atomic_load_n(&shim.page->step.tier, __ATOMIC_RELAXED));
    STAT("step_wall_us",
         seq ? __atomic_load_n(&shim.page->step.ring[(seq - 1) % PAGE_STEPS].wall_us, __ATOMIC_RELAXED) : 0);
    STAT("slice_groups", slice_groups());
    STAT("slice_ok", shim.page->health.slice_ok);
    STAT("flags", shim.page->health.flags);
    STAT("area_bytes", shim.page->health.area_bytes);
    STAT("pool_bytes", shim.page->health.pool_bytes);
    STAT("inside", inside_count());
    STAT("captures", atomic_load(&shim.captures));
    STAT("waiters", inside_waiters());
    STAT("substitutions", resolve_substitutions());
    STAT("pinned", shim.page->health.pinned_bytes);
#undef STAT
    return UINT64_MAX;
}
