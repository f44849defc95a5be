/* SPDX-License-Identifier: Apache-2.0 */
/* import_rubick.c - Rubick's workloads of large models. A job with a service guarantee (is_sla) is guaranteed, one
 * without is auto. CPUs, bandwidth and the execution plan are not in the native trace.
 */
#include "wire/trace/import_formats.h"
#include "wire/trace/trace_columns.h"

enum { NAME, SUBMIT, DURATION, APPLICATION, GPUS, CPUS, BANDWIDTH, PLAN, STEPS, SLA, COUNT };

static const struct csv_column columns[COUNT] = {
    [NAME] = { "name", true, 0 },
    [SUBMIT] = { "submission_time", true, 0 },
    [DURATION] = { "duration", true, 0 },
    [APPLICATION] = { "application", true, 0 },
    [GPUS] = { "num_gpus", true, 0 },
    [CPUS] = { "num_cpus", false, 0 },
    [BANDWIDTH] = { "bandwidth", false, 0 },
    [PLAN] = { "exec_plan", false, 0 },
    [STEPS] = { "steps", true, 0 },
    [SLA] = { "is_sla", true, 0 },
};

static int rubick_row(struct rows *rows, struct trace_job *job, struct error *err)
{
    int64_t sla = 0;
    int r = rows_import_gpus(rows, GPUS, job, err);

    if (r > 0)
        r = rows_import_duration(rows, DURATION, USEC_SEC, job, err);
    if (r <= 0)
        return r;
    r = rows_time(rows, SUBMIT, USEC_SEC, &job->spec.submit, err);
    if (r == 0)
        r = rows_name(rows, APPLICATION, &rows->trace->models, &job->spec.model, err);
    if (r == 0)
        r = csv_i64(&rows->csv, rows_at(rows, STEPS), 1, ITERATIONS_MAX, &job->truth.iterations, err);
    if (r == 0)
        r = csv_i64(&rows->csv, rows_at(rows, SLA), 0, 1, &sla, err);
    job->spec.klass = sla ? CLASS_GUARANTEED : CLASS_AUTO;
    return r < 0 ? r : 1;
}

const struct row_format import_rubick = {
    .separator = ',',
    .columns = columns,
    .column_count = COUNT,
    .id_column = NAME,
    .row = rubick_row,
};
