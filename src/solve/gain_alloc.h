/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gain_alloc.h - gives out tasks one by one, each to whom it helps most (Optimus, EuroSys'18, section 4.1).
 *
 * A task more is worth the time it takes off the job, over the dominant share of the task: the largest part of any
 * resource of the cluster that it needs. The best one is granted, its job alone is looked at again, and so on until
 * nothing fits or nothing helps. What everybody is given first, so that nobody starves, is the caller's affair.
 */
#include <stdbool.h>
#include <stdint.h>

enum gain_resource { GAIN_GPU, GAIN_CPU, GAIN_MEMORY, GAIN_NETWORK, GAIN_RESOURCES };

/* Steps a second with so many servers and workers; 0 = it cannot run so. */
typedef double (*gain_speed_fn)(const void *arg, int servers, int workers);

struct gain_job {
    gain_speed_fn speed; /* NULL: no usable model; it keeps what it has */
    const void *arg;
    double work;   /* steps left */
    double factor; /* on every gain; below 1 for a job whose prediction is not to be trusted yet */
    double worker[GAIN_RESOURCES], server[GAIN_RESOURCES];
    int workers, servers; /* what it has; grows */
    int workers_max, servers_max;
    /* How many workers a grant may bring at once, where one alone does not help but several do (the second node); the
     * gain is then that of each. 0 or 1: one by one. */
    int stride;
    /* The allocation's own. */
    double gain;
    int count;
    bool is_server, no_worker, no_server;
};

struct gain_grant {
    int job, count;
    bool is_server;
    double gain;
};

struct gain_pool {
    double capacity[GAIN_RESOURCES], free[GAIN_RESOURCES]; /* capacity 0: not counted */
    struct gain_grant *grants;                             /* a record of what was given, in order; may be NULL */
    int grant_max, grant_count;
};

/* `heap` has room for `count` numbers. Equal gains: the worker before the server, the earlier job first. O(g log n) for
 * g grants to n jobs. */
void gain_allocate(struct gain_pool *pool, struct gain_job *jobs, int count, uint32_t *heap);

/* The dominant share of a task. */
double gain_share(const struct gain_pool *pool, const double *demand);

/* Takes one task's demand out of what is free. False: it does not fit, and nothing was taken. */
bool gain_take(struct gain_pool *pool, const double *demand, int count);
