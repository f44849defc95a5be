/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* part.h - the inside of struct ctl, shared by the files of the state machine and by nobody else.
 *
 * ctl.c (batches, instants), cluster.c (nodes and virtual clusters into a core), submit.c (jobs come), gate.c (when
 * they may enter the core), act.c (what people do to jobs), effect.c (what the core wants), attempt.c (tasks, reports,
 * ends), node.c (agents), sync.c (orders), save.c and load.c (snapshots).
 */
#include <assert.h>

#include "base/heap.h"
#include "core/ledger.h"
#include "ctl/attempt.h"
#include "ctl/book.h"
#include "ctl/ctl.h"
#include "ctl/wants.h"
#include "policy/compose.h"

struct ctl {
    struct ctl_config config; /* its strings are owned */
    struct book book;
    json_t *settings; /* {"vcs":{...},"policy":"...","set":{...}}: as configured */
    struct cluster_spec cluster;
    struct policy_setup *policies; /* one a virtual cluster */
    struct core *core;             /* NULL until the first node has joined */
    struct book_job **by_slot;     /* jobs of the core */
    struct book_job **by_index;    /* jobs that are not over */
    struct book_job **effect_jobs; /* whom the effects of a step are about */
    size_t effect_capacity;
    uint32_t *free_index;
    uint32_t free_count;
    void *timer_memory;
    struct heap timers; /* by index */
    struct ctl_sink sink;
    bool listening, cluster_dirty;
    bool solves_here;   /* long computations are carried out at once: virtual time */
    uint32_t deadlines; /* nodes that are drained with one */
    uint32_t reboots;   /* nodes that are to be started anew when nothing runs there */
    uint32_t offered;   /* to the core since its last step */
    uint64_t seq, event_id;
    usec_t now;
    struct store_job *done; /* records of jobs that ended since they were last taken */
    size_t done_count, done_capacity;
};

/* ctl.c */
/* Steps the core, and carries out what it wants, until the instant is quiet. */
void ctl_step(struct ctl *ctl);
int ctl_offer(struct ctl *ctl, const struct event *event, struct job_ref *ret_job, struct error *err);
/* An event about a job in the core; what the core refuses is a defect and ends in an assertion. */
void ctl_tell_core(struct ctl *ctl, const struct book_job *job, struct event event);
void ctl_event(struct ctl *ctl, const char *kind, const struct book_job *job, const char *node, json_t *detail);
/* Steals the frame. False: it went to nobody, and cannot arrive. */
bool ctl_order(struct ctl *ctl, uint32_t node, json_t *frame);

/* cluster.c */
int cluster_rebuild(struct ctl *ctl, struct error *err);
int cluster_restore(struct ctl *ctl, const void *data, size_t size, struct error *err);
/* What the settings would mean; nothing changes. */
int cluster_try(const struct ctl *ctl, json_t *settings, struct error *err);
/* The core as it would be under other settings; all three are the caller's, also after a failure. There is one now. */
int cluster_carry(const struct ctl *ctl, const json_t *settings, struct cluster_spec *ret_cluster,
                  struct policy_setup **ret_policies, struct core **ret_core, struct error *err);
uint32_t cluster_vc(const struct ctl *ctl, const char *name); /* UINT32_MAX */
void node_tell(struct ctl *ctl, struct book_node *node);      /* its health, to the core */
bool node_takes_jobs(const struct book_node *node);           /* and is to be in the core */

/* submit.c */
/* What it reads of an entry that passes stays with it, in entry->spec. */
int submit_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret);
void submit_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret);

/* settings.c */
int vc_check(const struct ctl *ctl, const json_t *body, struct entry_result *ret);
void vc_apply(struct ctl *ctl, const json_t *body, struct entry_result *ret);
bool settings_closed(const json_t *settings, const char *vc);
int limits_check(const json_t *body, struct entry_result *ret);
void limits_apply(struct ctl *ctl, const json_t *body, struct entry_result *ret);
int64_t limits_held(const struct ctl *ctl, uint32_t user);

/* secret.c */
int secret_check(const struct ctl *ctl, const json_t *body, struct entry_result *ret);
void secret_apply(struct ctl *ctl, const json_t *body, struct entry_result *ret);
/* {NAME: value} of those the job asks for; NULL: none. The caller's. */
json_t *secret_of(const struct ctl *ctl, const struct book_job *job);
/* The first of the list that the user has not; NULL. */
const char *secret_missing(const struct ctl *ctl, const char *user, const struct submission *s);
int hook_check(const struct ctl *ctl, const json_t *body, struct entry_result *ret);
void hook_apply(struct ctl *ctl, const json_t *body, struct entry_result *ret);

/* where.c */
/* The mark of the nodes a submission chooses, made where it is new (then the cluster is to be built anew); 0 = any. */
int where_mark(struct ctl *ctl, const struct submission *s, struct error *err);
uint64_t where_marks(const struct ctl *ctl, const struct book_node *node);
int where_check(const struct ctl *ctl, const struct submission *s, const struct jobspec *wants,
                struct entry_result *ret);
int label_check(const struct ctl *ctl, const json_t *body, struct entry_result *ret);
void label_apply(struct ctl *ctl, const json_t *body, struct entry_result *ret);

