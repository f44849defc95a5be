/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* rows.h - files with one job a row: what the native trace and all the foreign ones share.
 *
 * A format gives its columns and a function that turns one row into a job; the loop, the ids, the check for doubles,
 * the notes and the order are here. Ids that are all plain numbers stay those numbers; if one is not, all are text:
 * they are numbered in the order of the rows and the text is kept in trace->ids.
 */
#include "model/trace.h"
#include "wire/text/csv.h"
#include "wire/trace/import.h"

struct rows;

struct row_format {
    char separator;
    const struct csv_column *columns; /* the header; NULL = the file has none */
    size_t column_count;              /* without a header: how many fields a record may have at most */
    int id_column;                    /* index into columns; -1 = none, the id is the row's number from 0 */

    /* Fills the job, which was initialised, from rows->csv. 1 = keep it, 0 = leave it out (a note says so). */
    int (*row)(struct rows *rows, struct trace_job *job, struct error *err);

    /* After the last row, before sorting. NULL = nothing to do. */
    int (*finish)(struct rows *rows, struct error *err);
};

struct rows {
    struct csv csv;
    const struct row_format *format;
    struct csv_column columns[CSV_FIELDS_MAX]; /* of the format, with their places in this file */
    struct trace *trace;
    struct import_notes *notes;
    size_t row; /* data rows before this one */
    bool ids_are_text;
    struct {
        int64_t id;
        uint32_t line; /* 0 = free */
    } * seen;
    size_t seen_count, seen_size;
};

/* The place of column i of the format in this file, -1 when it is not there. */
static inline int rows_at(const struct rows *rows, int column)
{
    return rows->columns[column].index;
}

static inline bool rows_has(const struct rows *rows, int column)
{
    return csv_get(&rows->csv, rows->columns[column].index) != NULL;
}

/* Reads a whole file into *ret_trace, which is zero before and untouched on failure. */
int rows_read(const struct row_format *format, const char *file, const struct bytes *bytes, struct trace *ret_trace,
              struct import_notes *notes, struct error *err) __attribute__((warn_unused_result));

/* Shorthands for the usual fields; they name the column in their errors. */
int rows_gpus(struct rows *rows, int column, struct trace_job *job, struct error *err);
int rows_time(struct rows *rows, int column, usec_t unit, usec_t *ret_value, struct error *err);
int rows_span(struct rows *rows, int column, usec_t unit, usec_t *ret_value, struct error *err); /* > 0 */
int rows_u32(struct rows *rows, int column, int64_t max, uint32_t *ret_value, struct error *err);
int rows_name(struct rows *rows, int column, struct names *names, uint32_t *ret_name, struct error *err);

/* GPU types divided by '|', as bits over trace->skus. */
int rows_skus(struct rows *rows, int column, struct jobspec *spec, struct error *err);

/* For importers: 1, or 0 with a note when a job of a foreign log asks for no GPU, or ran for no time. */
int rows_import_gpus(struct rows *rows, int column, struct trace_job *job, struct error *err);
int rows_import_duration(struct rows *rows, int column, usec_t unit, struct trace_job *job, struct error *err);

/* The first `stop` in the text, or its end. */
const char *rows_until(const char *at, const char *end, char stop);

/* Counts a note of this kind, remembering where it was needed first. `text` is a literal. */
void rows_note(struct rows *rows, const char *text);
