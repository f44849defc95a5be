/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* solve.h - computations too long for a step, as data: numbers out, numbers back.
 *
 * A planner asks with plan_solve(); the request leaves the core as EFFECT_SOLVE. The driver carries it out, on a worker
 * in a daemon, at once in a simulation, and offers what came of it as EVENT_SOLVED with the same ticket. What a request
 * and its answer mean is agreed between the planner and the solver of that kind (src/work). An answer is an event like
 * any other: it is checked, it is in the log, and a replay takes it from there. So a solver may allocate and take its
 * time, but the same request must give the same answer: its effort is limited by counting, never by a clock.
 */
#include <stdint.h>

enum solve_kind {
    SOLVE_ECHO,   /* answers the request itself; for tests */
    SOLVE_LEASES, /* a lease plan, exactly (work/lease_milp.h) */
    SOLVE_PLACE,  /* a batch of gangs placed together (work/place_batch.h) */
    SOLVE_COUNT
};

/* What came back. No words: the solver gave up, or was lost with the driver that had it. */
struct solution {
    uint32_t kind;
    const int64_t *words; /* borrowed for the call */
    uint32_t count;
};
