/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* forker.h - the small process that shepherds are forked from.
 *
 * An agent inside a controller may be a large process with threads; forking it for every task would be slow and unsafe.
 * So another program is started once and forks: muster-shepherd, which has the code of shepherds and no library but the
 * C library, because each mapping of a process is copied at every fork; where it is not found, the agent's own program
 * in another mode. One it has forked is always ready and takes the next order itself, so that no task waits for a fork.
 * It ends with its agent; what it forked and has work does not. When it dies it is started again.
 */
#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "base/error.h"

#define FORKER_PROGRAM "muster-shepherd"
#define FORKER_MODE "--muster-forker"
enum { FORKER_FD = 3 };

struct forker {
    uv_loop_t *loop;
    uv_process_t process;
    uv_poll_t watch;
    int fd; /* -1 = not there */
    bool process_open, watch_open, stopping;
    int handles; /* still to be closed */
    void (*closed)(void *arg);
    void *arg;
};

int forker_start(struct forker *forker, uv_loop_t *loop, struct error *err);
void forker_stop(struct forker *forker, void (*closed)(void *arg), void *arg);

/* It does not fork: another one, after this turn of the loop. Until then nothing is forked. */
void forker_replace(struct forker *forker);

/* A shepherd for the task in this directory, listening there. Both descriptors stay the caller's. */
int forker_task(struct forker *forker, int dir, int listener);
/* The watchdog of a state directory (watchdog.c), if there is none. Both descriptors stay the caller's. */
int forker_watch(struct forker *forker, int state, int tasks);
/* A command inside a running task: descriptors are the task's directory, standard input, output, error (-1: as output)
 * and a pipe for how it ended. `plan` is written to the task's directory by the caller and named here. */
int forker_exec(struct forker *forker, const int fds[5], const char *plan);

/* The other side. */
int forker_main(int fd);
/* watchdog.c: until there is nothing to look after. */
int watchdog_run(int state, int tasks);
/* exec_child.c: runs the command of a plan; returns the status of the process. */
int exec_run(const int fds[5], const char *plan);
