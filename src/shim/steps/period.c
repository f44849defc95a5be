/* SPDX-License-Identifier: Apache-2.0 */
/* period.c - tier 3 of the step detection.
 *
 * Comparing every shift in full would cost P * P; a probe of 32 ids spread over the window throws out nearly every
 * wrong shift first. The window ends at the newest id: what ran long ago says nothing about the step of today.
 */
#include "shim/steps/period.h"

static int probe_ok(const uint16_t *ids, size_t count, uint32_t shift)
{
    size_t span = 2 * (size_t)shift;
    unsigned miss = 0;

    for (unsigned k = 0; k < 32; k++) {
        size_t i = count - 1 - span * k / 32;

        if (ids[i] != ids[i - shift] && ++miss > 6)
            return 0;
    }
    return 1;
}

uint32_t period_find(const uint16_t *ids, size_t count)
{
    for (uint32_t shift = PERIOD_MIN; shift <= PERIOD_MAX && 3 * (size_t)shift < count; shift++) {
        size_t pairs = 2 * (size_t)shift, equal = 0;

        if (pairs < PERIOD_CHECK) /* layers of a kind repeat inside a step: that is no step */
            pairs = count - shift < PERIOD_CHECK ? count - shift : PERIOD_CHECK;

        if (!probe_ok(ids, count, shift))
            continue;
        for (size_t k = 0; k < pairs; k++)
            equal += ids[count - 1 - k] == ids[count - 1 - k - shift];
        if (equal * 100 >= pairs * 95)
            return shift;
    }
    return 0;
}

uint32_t period_anchor(const uint32_t *mib, size_t count, uint32_t period)
{
    uint64_t best = UINT64_MAX;
    uint32_t phase = 0;

    if (period == 0 || 3 * (size_t)period > count)
        return 0;
    for (uint32_t p = 0; p < period; p++) {
        uint64_t sum = 0;

        for (unsigned k = 0; k < 3; k++)
            sum += mib[count - 1 - p - (size_t)k * period];
        if (sum < best) {
            best = sum;
            phase = p;
        }
    }
    return phase;
}
