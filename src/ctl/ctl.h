/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* ctl.h - the controller without its sockets: entries in, orders and events out.
 *
 * Deterministic: the same batches give the same state, orders and decisions (ADR 21). Only the thread of the loop calls
 * it. Reading is direct (book.h); changing goes through entries, made durable by drive.h.
 */
#include <jansson.h>

#include "base/error.h"
#include "base/units.h"
#include "core/core.h"
#include "store/store.h"
#include "wire/agent_msg.h"
#include "wire/submission.h"

#define ENTRIES(X)                                                                                                     \
    X(SUBMIT, "submit")   /* {"user","uid","gid","spec":{...},"key":idempotency key} -> id of the job or array */      \
    X(CANCEL, "cancel")   /* {"job","by","why"}; all of an array by its id; "now" true: no grace */                    \
    X(HOLD, "hold")       /* {"job","by"} */                                                                           \
    X(RELEASE, "release") /* {"job","by"} */                                                                           \
    X(REQUEUE, "requeue") /* {"job","by"} */                                                                           \
    X(SUSPEND, "suspend") /* {"job","by"} */                                                                           \
    X(RESUME, "resume")   /* {"job","by"} */                                                                           \
    X(SIGNAL, "signal")   /* {"job","signal","by"} */                                                                  \
    X(SET, "set")         /* {"job","by","priority"|"time"|"vc"|"comment": ...} */                                     \
    X(JOIN, "join")       /* {"node","agent","boot","address","inventory","tasks"}: an agent said hello */             \
    X(SILENT, "silent")   /* {"node"}: not heard of, with {"joins","untold"} (untold.c); or {"node","back":true} */    \
    X(LOST, "lost")       /* {"node"}: its lease ran out */                                                            \
    X(REPORT, "report")   /* {"node","agent", ...report of the protocol} */                                            \
    X(DRAIN, "drain")     /* {"node","by","reason","gpu":index or absent,"deadline":0,"reboot":true or absent} */      \
    X(UNDRAIN, "undrain") /* {"node","by","gpu"} */                                                                    \
    X(FORGET, "forget")   /* {"node"}: out of the cluster */                                                           \
    X(CONFIG, "config")   /* {"vcs":{...},"policy":...}: virtual clusters and policies, as in the file */              \
    X(VC, "vc")         /* {"name","set":{key:value or null},"create":bool,"close":bool,"by"}: one virtual cluster */  \
    X(LIMITS, "limits") /* {"user" or "*","max_gpus","max_jobs"}: null = no limit */                                   \
    X(SECRET, "secret") /* {"user","name","value" or null}: put into the environment of jobs that ask for it */        \
    X(HOOK, "hook")     /* {"id","to","kinds":[...]} or {"id","remove":true}: where events are told */                 \
    X(LABEL, "label")   /* {"node","set":{label:value or null}} */                                                     \
    X(RESV, "resv")     /* {"name","nodes","start","end","lead","users":[],"vcs":[],"reason"} or {"name","remove"} */  \
    X(TOKEN, "token") /* {"id","hash","user","role","scope","expires","nodes" that may join}: of a user or an agent */ \
    X(UNTOKEN, "untoken") /* {"id"}; "joined": a node has, by it */                                                    \
    X(SOLVED, "solved")   /* {"vc","ticket","words":[...]}: what a computation gave */                                 \
    X(PAUSE, "pause")     /* {"paused":bool,"by"}: no starts while paused */

enum entry_kind {
#define X(code, name) ENTRY_##code,
    ENTRIES(X)
#undef X
        ENTRY_COUNT
};

const char *entry_name(enum entry_kind kind);
int entry_find(const char *name); /* -ENOENT */

struct entry {
    enum entry_kind kind;
    json_t *body;           /* owned by the batch */
    struct book_spec *spec; /* SUBMIT, owned likewise: what the body says, where a check has read it; else NULL */
};

/* What becomes of an entry when it is applied. */
struct entry_result {
    int code;          /* 0; -ENOENT no such job, -EPERM, -EINVAL, -ERANGE infeasible, -ENOSPC a limit, -EALREADY */
    int64_t id;        /* SUBMIT: of the job or array */
    char reason[32];   /* code for people, e.g. "Infeasible.NodeSize" */
    struct error text; /* words */
    char hint[256];
    bool of_core; /* what it asks for could never start; a plan has more to say of that */
};

struct ctl;

struct ctl_config {
    const char *cluster;        /* its name */
    const char *policy;         /* of virtual clusters that name none */
    uint32_t jobs_max;          /* that are not over */
    uint32_t finished_keep;     /* finished jobs kept in memory for quick answers */
    usec_t lease, node_timeout; /* ADR 21 */
    usec_t beat;                /* how often agents are to be heard; 0 = six times a node_timeout */
    usec_t grace;               /* of jobs that name none */
    bool virtual_time;          /* time is told by the client: emulation */
};

