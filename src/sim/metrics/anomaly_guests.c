/* SPDX-License-Identifier: Apache-2.0 */
/* anomaly_guests.c - does it matter to those who are guaranteed cells what opportunistic jobs do in them?
 *
 * The trace is replayed with every job a second time, as an opportunistic one of its virtual cluster: twice the work,
 * half of which is owed nothing. The guaranteed half must wait as it does alone.
 */
#include <errno.h>

#include "base/alloc.h"
#include "sim/metrics/anomaly_internal.h"

static int with_copies(const struct trace *trace, struct trace *ret_twice, int64_t *ret_first)
{
    struct trace twice = *trace; /* names are shared */
    int64_t first = 0;

    twice.jobs = mem_zalloc(2 * trace->count, sizeof(*twice.jobs));
    if (!twice.jobs)
        return -ENOMEM;
    for (size_t i = 0; i < trace->count; i++)
        first = trace->jobs[i].spec.id >= first ? trace->jobs[i].spec.id + 1 : first;
    for (size_t i = 0; i < trace->count; i++) {
        twice.jobs[2 * i] = twice.jobs[2 * i + 1] = trace->jobs[i];
        twice.jobs[2 * i + 1].spec.id = first + (int64_t)i;
        twice.jobs[2 * i + 1].spec.klass = CLASS_OPPORTUNISTIC;
    }
    twice.count = 2 * trace->count;
    trace_sort(&twice);
    *ret_twice = twice;
    *ret_first = first;
    return 0;
}

int anomaly_guests(const struct cluster_spec *cluster, const struct trace *trace, const struct anomaly_ask *ask,
                   struct anomaly *a, struct error *err)
{
    struct run_result result = { 0 };
    struct trace twice;
    int64_t first;
    int r = with_copies(trace, &twice, &first);

    if (r < 0)
        return error_set(err, r, "no memory for %zu jobs", 2 * trace->count);
    r = anomaly_replay(cluster, &twice, ask->request, ask->seed, &result, err);
    for (size_t i = 0, k = 0; r == 0 && i < twice.count; i++) {
        usec_t wait = anomaly_waited(&result.jobs[i]);

        if (twice.jobs[i].spec.id >= first)
            continue;
        if (ask->alone[k] >= 0 && result.jobs[i].outcome == OUTCOME_DONE) {
            a->guests.jobs++;
            a->guests.longer += wait > ask->alone[k];
            a->guests.wait += (double)wait / (double)USEC_SEC;
        }
        k++;
    }
    if (r == 0)
        a->guests.use = anomaly_use(&result, cluster, trace);
    run_result_done(&result);
    mem_free(twice.jobs);
    return r;
}
