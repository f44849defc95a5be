/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* reclaim.h - from whom GPUs are taken back for a job that is promised more (Singularity, 2022).
 *
 * Basic jobs first, those with most GPUs first; then standard ones and then premium ones, those with most slack first,
 * and none whose slack would not bear the outage. Inside a tier a job that can do with fewer GPUs is shrunk rather than
 * one stopped, and as few jobs are touched as will do. Of a standard or premium job one step (its next smaller size) is
 * taken at a time; a basic one may shrink to its least.
 */
#include <stdbool.h>

#include "base/units.h"
#include "model/jobspec.h"

struct reclaim_job {
    const struct jobspec *spec;
    uint32_t job;
    int32_t gpus; /* it has */
    int32_t then; /* result: it keeps; == gpus: untouched, 0: stopped */
    usec_t slack; /* USEC_NEVER for basic ones */
    uint8_t tier; /* enum job_tier, as it is treated */
    bool fixed;   /* was resized a moment ago: is not resized again, but a basic one may be stopped */
};

struct reclaim_rules {
    usec_t outage;                   /* a promised job needs so much slack to be touched */
    uint8_t lowest;                  /* enum job_tier: jobs of tiers above (smaller numbers) are not touched */
    bool stops;                      /* promised jobs may be stopped, not only shrunk */
    int32_t floor_gpus, floor_world; /* promised jobs are not brought below this fraction; 0, 0: there is none */
};

/* Sets `then` of the jobs, whose order it changes. Returns GPUs that come free, at least `need`; -EBUSY if all that may
 * be taken is not enough: then nobody is touched. */
int32_t reclaim_choose(struct reclaim_job *jobs, uint32_t count, int32_t need, const struct reclaim_rules *rules);
