/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* model.h - a controller's state, agents that obey it, and a person's steps against it: one sequence.
 *
 * world.c drives the state: batches, time, restarts, replays. agents.c plays the nodes. step.c reads and carries out
 * one step; draw.c makes them up. check.c says what must be true. shrink.c makes a failing sequence short.
 */
#include <setjmp.h>

#include "base/rng.h"
#include "ctl/state/registry.h"
#include "entries.h"
#include "wire/agent/cause.h"

enum {
    AGENTS_MAX = 8,
    AGENT_TASKS = 512,
    AGENT_MISSED = 64,
    AGENT_KILLED = 137,
    LABELS_MAX = 200,
    ENTRIES_MAX = 256,
    PAST_MAX = 2048,
    STEP_BYTES = 400,
    STEPS_MAX = 1000,
    WHY_BYTES = 600
};

#define LEASE (60 * USEC_SEC)
#define NODE_TIMEOUT (30 * USEC_SEC)

/* A task on a node, as its agent has it (src/agent/task). */
struct sim_task {
    struct task_id id;
    int64_t born;
    usec_t end; /* its time limit; 0 */
    enum task_state state;
    bool begun;   /* it has processes, or has had */
    bool holding; /* it is on its GPUs */
    bool waiting; /* for others to leave them */
    bool gated, go, guest;
    bool sleeps;        /* was told to suspend */
    bool wakes;         /* was told to resume, and waits for its GPUs */
    bool clean;         /* nobody wants to hear how it ends */
    char told[16];      /* why it is to leave; "" */
    int64_t keep_ms;    /* told with it; -1 */
    usec_t kept_until;  /* while KEPT */
    struct said ending; /* how it ended; while KEPT */
    struct said last;   /* repeated when it is asked for what is already so */
    bool said;
    mgpu_t share;
    uint32_t gpu_count, beside_count;
    uint16_t gpus[ORDER_GPUS_MAX];
    int64_t beside[ORDER_BESIDE_MAX];
};

struct agent {
    char name[16], sku[16];
    int gpus;
    char id[24];   /* of its journal */
    int lives;     /* boots and journals it has had */
    char boot[16]; /* id */
    bool joined;   /* ever */
    bool connected, welcomed;
    usec_t gone;  /* since when it is not connected */
    bool fenced;  /* its lease has run out meanwhile */
    bool closed;  /* drained, silent or lost after the batch before */
    bool refuses; /* its next launch */
    bool by_user; /* it is the user's fault */
    uint64_t seq;
    struct said *journal; /* that were not taken yet, and the last one that was */
    size_t journal_count, journal_capacity, sent;
    struct order *inbox;
    size_t inbox_count, inbox_capacity;
    struct sim_task tasks[AGENT_TASKS];
    size_t task_count;
    struct task_id missed[AGENT_MISSED]; /* it was to keep, has not, and has said so */
    size_t missed_count;
};

/* What a person calls a job. */
struct label {
    char name[16];
    int64_t id;    /* of the job or array; 0 = refused */
    int64_t count; /* elements of an array; 0 = none */
};

/* A job that was cancelled, and what it had by then. */
struct grave {
    int64_t job;
    uint32_t attempts;
};

/* A job as it was after the batch before. */
struct past {
    uint32_t attempts;
    bool waits; /* outside the core, or in its queue */
};

struct logged {
    enum entry_kind kind;
    char *text; /* of the entry; NULL: the end of a batch */
    usec_t at;
};

struct world {
    struct ctl_config config;
    struct ctl *ctl;
    usec_t now;
    struct agent agents[AGENTS_MAX];
    size_t agent_count;
    struct label labels[LABELS_MAX];
    size_t label_count;
    struct grave graves[LABELS_MAX * 4];
    size_t grave_count;
    struct entry pending[ENTRIES_MAX];
    int pending_of[ENTRIES_MAX]; /* index of the label a submission is for; -1 */
    size_t pending_count;
    struct entry solved[64]; /* answers of computations, to be offered later */
    size_t solved_count;
    struct logged *log;
    size_t log_count, log_capacity;
    struct past past[PAST_MAX];                                             /* by the job's number */
    uint64_t orders, batches, heard[ORDER_COUNT], causes[STOP_CAUSE_COUNT]; /* of stops */
    char policy[64];
    const char *tolerated; /* failures that begin with one of these are passed over, "a|b"; NULL */
    char why[WHY_BYTES];   /* what is wrong; "" = nothing */
};

