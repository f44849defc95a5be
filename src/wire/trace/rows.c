/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - see rows.h. Whether ids are numbers is not known before the last row, so the first one that is not a plain
 * number sends the reader back to the start, once. */
#include "wire/trace/rows.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "model/cluster.h"
#include "wire/text/decimal.h"

enum { IDS_ARE_TEXT = -EAGAIN };

/* Up to 18 digits without sign or leading zeros: what writes back as it was. */
static bool id_is_number(const struct csv_field *field)
{
    if (field->length > 18 || (field->text[0] == '0' && field->length > 1))
        return false;
    for (uint32_t i = 0; i < field->length; i++)
        if (field->text[i] < '0' || field->text[i] > '9')
            return false;
    return true;
}

static int seen_grow(struct rows *rows)
{
    size_t old_size = rows->seen_size, size = old_size ? old_size * 2 : 256;
    __typeof__(rows->seen) old = rows->seen, grown;

    if (rows->seen_count * 2 < old_size)
        return 0;
    grown = mem_zalloc(size, sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    for (size_t i = 0; i < old_size; i++) {
        size_t at = rng_mix((uint64_t)old[i].id) & (size - 1);

        while (old[i].line && grown[at].line)
            at = (at + 1) & (size - 1);
        if (old[i].line)
            grown[at] = old[i];
    }
    mem_free(old);
    rows->seen = grown;
    rows->seen_size = size;
    return 0;
}

/* Remembers the id; *ret_line is 0, or the line that had it first. */
static int seen_put(struct rows *rows, int64_t id, uint32_t *ret_line)
{
    int r = seen_grow(rows);
    size_t at;

    if (r < 0)
        return r;
    at = rng_mix((uint64_t)id) & (rows->seen_size - 1);
    while (rows->seen[at].line && rows->seen[at].id != id)
        at = (at + 1) & (rows->seen_size - 1);
    *ret_line = rows->seen[at].line;
    if (*ret_line)
        return 0;
    rows->seen[at].id = id;
    rows->seen[at].line = rows->csv.record;
    rows->seen_count++;
    return 0;
}

static int id_read(struct rows *rows, int64_t *ret_id, struct error *err)
{
    int at = rows_at(rows, rows->format->id_column);
    const struct csv_field *field = csv_get(&rows->csv, at);
    uint32_t name = 0, line;
    int r;

    if (!field)
        return csv_expected(&rows->csv, at, err, "an id");
    if (!rows->ids_are_text && !id_is_number(field))
        return IDS_ARE_TEXT;
    if (rows->ids_are_text) {
        r = csv_name(&rows->csv, at, &rows->trace->ids, &name, err);
        *ret_id = name;
    } else {
        r = decimal_parse_i64(field->text, field->length, ret_id);
    }
    if (r < 0)
        return r;
    if (seen_put(rows, *ret_id, &line) < 0)
        return csv_fail(&rows->csv, at, -ENOMEM, err, "out of memory");
    if (line)
        return csv_fail(&rows->csv, at, -EINVAL, err, "'%.*s' is the id of line %u already",
                        field->length > 80 ? 80 : (int)field->length, field->text, line);
    return 0;
}

static int row_read(struct rows *rows, struct error *err)
{
    struct trace_job job;
    int r;

    trace_job_init(&job);
    r = rows->format->row(rows, &job, err);
    if (r <= 0)
        return r;
    job.spec.id = (int64_t)rows->row;
    if (rows->format->id_column >= 0) {
        r = id_read(rows, &job.spec.id, err);
        if (r < 0)
            return r;
    }
    job.truth.line = rows->csv.record;
    r = trace_add(rows->trace, &job);
    if (r == -E2BIG)
        return csv_fail(&rows->csv, -1, r, err, "more than %zu jobs", TRACE_JOBS_MAX);
    if (r < 0)
        return csv_fail(&rows->csv, -1, r, err, "out of memory");
    return 0;
}

static int rows_walk(struct rows *rows, struct error *err)
{
    const struct row_format *format = rows->format;
    int r = 0;

    if (format->columns) {
        memcpy(rows->columns, format->columns, format->column_count * sizeof(*format->columns));
        r = csv_header(&rows->csv, rows->columns, format->column_count, err);
    }
    while (r == 0) {
        r = csv_next(&rows->csv, err);
        if (r <= 0)
            break;
        r = row_read(rows, err);
        rows->row++;
    }
    if (r == 0 && rows->row == 0)
        r = error_set(err, -EINVAL, "%s:%u:1: expected a job, got the end of the file", rows->csv.file, rows->csv.line);
    if (r == 0 && format->finish)
        r = format->finish(rows, err);
    return r;
}

int rows_read(const struct row_format *format, const char *file, const struct bytes *bytes, struct trace *ret_trace,
              struct import_notes *notes, struct error *err)
{
    struct rows *rows = mem_zalloc(1, sizeof(*rows));
    struct trace trace = { 0 };
    int r = IDS_ARE_TEXT;

    if (!rows)
        return error_set(err, -ENOMEM, "%s: out of memory", file);
    for (int pass = 0; pass < 2 && r == IDS_ARE_TEXT; pass++) {
        trace_done(&trace);
        mem_free(rows->seen);
        *rows = (struct rows){ .format = format, .trace = &trace, .notes = notes, .ids_are_text = pass > 0 };
        *notes = (struct import_notes){ 0 };
        csv_init(&rows->csv, file, bytes->data, bytes->size, format->separator);
        r = rows_walk(rows, err);
        csv_done(&rows->csv);
    }
    mem_free(rows->seen);
    mem_free(rows);
    if (r < 0) {
        trace_done(&trace);
        return r;
    }
    trace.file = mem_strdup(file); /* without it lines are not told */
    trace_sort(&trace);
    *ret_trace = trace;
    return 0;
}

const char *rows_until(const char *at, const char *end, char stop)
{
    const char *found = memchr(at, stop, (size_t)(end - at));

    return found ? found : end;
}

int rows_skus(struct rows *rows, int column, struct jobspec *spec, struct error *err)
{
    int index = rows_at(rows, column);
    const struct csv_field *field = csv_get(&rows->csv, index);
    const char *at = field->text, *end = at + field->length, *stop;

    for (;; at = stop + 1) {
        uint32_t name;
        int r;

        stop = rows_until(at, end, '|');
        if (stop == at || (size_t)(stop - at) > NAME_LENGTH_MAX || memchr(at, '\0', (size_t)(stop - at)))
            return csv_expected(&rows->csv, index, err, "names of GPU types, several divided by '|'");
        r = names_put(&rows->trace->skus, at, (size_t)(stop - at), &name);
        if (r < 0)
            return csv_fail(&rows->csv, index, r, err, "out of memory");
        if (name >= SKUS_MAX)
            return csv_fail(&rows->csv, index, -EINVAL, err, "more than %d GPU types in one file", SKUS_MAX);
        spec->sku_mask |= 1u << name;
        if (stop == end)
            return 0;
    }
}

int rows_gpus(struct rows *rows, int column, struct trace_job *job, struct error *err)
{
    int64_t gpus = 0;
    int r = csv_i64(&rows->csv, rows_at(rows, column), 1, GANG_GPUS_MAX, &gpus, err);

    job->spec.gpus = job->spec.gpus_min = job->spec.gpus_max = (int32_t)gpus;
    return r;
}

int rows_time(struct rows *rows, int column, usec_t unit, usec_t *ret_value, struct error *err)
{
    return csv_usec(&rows->csv, rows_at(rows, column), unit, ret_value, err);
}

int rows_span(struct rows *rows, int column, usec_t unit, usec_t *ret_value, struct error *err)
{
    int r = rows_time(rows, column, unit, ret_value, err);

    if (r == 0 && *ret_value == 0)
        r = csv_expected(&rows->csv, rows_at(rows, column), err, "a time above 0");
    return r;
}

int rows_u32(struct rows *rows, int column, int64_t max, uint32_t *ret_value, struct error *err)
{
    int64_t value = 0;
    int r = csv_i64(&rows->csv, rows_at(rows, column), 0, max, &value, err);

    *ret_value = (uint32_t)value;
    return r;
}

int rows_name(struct rows *rows, int column, struct names *names, uint32_t *ret_name, struct error *err)
{
    return csv_name(&rows->csv, rows_at(rows, column), names, ret_name, err);
}

int rows_import_gpus(struct rows *rows, int column, struct trace_job *job, struct error *err)
{
    const struct csv_field *field = csv_get(&rows->csv, rows_at(rows, column));
    int64_t gpus;

    if (field && decimal_parse(field->text, field->length, 1, &gpus) == 0 && gpus == 0) {
        rows_note(rows, "left out: asks for no GPU");
        return 0;
    }
    return rows_gpus(rows, column, job, err) < 0 ? -EINVAL : 1;
}

int rows_import_duration(struct rows *rows, int column, usec_t unit, struct trace_job *job, struct error *err)
{
    int r = rows_time(rows, column, unit, &job->truth.duration, err);

    if (r == 0 && job->truth.duration == 0) {
        rows_note(rows, "left out: ran for no time");
        return 0;
    }
    return r < 0 ? r : 1;
}

void rows_note(struct rows *rows, const char *text)
{
    struct import_notes *notes = rows->notes;
    size_t i = 0;

    while (i < notes->count && strcmp(notes->notes[i].text, text) != 0)
        i++;
    if (i == IMPORT_NOTES_MAX)
        i--; /* no format has so many kinds */
    if (i == notes->count)
        notes->notes[notes->count++] = (struct import_note){ .text = text, .line = rows->csv.record };
    notes->notes[i].count++;
}
