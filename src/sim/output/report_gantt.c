/* SPDX-License-Identifier: Apache-2.0 */
/* report_gantt.c - the bars of the Gantt chart in the report's data. See report.h.
 *
 * A gang on eight GPUs of a node is one bar eight rows high, not eight bars. When there are still too many, the chart
 * shows the first part of the run, whole, and says up to when. Beside the bars stand marks: what was done to jobs that
 * ran already (moves, sizes, pairs, limits).
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/cluster.h"
#include "model/trace.h"
#include "sim/output/report.h"
#include "wire/text/json_write.h"

enum { BARS_MAX = 6000, BARS_ALL_MAX = 30000 };

struct bar {
    struct span span; /* of its first GPU */
    uint32_t gpus;
};

static int compare_gang(const void *left, const void *right)
{
    const struct span *a = left, *b = right;

    if (a->job != b->job)
        return a->job < b->job ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->gpu < b->gpu ? -1 : a->gpu > b->gpu;
}

static int compare_start(const void *left, const void *right)
{
    const struct bar *a = left, *b = right;

    if (a->span.from != b->span.from)
        return a->span.from < b->span.from ? -1 : 1;
    if (a->span.gpu != b->span.gpu)
        return a->span.gpu < b->span.gpu ? -1 : 1;
    /* The owner's lane is the first. */
    if ((a->span.how & SPAN_GUEST) != (b->span.how & SPAN_GUEST))
        return (a->span.how & SPAN_GUEST) < (b->span.how & SPAN_GUEST) ? -1 : 1;
    return a->span.job < b->span.job ? -1 : a->span.job > b->span.job;
}

/* The node each GPU is on; without a cluster, nodes of equal size. */
static void fill_nodes(uint32_t *node_of, const struct run_result *run, const struct cluster_spec *cluster)
{
    uint32_t gpu = 0, size = run->node_count ? (run->gpu_count + run->node_count - 1) / run->node_count : 0;

    if (cluster)
        for (uint32_t node = 0; node < cluster->node_count; node++)
            for (uint32_t i = 0; i < cluster->nodes[node].gpus && gpu < run->gpu_count; i++)
                node_of[gpu++] = node;
    for (; gpu < run->gpu_count; gpu++)
        node_of[gpu] = size ? gpu / size : 0;
}

static size_t join_gangs(struct bar *bars, struct span *spans, size_t count, const uint32_t *node_of)
{
    size_t made = 0;

    qsort(spans, count, sizeof(*spans), compare_gang);
    for (size_t i = 0; i < count; i++) {
        struct bar *last = made ? &bars[made - 1] : NULL;
        const struct span *span = &spans[i];

        if (last && last->span.job == span->job && last->span.from == span->from && last->span.to == span->to &&
            last->span.kind == span->kind && last->span.share == span->share && span->share == MGPU_ONE &&
            last->span.how == span->how && last->span.size == span->size && last->span.gpu + last->gpus == span->gpu &&
            node_of[last->span.gpu] == node_of[span->gpu])
            last->gpus++;
        else
            bars[made++] = (struct bar){ *span, 1 };
    }
    qsort(bars, made, sizeof(*bars), compare_start);
    return made;
}

static void put_seconds(struct json_write *json, usec_t at)
{
    json_write_double(json, NULL, round((double)at / 1e3) / 1e3);
}

static void put_nodes(struct json_write *json, const struct run_result *run, const struct cluster_spec *cluster,
                      const uint32_t *node_of)
{
    json_write_array(json, "nodes"); /* name, GPUs, name, GPUs, ... */
    for (uint32_t gpu = 0, end; gpu < run->gpu_count; gpu = end) {
        char name[24];

        for (end = gpu; end < run->gpu_count && node_of[end] == node_of[gpu];)
            end++;
        (void)snprintf(name, sizeof(name), "node %" PRIu32, node_of[gpu]);
        if (cluster && node_of[gpu] < cluster->node_count)
            json_write_text(json, NULL, names_get(&cluster->names, cluster->nodes[node_of[gpu]].name));
        else
            json_write_text(json, NULL, name);
        json_write_u64(json, NULL, end - gpu);
    }
    json_write_close(json);
}

/* One job a bar belongs to: id, GPUs, virtual cluster, user. */
static void put_job(struct json_write *json, const struct job_result *job, const struct trace *trace)
{
    char id[24];

    (void)snprintf(id, sizeof(id), "%" PRId64, job->id);
    if (trace && job->id >= 0 && (uint64_t)job->id < trace->ids.count)
        json_write_text(json, NULL, names_get(&trace->ids, (uint32_t)job->id));
    else
        json_write_text(json, NULL, id);
    json_write_double(json, NULL, (double)job->gpus * job->share / MGPU_ONE);
    json_write_text(json, NULL, trace && job->vc < trace->vcs.count ? names_get(&trace->vcs, job->vc) : "");
    json_write_text(json, NULL, trace && job->user < trace->users.count ? names_get(&trace->users, job->user) : "");
}

struct gantt_memory {
    struct bar *bars;
    struct span *spans;
    uint32_t *node_of, *number; /* jobs are numbered anew, in the order in which they appear; UINT32_MAX = not yet */
};

