/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* pair.h - the loop around a guaranteed job and those that share its GPU: what may they have, now?
 *
 * When the pair forms its neighbours stay closed while twenty steps of the guaranteed job are measured. Then, each
 * period (500 ms or eight steps, whichever is longer; for the duty law a second or five), the law moves their share by
 * how far the steps lie above what they were alone. What "alone" is, is measured again every five minutes, and when the
 * steps are no longer of a kind that was measured: the job has changed its phase.
 *
 * Pure: steps and time come with the calls. The node runs it on real GPUs, the simulator on modelled ones.
 */
#include "base/units.h"
#include "coord/baseline.h"
#include "coord/feedback.h"
#include "coord/share.h"

enum pair_law {
    PAIR_GAPS, /* share.h: neighbours run in the gaps of the guaranteed job; 0..1000 */
    PAIR_DUTY, /* feedback.h: neighbours run a part of the time; 0..1000, ten times x */
    PAIR_LAW_COUNT
};

struct pair {
    enum pair_law law;
    struct baseline baseline;
    struct share share;
    struct feedback feedback;
    usec_t period_since, baseline_at;
    uint32_t launches[BASELINE_PERIOD_STEPS], wall_us[BASELINE_PERIOD_STEPS], steps;
    bool baselining;
    uint32_t measure; /* steps that one bucket needs */
    int32_t slowdown; /* permille, of the last period; -1 unknown */
};

/* A pair forms. eps: permille by which the guaranteed job's step may grow. */
void pair_begin(struct pair *pair, enum pair_law law, uint32_t eps, usec_t now);

/* The guaranteed job has done a step of so many launches in so long. */
void pair_step(struct pair *pair, uint32_t launches, uint32_t wall_us);

/* What the neighbours have now, in permille; 0 = closed. */
uint32_t pair_turn(struct pair *pair, usec_t now);
