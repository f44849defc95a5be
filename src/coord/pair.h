/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* pair.h - the loop around a guaranteed job and those that share its GPU: what may they have, now?
 *
 * When the pair forms its neighbours stay closed while twenty steps of the guaranteed job are measured. Then, each
 * period (500 ms or eight steps, whichever is longer; for the duty law a second or five), the law moves their share by
 * how far the steps lie above what they were alone.
 *
 * What "alone" is decides everything, and one look at it is off by as much as the tolerance is wide: a neighbour that
 * has just begun loads its code and takes its memory although its launches wait, and clocks move with the heat. So it
 * is measured once more after two seconds, then looked at for six steps each time a hundred times as long has passed as
 * that took (five seconds to five minutes), the newest twenty counting; and anew when the steps are no longer of a kind
 * that was measured: the job has changed its phase.
 *
 * Even so a look is not quite what alone was: a GPU whose neighbour has just been stopped still has its clocks and its
 * caches, and on a real card such steps were 1 % quicker than steps before anybody came, half of the tolerance. Where
 * those are known (pair_before()), they are the measure: a whole look says by how much looks are off, up to the
 * tolerance, and later ones only how alone has drifted since.
 *
 * One noisy period does not decide either. Steps up to twice the tolerance count only when the period before was over
 * it too; where the cut would be a pause, steps up to ten times the tolerance only when three were. And before any cut
 * the neighbours are closed for a few steps: if those are over the tolerance as well, it is the host or somebody else
 * who disturbs, and the period says nothing of them. Four times in a row; what lasts longer counts, and
 * gpurt/control/unruly.h looks at who suffers behind a gate that stays closed. And where the law only holds (between
 * half the tolerance and all of it) with a tenth of it to spare for two periods, more is tried: as much as would stay
 * inside if the slowdown were all the share's doing; and when the steps then show that it is not, half as much again. A
 * hand-over of the GPU costs the same at any share, on a real card more than half of the tolerance: the share would
 * otherwise fall with the noise and stay there, and the guaranteed job would have nothing of it.
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

#define PAIR_PROBE_STEPS 6

struct pair {
    enum pair_law law;
    struct baseline baseline, before; /* while they are held; before they came */
    struct share share;
    struct feedback feedback;
    usec_t period_since, baseline_at;
    uint32_t launches[BASELINE_PERIOD_STEPS], wall_us[BASELINE_PERIOD_STEPS], steps;
    bool baselining;
    bool probing; /* closed, to see whether what disturbs goes on without them */
    usec_t probe_at;
    uint32_t probes; /* steps of the probe so far */
    uint32_t probe_launches[PAIR_PROBE_STEPS], probe_us[PAIR_PROBE_STEPS];
    uint32_t over;      /* periods in a row that were over the tolerance */
    uint32_t acquitted; /* probes in a row that found it was not them */
    uint32_t settling;  /* steps still to be passed over: work of the neighbours' may be under way in them */
    uint32_t looks;     /* at being alone, so far; stops counting when they no longer measure anew */
    uint32_t repeats;   /* of a look that was disturbed */
    uint32_t taken;     /* steps of this look that count */
    usec_t next_look;   /* when the next is due */
    int32_t anchor;     /* permille by which steps before are longer than steps of a look */
    uint32_t periods;   /* that ended so far */
    uint32_t held;      /* periods in a row in which the law held and had room, */
    int64_t held_sum;   /* and their slowdowns; at which share and slowdown more was last tried */
    int64_t held_u, held_slow;
    uint32_t cut_at;  /* the share that was cut last, until it is reached again; 0 none */
    int32_t slowdown; /* permille, of the last period; -1 unknown */
    int32_t judged;   /* the same, as the law was told it */
};

/* A pair forms. eps: permille by which the guaranteed job's step may grow. */
void pair_begin(struct pair *pair, enum pair_law law, uint32_t eps, usec_t now);

/* Steps the guaranteed job made before anybody came; right after pair_begin(). */
void pair_before(struct pair *pair, const struct baseline *before);

/* What alone is, is to be measured anew, at the next turn. */
void pair_again(struct pair *pair);

/* What goes on now is neither being alone nor the neighbours' doing: what was seen of this period does not count. */
void pair_hold(struct pair *pair, usec_t now);

/* The guaranteed job has done a step of so many launches in so long. */
void pair_step(struct pair *pair, uint32_t launches, uint32_t wall_us);

/* What the neighbours have now, in permille; 0 = closed. */
uint32_t pair_turn(struct pair *pair, usec_t now);
