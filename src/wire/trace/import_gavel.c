/* SPDX-License-Identifier: Apache-2.0 */
/* import_gavel.c - Gavel's traces and Shockwave's, which grew out of them: no header, tabs, and a number of columns
 * that tells which of the three kinds it is.
 *
 *    7  job type, command, steps argument, needs data, steps, arrival, GPUs
 *   10  job type, command, folder, steps argument, needs data, steps, GPUs, weight, SLO, arrival
 *   12  job type, command, folder, steps argument, needs data, steps, GPUs, mode, weight, SLO, duration, arrival
 *
 * A job type is "ResNet-18 (batch size 16)": the whole of it is the model, as Gavel's tables name it, and the number
 * is the batch size as well. A weight other than 1 and an SLO, a factor on a run time the trace does not tell, are
 * refused rather than dropped. Ids are row numbers, as Gavel numbers jobs.
 */
#include <errno.h>
#include <string.h>

#include "wire/text/decimal.h"
#include "wire/trace/import_formats.h"
#include "wire/trace/trace_columns.h"

struct kind {
    size_t count;
    int steps, gpus, weight, slo, duration, arrival;
};

static const struct kind kinds[] = {
    { 7, 4, 6, -1, -1, -1, 5 },
    { 10, 5, 6, 7, 8, -1, 9 },
    { 12, 5, 6, 8, 9, 10, 11 },
};

static const struct kind *kind_find(size_t count)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i].count == count)
            return &kinds[i];
    return NULL;
}

/* The number in "(batch size N)", 0 when there is none. */
static uint32_t batch_of(const struct csv_field *type)
{
    static const char words[] = "(batch size ";
    const char *found = memmem(type->text, type->length, words, sizeof(words) - 1);
    const char *end = type->text + type->length, *stop;
    int64_t batch;

    if (!found)
        return 0;
    found += sizeof(words) - 1;
    stop = rows_until(found, end, ')');
    if (decimal_parse_i64(found, (size_t)(stop - found), &batch) < 0 || batch < 0 || batch > BATCH_MAX)
        return 0;
    return (uint32_t)batch;
}

static int refuse_unknown(struct rows *rows, const struct kind *kind, struct error *err)
{
    int64_t value;
    const struct csv_field *field = csv_get(&rows->csv, kind->weight);

    if (kind->weight < 0)
        return 0;
    if (!field || decimal_parse(field->text, field->length, 1000, &value) < 0 || value != 1000)
        return csv_expected(&rows->csv, kind->weight, err, "a priority weight of 1, the only one that is understood");
    field = csv_get(&rows->csv, kind->slo);
    if (!field || decimal_parse(field->text, field->length, 1000, &value) < 0 || value >= 0)
        return csv_expected(&rows->csv, kind->slo, err, "-1 (no SLO), the only one that is understood");
    return 0;
}

static int gavel_row(struct rows *rows, struct trace_job *job, struct error *err)
{
    const struct kind *kind = kind_find(rows->csv.count);
    int64_t gpus;
    int r;

    if (!kind)
        return csv_fail(&rows->csv, -1, -EINVAL, err, "expected 7, 10 or 12 tab-separated fields, got %zu",
                        rows->csv.count);
    if (!csv_get(&rows->csv, 0))
        return csv_expected(&rows->csv, 0, err, "a job type");
    r = csv_i64(&rows->csv, kind->gpus, 1, GANG_GPUS_MAX, &gpus, err);
    if (r < 0)
        return r;
    job->spec.gpus = job->spec.gpus_min = job->spec.gpus_max = (int32_t)gpus;
    job->spec.batch = batch_of(&rows->csv.fields[0]);
    r = refuse_unknown(rows, kind, err);
    if (r == 0)
        r = csv_name(&rows->csv, 0, &rows->trace->models, &job->spec.model, err);
    if (r == 0)
        r = csv_i64(&rows->csv, kind->steps, 1, ITERATIONS_MAX, &job->truth.iterations, err);
    if (r == 0)
        r = csv_usec(&rows->csv, kind->arrival, USEC_SEC, &job->spec.submit, err);
    if (r == 0 && kind->duration >= 0)
        r = csv_usec(&rows->csv, kind->duration, USEC_SEC, &job->truth.duration, err);
    return r < 0 ? r : 1;
}

const struct row_format import_gavel = {
    .separator = '\t',
    .id_column = -1,
    .row = gavel_row,
};
