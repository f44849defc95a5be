/* SPDX-License-Identifier: Apache-2.0 */
/* gen_search.c - a day of twelve hyper-parameter searches, for a kill rule to act on (--set search=10%).
 *
 * Every two hours, more or less, somebody sends a search: equal trials on one GPU each, all within a minute, of which
 * nothing but time tells which one is good. Each would take 40 minutes to three hours, the trials of one search about
 * as long as each other. One user a search. Run to their ends they ask for more than the cluster has; compared after a
 * tenth, for little.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/gen/gen_internal.h"

enum { SEARCHES = 12, STREAM_SEARCHES = 7 };

static const struct gen_quantile budgets[] = { { 0, 2400 }, { 500, 6000 }, { 1000, 10800 } };

static int add_trial(struct trace *trace, struct rng *rng, usec_t begin, usec_t budget, uint32_t user)
{
    struct trace_job job;

    trace_job_init(&job);
    job.spec.id = (int64_t)trace->count;
    job.spec.gpus = job.spec.gpus_min = job.spec.gpus_max = 1;
    job.spec.user = user;
    job.spec.submit = begin;
    job.truth.duration = budget * (usec_t)(95 + rng_below(rng, 11)) / 100;
    return trace_add(trace, &job);
}

int gen_search(const struct gen_config *config, struct trace *trace, struct error *err)
{
    struct rng rng = math_stream(config->seed, STREAM_SEARCHES, 0);
    size_t trials = (config->jobs + SEARCHES - 1) / SEARCHES, left = config->jobs;
    usec_t begin = 0;

    for (int k = 0; k < SEARCHES && left > 0; k++) {
        usec_t budget = gen_duration(&rng, budgets), at = begin;
        char name[32];
        uint32_t user;

        (void)snprintf(name, sizeof(name), "search-%d", k + 1);
        if (names_put(&trace->users, name, strlen(name), &user) < 0)
            return error_set(err, -ENOMEM, "out of memory");
        for (size_t i = 0; i < trials && left > 0; i++, left--) {
            if (add_trial(trace, &rng, at, budget, user) < 0)
                return error_set(err, -ENOMEM, "out of memory");
            at += (usec_t)rng_below(&rng, 3) * USEC_SEC;
        }
        begin += 90 * USEC_MIN + (usec_t)rng_below(&rng, 3600) * USEC_SEC;
    }
    return 0;
}
