/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* estimates.h - what new jobs are expected to need, learned from those that are over on this very cluster.
 *
 * Every so many jobs that complete, a new estimator is trained on a thread of its own; meanwhile the old one answers.
 * It is kept in the folder of the state (estimator.model) and read at the start; one that cannot be used is named in
 * the log, and requests are taken as stated until enough jobs have completed. What is expected of a job goes into the
 * entry of its submission: the log, not this, is what a replay reads.
 */
#include "ctl/daemon/server.h"

enum {
    ESTIMATES_ROWS_MAX = 4000, /* the newest completed jobs that are learned from */
    ESTIMATES_LEAST = 20,      /* nothing is said before so many */
    ESTIMATES_EVERY = 20,      /* completed jobs between two trainings */
};

struct estimates;

int estimates_new(struct server *server, struct estimates **ret_estimates);
void estimates_start(
    struct estimates *estimates);                 /* reads the model, and the history of the store; after the batcher */
void estimates_free(struct estimates *estimates); /* waits for a training under way */

/* A job is over: learned from if it completed. */
void estimates_ended(struct estimates *estimates, const struct ctl_job *job);

/* What to expect of a submission, for its entry; NULL: nothing can be said. The caller's. */
json_t *estimates_ask(struct estimates *estimates, const char *user, const struct submission *spec);

/* GET /estimator */
json_t *estimates_json(const struct estimates *estimates);
