/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_machine.c - see attempt_machine.h: the table, and nothing that decides. What the rows do: attempt_action.c.
 */
#include "ctl/state/attempt/attempt_machine.h"

#include "ctl/state/attempt/attempt_action.h"
#include "ctl/state/state_internal.h"

struct attempt_move {
    uint8_t to; /* ATTEMPT_NONE: it cannot happen there */
    uint8_t action;
};

#define ON(event, state, action) [ATTEMPT_EVENT_##event] = { ATTEMPT_##state, ATTEMPT_ACT_##action }
/* Leaving and being over are alike wherever something was launched. */
#define MAY_LEAVE ON(STOP, STOPPING, STOP), ON(CLOSE, LEFT, CLOSE), ON(GONE, OVER, CLOSE), ON(GANG_ENDS, ENDING, PEERS)
#define HAS_LEFT ON(CLOSE, LEFT, CLOSE), ON(GONE, OVER, CLOSE)

static const struct attempt_move moves[ATTEMPT_STATE_COUNT][ATTEMPT_EVENT_COUNT] = {
    [ATTEMPT_PLACED] = { ON(PREPARE, GATED, LAUNCH), ON(LAUNCH, LAUNCHED, LAUNCH), ON(LAUNCH_ALONE, GOING, LAUNCH),
                         ON(READY, PLACED, NONE), ON(RUN, PLACED, NONE), ON(OFF, PLACED, NONE), ON(KEEP, PLACED, NONE),
                         ON(GANG_ENDS, PLACED, NONE), ON(WITHDRAW, OVER, CLOSE), ON(GONE, OVER, CLOSE) },
    [ATTEMPT_GATED] = { ON(OPEN, LAUNCHED, LAUNCH), ON(OPEN_READY, GOING, LAUNCH), ON(READY, GATED, NONE),
                        ON(RUN, GATED, NONE), ON(OFF, GATED, NONE), ON(KEEP, GATED, NONE), ON(WITHDRAW, OVER, CLOSE),
                        MAY_LEAVE },
    [ATTEMPT_LAUNCHED] = { ON(READY, GOING, GO), ON(RUN, RUNNING, RUN), ON(OFF, LAUNCHED, NONE), ON(KEEP, KEPT, KEEP),
                           MAY_LEAVE },
    [ATTEMPT_GOING] = { ON(READY, GOING, NONE), ON(RUN, RUNNING, RUN), ON(OFF, PAUSED, PAUSE), ON(KEEP, KEPT, KEEP),
                        MAY_LEAVE },
    [ATTEMPT_RUNNING] = { ON(READY, RUNNING, NONE), ON(RUN, RUNNING, NONE), ON(OFF, PAUSED, PAUSE),
                          ON(SUSPEND, SUSPENDING, SUSPEND), ON(KEEP, KEPT, KEEP), ON(MOVE, MOVING, STOP), MAY_LEAVE },
    [ATTEMPT_PAUSED] = { ON(READY, PAUSED, NONE), ON(RUN, RUNNING, RUN), ON(OFF, PAUSED, NONE),
                         ON(SUSPEND, SUSPENDED, OFF), ON(KEEP, KEPT, KEEP), ON(MOVE, MOVING, STOP), MAY_LEAVE },
    [ATTEMPT_SUSPENDING] = { ON(READY, SUSPENDING, NONE), ON(RUN, SUSPENDING, NONE), ON(OFF, SUSPENDED, OFF),
                             ON(ORPHAN, ORPHANED, NONE), ON(KEEP, SUSPENDING, NONE), MAY_LEAVE },
    [ATTEMPT_ORPHANED] = { ON(READY, ORPHANED, NONE), ON(RUN, ORPHANED, NONE), ON(OFF, SUSPENDED, OFF_AND_LEAVE),
                           ON(ORPHAN, ORPHANED, NONE), ON(KEEP, ORPHANED, NONE), MAY_LEAVE },
    [ATTEMPT_SUSPENDED] = { ON(READY, SUSPENDED, NONE), ON(RUN, SUSPENDED, SUSPEND), ON(OFF, SUSPENDED, NONE),
                            ON(RESUME, RESUMING, RESUME), ON(KEEP, SUSPENDED, NONE), ON(MOVE, MOVING, STOP),
                            MAY_LEAVE },
    [ATTEMPT_RESUMING] = { ON(READY, RESUMING, NONE), ON(RUN, RUNNING, RUN), ON(OFF, PAUSED, NONE),
                           ON(KEEP, KEPT, KEEP), MAY_LEAVE },
    [ATTEMPT_KEPT] = { ON(READY, KEPT, NONE), ON(RUN, KEPT, RUN), ON(OFF, KEPT, NONE), ON(SUSPEND, STOPPING, STOP),
                       ON(KEEP, KEPT, NONE), ON(GANG_ENDS, KEPT, PEERS), ON(STOP, STOPPING, STOP),
                       ON(MOVE, MOVING, STOP), HAS_LEFT },
    [ATTEMPT_ENDING] = { ON(READY, ENDING, NONE), ON(RUN, ENDING, BEGIN), ON(OFF, ENDING, NONE),
                         ON(SUSPEND, ENDING, NONE), ON(ORPHAN, ENDING, NONE), ON(RESUME, ENDING, NONE),
                         ON(KEEP, ENDING, NONE), ON(GANG_ENDS, ENDING, NONE), ON(STOP, STOPPING, STOP),
                         ON(MOVE, MOVING, STOP), HAS_LEFT },
    [ATTEMPT_STOPPING] = { ON(READY, STOPPING, NONE), ON(RUN, STOPPING, BEGIN), ON(OFF, STOPPING, NONE),
                           ON(SUSPEND, STOPPING, NONE), ON(ORPHAN, STOPPING, NONE), ON(RESUME, STOPPING, NONE),
                           ON(KEEP, STOPPING, NONE), ON(GANG_ENDS, STOPPING, PEERS), ON(STOP, STOPPING, STOP),
                           ON(MOVE, MOVING, STOP), HAS_LEFT },
    [ATTEMPT_MOVING] = { ON(READY, MOVING, NONE), ON(RUN, MOVING, BEGIN), ON(OFF, MOVING, NONE),
                         ON(RESUME, MOVING, NONE), ON(KEEP, MOVING, NONE), ON(GANG_ENDS, MOVING, PEERS),
                         ON(STOP, MOVING, STOP), ON(MOVE, MOVING, STOP), HAS_LEFT },
    [ATTEMPT_LEFT] = { ON(GONE, OVER, NONE) },
};

