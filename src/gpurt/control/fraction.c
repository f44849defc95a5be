/* SPDX-License-Identifier: Apache-2.0 */
/* fraction.c - see fraction.h. */
#include "gpurt/control/fraction.h"

static uint32_t clamp(uint64_t value, uint32_t low, uint32_t high)
{
    return value < low ? low : value > high ? high : (uint32_t)value;
}

uint32_t fraction_slice(uint32_t share, uint32_t sharers, uint32_t gain)
{
    return clamp((uint64_t)FRACTION_MEAN_US * share / 1000 * sharers * gain / FRACTION_GAIN, FRACTION_LEAST_US,
                 FRACTION_MOST_US);
}

uint32_t fraction_gain(uint32_t gain, uint32_t share, uint32_t shares, uint32_t busy, uint32_t busy_all)
{
    uint64_t right;

    if (!busy || !busy_all || !shares)
        return gain;
    right = (uint64_t)gain * share * busy_all / ((uint64_t)shares * busy);
    return clamp((gain + right) / 2, FRACTION_GAIN / 4, FRACTION_GAIN * 4);
}
