/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* clock.h - the time of a daemon: that of the machine, but neither going back, nor standing still, nor leaping.
 *
 * Leases, limits and the ages of what was heard are differences of it. When somebody sets the machine's clock, this one
 * goes on from where it is, at most a tenth too fast or too slow, until the two agree again.
 */
#include <stdbool.h>

#include "base/units.h"

struct clock {
    usec_t now, wall, steady; /* what was told last; the machine's clock and what really passed, then */
    bool on;
};

/* The time, where the machine's clock says `wall` and `steady` counts what passes. *ret_set: by how much the machine's
 * clock was set since the last call; 0 for what is usual. */
usec_t clock_step(struct clock *clock, usec_t wall, usec_t steady, usec_t *ret_set);

/* Microseconds since 1970, as above, for the whole process. */
usec_t clock_now(void);
/* Says so at the beginning: not before this. */
void clock_least(usec_t least);
