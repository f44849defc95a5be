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

/* By the median: towards the aim. */
static int64_t median_move(const struct edge *edge, const struct edge_look *look)
{
    int64_t step = look->step_us < STEP_MOST_US ? look->step_us : STEP_MOST_US;
    int64_t move = ((int64_t)look->slowdown - edge->aim) * step * 3 / 4000;

    return move > EDGE_STEP_US ? EDGE_STEP_US : move < -EDGE_STEP_US ? -EDGE_STEP_US : move;
}

/* By the tail: towards one late step in a hundred. */
static int64_t tail_move(const struct edge_look *look)
{
    int64_t late = look->late, others = (int64_t)look->steps - late;

    return late * EDGE_LATE_US - others * EDGE_LATE_US / 99;
}

int32_t edge_period(struct edge *edge, const struct edge_look *look)
{
    int64_t move, tail;

    if (!edge->aim || look->slowdown < 0)
        return edge->us;
    if (look->slowdown > (int32_t)look->eps) {
        edge->us /= 2;
        return edge->us;
    }
    if (look->share < EDGE_SHARE_MIN)
        return edge->us;
    move = median_move(edge, look);
    tail = look->steps ? tail_move(look) : move;
    move += edge->us + (tail > move ? tail - move : 0);
    edge->us = move > 0 ? 0 : move < -EDGE_MOST_US ? -EDGE_MOST_US : (int32_t)move;
    return edge->us;
}
