/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* jobspec.h - what a job asks for: everything a scheduler may know of it before it has run.
 *
 * The truth about a job (how long it will really run, when it will fail) is not here: it belongs to the world,
 * simulated or real, and no policy can reach it.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/units.h"

enum job_class { CLASS_GUARANTEED, CLASS_OPPORTUNISTIC, CLASS_AUTO, CLASS_COUNT };
enum job_tier { TIER_PREMIUM, TIER_STANDARD, TIER_BASIC, TIER_COUNT };
enum job_slo { SLO_BEST_EFFORT, SLO_SOFT, SLO_STRICT, SLO_COUNT };

/* How an attempt ended, and who is to blame: decides whether another one is worth its GPUs; see core/retry.c. */
enum fail_class {
    FAIL_NONE,
    FAIL_USER,
    FAIL_SYSTEM,
    FAIL_UNKNOWN,
    FAIL_MEMORY,    /* more memory than it may have */
    FAIL_TIMEOUT,   /* its time limit */
    FAIL_REQUEUE,   /* no failure: it was told to leave, and is run again */
    FAIL_PREEMPTED, /* no failure: it left for another and is over then */
    FAIL_COUNT
};

/* What a job allows to be done to it for the sake of another; each but NEVER allows those before it that leave more of
 * its work. A drain, hardware and a person end all of them. */
enum preempt_mode {
    PREEMPT_REQUEUE, /* it is stopped and waits again: what files mean that do not tell */
    PREEMPT_SUSPEND,
    PREEMPT_CHECKPOINT,
    PREEMPT_CANCEL, /* it is stopped, and is over then */
    PREEMPT_NEVER,  /* it is neither stopped nor moved; so it runs on nothing but what its virtual cluster is owed */
    PREEMPT_MODES
};

/* Parts of a cluster, from the smallest; files call them group (nvlink), socket (numa), node, rack, domain (pod). */
enum job_level { WITHIN_ANY, WITHIN_GROUP, WITHIN_SOCKET, WITHIN_NODE, WITHIN_RACK, WITHIN_DOMAIN, WITHIN_COUNT };

enum {
    DEADLINES_MAX = 4,
    GANG_GPUS_MAX = 1 << 16,
    TASKS_MAX = 1 << 12,
    PRIORITY_MIN = -1,
    PRIORITY_MAX = 1000,
    MARKS_MAX = 64,
    KEPT_MAX = 63,
    RETRY_CODES_MAX = 16,
    EXIT_REQUEUE = 85,     /* the exit code of a job that has saved itself and asks to be run again */
    LICENSES_MAX = 64,     /* kinds that a cluster counts */
    LICENSE_NEEDS_MAX = 8, /* kinds that one job asks for */
    LICENSE_COUNT_MAX = 1000000,
    SIDES_MAX = 3 /* parts of a gang on types that the rest is not on */
};

/* The longest min_runtime: one that cannot be told from for ever. */
#define MIN_RUNTIME_MAX (36500 * USEC_DAY)

/* So many of one kind of licence, while it runs. */
struct license_need {
    uint32_t count;  /* 1..LICENSE_COUNT_MAX */
    uint8_t license; /* its number in the cluster */
};

/* A part of a gang on other types of GPU than the rest: whole GPUs, so many on each of its nodes. */
struct gang_side {
    int32_t gpus;
    uint32_t sku_mask;        /* never 0, and no type that another part of the gang may have */
    uint32_t mcpus, host_mib; /* with each GPU; 0 = not told */
    uint16_t per_node;        /* exactly; divides gpus */
};

struct deadline {
    usec_t at;     /* absolute */
    int32_t value; /* what meeting it is worth; 10 = full */
};

