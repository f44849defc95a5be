/* SPDX-License-Identifier: Apache-2.0 */
/* edge.c - see edge.h. A microsecond more of the neighbour costs the guaranteed job at most one, so three quarters of
 * what is missing at once is stable whatever the step's length. */
#include "gpurt/control/edge.h"

#define STEP_MOST_US 1000000u

uint32_t edge_aim(uint32_t eps)
{
    return eps * 3 / 4;
}

void edge_init(struct edge *edge, uint32_t aim)
{
    *edge = (struct edge){ .aim = aim };
}

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

static int64_t by_gaps(const struct edge_look *look)
{
    return (int64_t)look->late * EDGE_LATE_US - EDGE_NEARER_US;
}

static int64_t by_steps(const struct edge *edge, const struct edge_look *look)
{
    int64_t step = look->step_us < STEP_MOST_US ? look->step_us : STEP_MOST_US;

    return ((int64_t)look->slowdown - edge->aim) * step * 3 / 4000;
}

int32_t edge_period(struct edge *edge, const struct edge_look *look)
{
    bool told = look->gaps >= EDGE_GAPS_MIN;
    int64_t move;

    if (!edge->aim || look->slowdown < 0)
        return edge->us;
    if (look->slowdown > (int32_t)look->eps) {
        edge->us = edge->us < 0 ? edge->us / 2 : edge->us;
        return edge->us;
    }
    if (look->share < EDGE_SHARE_MIN || (!told && (look->gaps || !look->held)))
        return edge->us;
    move = clamp(told ? by_gaps(look) : by_steps(edge, look), -EDGE_STEP_US, EDGE_STEP_US);
    edge->us = (int32_t)clamp(edge->us + move, -EDGE_MOST_US, told ? EDGE_BACK_US : 0);
    return edge->us;
}
