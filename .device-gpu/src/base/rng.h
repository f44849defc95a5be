/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* rng.h - seeded generators, the same numbers on every machine.
 *
 * rng_next() is splitmix64 over a counter: cheap, well mixed, and any two seeds give unrelated streams. What draws
 * from a distribution with logarithms or roots (generators of workloads) lives with its user; everything here is
 * integers, so the core may use it.
 */
#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline void rng_seed(struct rng *rng, uint64_t seed)
{
    rng->state = seed;
}

static inline uint64_t rng_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

static inline uint64_t rng_next(struct rng *rng)
{
    rng->state += 0x9e3779b97f4a7c15ULL;
    return rng_mix(rng->state);
}

/* A number below `bound` (> 0), without bias worth speaking of: 64 x 64 bit product, upper half. */
static inline uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)rng_next(rng) * bound) >> 64);
}
