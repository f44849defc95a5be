/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* units.h - the scalar units every layer counts in.
 *
 * Time is int64 microseconds and nothing else; GPU quantities are thousandths of one GPU; service is
 * GPU-microseconds; ratios are parts per million. A product of two units goes through a helper here, which
 * widens and saturates, so that no caller meets a silent overflow.
 */
#include <stdint.h>

typedef int64_t usec_t; /* microseconds, an instant or a span */
typedef int32_t mgpu_t; /* thousandths of one GPU */
typedef int64_t svc_t;  /* service: GPU-microseconds */
typedef int64_t ppm_t;  /* a ratio in parts per million */

#define USEC_MSEC ((usec_t)1000)
#define USEC_SEC ((usec_t)1000000)
#define USEC_MIN (60 * USEC_SEC)
#define USEC_HOUR (60 * USEC_MIN)
#define USEC_DAY (24 * USEC_HOUR)
#define USEC_NEVER INT64_MAX
#define MGPU_ONE ((mgpu_t)1000)
#define PPM_ONE ((ppm_t)1000000)

/* a * b / c, rounded down, saturating at INT64_MAX. Arguments are not negative; c is positive. */
static inline int64_t muldiv_floor(int64_t a, int64_t b, int64_t c)
{
    unsigned __int128 p = (unsigned __int128)(uint64_t)a * (uint64_t)b / (uint64_t)c;

    return p > INT64_MAX ? INT64_MAX : (int64_t)p;
}

/* The same, rounded up: what an event computed by division uses, so that it never comes early. */
static inline int64_t muldiv_ceil(int64_t a, int64_t b, int64_t c)
{
    unsigned __int128 p = ((unsigned __int128)(uint64_t)a * (uint64_t)b + (uint64_t)c - 1) / (uint64_t)c;

    return p > INT64_MAX ? INT64_MAX : (int64_t)p;
}

/* Service that `gpus` thousandths of a GPU give in `span`. */
static inline svc_t svc_of(int64_t gpus, usec_t span)
{
    return muldiv_floor(gpus, span, MGPU_ONE);
}
