/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - see trace.h: the reader. The columns are listed once, in trace_columns.h, for it and the writer. */
#include "wire/trace/trace.h"

#include <errno.h>
#include <string.h>

#include "model/cluster.h"
#include "wire/job/gang_part.h"
#include "wire/job/license.h"
#include "wire/job/topology.h"
#include "wire/text/decimal.h"
#include "wire/trace/rows.h"
#include "wire/trace/trace_columns.h"

const char *const trace_classes[CLASS_COUNT] = { "guaranteed", "opportunistic", "auto" };
const char *const trace_tiers[TIER_COUNT] = { "premium", "standard", "basic" };
const char *const trace_slos[SLO_COUNT] = { "best_effort", "soft", "strict" };
const char *const trace_fails[TRACE_FAILS] = { "none", "user", "system", "unknown", "memory", "timeout" };
const char *const trace_preempts[PREEMPT_MODES] = { "requeue", "suspend", "checkpoint", "cancel", "never" };

static const struct csv_column columns[] = {
#define X(code, name, required) [COLUMN_##code] = { name, required, 0 },
    TRACE_COLUMNS(X)
#undef X
};

static int deadline_parse(const char *at, const char *end, struct deadline *ret_deadline)
{
    const char *colon = rows_until(at, end, ':');
    int64_t value = 10; /* in full */

    if (colon < end &&
        (decimal_parse_i64(colon + 1, (size_t)(end - colon - 1), &value) < 0 || value < 0 || value > 1000))
        return -EINVAL;
    ret_deadline->value = (int32_t)value;
    if (decimal_parse(at, (size_t)(colon - at), USEC_SEC, &ret_deadline->at) < 0)
        return -EINVAL;
    return 0;
}

static int deadlines_read(struct rows *rows, struct jobspec *spec, struct error *err)
{
    int index = rows_at(rows, COLUMN_DEADLINES);
    const struct csv_field *field = csv_get(&rows->csv, index);
    const char *at = field->text, *end = at + field->length, *stop;
    usec_t last = spec->submit;

    for (;; at = stop + 1) {
        struct deadline deadline;

        stop = rows_until(at, end, '|');
        if (deadline_parse(at, stop, &deadline) < 0 || deadline.at > CSV_SPAN_MAX)
            return csv_expected(&rows->csv, index, err, "SECONDS:VALUE, several divided by '|'");
        if (deadline.at <= last)
            return csv_expected(&rows->csv, index, err,
                                "deadlines after the submission, each later than the one before");
        if (spec->deadline_count == DEADLINES_MAX)
            return csv_expected(&rows->csv, index, err, "at most %d deadlines", DEADLINES_MAX);
        if (spec->deadline_count && deadline.value > spec->deadlines[spec->deadline_count - 1].value)
            return csv_expected(&rows->csv, index, err, "a later deadline worth no more than an earlier one");
        spec->deadlines[spec->deadline_count++] = deadline;
        last = deadline.at;
        if (stop == end)
            break;
    }
    spec->slo = spec->deadline_count == 1 ? SLO_STRICT : SLO_SOFT;
    return 0;
}

/* A job that has no GPUs has tasks, and CPUs with each. */
static int tasks_read(struct rows *rows, struct jobspec *spec, struct error *err)
{
    int64_t value;
    int r = 0;

    if (rows_has(rows, COLUMN_CPUS)) {
        r = csv_scaled(&rows->csv, rows_at(rows, COLUMN_CPUS), 1000, (int64_t)1000 << 16, &value, err);
        spec->mcpus = r < 0 ? 0 : (uint32_t)value;
    }
    if (r == 0 && rows_has(rows, COLUMN_HOST_MEMORY)) {
        r = csv_i64(&rows->csv, rows_at(rows, COLUMN_HOST_MEMORY), 0, 1 << 30, &value, err);
        spec->host_mib = r < 0 ? 0 : (uint32_t)value;
    }
    if (r < 0)
        return r;
    if (rows_has(rows, COLUMN_TASKS)) {
        r = csv_i64(&rows->csv, rows_at(rows, COLUMN_TASKS), 1, TASKS_MAX, &value, err);
        if (r == 0 && spec->gpus)
            r = csv_fail(&rows->csv, rows_at(rows, COLUMN_TASKS), -EINVAL, err,
                         "tasks are told of jobs without GPUs; this one has %d", spec->gpus);
        spec->tasks = r < 0 ? 0 : (int32_t)value;
    } else if (spec->gpus == 0) {
        spec->tasks = 1;
    }
    if (r == 0 && spec->gpus == 0 && spec->mcpus == 0)
        r = csv_fail(&rows->csv, rows_at(rows, COLUMN_GPUS), -EINVAL, err, "a job without GPUs needs 'cpus'");
    return r;
}

