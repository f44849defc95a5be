/* SPDX-License-Identifier: Apache-2.0 */
/* split.c - see split.h. */
#include "solve/split.h"

#include <assert.h>
#include <string.h>

struct search {
    const int32_t *holes;
    int32_t *room;
    int32_t hole_count, job_count;
    const struct split_job *jobs;
    int32_t order[SPLIT_JOBS];
    int way[SPLIT_JOBS]; /* of the first ones, in order; -1: the best that is left */
};

/* The smallest hole that is large enough, but for one; -1. */
static int32_t smallest(const struct search *s, int32_t need, int32_t but)
{
    int32_t best = -1;

    for (int32_t h = 0; h < s->hole_count; h++)
        if (h != but && s->room[h] >= need && (best < 0 || s->room[h] < s->room[best]))
            best = h;
    return best;
}

static int32_t largest(const struct search *s)
{
    int32_t best = -1;

    for (int32_t h = 0; h < s->hole_count; h++)
        if (s->room[h] > 0 && (best < 0 || s->room[h] > s->room[best]))
            best = h;
    return best;
}

static void take(struct search *s, struct split_place *out, int32_t hole, int32_t gpus)
{
    s->room[hole] -= gpus;
    out->parts[out->count++] = (struct split_part){ hole, gpus };
}

static void give_back(struct search *s, struct split_place *out)
{
    for (int32_t i = 0; i < out->count; i++)
        s->room[out->parts[i].hole] += out->parts[i].gpus;
    out->count = 0;
}

/* One job in one way; whether there is room. */
static bool put(struct search *s, const struct split_job *job, int way, struct split_place *out)
{
    int32_t left = job->gpus, hole;

    out->count = 0;
    if (!job->worth[way])
        return false;
    if (way == 0) {
        hole = smallest(s, left, -1);
        if (hole >= 0)
            take(s, out, hole, left);
        return hole >= 0;
    }
    while (left > 0 && out->count < (way == 1 ? 2 : SPLIT_PARTS)) {
        /* The last part goes where it leaves least over. */
        hole = out->count ? smallest(s, left, out->parts[0].hole) : -1;
        hole = hole < 0 ? largest(s) : hole;
        if (hole < 0)
            break;
        take(s, out, hole, s->room[hole] < left ? s->room[hole] : left);
        left -= out->parts[out->count - 1].gpus;
    }
    /* One node is another way; more nodes than two are not this one. */
    if (left > 0 || out->count < 2) {
        give_back(s, out);
        return false;
    }
    return true;
}

static int64_t put_best(struct search *s, const struct split_job *job, struct split_place *out)
{
    bool tried[SPLIT_WAYS] = { false };

    for (int k = 0; k < SPLIT_WAYS; k++) {
        int best = -1;

        for (int way = 0; way < SPLIT_WAYS; way++)
            if (!tried[way] && job->worth[way] && (best < 0 || job->worth[way] > job->worth[best]))
                best = way;
        if (best < 0)
            return 0;
        tried[best] = true;
        if (put(s, job, best, out))
            return job->worth[best];
    }
    return 0;
}

static int64_t spread_of(const struct split_job *job)
{
    int64_t low = job->worth[0], high = job->worth[0];

    for (int way = 1; way < SPLIT_WAYS; way++)
        if (job->worth[way]) {
            low = job->worth[way] < low ? job->worth[way] : low;
            high = job->worth[way] > high ? job->worth[way] : high;
        }
    return high - low;
}

static void sort(struct search *s)
{
    for (int32_t i = 0; i < s->job_count; i++) {
        int32_t k = i;

        for (; k > 0 && spread_of(&s->jobs[s->order[k - 1]]) < spread_of(&s->jobs[i]); k--)
            s->order[k] = s->order[k - 1];
        s->order[k] = i;
    }
}

static int64_t play(struct search *s, struct split_place *out)
{
    int64_t total = 0;

    memcpy(s->room, s->holes, (size_t)s->hole_count * sizeof(*s->room));
    for (int32_t i = 0; i < s->job_count; i++) {
        const struct split_job *job = &s->jobs[s->order[i]];
        struct split_place *to = &out[s->order[i]];

        if (s->way[i] < 0)
            total += put_best(s, job, to);
        else if (put(s, job, s->way[i], to))
            total += job->worth[s->way[i]];
    }
    return total;
}

/* The next combination of ways of the first `count`; false after the last. */
static bool next(struct search *s, int32_t count)
{
    for (int32_t i = count - 1; i >= 0; i--) {
        if (++s->way[i] < SPLIT_WAYS)
            return true;
        s->way[i] = 0;
    }
    return false;
}

int64_t split_jobs(const struct split_holes *holes, const struct split_job *jobs, int32_t job_count, int64_t tries,
                   struct split_place *out)
{
    struct search s = {
        .holes = holes->free, .room = holes->room, .hole_count = holes->count, .job_count = job_count, .jobs = jobs
    };
    int best_way[SPLIT_JOBS];
    int64_t best, product = 1;
    int32_t first = 0;

    assert(job_count <= SPLIT_JOBS);
    sort(&s);
    for (int32_t i = 0; i < job_count; i++)
        s.way[i] = -1;
    best = play(&s, out);
    memcpy(best_way, s.way, sizeof(best_way));
    while (first < job_count && product * SPLIT_WAYS <= tries) {
        product *= SPLIT_WAYS;
        s.way[first++] = 0;
    }
    for (bool more = first > 0; more; more = next(&s, first)) {
        int64_t total = play(&s, out);

        if (total > best) {
            best = total;
            memcpy(best_way, s.way, sizeof(best_way));
        }
    }
    memcpy(s.way, best_way, sizeof(best_way));
    for (int32_t i = 0; i < job_count; i++)
        out[i].count = 0;
    return play(&s, out);
}
