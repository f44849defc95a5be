/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* hold.h - holds that a process cannot get round: its cgroup is frozen, or the process itself stopped.
 *
 * A closed gate stops launches; data loaders and other threads run on. Whoever is held longer may be frozen with all it
 * started. Nobody stays held because the node side died: each hold has a watcher, a process of its own that ends it
 * when the node side has ended it or is gone. MUSTER_GPU_CGROUP_DIR stands for /sys/fs/cgroup in tests.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HOLD_PATH_MAX 512

enum hold_kind { HOLD_NONE, HOLD_FROZEN, HOLD_STOPPED };

struct hold {
    enum hold_kind kind;
    int watcher;              /* its end of this pipe shows that we are there */
    char path[HOLD_PATH_MAX]; /* of cgroup.freeze */
};

/* Freezes the cgroup of the process, if nobody is in it but the process and what it started. False: nothing changed. */
bool hold_freeze(struct hold *hold, pid_t pid);
/* Stops the process. */
bool hold_stop(struct hold *hold, pid_t pid, uint64_t start_ticks);
/* Whatever it was, it is over. */
void hold_end(struct hold *hold, pid_t pid, uint64_t start_ticks);
