/* SPDX-License-Identifier: Apache-2.0 */
/* trace_write.c - see trace.h: the writer. A column is in use when some job says more in it than a file without the
 * column would mean. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "model/cluster.h"
#include "wire/csv.h"
#include "wire/decimal.h"
#include "wire/side.h"
#include "wire/topology.h"
#include "wire/trace.h"
#include "wire/trace_columns.h"

static const char *const names[] = {
#define X(code, name, required) name,
    TRACE_COLUMNS(X)
#undef X
};

/* What a file says by deadlines alone. */
static uint8_t slo_implied(const struct jobspec *spec)
{
    if (spec->deadline_count == 0)
        return SLO_BEST_EFFORT;
    return spec->deadline_count == 1 ? SLO_STRICT : SLO_SOFT;
}

/* The same of what it asks for beside a number of GPUs. */
static bool asks_beside(enum trace_column column, const struct jobspec *spec)
{
    if (column == COLUMN_GPUS_MIN)
        return spec->gpus_min != spec->gpus;
    if (column == COLUMN_GPUS_MAX)
        return spec->gpus_max != spec->gpus;
    if (column == COLUMN_PER_NODE)
        return spec->per_node != 0;
    if (column == COLUMN_CELLS)
        return spec->unit != 0;
    if (column == COLUMN_TOPOLOGY)
        return spec->within != 0;
    if (column == COLUMN_TASKS)
        return spec->tasks > 1;
    return column == COLUMN_CPUS ? spec->mcpus != 0 : spec->host_mib != 0;
}

/* What is known of how it uses its GPUs. */
static bool tells(enum trace_column column, const struct jobspec *spec)
{
    const struct {
        enum trace_column column;
        int64_t value;
    } told[] = {
        { COLUMN_SERVERS, spec->servers },
        { COLUMN_GPU_SERVERS, spec->gpu_servers },
        { COLUMN_BANDWIDTH, spec->bandwidth },
        { COLUMN_MEMORY, spec->memory_mib },
        { COLUMN_MEMORY_PEAK, spec->memory_peak_mib },
        { COLUMN_UTILISATION, spec->utilisation },
        { COLUMN_BATCH, spec->batch },
        { COLUMN_SKEW, spec->skew_permille },
        { COLUMN_TP, spec->tp },
        { COLUMN_PP, spec->pp },
        { COLUMN_SPLICE_MAX, spec->splice_max },
        { COLUMN_RETRIES, spec->retries },
        { COLUMN_SKU, spec->sku_mask },
        { COLUMN_SIDES, spec->side_count },
        { COLUMN_LICENSES, spec->license_count },
    };

    for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++)
        if (told[i].column == column)
            return told[i].value != 0;
    return false;
}

/* Does the job say something in this column? */
static bool in_use(enum trace_column column, const struct trace_job *job)
{
    const struct jobspec *spec = &job->spec;

    switch (column) {
    case COLUMN_ID:
    case COLUMN_SUBMIT:
    case COLUMN_GPUS:
        return true;
    case COLUMN_DURATION:
    case COLUMN_ITERATIONS:
        return (column == COLUMN_DURATION ? job->truth.duration : job->truth.iterations) > 0;
    case COLUMN_SHARE:
        return spec->share != MGPU_ONE;
    case COLUMN_GPUS_MIN:
    case COLUMN_GPUS_MAX:
    case COLUMN_PER_NODE:
    case COLUMN_CELLS:
    case COLUMN_TOPOLOGY:
    case COLUMN_TASKS:
    case COLUMN_CPUS:
    case COLUMN_HOST_MEMORY:
        return asks_beside(column, spec);
    case COLUMN_LAUNCH:
        return job->truth.launch != 0;
    case COLUMN_SAVE:
        return job->truth.save != 0;
    case COLUMN_USER:
        return spec->user != NAME_NONE;
    case COLUMN_VC:
        return spec->vc != NAME_NONE;
    case COLUMN_MODEL:
        return spec->model != NAME_NONE;
    case COLUMN_CLASS:
        return spec->klass != CLASS_GUARANTEED;
    case COLUMN_TIER:
        return spec->tier != TIER_STANDARD;
    case COLUMN_PRIORITY:
        return spec->priority != 0;
    case COLUMN_SLO:
        return spec->slo != slo_implied(spec);
    case COLUMN_DEADLINES:
        return spec->deadline_count > 0;
    case COLUMN_SERVERS:
    case COLUMN_GPU_SERVERS:
    case COLUMN_BANDWIDTH:
    case COLUMN_MEMORY:
    case COLUMN_MEMORY_PEAK:
    case COLUMN_UTILISATION:
    case COLUMN_BATCH:
    case COLUMN_SKEW:
    case COLUMN_TP:
    case COLUMN_PP:
    case COLUMN_SPLICE_MAX:
    case COLUMN_SIDES:
    case COLUMN_LICENSES:
    case COLUMN_RETRIES:
    case COLUMN_SKU:
        return tells(column, spec);
    case COLUMN_ESTIMATE:
        return spec->estimate != 0;
    case COLUMN_LIMIT:
        return spec->time_limit != 0;
    case COLUMN_FAIL:
    case COLUMN_FAIL_AFTER:
        return job->truth.fail != FAIL_NONE;
    case COLUMN_FAIL_TIMES:
        return job->truth.fail != FAIL_NONE && job->truth.fail_times != FAIL_TIMES_ALL;
    case COLUMN_COUNT:
        break;
    }
    return false;
}

