/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* share.h - how much of the guaranteed job's idle time may its neighbours have?
 *
 * u, 0..1000, is raised while the guaranteed job's step is within eps of its baseline and cut when it is not: additive
 * increase after a slow start, multiplicative decrease. Pure; integers; time comes with the call.
 */
#include <stdbool.h>
#include <stdint.h>

#define SHARE_START 25u
#define SHARE_MAX 1000u
#define SHARE_EPS 20u
#define SHARE_PAUSE_MS 30000u
#define SHARE_PAUSE_MAX_MS 600000u

struct share {
    uint32_t u, eps; /* permille */
    uint32_t pause_ms;
    uint64_t paused_until_ms; /* 0 = not paused */
    bool slow_start;
};

void share_init(struct share *share, uint32_t eps);

/* One period is over: the step was `slowdown` permille above its baseline. Returns u; 0 while paused. */
uint32_t share_period(struct share *share, uint32_t slowdown, uint64_t now_ms);

/* Is the pause over? Restarts with u = 25 when it is. */
bool share_paused(struct share *share, uint64_t now_ms);
