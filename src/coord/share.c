/* SPDX-License-Identifier: Apache-2.0 */
/* share.c - the controller of the guaranteed job's slowdown (AntMan's dynamic scaling, with a slow start).
 *
 *   slowdown > 3 eps: u / 4       > eps: u * 3 / 4       > eps / 2: hold       else: double, later + 40
 *
 * Below 25 after a cut the neighbour is paused, 30 s first and twice as long each time up to 600 s.
 */
#include "coord/share.h"

void share_init(struct share *share, uint32_t eps)
{
    *share = (struct share){ .u = SHARE_START, .eps = eps, .pause_ms = SHARE_PAUSE_MS, .slow_start = true };
}

bool share_paused(struct share *share, uint64_t now_ms)
{
    if (!share->paused_until_ms)
        return false;
    if (now_ms < share->paused_until_ms)
        return true;
    share->paused_until_ms = 0;
    share->u = SHARE_START;
    return false;
}

uint32_t share_period(struct share *share, uint32_t slowdown, uint64_t now_ms)
{
    bool cut = slowdown > share->eps;

    if (share_paused(share, now_ms))
        return 0;
    if (slowdown > 3 * share->eps)
        share->u /= 4;
    else if (cut)
        share->u = share->u * 3 / 4;
    else if (slowdown <= share->eps / 2)
        share->u = share->slow_start ? 2 * share->u : share->u + 40;
    if (slowdown > share->eps / 2)
        share->slow_start = false;
    if (share->u > SHARE_MAX)
        share->u = SHARE_MAX;
    if (cut && share->u < SHARE_START) {
        share->paused_until_ms = now_ms + share->pause_ms;
        share->pause_ms = share->pause_ms * 2 < SHARE_PAUSE_MAX_MS ? share->pause_ms * 2 : SHARE_PAUSE_MAX_MS;
        return 0;
    }
    return share->u;
}
