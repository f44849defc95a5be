/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* guard.h - a job that does not outlive the program that waits for it.
 *
 * A process of its own, in a session of its own, cancels the job when this program is gone without guard_stop():
 * killed, or with its terminal. It asks again for two minutes while the controller does not answer. With --detach there
 * is none.
 */
#include <sys/types.h>

#include "cli/client/client.h"

struct guard {
    pid_t pid;
    int end; /* of a pipe; -1 = no guard */
};

/* Before other processes are started, which would keep the pipe open. -errno: there is none. */
int guard_start(const struct command_args *args, int64_t id, struct guard *guard);
void guard_stop(struct guard *guard);

/* `now`: without grace. One that is over already is no error. */
int job_cancel(struct client *client, int64_t id, bool now, struct problem *problem);
