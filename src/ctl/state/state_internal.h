/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* state_internal.h - the inside of struct ctl, shared by the files of the state machine and by nobody else.
 *
 * state.c (batches, instants), cluster.c (nodes and virtual clusters into a core), submit.c (jobs come), gate.c (when
 * they may enter the core), gate_queue.c and dependents.c (whom an end lets in), job_action.c (what people do to jobs),
 * core_effect.c (what the core wants), attempt/ (runs and their tasks), node.c (agents), order.c (orders), snapshot.c
 * (snapshots).
 */
#include <assert.h>

#include "base/heap.h"
#include "core/ledger/ledger.h"
#include "ctl/state/attempt/attempt.h"
#include "ctl/state/attempt/attempt_machine.h"
#include "ctl/state/entry/entry_row.h"
#include "ctl/state/registry.h"
#include "ctl/state/registry_change.h"
#include "ctl/state/state.h"
#include "policy/compose.h"

/* A job that has left the core, or is over. */
struct gate_leaver {
    int64_t id, array_id;
    uint32_t user, parallel;
    bool over, well, array_over;
    struct ctl_array *array; /* held */
};

struct ctl {
    struct ctl_config config; /* its strings are owned */
    struct registry registry;
    struct setting_value settings; /* {"vcs":{...},"policy":"...","set":{...}}: as configured */
    struct cluster_spec cluster;
    struct policy_setup *policies; /* one a virtual cluster */
    struct core *core;             /* NULL until the first node has joined */
    struct ctl_job **by_slot;      /* jobs of the core */
    struct ctl_job **by_index;     /* jobs that are not over */
    struct ctl_job **effect_jobs;  /* whom the effects of a step are about */
    size_t effect_capacity;
    uint32_t *killed; /* by slot, while effects are carried out (core_effect.c) */
    uint32_t *free_index;
    uint32_t free_count;
    void *timer_memory;
    int64_t *due; /* jobs whose instants have come, while they are seen to */
    size_t due_capacity;
    struct heap timers;           /* by index */
    struct tree_node *gate_nodes; /* by index: gate_queue.c */
    struct gate_leaver *leavers;  /* have left the core, and nobody was let in for them yet */
    size_t leaver_count, leaver_capacity;
    int64_t *decided; /* jobs for whom the end of another decides something */
    size_t decided_count, decided_capacity;
    struct ctl_sink sink;
    bool listening, cluster_dirty;
    bool solves_here;   /* long computations are carried out at once: virtual time */
    uint32_t deadlines; /* nodes that are drained with one */
    uint32_t reboots;   /* nodes that are to be started anew when nothing runs there */
    uint32_t offered;   /* to the core since its last step */
    uint64_t steps;     /* of the core, and 1 */
    uint64_t seq, event_id;
    usec_t now;
};

/* state.c */
/* Steps the core, and carries out what it wants, until the instant is quiet. */
void ctl_step(struct ctl *ctl);
int ctl_offer(struct ctl *ctl, const struct event *event, struct job_ref *ret_job, struct error *err);
/* An event about a job in the core; what the core refuses is a defect and ends in an assertion. */
void ctl_tell_core(struct ctl *ctl, const struct ctl_job *job, struct event event);
void ctl_event(struct ctl *ctl, const char *kind, const struct ctl_job *job, const char *node,
               const struct ctl_fact *facts);
/* Frees the list of its secrets. False: it went to nobody, and cannot arrive. */
bool ctl_order(struct ctl *ctl, uint32_t node, struct agent_order order);

/* cluster.c */
/* Whether the cluster can be made with the node as it says by now that it is. */
int cluster_try_node(struct ctl *ctl, struct ctl_node *node, const struct inventory *inventory, struct error *err);
int cluster_rebuild(struct ctl *ctl, struct error *err);
int cluster_restore(struct ctl *ctl, const void *data, size_t size, struct error *err);
/* What the settings would mean; nothing changes. */
int cluster_try(const struct ctl *ctl, const struct setting_value *settings, struct error *err);
/* The core as it would be under other settings; all three are the caller's, also after a failure. There is one now. */
int cluster_carry(const struct ctl *ctl, const struct setting_value *settings, struct cluster_spec *ret_cluster,
                  struct policy_setup **ret_policies, struct core **ret_core, struct error *err);
uint32_t cluster_vc(const struct ctl *ctl, const char *name); /* UINT32_MAX */
void node_tell(struct ctl *ctl, struct ctl_node *node);       /* its health, to the core */
void node_told(const struct ctl *ctl, struct ctl_node *node);
bool node_takes_jobs(const struct ctl_node *node); /* and is to be in the core */

/* vc_settings.c */
int64_t limits_held(const struct ctl *ctl, uint32_t user);

/* guarantee_fit.c: whether the job could ever be had inside what its virtual cluster is guaranteed, where it may borrow
 * nothing; refused as Infeasible.Quota, with what would fit. */
int guarantee_check(const struct ctl *ctl, uint32_t vc, const struct jobspec *wants, struct entry_result *ret);

/* secret.c */
/* Those the job asks for; NULL: none. The list is the caller's. */
struct order_secret *secret_of(const struct ctl *ctl, const struct ctl_job *job, size_t *ret_count);
/* The first of the list that the user has not; NULL. */
const char *secret_missing(const struct ctl *ctl, const char *user, const struct submission *s);

