/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_share.c - see metrics_share.h. Sums are integers and divided once, as in metrics.c; slowdowns are summed as
 * doubles in the order of the trace. */
#include "sim/metrics/metrics_share.h"

#include <errno.h>
#include <math.h>

#include "base/alloc.h"
#include "base/names.h"

struct pile {
    uint64_t jobs, finished;
    int64_t queue, jct; /* microseconds */
    double slowdown, gpu_usec;
};

struct piles {
    struct pile *items;
    size_t count;
};

static void pile_add(struct piles *piles, uint32_t name, const struct job_result *job)
{
    struct pile *pile = name < piles->count ? &piles->items[name] : NULL;
    usec_t jct = job_result_jct(job);

    if (!pile)
        return;
    pile->jobs++;
    pile->gpu_usec += (double)job->gpus * job->share / MGPU_ONE * (double)job->run;
    if (jct < 0)
        return;
    pile->finished++;
    pile->jct += jct;
    pile->queue += job_result_queue(job);
    pile->slowdown += job->alone > 0 ? (double)jct / (double)job->alone : 1;
}

/* Names are dense from 0, so the highest tells how many there are. */
static int piles_make(struct piles *piles, const struct run_result *result, bool users)
{
    *piles = (struct piles){ 0 };
    for (size_t i = 0; i < result->job_count; i++) {
        uint32_t name = users ? result->jobs[i].user : result->jobs[i].vc;

        if (name != NAME_NONE && name >= piles->count)
            piles->count = (size_t)name + 1;
    }
    piles->items = mem_zalloc(piles->count + 1, sizeof(*piles->items));
    if (!piles->items)
        return -ENOMEM;
    for (size_t i = 0; i < result->job_count; i++)
        pile_add(piles, users ? result->jobs[i].user : result->jobs[i].vc, &result->jobs[i]);
    return 0;
}

static double jain(const struct piles *piles)
{
    double sum = 0, squares = 0;
    size_t n = 0;

    for (size_t i = 0; i < piles->count; i++)
        if (piles->items[i].finished) {
            double mean = piles->items[i].slowdown / (double)piles->items[i].finished;

            sum += mean;
            squares += mean * mean;
            n++;
        }
    return n >= 2 ? sum * sum / ((double)n * squares) : (double)NAN;
}

static int vcs_fill(struct shares *shares, const struct piles *piles)
{
    shares->vcs = mem_zalloc(piles->count + 1, sizeof(*shares->vcs));
    if (!shares->vcs)
        return -ENOMEM;
    for (size_t i = 0; i < piles->count; i++) {
        const struct pile *pile = &piles->items[i];
        struct share *share = &shares->vcs[shares->vc_count];
        double n = (double)pile->finished * (double)USEC_SEC;

        if (!pile->jobs)
            continue;
        shares->vc_count++;
        *share = (struct share){ .name = (uint32_t)i, .jobs = pile->jobs, .finished = pile->finished };
        share->gpu_seconds = pile->gpu_usec / (double)USEC_SEC;
        if (!pile->finished)
            continue;
        share->avg_queue = (double)pile->queue / n;
        share->avg_jct = (double)pile->jct / n;
        share->avg_slowdown = pile->slowdown / (double)pile->finished;
    }
    return 0;
}

static int queues_fill(struct shares *shares, const struct run_result *result)
{
    usec_t *values = NULL;
    size_t count = 0;
    int r = metrics_sorted(result, 0, &values, &count);

    if (r == 0 && count) {
        shares->p50_queue = (double)values[(count - 1) / 2] / (double)USEC_SEC;
        shares->p95_queue = (double)values[percentile_index(count, 95)] / (double)USEC_SEC;
        shares->p99_queue = (double)values[percentile_index(count, 99)] / (double)USEC_SEC;
    }
    mem_free(values);
    return r;
}

int shares_init(struct shares *shares, const struct run_result *result)
{
    struct piles users = { 0 }, vcs = { 0 };
    int r;

    *shares = (struct shares){ .fairness = (double)NAN };
    r = piles_make(&users, result, true);
    if (r == 0)
        r = piles_make(&vcs, result, false);
    if (r == 0)
        r = vcs_fill(shares, &vcs);
    if (r == 0)
        r = queues_fill(shares, result);
    if (r == 0)
        shares->fairness = jain(users.count ? &users : &vcs);
    mem_free(users.items);
    mem_free(vcs.items);
    if (r < 0)
        shares_done(shares);
    return r;
}

void shares_done(struct shares *shares)
{
    mem_free(shares->vcs);
    *shares = (struct shares){ 0 };
}

int curves_fill(struct curves *curves, const struct run_result *result)
{
    *curves = (struct curves){ 0 };
    for (int jct = 0; jct < 2; jct++) {
        double *to = jct ? curves->jct : curves->queue;
        usec_t *values = NULL;
        size_t count = 0;
        int r = metrics_sorted(result, jct, &values, &count);

        if (r < 0)
            return r;
        for (unsigned p = 0; p < CURVE_POINTS && count; p++)
            to[p] = (double)values[p ? percentile_index(count, p) : 0] / (double)USEC_SEC;
        mem_free(values);
    }
    return 0;
}
