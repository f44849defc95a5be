/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.c - see dataset.h. */
#include "learn/dataset.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/csv.h"

void dataset_done(struct dataset *set)
{
    names_done(&set->columns);
    mem_free(set->cells);
    *set = (struct dataset){ 0 };
}

static int read_header(struct dataset *set, struct csv *csv, struct error *err)
{
    int r = csv_next(csv, err);

    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, -EINVAL, "%s:1:1: expected a header line, got nothing", csv->file);
    if (csv->count > DATASET_COLUMNS_MAX)
        return error_set(err, -E2BIG, "%s:1:1: %zu columns; at most %d are read", csv->file, csv->count,
                         DATASET_COLUMNS_MAX);
    for (size_t i = 0; i < csv->count; i++) {
        uint32_t index;

        if (csv->fields[i].length == 0 || csv->fields[i].length >= FOREST_NAME_MAX)
            return csv_expected(csv, (int)i, err, "the name of a column, at most %d bytes", FOREST_NAME_MAX - 1);
        r = names_put(&set->columns, csv->fields[i].text, csv->fields[i].length, &index);
        if (r < 0)
            return error_set(err, r, "%s: no memory for the columns", csv->file);
        if (index != i)
            return csv_fail(csv, (int)i, -EINVAL, err, "this column comes twice");
    }
    memcpy(csv->header, csv->fields, csv->count * sizeof(csv->header[0]));
    for (size_t i = 0; i < csv->count; i++) {
        const char *name = names_get(&set->columns, (uint32_t)i);

        csv->header[i] = (struct csv_field){ name, (uint32_t)strlen(name), 1, 1 };
    }
    csv->header_count = csv->count;
    return 0;
}

/* 1 = taken, 0 = left out. */
static int read_row(struct dataset *set, struct csv *csv, bool skip_missing, struct error *err)
{
    size_t columns = set->columns.count;
    int r = mem_grow((void **)&set->cells, &set->capacity, (set->rows + 1) * columns,
                     FOREST_ROWS_MAX * DATASET_COLUMNS_MAX, sizeof(*set->cells));

    if (r < 0)
        return error_set(err, r, "%s:%u: no memory for more rows", csv->file, csv->record);
    if (set->rows >= FOREST_ROWS_MAX)
        return error_set(err, -E2BIG, "%s:%u: more than %zu rows", csv->file, csv->record, FOREST_ROWS_MAX);
    for (size_t i = 0; i < columns; i++) {
        const struct csv_field *field = csv_get(csv, (int)i);
        struct feature *cell = &set->cells[set->rows * columns + i];

        if (!field && skip_missing)
            return 0;
        if (!field)
            return csv_expected(csv, (int)i, err, "a value (rows without one can be left out: --skip-missing)");
        *cell = (struct feature){ NAN, feature_hash(field->text, field->length) };
        if (csv_double(csv, (int)i, &cell->number, NULL) < 0)
            cell->number = NAN;
        set->text[i] |= isnan(cell->number);
    }
    return 1;
}

int dataset_read(struct dataset *set, const char *file, const char *data, size_t size, bool skip_missing,
                 struct error *err)
{
    struct csv csv;
    int r;

    csv_init(&csv, file, data, size, ',');
    r = read_header(set, &csv, err);
    while (r == 0) {
        int taken;

        r = csv_next(&csv, err);
        if (r <= 0)
            break;
        taken = read_row(set, &csv, skip_missing, err);
        r = taken < 0 ? taken : 0;
        set->rows += taken > 0;
        set->skipped += taken == 0;
    }
    csv_done(&csv);
    return r;
}

int dataset_column(const struct dataset *set, const char *name, uint32_t *ret_column, struct error *err)
{
    char known[256] = "";

    *ret_column = names_find(&set->columns, name, strlen(name));
    if (*ret_column != NAME_NONE)
        return 0;
    for (uint32_t i = 0; i < set->columns.count; i++)
        (void)snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", i ? ", " : "",
                       names_get(&set->columns, i));
    return error_set(err, -ENOENT, "no column '%s' (there are: %s)", name, known);
}
