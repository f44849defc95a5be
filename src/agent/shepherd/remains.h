/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* remains.h - to end a task without its shepherd, which may be stopped, hang in a file system, or be dead.
 *
 * A shepherd notes its number in the task's directory before it reads what it is to do, and does not begin where the
 * directory says that the task was given up. Whoever ends a task writes that first: then it either finds the number,
 * or there will never be a process.
 */
#include <stdbool.h>

enum remains {
    REMAINS_GONE,
    REMAINS_HANGS, /* killed, and waits in the kernel: it never comes back to its program, if that was not for a moment
                    */
    REMAINS_RUNS   /* it might still start something */
};

int remains_note(int dir);                               /* by a shepherd: this is me. -ECANCELED: it was given up */
int remains_give_up(int dir);                            /* from now on no shepherd begins here */
enum remains remains_shepherd(int dir);                  /* kills it */
bool remains_kill(const char *cgroup, const char *mark); /* cgroup "": by the mark. True: nothing is left */
