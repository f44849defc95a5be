/* SPDX-License-Identifier: Apache-2.0 */
/* import_arrivals.c - job logs reduced to arrival, run time and GPUs: Helios, and a sample of Alibaba PAI. */
#include "wire/trace/import_formats.h"

enum { ID, ARRIVAL, SERVICE, GPUS, COUNT };

static const struct csv_column columns[COUNT] = {
    [ID] = { "job_id", true, 0 },
    [ARRIVAL] = { "arrival_s", true, 0 },
    [SERVICE] = { "service_sec", true, 0 },
    [GPUS] = { "gpu_count", true, 0 },
};

static int arrivals_row(struct rows *rows, struct trace_job *job, struct error *err)
{
    int r = rows_import_gpus(rows, GPUS, job, err);

    if (r > 0)
        r = rows_import_duration(rows, SERVICE, USEC_SEC, job, err);
    if (r <= 0)
        return r;
    r = rows_time(rows, ARRIVAL, USEC_SEC, &job->spec.submit, err);
    return r < 0 ? r : 1;
}

const struct row_format import_arrivals = {
    .separator = ',',
    .columns = columns,
    .column_count = COUNT,
    .id_column = ID,
    .row = arrivals_row,
};
