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

int32_t edge_period(struct edge *edge, int32_t slowdown, uint32_t eps, uint32_t share, uint32_t step_us)
{
    int64_t move, step = step_us < STEP_MOST_US ? step_us : STEP_MOST_US;

    if (!edge->aim || slowdown < 0)
        return edge->us;
    if (slowdown > (int32_t)eps) {
        edge->us /= 2;
        return edge->us;
    }
    if (share < EDGE_SHARE_MIN)
        return edge->us;
    move = ((int64_t)slowdown - edge->aim) * step * 3 / 4000;
    if (move > EDGE_STEP_US)
        move = EDGE_STEP_US;
    if (move < -EDGE_STEP_US)
        move = -EDGE_STEP_US;
    edge->us += (int32_t)move;
    if (edge->us > 0)
        edge->us = 0;
    if (edge->us < -EDGE_MOST_US)
        edge->us = -EDGE_MOST_US;
    return edge->us;
}
