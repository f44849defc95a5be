/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* singularity.h - what the files of the planner `singularity` share: planner_singularity.c (the pass),
 * singularity_floor.c (promises and windows), singularity_room.c (where jobs stand), singularity_take.c (from whom GPUs
 * are taken), singularity_mend.c (groups made whole), singularity_basic.c (jobs that nothing was promised).
 *
 * A home is where the promise to a job is kept: one GPU type in one region (domain). Promises are counted by home.
 */
#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "policy/singularity/reclaim.h"
#include "policy/singularity/tier.h"

enum { HOMES_MAX = 1024, ITEMS_MAX = 1 << 15, GAIN_NODES = 1 << 16, HOME_NONE = -1 };

enum {
    P_WINDOW,
    P_PREMIUM,
    P_STANDARD,
    P_LOAD,
    P_GUARD,
    P_OUTAGE,
    P_TURNS,
    P_REST,
    P_SAVE,
    P_SPLICE,
    P_SPAN,
};

/* What the planner remembers of a job. */
enum {
    WORD_HOME,  /* 0: not seen yet; 1 + home: promised; -1: not promised */
    WORD_BEGIN, /* of the window */
    WORD_BASE,  /* GPU-time it had attained then */
    WORD_SAVED, /* its last checkpoint */
};

/* A job the pass is about: of the promised all, of the others those that hold GPUs. */
struct item {
    const struct job *at;
    uint32_t job;
    int32_t home, gpus, world; /* gpus 0: it waits */
    usec_t slack, spare;
    uint8_t tier;
    bool idle; /* can be resized: it runs, and nothing was done to it in this pass */
    bool done; /* had its turn */
};

struct singularity {
    /* Counters, in the order of their names. */
    int64_t windows, windows_below, below_work, offers, upgrades, alarms, shrinks, grows, preemptions, starts_spliced,
        saves, in_vain;
    struct tier_sum sums[HOMES_MAX]; /* what is promised where */
    int64_t declined[TIER_COUNT];    /* jobs that asked for the tier and were not promised it */
    bool look;                       /* something promised has come free */
    /* Of one pass. */
    uint32_t item_count;
    struct tier_rules rules; /* window 0: not looked up yet */
    struct tier_lent lent[HOMES_MAX];
    bool lent_known;
    struct {
        struct reclaim_rules rules;
        int32_t home, need; /* need 0: nothing was */
        uint8_t turn;
        bool plain;
    } vain;           /* asked for in this pass and not to be had, and nothing has changed since */
    bool taken, soon; /* somebody was told to leave for the job whose turn it is; for one that waits to grow */
    uint64_t pass;    /* in which that was which follows */
    int32_t earmarked[HOMES_MAX]; /* free, or being left, for a job that waits to grow */
    uint32_t kept[GANG_GPUS_MAX]; /* which these are */
    uint32_t kept_count;
    uint64_t kept_bits[CLUSTER_GPUS_MAX / 64];
    struct item items[ITEMS_MAX];
    struct reclaim_job victims[ITEMS_MAX];
    uint32_t order[ITEMS_MAX];
    struct undo {
        uint32_t item;
        int32_t gpus;
    } stopped[ITEMS_MAX]; /* for the job whose turn it is */
    uint32_t stopped_count;
    uint32_t gpus[GANG_GPUS_MAX];
    uint16_t gain[GAIN_NODES];   /* by node: GPUs that victims would leave there; 0 between two calls */
    uint32_t cursor[SHAPES_MAX]; /* by shape: the next waiting job to look at */
};

/* Why room is made for a job: its promise is at stake, it came, or it has less than its size. */
enum turn { TURN_ALARM, TURN_ARRIVAL, TURN_GROW };

/* Nobody is stopped who was given its GPUs less than this ago: so nothing can happen for ever at one instant. */
#define YOUNG USEC_SEC

/* singularity_floor.c */
/* Promises the job what it asks for, or treats it as basic. */
void floor_admit(struct planner_ctx *ctx, struct plan *plan, uint32_t job);
/* Those that were not promised what they asked for, while there is room for it now. */
void floor_upgrade(struct planner_ctx *ctx, struct plan *plan);
void floor_release(struct planner_ctx *ctx, uint32_t job);
/* Windows that are over are judged and new ones begun. */
void floor_roll(struct planner_ctx *ctx, struct plan *plan, uint32_t job);
/* How long it could stand still; the second of the next window too, see tier.h. */
void floor_left(const struct planner_ctx *ctx, const struct job *job, usec_t *ret_slack, usec_t *ret_spare);
static inline bool floor_promised(const struct job *job)
{
    return job->word[WORD_HOME] > 0;
}

