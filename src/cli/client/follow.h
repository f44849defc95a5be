/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* follow.h - waiting for a job, following its output, and what its end means to a shell. */
#include "base/units.h"
#include "cli/client/client.h"

/* Exit codes of run, wait, exec and submit -W beside the job's own. */
enum {
    JOB_NODE_FAIL = 121,
    JOB_CANCELLED = 122,
    JOB_PREEMPTED = 123,
    JOB_TIMEOUT = 124,
    JOB_MUSTER = 125,
};

/* The job now; owned by the caller. */
int job_get(struct client *client, int64_t id, json_t **ret_job, struct problem *problem);
bool job_over(json_t *job);
int job_exit_code(json_t *job);

/* Blocks until it has come so far: its processes run, its attempt has ended, it is over. Says what it waits for. */
enum job_until { JOB_STARTED, JOB_ENDED, JOB_OVER };
int job_wait(struct client *client, int64_t id, enum job_until until, bool quiet, json_t **ret_job,
             struct problem *problem);

/* Until this attempt has ended, whether or not another has begun since. */
int job_wait_attempt(struct client *client, int64_t id, int64_t attempt, bool quiet, json_t **ret_job,
                     struct problem *problem);

struct follow {
    int task, attempt; /* -1 = all, the present one */
    bool err, follow;
    long lines;          /* the last ones; -1 = all */
    usec_t since, until; /* what was written then; 0 = not told */
};

/* Output to standard output; with follow until the job is over. */
int job_output(struct client *client, int64_t id, const struct follow *how, struct problem *problem);

/* What will be asked about the job that the next request submits is sent with it: see client_ahead(). */
void job_ahead(struct client *client);
/* Follows all of a job, as it was answered to its submission, and returns its exit code, or an error of ours. An
 * interrupt cancels the job. */
int job_follow_to_end(struct client *client, json_t *submitted, struct problem *problem);
