/* SPDX-License-Identifier: Apache-2.0 */
/* net_score.c - see net_score.h.
 *
 * Costs need no pairs: with the servers counted by node, rack and domain, what a worker pays is three products. A ring
 * over nodes in order crosses domains as often as it uses domains (if more than one), racks likewise, nodes likewise.
 */
#include "solve/net_score.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void net_interleave(uint32_t servers, uint32_t workers, uint8_t *ret_is_server)
{
    uint32_t p = 0, w = 0;

    for (uint32_t i = 0; i < servers + workers; i++) {
        ret_is_server[i] = p < servers && ((uint64_t)p * workers <= (uint64_t)w * servers || w == workers);
        p += ret_is_server[i];
        w += !ret_is_server[i];
    }
}

double net_dist(const struct net_map *map, uint32_t a, uint32_t b)
{
    if (a == b)
        return 0;
    if (map->rack[a] == map->rack[b])
        return map->rack_hop[map->rack[a]];
    return map->domain[a] == map->domain[b] ? map->domain_hop[map->domain[a]] : map->far;
}

double net_traffic(const struct net_job *job, bool server)
{
    return server ? job->bandwidth * job->workers / job->servers : job->bandwidth;
}

static void count(const struct net_map *map, struct net_scratch *s, uint32_t node, int32_t by)
{
    uint32_t rack = map->rack[node], domain = map->domain[node];

    s->node[node] += (uint32_t)by;
    s->rack[rack] += (uint32_t)by;
    s->domain[domain] += (uint32_t)by;
    s->all += (uint32_t)by;
}

/* What one worker's traffic to all servers counted so far costs, without its bandwidth. */
static double hops(const struct net_map *map, const struct net_scratch *s, uint32_t node)
{
    uint32_t rack = map->rack[node], domain = map->domain[node];

    return map->rack_hop[rack] * (s->rack[rack] - s->node[node]) +
           map->domain_hop[domain] * (s->domain[domain] - s->rack[rack]) + map->far * (s->all - s->domain[domain]);
}

/* The ring over the nodes counted so far: each rack and domain pays its own price for what is inside it. */
static double ring_cost(const struct net_map *map, const struct net_job *job, const uint32_t *place,
                        struct net_scratch *s)
{
    double sum = 0;
    uint32_t nodes = 0, racks = 0, domains = 0, tasks = job->workers;

    for (uint32_t i = 0; i < tasks; i++) {
        uint32_t n = place[i];

        nodes += s->node[n] == 0;
        racks += s->rack[map->rack[n]] == 0;
        domains += s->domain[map->domain[n]] == 0;
        count(map, s, n, 1);
    }
    /* Hops inside a rack: one fewer than its nodes, and one more where the ring closes in it; and so on upwards. */
    for (uint32_t i = 0; i < tasks; i++) {
        uint32_t n = place[i], r = map->rack[n], d = map->domain[n];

        if (s->node[n]) {
            sum += map->rack_hop[r];
            s->node[n] = 0;
            if (s->rack[r]) {
                s->rack[r] = 0;
                sum += (racks > 1 ? map->domain_hop[d] : 0) - (racks > 1 || nodes == 1 ? map->rack_hop[r] : 0);
                if (s->domain[d]) {
                    s->domain[d] = 0;
                    sum += (domains > 1 ? map->far : 0) - (domains > 1 ? map->domain_hop[d] : 0);
                }
            }
        }
    }
    s->all = 0;
    return job->bandwidth * sum;
}

double net_cost(const struct net_map *map, const struct net_job *job, const uint8_t *is_server, const uint32_t *place,
                struct net_scratch *s)
{
    uint32_t tasks = job->servers + job->workers;
    double sum = 0;

    if (job->servers == 0)
        return ring_cost(map, job, place, s);
    for (uint32_t i = 0; i < tasks; i++)
        if (is_server[i])
            count(map, s, place[i], 1);
    for (uint32_t i = 0; i < tasks; i++)
        if (!is_server[i])
            sum += hops(map, s, place[i]);
    for (uint32_t i = 0; i < tasks; i++)
        if (is_server[i])
            count(map, s, place[i], -1);
    return job->bandwidth * sum;
}

uint32_t net_nodes(const struct net_job *job, const uint32_t *place, struct net_scratch *s)
{
    uint32_t tasks = job->servers + job->workers, nodes = 0;

    for (uint32_t i = 0; i < tasks; i++)
        nodes += s->any[place[i]]++ == 0;
    for (uint32_t i = 0; i < tasks; i++)
        s->any[place[i]] = 0;
    return nodes;
}

/* ---- best fit ---- */

/* How far the tasks of a ring have come: the hop that closes it, its price and its level. */
struct tally {
    struct net_scratch *s;
    uint32_t nodes;  /* used */
    int close_level; /* 0: one node so far; 1 inside a rack, 2 inside a domain, 3 across */
    double close;
};

static int ring_hop(const struct net_map *map, const struct tally *t, uint32_t node, double *ret_price)
{
    const struct net_scratch *s = t->s;
    uint32_t rack = map->rack[node], domain = map->domain[node];

    *ret_price = s->rack[rack] ? map->rack_hop[rack] : s->domain[domain] ? map->domain_hop[domain] : map->far;
    return s->rack[rack] ? 1 : s->domain[domain] ? 2 : 3;
}

/* What a task on this node adds to the ring: a hop to it; and where it is the first so far away, the hop that closes
 * the ring becomes as long. */
static double ring_step(const struct net_map *map, const struct tally *t, uint32_t node)
{
    double price;
    int level;

    if (t->nodes == 0 || t->s->any[node])
        return 0;
    level = ring_hop(map, t, node, &price);
    return level <= t->close_level ? price : 2 * price - t->close;
}

