/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* world_math.h - logarithm, power and the draws built on them, in integers.
 *
 * A workload or a stream of faults must be the same bytes on every machine, and the last bit of libm's log() is not.
 * Logarithms here are Q32 (32 bits after the point) and exact to about 2^-31.
 */
#include <stdint.h>

#include "base/rng.h"
#include "base/units.h"

#define Q32_ONE ((int64_t)1 << 32)

/* log2(x) in Q32; x > 0. */
int64_t math_log2(uint64_t x);

/* scale * 2^(power in Q32), rounded down, saturating at INT64_MAX; scale >= 0. */
int64_t math_exp2(int64_t scale, int64_t power);

/* A draw from the exponential distribution with this mean (>= 0), at least 1. */
int64_t math_exponential(struct rng *rng, int64_t mean);

/* A generator for one purpose and one object of a seeded run, unrelated to its neighbours. */
struct rng math_stream(uint64_t seed, uint64_t purpose, uint64_t index);