static const struct {
    const char *name, *text;
} states[ATTEMPT_STATE_COUNT] = {
#define X(code, word, meaning) [ATTEMPT_##code] = { (word), (meaning) },
    ATTEMPT_STATES(X)
#undef X
};

static const char *const events[ATTEMPT_EVENT_COUNT] = {
#define X(code, word) [ATTEMPT_EVENT_##code] = (word),
    ATTEMPT_EVENTS(X)
#undef X
};

const char *attempt_state_name(enum attempt_state state)
{
    assert(state < ATTEMPT_STATE_COUNT);
    return states[state].name;
}

const char *attempt_event_name(enum attempt_event event)
{
    assert(event < ATTEMPT_EVENT_COUNT);
    return events[event];
}

enum attempt_state attempt_next(enum attempt_state state, enum attempt_event event)
{
    assert(state < ATTEMPT_STATE_COUNT);
    assert(event < ATTEMPT_EVENT_COUNT);
    return (enum attempt_state)moves[state][event].to;
}

bool attempt_happens(struct ctl *ctl, struct ctl_job *job, struct ctl_attempt *attempt, enum attempt_event event,
                     usec_t grace)
{
    const struct attempt_move *move;

    assert(attempt >= job->attempts);
    assert(attempt < job->attempts + job->attempt_count);
    assert(attempt->state < ATTEMPT_STATE_COUNT);
    assert(event < ATTEMPT_EVENT_COUNT);
    move = &moves[attempt->state][event];
    if (move->to == ATTEMPT_NONE) {
        assert(!MUSTER_CHECKED);
        ctl_event(ctl, "attempt.refused", job, NULL,
                  FACTS(fact_number("attempt", attempt->number), fact_text("event", events[event]),
                        fact_text("state", states[attempt->state].name)));
        return false;
    }
    attempt->state = move->to;
    attempt_act(ctl, job, attempt, (enum attempt_action)move->action, grace);
    return true;
}

