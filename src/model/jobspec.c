/* SPDX-License-Identifier: Apache-2.0 */
/* jobspec.c - see jobspec.h. */
#include "model/jobspec.h"

#include <errno.h>

bool jobspec_elastic(const struct jobspec *spec)
{
    return spec->range_max ? spec->range_min < spec->range_max : spec->gpus_min < spec->gpus_max;
}

int jobspec_size_check(const struct jobspec *spec, int32_t gpus, struct error *err)
{
    int32_t low = spec->range_max ? spec->range_min : spec->gpus_min;
    int32_t high = spec->range_max ? spec->range_max : spec->gpus_max;
    int32_t each = (int32_t)(spec->tp ? spec->tp : 1) * (int32_t)(spec->pp ? spec->pp : 1);

    if (low == high)
        return error_set(err, -ERANGE, "job %lld is not elastic: it has as many GPUs as it asks for",
                         (long long)spec->id);
    if (gpus == 0)
        return 0;
    if (gpus < low || gpus > high)
        return error_set(err, -ERANGE, "job %lld is elastic from %d to %d GPUs; it cannot have %d", (long long)spec->id,
                         low, high, gpus);
    if (spec->per_node && gpus % spec->per_node)
        return error_set(err, -ERANGE, "job %lld has %u GPUs on each node; %d is no multiple of that",
                         (long long)spec->id, spec->per_node, gpus);
    if (gpus % each || gpus <= spec->gpu_servers)
        return error_set(err, -ERANGE, "job %lld cannot be split over %d GPUs", (long long)spec->id, gpus);
    return 0;
}

void jobspec_resize(struct jobspec *spec, int32_t gpus)
{
    if (spec->range_max == 0) {
        spec->range_min = spec->gpus_min;
        spec->range_max = spec->gpus_max;
    }
    if (gpus) {
        spec->gpus = spec->gpus_min = spec->gpus_max = gpus;
        return;
    }
    spec->gpus_min = spec->range_min;
    spec->gpus_max = spec->range_max;
    spec->range_min = spec->range_max = 0;
}
