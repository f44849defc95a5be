/* SPDX-License-Identifier: Apache-2.0 */
/* feedback.c - see feedback.h. */
#include "coord/feedback.h"

void feedback_init(struct feedback *feedback, uint32_t eps)
{
    *feedback = (struct feedback){ .x = FEEDBACK_START, .eps = eps };
}

bool feedback_paused(struct feedback *feedback, usec_t now)
{
    if (!feedback->paused_until)
        return false;
    if (now < feedback->paused_until)
        return true;
    feedback->paused_until = 0;
    feedback->violations = 0;
    feedback->x = FEEDBACK_MIN;
    return false;
}

uint32_t feedback_period(struct feedback *feedback, uint32_t slowdown, usec_t now)
{
    if (feedback_paused(feedback, now))
        return 0;
    if (slowdown <= feedback->eps) {
        feedback->violations = 0;
        feedback->x += FEEDBACK_STEP;
        if (feedback->x > FEEDBACK_MAX)
            feedback->x = FEEDBACK_MAX;
        return feedback->x;
    }
    feedback->violations = feedback->x == FEEDBACK_MIN ? feedback->violations + 1 : 0;
    feedback->x = feedback->x / 2 > FEEDBACK_MIN ? feedback->x / 2 : FEEDBACK_MIN;
    if (feedback->violations < 2)
        return feedback->x;
    feedback->paused_until = now + FEEDBACK_PAUSE;
    return 0;
}
