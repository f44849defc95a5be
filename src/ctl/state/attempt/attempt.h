/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* attempt.h - runs of jobs and their tasks, for the files of the state machine (state_internal.h) alone. */
#include "ctl/state/entry/entry.h"
#include "ctl/state/registry.h"
#include "wire/agent/agent_order.h"

struct ctl;
struct policy_setup;

/* attempt.c, attempt_end.c, attempt_wait.c */
int attempt_new(struct ctl *ctl, struct ctl_job *job);
void attempt_launch(struct ctl *ctl, struct ctl_job *job, bool gated);
void attempt_move(struct ctl *ctl, struct ctl_job *job); /* it saves itself and goes on where the core has it */
/* Nothing of it has run, and nothing of it stays. */
void attempt_withdraw(struct ctl *ctl, struct ctl_job *job, enum phase_of_job phase);
void attempt_open(struct ctl *ctl, struct ctl_job *job); /* the gate of one that was prepared */
void attempt_stop(struct ctl *ctl, struct ctl_job *job, enum stop_cause cause, int64_t by, usec_t grace);
void attempt_report(struct ctl *ctl, uint32_t node, const struct entry_report *report);
void attempt_measure(struct ctl *ctl, struct ctl_job *job, const struct entry_report *report);
void attempt_node_lost(struct ctl *ctl, uint32_t node);
void attempt_untold(struct ctl *ctl, struct ctl_job *job, uint32_t rank); /* its launch is taken back */
/* Launches one of its tasks, and notes whether anybody was told. */
void attempt_tell(struct ctl *ctl, struct ctl_job *job, uint32_t rank, const struct order_place *place);
bool attempt_kept(const struct ctl_job *job); /* it failed, and its place is kept */
/* Its node was lost while it was kept. True: it is over as it had ended, and not run again. */
bool attempt_kept_lost(struct ctl *ctl, struct ctl_job *job);
void attempt_end_peers(struct ctl *ctl, struct ctl_job *job);    /* the gang is over: all that is left of it is ended */
void attempt_launch_ready(struct ctl *ctl, struct ctl_job *job); /* now, or when its GPUs have been left */
void job_phase(struct ctl *ctl, struct ctl_job *job, enum phase_of_job phase);
void job_end(struct ctl *ctl, struct ctl_job *job, enum phase_of_job phase, const char *text);
usec_t job_grace(const struct ctl *ctl, const struct ctl_job *job);
/* roles.c */
int role_ends_make(struct ctl_attempt *attempt, const struct submission *s); /* places for the ends of all tasks */
void roles_ended(struct ctl *ctl, struct ctl_job *job, struct ctl_attempt *attempt, const struct entry_report *report);
void attempt_over(struct ctl *ctl, struct ctl_job *job); /* its last task is gone */
/* It is over: the time it had its GPUs is booked, once. */
void attempt_close(struct ctl *ctl, struct ctl_job *job, struct ctl_attempt *attempt);
void attempt_began(struct ctl *ctl, struct ctl_job *job); /* it runs, or has run */
/* GPU time of an attempt that is over which is of no use: since it last saved itself. */
svc_t attempt_lost(const struct ctl_job *job, const struct ctl_attempt *attempt);
/* cause: LOST, or the order that it followed. */
void attempt_note_loss(struct ctl *ctl, struct ctl_job *job, enum task_cause cause);
void task_cause_note(struct ctl_task *task, const char *word); /* as its node or a snapshot says it */
bool task_gone(const struct ctl_task *task);
/* Its node has lost it, or was lost with it. */
bool task_lost(const struct ctl_task *task);
/* Every rank is so, or its place is kept, or it has ended before the others came so far. */
bool ranks_all(const struct ctl_attempt *attempt, enum task_state state);
bool attempt_gone(const struct ctl_attempt *attempt); /* no task of it is left */
/* Its tasks have just the GPUs that the core has given the job. */
bool attempt_placed(const struct ctl *ctl, const struct ctl_job *job);
bool attempt_ready(struct ctl *ctl, struct ctl_job *job);                /* nobody is left where it is to be */
void attempt_leaves(struct ctl *ctl, const struct ctl_attempt *attempt); /* what the core has given away */
/* The same as attempt_ready(), found anew: for the audit. */
bool attempt_place_empty(const struct ctl *ctl, const struct ctl_job *job);
/* The job is over, and what is left of it was told to clean up: nobody waits for it any longer. */
void attempt_forgets(struct ctl *ctl, const struct ctl_job *job);
/* A task of the node is gone: launches who waited. vacated: the node was known to be so before that; the job itself may
 * have found it so since, on its way to its next attempt. */
void attempt_left(struct ctl *ctl, uint32_t node, bool vacated);

/* undelivered.c */
/* The launches for the node that were told to nobody: job, attempt, rank of each. The caller's, also without memory. */
int untold_list(struct ctl *ctl, struct ctl_node *node, struct number_list *ret);
void untold_apply(struct ctl *ctl, const struct ctl_node *node, const struct entry_silent *silent);

/* orphan_suspend.c */
void turns_end(struct ctl *ctl, const struct policy_setup *before, uint32_t count); /* after a change of policies */
void turns_leave(struct ctl *ctl, struct ctl_job *job); /* it sleeps, and nobody would wake it */
