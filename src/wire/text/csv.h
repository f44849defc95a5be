/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* csv.h - separated values: records out of a block of bytes, and their fields as numbers, times and names.
 *
 * RFC 4180: quotes, doubled quotes, separators and line ends inside quotes, LF or CRLF. Between tabs a quote is a
 * character like any other. Lines without a single byte
 * and a leading UTF-8 byte order mark are passed over. Nothing is copied but fields with doubled quotes. Errors read
 * "FILE:LINE:COLUMN: NAME: expected WHAT, got 'TEXT'"; lines and columns count from 1, columns in bytes.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/names.h"
#include "base/units.h"

/* Instants and spans beyond a thousand years are mistakes, and leave no room for sums. */
#define CSV_SPAN_MAX (365000 * USEC_DAY)

enum { CSV_FIELDS_MAX = 256 };
#define CSV_RECORD_MAX ((size_t)1 << 20)

struct csv_field {
    const char *text; /* borrowed from the input, or from the reader until the next record */
    uint32_t length;
    uint32_t line, column; /* where it starts */
};

/* One column a file may have. `index` is filled by csv_header(): -1 = not in this file. */
struct csv_column {
    const char *name;
    bool required;
    int index;
};

struct csv {
    const char *file; /* borrowed; for messages */
    const char *at, *end, *line_start;
    uint32_t line;         /* of the next record */
    uint32_t record;       /* line on which the current one starts */
    char separator, quote; /* a quote equal to the separator: none */
    size_t count;
    struct csv_field fields[CSV_FIELDS_MAX];
    struct csv_field header[CSV_FIELDS_MAX]; /* names of the columns, for messages; count 0 = no header read */
    size_t header_count;
    struct buf scratch;
};

/* `data` and `file` are borrowed until csv_done(). */
void csv_init(struct csv *csv, const char *file, const char *data, size_t size, char separator);
void csv_done(struct csv *csv);

/* 1 = the next record is in fields[0..count), 0 = the end. After csv_header() a record has as many fields as it. */
int csv_next(struct csv *csv, struct error *err) __attribute__((warn_unused_result));

/* Reads the first record as the header and finds each of `columns` in it. A missing required column, an unknown one
 * and one that comes twice are refused by name. */
int csv_header(struct csv *csv, struct csv_column *columns, size_t column_count, struct error *err)
    __attribute__((warn_unused_result));

/* The field at a column's index; NULL when the file has no such column or the field is empty. */
const struct csv_field *csv_get(const struct csv *csv, int index);

/* An error at a field: "FILE:LINE:COLUMN: NAME: expected WHAT, got 'TEXT'". Returns -EINVAL. */
int csv_expected(const struct csv *csv, int index, struct error *err, const char *what, ...)
    __attribute__((format(printf, 4, 5)));

/* An error at a field in other words: "FILE:LINE:COLUMN: NAME: ...". Returns `code`. */
int csv_fail(const struct csv *csv, int index, int code, struct error *err, const char *words, ...)
    __attribute__((format(printf, 5, 6)));

/* Fields as values. The field must be there and not empty. -EINVAL with the words above. */
int csv_i64(const struct csv *csv, int index, int64_t min, int64_t max, int64_t *ret_value, struct error *err)
    __attribute__((warn_unused_result));

/* A decimal number times `scale`, to the nearest integer, halves up; exact, no floating point on the way. */
int csv_scaled(const struct csv *csv, int index, int64_t scale, int64_t max, int64_t *ret_value, struct error *err)
    __attribute__((warn_unused_result));

/* A span or an instant, not negative, in units of `unit` microseconds (USEC_SEC, USEC_MIN, USEC_MSEC, ...). */
int csv_usec(const struct csv *csv, int index, usec_t unit, usec_t *ret_value, struct error *err)
    __attribute__((warn_unused_result));

/* A name, kept once in `names`; an empty or missing field is NAME_NONE. */
int csv_name(const struct csv *csv, int index, struct names *names, uint32_t *ret_name, struct error *err)
    __attribute__((warn_unused_result));

/* One of `words[0..count)`. */
int csv_word(const struct csv *csv, int index, const char *const *words, size_t count, uint8_t *ret_value,
             struct error *err) __attribute__((warn_unused_result));

/* A double; finite. For measured tables only. */
int csv_double(const struct csv *csv, int index, double *ret_value, struct error *err)
    __attribute__((warn_unused_result));

/* Appends a field, quoted where it must be. */
void csv_put(struct buf *out, const char *text, char separator);
