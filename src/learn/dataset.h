/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* dataset.h - a table of finished jobs, one a row, as a CSV file has it.
 *
 * A column whose every value is a number is one of numbers, else one of texts, of which only the hash is kept.
 */
#include "base/error.h"
#include "base/names.h"
#include "model/forest.h"

enum { DATASET_COLUMNS_MAX = 96 };

struct dataset {
    struct names columns;
    bool text[DATASET_COLUMNS_MAX];
    struct feature *cells; /* owned; [row * columns.count + column] */
    size_t rows, capacity;
    uint64_t skipped; /* rows left out for want of a value */
    size_t header;    /* columns of the file; those behind them are words of its command lines */
    uint32_t command; /* the column with command lines; NAME_NONE: none */
};

/* How a file is read. */
struct dataset_options {
    bool skip_missing;   /* leave rows with an empty field out, and count them, instead of refusing the file */
    const char *command; /* a column of command lines, whose words --key=value become columns "--key"; NULL: none */
};

enum { DATASET_WORDS_MAX = 32 };

void dataset_done(struct dataset *set);

/* `file` names it in messages. Words of command lines whose value is a path, and those that name a host, a task or the
 * job, are left out; a line without a word that others have counts as -1 there. */
int dataset_read(struct dataset *set, const char *file, const char *data, size_t size,
                 const struct dataset_options *options, struct error *err) __attribute__((warn_unused_result));

/* The column of that name; -ENOENT with the names there are. */
int dataset_column(const struct dataset *set, const char *name, uint32_t *ret_column, struct error *err)
    __attribute__((warn_unused_result));

static inline const struct feature *dataset_cell(const struct dataset *set, size_t row, uint32_t column)
{
    return &set->cells[row * set->columns.count + column];
}
