/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* baseline.h - how long a step takes when nobody disturbs it, by its number of launches.
 *
 * Steps are put into buckets 2 % wide by their launches, so that batches of other lengths and evaluation phases do not
 * look like interference. Pure.
 */
#include <stddef.h>
#include <stdint.h>

#define BASELINE_BUCKETS 16
#define BASELINE_SAMPLES 20
#define BASELINE_PERIOD_STEPS 64

struct baseline {
    struct {
        uint32_t launches; /* of the first step in it */
        uint32_t count;
        uint32_t wall_us[BASELINE_SAMPLES];
    } bucket[BASELINE_BUCKETS];
    uint32_t buckets;
};

void baseline_reset(struct baseline *baseline);
/* A step measured without neighbours. Returns how many its bucket has now; 0 when there is no room for its kind. */
uint32_t baseline_add(struct baseline *baseline, uint32_t launches, uint32_t wall_us);
/* Median of the bucket; 0 when no bucket fits. */
uint32_t baseline_of(const struct baseline *baseline, uint32_t launches);

/* Median over the steps of how far each lies above its baseline, in permille, rounded up, never below 0. -1: none has a
 * baseline.
 */
int32_t baseline_slowdown(const struct baseline *baseline, const uint32_t *launches, const uint32_t *wall_us,
                          size_t count);