/* How its GPUs are to lie. */
static int shape_read(struct rows *rows, struct jobspec *spec, struct error *err)
{
    const struct csv_field *field;
    int64_t value;
    int r = 0;

    if (spec->gpus == 0)
        return 0;
    if (rows_has(rows, COLUMN_PER_NODE)) {
        r = csv_i64(&rows->csv, rows_at(rows, COLUMN_PER_NODE), 1, NODE_GPUS_MAX, &value, err);
        if (r == 0 && spec->gpus % value)
            r = csv_expected(&rows->csv, rows_at(rows, COLUMN_PER_NODE), err, "a number that divides its %d GPUs",
                             spec->gpus);
        spec->per_node = r < 0 ? 0 : (uint16_t)value;
    }
    if (r == 0 && rows_has(rows, COLUMN_TOPOLOGY)) {
        field = csv_get(&rows->csv, rows_at(rows, COLUMN_TOPOLOGY));
        if (topology_parse(field->text, field->length, &spec->within, &spec->within_must) < 0)
            r = csv_expected(&rows->csv, rows_at(rows, COLUMN_TOPOLOGY), err, TOPOLOGY_WORDS);
    }
    if (r == 0 && rows_has(rows, COLUMN_CELLS)) {
        field = csv_get(&rows->csv, rows_at(rows, COLUMN_CELLS));
        if (cells_parse(field->text, field->length, &spec->unit, &spec->per_unit) < 0)
            r = csv_expected(&rows->csv, rows_at(rows, COLUMN_CELLS), err, "LEVEL:GPUS such as socket:4");
        else if (spec->gpus % spec->per_unit)
            r = csv_expected(&rows->csv, rows_at(rows, COLUMN_CELLS), err, "cells that divide its %d GPUs", spec->gpus);
    }
    return r;
}

static int sizes_read(struct rows *rows, struct jobspec *spec, struct error *err)
{
    int64_t value;
    int r = 0;

    if (rows_has(rows, COLUMN_SHARE)) {
        r = csv_scaled(&rows->csv, rows_at(rows, COLUMN_SHARE), MGPU_ONE, MGPU_ONE, &value, err);
        if (r < 0)
            return r;
        if (value < 1)
            return csv_expected(&rows->csv, rows_at(rows, COLUMN_SHARE), err, "a share of at least 0.001 GPU");
        if (value < MGPU_ONE && spec->gpus > 1)
            return csv_fail(&rows->csv, rows_at(rows, COLUMN_SHARE), -EINVAL, err,
                            "a job of %d GPUs cannot take a share of each", spec->gpus);
        spec->share = (mgpu_t)value;
    }
    if (rows_has(rows, COLUMN_GPUS_MIN)) {
        r = csv_i64(&rows->csv, rows_at(rows, COLUMN_GPUS_MIN), spec->gpus ? 1 : 0, spec->gpus, &value, err);
        if (r < 0)
            return r;
        spec->gpus_min = (int32_t)value;
    }
    if (rows_has(rows, COLUMN_GPUS_MAX)) {
        r = csv_i64(&rows->csv, rows_at(rows, COLUMN_GPUS_MAX), spec->gpus, GANG_GPUS_MAX, &value, err);
        if (r < 0)
            return r;
        spec->gpus_max = (int32_t)value;
    }
    if (spec->share < MGPU_ONE && spec->gpus_max > 1)
        return csv_fail(&rows->csv, rows_at(rows, COLUMN_GPUS_MAX), -EINVAL, err,
                        "a job with a share of one GPU cannot grow");
    return 0;
}

static int work_read(struct rows *rows, struct trace_job *job, struct error *err)
{
    int r = 0;

    if (rows_has(rows, COLUMN_DURATION))
        r = rows_span(rows, COLUMN_DURATION, USEC_SEC, &job->truth.duration, err);
    if (r == 0 && rows_has(rows, COLUMN_ITERATIONS))
        r = csv_i64(&rows->csv, rows_at(rows, COLUMN_ITERATIONS), 1, ITERATIONS_MAX, &job->truth.iterations, err);
    if (r == 0 && !job->truth.duration && !job->truth.iterations && !rows_has(rows, COLUMN_MODEL))
        r = csv_fail(&rows->csv, rows_at(rows, COLUMN_DURATION), -EINVAL, err,
                     "expected a duration, iterations or a model, got none of them");
    return r;
}

