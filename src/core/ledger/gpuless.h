/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gpuless.h - jobs without GPUs; see gpuless.c. */
#include "core/job.h"
#include "core/ledger/host_resources.h"

struct vc;

void tasks_build(struct core *core, bool *failed);
bool tasks_possible(const struct core *core, const struct jobspec *spec);
/* Whether what its virtual cluster is owed is enough, where the job may have nothing else: see core_may_preempt. */
bool tasks_owed(const struct core *core, const struct vc *vc, const struct jobspec *spec);
void tasks_add(struct core *core, uint32_t job);
void tasks_remove(struct core *core, uint32_t job);
void tasks_attach(struct core *core, uint32_t job);
void tasks_detach(struct core *core, uint32_t job);
void tasks_hold(struct core *core, uint32_t job, uint32_t node, uint32_t tasks);
void tasks_leave(struct core *core, uint32_t job, bool leaving);
uint32_t tasks_release(struct core *core, uint32_t job);
void tasks_pass(struct core *core);
void tasks_turn(struct core *core, uint32_t job);
uint32_t tasks_first(const struct core *core, uint32_t node);
void tasks_recount(struct core *core);
void tasks_reason(struct core *core, struct job *job, enum reason reason);
