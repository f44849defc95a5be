/* SPDX-License-Identifier: Apache-2.0 */
/* import_elasticflow.c - ElasticFlow's traces: iterations, global batch size, and one absolute deadline that counts in
 * full or not at all. The columns real_* repeat others before a rescaling of its authors.
 */
#include "wire/trace/import_formats.h"
#include "wire/trace/trace_columns.h"

enum { MEASURED_MAX = 64 };

enum {
    ID,
    SUBMIT,
    REAL_ITERATION,
    MODEL,
    DEADLINE,
    BATCH,
    GPUS,
    REAL_DURATION,
    DURATION,
    ITERATION,
    BEST_EFFORT,
    COUNT
};

static const struct csv_column columns[COUNT] = {
    [ID] = { "job_id", true, 0 },
    [SUBMIT] = { "submit_time", true, 0 },
    [REAL_ITERATION] = { "real_iteration", false, 0 },
    [MODEL] = { "model_name", true, 0 },
    [DEADLINE] = { "ddl", true, 0 },
    [BATCH] = { "batch_size", true, 0 },
    [GPUS] = { "num_gpu", true, 0 },
    [REAL_DURATION] = { "real_duration", false, 0 },
    [DURATION] = { "duration", true, 0 },
    [ITERATION] = { "iteration", true, 0 },
    [BEST_EFFORT] = { "best_effort", false, 0 },
};

static int deadline_read(struct rows *rows, struct jobspec *spec, struct error *err)
{
    int64_t best_effort = 0;
    int r = 0;

    if (rows_has(rows, BEST_EFFORT))
        r = csv_i64(&rows->csv, rows_at(rows, BEST_EFFORT), 0, 1, &best_effort, err);
    if (r < 0 || best_effort)
        return r;
    r = rows_time(rows, DEADLINE, USEC_SEC, &spec->deadlines[0].at, err);
    if (r < 0)
        return r;
    if (spec->deadlines[0].at <= spec->submit)
        return csv_expected(&rows->csv, rows_at(rows, DEADLINE), err, "a time after the submission");
    spec->deadlines[0].value = 10;
    spec->deadline_count = 1;
    spec->slo = SLO_STRICT;
    return 0;
}

static int elasticflow_row(struct rows *rows, struct trace_job *job, struct error *err)
{
    struct jobspec *spec = &job->spec;
    int r = rows_import_gpus(rows, GPUS, job, err);

    if (r > 0)
        r = rows_import_duration(rows, DURATION, USEC_SEC, job, err);
    if (r <= 0)
        return r;
    r = rows_time(rows, SUBMIT, USEC_SEC, &spec->submit, err);
    if (r == 0)
        r = csv_i64(&rows->csv, rows_at(rows, ITERATION), 1, ITERATIONS_MAX, &job->truth.iterations, err);
    if (r == 0)
        r = rows_name(rows, MODEL, &rows->trace->models, &spec->model, err);
    if (r == 0)
        r = rows_u32(rows, BATCH, BATCH_MAX, &spec->batch, err);
    if (r == 0)
        r = deadline_read(rows, spec, err);
    /* Its jobs run on anything from one GPU to the most that were measured. */
    spec->gpus_min = 1;
    spec->gpus_max = spec->gpus > MEASURED_MAX ? spec->gpus : MEASURED_MAX;
    return r < 0 ? r : 1;
}

const struct row_format import_elasticflow = {
    .separator = ',',
    .columns = columns,
    .column_count = COUNT,
    .id_column = ID,
    .row = elasticflow_row,
};
