/* SPDX-License-Identifier: Apache-2.0 */
/* trial.c - see trial.h.
 *
 * Moves are numbered: (large or small) x (from) x (to). They are tried in turn, and the search is over when all of them
 * in a row have not helped.
 */
#include "coord/trial.h"

#include <string.h>

bool trial_init(struct trial *trial, uint32_t capacity, const uint32_t *least, uint32_t count)
{
    uint32_t rest = capacity;

    if (count == 0 || count > TRIAL_JOBS)
        return false;
    *trial = (struct trial){ .count = count, .capacity = capacity };
    for (uint32_t i = 0; i < count; i++) {
        if (least[i] > rest)
            return false;
        rest -= least[i];
        trial->least[i] = trial->now[i] = least[i];
    }
    for (; rest > 0; rest--) { /* to whoever has fewest, so that the split is even where it can be */
        uint32_t to = 0;

        for (uint32_t i = 1; i < count; i++)
            to = trial->now[i] < trial->now[to] ? i : to;
        trial->now[to]++;
    }
    memcpy(trial->best, trial->now, sizeof(trial->best));
    return true;
}

/* Makes `now` the best changed by this move; false if it changes nothing. */
static bool propose(struct trial *trial, uint32_t move)
{
    uint32_t pairs = trial->count * trial->count, from = move % pairs / trial->count, to = move % trial->count;
    uint32_t spare = trial->best[from] - trial->least[from], units = move < pairs ? 1 : spare;

    memcpy(trial->now, trial->best, sizeof(trial->now));
    if (from == to || units > spare || units == 0 || (move >= pairs && units == 1))
        return false;
    trial->now[from] -= units;
    trial->now[to] += units;
    return true;
}

bool trial_result(struct trial *trial, uint64_t score)
{
    uint32_t moves = 2 * trial->count * trial->count;

    if (!trial->begun || score > trial->score) {
        /* What helped is tried once more: the same move again. */
        trial->failed = 0;
        trial->score = score;
        memcpy(trial->best, trial->now, sizeof(trial->best));
        trial->move = trial->begun ? trial->move : 0;
        trial->begun = true;
    } else if (!trial->settled) {
        trial->failed++;
        trial->move = (trial->move + 1) % moves;
    }
    while (!trial->settled && !propose(trial, trial->move)) {
        trial->move = (trial->move + 1) % moves;
        trial->failed++;
        trial->settled = trial->failed > moves;
    }
    trial->settled |= trial->failed > moves;
    if (trial->settled)
        memcpy(trial->now, trial->best, sizeof(trial->now));
    return !trial->settled;
}

void trial_again(struct trial *trial)
{
    trial->settled = trial->begun = false;
    trial->failed = 0;
    memcpy(trial->now, trial->best, sizeof(trial->now));
}
