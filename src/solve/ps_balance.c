/* SPDX-License-Identifier: Apache-2.0 */
/* ps_balance.c - see ps_balance.h.
 *
 * With avg = all bytes / servers: a block below 1 % of avg goes to the server with the fewest update requests; one up
 * to avg to the server with the smallest room (avg less what it has) that still takes it, or, where none does, to the
 * one with the least bytes; a larger one is cut into slices of avg, each to the server with the least bytes. Equal
 * servers: the lower number.
 */
#include "solve/ps_balance.h"

#include <errno.h>
#include <stddef.h>

struct deal {
    struct ps_load *loads;
    struct ps_piece *pieces;
    int servers, max, count;
};

static int least_bytes(const struct deal *d)
{
    int best = 0;

    for (int s = 1; s < d->servers; s++)
        if (d->loads[s].bytes < d->loads[best].bytes)
            best = s;
    return best;
}

static int least_requests(const struct deal *d)
{
    int best = 0;

    for (int s = 1; s < d->servers; s++)
        if (d->loads[s].requests < d->loads[best].requests)
            best = s;
    return best;
}

static int best_fit(const struct deal *d, double avg, double bytes)
{
    int best = -1;

    for (int s = 0; s < d->servers; s++)
        if (avg - d->loads[s].bytes >= bytes && (best < 0 || d->loads[s].bytes > d->loads[best].bytes))
            best = s;
    return best < 0 ? least_bytes(d) : best;
}

static void give(struct deal *d, int block, int server, double bytes)
{
    d->loads[server].bytes += bytes;
    d->loads[server].requests++;
    if (d->pieces && d->count < d->max)
        d->pieces[d->count] = (struct ps_piece){ block, server, bytes };
    d->count++;
}

int ps_balance(const double *blocks, int count, int servers, struct ps_load *loads, struct ps_piece *pieces, int max)
{
    struct deal d = { .loads = loads, .pieces = pieces, .servers = servers, .max = max };
    double total = 0, avg;

    if (count < 1 || servers < 1 || servers > PS_SERVERS_MAX)
        return -EINVAL;
    for (int i = 0; i < count; i++) {
        if (!(blocks[i] > 0) || (i > 0 && blocks[i] > blocks[i - 1]))
            return -EINVAL;
        total += blocks[i];
    }
    avg = total / servers;
    for (int s = 0; s < servers; s++)
        loads[s] = (struct ps_load){ 0 };
    for (int i = 0; i < count; i++) {
        double left = blocks[i];

        while (left > avg) {
            give(&d, i, least_bytes(&d), avg);
            left -= avg;
        }
        if (blocks[i] > avg) {
            if (left > avg * 1e-12)
                give(&d, i, least_bytes(&d), left);
        } else if (blocks[i] < avg / 100) {
            give(&d, i, least_requests(&d), left);
        } else {
            give(&d, i, best_fit(&d, avg, left), left);
        }
    }
    return d.count;
}

/* The number of workers slower than this one, equal ones by their place: its rank. */
static int rank_of(const double *speeds, int count, int at)
{
    int rank = 0;

    for (int i = 0; i < count; i++)
        rank += speeds[i] < speeds[at] || (speeds[i] == speeds[at] && i < at);
    return rank;
}

int ps_stragglers(const double *speeds, int count, uint8_t *slow)
{
    double median = 0;
    int found = 0;

    for (int i = 0; i < count; i++)
        if (rank_of(speeds, count, i) == (count - 1) / 2)
            median = speeds[i];
    for (int i = 0; i < count; i++) {
        slow[i] = speeds[i] < median / 2;
        found += slow[i];
    }
    return found;
}