/* Servers pay for the workers so far as workers pay for the servers so far: s counts the other kind. */
struct choice {
    const struct net_job *job;
    bool server;
    uint32_t number, left; /* of the task, from 1; with those that come after it */
    struct tally *tally;
    const struct net_scratch *others;
};

static double added(const struct net_fit *fit, const struct choice *c, uint32_t node)
{
    const struct net_map *map = fit->map;
    double load = (fit->used[node] + 1.0) / map->gpus[node], cost;

    if (c->job->servers) {
        cost = hops(map, c->others, node);
    } else {
        uint32_t free = (uint32_t)map->gpus[node] - fit->used[node];

        /* A ring pays for a node once, however many of its tasks go there: what is left of it shares the price. */
        cost = ring_step(map, c->tally, node);
        if (c->tally->s->any[node] == 0)
            cost /= free < c->left ? free : c->left;
    }
    return cost * c->job->bandwidth + ((c->server ? load : -load) + (c->tally->s->any[node] == 0)) / c->number;
}

static uint32_t choose(const struct net_fit *fit, const struct choice *c)
{
    uint32_t best = UINT32_MAX, seen = 0;
    double least = (double)INFINITY, traffic = net_traffic(c->job, c->server);

    for (uint32_t n = 0; n < fit->map->nodes; n++) {
        double score;

        if (fit->used[n] >= fit->map->gpus[n] || (fit->open && !fit->open[n]) || (fit->room && fit->room[n] < traffic))
            continue;
        score = added(fit, c, n);
        if (score < least - 1e-12) {
            least = score;
            best = n;
        }
        if (fit->candidates && ++seen == fit->candidates)
            break;
    }
    return best;
}

static void tally_count(const struct net_map *map, struct tally *t, uint32_t node)
{
    double price;
    int level;

    if (t->s->any[node]++ > 0)
        return;
    level = t->nodes++ ? ring_hop(map, t, node, &price) : 0;
    if (level > t->close_level) {
        t->close_level = level;
        t->close = price;
    }
}

int net_best_fit(struct net_fit *fit, const struct net_job *job, const uint8_t *is_server, uint32_t *ret_place)
{
    struct net_scratch *s = fit->scratch;
    struct tally tally = { .s = s };
    uint32_t tasks = job->servers + job->workers, done;
    bool flipped = false;

    for (done = 0; done < tasks; done++) {
        struct choice c = { job, is_server[done], done + 1, tasks - done, &tally, s };

        /* s counts servers while workers are placed, and workers while servers are; a ring counts as it grows. */
        if (job->servers && (is_server[done] != 0) != flipped) {
            flipped = !flipped;
            for (uint32_t i = 0; i < done; i++)
                count(fit->map, s, ret_place[i], (is_server[i] != 0) == flipped ? -1 : 1);
        }
        ret_place[done] = choose(fit, &c);
        if (ret_place[done] == UINT32_MAX)
            break;
        tally_count(fit->map, &tally, ret_place[done]);
        if (!job->servers)
            count(fit->map, s, ret_place[done], 1);
        fit->used[ret_place[done]]++;
        if (fit->room)
            fit->room[ret_place[done]] -= net_traffic(job, is_server[done]);
    }
    for (uint32_t i = 0; i < done; i++) {
        s->node[ret_place[i]] = s->any[ret_place[i]] = 0;
        s->rack[fit->map->rack[ret_place[i]]] = s->domain[fit->map->domain[ret_place[i]]] = 0;
        if (done < tasks) {
            fit->used[ret_place[i]]--;
            if (fit->room)
                fit->room[ret_place[i]] += net_traffic(job, is_server[i]);
        }
    }
    s->all = 0;
    return done < tasks ? -1 : 0;
}

/* ---- from the definition ---- */

static double plain_cost(const struct net_map *map, const struct net_job *job, const uint8_t *is_server,
                         const uint32_t *place)
{
    uint32_t tasks = job->servers + job->workers, first = UINT32_MAX, at, next;
    double sum = 0;

    for (uint32_t p = 0; p < tasks && job->servers; p++)
        for (uint32_t w = 0; w < tasks && is_server[p]; w++)
            sum += is_server[w] ? 0 : net_dist(map, place[p], place[w]);
    if (job->servers)
        return sum * job->bandwidth;
    /* Round the ring: from the lowest node to the next higher one, and back from the highest. */
    for (uint32_t i = 0; i < tasks; i++)
        first = place[i] < first ? place[i] : first;
    for (at = first;; at = next) {
        next = UINT32_MAX;
        for (uint32_t i = 0; i < tasks; i++)
            if (place[i] > at && place[i] < next)
                next = place[i];
        if (next == UINT32_MAX)
            break;
        sum += net_dist(map, at, next);
    }
    return (sum + net_dist(map, at, first)) * job->bandwidth;
}

double net_score(const struct net_map *map, const uint16_t *used, const struct net_job *job, const uint8_t *is_server,
                 const uint32_t *place)
{
    uint32_t tasks = job->servers + job->workers, nodes = 0;
    double sum = 0;

    for (uint32_t i = 0; i < tasks; i++) {
        uint32_t before = 0;

        for (uint32_t k = 0; k < i; k++)
            before += place[k] == place[i];
        nodes += before == 0;
        sum += (is_server[i] ? 1 : -1) * (used[place[i]] + before + 1.0) / map->gpus[place[i]];
    }
    return plain_cost(map, job, is_server, place) + (sum + nodes) / tasks;
}
