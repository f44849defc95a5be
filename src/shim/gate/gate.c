/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c - what stands between a submission and the driver.
 *
 * A submission is delayed in the caller's own thread, never queued for another. Two words stop it: the node side's gate
 * (a futex in the process page) and `hold`, with which the helper keeps the device quiet while it moves memory.
 *
 * Holding is Dekker's pattern: a submitter first counts itself inside, then looks at `hold`; the helper first sets
 * `hold`, then waits until nobody is inside. Whichever comes second sees the other.
 */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>

#include "shim/gate/admit.h"
#include "shim/gate/bulk.h"
#include "shim/shim.h"

#define SPIN_NS (20 * NSEC_USEC)
#define LAST_US 300u /* of a gap's work: somebody waits to hear that it is over, warm.c */
#define LAST_SPIN_NS (200 * NSEC_USEC)
#define HOLD_YIELD_NS (100 * NSEC_MSEC)
#define TIDY_NAPS 200u /* somebody has been inside for 10 ms or more: perhaps it jumped out */

static struct admit_bucket duty_bucket, leak_bucket;
static struct admit_lease lease_seen;
static _Atomic uint32_t bucket_lock;
static _Atomic uint32_t settled; /* the helper found nobody inside: what is held stays out now */

void gate_hold(void)
{
    atomic_store(&settled, 0);
    atomic_fetch_or(&shim.hold, HOLD_ALL);
}

void gate_release(void)
{
    atomic_fetch_and(&shim.hold, ~HOLD_ALL);
    futex_wake(&shim.hold);
}

bool gate_quiet(uint64_t deadline_ns)
{
    uint32_t naps = 0;

    for (;;) {
        atomic_store(&settled, 1);
        if (inside_count() == 0 && atomic_load(&shim.captures) == 0)
            return true;
        atomic_store(&settled, 0);
        if (clock_ns() > deadline_ns)
            return false;
        if (++naps % TIDY_NAPS == 0) {
            inside_tidy();
            capture_tidy();
        }
        nap_ns(50 * NSEC_USEC);
    }
}

struct admit_rule gate_rule(void)
{
    return admit_effective(&shim.page->control, &lease_seen, __atomic_load_n(&shim.page->step.seq, __ATOMIC_ACQUIRE),
                           clock_ns());
}

void gate_lease_own(uint64_t until_ns)
{
    admit_lease_own(&lease_seen, until_ns);
    __atomic_store_n(&shim.page->control.lease_until_ns, until_ns, __ATOMIC_RELAXED);
}

/* Every thread that launches spends from the same bucket. */
static bool bucket_ready(struct admit_bucket *bucket, uint64_t now, uint32_t permille)
{
    bool ready;

    if (!spin_light(&bucket_lock))
        return true;
    ready = admit_bucket_ready(bucket, now, permille, ADMIT_DUTY_BURST_US);
    spin_light_end(&bucket_lock);
    return ready;
}

static void bucket_spend(struct admit_bucket *bucket, uint64_t us)
{
    if (!spin_light(&bucket_lock))
        return;
    admit_bucket_spend(bucket, us);
    spin_light_end(&bucket_lock);
}

static void fence_nap(CUstream stream)
{
    uint64_t left = fence_inflight_us(), until = clock_ns() + (left && left < LAST_US ? LAST_SPIN_NS : SPIN_NS);

    fence_cover(stream);
    while (clock_ns() < until) {
        uint64_t before = fence_inflight_us();

        fence_poll();
        if (fence_inflight_us() != before)
            return;
    }
    nap_ns(30 * NSEC_USEC);
}

static void knobs_read(const struct admit_rule *rule, const struct arena *arena, struct admit_knobs *ret)
{
    struct page_control *control = &shim.page->control;
    int32_t edge = __atomic_load_n(&control->edge_us, __ATOMIC_RELAXED);
    uint32_t window = __atomic_load_n(&control->window_us, __ATOMIC_RELAXED);
    uint32_t guard = __atomic_load_n(&control->guard_us, __ATOMIC_RELAXED);
    bool sliced = __atomic_load_n(&shim.page->health.slice_ok, __ATOMIC_RELAXED) != 0;
    bool told = rule->share == __atomic_load_n(&control->share, __ATOMIC_RELAXED);

    admit_map(rule->share, ret);
    if (told && window) {
        ret->window_us = window;
        ret->guard_us = guard < ADMIT_EDGE_MAX_US ? (int32_t)guard : ADMIT_EDGE_MAX_US;
        ret->gap_min_us = __atomic_load_n(&control->gap_min_us, __ATOMIC_RELAXED);
    }
    window = admit_window(ret->window_us, shim.window_us, rule->share,
                          __atomic_load_n(&arena->gap_pred_us, __ATOMIC_RELAXED), sliced);
    ret->guard_us += (int32_t)((window - ret->window_us) / 16); /* the sum of many guesses is less certain */
    if (told && edge >= -ADMIT_EDGE_MAX_US && edge <= ADMIT_EDGE_MAX_US)
        ret->guard_us += edge;
    ret->window_us = window;
    admit_leak(ret, rule->share, sliced);
    if (shim.leak_from != UINT32_MAX)
        ret->leak_from = shim.leak_from;
}

