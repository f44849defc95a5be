/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* admit.h - the contract of admission: what becomes of a job that arrives.
 *
 * Called once, at the instant of submission, before the job is queued. Admission may change the job's class, hold it
 * for measuring (plan_set_aside with REASON_PROFILING after it is queued, from the planner's `queued` hook), promise or
 * refuse. A job that can never run is refused before it comes here.
 */
#include "core/contract/planner.h"

enum admit_verdict { ADMIT_ACCEPT, ADMIT_REFUSE };

struct admit_ops {
    const char *name;
    const char *summary;
    const struct param *params;
    size_t state_size, kept_size;
    bool classes; /* tells guaranteed jobs from others */
    enum admit_verdict (*admit)(struct planner_ctx *ctx, struct plan *plan, uint32_t job);
};
