/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* proposal.h - checks that several proposals of plan.h share; inside the core only. All are in plan.c. */
#include "core/ledger/ledger.h"

struct core;
struct plan;

/* Whether a GPU is part of somebody's guarantee. */
bool placement_bound(const struct core *core, const struct placement *to);

/* Whether the placement is as the job wants it. */
int placement_apart(const struct ledger *ledger, const struct placement *to, const struct jobspec *spec);

/* Within its elastic range; as it is; or, of a planner that does so, fewer GPUs for the same world. */
bool plan_size_allowed(const struct plan *plan, const struct job *job, uint32_t count);

/* Who serves on GPUs that were just given: as the planner said, or as the placement did that found them. */
void plan_served(struct plan *plan, const struct job *job, const struct placement *to);