static void deadlines_put(struct buf *out, const struct jobspec *spec)
{
    for (uint8_t i = 0; i < spec->deadline_count; i++) {
        if (i)
            buf_char(out, '|');
        decimal_put(out, spec->deadlines[i].at, USEC_SEC);
        buf_char(out, ':');
        decimal_put(out, spec->deadlines[i].value, 1);
    }
}

/* By name, so that the text does not depend on the order in which the types were met. */
static void skus_put(struct buf *out, const struct trace *trace, uint32_t mask)
{
    struct buf list = BUF_INIT((NAME_LENGTH_MAX + 1) * SKUS_MAX);

    while (mask) {
        uint32_t first = (uint32_t)__builtin_ctz(mask);

        for (uint32_t i = first + 1; i < trace->skus.count; i++)
            if (mask & 1u << i && strcmp(names_get(&trace->skus, i), names_get(&trace->skus, first)) < 0)
                first = i;
        mask &= ~(1u << first);
        if (list.size)
            buf_char(&list, '|');
        buf_text(&list, names_get(&trace->skus, first));
    }
    if (list.error)
        out->error = list.error;
    else
        csv_put(out, list.data, ',');
    buf_done(&list);
}

/* By name too. */
static void licenses_put(struct buf *out, const struct trace *trace, const struct jobspec *spec)
{
    const char *last = "";

    for (uint32_t i = 0; i < spec->license_count; i++) {
        const struct license_need *next = NULL;

        for (uint32_t k = 0; k < spec->license_count; k++) {
            const char *name = names_get(&trace->licenses, spec->licenses[k].license);

            if (strcmp(name, last) > 0 && (!next || strcmp(name, names_get(&trace->licenses, next->license)) < 0))
                next = &spec->licenses[k];
        }
        if (!next)
            return; /* a name comes once */
        last = names_get(&trace->licenses, next->license);
        buf_printf(out, "%s%s:%u", i ? "|" : "", last, next->count);
    }
}

static void id_put(struct buf *out, const struct trace *trace, int64_t id)
{
    if (trace->ids.count)
        csv_put(out, names_get(&trace->ids, (uint32_t)id), ',');
    else
        decimal_put(out, id, 1);
}

/* The columns whose value is text. False: it is a number, see number_of(). */
static bool text_put(struct buf *out, const struct trace *trace, const struct trace_job *job, enum trace_column column)
{
    const struct jobspec *spec = &job->spec;

    if (column == COLUMN_ID)
        id_put(out, trace, spec->id);
    else if (column == COLUMN_USER)
        csv_put(out, names_get(&trace->users, spec->user), ',');
    else if (column == COLUMN_VC)
        csv_put(out, names_get(&trace->vcs, spec->vc), ',');
    else if (column == COLUMN_MODEL)
        csv_put(out, names_get(&trace->models, spec->model), ',');
    else if (column == COLUMN_CLASS)
        buf_text(out, trace_classes[spec->klass]);
    else if (column == COLUMN_TIER)
        buf_text(out, trace_tiers[spec->tier]);
    else if (column == COLUMN_SLO)
        buf_text(out, trace_slos[spec->slo]);
    else if (column == COLUMN_DEADLINES)
        deadlines_put(out, spec);
    else if (column == COLUMN_TOPOLOGY)
        buf_printf(out, "%s%s", topology_level(spec->within), spec->within_must ? ":must" : "");
    else if (column == COLUMN_CELLS)
        buf_printf(out, "%s:%u", topology_level(spec->unit), spec->per_unit);
    else if (column == COLUMN_SKU)
        skus_put(out, trace, spec->sku_mask);
    else if (column == COLUMN_SIDES)
        sides_put(out, &trace->skus, spec);
    else if (column == COLUMN_LICENSES)
        licenses_put(out, trace, spec);
    else if (column == COLUMN_FAIL)
        buf_text(out, trace_fails[job->truth.fail]);
    else
        return false;
    return true;
}

