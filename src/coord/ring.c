/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c - see ring.h. */
#include "coord/ring.h"

#include <assert.h>
#include <string.h>

static uint32_t slot(int64_t second)
{
    return (uint32_t)(second % RING_SECONDS);
}

static void put(struct ring *ring, int64_t second, uint8_t percent, uint32_t mib)
{
    ring->percent[slot(second)] = percent;
    ring->mib[slot(second)] = mib;
    ring->count += ring->count < RING_SECONDS;
}

void ring_init(struct ring *ring)
{
    memset(ring, 0, sizeof(*ring));
}

void ring_add(struct ring *ring, usec_t now, uint32_t percent, uint32_t mib)
{
    int64_t second = now / USEC_SEC, from;
    uint8_t rounded = (uint8_t)(percent > 100 ? 100 : percent), last = ring->percent[slot(ring->second)];
    uint32_t held = ring->mib[slot(ring->second)];

    if (ring->count && second < ring->second)
        return; /* a clock that went back */
    if (ring->count && second == ring->second) {
        ring->percent[slot(second)] = rounded;
        ring->mib[slot(second)] = mib > held ? mib : held;
        return;
    }
    from = ring->second + 1 > second - RING_SECONDS ? ring->second + 1 : second - RING_SECONDS;
    for (int64_t s = from; ring->count && s < second; s++)
        put(ring, s, last, held);
    put(ring, second, rounded, mib);
    ring->second = second;
}

/* Seconds of the window that something is known of, up to now; and the sample that counts for the one so far back. */
static uint32_t known(const struct ring *ring, usec_t now, uint32_t seconds)
{
    int64_t since = now / USEC_SEC - ring->second, all = (int64_t)ring->count + (since > 0 ? since : 0);

    assert(seconds >= 1);
    assert(seconds <= RING_SECONDS);
    return ring->count == 0 ? 0 : (all < (int64_t)seconds ? (uint32_t)all : seconds);
}

static uint32_t back(const struct ring *ring, usec_t now, uint32_t seconds)
{
    int64_t second = now / USEC_SEC - seconds;

    return slot(second < ring->second ? second : ring->second);
}

int32_t ring_mean(const struct ring *ring, usec_t now, uint32_t seconds)
{
    uint32_t count = known(ring, now, seconds);
    int32_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += ring->percent[back(ring, now, i)];
    return count ? sum * 100 / (int32_t)count : -1;
}

uint32_t ring_peak(const struct ring *ring, usec_t now, uint32_t seconds)
{
    uint32_t count = known(ring, now, seconds), peak = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t mib = ring->mib[back(ring, now, i)];

        peak = mib > peak ? mib : peak;
    }
    return peak;
}
