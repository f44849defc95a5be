/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* preempt.h - who may be the victim of another, and on whose GPUs whoever may not be can run. */
#include "core/core_internal.h"

/* What another wants of a running job. */
enum preempt_cause { PREEMPT_FOR_STOP, PREEMPT_FOR_MOVE };

/* Whether a job may be the victim of another: the one place that knows. plan_stop_any and every move of a planner ask
 * it; whoever looks for victims asks first, or is refused. */
bool core_may_preempt(const struct core *core, const struct job *job, enum preempt_cause cause);

/* Until when the job is not to be stopped for another's sake: by its own terms, or by what its virtual cluster promises
 * to all its jobs; 0 = nothing keeps it, USEC_NEVER = no instant is known. */
usec_t core_kept_until(const struct core *core, const struct job *job);

/* For how long a job of the virtual cluster may keep what that is not owed; 0: until the owner comes. */
usec_t core_lends_for(const struct core *core, const struct vc *vc);

/* Whether the phase hands out what a job that keeps it so long (jobspec_keeps) may not have: it could not be had back
 * in time, so the job runs on what its virtual cluster is owed alone. */
bool plan_keeps(const struct plan *plan, usec_t span);