/* What happens to be told to people and browsers; id ascends, gaps never. */
struct ctl_event {
    uint64_t id;
    usec_t at;
    const char *kind; /* "job.pending", "job.running", "job.ended", "node.joined", ... */
    int64_t job;      /* 0 = none */
    const char *node; /* NULL = none */
    json_t *detail;
};

/* Called while a batch is applied, not while one is replayed. */
struct ctl_sink {
    /* Borrowed. False: it was not handed to anybody, and cannot arrive. */
    bool (*order)(void *arg, const char *node, json_t *frame);
    void (*event)(void *arg, const struct ctl_event *event);
    /* To be computed on a worker; the answer is a SOLVED entry. Not there: it is computed at once. */
    void (*solve)(void *arg, uint32_t vc, uint32_t ticket, uint32_t kind, const int64_t *words, uint32_t count);
    void (*stepped)(void *arg, const struct outbox *out); /* what the core itself put out: emulation */
    void (*decision)(void *arg, const char *line); /* the decision log, one line each, as `muster sim` writes it */
    void *arg;
};

int ctl_new(const struct ctl_config *config, struct ctl **ret_ctl, struct error *err);
void ctl_free(struct ctl *ctl);
void ctl_listen(struct ctl *ctl, const struct ctl_sink *sink); /* from now on; NULL: nobody */

/* What can be refused before it is written: shape of the body, unknown jobs and nodes, limits. Changes nothing. */
int ctl_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret);
/* What the core says of a job that has no number yet, without one; its code in brackets goes to `code`, where there is
 * one. */
void submit_words(char *text, char *code, size_t size);
/* Gives back what an entry holds. */
void entry_done(struct entry *entry);

/* Applies a durable batch at its instant, not before the last. results: one an entry; NULL while replaying. */
void ctl_apply(struct ctl *ctl, uint64_t seq, usec_t at, const struct entry *entries, size_t count,
               struct entry_result *results);

/* When it wants a batch although nothing happens; USEC_NEVER. */
usec_t ctl_next_wake(const struct ctl *ctl);

/* An agent is connected: sends it KEEP and all orders that are due. */
void ctl_sync(struct ctl *ctl, const char *node);

/* State to JSON text plus the core's snapshot, and back. */
int ctl_save(const struct ctl *ctl, struct buf *out, struct error *err);
int ctl_load(const struct ctl_config *config, const char *data, size_t size, struct ctl **ret_ctl, struct error *err);

const struct book *ctl_book(const struct ctl *ctl);
const struct core *ctl_core(const struct ctl *ctl);
const struct cluster_spec *ctl_cluster(const struct ctl *ctl);
/* As configured: {"vcs":{...},"policy":...}. Policies in force, one a virtual cluster; NULL before a node has joined.
 */
const json_t *ctl_settings(const struct ctl *ctl);
/* Puts the virtual clusters of new settings into the order of those there are, and those that are closed among them;
 * `stay`: also those that the new settings do not speak of. Settings that speak of none leave all as they are. */
void settings_arrange(const json_t *was, json_t *settings, bool stay);
const struct policy_setup *ctl_policies(const struct ctl *ctl);
/* The cluster as a cluster file would describe it: nodes that have joined, virtual clusters as configured. The
 * caller's; NULL without memory. */
json_t *ctl_describe(const struct ctl *ctl);
/* The settings as a VC entry would leave them; the caller's. NULL: refused. */
json_t *ctl_settings_with(const struct ctl *ctl, const json_t *body, struct entry_result *ret);
/* Which jobs settings would stop, and start, at once: lists of {"job","user","vc","gpus","how"}, the caller's. Nothing
 * changes. */
int ctl_preview(const struct ctl *ctl, json_t *settings, json_t **ret_preempts, json_t **ret_starts, struct error *err);
/* Whether the nodes a submission chooses include this one. */
struct book_node;
bool ctl_chooses(const struct ctl *ctl, const struct submission *s, const struct book_node *node);
/* What is not in the log: connections, beats, what GPUs measure. */
struct book *ctl_book_mut(struct ctl *ctl);
/* Records of jobs that ended since the last call, for the store; record_rows_free() ends them. */
struct store_job *ctl_take_done(struct ctl *ctl, size_t *ret_count);
size_t ctl_done_count(const struct ctl *ctl);
uint64_t ctl_seq(const struct ctl *ctl);
usec_t ctl_now(const struct ctl *ctl);
