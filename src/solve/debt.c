/* SPDX-License-Identifier: Apache-2.0 */
/* debt.c - see debt.h. */
#include "solve/debt.h"

#include <assert.h>

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t owed_by(const struct debt *d, uint32_t queue)
{
    int64_t sum = 0;

    for (uint32_t k = 0; k < d->queues; k++)
        sum += d->owes[queue][k];
    return sum;
}

static int64_t owed_to(const struct debt *d, uint32_t queue)
{
    int64_t sum = 0;

    for (uint32_t k = 0; k < d->queues; k++)
        sum += d->owes[k][queue];
    return sum;
}

static void pay(struct debt *d, uint32_t from, uint32_t to, int64_t amount)
{
    d->quota[to] += amount;
    d->owes[from][to] -= amount;
}

void debt_give(struct debt *d, uint32_t queue, int64_t amount)
{
    int64_t owed = owed_by(d, queue), pays = least(amount, owed), left = pays;

    for (uint32_t k = 0; k < d->queues && owed > 0; k++) {
        int64_t part = (int64_t)((__int128)pays * d->owes[queue][k] / owed);

        pay(d, queue, k, part);
        left -= part;
    }
    /* Whole thousandths: what the divisions left over goes to the oldest debts. */
    while (left > 0) {
        uint32_t oldest = DEBT_NONE;
        int64_t part;

        for (uint32_t k = 0; k < d->queues; k++)
            if (d->owes[queue][k] > 0 && (oldest == DEBT_NONE || d->lent_at[queue][k] < d->lent_at[queue][oldest]))
                oldest = k;
        assert(oldest != DEBT_NONE);
        part = least(left, d->owes[queue][oldest]);
        pay(d, queue, oldest, part);
        left -= part;
    }
    d->quota[queue] += amount - pays;
}

void debt_top_up(struct debt *d, int64_t free)
{
    bool wants[DEBT_QUEUES_MAX] = { false };

    while (free > 0) {
        int64_t weights = 0, given = 0;

        for (uint32_t q = 0; q < d->queues; q++) {
            wants[q] = d->demand[q] > d->quota[q];
            weights += wants[q] ? d->weight[q] : 0;
        }
        for (uint32_t q = 0; q < d->queues && weights > 0; q++) {
            int64_t share = (int64_t)((__int128)free * d->weight[q] / weights);

            share = wants[q] ? least(share, d->demand[q] - d->quota[q]) : 0;
            if (share > 0)
                debt_give(d, q, share);
            given += share;
        }
        if (given == 0)
            return;
        free -= given;
    }
}

/* Equal steps from all that have something, each limited by the least that one of them has. */
static void borrow(struct debt *d, uint32_t queue, int64_t lacks)
{
    while (lacks > 0) {
        int64_t step = INT64_MAX, lenders = 0;

        for (uint32_t k = 0; k < d->queues; k++)
            if (k != queue && d->quota[k] > 0) {
                step = least(step, d->quota[k]);
                lenders++;
            }
        assert(lenders > 0);
        step = least(step, (lacks + lenders - 1) / lenders);
        for (uint32_t k = 0; k < d->queues && lacks > 0; k++) {
            int64_t part = least(step, lacks);

            if (k == queue || d->quota[k] <= 0)
                continue;
            if (d->owes[queue][k] == 0)
                d->lent_at[queue][k] = ++d->clock;
            pay(d, queue, k, -part); /* the other way round: it is lent, and owed */
            d->quota[queue] += part;
            lacks -= part;
        }
    }
}

uint32_t debt_next(struct debt *d)
{
    uint32_t best = DEBT_NONE;
    int64_t all = 0, lacks;

    for (uint32_t q = 0; q < d->queues; q++) {
        all += d->quota[q];
        if (d->head[q] > 0 && d->quota[q] >= d->head[q] && (best == DEBT_NONE || d->head[q] > d->head[best]))
            best = q;
    }
    for (uint32_t q = 0; q < d->queues && best == DEBT_NONE; q++) {
        bool first = true;

        if (d->head[q] == 0 || d->head[q] > all)
            continue;
        for (uint32_t k = 0; k < d->queues; k++)
            first &= d->head[k] == 0 || d->head[k] > all ||
                     d->head[q] - d->quota[q] - owed_to(d, q) <= d->head[k] - d->quota[k] - owed_to(d, k);
        best = first ? q : best;
    }
    if (best == DEBT_NONE)
        return DEBT_NONE;
    lacks = d->head[best] - d->quota[best];
    if (lacks > 0)
        borrow(d, best, lacks);
    d->quota[best] -= d->head[best];
    return best;
}
