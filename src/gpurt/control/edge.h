/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* edge.h - how close to the end of a gap may a neighbour run?
 *
 * The gate keeps a guard free before the predicted end of a gap. How much of it is needed depends on how far the
 * estimates of the neighbour's kernels are off, which nobody knows beforehand. So the edge is found, while the share is
 * at its top.
 *
 * Where neighbours count the gaps at whose end they still had work in flight, or had none for too short a time, by
 * that: the end of a neighbour's work and the hand-over lie in the gap then (shim/gate/warm.c), and beyond the point
 * where they no longer do both jobs lose. On a real card a neighbour that ran 200 us into the guard had less for it
 * than one that ran 140, and the guaranteed job lost twice as much. And a wider guard where none was late would help
 * nobody, however slow the steps are: what is left then is cold caches.
 *
 * Where they do not count, by the integral of (slowdown - aim): the guaranteed job's median step settles at the aim
 * instead of far below what it may lose.
 *
 * Below the top the share's own law is in charge and the edge stays; a cut takes back half of what was beyond the
 * guard.
 *
 * Pure, integers. The aim lies below the tolerance (eps) by more than a period's noise, or the cuts would be for
 * nothing.
 */
#include <stdbool.h>
#include <stdint.h>

#define EDGE_MOST_US 600    /* beyond the guard's end */
#define EDGE_BACK_US 250    /* before its begin */
#define EDGE_STEP_US 120    /* a period moves it by no more */
#define EDGE_SHARE_MIN 900u /* the top of the share: where the gate keeps a wide window in flight */
#define EDGE_GAPS_MIN 8u    /* fewer in a period say nothing */
#define EDGE_NEARER_US 48   /* a period's, and back for each gap that came too late: one in ten is to */
#define EDGE_LATE_US 12

struct edge {
    int32_t us;   /* added to the guard: below 0 a neighbour runs longer */
    uint32_t aim; /* permille of a step; 0 = off, the edge stays 0 */
};

/* The aim of a tolerance: three quarters of it. */
uint32_t edge_aim(uint32_t eps);
void edge_init(struct edge *edge, uint32_t aim);

/* What neighbours count at the gate. */
struct gaps {
    uint64_t seen, late; /* ends of gaps, and of those, too late */
    uint64_t waits;      /* launches that were held */
};

/* What a period of the pair says. */
struct edge_look {
    int32_t slowdown;    /* permille, -1 unknown */
    uint32_t eps, share; /* the tolerance, what the neighbours have */
    uint32_t step_us;    /* how long a step takes */
    uint32_t gaps;       /* whose ends the neighbours have seen, */
    uint32_t late;       /* and of those, too late */
    bool held;           /* they were kept waiting at all: one that starts up has nothing that could be late */
};

int32_t edge_period(struct edge *edge, const struct edge_look *look);
