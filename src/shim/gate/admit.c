/* SPDX-License-Identifier: Apache-2.0 */
/* admit.c - the admission rule of an opportunistic job's launches.
 *
 * A launch enters while the guaranteed job is idle, little enough is in flight, and what is in flight and the launch
 * itself end `guard` before the predicted end of the gap. A kernel longer than the gap enters only at its very start,
 * where the hardware time slice bounds the damage, and without one is charged to the leak. A prediction that the gap
 * has outlived twice over is void: then only the amount in flight counts, or a job would stand still beside an idle
 * neighbour.
 */
#include "shim/gate/admit.h"

static uint32_t clamp(uint32_t x, uint32_t high)
{
    return x < high ? x : high;
}

void admit_map(uint32_t share, struct admit_knobs *ret)
{
    uint32_t u = clamp(share, PAGE_PERMILLE);

    ret->window_us = clamp(100 + u / 2, 600);
    ret->guard_us = 400 - (int32_t)(3 * u / 10);
    ret->gap_min_us = 1200 - u;
    ret->leak = u > 700 ? (u - 700) / 3 : 0;
    ret->leak_from = ADMIT_LEAK_FROM;
}

uint32_t admit_window(uint32_t window_us, uint32_t most_us, uint32_t share, uint32_t gap_pred_us, bool sliced)
{
    uint32_t wide = clamp(gap_pred_us / 8 * 3, most_us);

    return sliced && share >= ADMIT_WIDE_SHARE && wide > window_us ? wide : window_us;
}

void admit_leak(struct admit_knobs *knobs, uint32_t share, bool sliced)
{
    if (!sliced || share < ADMIT_WIDE_SHARE)
        return;
    knobs->leak = ADMIT_LEAK_WIDE;
    knobs->leak_from = ADMIT_LEAK_WIDE_FROM;
}

enum admit_verdict admit_harvest(const struct admit_knobs *knobs, const struct admit_state *state)
{
    uint64_t pred = state->gap_pred_us, burst = state->burst_pred_us;
    uint64_t cost = state->cost_us < ADMIT_TINY_US ? 0 : state->cost_us;
    int64_t guard = knobs->guard_us;

    if (state->rg_state == RG_ABSENT || state->rg_state >= RG_COUNT)
        return ADMIT_GO;
    if (state->rg_state == RG_ACTIVE) /* late in a burst it queues up for the gap; early it would delay the burst */
        return knobs->leak == 0 || (state->inflight_us > 0 && state->inflight_us + cost > knobs->window_us) ||
                       state->leak_empty || state->elapsed_us < burst * knobs->leak_from / PAGE_PERMILLE
                   ? ADMIT_WAIT_RG
                   : ADMIT_GO_LEAK;
    if (pred != 0 && state->elapsed_us > 2 * pred + (uint64_t)(guard > 0 ? guard : 0))
        pred = 0;
    if (pred != 0 && pred < knobs->gap_min_us)
        return ADMIT_WAIT_SHORT;
    if (state->inflight_us > 0 && state->inflight_us + cost > knobs->window_us)
        return ADMIT_WAIT_FENCE;
    if (pred == 0)
        return ADMIT_GO;
    if ((int64_t)pred - (int64_t)state->elapsed_us >= (int64_t)(state->inflight_us + cost) + guard)
        return ADMIT_GO;
    if (cost > pred - pred / 4 && state->inflight_us == 0 && state->elapsed_us < pred / 10)
        return !state->unsliced ? ADMIT_GO : knobs->leak == 0 || state->leak_empty ? ADMIT_WAIT_FENCE : ADMIT_GO_LEAK;
    return ADMIT_WAIT_FENCE;
}

/* A gate that closes at a boundary: has it? */
static uint32_t gate_now(const struct page_control *control, uint64_t steps, uint64_t now_ns)
{
    uint32_t gate = __atomic_load_n(&control->gate, __ATOMIC_ACQUIRE);

    if (gate != GATE_CLOSING)
        return gate;
    if (steps >= __atomic_load_n(&control->close_step, __ATOMIC_RELAXED) ||
        now_ns >= __atomic_load_n(&control->close_by_ns, __ATOMIC_RELAXED))
        return GATE_CLOSED;
    gate = __atomic_load_n(&control->close_from, __ATOMIC_RELAXED);
    return gate == GATE_HARVEST || gate == GATE_DUTY ? gate : GATE_OPEN;
}

