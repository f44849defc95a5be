/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.c - see dataset.h. */
#include "learn/dataset.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/text/csv.h"

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
    csv->header_count = set->header = csv->count;
    return 0;
}

/* ---- command lines ---- */

/* One word --key=value of a command line. */
struct option_word {
    const char *key, *value;
    size_t key_length, value_length; /* the key with its dashes */
};

static bool names_a_place(const struct option_word *word)
{
    static const char *const keys[] = { "--job_name", "--job-name", "--task_index", "--task-index" };

    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (strlen(keys[i]) == word->key_length && memcmp(keys[i], word->key, word->key_length) == 0)
            return true;
    return memmem(word->key, word->key_length, "host", 4) || memchr(word->value, '/', word->value_length);
}

/* The next word that can be a feature, from *at on; false at the end. */
static bool next_word(const char **at, const char *end, struct option_word *ret)
{
    while (*at < end) {
        const char *from = *at, *to = from, *equals;

        while (to < end && *to != ' ' && *to != '\t')
            to++;
        *at = to + (to < end);
        equals = memchr(from, '=', (size_t)(to - from));
        if (to - from < 5 || from[0] != '-' || from[1] != '-' || !equals || equals + 1 == to)
            continue;
        *ret = (struct option_word){ from, equals + 1, (size_t)(equals - from), (size_t)(to - equals - 1) };
        if (ret->key_length >= 3 && ret->key_length < FOREST_NAME_MAX && !names_a_place(ret))
            return true;
    }
    return false;
}

/* Every key that some command line has becomes a column behind those of the file. */
static int collect_words(struct dataset *set, struct csv *csv, const char *command, struct error *err)
{
    int r;

    set->command = names_find(&set->columns, command, strlen(command));
    if (set->command == NAME_NONE)
        return error_set(err, -ENOENT, "%s: no column '%s' with command lines", csv->file, command);
    while ((r = csv_next(csv, err)) > 0) {
        const struct csv_field *field = csv_get(csv, (int)set->command);
        const char *at = field ? field->text : NULL;
        struct option_word word;
        uint32_t index;

        while (field && next_word(&at, field->text + field->length, &word)) {
            bool full =
                set->columns.count >= set->header + DATASET_WORDS_MAX || set->columns.count >= DATASET_COLUMNS_MAX;

            if (!full && names_put(&set->columns, word.key, word.key_length, &index) < 0)
                return error_set(err, -ENOMEM, "%s: no memory for the words of command lines", csv->file);
        }
    }
    return r;
}

static void cell_of(const char *text, size_t length, struct feature *ret)
{
    char copy[64], *end;

    *ret = (struct feature){ (double)NAN, feature_hash(text, length) };
    if (length == 0 || length >= sizeof(copy))
        return;
    memcpy(copy, text, length);
    copy[length] = '\0';
    ret->number = strtod(copy, &end);
    if (*end || end == copy || !isfinite(ret->number) || strpbrk(copy, "xX \t\n\v\f\r"))
        ret->number = (double)NAN;
}

/* The words of this row's command line into its cells. */
static void read_words(struct dataset *set, const struct csv *csv, struct feature *row)
{
    const struct csv_field *field = set->command == NAME_NONE ? NULL : csv_get(csv, (int)set->command);
    const char *at = field ? field->text : NULL;
    struct option_word word;

    for (size_t i = set->header; i < set->columns.count; i++)
        row[i] = (struct feature){ -1, 0 };
    while (field && next_word(&at, field->text + field->length, &word)) {
        uint32_t column = names_find(&set->columns, word.key, word.key_length);

        if (column == NAME_NONE || column < set->header)
            continue;
        cell_of(word.value, word.value_length, &row[column]);
        set->text[column] |= isnan(row[column].number);
    }
}

/* ---- rows ---- */

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
    for (size_t i = 0; i < set->header; i++) {
        const struct csv_field *field = csv_get(csv, (int)i);
        struct feature *cell = &set->cells[set->rows * columns + i];

        if (!field && skip_missing)
            return 0;
        if (!field)
            return csv_expected(csv, (int)i, err, "a value (rows without one can be left out: --skip-missing)");
        cell_of(field->text, field->length, cell);
        set->text[i] |= isnan(cell->number);
    }
    read_words(set, csv, &set->cells[set->rows * columns]);
    return 1;
}

static int read_rows(struct dataset *set, struct csv *csv, bool skip_missing, struct error *err)
{
    int r;

    while ((r = csv_next(csv, err)) > 0) {
        int taken = read_row(set, csv, skip_missing, err);

        if (taken < 0)
            return taken;
        set->rows += taken > 0;
        set->skipped += taken == 0;
    }
    return r;
}

int dataset_read(struct dataset *set, const char *file, const char *data, size_t size,
                 const struct dataset_options *options, struct error *err)
{
    struct csv csv;
    int r = 0;

    set->command = NAME_NONE;
    /* With command lines twice: their words first. */
    for (int pass = options->command ? 0 : 1; pass < 2 && r == 0; pass++) {
        csv_init(&csv, file, data, size, ',');
        r = read_header(set, &csv, err);
        if (r == 0)
            r = pass == 0 ? collect_words(set, &csv, options->command, err)
                          : read_rows(set, &csv, options->skip_missing, err);
        csv_done(&csv);
    }
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
