/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* duty.h - how long an opportunistic job idles after a mini-batch to be active x percent of the time.
 *
 * The published formula starts from nothing after every mini-batch: what the fixed cost took off and what was idled too
 * much is forgotten, and the duty wanders. Here both are carried on, so that over many mini-batches it is exactly x.
 */
#include "base/units.h"

#define DUTY_COST_US 50

struct duty {
    usec_t owed;  /* idle time still to be spent; below 0, spent too much */
    int64_t rest; /* of the last division */
};

/* A mini-batch took `d` of which it idled `s` between its launches: what the formula alone asks for. x in 1..100. */
usec_t duty_extra(usec_t d, usec_t s, uint32_t x);

/* The same with what earlier mini-batches left over. 0 <= s <= d, x in 1..100; x may change from call to call. */
usec_t duty_after(struct duty *duty, usec_t d, usec_t s, uint32_t x);

/* Spread over the launches that are queued. */
static inline usec_t duty_each(usec_t extra, uint32_t launches)
{
    return launches ? extra / launches : extra;
}
