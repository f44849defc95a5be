/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* roles.h - a job of several task roles (a launcher and workers, servers and workers) as one gang on like nodes.
 *
 * The scheduler knows gangs of like nodes, and gangs of several parts, each on like nodes with GPUs of a type of its
 * own. Tasks with GPUs of one type are shared out so that every node of it is full, on as many nodes as that is
 * possible on; tasks without GPUs are put beside those of the first part in turn. Where that is, follows from the
 * submission and the GPUs of each node alone: controller and agents find the same.
 */
#include "wire/job/submission.h"

struct role_task {
    uint16_t role; /* submission.roles */
    uint32_t index, node;
    uint32_t gpu_first, gpu_count; /* among the job's GPUs of that node */
};

/* A node that the job has: of which part, and how many GPUs. */
struct role_node {
    uint32_t part, gpus;
};

uint32_t roles_tasks(const struct submission *s); /* all of them */
uint32_t roles_gpus(const struct submission *s);

/* Types of GPU that its roles name, each a part of the gang: 1 where all are alike. Which one a role is in; what a part
 * is called by (NULL: any type), and how many GPUs it has. */
uint32_t roles_parts(const struct submission *s);
uint32_t roles_part(const struct submission *s, const struct job_role *role);
char *roles_part_type(const struct submission *s, uint32_t part);
uint32_t roles_part_gpus(const struct submission *s, uint32_t part);

/* All tasks by role and index; free it. -ENOMEM; -ERANGE: they do not fit these nodes. */
int roles_pack(const struct submission *s, const struct role_node *nodes, uint32_t count, struct role_task **ret_tasks);

/* What one part asks of nodes with at most `most` GPUs, of which `enough(arg, gpus)` have so many: as a submission
 * without roles, which borrows from this one. -ENOMEM; -ERANGE: no number of nodes does. */
int roles_flatten(const struct submission *s, uint32_t part, int32_t most, int64_t (*enough)(void *arg, int32_t gpus),
                  void *arg, struct submission *ret_flat);

/* The image a task of the role (NULL: of a job without) runs in; NULL: none. All roles run in some image, or none does:
 * `roles_image` tells which of the two, by one of them. */
const char *role_image(const struct submission *s, const struct job_role *role);
const char *roles_image(const struct submission *s);

void roles_done(struct submission *s);