/* The column that says how a job fails. */
static int failing_column(struct rows *rows)
{
    if (csv_get(&rows->csv, rows_at(rows, COLUMN_FAIL_TIMES)))
        return COLUMN_FAIL_TIMES;
    return rows_has(rows, COLUMN_FAIL_AFTER) ? COLUMN_FAIL_AFTER : COLUMN_EXIT;
}

static int failure_read(struct rows *rows, struct trace_job *job, struct error *err)
{
    struct truth *truth = &job->truth;
    int at = rows_at(rows, COLUMN_FAIL_TIMES);
    const struct csv_field *times = csv_get(&rows->csv, at);
    int64_t value = FAIL_TIMES_ALL;
    int r = 0;

    if (rows_has(rows, COLUMN_FAIL))
        r = csv_word(&rows->csv, rows_at(rows, COLUMN_FAIL), trace_fails, TRACE_FAILS, &truth->fail, err);
    if (r < 0)
        return r;
    if (truth->fail == FAIL_NONE) {
        if (rows_has(rows, COLUMN_FAIL_AFTER) || times || rows_has(rows, COLUMN_EXIT))
            return csv_fail(&rows->csv, rows_at(rows, failing_column(rows)), -EINVAL, err,
                            "says how a job fails that does not: 'fail' is none");
        return 0;
    }
    if (!rows_has(rows, COLUMN_FAIL_AFTER))
        return csv_fail(&rows->csv, rows_at(rows, COLUMN_FAIL), -EINVAL, err, "needs 'fail_after' to say when");
    r = rows_span(rows, COLUMN_FAIL_AFTER, USEC_SEC, &truth->fail_after, err);
    if (r == 0 && truth->duration && truth->fail_after > truth->duration)
        r = csv_expected(&rows->csv, rows_at(rows, COLUMN_FAIL_AFTER), err, "at most the duration");
    if (r == 0 && times && !(times->length == 3 && memcmp(times->text, "all", 3) == 0) &&
        csv_i64(&rows->csv, at, 1, FAIL_TIMES_ALL - 1, &value, NULL) < 0)
        r = csv_expected(&rows->csv, at, err, "a whole number from 1 to %d or 'all'", FAIL_TIMES_ALL - 1);
    truth->fail_times = (uint8_t)value;
    if (r == 0 && rows_has(rows, COLUMN_EXIT)) {
        r = csv_i64(&rows->csv, rows_at(rows, COLUMN_EXIT), 1, UINT8_MAX, &value, err);
        truth->exit = r < 0 ? 0 : (uint8_t)value;
    }
    if (r == 0 && truth->exit == EXIT_REQUEUE && truth->fail_times == FAIL_TIMES_ALL)
        r = csv_fail(&rows->csv, rows_at(rows, COLUMN_EXIT), -EINVAL, err,
                     "needs 'fail_times': a job that always asks to be run again is never over");
    return r;
}

/* On what terms it may be preempted, and what is worth another attempt. */
static int terms_read(struct rows *rows, struct jobspec *spec, struct error *err)
{
    int index = rows_at(rows, COLUMN_RETRY_ON), r = 0;
    const struct csv_field *field = csv_get(&rows->csv, index);
    const char *at = field ? field->text : NULL, *end = field ? at + field->length : NULL, *stop;
    int64_t code;

    if (rows_has(rows, COLUMN_PREEMPT))
        r = csv_word(&rows->csv, rows_at(rows, COLUMN_PREEMPT), trace_preempts, PREEMPT_MODES, &spec->preempt, err);
    if (r == 0 && rows_has(rows, COLUMN_MIN_RUNTIME))
        r = rows_span(rows, COLUMN_MIN_RUNTIME, USEC_SEC, &spec->min_runtime, err);
    for (; r == 0 && at && rows_has(rows, COLUMN_RETRY_ON); at = stop < end ? stop + 1 : NULL) {
        stop = rows_until(at, end, '|');
        if (spec->retry_on_count == RETRY_CODES_MAX || decimal_parse_i64(at, (size_t)(stop - at), &code) < 0 ||
            code < 1 || code > UINT8_MAX)
            return csv_expected(&rows->csv, index, err, "at most %d exit codes from 1 to 255, divided by '|'",
                                RETRY_CODES_MAX);
        spec->retry_on[spec->retry_on_count++] = (uint8_t)code;
    }
    return r;
}

