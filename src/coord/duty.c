/* SPDX-License-Identifier: Apache-2.0 */
/* duty.c - see duty.h.
 *
 *   run = d - s, total = 100 run / x, extra = total - d - 50 us
 *
 * With the carry: idle time owed so far is the sum of run * (100 - x) / x less what was idled. The 50 us that a delay
 * costs by itself are taken off what is asked for, and since the caller counts them in the next `s`, never off what is
 * owed. Bounded by a minute, so that a job that stood still for another reason does not pay for it for ever.
 */
#include "coord/duty.h"

#include <assert.h>

#define OWED_MAX USEC_MIN

usec_t duty_extra(usec_t d, usec_t s, uint32_t x)
{
    usec_t extra;

    assert(x >= 1);
    assert(x <= 100);
    extra = 100 * (d - s) / x - d - DUTY_COST_US;
    return x < 100 && extra > 0 ? extra : 0;
}

usec_t duty_after(struct duty *duty, usec_t d, usec_t s, uint32_t x)
{
    usec_t extra, ran;

    assert(x >= 1);
    assert(x <= 100);
    if (x == 100) {
        duty->owed = 0;
        return 0;
    }
    ran = (d - s) * (100 - x) + duty->rest;
    duty->owed += ran / x - s;
    duty->rest = ran % x;
    if (duty->owed > OWED_MAX)
        duty->owed = OWED_MAX;
    if (duty->owed < -OWED_MAX)
        duty->owed = -OWED_MAX;
    extra = duty->owed - DUTY_COST_US;
    return extra > 0 ? extra : 0;
}
