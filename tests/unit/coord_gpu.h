/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* coord_gpu.h - a modelled GPU for the coordinator's loop: a guaranteed job whose steps grow with its neighbours'
 * share. */
#include "base/rng.h"
#include "coord/pair.h"

struct gpu {
    struct pair pair;
    struct rng rng;
    usec_t now, until; /* end of the step under way */
    uint32_t step_us, launches;
    uint32_t k;     /* permille by which the step grows at a share of 1000 */
    uint32_t noise; /* permille, both ways */
    uint32_t u;
    /* since the last gpu_clear() */
    usec_t alone, took; /* of its steps */
    uint32_t steps, turns, high, low, reversals;
    int trend;
};

static inline void gpu_init(struct gpu *gpu, enum pair_law law, uint32_t eps, uint32_t k)
{
    *gpu = (struct gpu){ .step_us = 20000, .launches = 400, .k = k };
    rng_seed(&gpu->rng, 1 + k);
    pair_begin(&gpu->pair, law, eps, 0);
}

static inline void gpu_clear(struct gpu *gpu)
{
    gpu->alone = gpu->took = 0;
    gpu->steps = gpu->turns = gpu->high = gpu->reversals = 0;
    gpu->low = UINT32_MAX;
    gpu->trend = 0;
}

static inline void gpu_run(struct gpu *gpu, usec_t span)
{
    usec_t end = gpu->now + span;

    for (; gpu->now < end; gpu->now += 5 * USEC_MSEC) {
        uint32_t was = gpu->u;

        while (gpu->until <= gpu->now) {
            int64_t noise = gpu->noise ? (int64_t)rng_below(&gpu->rng, 2 * gpu->noise + 1) - gpu->noise : 0;
            int64_t slow = 1000 + (int64_t)gpu->k * gpu->u / 1000;
            uint32_t wall = (uint32_t)(gpu->step_us * slow * (1000 + noise) / 1000000);

            if (gpu->until)
                pair_step(&gpu->pair, gpu->launches, wall);
            gpu->until += wall;
            gpu->alone += gpu->step_us;
            gpu->took += (usec_t)(gpu->step_us * slow / 1000);
            gpu->steps++;
        }
        gpu->u = pair_turn(&gpu->pair, gpu->now);
        gpu->turns++;
        gpu->high = gpu->u > gpu->high ? gpu->u : gpu->high;
        gpu->low = gpu->u && gpu->u < gpu->low ? gpu->u : gpu->low;
        if (gpu->u != was && gpu->u && was) {
            int trend = gpu->u > was ? 1 : -1;

            gpu->reversals += gpu->trend && trend != gpu->trend;
            gpu->trend = trend;
        }
    }
}

static inline int64_t gpu_slower(const struct gpu *gpu) /* permille, mean */
{
    return (gpu->took - gpu->alone) * 1000 / gpu->alone;
}
