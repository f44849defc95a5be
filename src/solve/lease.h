/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* lease.h - plans of leases (Chronus, Gao et al., SoCC'21): who holds its GPUs in which lease, so that everybody has as
 * many leases as it needs before its deadline.
 *
 * Leases are numbered from 0, the next to begin. A task needs `need` of them, any, before lease `last[p]` to keep its
 * deadline p; the last of its deadlines has to be kept. Quick ways that may miss a plan (greedy, backward), a quick
 * proof that there is none (bound), and a search that finds out, in as many steps as it is given. The exact plan with
 * the most value is found outside (work/lease_milp.h). Integers only; all memory is the caller's.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

enum { LEASE_STEPS = 4, LEASE_SEARCH_TASKS = 64, LEASE_SEARCH_LEASES = 64 };

struct lease_task {
    int64_t id;
    int32_t size;               /* GPUs, rounded up; > 0 */
    int32_t need;               /* leases; > 0 */
    int32_t steps;              /* deadlines, 1..LEASE_STEPS */
    int32_t last[LEASE_STEPS];  /* leases there are before each; ascending */
    int32_t value[LEASE_STEPS]; /* what keeping it is worth; descending */
};

struct lease_problem {
    const struct lease_task *tasks;
    int32_t count, leases;
    const int32_t *capacity; /* GPUs in each lease */
    int sigma;               /* -1: lease 0 is to be used as little as possible, +1: as much */
};

/* bits: count x lease_words(leases), zeroed by the solver. */
struct lease_plan {
    uint64_t *bits;
    int32_t *used; /* [leases] */
    int32_t *step; /* [count]: which deadline each keeps */
};

static inline int32_t lease_words(int32_t leases)
{
    return (leases + 63) / 64;
}

static inline bool lease_has(const uint64_t *bits, int32_t lease)
{
    return bits[lease / 64] >> (lease % 64) & 1;
}

/* What a job is planned with: the next power of two up to a node, whole nodes above it. `node` is a power of two. */
int32_t lease_round_up(int32_t gpus, int32_t node);

/* What planning assumes of time. Costs grow with the logarithm of the GPUs. */
struct lease_times {
    usec_t lease;
    usec_t save, restore; /* of a job on one GPU */
    ppm_t safety;         /* 1,100,000 = a tenth more than the estimate */
};

/* What one more interruption costs a job of so many GPUs: (save + restore) (1 + log2 gpus). */
usec_t lease_cost(const struct lease_times *times, int32_t gpus);

/* The estimate with its margin and one interruption a lease, as the paper's artifact has it, in whole units. */
usec_t lease_estimate(const struct lease_times *times, usec_t duration, int32_t gpus, usec_t unit);

/* Iteration time on so many nodes, from those on one and on two: t1 + log2(n) (t2 - t1). */
usec_t lease_iteration(usec_t one, usec_t two, int32_t nodes);

/* Latest leases first, the widest tasks first, those with the least slack before others. Whether all fit. */
bool lease_greedy(const struct lease_problem *problem, struct lease_plan *plan, int32_t *order);

/* Lease by lease from the last: those who need most of what is left first. `left`: [count]. */
bool lease_backward(const struct lease_problem *problem, struct lease_plan *plan, int32_t *order, int32_t *left);

/* False: there is no plan, for some first leases cannot hold what cannot be put later. */
bool lease_bound(const struct lease_problem *problem);

/* 1 and a plan, 0 (there is none), -EAGAIN when `budget` choices were not enough, -E2BIG for a problem too large. */
int lease_search(const struct lease_problem *problem, int64_t budget, struct lease_plan *plan);

/* Raises tasks to earlier deadlines, the most valuable first, then empties or fills lease 0 as sigma says. The plan
 * must hold and keep its deadlines. */
void lease_improve(const struct lease_problem *problem, struct lease_plan *plan);

/* Value kept, and the share of lease 0 that is used, counted as sigma says; in thousandths. */
int64_t lease_objective(const struct lease_problem *problem, const struct lease_plan *plan);

/* Whether the plan gives everybody what it needs, in time, with nothing given twice. */
bool lease_valid(const struct lease_problem *problem, const struct lease_plan *plan);