/* A guaranteed job that ended is told of by the node side. When that has gone too, we look. */
static bool rg_gone(const struct arena *arena, uint64_t now)
{
    uint64_t until = __atomic_load_n(&shim.page->control.lease_until_ns, __ATOMIC_RELAXED);
    uint64_t lease = admit_lease_end(&lease_seen, until, now);
    uint32_t pid = __atomic_load_n(&arena->rg_pid, __ATOMIC_RELAXED);
    int saved = errno;
    bool gone;

    if (likely(!admit_doubt(lease, __atomic_load_n(&arena->rg_beat_ns, __ATOMIC_RELAXED), now)) || pid == 0 ||
        pid > INT32_MAX)
        return false;
    gone = kill((pid_t)pid, 0) < 0 && errno == ESRCH;
    errno = saved;
    return gone;
}

static void state_read(const struct arena *arena, uint32_t leak, struct admit_state *ret)
{
    uint64_t now = clock_ns(), since = __atomic_load_n(&arena->rg_since_ns, __ATOMIC_RELAXED);

    ret->rg_state = __atomic_load_n(&arena->rg_state, __ATOMIC_ACQUIRE);
    ret->gap_pred_us = __atomic_load_n(&arena->gap_pred_us, __ATOMIC_RELAXED);
    ret->elapsed_us = now > since ? (now - since) / NSEC_USEC : 0;
    if (ret->rg_state == RG_ACTIVE && now > __atomic_load_n(&arena->rg_beat_ns, __ATOMIC_RELAXED) + 2 * NSEC_SEC &&
        ret->elapsed_us > 2000000)
        ret->rg_state = RG_IDLE; /* hung: no launch and no completion for 2 s */
    if (rg_gone(arena, now))
        ret->rg_state = RG_ABSENT;
    ret->burst_pred_us = __atomic_load_n(&arena->burst_pred_us, __ATOMIC_RELAXED);
    ret->inflight_us = fence_inflight_us();
    ret->unsliced = __atomic_load_n(&shim.page->health.slice_ok, __ATOMIC_RELAXED) == 0;
    ret->leak_empty = leak == 0 || !bucket_ready(&leak_bucket, now, leak);
}

/* One look at the harvest rule. True: go. */
static bool harvest_once(struct submit *submit, const struct admit_rule *rule, struct arena *arena)
{
    struct admit_knobs knobs;
    struct admit_state state = { .cost_us = submit->cost_us };
    enum admit_verdict verdict;
    uint32_t turn = __atomic_load_n(&arena->ot_turn_pid, __ATOMIC_RELAXED);

    if (turn && turn != shim.page->control.self_pid) { /* several neighbours take turns */
        futex_wait((_Atomic uint32_t *)&arena->ot_turn_pid, turn, 2 * NSEC_MSEC);
        return false;
    }
    knobs_read(rule, arena, &knobs);
    state_read(arena, knobs.leak, &state);
    verdict = admit_harvest(&knobs, &state);
    if (verdict == ADMIT_WAIT_FENCE) { /* perhaps it is complete already: asking costs more than guessing */
        fence_poll();
        state_read(arena, knobs.leak, &state);
        verdict = admit_harvest(&knobs, &state);
    }
    switch (verdict) {
    case ADMIT_GO:
        return true;
    case ADMIT_GO_LEAK:
        bucket_spend(&leak_bucket, submit->cost_us);
        return true;
    case ADMIT_WAIT_RG:
        warm_burst(arena);
        futex_wait((_Atomic uint32_t *)&arena->rg_state, RG_ACTIVE, 2 * NSEC_MSEC);
        return false;
    case ADMIT_WAIT_SHORT:
        futex_wait((_Atomic uint32_t *)&arena->rg_state, RG_IDLE, 200 * NSEC_USEC);
        return false;
    case ADMIT_WAIT_FENCE:
    case ADMIT_COUNT:
        break;
    }
    if (state.inflight_us == 0 && state.rg_state == RG_IDLE && state.gap_pred_us)
        warm_done(arena);
    fence_nap(submit->stream);
    return false;
}

static bool gate_once(struct submit *submit, enum submit_kind kind, struct admit_rule *rule)
{
    uint32_t word = __atomic_load_n(&shim.page->control.gate, __ATOMIC_RELAXED);
    struct arena *arena;

    *rule = gate_rule();
    switch (rule->gate) {
    case GATE_OPEN:
    case GATE_CLOSING:
    case GATE_COUNT:
        return true;
    case GATE_CLOSED:
        futex_wait((_Atomic uint32_t *)&shim.page->control.gate, word, 50 * NSEC_MSEC);
        return false;
    case GATE_DUTY:
        if (kind >= SUBMIT_COPY || bucket_ready(&duty_bucket, clock_ns(), rule->duty)) {
            bucket_spend(&duty_bucket, kind >= SUBMIT_COPY ? 0 : submit->cost_us);
            return true;
        }
        fence_poll(); /* what launches really take is learned here as well */
        nap_ns(200 * NSEC_USEC);
        return false;
    case GATE_HARVEST:
        break;
    }
    arena = arena_mine();
    return kind >= SUBMIT_COPY || !arena || harvest_once(submit, rule, arena);
}