/* license.c */
int license_check(const json_t *settings, struct error *err);
/* {NAME: COUNT} in the order of their numbers, as they would be under these settings. The caller's. */
json_t *license_describe(const struct ctl *ctl, const json_t *settings);
void license_keep(struct ctl *ctl); /* the numbers that the present settings gave them */

/* resv.c */
int resv_check(const struct ctl *ctl, const json_t *body, struct entry_result *ret);
void resv_apply(struct ctl *ctl, const json_t *body, struct entry_result *ret);
uint8_t resv_kept(const struct ctl *ctl, const struct book_node *node); /* number it is kept for now; 0 */
int resv_submit(const struct ctl *ctl, const char *user, const char *vc, const struct submission *s,
                struct jobspec *wants, struct entry_result *ret);
bool resv_waits(const struct ctl *ctl, const struct book_job *job); /* its reservation has not begun */
usec_t resv_timer(const struct ctl *ctl);
void resv_tick(struct ctl *ctl);

/* gate.c */
void gate_look(struct ctl *ctl, struct book_job *job);  /* lets it into the core if nothing keeps it out */
void gate_ended(struct ctl *ctl, struct book_job *job); /* whoever waited for it */
usec_t job_timer(const struct ctl *ctl, const struct book_job *job);
void job_timer_set(struct ctl *ctl, const struct book_job *job);
void job_tick(struct ctl *ctl, struct book_job *job);

/* act.c */
int act_check(const struct ctl *ctl, const struct entry *entry, struct entry_result *ret);
void act_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret);

/* effect.c */
void effect_all(struct ctl *ctl, const struct outbox *out);

/* node.c */
int node_check(const struct ctl *ctl, const struct entry *entry, struct entry_result *ret);
void node_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret);
usec_t node_timer(const struct ctl *ctl); /* when a deadline of a drained node is due */
void node_tick(struct ctl *ctl);
void node_keep_out(struct ctl *ctl, const struct book_job *job);
struct book_node *node_get(struct ctl *ctl, const char *name);

/* sick.c */
void sick_refused(struct ctl *ctl, uint32_t node, const char *words); /* it could not start a task */
void sick_well(struct ctl *ctl, uint32_t node);                       /* it could */
void sick_forget(struct ctl *ctl, struct book_node *node);            /* somebody has taken it in hand */
void sick_tick(struct ctl *ctl, struct book_node *node);
void sick_note(const struct ctl *ctl, struct book_attempt *attempt, struct book_task *task, const char *words);

/* turns.c */
void turns_end(struct ctl *ctl, const struct policy_setup *before, uint32_t count); /* after a change of policies */
void turns_leave(struct ctl *ctl, struct book_job *job); /* it sleeps, and nobody would wake it */

/* reboot.c */
void reboot_set(struct ctl *ctl, struct book_node *node, uint32_t state);
void reboot_look(struct ctl *ctl); /* tells those that are idle by now */
void reboot_order(struct ctl *ctl, const struct book_node *node);
bool reboot_back(struct ctl *ctl, struct book_node *node, const char *boot); /* it joins: is it what was waited for? */
void reboot_failed(struct ctl *ctl, struct book_node *node, const json_t *report);

/* sync.c */
json_t *order_place(const struct ctl *ctl, const struct book_attempt *attempt); /* of all its ranks */
json_t *order_go(const struct ctl *ctl, const struct book_job *job, const struct book_attempt *attempt);
json_t *order_launch(const struct ctl *ctl, const struct book_job *job, uint32_t rank, json_t *place);
json_t *order_limit(const struct ctl *ctl, const struct book_job *job, const struct book_attempt *attempt);
json_t *order_simple(const struct book_job *job, const struct book_attempt *attempt, enum order_kind kind);
json_t *order_stop(const struct ctl *ctl, const struct book_job *job, const struct book_attempt *attempt, usec_t grace);

/* book.c */
int book_init(struct book *book, const struct ctl_config *config);
void book_done(struct book *book);
void book_key_link(struct book *book, size_t index); /* it is found by its hash from now on */
struct book_job *book_get(struct book *book, int64_t id);
struct book_job *book_after(struct book *book, int64_t id); /* the next that is not over; NULL */
int book_add(struct ctl *ctl, struct book_job *job);
void book_retire(struct ctl *ctl, struct book_job *job);
void book_words(char *to, size_t size, const char *text); /* as much as fits, whole characters */
void book_job_free(struct book_job *job);
struct book_spec *book_spec_new(json_t *json, struct error *err); /* keeps the tree, which nobody may change then */
struct book_spec *book_spec_take(json_t *json,
                                 struct submission *s); /* the same of one that was read; takes it. NULL */
void book_spec_drop(struct book_spec *spec);
enum phase_of_job book_outcome(const struct book *book, int64_t id); /* PHASE_JOB_COUNT: not known any more */
int book_attempt_add(struct book_job *job);

/* save.c, load.c */
json_t *save_book(const struct ctl *ctl);
int load_book(struct ctl *ctl, const json_t *json, struct error *err);

static inline struct book_attempt *attempt_of(struct book_job *job)
{
    return job->attempt_count ? &job->attempts[job->attempt_count - 1] : NULL;
}

/* The same where there is one for certain. */
static inline struct book_attempt *attempt_now(struct book_job *job)
{
    assert(job->attempt_count > 0);
    return &job->attempts[job->attempt_count - 1];
}

static inline struct ledger const *ctl_ledger(const struct ctl *ctl)
{
    return core_ledger(ctl->core);
}
