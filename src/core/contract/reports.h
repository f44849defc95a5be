/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* reports.h - which measurements of running jobs a policy is told (model/measure.h). One rule for whoever has them: a
 * simulation, or a controller. */
#include "core/contract/planner.h"
#include "core/contract/tune.h"
#include "core/planning/vc.h"

/* MEASURE_LOSS and MEASURE_SPEED. */
static inline bool policy_hears_progress(const struct policy_setup *setup)
{
    for (uint32_t i = 0; i < setup->tune_count; i++)
        if (setup->tune[i]->report && !setup->tune[i]->batches)
            return true;
    return setup->planner->report && !setup->planner->profiles && !setup->planner->batches;
}

/* MEASURE_BATCH. */
static inline bool policy_hears_batches(const struct policy_setup *setup)
{
    for (uint32_t i = 0; i < setup->tune_count; i++)
        if (setup->tune[i]->batches)
            return true;
    return setup->planner->batches;
}
