/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* attempt.h - runs of jobs and their tasks, for the files of the state machine (part.h) alone. */
#include "ctl/book.h"

struct ctl;

/* attempt.c, attempt_end.c, attempt_wait.c */
int attempt_new(struct ctl *ctl, struct book_job *job);
void attempt_launch(struct ctl *ctl, struct book_job *job);
void attempt_open(struct ctl *ctl, struct book_job *job); /* the gate of one that was prepared */
void attempt_resume(struct ctl *ctl, struct book_job *job);
void attempt_stop(struct ctl *ctl, struct book_job *job, const char *kind, int64_t by, usec_t grace);
void attempt_report(struct ctl *ctl, uint32_t node, const json_t *report);
void attempt_measure(struct ctl *ctl, struct book_job *job, const json_t *measure);
void attempt_node_lost(struct ctl *ctl, uint32_t node);
void attempt_untold(struct ctl *ctl, struct book_job *job, uint32_t rank); /* its launch is taken back */
/* Launches one of its tasks, and notes whether anybody was told. */
void attempt_tell(struct ctl *ctl, struct book_job *job, uint32_t rank, json_t *place);
bool attempt_kept(const struct book_job *job); /* it failed, and its place is kept */
/* Its node was lost while it was kept. True: it is over as it had ended, and not run again. */
bool attempt_kept_lost(struct ctl *ctl, struct book_job *job);
void attempt_end_peers(struct ctl *ctl, struct book_job *job); /* the gang is over: all that is left of it is ended */
void attempt_launch_ready(struct ctl *ctl, struct book_job *job); /* now, or when its GPUs have been left */
void job_phase(struct ctl *ctl, struct book_job *job, enum phase_of_job phase);
void job_end(struct ctl *ctl, struct book_job *job, enum phase_of_job phase, const char *text);
usec_t job_grace(const struct ctl *ctl, const struct book_job *job);
void roles_ended(struct ctl *ctl, struct book_job *job, struct book_attempt *attempt, const json_t *list); /* roles.c */
void attempt_over(struct ctl *ctl, struct book_job *job);  /* its last task is gone */
void attempt_close(struct ctl *ctl, struct book_job *job); /* the time it had its GPUs is booked */
/* GPU time of an attempt that is over which is of no use: since it last saved itself. */
svc_t attempt_lost(const struct book_job *job, const struct book_attempt *attempt);
void attempt_note_loss(struct ctl *ctl, struct book_job *job, const char *cause);
bool task_gone(const struct book_task *task);
/* Every rank is so, or its place is kept, or it has ended before the others came so far. */
bool ranks_all(const struct book_attempt *attempt, enum task_state state);
bool attempt_gone(const struct book_attempt *attempt);                    /* no task of it is left */
bool attempt_ready(struct ctl *ctl, struct book_job *job);                /* nobody is left where it is to be */
void attempt_leaves(struct ctl *ctl, const struct book_attempt *attempt); /* what the core has given away */
/* A task of the node is gone: launches who waited. vacated: the node was known to be so before that; the job itself may
 * have found it so since, on its way to its next attempt. */
void attempt_left(struct ctl *ctl, uint32_t node, bool vacated);

/* untold.c */
/* The launches for the node that were told to nobody: [[job, attempt, rank]]. The caller's. */
json_t *untold_list(struct ctl *ctl, struct book_node *node);
void untold_apply(struct ctl *ctl, const struct book_node *node, const json_t *body);
