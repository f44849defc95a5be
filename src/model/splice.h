/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* splice.h - sizes at which a job runs without noticing: fewer GPUs than it has workers, each with several replicas.
 *
 * The world (the number of workers, `gpus` of the request) is fixed for life. A world of dp x tp x pp workers on n GPUs
 * has k = world / n workers in turn on each GPU, and those must be replicas of one shard of the model: so k divides dp,
 * and n is a multiple of tp * pp (Singularity, 2022). Where shards are spread over replicas as well (ZeRO) k is limited
 * further: `splice_max`.
 */
#include <stdbool.h>
#include <stdint.h>

#include "model/jobspec.h"

/* Replicas of one shard: the world over tp * pp; at least 1. */
int32_t splice_replicas(const struct jobspec *spec);

/* Whether the job can run on so many GPUs with its world as it is. The world itself always is such a size. */
bool splice_legal(const struct jobspec *spec, int32_t gpus);

/* The largest such size that is at most `gpus`, 0 if none is; the smallest of all. */
int32_t splice_fit(const struct jobspec *spec, int32_t gpus);
int32_t splice_least(const struct jobspec *spec);

/* "premium", "standard", "basic". */
const char *tier_name(enum job_tier tier);

/* Speed on so many GPUs over that on all: gpus / world, less `loss` (parts per million) below the world. */
ppm_t splice_rate(const struct jobspec *spec, int32_t gpus, ppm_t loss);
