/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* child.h - what every process on its way to a user's program does. */
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

enum { CHILD_GROUPS_MAX = 256 };

/* Of the user, as the agent found them: to look them up takes modules of the C library, and a program without libraries
 * has none. How many; at least one. */
size_t child_groups(const json_t *plan, gid_t groups[CHILD_GROUPS_MAX]);

/* user_open.c: a path that the user of the plan named, with that user's rights. -ELOOP: by a link of /proc. */
int user_open(const json_t *plan, const char *path, int flags, mode_t mode);
/* Whatever follows is done with that user's rights, writing too; until the end of it, or where it fails, as root. */
int user_stay(const json_t *plan);
void user_stay_end(const json_t *plan);
bool user_file_plain(int fd); /* a file or a device, and not one of the kernel's own file systems */

/* "binds": [SOURCE, NAME] each, for a container that root starts, put below "binds" of the task's folder; *ret_which is
 * the source that could not be had. */
int child_binds(const json_t *plan, int dir, const char **ret_which);

/* child_mounts.c. A mount namespace of our own; folders that are the task's own in it, where the plan asks for them
 * ("private_tmp", "private_shm"), the first of them of that name in `folders`. To be called before anything of the job
 * runs. */
bool child_mounts_own(const json_t *plan);
int child_mounts_begin(void);
int child_mounts_make(const json_t *plan, int folders, const char *name);
/* The namespaces of the task's shepherd ("shepherd" of the plan): the one way into a task. -EPERM: it is none. */
int child_mounts_enter(const json_t *plan);

void child_oom_reset(void);   /* no longer spared when memory runs out, if the agent is */
void child_keyring_own(void); /* a session keyring of its own, not that of the agent */
/* uid, gid and groups of the plan, where it says "switch"; set-user-id programs no longer count ("no_new_privs") */
int child_become(const json_t *plan);
char **child_strings(const json_t *first, const json_t *second); /* for exec; NULL = no memory */
void child_strings_free(char **list);
void child_signals(void); /* none ignored, none blocked */
