/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* job_waiters.h - requests about a job that are answered when it has come so far: nobody has to ask again and again.
 *
 * A wait costs a few words until an event of its job; it ends with its limit, when its client leaves, or when too many
 * wait, and is then answered with the job as it is.
 */
#include "ctl/daemon/server.h"

struct waits;

enum wait_for {
    WAIT_STARTED, /* its processes run, or it is over */
    WAIT_ENDED,   /* its present attempt is over; it may be queued again */
    WAIT_OVER,
    WAIT_FOR_COUNT
};

typedef void (*waited_fn)(struct request *request, const struct ctl_job *job);

int waits_new(struct server *server, struct waits **ret_waits);
void waits_stop(struct waits *waits); /* its timer */
void waits_free(struct waits *waits); /* after all connections are closed */

int wait_for_find(const char *text); /* "started", "ended", "over"; -ENOENT */

/* Calls `then` now or later, once, unless the client leaves before. */
void waits_hold(struct waits *waits, struct request *request, const struct ctl_job *job, enum wait_for what,
                usec_t limit, waited_fn then);
bool waits_any(const struct waits *waits);
/* Something has happened to the job. */
void waits_event(struct waits *waits, int64_t job);
