/* SPDX-License-Identifier: Apache-2.0 */
/* import_philly.c - the Philly table that Pollux and Sia ship: rows in no order, submission as local wall time.
 *
 * Seconds are counted from the first submission; a change to or from summer time is not undone, as the table's other
 * users do not undo it. Rows have no id: a job's id is the number of its row from 0, so that jobs of one second keep
 * the order of the file. `gpu_time` repeats duration x GPUs.
 */
#include <errno.h>
#include <string.h>

#include "wire/trace/import_formats.h"

enum { TIMESTAMP, DURATION, GPUS, GPU_TIME, CLUSTER, COUNT };

static const struct csv_column columns[COUNT] = {
    [TIMESTAMP] = { "timestamp", true, 0 }, [DURATION] = { "duration", true, 0 }, [GPUS] = { "num_gpus", true, 0 },
    [GPU_TIME] = { "gpu_time", false, 0 },  [CLUSTER] = { "cluster", true, 0 },
};

/* Days from 1970-01-01 in the Gregorian calendar; years begin in March, so that the leap day is the last. */
static int64_t days_from_civil(int64_t year, int64_t month, int64_t day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = y / 400, of_era = y % 400;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* `count` digits. */
static int digits_parse(const char **at, int count, int64_t *ret_value)
{
    int64_t value = 0;

    for (int i = 0; i < count; i++, (*at)++) {
        if (**at < '0' || **at > '9')
            return -EINVAL;
        value = value * 10 + (**at - '0');
    }
    *ret_value = value;
    return 0;
}

/* "2017-10-09 07:01:55" */
static int wall_time_parse(const struct csv_field *field, usec_t *ret_at)
{
    static const char between[] = "-- ::";
    static const int64_t most[] = { 2199, 12, 31, 23, 59, 59 }, least[] = { 1970, 1, 1, 0, 0, 0 };
    static const int month_days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    int64_t part[6];
    const char *at;
    bool leap;

    if (!field || field->length != 19)
        return -EINVAL;
    at = field->text;
    for (int i = 0; i < 6; i++) {
        if (digits_parse(&at, i == 0 ? 4 : 2, &part[i]) < 0 || part[i] < least[i] || part[i] > most[i])
            return -EINVAL;
        if (i < 5 && *at++ != between[i])
            return -EINVAL;
    }
    leap = part[0] % 4 == 0 && (part[0] % 100 != 0 || part[0] % 400 == 0);
    if (part[2] > month_days[part[1] - 1] + (leap && part[1] == 2))
        return -EINVAL;
    *ret_at = days_from_civil(part[0], part[1], part[2]) * USEC_DAY + part[3] * USEC_HOUR + part[4] * USEC_MIN +
              part[5] * USEC_SEC;
    return 0;
}

static int philly_row(struct rows *rows, struct trace_job *job, struct error *err)
{
    int at = rows_at(rows, TIMESTAMP);
    int r = rows_import_gpus(rows, GPUS, job, err);

    if (r > 0)
        r = rows_import_duration(rows, DURATION, USEC_SEC, job, err);
    if (r <= 0)
        return r;
    if (wall_time_parse(csv_get(&rows->csv, at), &job->spec.submit) < 0)
        return csv_expected(&rows->csv, at, err, "a time such as 2017-10-09 07:01:55");
    r = rows_name(rows, CLUSTER, &rows->trace->vcs, &job->spec.vc, err);
    return r < 0 ? r : 1;
}

static int philly_finish(struct rows *rows, struct error *err)
{
    struct trace *trace = rows->trace;
    usec_t first = USEC_NEVER;

    (void)err;
    for (size_t i = 0; i < trace->count; i++)
        if (trace->jobs[i].spec.submit < first)
            first = trace->jobs[i].spec.submit;
    for (size_t i = 0; i < trace->count; i++)
        trace->jobs[i].spec.submit -= first;
    return 0;
}

const struct row_format import_philly = {
    .separator = ',',
    .columns = columns,
    .column_count = COUNT,
    .id_column = -1,
    .row = philly_row,
    .finish = philly_finish,
};
