/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* planner.h - the contract of a planner: the whole next state of a virtual cluster, proposed step by step.
 *
 * plan() is called once an instant and phase when something changed that could matter to the virtual cluster. It reads
 * the view and proposes through plan_*(); every proposal is checked on the spot, and a refused one changes nothing.
 * Because an accepted one shows in the view at once, a planner always sees what it has already done.
 */
#include "base/error.h"
#include "core/contract/order.h"
#include "core/ledger/queue.h"

struct plan;
struct report;
struct solution;
struct vc;

struct planner_ctx {
    const struct view *view;
    const struct vc *vc;
    const int64_t *params;
    void *state;
    int64_t *nodes;      /* its own words of each node; see plan_node */
    uint32_t node_words; /* how many a node */
    uint32_t word_first; /* of its own words of a job; see plan_words */
};

struct planner_ops {
    const char *name;
    const char *summary;
    const struct param *params;
    size_t state_size, kept_size; /* bytes; of them, from the start, those that belong into a snapshot */
    /* Whether a waiting job that does not fit holds up nobody behind it; NULL: it does. */
    bool (*overtakes)(const struct planner_ctx *ctx);
    enum run_order run_order; /* how it wants to see running jobs */
    void (*plan)(struct planner_ctx *ctx, struct plan *plan);
    /* Whether it can do anything with such a job: asked before it is taken in. -ERANGE with words. May be NULL. */
    int (*check)(struct planner_ctx *ctx, const struct jobspec *spec, struct error *err);
    /* A job began to wait (arrived, was stopped, came back); it is queued already. May be NULL. */
    void (*queued)(struct planner_ctx *ctx, struct plan *plan, uint32_t job);
    /* Something was measured of one of its jobs. May be NULL. */
    void (*report)(struct planner_ctx *ctx, struct plan *plan, uint32_t job, const struct report *report);
    /* One of its jobs is over: done, failed for good, or cancelled (job->state says which). May be NULL. */
    void (*ended)(struct planner_ctx *ctx, struct plan *plan, uint32_t job);
    /* Parameter servers the job runs with, where the planner sizes them. NULL: as many as it asks for. */
    int32_t (*servers)(const struct planner_ctx *ctx, uint32_t job);
    /* How long the job was last predicted to need from *ret_at on; *ret_at -1: never. JOB_NONE: only when predictions
     * were last made. May be NULL. */
    usec_t (*predicted)(const struct planner_ctx *ctx, uint32_t job, usec_t *ret_at);
    /* The instant asked for with plan_job_timer has come. May be NULL. */
    void (*timer)(struct planner_ctx *ctx, struct plan *plan, uint32_t job);
    /* What it asked for with plan_solve has come. The numbers are from outside: to be checked like any. May be NULL. */
    void (*solved)(struct planner_ctx *ctx, struct plan *plan, const struct solution *solution);
    /* What jobs of that shape that would fit wait for: those ahead of them (REASON_PRIORITY; NULL: always), or its own
     * clock or an answer (REASON_SCHEDULING; then it has asked to be woken), or something that it alone counts. */
    enum reason (*awaits)(const struct planner_ctx *ctx, const struct shape_class *cls);
    bool by_rank; /* whoever comes first in rank is who it starts next, and anybody may start it before its turn: the
                   * core preempts for a higher priority, see planning/priority.h */
    bool sides;   /* starts what plan_find has found for gangs on several types, and nothing else: they are whole */
    bool sizes;   /* plans its jobs together, with their sizes: nobody sets these by hand */
    bool splices; /* starts jobs on fewer GPUs than they have workers, their worlds as they are (see splice.h) */
    /* Whoever else planned, at the end of a pass: jobs of it are guests, and others have come to their GPUs or gone.
     * plan_limit is all it may propose. May be NULL. */
    void (*limit)(struct planner_ctx *ctx, struct plan *plan);
    bool batches;  /* wants MEASURE_BATCH reports of jobs that run */
    bool profiles; /* wants MEASURE_PROFILE reports of a job when it comes */
    bool idles;    /* wants MEASURE_IDLE reports of jobs that run */
    /* Names of the numbers (int64_t) its state begins with, for reports; NULL-terminated. May be NULL. */
    const char *const *counters;
    uint32_t words;       /* of each job, beyond job->word, for itself: plan_words */
    uint32_t node_words;  /* of each node: plan_node */
    bool tunes;           /* suspends and moves at its own discretion: held to the rules of rules.c */
    bool classes;         /* tells guaranteed jobs from others, and protects them */
    uint32_t solve_words; /* the most that a request or its answer takes */
};
