/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - see trace.h. */
#include "model/trace.h"

#include <stdlib.h>

#include "base/alloc.h"

void trace_job_init(struct trace_job *job)
{
    *job = (struct trace_job){
        .spec = {
            .user = NAME_NONE,
            .vc = NAME_NONE,
            .model = NAME_NONE,
            .gpus = 1,
            .share = MGPU_ONE,
            .gpus_min = 1,
            .gpus_max = 1,
            .klass = CLASS_GUARANTEED,
            .tier = TIER_STANDARD,
            .slo = SLO_BEST_EFFORT,
        },
    };
}

int trace_fail(const struct trace *trace, size_t index, int code, struct error *err)
{
    const struct trace_job *job = &trace->jobs[index];

    if (!trace->file || !job->truth.line)
        return code;
    return error_prefix(err, code, "%s:%u", trace->file, job->truth.line);
}

void trace_done(struct trace *trace)
{
    mem_free(trace->jobs);
    mem_free(trace->file);
    names_done(&trace->users);
    names_done(&trace->vcs);
    names_done(&trace->models);
    names_done(&trace->skus);
    names_done(&trace->licenses);
    names_done(&trace->ids);
    *trace = (struct trace){ 0 };
}

int trace_add(struct trace *trace, const struct trace_job *job)
{
    int r = mem_grow((void **)&trace->jobs, &trace->capacity, trace->count + 1, TRACE_JOBS_MAX, sizeof(*trace->jobs));

    if (r < 0)
        return r;
    trace->jobs[trace->count++] = *job;
    return 0;
}

static int compare(const void *left, const void *right)
{
    const struct jobspec *a = &((const struct trace_job *)left)->spec;
    const struct jobspec *b = &((const struct trace_job *)right)->spec;

    if (a->submit != b->submit)
        return a->submit < b->submit ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

void trace_sort(struct trace *trace)
{
    size_t sorted = 1;

    while (sorted < trace->count && compare(&trace->jobs[sorted - 1], &trace->jobs[sorted]) <= 0)
        sorted++;
    if (sorted < trace->count)
        qsort(trace->jobs, trace->count, sizeof(*trace->jobs), compare);
}
