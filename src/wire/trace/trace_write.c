/* SPDX-License-Identifier: Apache-2.0 */
/* trace_write.c - see trace.h: the writer. A column is in use when some job says more in it than a file without the
 * column would mean. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "model/cluster.h"
#include "wire/job/gang_part.h"
#include "wire/job/topology.h"
#include "wire/text/csv.h"
#include "wire/text/decimal.h"
#include "wire/trace/trace.h"
#include "wire/trace/trace_columns.h"

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

/* Does the job say something in this column? */
static bool in_use(enum trace_column column, const struct trace_job *job)
{
    const struct jobspec *spec = &job->spec;
    const struct truth *truth = &job->truth;
    const bool used[COLUMN_COUNT] = {
        [COLUMN_ID] = true,
        [COLUMN_SUBMIT] = true,
        [COLUMN_DURATION] = truth->duration > 0,
        [COLUMN_ITERATIONS] = truth->iterations > 0,
        [COLUMN_GPUS] = true,
        [COLUMN_SHARE] = spec->share != MGPU_ONE,
        [COLUMN_PER_NODE] = spec->per_node != 0,
        [COLUMN_CELLS] = spec->unit != 0,
        [COLUMN_TOPOLOGY] = spec->within != 0,
        [COLUMN_TASKS] = spec->tasks > 1,
        [COLUMN_CPUS] = spec->mcpus != 0,
        [COLUMN_HOST_MEMORY] = spec->host_mib != 0,
        [COLUMN_GPUS_MIN] = spec->gpus_min != spec->gpus,
        [COLUMN_GPUS_MAX] = spec->gpus_max != spec->gpus,
        [COLUMN_SERVERS] = spec->servers != 0,
        [COLUMN_GPU_SERVERS] = spec->gpu_servers != 0,
        [COLUMN_BANDWIDTH] = spec->bandwidth != 0,
        [COLUMN_LAUNCH] = truth->launch != 0,
        [COLUMN_SAVE] = truth->save != 0,
        [COLUMN_USER] = spec->user != NAME_NONE,
        [COLUMN_VC] = spec->vc != NAME_NONE,
        [COLUMN_MODEL] = spec->model != NAME_NONE,
        [COLUMN_CLASS] = spec->klass != CLASS_GUARANTEED,
        [COLUMN_TIER] = spec->tier != TIER_STANDARD,
        [COLUMN_PRIORITY] = spec->priority != 0,
        [COLUMN_SLO] = spec->slo != slo_implied(spec),
        [COLUMN_DEADLINES] = spec->deadline_count > 0,
        [COLUMN_MEMORY] = spec->memory_mib != 0,
        [COLUMN_MEMORY_PEAK] = spec->memory_peak_mib != 0,
        [COLUMN_UTILISATION] = spec->utilisation != 0,
        [COLUMN_BATCH] = spec->batch != 0,
        [COLUMN_SKEW] = spec->skew_permille != 0,
        [COLUMN_TP] = spec->tp != 0,
        [COLUMN_PP] = spec->pp != 0,
        [COLUMN_SPLICE_MAX] = spec->splice_max != 0,
        [COLUMN_ESTIMATE] = spec->estimate != 0,
        [COLUMN_LIMIT] = spec->time_limit != 0,
        [COLUMN_SKU] = spec->sku_mask != 0,
        [COLUMN_SIDES] = spec->side_count != 0,
        [COLUMN_LICENSES] = spec->license_count != 0,
        [COLUMN_PREEMPT] = spec->preempt != PREEMPT_REQUEUE,
        [COLUMN_MIN_RUNTIME] = spec->min_runtime != 0,
        [COLUMN_RETRIES] = spec->retries != 0,
        [COLUMN_RETRY_ON] = spec->retry_on_count != 0,
        [COLUMN_FAIL] = truth->fail != FAIL_NONE,
        [COLUMN_EXIT] = truth->exit != 0,
        [COLUMN_FAIL_AFTER] = truth->fail != FAIL_NONE,
        [COLUMN_FAIL_TIMES] = truth->fail != FAIL_NONE && truth->fail_times != FAIL_TIMES_ALL,
    };

    return used[column];
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

static void codes_put(struct buf *out, const struct jobspec *spec)
{
    for (uint32_t i = 0; i < spec->retry_on_count; i++)
        buf_printf(out, "%s%u", i ? "|" : "", spec->retry_on[i]);
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
    else if (column == COLUMN_PREEMPT)
        buf_text(out, trace_preempts[spec->preempt]);
    else if (column == COLUMN_RETRY_ON)
        codes_put(out, spec);
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
        [COLUMN_MIN_RUNTIME] = { spec->min_runtime, USEC_SEC },
        [COLUMN_EXIT] = { job->truth.exit, 1 },
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
