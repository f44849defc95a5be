/* SPDX-License-Identifier: Apache-2.0 */
/* import_workload.c - workloads of Pollux and Sia: which application arrives when, and the tuned rigid request. How
 * long it runs is in their tables of measurements, so the job has a model and a batch size and no duration.
 */
#include "wire/trace/import_formats.h"
#include "wire/trace/trace_columns.h"

enum { NAME, TIME, APPLICATION, REPLICAS, BATCH, COUNT };

static const struct csv_column columns[COUNT] = {
    [NAME] = { "name", true, 0 },
    [TIME] = { "time", true, 0 },
    [APPLICATION] = { "application", true, 0 },
    [REPLICAS] = { "num_replicas", true, 0 },
    [BATCH] = { "batch_size", true, 0 },
};

static int workload_row(struct rows *rows, struct trace_job *job, struct error *err)
{
    int r = rows_import_gpus(rows, REPLICAS, job, err);

    if (r <= 0)
        return r;
    if (!rows_has(rows, APPLICATION))
        return csv_expected(&rows->csv, rows_at(rows, APPLICATION), err, "the name of an application");
    r = rows_time(rows, TIME, USEC_SEC, &job->spec.submit, err);
    if (r == 0)
        r = rows_name(rows, APPLICATION, &rows->trace->models, &job->spec.model, err);
    if (r == 0)
        r = rows_u32(rows, BATCH, BATCH_MAX, &job->spec.batch, err);
    return r < 0 ? r : 1;
}

const struct row_format import_workload = {
    .separator = ',',
    .columns = columns,
    .column_count = COUNT,
    .id_column = NAME,
    .row = workload_row,
};