/* Columns that are one number or one word each. */
static int scalars_read(struct rows *rows, struct jobspec *spec, struct error *err)
{
    static const struct {
        int column;
        int64_t min, max, scale;
    } table[] = {
        { COLUMN_SERVERS, 0, GANG_GPUS_MAX, 1 },
        { COLUMN_MEMORY, 0, MEMORY_MIB_MAX, 1 },
        { COLUMN_MEMORY_PEAK, 0, MEMORY_MIB_MAX, 1 },
        { COLUMN_BATCH, 0, BATCH_MAX, 1 },
        { COLUMN_UTILISATION, 0, 100, 1 },
        { COLUMN_SKEW, 0, 1, 1000 },
        { COLUMN_PRIORITY, PRIORITY_MIN, PRIORITY_MAX, 1 },
        { COLUMN_RETRIES, 0, RETRIES_MAX, 1 },
        { COLUMN_GPU_SERVERS, 0, GANG_GPUS_MAX, 1 },
        { COLUMN_BANDWIDTH, 0, BANDWIDTH_MAX, 1 },
        { COLUMN_TP, 1, UINT16_MAX, 1 },
        { COLUMN_PP, 1, UINT16_MAX, 1 },
        { COLUMN_SPLICE_MAX, 1, UINT16_MAX, 1 },
    };
    enum { SCALARS = sizeof(table) / sizeof(table[0]) };
    int64_t values[SCALARS] = { 0 };

    for (size_t i = 0; i < SCALARS; i++) {
        int at = rows_at(rows, table[i].column);
        int r;

        if (!csv_get(&rows->csv, at))
            continue;
        if (table[i].scale > 1)
            r = csv_scaled(&rows->csv, at, table[i].scale, table[i].max * table[i].scale, &values[i], err);
        else
            r = csv_i64(&rows->csv, at, table[i].min, table[i].max, &values[i], err);
        if (r < 0)
            return r;
    }
    spec->servers = (int32_t)values[0];
    spec->memory_mib = (uint32_t)values[1];
    spec->memory_peak_mib = (uint32_t)values[2];
    spec->batch = (uint32_t)values[3];
    spec->utilisation = (uint16_t)values[4];
    spec->skew_permille = (uint16_t)values[5];
    spec->priority = (int16_t)values[6];
    spec->retries = (uint8_t)values[7];
    spec->gpu_servers = (int32_t)values[8];
    spec->bandwidth = (uint32_t)values[9];
    spec->tp = (uint16_t)values[10];
    spec->pp = (uint16_t)values[11];
    spec->splice_max = (uint16_t)values[12];
    if (spec->gpus % ((int64_t)(spec->tp ? spec->tp : 1) * (spec->pp ? spec->pp : 1)) != 0)
        return csv_expected(&rows->csv, rows_at(rows, spec->tp ? COLUMN_TP : COLUMN_PP), err,
                            "groups that divide its %d GPUs", spec->gpus);
    if (spec->gpu_servers > 0 && spec->gpu_servers >= spec->gpus)
        return csv_expected(&rows->csv, rows_at(rows, COLUMN_GPU_SERVERS), err, "fewer than its %d GPUs", spec->gpus);
    return 0;
}

static int words_read(struct rows *rows, struct jobspec *spec, struct error *err)
{
    int r = 0;

    if (rows_has(rows, COLUMN_CLASS))
        r = csv_word(&rows->csv, rows_at(rows, COLUMN_CLASS), trace_classes, CLASS_COUNT, &spec->klass, err);
    if (r == 0 && rows_has(rows, COLUMN_TIER))
        r = csv_word(&rows->csv, rows_at(rows, COLUMN_TIER), trace_tiers, TIER_COUNT, &spec->tier, err);
    if (r == 0 && rows_has(rows, COLUMN_DEADLINES))
        r = deadlines_read(rows, spec, err);
    if (r == 0 && rows_has(rows, COLUMN_SLO))
        r = csv_word(&rows->csv, rows_at(rows, COLUMN_SLO), trace_slos, SLO_COUNT, &spec->slo, err);
    if (r == 0 && spec->slo != SLO_BEST_EFFORT && spec->deadline_count == 0)
        r = csv_fail(&rows->csv, rows_at(rows, COLUMN_SLO), -EINVAL, err, "%s needs 'deadlines'",
                     trace_slos[spec->slo]);
    return r;
}

