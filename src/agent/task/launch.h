/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* launch.h - an order to launch, read; and what follows from it for the processes of this node. */
#include <jansson.h>

#include "agent/gpu_runtime.h"
#include "base/buf.h"
#include "wire/agent/agent_msg.h"
#include "wire/job/roles.h"
#include "wire/job/submission.h"

/* More would never be on one GPU; those beyond are waited for. */
enum { LAUNCH_BESIDE_MAX = 8 };

struct launch_node {
    const char *name, *address; /* borrowed from the order */
    uint32_t gpu_count;
    uint32_t part;                 /* of a gang on several types of GPU, the one that is here */
    uint16_t gpus[AGENT_GPUS_MAX]; /* indices on the node */
};

/* When a job was submitted, which tells its task from another's of that number. Of one whose controller did not tell;
 * of one whose record is gone, so that nobody knows whose it was. */
enum born { BORN_UNTOLD = 0, BORN_LOST = -1 };

/* Whether two are of one job, as far as anybody tells. */
static inline bool born_same(int64_t a, int64_t b)
{
    return a == BORN_UNTOLD || b == BORN_UNTOLD || a == b;
}

struct launch {
    json_t *order; /* owned */
    struct task_id id;
    struct submission spec;
    const char *user, *vc, *cluster; /* borrowed from the order; NULL */
    int64_t uid, gid;
    struct launch_node *nodes; /* owned; by rank */
    uint32_t node_count;
    int64_t array_id; /* 0 = none */
    int32_t array_index;
    uint16_t port;
    usec_t end; /* 0 = none */
    bool go, resume;
    bool gate;                         /* to be held at its gate while another has its GPUs */
    bool guest;                        /* on GPUs that are another's: it waits for nobody to leave, and nobody for it */
    bool opportunistic;                /* gets what others leave idle */
    bool runtime;                      /* shares GPUs, or is to leave them: with the GPU runtime */
    bool tell_use;                     /* somebody plans by how much of its GPUs it uses */
    bool tell_idle;                    /* somebody plans by whether it still uses them */
    int64_t beside[LAUNCH_BESIDE_MAX]; /* jobs on its GPUs that only save, or share them: it waits for none of them */
    uint32_t beside_count;
    int64_t limit_mib;       /* of each GPU; 0 = none */
    bool own;                /* only its own place is known: nodes[0] */
    struct role_task *roles; /* owned; all tasks of all roles; NULL: a job without roles */
};

int launch_read(json_t *order, struct launch *ret_launch, struct error *err); /* borrows, keeps a reference */
void launch_done(struct launch *launch);
/* Whom it need not wait for, as the order has it that is repeated, or that lets it go. */
void launch_beside(struct launch *launch, const json_t *order);
static inline const struct launch_node *launch_here(const struct launch *launch)
{
    return &launch->nodes[launch->own ? 0 : launch->id.rank];
}
/* Forgets the places of the other ranks, here and in the order: a thousand emulated agents in one process would each
 * know of a thousand. */
int launch_forget(struct launch *launch);

/* What the node knows of itself. */
struct launch_host {
    const char *node, *sku, *rack;
    const char *dir;          /* of the task */
    const char *const *uuids; /* of its GPUs, by index; NULL */
    const uint16_t *links;    /* NVLink group of each; NULL */
    uint32_t gpu_count, memory_mib;
    bool fenced;                             /* only the task's GPUs can be opened, so they are numbered from 0 */
    bool container;                          /* GPUs are named by UUID */
    bool amd;                                /* GPUs of AMD's */
    const char *mps;                         /* folder of the MPS server that shares GPUs here; NULL: there is none */
    const struct gpu_runtime_paths *runtime; /* of the GPU runtime, where the task has it; NULL */
    const char *key;                         /* marks every process of the task: MUSTER_TASK_KEY */
    const char *home, *shell;
};

/* How many processes the command is started as on the node of this rank; 0: it only holds its place. */
uint32_t launch_procs(const struct launch *launch, uint32_t rank);

/* The `local`-th of them where the job has roles; NULL: it has none. */
const struct role_task *launch_role(const struct launch *launch, uint32_t rank, uint32_t local);

/* Ranks that take turns on each GPU: more than one where it was given fewer GPUs than it has workers. */
uint32_t launch_splice(const struct launch *launch);
uint32_t launch_first(const struct launch *launch, uint32_t rank); /* number of its first among all */
uint32_t launch_world(const struct launch *launch);

/* Variables every process of the node has, as strings K=V; then those of one of them. muster-env(7). */
json_t *environ_node(const struct launch *launch, const struct launch_host *host);
json_t *environ_proc(const struct launch *launch, uint32_t local);
/* What differs for a task of a role from those of its node (`node`: their variables). Nothing without roles. */
void environ_role(const struct launch *launch, uint32_t local, const json_t *node, json_t *env);
/* "host slots=N" a line. */
int environ_hosts(const struct launch *launch, struct buf *out);

/* A file name with %j %x %a %A %N %t %n filled in; relative ones below the job's directory. Owned; NULL = no memory. */
char *launch_output(const struct launch *launch, const char *pattern, const char *node, uint32_t task);
/* Whether the account has that group on this node (task_plan.c). */
bool task_group_held(uid_t uid, gid_t gid);