/* What is wrong is kept, the first only; the sequence is over then. */
__attribute__((format(printf, 2, 3))) void world_fail(struct world *world, const char *words, ...);
static inline bool world_failed(const struct world *world)
{
    return world->why[0] != '\0';
}

/* world.c */
void world_open(struct world *world, const char *policy);
void world_close(struct world *world);
/* Checks it as a request is checked; what passes waits for the next turn. */
void world_offer(struct world *world, struct entry entry, int label);
void world_turn(struct world *world);              /* one batch of all that waits */
void world_wait(struct world *world, usec_t span); /* time goes by, agents do nothing */
void world_settle(struct world *world);            /* until nobody has anything to say at this instant */
void world_restart(struct world *world, bool replay);
void world_replay_check(struct world *world); /* the log from its beginning gives the same bytes */
void world_join(struct world *world, struct agent *agent);

/* agents.c */
struct agent *agent_find(struct world *world, const char *name);
bool agent_order(struct world *world, const char *node, const json_t *frame);
void agent_hear(struct world *world, struct agent *agent, size_t most);
bool agent_work(struct world *world, struct agent *agent); /* whatever it is about is done; true: something was */
void agent_cut(struct world *world, struct agent *agent);
void agent_fence(struct world *world, struct agent *agent); /* its lease is over */
void agent_tell(struct world *world, struct agent *agent, size_t most);
void agent_again(struct world *world, struct agent *agent); /* its last report once more */
enum agent_return { RETURN_SAME, RETURN_LOST, RETURN_BOOT, RETURN_FRESH };
void agent_return(struct world *world, struct agent *agent, enum agent_return how); /* before it joins */
void agent_welcome(struct world *world, struct agent *agent, uint64_t acked);
void agent_exit(struct world *world, struct agent *agent, struct sim_task *task, const struct said *how);
void agent_report(struct world *world, struct agent *agent, struct said report);
struct sim_task *agent_task(struct agent *agent, const struct task_id *id);
static inline bool sim_over(const struct sim_task *task)
{
    return task->state == TASK_EXITED || task->state == TASK_REFUSED;
}
void agent_free(struct agent *agent);
/* Of one task; inside of the agents. */
struct said sim_said(const struct sim_task *task); /* to be filled in */
void sim_say(struct world *world, struct agent *agent, struct sim_task *task, struct said said);
void sim_state(struct world *world, struct agent *agent, struct sim_task *task, enum task_state state);
void sim_repeat(struct world *world, struct agent *agent, struct sim_task *task);
void sim_end(struct world *world, struct agent *agent, struct sim_task *task, const char *cause, int code);
bool sim_gpus_free(const struct agent *agent, const struct sim_task *task);
void sim_forget(struct agent *agent, struct sim_task *task);

/* print.c */
void world_print(const struct world *world); /* jobs, their attempts, and what the nodes have */

/* step.c */
void step_do(struct world *world, const char *text);

/* draw.c */
void draw_policy(struct rng *rng, const char *wanted, char *out, size_t size);
void draw_start(struct rng *rng, const char *policy, char steps[][STEP_BYTES], size_t *count);
enum { MOOD_KINDS = 7 };

struct mood {
    uint32_t weights[MOOD_KINDS]; /* of kinds of steps */
    uint32_t patience;            /* seconds that a wait has, mostly */
    uint32_t settles;             /* percent of them in which all is answered instead */
};

void draw_mood(struct rng *rng, struct mood *mood);
void draw_step(struct rng *rng, const struct world *world, const struct mood *mood, char *out, size_t size);

/* check.c */
void check_batch(struct world *world); /* after every batch */
void check_end(struct world *world);   /* quiet, truth, everything over, replay */
