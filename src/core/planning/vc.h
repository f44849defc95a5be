/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* vc.h - a virtual cluster: what it is owed, what it uses, and the policies it has chosen. */
#include "base/rng.h"
#include "core/contract/admit.h"
#include "core/contract/place.h"
#include "core/contract/planner.h"
#include "core/contract/tune.h"
#include "core/ledger/queue.h"

/* The window of a policy; see view.h. */
struct view {
    const struct core *core;
    const struct vc
        *own;   /* it shows this virtual cluster's own GPUs, as if there were no others; NULL: the cluster's */
    bool split; /* there are both: jobs inside the guarantee are seen here, those beyond it there */
};

enum { TUNERS_MAX = 4 };

/* The components of one policy with their knobs; see policy/registry. */
struct policy_setup {
    const struct order_ops *order;
    const struct place_ops *place;
    const struct planner_ops *planner;
    const struct admit_ops *admit;           /* NULL: everybody is admitted */
    const struct tune_ops *tune[TUNERS_MAX]; /* in the order they are called */
    uint32_t tune_count;
    uint32_t system_retries; /* of one job, after failures of the system; see core/retry.c */
    const svc_t *history;    /* what earlier jobs needed in all, for order->learn; borrowed while there is a core */
    size_t history_count;
    int64_t order_params[PARAMS_MAX], place_params[PARAMS_MAX], planner_params[PARAMS_MAX];
    int64_t admit_params[PARAMS_MAX], tune_params[TUNERS_MAX][PARAMS_MAX];
};

/* Which GPUs a planner may hand out: first everybody what it is owed, then what is left over, at last to opportunistic
 * jobs. */
enum phase { PHASE_OWED, PHASE_BORROW, PHASE_GUEST, PHASE_COUNT };

struct vc {
    uint32_t name;
    uint32_t index;          /* its number */
    int64_t quota[SKUS_MAX]; /* thousandths of GPUs it is owed */
    int64_t used[SKUS_MAX];  /* held by its guaranteed jobs that are not leaving */
    int64_t lent[SKUS_MAX];  /* of these, outside its cells; 0 where its quota is a count */
    int64_t guest[SKUS_MAX]; /* held by its opportunistic jobs */
    uint32_t kept[SKUS_MAX]; /* GPUs reserved for its waiting jobs */
    int64_t borrow_max;      /* beyond the quota, all types together; -1 = no limit */
    int64_t user_max;        /* what one user may hold here, in thousandths; 0 = no limit */
    uint8_t priorities;      /* enum vc_priorities, told or not */
    bool priorities_seen;    /* the next two are of all its guaranteed jobs there are, and maybe of some that were */
    int16_t priority_low, priority_high;
    usec_t min_runtime; /* its jobs run so long before they are stopped for another's sake */
    int64_t task_quota; /* thousandths of CPUs that its jobs without GPUs are owed */
    int64_t task_used;  /* that they hold, opportunistic ones aside */
    int64_t borrowed;   /* sum over types of what is beyond the quota */
    struct policy_setup policy;
    struct order_ctx order;
    struct place_ctx place;
    struct planner_ctx planner, admit, tune[TUNERS_MAX];
    struct queue queue;
    uint32_t run_first, run_last; /* jobs that hold GPUs, by start */
    uint32_t running, suspended;
    uint32_t sided;                 /* of those that run, gangs on several types */
    uint32_t resizing;              /* jobs that a person wants at another size than they have; see resize.c */
    uint32_t task_first, task_last; /* jobs without GPUs that wait, in order; those that run, by start */
    uint32_t task_run_first, task_run_last;
    uint32_t task_tree, task_run_tree; /* the same by rank, to find a place in them */
    uint32_t task_claims;              /* in a pass: the one of them that waits for others to leave, JOB_NONE */
    bool task_done;                    /* had its turn */
    struct ledger *own;                /* what it is guaranteed, as a cluster of its own; NULL: its quota is a count */
    uint32_t *own_cells;               /* by GPU of that: the allocator's virtual device */
    struct view view;                  /* what its policy sees */
    struct rng rng;                    /* draws inside its guarantee are its own: the same whatever others draw */
    bool dirty;
    bool stirred;        /* the same beyond its guarantee: inside it what opportunistic jobs do is nobody's business */
    bool stale;          /* all keys changed */
    bool solving;        /* a request to solve is open */
    uint32_t ticket;     /* of the last one */
    uint32_t solve_kind; /* and its kind */
    uint64_t seen_releases; /* of the ledger, when it was last planned */
    uint64_t seen_own;      /* the same of its own */
    uint64_t start_own;     /* of its own, when the pass under way began */
    struct kept_then {
        uint64_t kept, unkept;
    } turns[PHASE_COUNT]; /* by phase of the pass under way: what was kept of GPUs when its turn was over */
    bool unmapped;        /* hardware stood in the way of what it placed in its own: others' leaving may help */
    bool did;             /* a job of it was changed by the pass under way */
    bool barred;          /* what it is owed is held by somebody whom the pass under way has moved */
    bool shorted;         /* one of its jobs was set aside by the pass under way: others have what it lacks */
    /* Inside a guarantee it is planned just when it would be in a cluster of its own, not whenever somebody else is. */
    bool had_turn;
    bool in_turn,
        was_unmapped;         /* as the pass under way began: it is to be planned inside; something stood in the way */
    bool awake, late, fired;  /* in this step: something happened to it; something other than answers; a key jumped */
    usec_t again, planned_at; /* it wants a pass then; the instant of its last one */
};
