/* SPDX-License-Identifier: Apache-2.0 */
/* home.c - memory comes home at the ends of steps, and takes no more than a quarter of a step each time.
 *
 * How much that is follows from how long the last step took and how quickly the last pieces were copied. A program of
 * which no step ends for a second gets a quarter of one anyhow; one that is paused gets everything at once. A limit
 * that is set meanwhile does not wait for that: the move is dropped, and nobody waits for its answer.
 */
#include "shim/gate/admit.h"
#include "shim/shim.h"

#define STEP_PART 4u
#define PATIENCE_NS NSEC_SEC
#define RATE_FIRST 45000u /* bytes a microsecond; what an H200 does */
#define RATE_MOST 60000u
#define RATE_LEAST 100u

static struct {
    uint64_t seq, start, deadline, most, last_ns, last_step;
    int64_t moved;
    int gpu;
} home;
static uint64_t rate = RATE_FIRST;

void home_begin(uint64_t seq, int gpu, uint64_t most, uint64_t deadline_ns)
{
    home.seq = seq;
    home.gpu = gpu;
    home.most = most;
    home.deadline = deadline_ns;
    home.moved = 0;
    home.start = home.last_ns = clock_ns();
    home.last_step = __atomic_load_n(&shim.page->step.seq, __ATOMIC_ACQUIRE);
}

void home_drop(void)
{
    home.seq = 0;
}

/* How many bytes may move now; 0: wait. */
static uint64_t home_budget(uint64_t now)
{
    const struct page_step *step = &shim.page->step;
    uint64_t seq = __atomic_load_n(&step->seq, __ATOMIC_ACQUIRE), us = PATIENCE_NS / NSEC_USEC, bytes;

    if (gate_rule().gate == GATE_CLOSED)
        return UINT64_MAX;
    if (seq == home.last_step && now - home.last_ns < PATIENCE_NS)
        return 0;
    if (seq != home.last_step)
        us = __atomic_load_n(&step->ring[(seq - 1) % PAGE_STEPS].wall_us, __ATOMIC_RELAXED);
    home.last_step = seq;
    home.last_ns = now;
    bytes = us / STEP_PART * rate;
    return bytes > VMM_GRAIN ? bytes : VMM_GRAIN;
}

static void rate_learn(int64_t bytes)
{
    uint64_t us = move_times()->copy_ns / NSEC_USEC, seen = us ? (uint64_t)bytes / us : RATE_MOST;

    seen = seen < RATE_LEAST ? RATE_LEAST : seen > RATE_MOST ? RATE_MOST : seen;
    rate = (3 * rate + seen) / 4;
}

bool home_look(uint64_t *ret_seq, int64_t *ret_moved, uint64_t *ret_start)
{
    uint64_t now = clock_ns(), budget, left;
    int64_t r = 0;
    bool over;

    if (!home.seq)
        return false;
    budget = home_budget(now);
    if (budget == 0 && now < home.deadline)
        return false;
    left = home.most ? home.most - (uint64_t)home.moved : UINT64_MAX;
    budget = budget < left ? budget : left;
    if (budget)
        r = spill_promote(home.gpu, budget == UINT64_MAX ? 0 : budget, now + NSEC_SEC);
    if (r > 0) {
        rate_learn(r);
        home.moved += r;
    }
    over = r <= 0 || now >= home.deadline || (home.most && (uint64_t)home.moved >= home.most) ||
           __atomic_load_n(&shim.page->memory[home.gpu].host_backed, __ATOMIC_RELAXED) == 0;
    if (!over)
        return false;
    *ret_seq = home.seq;
    *ret_moved = home.moved ? home.moved : r;
    *ret_start = home.start;
    home.seq = 0;
    return true;
}
