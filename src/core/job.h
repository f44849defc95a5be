/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* job.h - a job as the core keeps it, its states and the legal moves between them.
 *
 *              submit                 plan_start             STARTED
 *   (offer) ───────────► PENDING ─────────────► CLAIMING ─► STARTING ─► RUNNING ─► DONE, FAILED
 *                        ▲  │  ▲                  (waits for   (holds its GPUs,
 *                   hold │  │  │ STOPPED           others to    no progress yet)
 *                        ▼  │  │                   leave)           │
 *                      HELD │ STOPPING ◄──── plan_stop ─────────────┘
 *                           └─► RESERVED (holds part of its gang)        any ─► KILLED
 *
 * One that is moved goes RUNNING ─► STARTING; it runs on where it was while it waits for others to leave
 * (deferred_move.c). A job that takes turns with others on its GPUs goes STOPPING ─► SUSPENDED ─► CLAIMING instead of
 * back to the queue.
 *
 * Time is lazy: a running job carries its rate and the instant it was last settled; what it has done since is computed
 * when somebody asks.
 */
#include <stdbool.h>
#include <stdint.h>

#include "model/jobspec.h"
#include "model/reason.h"

#define JOB_NONE UINT32_MAX

#define JOB_STATES(X)                                                                                                  \
    X(FREE, "FREE")         /* an empty slot */                                                                        \
    X(OFFERED, "OFFERED")   /* accepted, not yet stepped */                                                            \
    X(HELD, "HELD")         /* kept out of the queue by a person */                                                    \
    X(PENDING, "PENDING")   /* in the queue */                                                                         \
    X(RESERVED, "RESERVED") /* in the queue, holding part of its gang */                                               \
    X(CLAIMING, "CLAIMING") /* was given GPUs that others are still leaving */                                         \
    X(STARTING, "STARTING") /* holds its GPUs, makes no progress yet */                                                \
    X(RUNNING, "RUNNING")                                                                                              \
    X(SUSPENDED, "SUSPENDED") /* keeps its place on its GPUs, but is not on them */                                    \
    X(STOPPING, "STOPPING")   /* was told to leave, still holds its GPUs */                                            \
    X(DONE, "DONE")                                                                                                    \
    X(FAILED, "FAILED")                                                                                                \
    X(KILLED, "KILLED")

enum job_state {
#define X(code, name) JOB_##code,
    JOB_STATES(X)
#undef X
        JOB_STATE_COUNT
};

const char *job_state_name(enum job_state state);

/* Whether the state machine allows the move; the core asserts it on every one. */
bool job_may_move(enum job_state from, enum job_state to);

static inline bool job_waits(enum job_state state)
{
    return state == JOB_PENDING || state == JOB_RESERVED;
}

static inline bool job_holds(enum job_state state)
{
    return state == JOB_CLAIMING || state == JOB_STARTING || state == JOB_RUNNING;
}

/* How a stop asks the job to leave; the ladder of the service, best first. */
enum stop_step { STOP_SUSPEND, STOP_CHECKPOINT, STOP_REQUEUE, STOP_CANCEL, STOP_STEP_COUNT };

/* Stale references are noticed, not followed. */
struct job_ref {
    uint32_t index, gen;
};

/* Causes of waiting that a whole shape class shares; the core integrates time in each of them once a class. */
enum { WAIT_LANES = 11 };

enum { POLICY_WORDS = 4, ORDER_WORDS = 3 };

