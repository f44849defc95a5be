/* SPDX-License-Identifier: Apache-2.0 */
/* edge.c - see edge.h. A microsecond more of the neighbour costs the guaranteed job at most one, so three quarters of
 * what is missing at once is stable whatever the step's length. */
#include "gpurt/edge.h"

#define STEP_MOST_US 1000000u

uint32_t edge_aim(uint32_t eps)
{
    return eps * 3 / 4;
}

void edge_init(struct edge *edge, uint32_t aim)
{
    *edge = (struct edge){ .aim = aim };
}

int32_t edge_period(struct edge *edge, const struct edge_look *look)
{
    int64_t step = look->step_us < STEP_MOST_US ? look->step_us : STEP_MOST_US, move;

    if (!edge->aim || look->slowdown < 0)
        return edge->us;
    if (look->slowdown > (int32_t)look->eps) {
        edge->us /= 2;
        return edge->us;
    }
    if (look->share < EDGE_SHARE_MIN)
        return edge->us;
    move = ((int64_t)look->slowdown - edge->aim) * step * 3 / 4000;
    move = move > EDGE_STEP_US ? EDGE_STEP_US : move < -EDGE_STEP_US ? -EDGE_STEP_US : move;
    move += edge->us;
    edge->us = move > 0 ? 0 : move < -EDGE_MOST_US ? -EDGE_MOST_US : (int32_t)move;
    return edge->us;
}
