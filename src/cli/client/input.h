/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* input.h - standard input of `muster run`. */
#include <stdint.h>
#include <sys/types.h>

#include "cli/cli.h"

/* Which tasks read it: what --input says, else "all" where there is something to be read; "" = none. */
const char *input_mode(const struct command_args *args);
/* `muster input JOB` beside us: another process, since this one waits for output. It does not outlive us. <= 0: there
 * is none. */
pid_t input_start(const struct command_args *args, int64_t job);
void input_stop(pid_t pid);

/* One input for many: a pipe for each, and a process that writes to all of them. */
struct input_spread {
    int *ends; /* owned: where it writes */
    size_t count, room;
};

int input_spread_end(struct input_spread *spread); /* where one reads; the caller's. -1: it cannot be */
pid_t input_spread_start(struct input_spread *spread);
