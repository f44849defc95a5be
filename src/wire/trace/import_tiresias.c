/* SPDX-License-Identifier: Apache-2.0 */
/* import_tiresias.c - the Tiresias simulator's trace: seconds, durations with the GPUs asked for.
 *
 * Its `iterations` are not taken over: the simulator does not use them, and files made for it fill them with
 * anything. `interval` repeats the distance of the submissions.
 */
#include "wire/trace/import_formats.h"

enum { ID, GPUS, SUBMIT, ITERATIONS, MODEL, DURATION, INTERVAL, COUNT };

static const struct csv_column columns[COUNT] = {
    [ID] = { "job_id", true, 0 },          [GPUS] = { "num_gpu", true, 0 },
    [SUBMIT] = { "submit_time", true, 0 }, [ITERATIONS] = { "iterations", false, 0 },
    [MODEL] = { "model_name", false, 0 },  [DURATION] = { "duration", true, 0 },
    [INTERVAL] = { "interval", false, 0 },
};

static int tiresias_row(struct rows *rows, struct trace_job *job, struct error *err)
{
    int r = rows_import_gpus(rows, GPUS, job, err);

    if (r > 0)
        r = rows_import_duration(rows, DURATION, USEC_SEC, job, err);
    if (r <= 0)
        return r;
    r = rows_time(rows, SUBMIT, USEC_SEC, &job->spec.submit, err);
    if (r == 0)
        r = rows_name(rows, MODEL, &rows->trace->models, &job->spec.model, err);
    return r < 0 ? r : 1;
}

const struct row_format import_tiresias = {
    .separator = ',',
    .columns = columns,
    .column_count = COUNT,
    .id_column = ID,
    .row = tiresias_row,
};
