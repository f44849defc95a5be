/* SPDX-License-Identifier: Apache-2.0 */
/* splice.c - see splice.h. */
#include "model/splice.h"

const char *tier_name(enum job_tier tier)
{
    static const char *const names[TIER_COUNT] = { "premium", "standard", "basic" };

    return (unsigned)tier < TIER_COUNT ? names[tier] : "";
}

int32_t splice_replicas(const struct jobspec *spec)
{
    int64_t shards = (int64_t)(spec->tp ? spec->tp : 1) * (spec->pp ? spec->pp : 1);

    return spec->gpus >= shards ? (int32_t)(spec->gpus / shards) : 1;
}

/* Shares, gangs that say how they are to lie or what they need beside GPUs, and parameter servers are run as they ask
 * to be. */
static bool rigid(const struct jobspec *spec)
{
    return spec->share < MGPU_ONE || spec->per_node || spec->unit || (spec->within && spec->within_must) ||
           spec->mcpus || spec->host_mib || spec->servers || spec->gpu_servers || spec->splice_max == 1;
}

bool splice_legal(const struct jobspec *spec, int32_t gpus)
{
    int32_t factor;

    if (gpus == spec->gpus)
        return true;
    if (gpus < 1 || gpus > spec->gpus || spec->gpus % gpus || rigid(spec))
        return false;
    factor = spec->gpus / gpus;
    if (spec->splice_max && factor > spec->splice_max)
        return false;
    if (spec->gpus_min < spec->gpus && gpus < spec->gpus_min)
        return false;
    return splice_replicas(spec) % factor == 0;
}

int32_t splice_fit(const struct jobspec *spec, int32_t gpus)
{
    int32_t least = spec->gpus;

    if (gpus >= spec->gpus)
        return spec->gpus;
    if (rigid(spec))
        return 0;
    /* Sizes are world / k: the smallest k that is small enough. */
    for (int32_t k = gpus > 0 ? (spec->gpus + gpus - 1) / gpus : spec->gpus + 1; k <= spec->gpus; k++)
        if (spec->gpus % k == 0 && splice_legal(spec, spec->gpus / k)) {
            least = spec->gpus / k;
            break;
        }
    return least < spec->gpus ? least : 0;
}

int32_t splice_least(const struct jobspec *spec)
{
    if (rigid(spec))
        return spec->gpus;
    for (int32_t n = 1; n < spec->gpus; n++)
        if (splice_legal(spec, n))
            return n;
    return spec->gpus;
}

ppm_t splice_rate(const struct jobspec *spec, int32_t gpus, ppm_t loss)
{
    if (gpus >= spec->gpus)
        return PPM_ONE;
    return muldiv_floor((int64_t)gpus * (PPM_ONE - loss), 1, spec->gpus);
}