#define CORE(state) (1u << JOB_##state)
#define OUTSIDE CORE(FREE)
#define QUEUED (CORE(OFFERED) | CORE(PENDING) | CORE(RESERVED))

/* The written correspondence: where the core may have a job whose last attempt is in this state, when an instant is
 * over. SUSPENDED stands for a place in turn, for a gate, and for a job that has yielded its GPUs and ends from there.
 */
static const uint32_t core_states[ATTEMPT_STATE_COUNT] = {
    [ATTEMPT_NONE] = OUTSIDE | QUEUED | CORE(CLAIMING) | CORE(SUSPENDED),
    [ATTEMPT_PLACED] = CORE(STARTING),
    [ATTEMPT_GATED] = CORE(SUSPENDED) | CORE(CLAIMING),
    [ATTEMPT_LAUNCHED] = CORE(STARTING),
    [ATTEMPT_GOING] = CORE(STARTING),
    [ATTEMPT_RUNNING] = CORE(RUNNING) | CORE(STARTING) | CORE(SUSPENDED),
    [ATTEMPT_PAUSED] = CORE(RUNNING) | CORE(STARTING),
    [ATTEMPT_SUSPENDING] = CORE(STOPPING),
    [ATTEMPT_ORPHANED] = CORE(STOPPING),
    [ATTEMPT_SUSPENDED] = CORE(SUSPENDED) | CORE(CLAIMING) | CORE(PENDING) | CORE(RESERVED),
    [ATTEMPT_RESUMING] = CORE(STARTING),
    [ATTEMPT_KEPT] = CORE(RUNNING) | CORE(STARTING) | CORE(SUSPENDED),
    [ATTEMPT_ENDING] = CORE(STARTING) | CORE(RUNNING) | CORE(STOPPING) | CORE(SUSPENDED) | CORE(CLAIMING) | QUEUED,
    [ATTEMPT_STOPPING] = CORE(STARTING) | CORE(RUNNING) | CORE(STOPPING) | CORE(SUSPENDED) | CORE(CLAIMING) | QUEUED,
    [ATTEMPT_MOVING] = CORE(STARTING) | CORE(STOPPING),
    [ATTEMPT_LEFT] = OUTSIDE | QUEUED | CORE(CLAIMING) | CORE(SUSPENDED),
    [ATTEMPT_OVER] = OUTSIDE | QUEUED | CORE(CLAIMING) | CORE(SUSPENDED),
};

uint32_t attempt_core_states(enum attempt_state state)
{
    assert(state < ATTEMPT_STATE_COUNT);
    return core_states[state];
}

static void print_core(struct buf *out, uint32_t set)
{
    const char *comma = "";

    for (uint32_t s = 0; s < JOB_STATE_COUNT; s++)
        if (set >> s & 1) {
            buf_printf(out, "%s%s", comma, s == JOB_FREE ? "(outside)" : job_state_name((enum job_state)s));
            comma = " ";
        }
}

/* Rows that change nothing and do nothing are left out: what comes late is ignored. */
static void print_moves(struct buf *out, uint32_t state)
{
    const char *comma = "";

    for (uint32_t e = 0; e < ATTEMPT_EVENT_COUNT; e++) {
        const struct attempt_move *move = &moves[state][e];

        if (move->to == ATTEMPT_NONE || (move->to == state && move->action == ATTEMPT_ACT_NONE))
            continue;
        buf_printf(out, "%s%s → %s", comma, events[e], states[move->to].name);
        comma = "; ";
    }
}

void attempt_machine_print(struct buf *out)
{
    buf_text(out, "| attempt | means | the core has the job | moves |\n|---|---|---|---|\n");
    for (uint32_t s = 0; s < ATTEMPT_STATE_COUNT; s++) {
        buf_printf(out, "| %s | %s | ", states[s].name, states[s].text);
        print_core(out, core_states[s]);
        buf_text(out, " | ");
        print_moves(out, s);
        buf_text(out, " |\n");
    }
}
