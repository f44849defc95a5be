/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* attempt_action.h - what a move of an attempt does; for attempt_machine.c alone. */
#include "ctl/state/registry.h"

enum attempt_action {
    ATTEMPT_ACT_NONE,
    ATTEMPT_ACT_LAUNCH,        /* every node is told to launch its rank */
    ATTEMPT_ACT_GO,            /* every rank is told to go */
    ATTEMPT_ACT_BEGIN,         /* it has run, however shortly */
    ATTEMPT_ACT_RUN,           /* the job is shown as running, and the core is told */
    ATTEMPT_ACT_PAUSE,         /* the job is shown as suspended */
    ATTEMPT_ACT_SUSPEND,       /* every rank is told to go off its GPUs */
    ATTEMPT_ACT_OFF,           /* the core is told that the GPUs are left */
    ATTEMPT_ACT_OFF_AND_LEAVE, /* the same, and then it is told to leave for good */
    ATTEMPT_ACT_RESUME,        /* every rank is told to come back */
    ATTEMPT_ACT_KEEP,          /* people are told until when its place is kept */
    ATTEMPT_ACT_PEERS,         /* what is left of the gang is told to leave */
    ATTEMPT_ACT_STOP,          /* every rank is told to leave */
    ATTEMPT_ACT_CLOSE          /* the time it had its GPUs is booked */
};

struct ctl;
void attempt_act(struct ctl *ctl, struct ctl_job *job, struct ctl_attempt *attempt, enum attempt_action action,
                 usec_t grace);
