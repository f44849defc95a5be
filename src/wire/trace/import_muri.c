/* SPDX-License-Identifier: Apache-2.0 */
/* import_muri.c - Muri's traces: milliseconds, and the milliseconds of each resource in an iteration.
 *
 * Priority 1 is an opportunistic job (for AntMan). The GPU's part of an iteration becomes the utilisation; the parts
 * of the other resources belong to a world model with phases and are not in the native trace.
 */
#include "wire/trace/import_formats.h"
#include "wire/trace/trace_columns.h"

enum { ID, GPUS, SUBMIT, ITERATIONS, MODEL, BATCH, DURATION, INTERVAL, ITERATION_TIME, CPU, GPU, NET, PRIORITY, COUNT };

static const struct csv_column columns[COUNT] = {
    [ID] = { "job_id", true, 0 },
    [GPUS] = { "num_gpu", true, 0 },
    [SUBMIT] = { "submit_time", true, 0 },
    [ITERATIONS] = { "iterations", true, 0 },
    [MODEL] = { "model_name", true, 0 },
    [BATCH] = { "batch_size", false, 0 },
    [DURATION] = { "duration", true, 0 },
    [INTERVAL] = { "interval", false, 0 },
    [ITERATION_TIME] = { "iteration_time", false, 0 },
    [CPU] = { "resource_time_0", false, 0 },
    [GPU] = { "resource_time_1", false, 0 },
    [NET] = { "resource_time_2", false, 0 },
    [PRIORITY] = { "priority", false, 0 },
};

/* Percent of an iteration in which the GPU works: rounded to the nearest, 1..100. */
static int utilisation_read(struct rows *rows, struct jobspec *spec, struct error *err)
{
    usec_t whole = 0, gpu = 0;
    int64_t percent;
    int r;

    if (!rows_has(rows, ITERATION_TIME) || !rows_has(rows, GPU))
        return 0;
    r = rows_span(rows, ITERATION_TIME, USEC_MSEC, &whole, err);
    if (r == 0)
        r = rows_time(rows, GPU, USEC_MSEC, &gpu, err);
    if (r < 0)
        return r;
    percent = gpu >= whole ? 100 : (200 * gpu + whole) / (2 * whole);
    spec->utilisation = percent ? (uint16_t)percent : 1;
    return 0;
}

static int muri_row(struct rows *rows, struct trace_job *job, struct error *err)
{
    struct jobspec *spec = &job->spec;
    int64_t priority = 0;
    int r = rows_import_gpus(rows, GPUS, job, err);

    if (r > 0)
        r = rows_import_duration(rows, DURATION, USEC_MSEC, job, err);
    if (r <= 0)
        return r;
    r = rows_time(rows, SUBMIT, USEC_MSEC, &spec->submit, err);
    if (r == 0)
        r = csv_i64(&rows->csv, rows_at(rows, ITERATIONS), 1, ITERATIONS_MAX, &job->truth.iterations, err);
    if (r == 0)
        r = rows_name(rows, MODEL, &rows->trace->models, &spec->model, err);
    if (r == 0 && rows_has(rows, BATCH))
        r = rows_u32(rows, BATCH, BATCH_MAX, &spec->batch, err);
    if (r == 0 && rows_has(rows, PRIORITY))
        r = csv_i64(&rows->csv, rows_at(rows, PRIORITY), 0, 1, &priority, err);
    if (r == 0)
        r = utilisation_read(rows, spec, err);
    spec->klass = priority ? CLASS_OPPORTUNISTIC : CLASS_GUARANTEED;
    return r < 0 ? r : 1;
}

const struct row_format import_muri = {
    .separator = ',',
    .columns = columns,
    .column_count = COUNT,
    .id_column = ID,
    .row = muri_row,
};
