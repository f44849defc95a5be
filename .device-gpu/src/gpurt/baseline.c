/* SPDX-License-Identifier: Apache-2.0 */
/* baseline.c - buckets of undisturbed steps and their medians. */
#include "gpurt/baseline.h"

#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
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

bool baseline_add(struct baseline *baseline, uint32_t launches, uint32_t wall_us)
{
    int i = bucket_find(baseline, launches);

    if (i < 0) {
        if (baseline->buckets == BASELINE_BUCKETS)
            return false;
        i = (int)baseline->buckets++;
        baseline->bucket[i].launches = launches;
    }
    baseline->bucket[i].wall_us[baseline->bucket[i].count++ % BASELINE_SAMPLES] = wall_us;
    return baseline->bucket[i].count >= BASELINE_SAMPLES;
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
    qsort(sorted, n, sizeof(sorted[0]), by_value);
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
            over[n++] = ((int64_t)wall_us[i] - base) * 1000 / base;
    }
    if (n == 0)
        return -1;
    qsort(over, n, sizeof(over[0]), by_value);
    return over[n / 2] > 0 ? (int32_t)over[n / 2] : 0;
}
