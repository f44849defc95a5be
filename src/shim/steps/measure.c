/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c - how long the next steps take, by themselves: their median.
 *
 * The node side asks when nobody else may launch, to know what alone is. What was in flight then is in the first two
 * steps, which do not count; neither do windows of time, which are no steps.
 */
#include <errno.h>

#include "shim/shim.h"

#define SETTLE 2u

static struct {
    uint64_t seq, start, deadline, read;
    uint32_t wanted, taken, skip;
    uint32_t us[PAGE_STEPS]; /* in order */
} measure;

void measure_begin(uint64_t seq, uint64_t steps, uint64_t deadline_ns)
{
    measure.seq = seq;
    measure.start = clock_ns();
    measure.deadline = deadline_ns;
    measure.read = __atomic_load_n(&shim.page->step.seq, __ATOMIC_ACQUIRE);
    measure.wanted = steps == 0 ? 1 : steps < PAGE_STEPS ? (uint32_t)steps : PAGE_STEPS;
    measure.taken = 0;
    measure.skip = SETTLE;
}

static void take(uint32_t us)
{
    uint32_t at = measure.taken++;

    for (; at > 0 && measure.us[at - 1] > us; at--)
        measure.us[at] = measure.us[at - 1];
    measure.us[at] = us;
}

bool measure_look(uint64_t *ret_seq, int64_t *ret_us, uint64_t *ret_start)
{
    const struct page_step *step = &shim.page->step;
    uint64_t seq = __atomic_load_n(&step->seq, __ATOMIC_ACQUIRE);

    if (!measure.seq)
        return false;
    if (seq - measure.read > PAGE_STEPS)
        measure.read = seq - PAGE_STEPS;
    for (; measure.read < seq && measure.taken < measure.wanted; measure.read++) {
        const struct page_step_record *r = &step->ring[measure.read % PAGE_STEPS];

        if (r->tier >= TIER_TIME)
            continue;
        if (measure.skip)
            measure.skip--;
        else
            take(__atomic_load_n(&r->wall_us, __ATOMIC_RELAXED));
    }
    if (measure.taken < measure.wanted && clock_ns() < measure.deadline)
        return false;
    *ret_seq = measure.seq;
    *ret_start = measure.start;
    *ret_us = measure.taken < measure.wanted ? -ETIMEDOUT : (int64_t)measure.us[measure.taken / 2];
    measure.seq = 0;
    return true;
}