static int licenses_read(struct rows *rows, struct jobspec *spec, struct error *err)
{
    int index = rows_at(rows, COLUMN_LICENSES);
    const struct csv_field *field = csv_get(&rows->csv, index);
    const char *at = field->text, *end = at + field->length, *stop;

    for (;; at = stop + 1) {
        size_t name;
        uint32_t count;
        int r;

        stop = rows_until(at, end, '|');
        if (license_parse(at, (size_t)(stop - at), &name, &count) < 0)
            return csv_expected(&rows->csv, index, err, LICENSE_WORDS ", several divided by '|'");
        r = license_add(spec, &rows->trace->licenses, at, name, count);
        if (r == -EEXIST)
            return csv_expected(&rows->csv, index, err, "each licence once");
        if (r == -E2BIG)
            return csv_expected(&rows->csv, index, err, "at most %d licences of a job and %d of all", LICENSE_NEEDS_MAX,
                                LICENSES_MAX);
        if (r < 0)
            return csv_fail(&rows->csv, index, r, err, "out of memory");
        if (stop == end)
            return 0;
    }
}

static int sides_read(struct rows *rows, struct jobspec *spec, struct error *err)
{
    int index = rows_at(rows, COLUMN_SIDES);
    const struct csv_field *field = csv_get(&rows->csv, index);
    const char *at = field->text, *end = at + field->length, *stop;

    for (;; at = stop + 1) {
        int r;

        stop = rows_until(at, end, ';');
        r = side_add(spec, &rows->trace->skus, at, (size_t)(stop - at));
        if (r == -ENOMEM)
            return csv_fail(&rows->csv, index, r, err, "out of memory");
        if (r < 0)
            return csv_expected(&rows->csv, index, err, "at most %d of " SIDE_WORDS ", divided by ';'", SIDES_MAX);
        if (stop == end)
            return 0;
    }
}

static int names_read(struct rows *rows, struct jobspec *spec, struct error *err)
{
    int r = rows_name(rows, COLUMN_USER, &rows->trace->users, &spec->user, err);

    if (r == 0)
        r = rows_name(rows, COLUMN_VC, &rows->trace->vcs, &spec->vc, err);
    if (r == 0)
        r = rows_name(rows, COLUMN_MODEL, &rows->trace->models, &spec->model, err);
    if (r == 0 && rows_has(rows, COLUMN_SKU))
        r = rows_skus(rows, COLUMN_SKU, spec, err);
    if (r == 0 && rows_has(rows, COLUMN_SIDES))
        r = sides_read(rows, spec, err);
    if (r == 0 && rows_has(rows, COLUMN_LICENSES))
        r = licenses_read(rows, spec, err);
    return r;
}

static int gpus_read(struct rows *rows, struct trace_job *job, struct error *err)
{
    int64_t gpus = 0;
    int r = csv_i64(&rows->csv, rows_at(rows, COLUMN_GPUS), 0, GANG_GPUS_MAX, &gpus, err);

    job->spec.gpus = job->spec.gpus_min = job->spec.gpus_max = (int32_t)gpus;
    return r;
}

static int native_row(struct rows *rows, struct trace_job *job, struct error *err)
{
    struct jobspec *spec = &job->spec;
    int r;

    r = rows_time(rows, COLUMN_SUBMIT, USEC_SEC, &spec->submit, err);
    if (r == 0)
        r = gpus_read(rows, job, err);
    if (r == 0)
        r = sizes_read(rows, spec, err);
    if (r == 0)
        r = tasks_read(rows, spec, err);
    if (r == 0)
        r = shape_read(rows, spec, err);
    if (r == 0)
        r = work_read(rows, job, err);
    if (r == 0)
        r = names_read(rows, spec, err);
    if (r == 0)
        r = scalars_read(rows, spec, err);
    if (r == 0)
        r = words_read(rows, spec, err);
    if (r == 0 && rows_has(rows, COLUMN_ESTIMATE))
        r = rows_span(rows, COLUMN_ESTIMATE, USEC_SEC, &spec->estimate, err);
    if (r == 0 && rows_has(rows, COLUMN_LIMIT))
        r = rows_span(rows, COLUMN_LIMIT, USEC_SEC, &spec->time_limit, err);
    if (r == 0 && rows_has(rows, COLUMN_LAUNCH))
        r = rows_span(rows, COLUMN_LAUNCH, USEC_SEC, &job->truth.launch, err);
    if (r == 0 && rows_has(rows, COLUMN_SAVE))
        r = rows_span(rows, COLUMN_SAVE, USEC_SEC, &job->truth.save, err);
    if (r == 0)
        r = terms_read(rows, spec, err);
    if (r == 0)
        r = failure_read(rows, job, err);
    return r < 0 ? r : 1;
}

static const struct row_format native = {
    .separator = ',',
    .columns = columns,
    .column_count = COLUMN_COUNT,
    .id_column = COLUMN_ID,
    .row = native_row,
};

int trace_read(const char *file, const struct bytes *bytes, struct trace *ret_trace, struct error *err)
{
    struct import_notes notes;

    return rows_read(&native, file, bytes, ret_trace, &notes, err);
}
