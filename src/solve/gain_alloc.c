/* SPDX-License-Identifier: Apache-2.0 */
/* gain_alloc.c - see gain_alloc.h. A candidate that does not fit is dropped for good: what is free only shrinks. */
#include "solve/gain_alloc.h"

#include <math.h>

static const double NOTHING = 1e-12; /* of what is compared: rounding, not a difference */

double gain_share(const struct gain_pool *pool, const double *demand)
{
    double share = 0;

    for (int r = 0; r < GAIN_RESOURCES; r++)
        if (pool->capacity[r] > 0)
            share = fmax(share, demand[r] / pool->capacity[r]);
    return share;
}

static bool fits(const struct gain_pool *pool, const double *demand, int count)
{
    for (int r = 0; r < GAIN_RESOURCES; r++)
        if (pool->capacity[r] > 0 && demand[r] * count > pool->free[r] + NOTHING * pool->capacity[r])
            return false;
    return true;
}

bool gain_take(struct gain_pool *pool, const double *demand, int count)
{
    if (!fits(pool, demand, count))
        return false;
    for (int r = 0; r < GAIN_RESOURCES; r++)
        pool->free[r] -= demand[r] * count;
    return true;
}

static double time_of(const struct gain_job *job, int servers, int workers)
{
    double speed = job->speed(job->arg, servers, workers);

    return speed > 0 ? job->work / speed : HUGE_VAL;
}

/* What it is worth to go from `now` to `then`, for each of `count` tasks. */
static double worth(const struct gain_job *job, double now, double then, double cost)
{
    if (!(now - then > NOTHING * then))
        return 0;
    return job->factor * (now - then) / cost;
}

/* Finds the job's best candidate; gain 0 where there is none. */
static void look(const struct gain_pool *pool, struct gain_job *job)
{
    double now, worker, server;

    job->gain = 0;
    if (!job->speed)
        return;
    now = time_of(job, job->servers, job->workers);
    worker = gain_share(pool, job->worker);
    server = gain_share(pool, job->server);
    for (int n = 1; n <= (job->stride > 1 ? job->stride : 1) && job->workers + n <= job->workers_max; n++) {
        double gain;

        if (job->no_worker || !fits(pool, job->worker, n))
            break;
        gain = worth(job, now, time_of(job, job->servers, job->workers + n), worker * n);
        if (gain > job->gain * (1 + NOTHING)) {
            job->gain = gain;
            job->count = n;
            job->is_server = false;
        }
    }
    if (!job->no_server && job->servers < job->servers_max) {
        double gain = worth(job, now, time_of(job, job->servers + 1, job->workers), server);

        if (gain > job->gain * (1 + NOTHING)) {
            job->gain = gain;
            job->count = 1;
            job->is_server = true;
        }
    }
}

static bool before(const struct gain_job *jobs, uint32_t a, uint32_t b)
{
    return jobs[a].gain > jobs[b].gain || (jobs[a].gain == jobs[b].gain && a < b);
}

static void sink(const struct gain_job *jobs, uint32_t *heap, uint32_t count, uint32_t at)
{
    for (;;) {
        uint32_t child = 2 * at + 1, moved = heap[at];

        if (child >= count)
            return;
        if (child + 1 < count && before(jobs, heap[child + 1], heap[child]))
            child++;
        if (!before(jobs, heap[child], moved))
            return;
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

static void record(struct gain_pool *pool, uint32_t at, const struct gain_job *job)
{
    if (pool->grants && pool->grant_count < pool->grant_max)
        pool->grants[pool->grant_count] = (struct gain_grant){ (int)at, job->count, job->is_server, job->gain };
    pool->grant_count++;
}

static void grant(struct gain_pool *pool, struct gain_job *job, uint32_t at)
{
    if (!gain_take(pool, job->is_server ? job->server : job->worker, job->count)) {
        /* Several at once may have been too many where fewer are not: the next look finds out. */
        job->no_server |= job->is_server;
        job->no_worker |= !job->is_server && job->count == 1;
        return;
    }
    record(pool, at, job);
    if (job->is_server)
        job->servers += job->count;
    else
        job->workers += job->count;
}

void gain_allocate(struct gain_pool *pool, struct gain_job *jobs, int count, uint32_t *heap)
{
    uint32_t size = (uint32_t)count;

    for (uint32_t i = 0; i < size; i++) {
        jobs[i].no_worker = jobs[i].no_server = false;
        look(pool, &jobs[i]);
        heap[i] = i;
    }
    for (uint32_t i = size / 2; i-- > 0;)
        sink(jobs, heap, size, i);
    while (size > 0 && jobs[heap[0]].gain > 0) {
        grant(pool, &jobs[heap[0]], heap[0]);
        look(pool, &jobs[heap[0]]);
        if (!(jobs[heap[0]].gain > 0))
            heap[0] = heap[--size];
        sink(jobs, heap, size, 0);
    }
}
