/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* child.h - what every process on its way to a user's program does. */
#include <jansson.h>
#include <sys/types.h>

enum { CHILD_GROUPS_MAX = 256 };

/* Of the user, as the agent found them: to look them up takes modules of the C library, and a program without libraries
 * has none. How many; at least one. */
size_t child_groups(const json_t *plan, gid_t groups[CHILD_GROUPS_MAX]);
/* "binds": [SOURCE, PLACE] each, for a container that root starts; *ret_which is the source that could not be had. */
int child_binds(const json_t *plan, const char **ret_which);
/* A mount namespace with the folders that are the task's own ("private_tmp", "private_shm"); those of `pid`, a process
 * that has made them. Nothing where the plan asks for none. */
int child_mounts_make(const json_t *plan);
int child_mounts_enter(const json_t *plan, pid_t pid);
/* uid, gid and groups of the plan, where it says "switch"; no longer spared when memory runs out, if the agent is */
int child_become(const json_t *plan);
char **child_strings(const json_t *first, const json_t *second); /* for exec; NULL = no memory */
void child_strings_free(char **list);
void child_signals(void); /* none ignored, none blocked */
