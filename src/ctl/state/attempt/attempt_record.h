/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* attempt_record.h - one run of a job and its tasks, as the controller remembers them. */
#include "ctl/state/job_phase.h"
#include "wire/agent/agent_msg.h"
#include "wire/agent/cause.h"

struct ctl_task {
    uint32_t node;  /* registry.nodes */
    uint32_t state; /* enum task_state */
    int exit, signal;
    bool oom;
    bool silent;   /* it ended and never wrote anything, as its node has told */
    bool untold;   /* its launch was not handed to any connection (undelivered.c); not in the log */
    uint8_t blame; /* enum fail_class of a refusal */
    uint8_t part;  /* of a gang on several types of GPU, the one that is here */
    uint16_t gpu_count;
    uint16_t *gpus;        /* owned; indices on the node */
    uint8_t cause;         /* enum task_cause */
    char cause_word[16];   /* of TASK_CAUSE_OTHER: what the node has said; to be shown only */
    usec_t started, ended; /* 0 = not yet */
    /* What its GPUs did, as its node has told with its end. */
    uint32_t used_samples, used_memory_mib;
    uint16_t used_util, used_util_dev; /* hundredths of a percent */
};

/* What the ends of tasks of roles have come to. */
enum roles_verdict { ROLES_OPEN, ROLES_SUCCEEDED, ROLES_FAILED };

/* How a task of a role has ended, if it has. */
struct ctl_role_end {
    bool ended;
    int exit, signal;
};

struct ctl_attempt {
    uint32_t number; /* 0.. */
    enum phase_of_job phase;
    usec_t placed, started, ended; /* 0 = not yet */
    usec_t ran;                    /* time on its GPUs, suspensions taken off */
    int exit, signal;
    uint8_t state;      /* enum attempt_state; set by attempt_happens() alone */
    uint8_t stop_cause; /* enum stop_cause: what it was told to leave for */
    usec_t went;        /* every rank was told to go; 0 = not yet */
    usec_t warned;      /* that its time limit is near; 0 = not */
    usec_t gang_ended;  /* a rank has ended it, and the others were told to leave; 0 = not */
    int64_t stop_by;    /* job it made room for; 0 */
    usec_t stop_at, grace;
    usec_t kept_until; /* it failed, and its place is, or was, kept until then; 0 = not so */
    uint16_t port;
    struct ctl_role_end *role_ends; /* owned; of all tasks of roles, one role behind the other; NULL: none has ended */
    uint32_t role_end_count;
    uint32_t role_verdict; /* enum roles_verdict */
    int role_exit, role_signal;
    char *refusal; /* owned; the node that could not start it, and why; NULL */
    uint32_t task_count;
    struct ctl_task *tasks; /* owned; by rank */
};

/* What its node has said, for people. */
static inline const char *task_cause_shown(const struct ctl_task *task)
{
    return task->cause == TASK_CAUSE_OTHER ? task->cause_word : task_cause_name((enum task_cause)task->cause);
}
