/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* ledger.h - who holds which share of which GPU. The only writer of occupancy.
 *
 * A share ties one job to one GPU. What a GPU has given away is the sum of the shares of owners; it never exceeds one
 * GPU. Guests (opportunistic jobs on a GPU that somebody else owns) use what the owner leaves idle: they take nothing
 * from the sum and are limited in number.
 *
 * Leaving is a state of its own. A job that was told to stop no longer counts against the GPU, so that a plan can give
 * it to the next one in the same pass; but it is still there until it is reported gone, and until then whoever was
 * given its GPU is blocked. So nothing ever runs on a GPU that another has not left.
 *
 * Two jobs may be packed: one of them owns the GPUs, the other is beside it on all of them. Its shares take nothing
 * from the sum either, but its memory counts, it is waited for when it leaves, and it owns the GPUs as soon as the
 * owner goes (ledger_swap, pair.c).
 *
 * A reservation keeps free GPUs for one job without giving it a share.
 */
#include "core/job.h"
#include "core/ledger/topo.h"

#define SHARE_NONE UINT32_MAX

enum { GUESTS_MAX = 2 };

enum share_role { ROLE_OWNER, ROLE_GUEST, ROLE_PACKED };

/* Of a job that goes elsewhere when others have left: it is there and stays, is there until then, will be there. */
enum share_part { PART_STAYS, PART_OLD, PART_NEW };

struct share {
    uint32_t job, gpu;
    uint32_t next_of_job, next_of_gpu;
    mgpu_t amount;
    uint32_t memory; /* MiB */
    uint8_t role;
    uint8_t part; /* enum share_part; PART_OLD is leaving all the while */
    bool leaving;
    bool server; /* a parameter server is there, not a worker */
    bool waits;  /* the job was given it while others were still leaving */
    bool off;    /* suspended: keeps its place in the list, counts for nothing */
    uint32_t on; /* in a virtual cluster's own ledger: the GPU that stands for this one */
};

struct gpu {
    uint32_t node, group;  /* node number; cell of its NVLink or PCIe group */
    uint32_t shares;       /* first share, SHARE_NONE */
    uint32_t reserved_for; /* job, JOB_NONE */
    mgpu_t used;           /* given to owners that are not leaving */
    mgpu_t leaving;        /* held by owners that are */
    uint32_t memory;       /* MiB that owners which are not leaving ask for */
    uint8_t guests;
    bool bad;
    bool bound;      /* part of a guarantee: what is left of it is not for everybody */
    uint32_t stands; /* in a virtual cluster's own ledger, while a snapshot is read: the GPU that stood for it */
};

struct ledger {
    struct topo topo;
    struct gpu *gpus;
    struct share *shares; /* pool; free ones are chained by next_of_job */
    uint32_t share_free, share_capacity, share_count;
    struct tree_node *open_nodes; /* GPUs with part of them given away, by what is left */
    uint32_t open_trees[SKUS_MAX];
    uint32_t reserved[SKUS_MAX];   /* GPUs kept for somebody */
    uint64_t kept, unkept;         /* the set of them as a number; goes up whenever one is given back */
    uint32_t lone;                 /* GPUs that only guests are on */
    bool imagined;                 /* a virtual cluster's own: nobody waits here for another to leave */
    bool loose_rack, loose_domain; /* of such: its first rack, its first domain are nodes granted one by one */
    struct host *hosts;            /* by node; NULL: no node tells its CPUs or memory. See host_resources.h */
    uint64_t releases;             /* goes up whenever something became free: a "does not fit" is true until then */
};

/* Where a job is to run: GPU numbers, all of one type unless it has sides (gang_parts.h). Borrowed until the next call
 * that fills a placement. */
struct placement {
    const uint32_t *gpus;
    uint32_t count;
};

/* Whether the GPU is whole: nobody's, kept for nobody, in order, its node up. */
bool ledger_whole(const struct ledger *ledger, uint32_t gpu);

/* GPUs of the type that are in order and that nobody is on, guests included, but those who are leaving. */
uint32_t ledger_empty(const struct ledger *ledger, uint32_t sku);

/* The same of those that are not in order, or whose node is not up. */
uint32_t ledger_empty_down(const struct ledger *ledger, uint32_t sku);

/* Whether, besides, nobody is still leaving it: a job that runs can move there. */
static inline bool ledger_idle(const struct ledger *ledger, uint32_t gpu)
{
    return ledger_whole(ledger, gpu) && ledger->gpus[gpu].leaving == 0;
}

/* Whether an owner that asks for `memory` MiB of the GPU fits beside those it has; true where sizes are not told. */
bool ledger_memory_fits(const struct ledger *ledger, uint32_t gpu, uint32_t memory);