struct job {
    struct jobspec spec;
    uint32_t gen;
    uint8_t state, klass, tier;  /* klass and tier may be changed by admission */
    uint8_t reason;              /* while it waits on its own account (held, back-off, claiming); else NONE */
    uint8_t level;               /* locality it is content with: 0 strictest */
    uint8_t stop;                /* enum stop_step, while STOPPING */
    uint8_t sku;                 /* of the GPUs it holds */
    uint8_t side_sku[SIDES_MAX]; /* of those of its parts on other types */
    bool borrowed;               /* started beyond its virtual cluster's quota */
    bool parks;                  /* STOPPING to be SUSPENDED, not to be queued */
    bool prepared;               /* SUSPENDED before its first start, launched up to its gate */
    bool yields;                 /* SUSPENDED because it only saves its result; it ends from there */
    bool resumes;                /* has run before: its next start is a resume */
    bool sheds;                  /* STARTING elsewhere, and has not left all that it had: those shares are leaving */
    bool resized;                /* to another size with the same world, and nobody was told yet */
    uint8_t before;              /* state it was stopped in, while STOPPING */
    bool planned, listed;        /* changed by the pass under way; in its list */
    bool fresh;                  /* began to wait in the step under way */
    bool packed;                 /* beside its mate, whose GPUs they are: what it has counts for nothing */
    bool unpacks;                /* STOPPING to end a packing */
    bool moving;                 /* STARTING elsewhere than it was */
    uint32_t vc;
    uint32_t shape;                          /* class in its virtual cluster's queue while it waits */
    uint32_t run_class;                      /* class in the run list while it holds GPUs */
    int32_t gpus;                            /* GPUs it holds now, but for its sides; 0 while it waits */
    int32_t size;                            /* a person wants it on so many, and it is not yet; 0 = not */
    int32_t runs_on;                         /* STARTING elsewhere when others have left: GPUs it runs on till then */
    uint32_t shares;                         /* first of its shares in the ledger */
    uint32_t own_shares;                     /* first in its virtual cluster's own; SHARE_NONE: outside the guarantee */
    uint32_t holds;                          /* first of its holds, of a job without GPUs; see host_resources.h */
    uint32_t blocked;                        /* GPUs of its claim that others have not left yet */
    uint32_t reserved_first, reserved_count; /* GPUs kept for it: lowest number, how many */
    uint32_t user_prev, user_next;           /* waiting jobs of its user, where that has a limit; or without GPUs */
    uint32_t prev, next;                     /* run list of its virtual cluster, by start */
    uint32_t mate;                           /* the job it shares all its GPUs with; JOB_NONE */
    uint8_t breach;                          /* enum breach: its promise is broken, and why */
    usec_t promise;                          /* it was promised to end by then; 0 = not */
    usec_t offer;       /* no deadline was promised; the earliest that could have been, USEC_NEVER = none; 0 = not */
    uint32_t evictions; /* hardware that was lost under it, or that it was to start on */
    uint32_t preemptions, migrations, splices, attempts;
    uint32_t fails, system_fails;            /* attempts that retries, or system-retries, count */
    uint32_t packings, resizes, suspensions; /* resizes are among the migrations */
    usec_t disturbed;                        /* when it was last stopped, moved, packed or unpacked; -1 = never */
    uint32_t limit_mib;                      /* of each GPU it has so much; 0 = no cap */
    uint8_t limit_percent;                   /* of the time; 100 = no limit */
    bool measured;                           /* its GPUs' use is known: */
    uint16_t used_percent;                   /* in hundredths, mean of the last seconds */
    uint32_t used_mib;                       /* memory, at its peak there */
    usec_t since;                            /* settled up to here */
    usec_t state_since;                      /* in this state, or set aside, since */
    usec_t first_start, last_start;          /* -1 = never */
    usec_t ran_from;                         /* RUNNING since its last start; before last_start: not yet; -1 = never */
    usec_t queued_at;                        /* when it last began to wait */
    usec_t ran;                              /* time in RUNNING */
    usec_t progress;                         /* nominal run time done and kept */
    svc_t attained;                          /* GPU-time in RUNNING */
    ppm_t rate;                              /* progress per unit of time, while RUNNING */
    int64_t order_value, order_slope;        /* its key; see order.h */
    usec_t lane_base[WAIT_LANES];
    usec_t waited[REASON_COUNT];
    usec_t over_quota; /* waiting while its virtual cluster was over what it is owed (fair-share delay) */
    usec_t waited_all;
    int64_t word[POLICY_WORDS];      /* the planner's own, kept in snapshots */
    int64_t order_word[ORDER_WORDS]; /* the ordering's own */
};

/* Progress including what was made since it was last settled. */
usec_t job_progress(const struct job *job, usec_t now);

/* Nominal run time left by the job's own estimate; at least 0. */
usec_t job_remaining(const struct job *job, usec_t now);

/* Attained GPU-time, up to now. */
svc_t job_attained(const struct job *job, usec_t now);

/* Brings ran, attained and progress up to now. */
void job_settle(struct job *job, usec_t now);

/* Whether it is to be elsewhere, runs where it was, and goes when others have left; see deferred_move.c. */
static inline bool job_defers(const struct job *job)
{
    return job->runs_on > 0 && job->state == JOB_STARTING;
}

/* Whether it runs, or has a place, inside what its virtual cluster is guaranteed in cells. */
static inline bool job_bound(const struct job *job)
{
    return job->own_shares != UINT32_MAX;
}

/* What it holds of its GPUs, in thousandths, as its virtual cluster is charged for it: a pair pays once. */
static inline int64_t job_amount(const struct job *job)
{
    return job->packed ? 0 : (int64_t)job->gpus * job->spec.share;
}

/* Whether it asks for CPUs and memory only: nothing of a policy's. */
static inline bool job_gpuless(const struct job *job)
{
    return job->spec.gpus == 0;
}

/* Whether it has no wish of how its GPUs lie. */
static inline bool job_shapeless(const struct job *job)
{
    return !(job->spec.per_node | job->spec.unit | job->spec.side_count) &&
           !(job->spec.within && job->spec.within_must);
}

/* Whether any GPUs will do for it. Others are placed by plan_find alone: a planner that chooses GPUs itself does not
 * know what they want of them. */
static inline bool job_plain(const struct job *job)
{
    return job_shapeless(job) && !(job->spec.mcpus | job->spec.host_mib | job->spec.mark | job->spec.kept);
}

/* GPUs of the request, in thousandths. */
static inline int64_t job_demand(const struct job *job)
{
    return (int64_t)job->spec.gpus * job->spec.share;
}
