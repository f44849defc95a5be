/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gittins.h - the Gittins index of a job from a sample of what jobs need in all.
 *
 * With S the total service of a job, a what it has had and delta the service it is to be given before anybody asks
 * again, the index is P(S - a <= delta | S > a) / E[min(S - a, delta) | S > a]: ends for service spent. Over a sorted
 * sample both are sums of integers over the same count, so the index is an exact fraction.
 */
#include <stddef.h>
#include <stdint.h>

/* ends / spent. ends 0: index 0 (nobody ends within delta, or nobody ever needed as much as a). */
struct gittins {
    int64_t ends;
    __int128 spent;
};

/* `sorted` ascending; sums[i] is the sum of the first i samples (count + 1 of them). O(log count). */
struct gittins gittins_index(const int64_t *sorted, const __int128 *sums, size_t count, int64_t attained,
                             int64_t delta);

/* Service spent for each end, the inverse of the index, rounded down; `none` when the index is 0 or it is larger. */
int64_t gittins_cost(struct gittins index, int64_t none);

/* Sorts the samples and sums them up: sums has room for count + 1. */
void gittins_prepare(int64_t *samples, __int128 *sums, size_t count);

/* How many samples are at most `value`. */
size_t gittins_up_to(const int64_t *sorted, size_t count, int64_t value);
