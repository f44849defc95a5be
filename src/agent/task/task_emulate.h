/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* task_emulate.h - tasks without a process, on emulated nodes. */
#include "agent/agent.h"

int emulate_start(struct task *task);
void emulate_go(struct task *task);
void emulate_stop(struct task *task, const json_t *order);
void emulate_suspend(struct task *task, bool suspend);
void emulate_end(struct task *task, int code, const char *cause);
void emulate_recover(struct task *task, int dir);
