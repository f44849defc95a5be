/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* pace.h - how fast something counts, from looks at its counter: mini-batches of a job, told now and then.
 *
 * The rate is the median over the last looks, so that a validation, a slow load of data or a suspension in between does
 * not look like slowness: a clock that stands still is one look among many. The first look with a step in it is warm-up
 * (compilation, first touch of memory) and does not count. A counter that goes back begins again from there. Nothing
 * here trusts the counter: whatever it says, the rate is between 0 and PACE_RATE_MAX.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

enum { PACE_LOOKS = 16, PACE_LOOKS_MIN = 3 };
#define PACE_EVERY (USEC_SEC / 2) /* looks nearer to one another are taken as one */
#define PACE_RATE_MAX ((int64_t)1000000000000)

struct pace {
    bool any, warm;
    usec_t at; /* of the last look */
    int64_t count;
    int64_t rate[PACE_LOOKS]; /* of each look, in millionths a second */
    uint32_t next, looks;
};

/* The counter stands at `count` now. */
void pace_look(struct pace *pace, usec_t now, int64_t count);
/* Steps a second, in millionths; 0 = not known yet. */
int64_t pace_rate(const struct pace *pace);
/* What was seen no longer tells of what is to come: it runs elsewhere, or beside another. The counter goes on. */
void pace_forget(struct pace *pace);
