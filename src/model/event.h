/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* event.h - what happens to a cluster: the only way in.
 *
 * Events of one instant are applied in the order of this enumeration, then by job id: ends before arrivals, so that
 * what an end frees is there for whoever arrives.
 */
#include "model/jobspec.h"

enum event_kind {
    EVENT_ENDED,   /* the job is over: fail tells how */
    EVENT_STOPPED, /* it has left its GPUs as it was told to; progress = what was kept */
    EVENT_STARTED, /* it begins to make progress, at `rate` */
    EVENT_RATE,    /* a report: its speed (0 = as before) and its progress */
    EVENT_REPORT,  /* something measured of a running job, for the policies that want it */
    EVENT_SOLVED,  /* what came of a computation that virtual cluster `target` has asked for */
    EVENT_NODE,    /* node `target` is up or down; down with value 1: drained, what runs there may end */
    EVENT_GPU,     /* GPU `target` is in order or not */
    EVENT_QUOTA,   /* virtual cluster `target` is owed `value` GPUs of type `sku` */
    EVENT_CANCEL,
    EVENT_HOLD,
    EVENT_RELEASE,
    EVENT_RANK, /* its priority becomes `value`, whether it waits or runs */
    EVENT_SIZE, /* a person wants an elastic job on `value` GPUs; 0: any size of its range again */
    EVENT_SUBMIT,
    EVENT_COUNT
};

/* Progress that the core is to compute itself. Any other number is taken, below 0 too: work that a stop adds. */
#define PROGRESS_OWN INT64_MIN

/* What a job or its node measured. Kinds are agreed between whoever reports and whoever reads. */
struct report {
    uint32_t kind;
    int64_t value[3];
};

struct event {
    enum event_kind kind;
    uint32_t job, gen; /* reference given by the offer of its submission */
    uint32_t target;
    bool up;
    uint16_t sku;
    enum fail_class fail; /* ENDED: FAIL_NONE = completed */
    int32_t value;        /* ENDED: the exit code, 0 = none */
    ppm_t rate;
    usec_t progress; /* STOPPED, RATE and failures: nominal run time done and kept, or PROGRESS_OWN */
    struct report report;
    uint32_t ticket;            /* SOLVED: of the effect it answers */
    uint32_t word_count;        /* SOLVED; 0 = no answer will come */
    const int64_t *words;       /* SOLVED; copied */
    const struct jobspec *spec; /* SUBMIT; copied */
};
