/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* vc_wakeup.h - when a virtual cluster is planned, and which side of its guarantee a call is about; inside the core
 * only. */
#include "core/core_internal.h"

/* Of a virtual cluster: it wants to be planned then. Where it is guaranteed cells, what it wants beyond them is apart:
 * nothing that opportunistic jobs want wakes it inside. */
static inline uint32_t timer_vc(const struct core *core, uint32_t vc, bool beyond)
{
    return core->job_capacity * TIMERS_A_JOB + vc + (beyond ? core->vc_count + 1 : 0);
}

/* For what the policy is told of a job outside of a pass. */
static inline struct plan plan_about(struct core *core, const struct job *job)
{
    bool guest = core->cells && job->klass == CLASS_OPPORTUNISTIC;

    return (struct plan){ .core = core, .vc = job->vc, .phase = guest ? PHASE_GUEST : PHASE_OWED };
}