static int64_t number_of(const struct trace_job *job, enum trace_column column, int64_t *ret_scale)
{
    const struct jobspec *spec = &job->spec;
    const struct {
        int64_t value, scale;
    } table[COLUMN_COUNT] = {
        [COLUMN_SUBMIT] = { spec->submit, USEC_SEC },
        [COLUMN_DURATION] = { job->truth.duration, USEC_SEC },
        [COLUMN_ITERATIONS] = { job->truth.iterations, 1 },
        [COLUMN_GPUS] = { spec->gpus, 1 },
        [COLUMN_SHARE] = { spec->share, MGPU_ONE },
        [COLUMN_GPUS_MIN] = { spec->gpus_min, 1 },
        [COLUMN_GPUS_MAX] = { spec->gpus_max, 1 },
        [COLUMN_PER_NODE] = { spec->per_node, 1 },
        [COLUMN_TASKS] = { spec->tasks, 1 },
        [COLUMN_CPUS] = { spec->mcpus, 1000 },
        [COLUMN_HOST_MEMORY] = { spec->host_mib, 1 },
        [COLUMN_SERVERS] = { spec->servers, 1 },
        [COLUMN_GPU_SERVERS] = { spec->gpu_servers, 1 },
        [COLUMN_BANDWIDTH] = { spec->bandwidth, 1 },
        [COLUMN_LAUNCH] = { job->truth.launch, USEC_SEC },
        [COLUMN_SAVE] = { job->truth.save, USEC_SEC },
        [COLUMN_PRIORITY] = { spec->priority, 1 },
        [COLUMN_MEMORY] = { spec->memory_mib, 1 },
        [COLUMN_MEMORY_PEAK] = { spec->memory_peak_mib, 1 },
        [COLUMN_UTILISATION] = { spec->utilisation, 1 },
        [COLUMN_BATCH] = { spec->batch, 1 },
        [COLUMN_SKEW] = { spec->skew_permille, 1000 },
        [COLUMN_TP] = { spec->tp, 1 },
        [COLUMN_PP] = { spec->pp, 1 },
        [COLUMN_SPLICE_MAX] = { spec->splice_max, 1 },
        [COLUMN_ESTIMATE] = { spec->estimate, USEC_SEC },
        [COLUMN_LIMIT] = { spec->time_limit, USEC_SEC },
        [COLUMN_RETRIES] = { spec->retries, 1 },
        [COLUMN_FAIL_AFTER] = { job->truth.fail_after, USEC_SEC },
        [COLUMN_FAIL_TIMES] = { job->truth.fail_times, 1 },
    };

    assert(table[column].scale > 0);
    *ret_scale = table[column].scale;
    return table[column].value;
}

static void value_put(struct buf *out, const struct trace *trace, const struct trace_job *job, enum trace_column column)
{
    int64_t value, scale;

    if (!in_use(column, job) || text_put(out, trace, job, column))
        return;
    value = number_of(job, column, &scale);
    decimal_put(out, value, scale);
}

int trace_write(const struct trace *trace, struct bytes *ret_bytes, struct error *err)
{
    struct buf out = BUF_INIT((size_t)1 << 36);
    enum trace_column used[COLUMN_COUNT];
    size_t used_count = 0;

    for (enum trace_column column = 0; column < COLUMN_COUNT; column++) {
        bool use = column == COLUMN_ID || column == COLUMN_SUBMIT || column == COLUMN_GPUS;

        for (size_t i = 0; i < trace->count && !use; i++)
            use = in_use(column, &trace->jobs[i]);
        if (use)
            used[used_count++] = column;
    }
    for (size_t c = 0; c < used_count; c++) {
        buf_text(&out, names[used[c]]);
        buf_char(&out, c + 1 < used_count ? ',' : '\n');
    }
    for (size_t i = 0; i < trace->count && !out.error; i++) {
        for (size_t c = 0; c < used_count; c++) {
            value_put(&out, trace, &trace->jobs[i], used[c]);
            buf_char(&out, c + 1 < used_count ? ',' : '\n');
        }
    }
    return buf_take(&out, ret_bytes, err);
}
