/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* forker.h - the small process that shepherds are forked from.
 *
 * An agent inside a controller may be a large process with threads; forking it for every task would be slow and unsafe.
 * So the program starts itself once in another mode, with nothing loaded but the code, and has that one fork. It ends
 * with its agent; what it forked does not. When it dies it is started again.
 */
#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "base/error.h"

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

/* A shepherd for the task in this directory, listening there. Both descriptors stay the caller's. */
int forker_task(struct forker *forker, int dir, int listener);
/* A command inside a running task: descriptors are the task's directory, standard input, output, error (-1: as output)
 * and a pipe for how it ended. `plan` is written to the task's directory by the caller and named here. */
int forker_exec(struct forker *forker, const int fds[5], const char *plan);

/* The other side; argv[2] is the descriptor. */
int forker_main(int fd);
/* exec_child.c: runs the command of a plan; returns the status of the process. */
int exec_run(const int fds[5], const char *plan);