/* singularity_room.c */
uint32_t home_count(const struct planner_ctx *ctx);
uint32_t home_sku(const struct planner_ctx *ctx, int32_t home);
const struct pool *home_pool(const struct planner_ctx *ctx, int32_t home); /* NULL: it has no GPU */
int32_t home_capacity(const struct planner_ctx *ctx, int32_t home);
/* Where a job that holds GPUs stands. */
int32_t home_of(const struct planner_ctx *ctx, uint32_t job);
/* GPUs that a job could be given there, being left or not. */
int32_t home_room(const struct planner_ctx *ctx, const struct plan *plan, int32_t home, uint8_t klass);

/* Sizes the job may have: legal ones, or its own alone where jobs are not spliced. */
int32_t size_fit(const struct planner_ctx *ctx, const struct jobspec *spec, int32_t gpus);
int32_t size_least(const struct planner_ctx *ctx, const struct jobspec *spec);

/* So many GPUs for a job in a home, tensor-parallel groups on one node each, on few nodes. */
int stand_find(struct planner_ctx *ctx, const struct jobspec *spec, int32_t home, int32_t gpus, struct placement *ret);
/* What it has and more, all of it free (or being left, if `soon`); or a part of what it has, on few nodes. */
int stand_more(struct planner_ctx *ctx, uint32_t job, int32_t gpus, bool soon, struct placement *ret);
int stand_less(struct planner_ctx *ctx, uint32_t job, int32_t gpus, struct placement *ret);
/* Those of the placement that are not the job's are kept for it in this pass; and nothing is kept any more. */
void stand_keep(struct planner_ctx *ctx, const struct placement *to);
void stand_forget(struct planner_ctx *ctx);
/* Groups that must not be torn apart; those larger than a node are. */
uint32_t stand_group(const struct jobspec *spec, const struct pool *pool);
/* GPUs of a node that nobody has and nothing is kept of; whether it is such a one, or (`soon`) will be. */
uint32_t stand_free(const struct planner_ctx *ctx, uint32_t node);
bool stand_can_have(const struct planner_ctx *ctx, uint32_t gpu, bool soon);
/* What the job holds, into s->gpus; none if a node of it is closed: it cannot be given that again. */
uint32_t stand_held(struct planner_ctx *ctx, uint32_t job);
void stand_sort(uint32_t *gpus, uint32_t count);
/* Notes what these victims would leave on which nodes; and takes that back. */
void stand_gain(struct planner_ctx *ctx, uint32_t victims, int sign);
/* Whether whole groups of a job add up to so many GPUs once these victims have left. */
bool stand_groups(struct planner_ctx *ctx, const struct jobspec *spec, int32_t home, int32_t gpus, uint32_t victims);

/* singularity_mend.c */
/* Who moves how many GPUs away from a node, so that a group is whole there. */
struct mend {
    uint32_t item, node, part, group;
};
/* With what was noted of victims. */
bool mend_find(struct planner_ctx *ctx, const struct item *for_whom, const struct reclaim_rules *rules,
               struct mend *ret);
/* -EAGAIN: it moves, or will when the GPUs it gets have been left. -EBUSY: not. */
int mend_move(struct planner_ctx *ctx, struct plan *plan, const struct mend *mend);

/* singularity_take.c */
/* Since when nothing was done to its size, and whether that is long ago. */
usec_t settled_since(const struct job *job);
bool rested(const struct planner_ctx *ctx, const struct job *job);
/* Makes room for a job to have gpus[0] more, gpus[1] beyond what is there. -EBUSY: there is none; take_back.
 * -EAGAIN: others move, and then there is. */
int take_room(struct planner_ctx *ctx, struct plan *plan, const struct item *item, const int32_t gpus[2],
              const struct reclaim_rules *rules);
void take_back(struct planner_ctx *ctx, struct plan *plan);

/* planner_singularity.c */
int stand_start(struct planner_ctx *ctx, struct plan *plan, struct item *item, int32_t gpus);
int stand_grow(struct planner_ctx *ctx, struct plan *plan, struct item *item, int32_t gpus);
void order_sort(struct planner_ctx *ctx, uint32_t count, bool by_part);

/* singularity_basic.c */
void basics_start(struct planner_ctx *ctx, struct plan *plan);
void basics_grow(struct planner_ctx *ctx, struct plan *plan);
