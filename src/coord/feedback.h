/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* feedback.h - AntMan's own rule for the duty of opportunistic jobs: up by ten while nobody is hurt, halved otherwise.
 *
 * x, 0..100, is the part of the time in which such a job may be active. Used where a job's launches can only be delayed
 * and the guaranteed job's gaps cannot be seen; where they can, share.h does better. Pure; time comes with the call.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

#define FEEDBACK_START 10u
#define FEEDBACK_MIN 1u
#define FEEDBACK_MAX 100u
#define FEEDBACK_STEP 10u
#define FEEDBACK_EPS 50u /* permille */
#define FEEDBACK_PAUSE (30 * USEC_SEC)

struct feedback {
    uint32_t x, eps;     /* percent, permille */
    uint32_t violations; /* in a row at x = 1 */
    usec_t paused_until; /* 0 = not paused */
};

void feedback_init(struct feedback *feedback, uint32_t eps);

/* One period is over: the guaranteed job's mini-batch took `slowdown` permille longer than alone. Returns x; 0 while
 * paused, which is after two violations in a row at the least x. */
uint32_t feedback_period(struct feedback *feedback, uint32_t slowdown, usec_t now);

/* Whether it still pauses; after the pause it starts from the least x. */
bool feedback_paused(struct feedback *feedback, usec_t now);
