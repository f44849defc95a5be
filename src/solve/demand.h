/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* demand.h - from predictions to demands: rounding, cold start, stages, who may share a GPU, who may be started early
 * (Liquid, section numbers of its spec: 3 and 6). Integers in, integers out, but for what a forest says. */
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* What a task of a job needs. Bandwidth in units of about 0.1 GB/s. */
struct demand {
    int32_t cpus;
    uint32_t ram_mib, memory_mib;
    int32_t utilisation; /* percent, mean over the run */
    int32_t bandwidth;
};

/* As measured or predicted, before it is rounded. */
struct demand_raw {
    double cpu_percent, ram_mib, utilisation, memory_mib, network_kib; /* network: KiB a second */
};

/* A program that nobody has seen before. */
struct demand demand_unknown(void);

/* Cores up; memory up to whole GiB; utilisation down to tens after rounding up; bandwidth up to whole units. What is
 * not a number, or below 0, counts as unknown. */
struct demand demand_round(const struct demand_raw *raw);

/* Predicted memory with a tenth to spare; the user's own request after the job ran out of it. */
uint32_t demand_memory(uint32_t predicted_mib, uint32_t requested_mib, bool ran_out);

/* How many GPUs pay: the largest of ascending counts such that every step up to it gains at least half of what it could
 * (twice the GPUs, 1.5 times the speed). `seconds`: run time with each. 0 with fewer than two counts. */
int32_t demand_gpus_pay(const int32_t *counts, const double *seconds, uint32_t n);

/* Launch, train and save. When both ends together are not shorter than the whole, both are halved. */
struct demand_stages {
    usec_t launch, save, total;
};
struct demand_stages demand_stages(usec_t launch, usec_t save, usec_t total);

/* Whether a job may be given a GPU that others use: memory and utilisation (percent, times `u_max` in ppm). */
struct demand_gpu {
    uint32_t memory_mib, allocated_mib;
    int32_t utilisation; /* sum over its jobs */
};
bool demand_may_share(const struct demand_gpu *gpu, const struct demand *job, ppm_t u_max);

/* The same rule as a share of the GPU: shares that add up to at most one GPU are those that may share, for
 * utilisations in whole tens. 1..MGPU_ONE. */
mgpu_t demand_share(int32_t utilisation, ppm_t u_max);

/* How long `before` must have run until a successor may be launched behind it: beyond this, not at it. At least 0. */
usec_t demand_start_after(const struct demand_stages *before, usec_t launch, usec_t extra);
