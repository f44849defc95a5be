/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* book.h - what the controller remembers of jobs, nodes and people beside what the core decides with.
 *
 * Read by whoever answers requests; written by apply_*.c alone.
 */
#include <jansson.h>

#include "base/names.h"
#include "ctl/book_node.h"
#include "ctl/phase.h"
#include "model/reason.h"
#include "wire/agent_msg.h"
#include "wire/submission.h"

enum { BOOK_OUTCOMES = 65536, BOOK_KEYS = 4096, BOOK_AFTER_MAX = 64 };

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

struct book_task {
    uint32_t node;  /* book.nodes */
    uint32_t state; /* enum task_state */
    int exit, signal;
    bool oom;
    bool silent;   /* it ended and never wrote anything, as its node has told */
    bool untold;   /* its launch was not handed to any connection (untold.c); not in the log */
    uint8_t blame; /* enum fail_class of a refusal */
    uint8_t part;  /* of a gang on several types of GPU, the one that is here */
    uint16_t gpu_count;
    uint16_t *gpus; /* owned; indices on the node */
    char cause[16];
    usec_t started, ended; /* 0 = not yet */
    /* What its GPUs did, as its node has told with its end. */
    uint32_t used_samples, used_memory_mib;
    uint16_t used_util, used_util_dev; /* hundredths of a percent */
};

/* What the ends of tasks of roles have come to. */
enum roles_verdict { ROLES_OPEN, ROLES_SUCCEEDED, ROLES_FAILED };

struct book_attempt {
    uint32_t number; /* 0.. */
    enum phase_of_job phase;
    usec_t placed, started, ended; /* 0 = not yet */
    usec_t ran;                    /* time on its GPUs, suspensions taken off */
    int exit, signal;
    bool told_go, stopping, warned;
    bool ending;        /* a rank has ended the gang */
    bool prepared;      /* launched up to its gate, behind the job that has its GPUs */
    bool moves;         /* leaves its GPUs for others and goes on there, in a new attempt */
    char stop_kind[16]; /* preempt timeout cancel drain; "" */
    int64_t stop_by;    /* job it made room for; 0 */
    usec_t stop_at, grace;
    usec_t kept_until; /* it failed, and its place is kept until then; 0 = not so */
    uint16_t port;
    json_t *roles;         /* {role: {index: [exit, signal]}} of those that have ended; NULL */
    uint32_t role_verdict; /* enum roles_verdict */
    int role_exit, role_signal;
    char *refusal; /* owned; the node that could not start it, and why; NULL */
    uint32_t task_count;
    struct book_task *tasks; /* owned; by rank */
};

/* A submission that its job, or all jobs of its array, were made from. */
struct book_spec {
    uint32_t refs;
    struct submission s;
    json_t *json;    /* canonical */
    uint32_t inside; /* jobs of it that are in the core */
};

/* What was expected of a job when it came; 0 = not told (estimates.h). */
struct book_predicted {
    usec_t run;
    uint32_t memory_mib;
    uint16_t util, util_dev; /* hundredths of a percent */
    int32_t gpus_pay;        /* more would not be worth their time */
};

struct book_job {
    int64_t id;
    uint32_t index;   /* below ctl_config.jobs_max, while it is not over */
    int64_t array_id; /* 0 = not of an array */
    int32_t array_index;
    uint32_t user, vc; /* book.users; number of the virtual cluster */
    uint32_t uid, gid;
    struct book_spec *source;      /* shared by an array */
    const struct submission *spec; /* &source->s */
    struct jobspec wants;          /* as bound to this cluster */
    enum phase_of_job phase;
    enum gate gate;
    bool held, in_core, suspended_by_user;
    bool orphan;   /* is being suspended by a policy that is there no longer (turns.c) */
    bool ends;     /* it is over for us; when the core lets it go it ends as ends_as */
    bool reenters; /* when the core lets it go, it is to come again */
    bool gave_up;  /* its node was lost and it is not to be run again */
    enum phase_of_job ends_as;
    int64_t stop_by;    /* job that the core last stopped it for; 0 = not told */
    bool waits_old;     /* its attempt is launched when its last one and others have left (attempt_wait.c) */
    uint32_t slot, gen; /* reference in the core, while in_core */
    usec_t submit, eligible, first_start, last_start, end; /* 0 = not yet */
    usec_t reason_since;
    enum reason reason;                /* while it waits in the core */
    int64_t reason_needs, reason_free; /* thousandths of GPUs */
    uint32_t attempt_count;            /* attempts[attempt_count - 1] is the present or last one */
    struct book_attempt *attempts;
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
    struct book_predicted predicted;
};

/* How a job ended, remembered longer than the job itself: for those that come after it. */
struct book_outcome {
    int64_t id;
    enum phase_of_job phase;
};

/* A request that is not to be carried out twice. */
struct book_key {
    uint32_t user;
    uint16_t next; /* of the same slot of key_first, its number and 1; 0 none */
    uint64_t hash;
    char key[64];
    int64_t id;
};

enum { JOIN_NODES_MAX = 10000 };

struct book_token {
    char id[24], hash[65], user[64], role[16], scope[64];
    usec_t expires, created;
    uint32_t nodes; /* that may still join by it; 0: it is not for joining */
};

struct book {
    struct names users, node_names;
    struct book_node *nodes;
    size_t node_count, node_capacity;
    struct book_job **live; /* not over, ascending by id */
    size_t live_count, live_capacity;
    struct book_job **finished; /* ring of the last ones */
    size_t finished_count, finished_capacity, finished_next;
    struct book_token *tokens;
    size_t token_count, token_capacity;
    struct book_outcome *outcomes; /* ring */
    size_t outcome_count, outcome_next;
    struct book_key *keys; /* ring */
    uint16_t *key_first;   /* by hash */
    size_t key_count, key_next;
    json_t *limits;   /* {user or "*": {"max_gpus","max_jobs"}} */
    json_t *secrets;  /* {user: {name: value}} */
    json_t *hooks;    /* [{"id","to","kinds"}] */
    json_t *choices;  /* [{"nodelist","exclude","constraint"}]: nodes that jobs choose; mark i + 1 */
    json_t *resvs;    /* reservations */
    json_t *licenses; /* names by the numbers that jobs speak of them by */
    int64_t next_id;
    bool paused;
    uint64_t submitted, ended[PHASE_JOB_COUNT];
};

const struct book_job *book_find(const struct book *book, int64_t id); /* live or lately finished; NULL */
/* Elements of an array, ascending by index; returns how many there are, fills at most `max`. */
size_t book_array(const struct book *book, int64_t array_id, const struct book_job **out, size_t max);
const json_t *resv_find(const struct book *book, const char *name); /* NULL */
bool resv_active(const json_t *resv, usec_t now);
bool resv_has(const json_t *resv, const char *node);
/* The next one, not of number `kept`, that begins on one of these nodes (a list of names) after `from` and before
 * `until` (0: whenever); NULL. Who is there then is told to leave. */
const json_t *resv_next(const struct book *book, const char *nodes, uint8_t kept, usec_t from, usec_t until);
/* What a user may have of "max_gpus" or "max_jobs"; -1 = no limit. */
int64_t limits_get(const struct book *book, const char *user, const char *key);
const struct book_node *book_node_find(const struct book *book, const char *name);
static inline const struct book_attempt *book_attempt(const struct book_job *job)
{
    return job->attempt_count ? &job->attempts[job->attempt_count - 1] : NULL;
}
