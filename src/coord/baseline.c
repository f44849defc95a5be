/* SPDX-License-Identifier: Apache-2.0 */
/* baseline.c - buckets of undisturbed steps and their medians. */
#include "coord/baseline.h"

#include <string.h>

/* A few dozen values at most, and no qsort: that one may allocate. */
static void sort(int64_t *values, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        int64_t value = values[i];
        size_t at = i;

        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
}

void baseline_reset(struct baseline *baseline)
{
    memset(baseline, 0, sizeof(*baseline));
}

static int bucket_find(const struct baseline *baseline, uint32_t launches)
{
    for (uint32_t i = 0; i < baseline->buckets; i++) {
        uint64_t center = baseline->bucket[i].launches;
        uint64_t away = launches > center ? launches - center : center - launches;

        if (away * 100 <= center)
            return (int)i;
    }
    return -1;
}

uint32_t baseline_add(struct baseline *baseline, uint32_t launches, uint32_t wall_us)
{
    int i = bucket_find(baseline, launches);

    if (i < 0) {
        if (baseline->buckets == BASELINE_BUCKETS)
            return 0;
        i = (int)baseline->buckets++;
        baseline->bucket[i].launches = launches;
    }
    baseline->bucket[i].wall_us[baseline->bucket[i].count++ % BASELINE_SAMPLES] = wall_us;
    return baseline->bucket[i].count;
}

uint32_t baseline_of(const struct baseline *baseline, uint32_t launches)
{
    int i = bucket_find(baseline, launches);
    int64_t sorted[BASELINE_SAMPLES];
    uint32_t n;

    if (i < 0)
        return 0;
    n = baseline->bucket[i].count < BASELINE_SAMPLES ? baseline->bucket[i].count : BASELINE_SAMPLES;
    for (uint32_t k = 0; k < n; k++)
        sorted[k] = baseline->bucket[i].wall_us[k];
    sort(sorted, n);
    return (uint32_t)sorted[n / 2];
}

int32_t baseline_slowdown(const struct baseline *baseline, const uint32_t *launches, const uint32_t *wall_us,
                          size_t count)
{
    int64_t over[BASELINE_PERIOD_STEPS];
    size_t n = 0;

    for (size_t i = 0; i < count && n < BASELINE_PERIOD_STEPS; i++) {
        int64_t base = baseline_of(baseline, launches[i]);

        if (base > 0)
            over[n++] = (int64_t)wall_us[i] > base ? (((int64_t)wall_us[i] - base) * 1000 + base - 1) / base : 0;
    }
    if (n == 0)
        return -1;
    sort(over, n);
    return (int32_t)over[n / 2];
}
