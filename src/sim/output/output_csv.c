/* SPDX-License-Identifier: Apache-2.0 */
/* output_csv.c - one line a job. See output.h; columns: docs/report.md. */
#include <inttypes.h>

#include "model/promise.h"
#include "model/trace.h"
#include "sim/metrics/metrics.h"
#include "sim/output/output.h"
#include "sim/output/output_text.h"

static const char *const outcome_names[OUTCOME_COUNT] = { "waiting", "running", "done", "failed", "refused" };

static void put_name(FILE *out, const struct names *names, uint32_t index)
{
    fputc(',', out);
    if (names && index < names->count)
        text_csv(out, names_get(names, index));
}

/* An empty field for what never happened. */
static void put_instant(FILE *out, usec_t at)
{
    fputc(',', out);
    if (at >= 0)
        text_usec(out, at);
}

static void put_span(FILE *out, usec_t span)
{
    fputc(',', out);
    text_usec(out, span);
}

static void put_header(FILE *out)
{
    fputs("job_id,gpus,submit_seconds,start_seconds,end_seconds,preemptions,migrations,attempts,outcome,vc,user,model,"
          "run_seconds,overhead_seconds,lost_seconds,queue_seconds,fair_share_seconds,fragmentation_seconds,nodes,"
          "locality",
          out);
    for (int reason = REASON_NONE + 1; reason < REASON_COUNT; reason++)
        fprintf(out, ",wait_%s_seconds", reason_name((enum reason)reason));
    fputs(",promise_seconds,offer_seconds,breach\n", out);
}

static void put_id(FILE *out, const struct trace *trace, int64_t id)
{
    if (trace && id >= 0 && (uint64_t)id < trace->ids.count)
        text_csv(out, names_get(&trace->ids, (uint32_t)id));
    else
        fprintf(out, "%" PRId64, id);
}

/* A share of a GPU is a fraction of one: 0.5. */
static void put_gpus(FILE *out, const struct job_result *job)
{
    fputc(',', out);
    if (job->share == MGPU_ONE)
        fprintf(out, "%" PRId32, job->gpus);
    else
        text_usec(out, (usec_t)job->gpus * job->share * (USEC_SEC / MGPU_ONE)); /* thousandths, as millionths */
}

void output_jobs_csv(FILE *out, const struct run_result *run, const struct trace *trace)
{
    put_header(out);
    for (size_t i = 0; i < run->job_count; i++) {
        const struct job_result *job = &run->jobs[i];

        put_id(out, trace, job->id);
        put_gpus(out, job);
        put_instant(out, job->submit);
        put_instant(out, job->start);
        put_instant(out, job->end);
        fprintf(out, ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%s", job->preemptions, job->migrations, job->attempts,
                job->outcome < OUTCOME_COUNT ? outcome_names[job->outcome] : "");
        put_name(out, trace ? &trace->vcs : NULL, job->vc);
        put_name(out, trace ? &trace->users : NULL, job->user);
        put_name(out, trace ? &trace->models : NULL, job->model);
        put_span(out, job->run);
        put_span(out, job->overhead);
        put_span(out, job->lost);
        put_instant(out, job_result_queue(job));
        put_span(out, job->fair_share);
        put_span(out, job->fragmentation);
        fprintf(out, ",%u,%u", job->nodes, job->locality);
        for (int reason = REASON_NONE + 1; reason < REASON_COUNT; reason++)
            put_span(out, job->waited[reason]);
        put_instant(out, job->promise ? job->promise : -1);
        put_instant(out, job->offer && job->offer != USEC_NEVER ? job->offer : -1);
        fprintf(out, ",%s\n", job->breach ? breach_name((enum breach)job->breach) : "");
    }
}
