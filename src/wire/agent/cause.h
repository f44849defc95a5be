/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cause.h - why a task is told to leave, and why it ended. One list serves the protocol, REST, snapshots and records.
 */
#include <assert.h>

#include "model/jobspec.h"

/* What the controller tells a job to leave for. */
#define STOP_CAUSE_LIST(X)                                                                                             \
    X(PREEMPT, "preempt") /* others are to have its GPUs */                                                            \
    X(SUSPEND, "suspend") /* off its GPUs, the processes stay */                                                       \
    X(MIGRATE, "migrate") /* it goes on elsewhere, or at another size */                                               \
    X(DRAIN, "drain")     /* its node is to be empty */                                                                \
    X(REQUEUE, "requeue") /* a person wants it to wait again */                                                        \
    X(CANCEL, "cancel")   /* a person wants it to end */                                                               \
    X(TIMEOUT, "timeout") /* its time limit */                                                                         \
    X(RELEASE, "release") /* the place of one that failed is let go */                                                 \
    X(PEER, "peer")       /* another rank has ended its gang */

enum stop_cause {
    STOP_CAUSE_NONE,
#define X(code, name) STOP_CAUSE_##code,
    STOP_CAUSE_LIST(X)
#undef X
        STOP_CAUSE_COUNT
};

/* Why a task ended: the order that it followed, or one of these. */
#define TASK_CAUSE_LIST(X)                                                                                             \
    STOP_CAUSE_LIST(X)                                                                                                 \
    X(EXIT, "exit") /* by itself */                                                                                    \
    X(SIGNAL, "signal")                                                                                                \
    X(OOM, "oom")                                                                                                      \
    X(LOST, "lost")   /* its node was, or the node has lost it */                                                      \
    X(FENCE, "fence") /* its node had not heard the controller for a lease */                                          \
    X(UNTOLD, "untold")                                                                                                \
    X(REFUSED, "refused")

enum task_cause {
    TASK_CAUSE_NONE,
#define X(code, name) TASK_CAUSE_##code,
    TASK_CAUSE_LIST(X)
#undef X
        TASK_CAUSE_OTHER, /* a word that this version does not know */
    TASK_CAUSE_COUNT
};

static_assert((int)STOP_CAUSE_PEER == (int)TASK_CAUSE_PEER, "orders have the same numbers in both");

const char *stop_cause_name(enum stop_cause cause);   /* "" for NONE */
enum stop_cause stop_cause_find(const char *name);    /* NONE: no such word, or none at all */
const char *task_cause_name(enum task_cause cause);   /* "" for NONE and OTHER */
enum task_cause task_cause_find(const char *name);    /* OTHER: a word that is not known; NONE: none at all */
enum fail_class refusal_blame_find(const char *name); /* of a task that a node did not start: "user", else SYSTEM */