/* node_choice.c */
/* The mark of the nodes a submission chooses, made where it is new (then the cluster is to be built anew); 0 = any. */
int where_mark(struct ctl *ctl, const struct submission *s, struct error *err);
uint64_t where_marks(const struct ctl *ctl, const struct ctl_node *node);
int where_check(const struct ctl *ctl, const struct submission *s, const struct jobspec *wants,
                struct entry_result *ret);

/* license.c */
int license_check(const struct setting_value *settings, struct error *err);
/* {NAME: COUNT} in the order of their numbers, as they would be under these settings; nothing where there are none. */
void license_write(const struct ctl *ctl, const struct setting_value *settings, struct json_write *json);
void license_keep(struct ctl *ctl); /* the numbers that the present settings gave them */

/* reservation.c */
uint8_t resv_kept(const struct ctl *ctl, const struct ctl_node *node); /* number it is kept for now; 0 */
int resv_submit(const struct ctl *ctl, const char *user, const char *vc, const struct submission *s,
                struct jobspec *wants, struct entry_result *ret);
bool resv_waits(const struct ctl *ctl, const struct ctl_job *job); /* its reservation has not begun */
usec_t resv_timer(const struct ctl *ctl);
void resv_tick(struct ctl *ctl);

/* gate.c */
void gate_look(struct ctl *ctl, struct ctl_job *job);       /* lets it into the core if nothing keeps it out */
void gate_left(struct ctl *ctl, const struct ctl_job *job); /* it has left the core: whoever waited for that */
void gate_wait(struct ctl *ctl, struct ctl_job *job);       /* it is listed under the jobs that it is to come after */
void job_counts(const struct ctl_job *job, int by);         /* it enters the core, or has left it */
usec_t job_timer(const struct ctl *ctl, const struct ctl_job *job);
void job_timer_set(struct ctl *ctl, const struct ctl_job *job);
void job_tick(struct ctl *ctl, struct ctl_job *job);

/* gate_queue.c */
void gate_set(struct ctl *ctl, struct ctl_job *job, enum gate gate);
void gate_queue_enter(struct ctl *ctl, struct ctl_job *job); /* where its gate has it; what it asks for has changed */
void gate_queue_leave(struct ctl *ctl, struct ctl_job *job);
/* The first job of the tree after the id that asks for at most `room`; INT64_MAX. */
int64_t gate_queue_next(const struct ctl *ctl, uint32_t root, int64_t from, int64_t room);
void user_count(struct ctl *ctl, struct ctl_job *job); /* it has entered the core, left it, or changed its size */

/* core_effect.c */
void effect_all(struct ctl *ctl, const struct outbox *out);

/* node.c */
usec_t node_timer(const struct ctl *ctl); /* when a deadline of a drained node is due */
void node_tick(struct ctl *ctl);
void node_keep_out(struct ctl *ctl, const struct ctl_job *job);
struct ctl_node *node_get(struct ctl *ctl, const char *name);

/* node_refusal.c */
void sick_refused(struct ctl *ctl, uint32_t node, const char *words); /* it could not start a task */
void sick_well(struct ctl *ctl, uint32_t node);                       /* it could */
void sick_forget(struct ctl *ctl, struct ctl_node *node);             /* somebody has taken it in hand */
void sick_tick(struct ctl *ctl, struct ctl_node *node);
void sick_note(const struct ctl *ctl, struct ctl_attempt *attempt, struct ctl_task *task, const char *words);

/* node_reboot.c */
void reboot_set(struct ctl *ctl, struct ctl_node *node, uint32_t state);
void reboot_look(struct ctl *ctl); /* tells those that are idle by now */
void reboot_order(struct ctl *ctl, const struct ctl_node *node);
bool reboot_back(struct ctl *ctl, struct ctl_node *node, const char *boot); /* it joins: is it what was waited for? */
void reboot_failed(struct ctl *ctl, struct ctl_node *node, const char *why);

/* order.c */
struct order_place *order_place(const struct ctl *ctl, const struct ctl_attempt *attempt); /* of all its ranks; owned */
struct agent_order order_resume(const struct ctl *ctl, const struct ctl_job *job, const struct ctl_attempt *attempt);
struct agent_order order_go(const struct ctl *ctl, const struct ctl_job *job, const struct ctl_attempt *attempt);
struct agent_order order_launch(const struct ctl *ctl, const struct ctl_job *job, uint32_t rank,
                                const struct order_place *place);
struct agent_order order_limit(const struct ctl *ctl, const struct ctl_job *job, const struct ctl_attempt *attempt);
struct agent_order order_simple(const struct ctl_job *job, const struct ctl_attempt *attempt, enum order_kind kind);
struct agent_order order_signal(const struct ctl_job *job, const struct ctl_attempt *attempt, int signal);
struct agent_order order_stop(const struct ctl *ctl, const struct ctl_job *job, const struct ctl_attempt *attempt,
                              usec_t grace);

static inline struct ctl_attempt *attempt_of(struct ctl_job *job)
{
    return job->attempt_count ? &job->attempts[job->attempt_count - 1] : NULL;
}

/* The same where there is one for certain. */
static inline struct ctl_attempt *attempt_now(struct ctl_job *job)
{
    assert(job->attempt_count > 0);
    return attempt_of(job);
}

static inline struct ledger const *ctl_ledger(const struct ctl *ctl)
{
    return core_ledger(ctl->core);
}
