/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* core_link.h - what a job that is not over has to do with the core.
 *
 *   OUTSIDE ──► INSIDE ──► ENDING ────► OUTSIDE, and over
 *      ▲           │ └───► REENTERING ─► OUTSIDE, and in again if nothing keeps it out
 *      └───────────┘          └─► ENDING (whoever ends a job has the last word)
 *
 * A job leaves the core when the core says so (EFFECT_FORGET); until then it has its slot.
 */
#include <stdbool.h>
#include <stdint.h>

#include "ctl/state/job_phase.h"

enum core_link {
    LINK_OUTSIDE,    /* something keeps it out: see enum gate */
    LINK_INSIDE,     /* it waits or runs in the core */
    LINK_ENDING,     /* the core was told that it is over; it ends as ctl_job.ends_as */
    LINK_REENTERING, /* the core was told to let it go, and it comes again as it is then */
    LINK_COUNT
};

const char *link_name(enum core_link link);

struct ctl;
struct ctl_job;
void link_move(struct ctl_job *job, enum core_link to); /* the only way; what is not legal is an assertion */
void link_end(struct ctl_job *job, enum phase_of_job phase, const char *text); /* the core is told by the caller */
/* Nothing of the job is on any GPU: the core is to let it go, and it is over. Its first end counts. */
void link_take_out(struct ctl *ctl, struct ctl_job *job, enum phase_of_job phase, const char *text);
void link_reenter(struct ctl *ctl, struct ctl_job *job); /* the same, and it comes again */
