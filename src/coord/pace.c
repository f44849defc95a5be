/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c - see pace.h. */
#include "coord/pace.h"

#include <string.h>

static int64_t rate_of(usec_t span, int64_t steps)
{
    __int128 rate = (__int128)steps * USEC_SEC * 1000000 / span;

    return rate > PACE_RATE_MAX ? PACE_RATE_MAX : (int64_t)rate;
}

void pace_look(struct pace *pace, usec_t now, int64_t count)
{
    if (!pace->any || count < pace->count || now < pace->at) {
        pace->any = true;
        pace->at = now;
        pace->count = count;
        return;
    }
    /* A step that takes longer than that is a look of its own, however long it takes. */
    if (now - pace->at < PACE_EVERY || count == pace->count)
        return;
    if (pace->warm) {
        pace->rate[pace->next] = rate_of(now - pace->at, count - pace->count);
        pace->next = (pace->next + 1) % PACE_LOOKS;
        pace->looks += pace->looks < PACE_LOOKS;
    }
    pace->warm = true;
    pace->at = now;
    pace->count = count;
}

int64_t pace_rate(const struct pace *pace)
{
    int64_t sorted[PACE_LOOKS];

    if (pace->looks < PACE_LOOKS_MIN)
        return 0;
    for (uint32_t i = 0; i < pace->looks; i++) {
        uint32_t k = i;

        for (; k > 0 && sorted[k - 1] > pace->rate[i]; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = pace->rate[i];
    }
    return sorted[pace->looks / 2];
}

void pace_forget(struct pace *pace)
{
    pace->looks = pace->next = 0;
}
