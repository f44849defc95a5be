/* SPDX-License-Identifier: Apache-2.0 */
/* demand.c - see demand.h. */
#include "solve/demand.h"

#include <math.h>

enum { GIB = 1024, UNIT_KIB = 100000 };

struct demand demand_unknown(void)
{
    return (struct demand){ .cpus = 4, .ram_mib = 4096, .memory_mib = 8192, .utilisation = 100, .bandwidth = 1 };
}

/* Up to a multiple of `step`; `none` for what is no demand at all. */
static double up_to(double value, double step, double none)
{
    if (!(value >= 0) || value > 1e9)
        return none;
    return ceil(value / step) * step;
}

struct demand demand_round(const struct demand_raw *raw)
{
    struct demand d = demand_unknown();

    d.cpus = (int32_t)up_to(raw->cpu_percent / 100, 1, d.cpus);
    d.ram_mib = (uint32_t)up_to(raw->ram_mib, GIB, d.ram_mib);
    d.memory_mib = (uint32_t)up_to(raw->memory_mib, GIB, d.memory_mib);
    if (raw->utilisation >= 0 && raw->utilisation <= 100)
        d.utilisation = (int32_t)ceil(raw->utilisation) / 10 * 10;
    d.bandwidth = (int32_t)up_to(raw->network_kib / UNIT_KIB, 1, d.bandwidth);
    return d;
}

uint32_t demand_memory(uint32_t predicted_mib, uint32_t requested_mib, bool ran_out)
{
    return ran_out && requested_mib ? requested_mib : predicted_mib + (predicted_mib + 9) / 10;
}

int32_t demand_gpus_pay(const int32_t *counts, const double *seconds, uint32_t n)
{
    uint32_t i = 0;

    if (n < 2)
        return 0;
    while (i + 1 < n && seconds[i + 1] > 0 &&
           seconds[i] / seconds[i + 1] >= 1 + 0.5 * ((double)counts[i + 1] / counts[i] - 1))
        i++;
    return counts[i];
}

struct demand_stages demand_stages(usec_t launch, usec_t save, usec_t total)
{
    if (launch + save >= total) {
        launch /= 2;
        save /= 2;
    }
    return (struct demand_stages){ launch, save, total };
}

bool demand_may_share(const struct demand_gpu *gpu, const struct demand *job, ppm_t u_max)
{
    int64_t sum = (int64_t)gpu->utilisation + job->utilisation;

    return gpu->memory_mib > (uint64_t)gpu->allocated_mib + job->memory_mib && sum * PPM_ONE < 100 * u_max;
}

mgpu_t demand_share(int32_t utilisation, ppm_t u_max)
{
    int64_t share = muldiv_floor(utilisation, (int64_t)MGPU_ONE * PPM_ONE, 100 * u_max) + 1;

    return share < MGPU_ONE ? (mgpu_t)share : MGPU_ONE;
}

usec_t demand_start_after(const struct demand_stages *before, usec_t launch, usec_t extra)
{
    usec_t after = before->total - before->save - launch - extra;

    return after > 0 ? after : 0;
}
