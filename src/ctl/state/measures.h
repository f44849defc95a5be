/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* measures.h - what running jobs tell of their progress: as it was last heard, and as it goes into the log.
 *
 * Agents say it with their beats (docs/protocol.md). What people see is the last of it, and is not durable. What
 * policies learn from is in the log, so that a replay sees the same, and thinned: a row when it begins or stalls, when
 * the rate changes by more than a tenth, and else one in `measure_every`.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* Numbers of a row of the log, in this order. */
enum measure_column {
    COLUMN_JOB,
    COLUMN_ATTEMPT,
    COLUMN_STEP,   /* of the counter; -1 = it tells none */
    COLUMN_RATE,   /* of the counter, in millionths a second; 0 = not known */
    COLUMN_LOSS,   /* billionths; MEASURES_NO_LOSS */
    COLUMN_EPOCH,  /* thousandths; -1 */
    COLUMN_TOTAL,  /* steps in all; -1 */
    COLUMN_UTIL,   /* of its GPUs, percent; 0 = not known */
    COLUMN_MEMORY, /* of the fullest of them, MiB; 0 = not known */
    MEASURES_ROW
};
#define MEASURES_NO_LOSS INT64_MIN

/* By the words of agents. */
enum ctl_progress_state { CTL_PROGRESS_NONE, CTL_PROGRESS_MOVES, CTL_PROGRESS_STALLED };
enum ctl_progress_source { CTL_PROGRESS_SOCKET, CTL_PROGRESS_OUTPUT, CTL_PROGRESS_RUNTIME, CTL_PROGRESS_EMULATED };

struct ctl_progress {
    uint8_t state, source;
    uint32_t attempt, rank;    /* whose task says it: the first of those that do */
    int64_t row[MEASURES_ROW]; /* as last heard */
    usec_t heard;              /* 0 = never */
    usec_t kept;               /* when a row went into the log; 0 = none of this attempt */
    int64_t kept_rate;
    uint8_t kept_state;
};

/* Steps that make an epoch where the job tells neither epochs nor how many steps there will be; and parts of all of its
 * steps that do where it tells those. Policies plan in epochs. */
enum { MEASURES_STEPS_AN_EPOCH = 1000, MEASURES_EPOCHS_OF_ALL = 100 };
/* Thousandths of epochs done; speed in billionths of an epoch a second; thousandths in all, 0 = not told. */
int64_t measures_epoch(const int64_t *row);
int64_t measures_speed(const int64_t *row);
int64_t measures_all(const int64_t *row);
