/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* task_enforce.h - what shepherds are to have done in time, or the agent does it. */
#include "agent/agent.h"

#define TASK_PATIENCE (10 * USEC_SEC) /* with a shepherd on a busy machine, beyond what it was told */

bool task_due(struct task *task, usec_t span, const char *cause);
void task_due_by_order(struct task *task, const json_t *order);      /* to leave */
bool tasks_due(struct agent *agent, usec_t span, const char *cause); /* all; false: none that was not due before */
void tasks_enforce(struct agent *agent);
void task_give_up(struct task *task);           /* what is left of it is killed until nothing is; then it has ended */
json_t *tasks_stuck(const struct agent *agent); /* those that have been killed in vain for a while; NULL: none */
