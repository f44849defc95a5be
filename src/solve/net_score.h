/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* net_score.h - what a placement costs the network, and the score that placements are chosen by (Liquid, section 4).
 *
 * A job has tasks of one GPU each: parameter servers and workers, or workers alone that exchange gradients in a ring.
 * Two tasks are 0 apart on one node, `rack_hop` of their rack on two nodes of it, `domain_hop` of their domain in two
 * racks of it, `far` in two domains.
 *
 *   servers:  Cost = sum over servers p and workers w of bandwidth * dist(p, w)
 *   ring:     Cost = sum over neighbours of bandwidth * dist, ranks in the order of the nodes, the last beside the
 * first Score   = Cost + 1/T * sum over tasks of sign * load + U/T
 *
 * with T tasks, U nodes used, sign -1 for a worker (it prefers filled nodes) and +1 for a server (it prefers empty
 * ones), and load = (GPUs used on the node before the task + 1) / GPUs of the node. Smaller is better.
 */
#include <stdbool.h>
#include <stdint.h>

/* Nodes of a rack, and racks of a domain, follow each other. */
struct net_map {
    uint32_t nodes, racks, domains;
    const uint32_t *rack, *domain; /* of each node */
    const uint16_t *gpus;          /* of each node */
    const double *rack_hop;        /* of each rack */
    const double *domain_hop;      /* of each domain */
    double far;
};

struct net_job {
    uint32_t first;            /* of its tasks; they follow each other, in the order of net_interleave() */
    uint32_t servers, workers; /* tasks; servers 0: a ring */
    double bandwidth;          /* that a worker asks for; a server carries what all its workers send */
    uint32_t memory_mib;       /* of each GPU; 0 = not told */
};

/* What one job has on each node, rack and domain while it is being scored. All zero between two jobs. */
struct net_scratch {
    uint32_t *node, *rack, *domain; /* servers, or for a ring tasks */
    uint32_t *any;                  /* tasks, by node */
    uint32_t all;                   /* servers in all */
};

/* Which of the tasks are servers: one comes as soon as the workers before it have their part of servers. */
void net_interleave(uint32_t servers, uint32_t workers, uint8_t *ret_is_server);

double net_dist(const struct net_map *map, uint32_t a, uint32_t b);

/* Cost of a job whose task i is on place[i]; is_server[i] says what it is. */
double net_cost(const struct net_map *map, const struct net_job *job, const uint8_t *is_server, const uint32_t *place,
                struct net_scratch *scratch);

/* Nodes it uses. */
uint32_t net_nodes(const struct net_job *job, const uint32_t *place, struct net_scratch *scratch);

/* Best fit for one job (section 5.1): its tasks one by one, each where the score of those so far becomes least, the
 * first node on ties. used[] grows by what was placed; on failure it is as before. Only nodes that `open` allows (NULL:
 * all); `candidates` 0: all of them, else the first so many with room. -1: a task has no node. */
struct net_fit {
    const struct net_map *map;
    uint16_t *used;
    const uint8_t *open;
    uint32_t candidates;
    double *room; /* bandwidth left on each node; NULL: not limited. Falls by what was placed */
    struct net_scratch *scratch;
};
int net_best_fit(struct net_fit *fit, const struct net_job *job, const uint8_t *is_server, uint32_t *ret_place);

/* What a task takes of its node's bandwidth: a worker its own, a server its part of what all workers send. */
double net_traffic(const struct net_job *job, bool server);

/* The score of one job alone on top of used[], from its definition; used[] is left alone. */
double net_score(const struct net_map *map, const uint16_t *used, const struct net_job *job, const uint8_t *is_server,
                 const uint32_t *place);
