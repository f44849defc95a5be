/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* registry.h - what the controller remembers of jobs, nodes and people beside what the core decides with.
 *
 * Read by whoever answers requests; written by apply_*.c alone.
 */
#include "base/names.h"
#include "base/tree.h"
#include "ctl/state/attempt/attempt_record.h"
#include "ctl/state/core_link.h"
#include "ctl/state/dependents.h"
#include "ctl/state/id_index.h"
#include "ctl/state/job_phase.h"
#include "ctl/state/measures.h"
#include "ctl/state/node_record.h"
#include "ctl/state/settings/settings_record.h"
#include "model/reason.h"
#include "wire/job/submission.h"

enum { REGISTRY_OUTCOMES = 65536, REGISTRY_KEYS = 4096, REGISTRY_AFTER_MAX = 64 };

/* Why a job is not in the core yet. In the order people are told. */
enum gate {
    GATE_NONE,
    GATE_HELD,
    GATE_BEGIN,
    GATE_DEPENDENCY,
    GATE_ARRAY,
    GATE_PAUSED,
    GATE_USER,
    GATE_RESERVATION,
    GATE_COUNT
};

/* What the elements of an array have in common, also when some were given a submission of their own. */
struct ctl_array {
    uint32_t refs;              /* submissions */
    uint32_t inside;            /* elements that are in the core */
    uint32_t live;              /* elements that are not over */
    uint32_t turns;             /* tree of the elements at GATE_ARRAY (gate_queue.h) */
    struct submission elements; /* indices and parameters alone: those of the submissions of all of them */
    struct after_list *after;   /* jobs that its elements wait for; NULL: none */
};

/* A submission that its job, or all jobs of its array, were made from. */
struct ctl_spec {
    uint32_t refs;
    struct submission s;
    struct ctl_array *array; /* shared by the submissions of all its elements; NULL: of no array */
    char *text;              /* owned; the same as a document, canonical */
    size_t bytes;            /* of the text */
};

/* What was expected of a job when it came; 0 = not told (estimates.h). */
struct ctl_predicted {
    usec_t run;
    uint32_t memory_mib;
    uint16_t util, util_dev; /* hundredths of a percent */
    int32_t gpus_pay;        /* more would not be worth their time */
};

struct ctl_job {
    int64_t id;
    uint32_t index;   /* below ctl_config.jobs_max, while it is not over */
    int64_t array_id; /* 0 = not of an array */
    int32_t array_index;
    uint32_t user, vc; /* registry.users; number of the virtual cluster */
    uint32_t uid, gid;
    struct ctl_spec *source;       /* shared by an array */
    const struct submission *spec; /* &source->s */
    struct jobspec wants;          /* as bound to this cluster */
    enum phase_of_job phase;
    enum gate gate;
    bool held;    /* by a person */
    uint8_t link; /* enum core_link; set by link_move() alone */
    enum phase_of_job ends_as;
    int64_t stop_by;                                       /* job that the core last stopped it for; 0 = not told */
    uint32_t slot, gen;                                    /* reference in the core, while it is there */
    usec_t submit, eligible, first_start, last_start, end; /* 0 = not yet */
    usec_t reason_since;
    enum reason reason;                /* while it waits in the core */
    int64_t reason_needs, reason_free; /* thousandths of GPUs */
    uint32_t attempt_count;            /* attempts[attempt_count - 1] is the present or last one */
    struct ctl_attempt *attempts;
    usec_t said_progress; /* by the last report; PROGRESS_OWN */
    int64_t said_rate;    /* parts per million of its nominal speed */
    usec_t last_ckpt;
    int64_t gpu_usec;  /* GPU time used in all attempts */
    int64_t lost_usec; /* of it, what a stop from outside threw away: since its start or last checkpoint */
    uint32_t preemptions, failures;
    int exit, signal;                 /* of the last attempt */
    char end_text[128];               /* why it ended, in words */
    uint64_t version;                 /* goes up with every change: the ETag */
    uint64_t after_met, after_failed; /* by number of the dependency */
    struct ctl_predicted predicted;
    size_t bytes;                 /* of its submission, its part of it where it is one of an array */
    int64_t counted;              /* thousandths of GPUs, as they count for its user's limit */
    struct after_list *after;     /* jobs that it waits for; NULL: none, or those of its array */
    struct ctl_progress progress; /* not in the log, but for what is kept of it */
};

