/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* procs.h - what /proc says of processes. */
#include <stdbool.h>
#include <sys/types.h>

#include "base/units.h"

pid_t procs_parent(pid_t pid);   /* 0 = gone */
usec_t procs_started(pid_t pid); /* since boot; 0 = gone */
char procs_state(pid_t pid);     /* as in /proc; '\0' = gone */
bool procs_catches(pid_t pid, int number);
/* Descendants of `root`, which is the reaper of its orphans; without `skip` and what is below it. Zombies do not count.
 * Returns how many there are, fills at most `max`. */
int procs_below(pid_t root, pid_t skip, pid_t *ret_pids, int max);
/* Processes whose environment holds the text, e.g. of a task whose shepherd is gone: how many, or < 0 where descriptors
 * or memory do not suffice to look at all of them. */
int procs_marked(const char *mark, pid_t *ret_pids, int max);
bool procs_maps(pid_t pid, const char *library);
/* A variable of its environment at its start; 0, -ENOENT. */
int procs_variable(pid_t pid, const char *name, char *value, size_t size);
usec_t procs_cpu(pid_t pid); /* CPU time it has used */
/* Resident bytes; 0 = gone. */
int64_t procs_memory(pid_t pid);
