/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* ring.h - the last minute of a GPU or of a job on it, second by second: utilisation and memory.
 *
 * A sample that did not come counts as the one before it. Pure.
 */
#include "base/units.h"

enum { RING_SECONDS = 60 };

struct ring {
    uint8_t percent[RING_SECONDS];
    uint32_t mib[RING_SECONDS];
    int64_t second; /* of the newest sample */
    uint32_t count; /* samples so far, up to RING_SECONDS */
};

void ring_init(struct ring *ring);

/* What was measured at `now`; a later one of the same second replaces it, but the higher memory stays. */
void ring_add(struct ring *ring, usec_t now, uint32_t percent, uint32_t mib);

/* Mean utilisation of the last `seconds` (1..60) in hundredths of a percent, rounded down; -1: nothing was measured. */
int32_t ring_mean(const struct ring *ring, usec_t now, uint32_t seconds);

/* The most memory in the last `seconds`; 0: nothing was measured. */
uint32_t ring_peak(const struct ring *ring, usec_t now, uint32_t seconds);
