/* SPDX-License-Identifier: Apache-2.0 */
/* barrier.c - see barrier.h. */
#include "solve/barrier.h"

void barrier_init(struct barrier *b, int32_t world)
{
    *b = (struct barrier){ .world = world };
}

void barrier_tell(struct barrier *b)
{
    b->told = true;
}

struct barrier_pair barrier_give(const struct barrier *b)
{
    return (struct barrier_pair){ b->told, b->second };
}

bool barrier_see(struct barrier *b, struct barrier_pair sum)
{
    if (sum.need > 0)
        b->second = true;
    if (sum.ack == b->world)
        b->stopped = true;
    return b->stopped;
}
