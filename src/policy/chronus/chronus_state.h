/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* chronus_state.h - what Chronus keeps; see chronus.h for who does what with it. */
#include "core/contract/plan.h"
#include "core/contract/view.h"
#include "solve/lease.h"
#include "solve/split.h"

enum { CHRONUS_TASKS = 4096, CHRONUS_LEASES = 1536, CHRONUS_WORDS = CHRONUS_LEASES / 64 };
enum { CHRONUS_LINE = 4096, CHRONUS_ALIKE = 4096, CHRONUS_SENDERS = 1024 };

enum {
    CHRONUS_SOLVE = 1 << 15,
    CHRONUS_BUCKETS = 128,
    CHRONUS_UNSURE = 4096,
    CHRONUS_NODES = 1 << 14,
    CHRONUS_RUNNING = 1 << 14
};

enum chronus_param {
    P_LEASE,
    P_SLOT,
    P_SAFETY,
    P_SAVE,
    P_RESTORE,
    P_STAY,
    P_SEARCH,
    P_SPREAD,
    P_SELECT,
    P_EXACT,
    P_NODES,
    P_PROFILE,
    P_POOL,
    P_PER_USER,
    P_ELASTIC,
    P_WORTH
};

/* What the planner keeps in a job's own words; the ordering reads the first. */
enum { WORD_STATUS, WORD_TASK, WORD_NOTE, WORD_CURVE };

enum { ELASTIC_OFF, ELASTIC_MSS, ELASTIC_ONCE };

enum chronus_status {
    STATUS_NEW,
    STATUS_BEST_EFFORT,
    STATUS_PROMISED,
    STATUS_UNSURE,   /* has deadlines, none of them promised */
    STATUS_FIRST,    /* was promised, and something went wrong: the first of those without a promise */
    STATUS_HOPELESS, /* none of its deadlines can be kept any more */
    STATUS_PROFILING
};

/* A job with a promise and its leases. */
struct task {
    uint32_t job, gen;
    int32_t size;         /* GPUs it is planned with */
    uint16_t sku, bucket; /* bucket: of how much service it asks for */
    uint8_t step;         /* the deadline it is planned to keep */
    bool live;
    usec_t due; /* that deadline */
    uint64_t bits[CHRONUS_WORDS];
};

/* How fast a job is at sizes 1, 2, 4, ...; and its promise, where sizes are elastic. */
enum { MSS_JOBS = 2048, MSS_SIZES = 9, MSS_STEPS = 8192 };

struct curve {
    bool live, promised, late;
    uint16_t sku;
    uint32_t job;
    uint32_t place; /* in the last plan that held */
    int32_t now;    /* GPUs it is to have */
    int32_t fixed; /* the size it was admitted with, where that is kept; 0 = not. Without elastic sizes: its speed as it
                    * was measured in the pool, in thousandths of what its estimate says */
    usec_t due;
    ppm_t two_nodes; /* how fast on two nodes, of what it is on one; 0 = not known */
    ppm_t rate[MSS_SIZES];
};

/* Free GPUs over time, from now on. */
struct stairs {
    uint32_t count;
    usec_t at[MSS_STEPS];
    int32_t free[MSS_STEPS];
};

/* How many jobs of a user were measured in this hour. */
struct sender {
    uint32_t user, count;
    usec_t hour;
};

struct chronus {
    /* In the order of chronus_counters: promises by what found them, refusals that were proved, others; exact plans
     * that were asked for; how far the last of them may have been from the best, in millionths. */
    int64_t quick, rebuilt, searched, solved, proved, refused, asked, gap, profiled, filtered;
    uint32_t vc;       /* its own number */
    int64_t lease;     /* under way; its beginning was handled */
    usec_t slot_at;    /* the next slot */
    uint32_t task_top; /* tasks below it were used */
    uint32_t task_count;
    uint32_t unsure_count;
    struct job_ref asked_for;   /* whom an exact plan was asked for, */
    uint16_t asked_sku;         /* on which type */
    uint8_t asked_step;         /* and which of its deadlines */
    uint32_t unit[SKUS_MAX];    /* the largest size that fits every node of the type: a power of two */
    int32_t capacity[SKUS_MAX]; /* GPUs that can be planned */
    uint64_t health;            /* of the nodes, when capacity was counted */
    usec_t recount_at;          /* when the plan is to be held against what there is; USEC_NEVER */
    uint32_t lost_seen;
    uint32_t lost; /* jobs that hardware was lost under since the plan was checked */
    int32_t used[SKUS_MAX][CHRONUS_LEASES];
    struct task tasks[CHRONUS_TASKS];
    struct job_ref unsure[CHRONUS_UNSURE];
    /* What arrived lately, by how much service it asks for (chronus_admit.c): service and time, fading. */
    usec_t load_at, load_span;
    int64_t load_count, load[CHRONUS_BUCKETS];
    bool waits; /* elastic: a size has to wait until others have left */
    int way;    /* of the last plan that held */
    /* Measuring (chronus_profile.c). */
    int32_t pool;            /* GPUs that nothing is promised on */
    int32_t whole[SKUS_MAX]; /* capacity and that */
    int64_t hour, hour_gpus, hour_before;
    uint32_t line_count;
    struct job_ref line[CHRONUS_LINE];
    uint64_t alike[CHRONUS_ALIKE];
    struct sender senders[CHRONUS_SENDERS];
    uint32_t curve_top;
    struct curve curves[MSS_JOBS];
    /* From here on nothing is kept. */
    char kept_end;
    struct stairs stairs;
    int64_t words[CHRONUS_SOLVE];
    bool careful; /* elastic: planning for admission */
    int32_t hole[CHRONUS_NODES];
    uint32_t hole_node[CHRONUS_NODES];
    struct split_job split[SPLIT_JOBS];
    struct split_place split_to[SPLIT_JOBS];
    int32_t node_held[CHRONUS_NODES];
    uint32_t list[CHRONUS_RUNNING], other[CHRONUS_RUNNING];
    struct rank rank[CHRONUS_RUNNING];
    uint32_t cursor[SHAPES_MAX];
    uint32_t gpus[1 << 12];
    struct lease_task problem[CHRONUS_TASKS];
    uint32_t problem_task[CHRONUS_TASKS];
    int32_t large[CHRONUS_LEASES]; /* what jobs from this bucket on have, as long as the plan has this version */
    int large_bucket;              /* + 1 */
    uint16_t large_sku;
    uint64_t large_version, version;
    int32_t order[3 * CHRONUS_TASKS], room[CHRONUS_LEASES], plan_used[CHRONUS_LEASES], plan_step[CHRONUS_TASKS];
    uint64_t plan_bits[CHRONUS_TASKS * CHRONUS_WORDS];
};
