/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gga_draft.h - one individual of the search, changed task by task; the inside of gga.c and gga_draft.c.
 *
 * The tasks on a node are a list in the order of the batch, so that the load each of them sees is told by its place in
 * it. What changed is noted, and only its terms are computed anew. All of a plan is one block of memory, to be copied
 * at once.
 */
#include "solve/gga.h"

#define TASK_NONE UINT32_MAX
#define NODE_NONE UINT32_MAX

struct draft {
    double *node_term;      /* load terms of the tasks on a node */
    double *job_term;       /* cost and nodes of a job */
    double *room;           /* bandwidth left on a node; NULL: not limited */
    uint32_t *place, *next; /* of a task: its node, the one behind it there */
    uint32_t *head;         /* of a node: its first task */
    uint16_t *used;         /* of a node: GPUs, those before the batch as well */
    double total;
};

/* What one worker needs to change plans: nothing in it outlives a change. */
struct kit {
    const struct gga_problem *problem;
    struct rng rng;
    struct net_scratch scratch;
    uint32_t *touched_nodes, *touched_jobs, *lost, *order;
    uint8_t *node_mark, *job_mark, *open;
    uint32_t node_count, job_count, lost_count;
};

size_t draft_bytes(const struct gga_problem *problem);
void draft_bind(const struct gga_problem *problem, void *block, struct draft *plan);
void draft_copy(const struct gga_problem *problem, struct draft *to, const struct draft *from);
void draft_clear(struct kit *kit, struct draft *plan);

size_t draft_kit_bytes(const struct gga_problem *problem);
void draft_kit_bind(const struct gga_problem *problem, void *memory, struct kit *kit);

bool draft_fits(const struct kit *kit, const struct draft *plan, uint32_t task, uint32_t node);
void draft_put(struct kit *kit, struct draft *plan, uint32_t task, uint32_t node);

/* Takes the task off its node and notes it as lost. */
void draft_drop(struct kit *kit, struct draft *plan, uint32_t task);

/* Puts what was lost somewhere: how, and -1 when something fits nowhere. */
enum fill { FILL_FIRST, FILL_RANDOM, FILL_NEAR, FILL_BEST };
int draft_fill(struct kit *kit, struct draft *plan, enum fill how);

/* One whole job by best fit; none of its tasks has a place. */
int draft_fill_job(struct kit *kit, struct draft *plan, uint32_t job);

/* Brings the terms of what changed, and the total, up to date. */
void draft_settle(struct kit *kit, struct draft *plan);

/* The plan under change is not wanted any more. */
void draft_forget(struct kit *kit);