/* 0 if a job like this can be given these GPUs; -EBUSY, -EINVAL (mixed types, not ascending), -ENOSPC. Memory of guests
 * is not counted: whoever lets them in caps it. */
int ledger_check(const struct ledger *ledger, const struct placement *to, const struct jobspec *spec,
                 enum share_role role);

/* Gives them. `ledger_check` must have said 0. Returns how many of the GPUs others have not left yet. */
uint32_t ledger_take(struct ledger *ledger, uint32_t index, struct job *job, const struct placement *to,
                     enum share_role role);

/* Which of its GPUs serve parameters to the others; until told, those with the lowest numbers do. */
void ledger_serve(struct ledger *ledger, const struct job *job, const uint32_t *servers, uint32_t count);

/* Gives the job a place on these GPUs without anything of them. -EINVAL, -ENOSPC. */
int ledger_enlist(struct ledger *ledger, uint32_t index, struct job *job, const struct placement *to);

/* Of two jobs that are packed, the other one owns the GPUs now. */
void ledger_swap(struct ledger *ledger, const struct job *a, const struct job *b);

/* The job is told to leave: its shares no longer count. */
void ledger_leave(struct ledger *ledger, const struct job *job);

/* It stays after all. -EBUSY if something it held was given away meanwhile; then nothing changed. Whoever was given the
 * rest of a GPU and waited only for this job to leave it has its `blocked` lowered. */
int ledger_stay(struct ledger *ledger, struct job *jobs, const struct job *job);

/* A job that was leaving is off its GPUs but keeps its place. Fills ready[] as ledger_release does. */
uint32_t ledger_park(struct ledger *ledger, struct job *jobs, const struct job *job, uint32_t *ready, uint32_t max);

/* A suspended job counts again. -EBUSY if a GPU has no room for it. Else how many others have not left yet. */
int ledger_unpark(struct ledger *ledger, const struct job *job);

/* A guest becomes the owner of the GPUs it is on. -EBUSY if somebody else owns, leaves or keeps one of them, or its
 * memory does not fit. */
int ledger_own_check(const struct ledger *ledger, const struct job *job);
void ledger_own(struct ledger *ledger, const struct job *job);

/* The job is gone: its shares are free. Jobs that waited for one of these GPUs have their `blocked` lowered; those that
 * reach 0 are put into ready[], which has room for `max`. Returns how many. */
uint32_t ledger_release(struct ledger *ledger, struct job *jobs, struct job *job, uint32_t *ready, uint32_t max);

/* The job keeps what it has of `to`, is given the rest of it, and begins to leave what is not in it. `ledger_check`
 * must have said 0 for `to` while the job was leaving. */
void ledger_shift(struct ledger *ledger, uint32_t index, struct job *job, const struct placement *to);

/* The same of a job that is leaving all it has, stays there until others have left `to`, and goes then. Returns how
 * many GPUs it waits for. */
uint32_t ledger_defer(struct ledger *ledger, struct job *jobs, uint32_t index, const struct placement *to);

/* What the job was leaving of its GPUs is left. Fills ready[] as ledger_release does. */
uint32_t ledger_shed(struct ledger *ledger, struct job *jobs, struct job *job, uint32_t *ready, uint32_t max);

/* Whether nobody but this job is leaving the GPU. */
bool ledger_only_leaver(const struct ledger *ledger, uint32_t gpu, uint32_t job);

/* Keeps whole free GPUs for a job, or gives all that were kept for it back. */
void ledger_reserve(struct ledger *ledger, uint32_t job, const struct placement *what);
void ledger_unreserve(struct ledger *ledger, uint32_t job, const struct placement *what);

/* Hides a whole free GPU from placements, as if it were kept for `job`; JOB_NONE shows it again. Nothing was released
 * by that. */
void ledger_hide(struct ledger *ledger, uint32_t gpu, uint32_t job);

/* Jobs that waited for CPUs or memory of the node have their `blocked` lowered, as ledger_release does. */
uint32_t ledger_unblock(struct ledger *ledger, struct job *jobs, uint32_t node, uint32_t *ready, uint32_t max);

/* Puts a share of a snapshot at the front of its GPU's list; the job's own list is joined later. */
void ledger_restore(struct ledger *ledger, const struct share *share);

/* The GPU is part of a guarantee until nobody owns a part of it any more. */
void ledger_bind(struct ledger *ledger, uint32_t gpu);

/* Health. The jobs on it are the core's to stop first: it must have no shares when it goes. */
void ledger_gpu_bad(struct ledger *ledger, uint32_t gpu, bool bad);