/* Somebody inside keeps the helper from moving anything. It may be this very thread, interrupted by a handler of the
 * program that submits too: it would wait for itself. While the helper still waits, one more inside does no harm.
 * Counted as inside before this looks, and the helper says so before it counts: whichever is second sees the other.
 */
static bool hold_yields(uint64_t *since)
{
    uint64_t now = clock_ns();

    if (!*since)
        *since = now;
    return now - *since > HOLD_YIELD_NS && !atomic_load(&settled);
}

static __attribute__((noinline)) void gate_wait(struct submit *submit, enum submit_kind kind)
{
    uint64_t start = clock_ns(), since = 0;
    struct admit_rule rule;

    submit->gated = true;
    if (!shim_thread.precise) { /* naps here are shorter than the kernel's usual slack of 50 us */
        shim_thread.precise = 1;
        (void)prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);
    }
    submit->cost_us = fence_estimate(submit->key);
    if (gate_once(submit, kind, &rule))
        return;
    COUNT_ADD(gate_waits, 1);
    while (!gate_once(submit, kind, &rule)) {
        if (rule.gate != GATE_CLOSED && clock_ns() - start > ADMIT_G_MAX_NS) {
            COUNT_ADD(fail_open, 1);
            break;
        }
        /* A handler's, in the middle of a call of the same thread that the helper waits for: it would wait for ever. */
        if (atomic_load(&shim.hold) & HOLD_ALL && inside_already(submit) && hold_yields(&since))
            break;
    }
    COUNT_ADD(gated_ns, clock_ns() - start);
}

/* Inside, and the helper wants it quiet, or little in flight. Returns inside. */
static __attribute__((noinline)) void hold_wait(struct submit *submit, enum submit_kind kind)
{
    uint64_t since = 0;
    uint32_t hold;

    while ((hold = atomic_load(&shim.hold)) != 0) {
        /* What is recorded waits for nothing: while a capture is under way the helper does not settle. It may have
         * ended since the driver was asked, so this is said only as long as the helper has not. */
        if (submit->captured && (!(hold & HOLD_ALL) || !atomic_load(&settled)))
            return;
        if (!(hold & HOLD_ALL) && (submit->brief || kind >= SUBMIT_COPY))
            return;
        if ((hold & HOLD_ALL) && hold_yields(&since))
            return;
        inside_leave(submit);
        if (hold & HOLD_ALL) {
            futex_wait(&shim.hold, hold, submit->captured ? 50 * NSEC_USEC : 50 * NSEC_MSEC);
        } else {
            submit->brief = true;
            brief_wait();
        }
        inside_enter(submit);
    }
}

static void submit_init(struct submit *submit, uint64_t key, CUstream stream)
{
    submit->stripe = counters_mine();
    submit->key = key;
    submit->stream = stream;
    submit->probe = -1;
    submit->cost_us = 0;
    submit->gated = submit->brief = submit->captured = false;
}

/* A stream that captures makes the call a part of a graph, and the driver's alone. Memory that is
 * made, mapped or freed may belong to a capture whichever thread calls: that is not held up either. */
static __attribute__((noinline)) bool submit_captured(enum submit_kind kind, CUstream stream)
{
    return kind == SUBMIT_MEMORY || capture_into(stream);
}

void submit_enter(struct submit *submit, enum submit_kind kind, uint64_t key, CUstream stream)
{
    submit_init(submit, key, stream);
    if (capture_any())
        submit->captured = submit_captured(kind, stream);
    if (unlikely(__atomic_load_n(&shim.page->control.gate, __ATOMIC_RELAXED) != GATE_OPEN) && !submit->captured)
        gate_wait(submit, kind);
    inside_enter(submit);
    if (unlikely(atomic_load(&shim.hold)))
        hold_wait(submit, kind);
    if (unlikely(submit->gated) && kind < SUBMIT_COPY)
        submit->probe = fence_probe_begin(key, stream);
    if (shim.role == ROLE_GUARANTEED && !submit->captured)
        rg_submit(stream);
}

void submit_enter_capture(struct submit *submit)
{
    submit_init(submit, 0, NULL);
    if (unlikely(__atomic_load_n(&shim.page->control.gate, __ATOMIC_RELAXED) != GATE_OPEN))
        gate_wait(submit, SUBMIT_COPY);
    submit->gated = false;
    inside_enter(submit);
    if (unlikely(atomic_load(&shim.hold)))
        hold_wait(submit, SUBMIT_COPY);
}

void submit_leave(struct submit *submit, CUresult result)
{
    if (unlikely(submit->gated) && result == CUDA_SUCCESS) {
        fence_probe_end(submit->probe, submit->stream);
        if (submit->cost_us)
            fence_submitted(submit->stream, submit->cost_us);
    }
    if (unlikely(submit->brief) && result == CUDA_SUCCESS)
        brief_mark(submit->stream);
    inside_leave(submit);
}
