/* SPDX-License-Identifier: Apache-2.0 */
/* reclaim.c - see reclaim.h. */
#include "policy/singularity/reclaim.h"

#include <errno.h>

#include "model/splice.h"

/* Tiers by how early they are asked; in basic most GPUs first, in the others most slack first; the newest of equals. */
static bool before(const struct reclaim_job *a, const struct reclaim_job *b)
{
    if (a->tier != b->tier)
        return a->tier > b->tier;
    if (a->tier != TIER_BASIC && a->slack != b->slack)
        return a->slack > b->slack;
    if (a->gpus != b->gpus)
        return a->gpus > b->gpus;
    return a->spec->submit != b->spec->submit ? a->spec->submit > b->spec->submit : a->spec->id > b->spec->id;
}

static void sort(struct reclaim_job *jobs, uint32_t count)
{
    for (uint32_t gap = count / 2; gap; gap /= 2)
        for (uint32_t i = gap; i < count; i++) {
            struct reclaim_job moved = jobs[i];
            uint32_t at = i;

            for (; at >= gap && before(&moved, &jobs[at - gap]); at -= gap)
                jobs[at] = jobs[at - gap];
            jobs[at] = moved;
        }
}

static bool may_touch(const struct reclaim_job *job, const struct reclaim_rules *rules)
{
    if (job->tier == TIER_BASIC)
        return true;
    return job->tier >= rules->lowest && !job->fixed && job->slack >= rules->outage;
}

/* The least it can be brought to without being stopped. */
static int32_t shrunk(const struct reclaim_job *job, const struct reclaim_rules *rules)
{
    int32_t least;

    if (job->fixed || !may_touch(job, rules))
        return job->gpus;
    if (job->tier == TIER_BASIC) {
        least = splice_least(job->spec);
        return least < job->gpus ? least : job->gpus;
    }
    least = splice_fit(job->spec, job->gpus - 1);
    if (!least || (int64_t)least * rules->floor_world < (int64_t)rules->floor_gpus * job->spec->gpus)
        return job->gpus;
    return least;
}

static bool may_stop(const struct reclaim_job *job, const struct reclaim_rules *rules)
{
    return may_touch(job, rules) && (job->tier == TIER_BASIC || (rules->stops && rules->floor_world == 0));
}

/* Shrinks one by no more than is needed. */
static int32_t shrink(struct reclaim_job *job, int32_t need, const struct reclaim_rules *rules)
{
    int32_t least = shrunk(job, rules), fits = need < job->gpus ? splice_fit(job->spec, job->gpus - need) : 0;

    job->then = fits > least ? fits : least;
    return job->gpus - job->then;
}

/* One tier, jobs[first..end): enough of it, or all that it may give. */
static int32_t take_tier(struct reclaim_job *jobs, const uint32_t range[2], int32_t need,
                         const struct reclaim_rules *rules)
{
    int32_t shrinks = 0, stopped = 0, got = 0;
    uint32_t stop = range[0];

    for (uint32_t i = range[0]; i < range[1]; i++)
        shrinks += jobs[i].gpus - shrunk(&jobs[i], rules);
    /* As few are stopped as will do if the others shrink. */
    for (; stop < range[1] && stopped + shrinks < need; stop++) {
        if (!may_stop(&jobs[stop], rules))
            continue;
        jobs[stop].then = 0;
        stopped += jobs[stop].gpus;
        shrinks -= jobs[stop].gpus - shrunk(&jobs[stop], rules);
    }
    got = stopped;
    /* One that can give all that is missing, before several that give a part each. */
    for (uint32_t i = range[0]; i < range[1] && got < need; i++)
        if (jobs[i].then == jobs[i].gpus && jobs[i].gpus - shrunk(&jobs[i], rules) >= need - got)
            got += shrink(&jobs[i], need - got, rules);
    for (uint32_t i = range[0]; i < range[1] && got < need; i++)
        if (jobs[i].then == jobs[i].gpus)
            got += shrink(&jobs[i], need - got, rules);
    return got;
}

/* Whoever is not needed after all, since a later one gave more than was missing, is left alone: the most promised
 * first.
 */
static int32_t spare(struct reclaim_job *jobs, uint32_t count, int32_t surplus)
{
    int32_t spared = 0;

    for (uint32_t i = count; i-- > 0;) {
        int32_t gives = jobs[i].gpus - jobs[i].then;

        if (gives == 0 || gives > surplus - spared)
            continue;
        jobs[i].then = jobs[i].gpus;
        spared += gives;
    }
    return spared;
}

/* The most that could be taken: as a rule it is asked for in vain, and then nothing needs to be in order. */
static int64_t supply(const struct reclaim_job *jobs, uint32_t count, const struct reclaim_rules *rules)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += may_stop(&jobs[i], rules) ? jobs[i].gpus : jobs[i].gpus - shrunk(&jobs[i], rules);
    return sum;
}

int32_t reclaim_choose(struct reclaim_job *jobs, uint32_t count, int32_t need, const struct reclaim_rules *rules)
{
    int32_t got = 0;

    for (uint32_t i = 0; i < count; i++)
        jobs[i].then = jobs[i].gpus;
    if (supply(jobs, count, rules) < need)
        return -EBUSY;
    sort(jobs, count);
    for (uint32_t first = 0, end; first < count && got < need; first = end) {
        for (end = first; end < count && jobs[end].tier == jobs[first].tier;)
            end++;
        got += take_tier(jobs, (const uint32_t[2]){ first, end }, need - got, rules);
    }
    if (got >= need)
        return got - spare(jobs, count, got - need);
    for (uint32_t i = 0; i < count; i++)
        jobs[i].then = jobs[i].gpus;
    return -EBUSY;
}
