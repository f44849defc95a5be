/* SPDX-License-Identifier: Apache-2.0 */
/* import_chronus.c - Chronus's deadline workloads. Times are minutes, deadlines count from the submission and become
 * absolute here; the deadline of a best-effort job means nothing and is not kept. `user` is a virtual cluster.
 * `iterations` and `interval` are not used by its simulator either.
 */
#include <errno.h>

#include "wire/text/decimal.h"
#include "wire/trace/import_formats.h"

enum { ID, USER, GPUS, SUBMIT, ITERATIONS, MODEL, DURATION, INTERVAL, TIMES, VALUES, BEST_EFFORT, TYPE, COUNT };

static const struct csv_column columns[COUNT] = {
    [ID] = { "job_id", true, 0 },
    [USER] = { "user", false, 0 },
    [GPUS] = { "num_gpu", true, 0 },
    [SUBMIT] = { "submit_time", true, 0 },
    [ITERATIONS] = { "iterations", false, 0 },
    [MODEL] = { "model_name", false, 0 },
    [DURATION] = { "duration", true, 0 },
    [INTERVAL] = { "interval", false, 0 },
    [TIMES] = { "expect_time_list", true, 0 },
    [VALUES] = { "expect_value_list", true, 0 },
    [BEST_EFFORT] = { "best_effort", false, 0 },
    [TYPE] = { "job_type", true, 0 },
};

static const char *const types[] = { "best", "soft", "strict" }; /* as enum job_slo */

/* Numbers divided by '-', at most DEADLINES_MAX of them; how many, or -EINVAL. */
static int list_parse(const struct csv_field *field, int64_t scale, int64_t values[DEADLINES_MAX])
{
    const char *at, *end, *stop;
    int count = 0;

    if (!field)
        return -EINVAL;
    at = field->text;
    end = at + field->length;
    for (;; at = stop + 1) {
        stop = rows_until(at, end, '-');
        if (count == DEADLINES_MAX || decimal_parse(at, (size_t)(stop - at), scale, &values[count]) < 0)
            return -EINVAL;
        if (values[count] < 0 || values[count] > CSV_SPAN_MAX)
            return -EINVAL;
        count++;
        if (stop == end)
            return count;
    }
}

static int deadlines_read(struct rows *rows, struct jobspec *spec, struct error *err)
{
    int64_t times[DEADLINES_MAX], values[DEADLINES_MAX];
    int count = list_parse(csv_get(&rows->csv, rows_at(rows, TIMES)), USEC_MIN, times);

    if (count < 0)
        return csv_expected(&rows->csv, rows_at(rows, TIMES), err, "1 to %d minutes divided by '-'", DEADLINES_MAX);
    if (list_parse(csv_get(&rows->csv, rows_at(rows, VALUES)), 1, values) != count)
        return csv_expected(&rows->csv, rows_at(rows, VALUES), err, "%d numbers divided by '-'", count);
    for (int i = 0; i < count; i++) {
        if (times[i] <= (i ? times[i - 1] : 0))
            return csv_expected(&rows->csv, rows_at(rows, TIMES), err, "minutes above 0 in rising order");
        if (times[i] > CSV_SPAN_MAX - spec->submit)
            return csv_expected(&rows->csv, rows_at(rows, TIMES), err, "deadlines within a thousand years");
        if (i && values[i] > values[i - 1])
            return csv_expected(&rows->csv, rows_at(rows, VALUES), err,
                                "a later deadline worth no more than an earlier one");
        if (values[i] > 1000)
            return csv_expected(&rows->csv, rows_at(rows, VALUES), err, "values from 0 to 1000");
        spec->deadlines[i] = (struct deadline){ spec->submit + times[i], (int32_t)values[i] };
    }
    spec->deadline_count = (uint8_t)count;
    return 0;
}

static int chronus_row(struct rows *rows, struct trace_job *job, struct error *err)
{
    struct jobspec *spec = &job->spec;
    int r = rows_import_gpus(rows, GPUS, job, err);

    if (r > 0)
        r = rows_import_duration(rows, DURATION, USEC_MIN, job, err);
    if (r <= 0)
        return r;
    r = rows_time(rows, SUBMIT, USEC_MIN, &spec->submit, err);
    if (r == 0)
        r = rows_name(rows, USER, &rows->trace->vcs, &spec->vc, err);
    if (r == 0)
        r = rows_name(rows, MODEL, &rows->trace->models, &spec->model, err);
    if (r == 0)
        r = csv_word(&rows->csv, rows_at(rows, TYPE), types, SLO_COUNT, &spec->slo, err);
    if (r == 0 && spec->slo != SLO_BEST_EFFORT)
        r = deadlines_read(rows, spec, err);
    return r < 0 ? r : 1;
}

const struct row_format import_chronus = {
    .separator = ',',
    .columns = columns,
    .column_count = COUNT,
    .id_column = ID,
    .row = chronus_row,
};
