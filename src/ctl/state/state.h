/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* state.h - the controller without its sockets: entries in, orders and events out.
 *
 * Deterministic: the same batches give the same state, orders and decisions (ADR 21). Only the thread of the loop calls
 * it. Reading is direct (registry.h); changing goes through entries, made durable by batcher.h.
 */
#include "base/error.h"
#include "base/units.h"
#include "core/core.h"
#include "ctl/state/entry/entry.h"
#include "ctl/state/fact.h"
#include "wire/agent/agent_order.h"
#include "wire/cluster/setting.h"
#include "wire/job/submission.h"

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
struct ctl_job;

struct ctl_config {
    const char *cluster;        /* its name */
    const char *policy;         /* of virtual clusters that name none */
    uint32_t jobs_max;          /* that are not over */
    uint32_t finished_keep;     /* finished jobs kept in memory for quick answers */
    usec_t lease, node_timeout; /* ADR 21 */
    bool lease_ends;            /* agents kill their tasks at its end, so that these may start elsewhere (ADR 55) */
    usec_t beat;                /* how often agents are to be heard; 0 = six times a node_timeout */
    usec_t measure_every;       /* between two rows of the log about the progress of a job; 0 = a minute */
    usec_t grace;               /* of jobs that name none */
    bool virtual_time;          /* time is told by the client: emulation */
    /* A job is over, and is as it stays; also while a batch is replayed. NULL: nobody keeps a history. */
    void (*over)(void *arg, const struct ctl *ctl, const struct ctl_job *job);
    void *over_arg;
};

/* What happens to be told to people and browsers; id ascends, gaps never. */
struct ctl_event {
    uint64_t id;
    usec_t at;
    const char *kind;             /* "job.pending", "job.running", "job.ended", "node.joined", ... */
    int64_t job;                  /* 0 = none */
    const char *node;             /* NULL = none */
    const struct ctl_fact *facts; /* in the order of their names; NULL: none */
};

/* Called while a batch is applied, not while one is replayed. */
struct ctl_sink {
    /* Borrowed. False: it was not handed to anybody, and cannot arrive. */
    bool (*order)(void *arg, const char *node, const struct agent_order *order);
    void (*event)(void *arg, const struct ctl_event *event);
    /* To be computed on a worker; the answer is a SOLVED entry. Not there: it is computed at once. */
    void (*solve)(void *arg, uint32_t vc, uint32_t ticket, uint32_t kind, const int64_t *words, uint32_t count);
    void (*stepped)(void *arg, const struct outbox *out); /* what the core itself put out: emulation */
    void (*decision)(void *arg, const char *line); /* the decision log, one line each, as `muster sim` writes it */
    void *arg;
};

/* NULL: nothing of that name is told. */
const struct ctl_fact *event_fact(const struct ctl_event *event, const char *name);

int ctl_new(const struct ctl_config *config, struct ctl **ret_ctl, struct error *err);
void ctl_free(struct ctl *ctl);
void ctl_listen(struct ctl *ctl, const struct ctl_sink *sink); /* from now on; NULL: nobody */

/* What can be refused before it is written: values beyond the declaration, unknown jobs and nodes, limits. Changes
 * nothing. */
int ctl_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret);
/* What the core says of a job that has no number yet, without one; its code in brackets goes to `code`, where there is
 * one. */
void submit_words(char *text, char *code, size_t size);
/* The spec of a SUBMIT entry whose words were read as this submission: they are not read again. Takes the submission.
 * NULL: no memory. */
struct ctl_spec *ctl_spec_take(const char *text, struct submission *s);

/* Applies a durable batch at its instant, not before the last. results: one an entry; NULL while replaying. */
void ctl_apply(struct ctl *ctl, uint64_t seq, usec_t at, struct entry *entries, size_t count,
               struct entry_result *results);

/* When it wants a batch although nothing happens; USEC_NEVER. */
usec_t ctl_next_wake(const struct ctl *ctl);

/* An agent is connected: sends it KEEP and all orders that are due. */
void ctl_sync(struct ctl *ctl, const char *node);

/* State to bytes and back: snapshot.h. */
#define CTL_SNAPSHOT_MAGIC "MUSTER3\n"
enum { CTL_SNAPSHOT_MAGIC_SIZE = 8 };
bool ctl_snapshot_is(const char *data, size_t size); /* or one of former versions (snapshot_json.c) */
int ctl_save(const struct ctl *ctl, struct buf *out, struct error *err);
int ctl_load(const struct ctl_config *config, const char *data, size_t size, struct ctl **ret_ctl, struct error *err);

const struct registry *ctl_registry(const struct ctl *ctl);
const struct core *ctl_core(const struct ctl *ctl);
const struct cluster_spec *ctl_cluster(const struct ctl *ctl);
/* As configured: {"vcs":{...},"policy":...}. Policies in force, one a virtual cluster; NULL before a node has joined.
 */
const struct setting_value *ctl_settings(const struct ctl *ctl);
bool settings_closed(const struct setting_value *settings, const char *vc);
const struct policy_setup *ctl_policies(const struct ctl *ctl);
/* The cluster as a cluster file would describe it, in JSON: nodes that have joined, virtual clusters as configured.
 * -ENOMEM. */
int ctl_describe(const struct ctl *ctl, struct buf *out);
/* The settings as a VC entry would leave them; the caller's. Below 0: refused. */
int ctl_settings_with(const struct ctl *ctl, struct entry *vc, struct setting_value *ret_settings,
                      struct entry_result *ret);
/* Tells what settings would do to jobs at once. Nothing changes. */
typedef void preview_fn(void *arg, const struct ctl_job *job, enum decision_kind how);
int ctl_preview(const struct ctl *ctl, const struct setting_value *settings, preview_fn *told, void *arg,
                struct error *err);
/* Whether the nodes a submission chooses include this one. */
struct ctl_node;
bool ctl_chooses(const struct ctl *ctl, const struct submission *s, const struct ctl_node *node);
/* What is not in the log: connections, beats, what GPUs measure. */
struct registry *ctl_registry_mut(struct ctl *ctl);
uint64_t ctl_seq(const struct ctl *ctl);
usec_t ctl_now(const struct ctl *ctl);

/* Whether tasks of a node are not over (node.c). */
struct ctl_node;
bool node_runs(const struct ctl *ctl, const struct ctl_node *node);
