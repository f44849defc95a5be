/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* roles.h - a job of several task roles (a launcher and workers, servers and workers) as one gang on like nodes.
 *
 * The scheduler knows gangs of like nodes. Tasks with GPUs are shared out so that every node is full, on as many nodes
 * as that is possible on; tasks without GPUs are put beside them in turn. Where that is, follows from the submission
 * and the number of nodes alone: controller and agents find the same.
 */
#include "wire/submission.h"

struct role_task {
    uint16_t role; /* submission.roles */
    uint32_t index, node;
    uint32_t gpu_first, gpu_count; /* among the job's GPUs of that node */
};

uint32_t roles_tasks(const struct submission *s); /* all of them */
uint32_t roles_gpus(const struct submission *s);

/* All tasks by role and index; free it. -ENOMEM; -ERANGE: they do not fill so many nodes evenly. */
int roles_pack(const struct submission *s, uint32_t nodes, struct role_task **ret_tasks);

/* What is asked of nodes with at most `most` GPUs, of which `enough(arg, gpus)` have so many: as a submission without
 * roles, which borrows from this one. -ENOMEM; -ERANGE: no number of nodes does. */
int roles_flatten(const struct submission *s, int32_t most, int64_t (*enough)(void *arg, int32_t gpus), void *arg,
                  struct submission *ret_flat);

/* The image a task of the role (NULL: of a job without) runs in; NULL: none. All roles run in some image, or none does:
 * `roles_image` tells which of the two, by one of them. */
const char *role_image(const struct submission *s, const struct job_role *role);
const char *roles_image(const struct submission *s);

void roles_done(struct submission *s);
