/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* attempt_machine.h - the states of an attempt, what can happen to it, and the one table that joins them.
 *
 * Every change of a state is a row of the table in attempt_machine.c. What is not there cannot happen: in checked
 * builds it ends in an assertion, in production it is refused and told as the event "attempt.refused". What agents
 * report may come late and in any order, so the table has a row for each of their events in every state in which it can
 * arrive.
 */
#include "core/job.h"
#include "ctl/state/registry.h"

/* Name, and what it means. */
#define ATTEMPT_STATES(X)                                                                                              \
    X(NONE, "none", "there is no attempt")                                                                             \
    X(PLACED, "placed", "has GPUs; is launched when others, and its last attempt, have left")                          \
    X(GATED, "gated", "launched up to its gate; another job has its GPUs")                                             \
    X(LAUNCHED, "launched", "its nodes prepare it")                                                                    \
    X(GOING, "going", "every rank was told to go")                                                                     \
    X(RUNNING, "running", "every rank runs")                                                                           \
    X(PAUSED, "paused", "suspended by a person; keeps its GPUs")                                                       \
    X(SUSPENDING, "suspending", "its policy has told it to go off its GPUs")                                           \
    X(ORPHANED, "orphaned", "the same, and that policy is gone: it leaves when it is off")                             \
    X(SUSPENDED, "suspended", "off its GPUs, which others use; its processes stay")                                    \
    X(RESUMING, "resuming", "told to come back to its GPUs")                                                           \
    X(KEPT, "kept", "has failed, and its place is kept to be looked at")                                               \
    X(ENDING, "ending", "a rank has ended the gang; the others leave")                                                 \
    X(STOPPING, "stopping", "told to leave")                                                                           \
    X(MOVING, "moving", "told to leave; the core has it elsewhere already")                                            \
    X(LEFT, "left", "over; the core has given its GPUs away, and tasks still leave")                                   \
    X(OVER, "over", "nothing of it is left")

enum attempt_state {
#define X(code, name, text) ATTEMPT_##code,
    ATTEMPT_STATES(X)
#undef X
        ATTEMPT_STATE_COUNT
};

#define ATTEMPT_EVENTS(X)                                                                                              \
    X(PREPARE, "prepare")         /* the core: launch it behind the job that has its GPUs */                           \
    X(LAUNCH, "launch")           /* its place is empty: several ranks */                                              \
    X(LAUNCH_ALONE, "launch one") /* the same; one rank, which goes at once */                                         \
    X(OPEN, "open")               /* the core: it has its GPUs; not every rank is ready */                             \
    X(OPEN_READY, "open ready")   /* the same, and every rank is */                                                    \
    X(READY, "ready")             /* agents: every rank waits to go */                                                 \
    X(RUN, "run")                 /* agents: every rank runs */                                                        \
    X(OFF, "off")                 /* agents: every rank is suspended */                                                \
    X(SUSPEND, "suspend")         /* the core: off its GPUs, another's turn has come */                                \
    X(ORPHAN, "orphan")           /* the policy that would resume it is gone */                                        \
    X(RESUME, "resume")           /* the core: its turn has come */                                                    \
    X(KEEP, "keep")               /* agents: it has failed, and its place is to be kept */                             \
    X(GANG_ENDS, "gang ends")     /* a rank, or a role, has ended all of it */                                         \
    X(STOP, "stop")               /* it is to leave */                                                                 \
    X(MOVE, "move")               /* the core: it is to go on elsewhere */                                             \
    X(WITHDRAW, "withdraw")       /* before anything of it ran */                                                      \
    X(CLOSE, "close")             /* the core has given its GPUs away */                                               \
    X(GONE, "gone")               /* its last task is */

enum attempt_event {
#define X(code, name) ATTEMPT_EVENT_##code,
    ATTEMPT_EVENTS(X)
#undef X
        ATTEMPT_EVENT_COUNT
};

const char *attempt_state_name(enum attempt_state state);
const char *attempt_event_name(enum attempt_event event);

#define ATTEMPT_SET(code) (1u << ATTEMPT_##code)
/* Told to leave by the controller. */
#define ATTEMPT_LEAVING (ATTEMPT_SET(STOPPING) | ATTEMPT_SET(MOVING))
#define ATTEMPT_CLOSED (ATTEMPT_SET(LEFT) | ATTEMPT_SET(OVER))

static inline bool attempt_in(const struct ctl_attempt *attempt, uint32_t set)
{
    return attempt && (set >> attempt->state & 1);
}

/* It has its GPUs, or a place at them: it is not over. */
static inline bool attempt_live(const struct ctl_attempt *attempt)
{
    return attempt && !attempt_in(attempt, ATTEMPT_CLOSED);
}

static inline bool attempt_leaving(const struct ctl_attempt *attempt)
{
    return attempt_in(attempt, ATTEMPT_LEAVING);
}

/* Suspended by a person, who keeps its GPUs. */
static inline bool job_paused(const struct ctl_job *job)
{
    return attempt_in(attempt_last(job), ATTEMPT_SET(PAUSED));
}

/* It waits for others, or its last attempt, to leave its GPUs. */
static inline bool job_waits_for_place(const struct ctl_job *job)
{
    return attempt_in(attempt_last(job), ATTEMPT_SET(PLACED));
}

struct ctl;
/* The only way to another state. `grace`: of what is left of a gang that ends. False: refused, and nothing is done. */
bool attempt_happens(struct ctl *ctl, struct ctl_job *job, struct ctl_attempt *attempt, enum attempt_event event,
                     usec_t grace);

/* Where the event leads; NONE: it cannot happen there. */
enum attempt_state attempt_next(enum attempt_state state, enum attempt_event event);
/* States of the job in the core that go with a state of its last attempt: a set of enum job_state, with JOB_FREE for a
 * job that is not in the core. */
uint32_t attempt_core_states(enum attempt_state state);
/* The table as the documentation shows it. */
void attempt_machine_print(struct buf *out);
