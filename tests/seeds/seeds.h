/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* seeds.h - a whole simulated life of a cluster drawn from one number, and what must be true of it at every instant. */
#include "base/rng.h"
#include "sim/scenario.h"

enum { SCRIPT_MAX = 64, GIVEN_MAX = 4, SETTINGS_MAX = 14 + GIVEN_MAX, SETTING_TEXT = 32, WHY_TEXT = 512 };

/* What was drawn. */
struct life {
    uint64_t seed;
    char cluster_text[256];
    struct cluster_spec cluster;
    struct trace trace;
    const char *policy;
    char policy_text[64];
    struct setting settings[SETTINGS_MAX];
    char values[SETTINGS_MAX][SETTING_TEXT];
    size_t setting_count;
    struct driver_event script[SCRIPT_MAX];
    size_t script_count;
    usec_t stop_cost, until;
    bool marks;            /* see struct draw */
    uint32_t reload_every; /* of the third run */
};

/* What is asked for. */
struct draw {
    uint64_t seed;
    bool cells;                  /* virtual clusters are guaranteed shapes */
    bool marks;                  /* nodes have marks, or are kept for some jobs; jobs ask for them */
    bool sides;                  /* several types of GPU, and gangs on more than one of them */
    bool found;                  /* as it was when the seeds that tests name found something */
    bool classes;                /* jobs have priorities, which count under most policies */
    bool bare;                   /* nodes without GPUs, and more jobs without GPUs */
    const char *policy;          /* of the cluster and of some of its parts; NULL: drawn */
    const struct setting *given; /* its options, wherever it is; at most GIVEN_MAX */
    size_t given_count;
};

/* Where they are drawn, some gangs that have a size of their own and no wish of how they lie are on several types. */
void draw_sides(const struct draw *draw, struct life *life);

/* Where they are drawn, nodes without GPUs. -ENOMEM. */
int draw_bare(const struct draw *draw, struct life *life);

/* How jobs may be preempted, how they fail, and what is worth another attempt. */
void draw_terms(const struct draw *draw, struct life *life);

/* Some nodes that would go down are drained: what runs there may end. */
void draw_drains(const struct draw *draw, struct life *life);
/* Where they are drawn, priorities, and in most virtual clusters that higher ones preempt. */
void draw_classes(const struct draw *draw, struct life *life);

/* -ENOMEM or what the parsers say, in words. */
int life_draw(const struct draw *draw, struct life *ret_life, struct error *err);
void life_done(struct life *life);

/* Who holds what, kept from nothing but the decisions. */
struct holder {
    uint32_t *gpus;
    uint32_t count;
    mgpu_t share;
    bool runs;      /* without GPUs */
    usec_t started; /* last */
    bool leaving, cancelled;
    int64_t mate; /* id, plus 1, of the one it is packed with; 0 = none */
};

struct watch {
    const struct life *life;
    struct holder *holders; /* by job id */
    mgpu_t *used;           /* by GPU: of those that are not leaving */
    uint32_t gpu_count;
    uint64_t decisions, looked, theorems;
    const struct cluster_spec *cluster; /* what copies of the core are made of; NULL: none are made */
    const struct core_config *config;
    bool log;           /* print every decision, up to the first thing that is wrong */
    char why[WHY_TEXT]; /* the first thing found wrong; "" = nothing */
};

int watch_init(struct watch *watch, const struct life *life);
void watch_done(struct watch *watch);

/* Callbacks of the driver. */
void watch_decision(void *watch, const struct core *core, const struct decision *decision, const uint32_t *gpus);
void watch_instant(void *watch, const struct core *core);

/* Notes what is wrong, unless something was already. */
void watch_wrong(struct watch *watch, const struct core *core, int64_t id, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* watch_theorem.c: now and then, whether the thing that a job waits for is what it waits for. */
void watch_theorems(struct watch *watch, const struct core *core);

/* watch_cells.c: the same where virtual clusters are guaranteed shapes. NULL, or why it is not so. */
const char *watch_untrue_cells(const struct core *core, uint32_t index, const struct job *job, enum reason reason);

/* watch_guest.c: the same of a job that waits to be somebody's guest. */
const char *watch_untrue_guest(const struct core *core, uint32_t job, enum reason reason);

/* watch_reason.c: whether the job may run on GPUs of the type, and there is memory enough; whether why the job waits is
 * so. */
bool watch_owed_only(const struct core *core, const struct job *job);              /* nothing that is lent may be its */
bool watch_possible(const struct core *core, const struct job *job, uint32_t sku); /* it has enough GPUs for it */
bool watch_nobody_on(const struct ledger *ledger, uint32_t gpu);                   /* no owner that stays, up or not */
bool watch_type(const struct core *core, const struct job *job, uint32_t sku);
const char *watch_unseen(const struct core *core, uint32_t job); /* NULL: somebody will look at it soon */
void watch_reason(struct watch *watch, const struct core *core, uint32_t job);

/* watch_classes.c: whether the job waits for one of a lower priority that it could preempt. */
void watch_classes(struct watch *watch, const struct core *core, uint32_t job);
