/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* trial.h - which of several opportunistic jobs gains most by a unit of memory? Found out by trying.
 *
 * A split of the units is tried for a while, scored by the sum of speed / speed alone, and kept if it beats the best so
 * far. One unit moves from one job to another; when no such move helps, everything above the least moves, since some
 * jobs gain nothing by a little more and much by a lot. Pure; scores come with the call.
 */
#include <stdbool.h>
#include <stdint.h>

enum { TRIAL_JOBS = 8, TRIAL_UNIT_MIB = 1024, TRIAL_SECONDS = 10 };

struct trial {
    uint32_t count, capacity;
    uint32_t least[TRIAL_JOBS]; /* units below which a job does not run */
    uint32_t best[TRIAL_JOBS];  /* the split kept */
    uint32_t now[TRIAL_JOBS];   /* the split being tried */
    uint64_t score;             /* of the best */
    uint32_t move, failed;      /* which move is tried; how many in a row have not helped */
    bool begun, settled;
};

/* Starts from an even split. False: the least that all of them need is more than there is. */
bool trial_init(struct trial *trial, uint32_t capacity, const uint32_t *least, uint32_t count);

/* `now` was given to the jobs and they ran so fast in sum (any unit). Sets `now` to what is tried next: the best, once
 * it is settled. Returns whether something is still to be tried. */
bool trial_result(struct trial *trial, uint64_t score);

/* Jobs have changed what they do: what was found is tried anew, from the best so far. */
void trial_again(struct trial *trial);