/* The end is written before what it belongs to, and read after: another thread finds both or neither. */
static void lease_put(struct admit_lease *lease, uint64_t until_ns, uint64_t end_ns)
{
    __atomic_store_n(&lease->end_ns, end_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&lease->seen_ns, until_ns, __ATOMIC_RELEASE);
}

uint64_t admit_lease_end(struct admit_lease *lease, uint64_t until_ns, uint64_t now_ns)
{
    if (__atomic_load_n(&lease->seen_ns, __ATOMIC_ACQUIRE) == until_ns)
        return __atomic_load_n(&lease->end_ns, __ATOMIC_RELAXED);
    if (until_ns <= now_ns || until_ns - now_ns <= ADMIT_LEASE_MOST_NS)
        return until_ns;
    lease_put(lease, until_ns, now_ns + ADMIT_LEASE_MOST_NS);
    return now_ns + ADMIT_LEASE_MOST_NS;
}

void admit_lease_own(struct admit_lease *lease, uint64_t until_ns)
{
    lease_put(lease, until_ns, until_ns);
}

struct admit_rule admit_effective(const struct page_control *control, struct admit_lease *seen, uint64_t steps,
                                  uint64_t now_ns)
{
    uint32_t gate = gate_now(control, steps, now_ns);
    uint64_t until = __atomic_load_n(&control->gate_until_ns, __ATOMIC_RELAXED);
    uint64_t lease = admit_lease_end(seen, __atomic_load_n(&control->lease_until_ns, __ATOMIC_RELAXED), now_ns);
    struct admit_rule rule = { GATE_OPEN, clamp(__atomic_load_n(&control->share, __ATOMIC_RELAXED), PAGE_PERMILLE),
                               clamp(__atomic_load_n(&control->duty, __ATOMIC_RELAXED), PAGE_PERMILLE) };
    uint64_t end = lease;

    if (gate >= GATE_COUNT || gate == GATE_OPEN)
        return rule;
    rule.gate = (enum page_gate)gate;
    if (now_ns <= lease) {
        if (until != 0 && now_ns > until)
            rule.gate = GATE_OPEN;
        return rule;
    }
    if (gate == GATE_CLOSED) {
        if (until > lease)
            end = until - lease < ADMIT_CLOSED_PAST_NS ? until : lease + ADMIT_CLOSED_PAST_NS;
        if (now_ns <= end)
            return rule;
        rule.gate = GATE_DUTY;
        rule.duty = 100;
    }
    if (now_ns - end > ADMIT_ORPHAN_NS)
        rule.gate = GATE_OPEN;
    rule.share = clamp(rule.share, 200);
    return rule;
}

bool admit_doubt(uint64_t lease_ns, uint64_t beat_ns, uint64_t now_ns)
{
    return now_ns > lease_ns && now_ns > beat_ns && now_ns - beat_ns > ADMIT_BEAT_OLD_NS;
}

bool admit_bucket_ready(struct admit_bucket *bucket, uint64_t now_ns, uint32_t permille, uint32_t burst_us)
{
    uint64_t span = now_ns - bucket->filled_ns, gain;

    if (bucket->filled_ns == 0 || now_ns < bucket->filled_ns) {
        bucket->filled_ns = now_ns;
        bucket->level_us = (int64_t)burst_us;
        return true;
    }
    gain = span / 1000 * clamp(permille, PAGE_PERMILLE) / PAGE_PERMILLE;
    if (gain > 0) {
        bucket->filled_ns = now_ns;
        bucket->level_us += (int64_t)(gain < 60000000 ? gain : 60000000);
    }
    if (bucket->level_us > (int64_t)burst_us)
        bucket->level_us = (int64_t)burst_us;
    return bucket->level_us > 0;
}

void admit_bucket_spend(struct admit_bucket *bucket, uint64_t us)
{
    bucket->level_us -= (int64_t)(us < 10000000 ? us : 10000000);
}
