/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* reshape.h - what was done to running jobs, what it cost in GPU time, and what it brought. See docs/report.md. */
#include "sim/driver/driver_internal.h"

/* A decision of the core: counts it. */
void reshape_decided(struct driver *d, const struct decision *decision);

/* The job holds its GPUs for so long without progress because of what was last done to it. */
void reshape_cost(struct driver *d, uint32_t index, usec_t cost);

/* The job ran since it was last settled, at its present rate: what that is worth because of what was done to it. */
void reshape_gain(struct driver *d, uint32_t index);

/* It begins to run: its rate alone where it is, and before the move that has brought it there. */
void reshape_begin(struct driver *d, uint32_t index);