struct jobspec {
    int64_t id;                   /* unique; what files and people call it */
    usec_t submit;                /* absolute */
    usec_t estimate;              /* expected run time on the requested GPUs at nominal speed; 0 = none given */
    usec_t time_limit;            /* 0 = none */
    uint32_t user, vc, model;     /* names of the trace or daemon; NAME_NONE = not told */
    int32_t gpus;                 /* workers that hold a GPU each; 0: a job without GPUs, of `tasks` tasks */
    int32_t tasks;                /* of a job without GPUs, each on one node; 0 for all others */
    uint32_t mcpus, host_mib;     /* thousandths of CPUs, host memory, of each GPU or such task; 0 = not told */
    mgpu_t share;                 /* of each GPU; MGPU_ONE = whole. Below it gpus is 1 */
    int32_t gpus_min, gpus_max;   /* elastic range; both equal gpus for a rigid job */
    int32_t range_min, range_max; /* the range it came with, where a person has fixed its size within; 0 = not */
    int32_t servers;              /* parameter servers without a GPU (Optimus); 0 = all-reduce */
    int32_t gpu_servers;          /* of gpus, how many serve parameters to the others (Liquid); 0 = all-reduce */
    uint32_t bandwidth;           /* network that a worker asks for, in tenths of a GB/s; 0 = not told */
    usec_t launch, save;          /* expected time before and after it uses its GPUs; 0 = not told */
    uint32_t memory_mib;          /* GPU memory, stable, each; 0 = not told */
    uint32_t memory_peak_mib;
    uint32_t batch;       /* global batch size; 0 = not told */
    uint32_t sku_mask;    /* allowed SKUs, bit i = SKU i of the cluster; 0 = any */
    uint16_t utilisation; /* mean GPU utilisation in percent; 0 = not told */
    uint16_t per_node;    /* GPUs on each of its nodes, exactly; 0 = as the placement likes. Divides gpus */
    uint16_t per_unit;    /* GPUs come in whole cells of this many; 0 = one by one. Divides gpus and per_node */
    uint8_t unit;         /* enum job_level of those cells, at or below the node */
    uint8_t within;       /* enum job_level: all of it in one such cell */
    bool within_must;     /* or not at all; else as near as can be */
    uint8_t mark;         /* runs only on nodes with this mark: 1.. is bit 0..; 0 = any */
    uint8_t kept;         /* runs on nodes kept for this number, and on no other; 0 = on those that are kept for none */
    uint16_t skew_permille;   /* largest tensor / all parameters (Tiresias); 0 = not told */
    uint16_t tp, pp;          /* ranks of a tensor- and stages of a pipeline-parallel group; 0 = 1. Divide gpus */
    uint16_t splice_max;      /* replicas that may take turns on one GPU (see splice.h); 0 = as many as there are */
    int16_t priority;         /* PRIORITY_MIN..PRIORITY_MAX */
    uint8_t klass, tier, slo; /* enum job_class, job_tier, job_slo */
    uint8_t deadline_count;
    uint8_t retries; /* further attempts after failures that are not the system's */
    bool no_requeue; /* what the system does to an attempt ends it */
    uint8_t retry_on_count;
    uint8_t retry_on[RETRY_CODES_MAX]; /* exit codes that `retries` covers too */
    uint8_t preempt;                   /* enum preempt_mode */
    usec_t min_runtime;                /* not stopped for another's sake before it has run so long; 0 = at once */
    struct deadline deadlines[DEADLINES_MAX]; /* ascending */
    uint8_t license_count;
    struct license_need licenses[LICENSE_NEEDS_MAX]; /* by number, ascending */
    uint8_t side_count;                              /* then the job is rigid, and of whole GPUs */
    struct gang_side sides[SIDES_MAX];               /* beside `gpus`, which are on types of sku_mask */
};

/* Until it has run so long, others cannot have what it holds; USEC_NEVER: as long as it runs. */
static inline usec_t jobspec_keeps(const struct jobspec *spec)
{
    return spec->preempt == PREEMPT_NEVER ? USEC_NEVER : spec->min_runtime;
}

/* GPUs of the parts on other types. */
static inline int32_t jobspec_sides(const struct jobspec *spec)
{
    int32_t gpus = 0;

    for (uint32_t i = 0; i < spec->side_count; i++)
        gpus += spec->sides[i].gpus;
    return gpus;
}

/* GPUs of the whole gang. */
static inline int32_t jobspec_gpus(const struct jobspec *spec)
{
    return spec->gpus + jobspec_sides(spec);
}

/* Whether it can run on fewer or more GPUs, as it came. */
bool jobspec_elastic(const struct jobspec *spec);

/* Whether it can be of that size, whatever the cluster. -ERANGE with words. */
int jobspec_size_check(const struct jobspec *spec, int32_t gpus, struct error *err);

/* Its size is this one and no other; 0: any of the range it came with, beginning with the one it has. */
void jobspec_resize(struct jobspec *spec, int32_t gpus);
