/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* rng_real.h - a double from the generator of rng.h. Apart from it because the core compiles without floating point. */
#include "base/rng.h"

/* A double in [0, 1) with 53 bits. */
static inline double rng_unit(struct rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1.0p-53;
}
