/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* priority.h - higher priorities preempt lower ones inside a virtual cluster, whatever its policy orders by. */
#include "core/core_internal.h"

struct plan;

/* Whether a higher priority preempts a lower one in the virtual cluster by the core's hand: where that is wanted, and
 * its planner starts by rank and does not preempt by itself. */
bool priority_strict(const struct core *core, const struct vc *vc);

/* The job is one of the virtual cluster's from now on. */
void priority_note(struct vc *vc, const struct job *job);

/* Whether the waiting job may be one that could preempt in its virtual cluster. */
bool priority_waits(const struct core *core, struct vc *vc, const struct job *job);

/* Before the planner of the virtual cluster has its turn: starts the waiting jobs that are of higher priority than
 * running ones, where they do not fit by stopping those. */
void priority_preempt(struct plan *plan);
