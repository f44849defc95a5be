/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* optimus.h - what planner_optimus.c shares with its two helpers: what was learned of jobs, and where they fit.
 *
 * Everything that is kept is integers, as it was reported; curves and models are computed from it when they are wanted,
 * so a snapshot needs no floating point and a reload changes nothing.
 */
#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "solve/gain_alloc.h"
#include "solve/loss_fit.h"
#include "solve/ps_balance.h"
#include "solve/speed_fit.h"
#include "solve/task_place.h"

/* Elastic jobs that run at one time; those beyond keep the size they start with. And types whose epochs are known. */
enum { OPTIMUS_JOBS = 1024, OPTIMUS_TYPES = 64, OPTIMUS_NODES = 16384, OPTIMUS_SLOW = 64 };

/* The planner's words in a job. WORD_LEFT: microseconds it was predicted to need at the last tick; 0 = not predicted.
 * WORD_ALL, of a job without servers: epochs it says it has in all, in thousandths; 0 = it does not say. */
enum { WORD_RECORD, WORD_LEFT, WORD_LEFT_AT, WORD_SERVERS, WORD_ALL = WORD_SERVERS };

enum { P_INTERVAL, P_ORACLE, P_EARLY, P_DELTA, P_CALM, P_EPOCHS, P_SAMPLES, P_GPU_CPUS, P_TASK_CPUS, P_STRAGGLERS };

struct seen_speed {
    int32_t workers, servers; /* all-reduce: GPUs, nodes */
    int64_t sum, count;       /* of what was reported there; old reports fade */
};

/* One elastic job. */
struct record {
    uint32_t used, job, gen;
    uint32_t loss_count, loss_stride, loss_skipped; /* every stride-th report is kept, so that they stay even */
    uint32_t speed_count;
    uint32_t loss_kept; /* how many were kept so far: a curve is made anew when there is another */
    int64_t epoch;      /* last reported, thousandths */
    uint32_t slow;      /* one of its workers is: it is to be replaced */
    usec_t moved;       /* when it was last told to start or resize, until the cost of that is known; -1 */
    int64_t loss_epoch[LOSS_POINTS_MAX], loss_value[LOSS_POINTS_MAX];
    struct seen_speed speed[SPEED_POINTS_MAX];
};

struct type_epochs {
    uint32_t model, count;
    int64_t epochs; /* sum, thousandths */
};

/* A record as numbers to compute with. */
struct learned {
    struct speed_fit fit;
    struct speed_point points[SPEED_POINTS_MAX];
    bool firm[SPEED_POINTS_MAX]; /* reported often enough to count for more than the model */
    int count;
    int servers, node_gpus; /* of its job, and of the largest node */
    bool usable, early;
    double left; /* work: epochs, or seconds of nominal run time for an oracle */
};

struct optimus {
    /* kept in snapshots */
    struct record records[OPTIMUS_JOBS];
    struct type_epochs types[OPTIMUS_TYPES];
    uint32_t type_count;
    uint32_t record_free; /* lowest that may be free */
    usec_t tick;          /* next full allocation */
    usec_t ticked;        /* instant of the last one */
    int64_t cost_sum, cost_count;
    uint32_t
        slow[OPTIMUS_SLOW]; /* GPUs + 1 on which a worker was far slower than the others; the oldest are forgotten */
    uint32_t slow_next;
    /* scratch */
    struct memo {
        uint32_t gen, kept;
        bool failed;
        struct loss_fit fit;
    } memos[OPTIMUS_JOBS];
    struct learned learned[OPTIMUS_JOBS];
    struct gain_job jobs[OPTIMUS_JOBS];
    struct choice {
        uint32_t job;
        int32_t now, then, least;          /* GPUs; now 0 = it waits */
        int32_t servers_now, servers_then; /* parameter servers; 0 = it has none */
    } choices[OPTIMUS_JOBS];
    uint32_t heap[OPTIMUS_JOBS];
    uint32_t cursor[SHAPES_MAX];
    struct task_node nodes[OPTIMUS_NODES];
    struct task_part parts[OPTIMUS_NODES];
    uint32_t order[OPTIMUS_NODES], node_of[OPTIMUS_NODES];
    uint32_t gpus[GANG_GPUS_MAX];
    double worker[GANG_GPUS_MAX]; /* speeds of the job that reports its workers now */
    uint32_t worker_gpu[GANG_GPUS_MAX], worker_count, worker_job;
    uint8_t worker_slow[GANG_GPUS_MAX];
    bool served;                /* some job of the round has parameter servers: CPUs count */
    double cpus[OPTIMUS_NODES]; /* of each node, in use; where CPUs count */
};

/* optimus_learn.c */

/* The job's record; NULL if it has none. */
struct record *learn_find(struct optimus *o, const struct job *job);

/* A report of the job; makes a record for it if there is room. */
void learn_report(struct planner_ctx *ctx, struct plan *plan, uint32_t job, const struct report *report);

/* It was told to start or resize: until it runs again is what that costs. */
void learn_moved(struct planner_ctx *ctx, uint32_t job);

/* Its record is free; if it was done, its type's epochs are known better. */
void learn_ended(struct planner_ctx *ctx, uint32_t job);

/* What is known of a job now. */
void learn_model(struct planner_ctx *ctx, uint32_t job, struct learned *ret);

/* Parameter servers the job runs with. */
int32_t learn_servers(const struct job *job);

/* Work a second with so many GPUs and servers; for gain_job.speed. */
double learn_speed(const void *learned, int servers, int workers);

/* Mean time a start or resize has taken so far, in seconds; 0 before any. */
double learn_cost(const struct optimus *o);

/* Whether a worker was found slow on that GPU. */
bool learn_slow(const struct optimus *o, uint32_t gpu);

/* optimus_room.c */

/* GPUs of a type for a job, those it has counting as free: on the fewest nodes, evenly; with them *servers parameter
 * servers, on CPUs of the same nodes, where CPUs count. With `least` it may be fewer GPUs, but not below that, and
 * fewer servers. 0 and *ret, in o->gpus; -EBUSY. */
int room_find(struct planner_ctx *ctx, uint32_t job, uint32_t sku, const int32_t range[2], int32_t *servers,
              struct placement *ret);

/* Counts the CPUs that are in use on each node: those of workers, and of servers, which stand evenly beside them. */
void room_count_cpus(struct planner_ctx *ctx);
