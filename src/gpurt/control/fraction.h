/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* fraction.h - time slices of jobs that share a GPU by fractions: the longer, the larger the share.
 *
 * Jobs without a guaranteed one among them take turns on the GPU, each for its slice: 2000 us x share x how many they
 * are, so that the mean is the driver's own and the ratio that of the shares. What a job really gets is a little less
 * than its slice says, most of all with short ones; every five seconds its slice is moved half of the way to where what
 * it was busy, as NVML tells it, would be its share. Pure.
 */
#include <stdint.h>

#define FRACTION_MEAN_US 2000u
#define FRACTION_LEAST_US 100u
#define FRACTION_MOST_US 10000u
#define FRACTION_CORRECT_NS 5000000000ULL
#define FRACTION_GAIN 1000u /* no correction */

/* The slice of a share in permille among so many; `gain` in permille corrects it. */
uint32_t fraction_slice(uint32_t share, uint32_t sharers, uint32_t gain);
/* The gain that follows when a job with this share of all was busy for that part of all; 0 of 0: as before. Between a
 * quarter and four times. */
uint32_t fraction_gain(uint32_t gain, uint32_t share, uint32_t shares, uint32_t busy, uint32_t busy_all);
