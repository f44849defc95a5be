/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* grant.h - what the cluster gives a job on this node's GPUs, by the job's control group.
 *
 * A node side that serves a machine believes no program about its role, job or limits: it asks the kernel which control
 * group the program is in, and the agent has noted what the job of that group may have. Only root writes either. Notes
 * are files in RUN_DIR/grants, which are there before the job begins. A file .claims there says that this node has no
 * control groups: then programs are believed.
 */
#include <stdint.h>
#include <sys/types.h>

#include "shim/message.h"

enum grant_role { GRANT_NONE, GRANT_GUARANTEED, GRANT_OPPORTUNISTIC }; /* the numbers of enum page_role */

struct grant {
    uint32_t role, share; /* share: permille of the time; 0 = not told */
    uint64_t memory;      /* bytes; 0 = no limit */
    char job[MESSAGE_NAME_MAX];
};

/* `cgroup`: the directory of the job's group; "": there are none. `name`: of the task, and last of the group's path. */
int grant_put(const char *run_dir, const char *name, const char *cgroup, const struct grant *grant);
void grant_drop(const char *run_dir, const char *name);
/* -ENOENT: it is in no job; -ENODATA: nobody knows, since there are no control groups. */
int grant_find(const char *run_dir, pid_t pid, struct grant *ret_grant);
