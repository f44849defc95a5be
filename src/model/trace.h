/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* trace.h - a workload: jobs as submitted, and beside each the truth that only the world model may read. */
#include <stddef.h>
#include <stdint.h>

#include "base/names.h"
#include "model/jobspec.h"

#define TRACE_JOBS_MAX ((size_t)1 << 24)

struct truth {
    usec_t duration;     /* run time alone on the requested GPUs, best placement; > 0 */
    int64_t iterations;  /* 0 = not told; with a speed table the work is iterations, not duration */
    usec_t launch, save; /* time it holds its GPUs before it begins, and after its last use of them */
    usec_t fail_after;   /* progress at which an attempt fails; 0 = never */
    uint8_t fail;        /* enum fail_class of that failure */
    uint8_t exit;        /* the exit code then; 0 = none is told */
    uint8_t fail_times;  /* how many attempts fail so before one goes through; 255 = all */
    uint32_t line;       /* of the file it is from; 0 = of none */
};

struct trace_job {
    struct jobspec spec;
    struct truth truth;
};

/* A rigid job of one whole GPU, standard tier, that names nobody: what a file that says no more means. */
void trace_job_init(struct trace_job *job);

struct trace {
    struct trace_job *jobs; /* owned; sorted by (submit, id) */
    size_t count, capacity;
    struct names users, vcs, models;
    struct names skus;     /* bit i of a job's sku_mask means skus[i], until the mask is bound to a cluster */
    struct names licenses; /* number i of a job's licences means licenses[i], likewise; at most LICENSES_MAX */
    char *file;            /* owned; what the lines are of; NULL */
    struct names ids;      /* the original text, where ids are not numbers: ids[spec.id]; else empty */
};

void trace_done(struct trace *trace);

/* Puts FILE:LINE of the job before the words, where it has them. Returns the code. */
struct error;
int trace_fail(const struct trace *trace, size_t index, int code, struct error *err);

/* Appends a copy. -ENOMEM, -E2BIG. */
int trace_add(struct trace *trace, const struct trace_job *job);

/* Sorts by (submit, id), the order in which everything else expects jobs. */
void trace_sort(struct trace *trace);
