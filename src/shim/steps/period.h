/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* period.h - a training step seen as a repeating sequence of launches. Pure. */
#include <stddef.h>
#include <stdint.h>

#define PERIOD_RING 65536u
#define PERIOD_MIN 8u
#define PERIOD_MAX 16384u
#define PERIOD_CHECK 8192u /* so many of the newest ids must agree, where there are so many */

/* The smallest shift P with at least 95 % equal ids over the last 3 P of ids[0..count), and over the last PERIOD_CHECK;
 * 0 when there is none. */
uint32_t period_find(const uint16_t *ids, size_t count);

/* The phase (0..period-1, counted back from the newest id) with the least memory in use over the last 3 periods. */
uint32_t period_anchor(const uint32_t *mib, size_t count, uint32_t period);
