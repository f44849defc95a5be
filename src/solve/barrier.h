/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* barrier.h - how all workers of a job come to a stop at the same collective, without a channel of their own
 * (Singularity, 2022).
 *
 * Every collective of the job is paired with a tiny sum over all workers of two numbers, (need, ack). A worker that was
 * told to stop adds need = 1. Whoever sees a sum of needs above 0 goes into the second phase: from its next collective
 * on it waits for each pair before it goes on, and adds ack = 1. In the first phase nobody waits, so workers see a sum
 * some collectives late, each at its own time; but it is the same sum for all, so the first collective to which all
 * have added an ack is the same for all, and there they stop.
 */
#include <stdbool.h>
#include <stdint.h>

struct barrier {
    int32_t world;
    bool told;    /* the command has come */
    bool second;  /* waits for every pair, and acknowledges */
    bool stopped; /* after the collective it has seen last */
};

struct barrier_pair {
    int32_t need, ack;
};

void barrier_init(struct barrier *b, int32_t world);

/* The command to stop reaches this worker. */
void barrier_tell(struct barrier *b);

/* What it adds to the pair of its next collective. */
struct barrier_pair barrier_give(const struct barrier *b);

/* The sum of a collective's pair is seen. True: stop here. */
bool barrier_see(struct barrier *b, struct barrier_pair sum);