static usec_t first_of(const struct run_result *run)
{
    return run->timeline.count ? run->timeline.start : run->job_count ? run->jobs[0].submit : 0;
}

static void put_bars(struct json_write *json, const struct run_result *run, const struct gantt_memory *memory,
                     size_t count, const struct trace *trace)
{
    const struct bar *bars = memory->bars;
    usec_t first = first_of(run);
    uint32_t next = 0;

    json_write_array(json, "jobs");
    for (size_t i = 0; i < count; i++)
        if (memory->number[bars[i].span.job] == UINT32_MAX) {
            memory->number[bars[i].span.job] = next++;
            put_job(json, &run->jobs[bars[i].span.job], trace);
        }
    json_write_close(json);
    json_write_array(json, "bars"); /* from, length, first GPU, GPUs, job, kind, share, how, size: nine numbers each */
    for (size_t i = 0; i < count; i++) {
        put_seconds(json, bars[i].span.from - first);
        put_seconds(json, bars[i].span.to - bars[i].span.from);
        json_write_u64(json, NULL, bars[i].span.gpu);
        json_write_u64(json, NULL, bars[i].gpus);
        json_write_u64(json, NULL, memory->number[bars[i].span.job]);
        json_write_u64(json, NULL, bars[i].span.kind);
        json_write_i64(json, NULL, bars[i].span.share);
        json_write_u64(json, NULL, bars[i].span.how);
        json_write_u64(json, NULL, bars[i].span.size);
    }
    json_write_close(json);
}

/* Of jobs that have a bar, before `until`: at, job, kind, before, after. A pair's other job is numbered as the bars
 * number it, -1 where it has none. */
static void put_marks(struct json_write *json, const struct run_result *run, const struct gantt_memory *memory,
                      usec_t until)
{
    json_write_array(json, "marks");
    for (size_t i = 0; i < run->mark_count; i++) {
        const struct mark *mark = &run->marks[i];
        int64_t before = mark->before;

        if (mark->job >= run->job_count || memory->number[mark->job] == UINT32_MAX || (until && mark->at >= until))
            continue;
        if (mark->kind == MARK_PACK || mark->kind == MARK_UNPACK)
            before = before < 0 || (uint64_t)before >= run->job_count || memory->number[before] == UINT32_MAX
                         ? -1
                         : (int64_t)memory->number[before];
        put_seconds(json, mark->at - first_of(run));
        json_write_u64(json, NULL, memory->number[mark->job]);
        json_write_u64(json, NULL, mark->kind);
        json_write_i64(json, NULL, before);
        json_write_i64(json, NULL, mark->after);
    }
    json_write_close(json);
}

static void gantt_done(struct gantt_memory *memory)
{
    mem_free(memory->bars);
    mem_free(memory->spans);
    mem_free(memory->node_of);
    mem_free(memory->number);
}

static int gantt_init(struct gantt_memory *memory, const struct run_result *run)
{
    memory->bars = mem_zalloc(run->span_count, sizeof(*memory->bars));
    memory->spans = mem_zalloc(run->span_count, sizeof(*memory->spans));
    memory->node_of = mem_zalloc(run->gpu_count, sizeof(*memory->node_of));
    memory->number = mem_zalloc(run->job_count, sizeof(*memory->number));
    if (!memory->bars || !memory->spans || !memory->node_of || !memory->number)
        return -ENOMEM;
    memset(memory->number, 0xff, run->job_count * sizeof(*memory->number));
    return 0;
}

/* Bars of the cluster and the trace there is, in case the driver was wrong; all within the shown time. */
static size_t copy_spans(struct span *spans, const struct run_result *run)
{
    size_t count = 0;

    for (size_t i = 0; i < run->span_count; i++)
        if (run->spans[i].gpu < run->gpu_count && run->spans[i].job < run->job_count &&
            run->spans[i].to > run->spans[i].from)
            spans[count++] = run->spans[i];
    return count;
}

int report_data_gantt(struct json_write *json, const struct report_input *input, const struct run_result *run)
{
    __attribute__((cleanup(gantt_done))) struct gantt_memory memory = { 0 };
    size_t max = BARS_ALL_MAX / input->groups->count, count;
    usec_t until = run->spans_until;
    int r;

    if (!run->span_count || run->gpu_count > SPAN_GPUS_MAX)
        return 0;
    r = gantt_init(&memory, run);
    if (r < 0)
        return r;
    fill_nodes(memory.node_of, run, report_cluster(input, run));
    count = join_gangs(memory.bars, memory.spans, copy_spans(memory.spans, run), memory.node_of);
    max = max < BARS_MAX ? max : BARS_MAX;
    if (count > max) {
        until = memory.bars[max].span.from;
        count = max;
    }
    if (run->mark_count > max && (!until || run->marks[max].at < until))
        until = run->marks[max].at; /* bars that began later are there, and not shown */
    json_write_object(json, "gantt");
    if (until)
        json_write_double(json, "until", (double)(until - run->timeline.start) / (double)USEC_SEC);
    put_nodes(json, run, report_cluster(input, run), memory.node_of);
    put_bars(json, run, &memory, count, report_trace(input, run));
    put_marks(json, run, &memory, until);
    json_write_close(json);
    return 0;
}
