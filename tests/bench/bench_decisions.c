/* SPDX-License-Identifier: Apache-2.0 */
/* bench_decisions.c - what one decision costs on 64, 640, 6,400 and 64,000 GPUs.
 *
 * The same jobs everywhere (run times even over 10 to 110 minutes, sizes like Philly's up to 16 GPUs), arriving so much
 * faster as the cluster is larger: all are full from the start, and the load is 0.97. A decision is whatever goes into
 * the record: a start, a stop, an end, a wait. What grows with the cluster shows in the last column, which would be
 * 1,000 for something linear.
 */
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "bench.h"

enum { JOBS = 120000, CLUSTERS = 4 };

static const struct {
    const char *name;
    int gpus;
} clusters[CLUSTERS] = {
    { "racks:1 nodes:8 gpus:8", 64 },
    { "racks:4 nodes:20 gpus:8", 640 },
    { "racks:40 nodes:20 gpus:8", 6400 },
    { "racks:400 nodes:20 gpus:8", 64000 },
};

static const struct {
    const char *policy, *place;
    const char *shared; /* "quota", "cells": among four virtual clusters */
} cases[] = {
    { "fifo", "count", "" },
    { "fifo", "consolidate", "" },
    { "fifo", "topology", "" },
    { "srsf", "count", "" },
    { "srsf", "consolidate", "" },
    { "srsf", "topology", "" },
    { "fifo-skip", "count", "" },
    { "fifo-skip", "consolidate", "" },
    { "backfill-easy", "count", "" },
    { "backfill-easy", "topology", "" },
    { "yarn-cs", "levels", "" },
    { "fifo", "consolidate", "quota" },
    { "fifo", "consolidate", "cells" },
    { "srsf", "count", "quota" },
    { "srsf", "count", "cells" },
    { "yarn-cs", "levels", "cells" },
};

static int32_t draw_gpus(struct rng *rng)
{
    uint64_t u = rng_below(rng, 1000);

    return u < 800 ? 1 : u < 870 ? 2 : u < 940 ? 4 : u < 995 ? 8 : 16;
}

static void load(const void *arg, struct trace *ret_trace)
{
    int gpus = *(const int *)arg;
    /* Mean demand of a job: its GPUs (1.74) times its run time (1 h). */
    uint64_t gap = (uint64_t)(1.74 * 3600e6 / gpus / 0.97);
    struct rng rng;
    usec_t submit = 0;
    int64_t held = 0;

    rng_seed(&rng, 1);
    for (int64_t i = 0; i < JOBS; i++) {
        struct trace_job job;

        trace_job_init(&job);
        job.spec.id = i;
        job.spec.submit = submit;
        job.spec.gpus = job.spec.gpus_min = job.spec.gpus_max = draw_gpus(&rng);
        job.truth.duration = (usec_t)(600 + rng_below(&rng, 6000)) * USEC_SEC;
        job.spec.time_limit = job.truth.duration + (usec_t)rng_below(&rng, 1800) * USEC_SEC;
        held += job.spec.gpus;
        /* The first fill the cluster at once. */
        submit += held < gpus ? 0 : (usec_t)rng_below(&rng, 2 * gap + 1);
        if (trace_add(ret_trace, &job) < 0)
            bench_fail("no memory", NULL);
    }
}

int main(int argc, char **argv)
{
    char jobs[32];

    printf("Microseconds of CPU time a decision, %s jobs, load 0.97\n\n", bench_number(JOBS, jobs));
    printf("%-14s %-12s %-6s", "policy", "placement", "shared");
    for (int c = 0; c < CLUSTERS; c++) {
        char gpus[32];

        printf(" %9s", bench_number((uint64_t)clusters[c].gpus, gpus));
    }
    printf(" GPUs %12s %9s\n", "mean wait s*", "x of 64");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        double first = 0, last = 0, wait = 0;

        if ((argc > 1 && strcmp(argv[1], cases[i].policy) != 0) || (argc > 2 && strcmp(argv[2], cases[i].place) != 0) ||
            (argc > 3 && strcmp(argv[3], cases[i].shared) != 0))
            continue;
        printf("%-14s %-12s %-6s", cases[i].policy, cases[i].place, cases[i].shared);
        for (int c = 0; c < CLUSTERS; c++) {
            struct bench_run run = { .cluster = clusters[c].name,
                                     .policy = cases[i].policy,
                                     .settings = { { "place", cases[i].place } },
                                     .setting_count = 1,
                                     .load = load,
                                     .load_arg = &clusters[c].gpus,
                                     .vcs = *cases[i].shared ? 4 : 0,
                                     .cells = strcmp(cases[i].shared, "cells") == 0 };
            struct bench_figures f = bench_run(&run);

            last = f.cpu_seconds / (double)f.decisions * 1e6;
            if (c == 0)
                first = last;
            wait = f.avg_queue_seconds;
            printf(" %9.2f", last);
        }
        printf("      %12.0f %9.1f\n", wait, last / first);
    }
    printf("\n* on the largest cluster\n");
    return 0;
}