/* What one user has. */
struct ctl_user {
    int64_t held;   /* thousandths of GPUs of jobs that are in the core */
    uint64_t bytes; /* of their submissions */
    uint32_t live;  /* jobs that are not over */
    uint32_t gate;  /* tree of the jobs at GATE_USER (gate_queue.h) */
};

/* Whether the core has it, or has still to let it go. */
static inline bool job_in_core(const struct ctl_job *job)
{
    return job->link != LINK_OUTSIDE;
}

/* How a job ended, remembered longer than the job itself: for those that come after it. */
struct ctl_outcome {
    int64_t id;
    enum phase_of_job phase;
};

struct ctl_key { /* a request that is not to be carried out twice */
    uint32_t user;
    uint16_t next; /* of the same slot of key_first, its number and 1; 0 none */
    uint64_t hash;
    char key[64];
    int64_t id;
};

struct registry {
    struct names users, node_names;
    struct ctl_node *nodes;
    size_t node_count, node_capacity;
    struct ctl_user *user; /* as many as there are names of users */
    size_t user_capacity;
    struct ctl_job **live; /* not over, ascending by id; NULL: it has ended in this batch (registry_compact()) */
    int64_t *live_ids;     /* of the same places */
    size_t live_count, live_capacity, live_gaps;
    struct ctl_job **finished; /* ring of the last ones */
    size_t finished_count, finished_capacity, finished_next, finished_bytes;
    struct id_index finished_index;
    struct ctl_token *tokens;
    size_t token_count, token_capacity;
    struct ctl_outcome *outcomes; /* ring */
    size_t outcome_count, outcome_next;
    struct id_index outcome_index;
    struct ctl_key *keys; /* ring */
    uint16_t *key_first;  /* by hash */
    size_t key_count, key_next;
    struct dependents dependents;
    struct kept_lists kept; /* limits, secrets, webhooks, reservations, ... (settings_record.h) */
    int64_t next_id;
    bool paused;
    uint64_t submitted, ended[PHASE_JOB_COUNT];
};

const struct ctl_job *registry_find(const struct registry *registry, int64_t id); /* live or lately finished; NULL */
/* Elements of an array, ascending by index; returns how many there are, fills at most `max`. */
size_t registry_array(const struct registry *registry, int64_t array_id, const struct ctl_job **out, size_t max);
bool registry_array_live(const struct registry *registry, int64_t array_id); /* elements of it are not over */
/* The last of them; the first from the id on; NULL */
const struct ctl_job *registry_array_last(const struct registry *registry, int64_t array_id);
const struct ctl_job *registry_element(const struct registry *registry, int64_t array_id, int64_t id);
const struct ctl_resv *resv_find(const struct registry *registry, const char *name); /* NULL */
bool resv_active(const struct ctl_resv *resv, usec_t now);
bool resv_has(const struct ctl_resv *resv, const char *node);
/* The next one, not of number `kept`, that begins on one of these nodes (a list of names) after `from` and before
 * `until` (0: whenever); NULL. Who is there then is told to leave. */
const struct ctl_resv *resv_next(const struct registry *registry, const char *nodes, uint8_t kept, usec_t from,
                                 usec_t until);
/* The limits of a user: their own, else those of all; NULL: none. */
const struct entry_limits *limits_find(const struct registry *registry, const char *user, bool own);
/* How many GPUs, or jobs, a user may have; -1 = no limit. */
int64_t limits_gpus(const struct registry *registry, const char *user);
int64_t limits_jobs(const struct registry *registry, const char *user);
/* The labels that people gave a node; NULL: none. */
const struct change_list *labels_find(const struct registry *registry, uint32_t node);
/* How a task of a role has ended; NULL: it has not. */
const struct ctl_role_end *role_end_find(const struct submission *s, const struct ctl_attempt *attempt,
                                         const struct job_role *role, int64_t index);
const struct ctl_node *registry_node_find(const struct registry *registry, const char *name);
/* The next that is not over, by id; *at begins with 0. NULL: there are no more. */
static inline struct ctl_job *registry_next(const struct registry *registry, size_t *at)
{
    while (*at < registry->live_count && !registry->live[*at])
        ++*at;
    return *at < registry->live_count ? registry->live[(*at)++] : NULL;
}
void ctl_job_free(struct ctl_job *job);
static inline const struct ctl_attempt *attempt_last(const struct ctl_job *job)
{
    return job->attempt_count ? &job->attempts[job->attempt_count - 1] : NULL;
}
