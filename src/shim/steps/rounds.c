/* SPDX-License-Identifier: Apache-2.0 */
/* rounds.c - see rounds.h. */
#include "shim/steps/rounds.h"

/* The k-th before the newest. */
static uint16_t back(const struct rounds *rounds, uint64_t k)
{
    return rounds->ids[(rounds->count - 1 - k) % ROUNDS_RING];
}

static uint64_t known(const struct rounds *rounds)
{
    return rounds->count < ROUNDS_RING ? rounds->count : ROUNDS_RING;
}

/* For how many of the newest steps the one `shift` before was the same. */
static uint64_t alike(const struct rounds *rounds, uint32_t shift)
{
    uint64_t k = 0;

    while (k + shift < known(rounds) && back(rounds, k) == back(rounds, k + shift))
        k++;
    return k;
}

/* How many steps repeat; 0: none do now. */
static uint32_t period_now(const struct rounds *rounds)
{
    for (uint32_t shift = 1; shift <= ROUNDS_MOST; shift++) {
        uint64_t need = 3 * shift < ROUNDS_CHECK ? ROUNDS_CHECK : 3 * shift, n = known(rounds);

        need = need < n ? need : n;
        if ((shift == 1 || n >= 3 * shift) && alike(rounds, shift) + shift >= need)
            return shift;
    }
    return 0;
}

static bool ends_round(const struct rounds *rounds, uint64_t before)
{
    for (uint32_t i = 0; i < rounds->period; i++)
        if (back(rounds, before + rounds->period - 1 - i) != rounds->one[i])
            return false;
    return true;
}

/* A round begins where the repeating did: with the program's first step, mostly. */
static void round_set(struct rounds *rounds, uint32_t period)
{
    uint64_t first = alike(rounds, period) + period - 1;

    rounds->period = period;
    for (uint32_t i = 0; i < period; i++)
        rounds->one[i] = back(rounds, first - i);
}

bool rounds_step(struct rounds *rounds, uint16_t which)
{
    bool end = false, seen = false;
    uint32_t period;

    rounds->ids[rounds->count++ % ROUNDS_RING] = which;
    rounds->since++;
    period = period_now(rounds);
    for (uint32_t k = 0; period && period == rounds->period && k < period; k++)
        seen |= ends_round(rounds, k);
    if (period && !seen)
        round_set(rounds, period);
    if (period)
        end = ends_round(rounds, 0);
    else
        end = rounds->since >= rounds->period; /* out of step for a while: so many are one still */
    rounds->since = end ? 0 : rounds->since;
    return end;
}
