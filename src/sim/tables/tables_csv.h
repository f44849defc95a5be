/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* tables_csv.h - a CSV file with a header, open for reading row by row; for the table families. */
#include "wire/text/csv.h"

struct table_csv {
    struct bytes bytes;
    struct csv csv;
};

/* Reads the file and finds the columns; see csv_header(). Nothing to close on failure. */
int table_csv_open(struct table_csv *file, const char *path, struct csv_column *columns, size_t column_count,
                   struct error *err);
/* The same without looking at the header: the first csv_next() gives it. */
int table_csv_read(struct table_csv *file, const char *path, struct error *err);
void table_csv_close(struct table_csv *file);

/* A measured number, see table_number_ok(); or, with `zero`, 0 as well. */
int table_csv_speed(const struct csv *csv, int index, bool zero, double *ret_value, struct error *err);

/* A name that must be there. */
int table_csv_name(const struct csv *csv, int index, struct names *names, uint32_t *ret_name, struct error *err);
