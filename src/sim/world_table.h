/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* world_table.h - the contract of a family of measured tables, one file each (tables_<family>.c).
 *
 * A family reads its files as their authors publish them and answers three questions: which rows speak of a job, how
 * fast those say it runs in a placement, and how fast two jobs run that share their GPUs. Cells that were not measured
 * are filled by a rule the family states at its top; none answers 0 for "not measured".
 */
#include <stdint.h>

#include "base/error.h"
#include "base/names.h"
#include "sim/world.h"

/* What a table may know of a job to find its rows. */
struct table_job {
    const char *model; /* "" = not told */
    uint32_t batch;    /* global; 0 = not told */
    int32_t gpus;
};

struct table;

struct table_ops {
    const char *kind, *holds; /* its name after the colon of `speed=PATH:kind`; what it is in a line */

    /* Is this path one of ours? Only asked when no kind was told; `head` is the start of the file, "" for a folder. */
    bool (*claims)(const char *path, const char *head);
    int (*load)(const char *path, struct table **ret_table, struct error *err);
    void (*free)(struct table *table);

    /* The rows for a job. -ENOENT: the model is not there (the caller lists table->models). */
    int (*find)(struct table *table, const struct table_job *job, uint32_t *ret_entry, struct error *err);

    /* Iterations a second, > 0, on GPUs of that type; NULL: this family has pairs only. A family whose numbers are
     * relative gives 1.0 for the best placement. */
    double (*speed)(const struct table *table, uint32_t entry, uint32_t type, const struct world_shape *shape);

    /* Iterations to the end of a job; 0 = not told. NULL: never told. */
    int64_t (*iterations)(const struct table *table, uint32_t entry);

    /* Speeds of two jobs on the same `gpus` GPUs, relative to each alone; both 0 = they do not fit together.
     * -ENOENT: not measured. NULL: this family has no pairs. */
    int (*pair)(const struct table *table, const uint32_t entries[2], uint32_t type, int32_t gpus, double ret_rates[2]);
};

/* The head of every family's own struct. */
struct table {
    const struct table_ops *ops;
    struct names models;
    struct names types; /* GPU types, as the table calls them; none = it speaks of one type, whatever that is */
};

/* The families, closed by NULL. */
extern const struct table_ops *const table_families[];

/* Loads "PATH" or "PATH:kind". */
int table_open(const char *spec, struct table **ret_table, struct error *err);
void table_free(struct table *table);

/* The table's type for a GPU of this name: the same letters and digits, or an alias ("aws" is a T4). NAME_NONE. */
uint32_t table_type_find(const struct table *table, const char *sku);

struct world_tables {
    struct table *speed, *pairs;                         /* NULL = none */
    uint32_t *speed_entry, *pairs_entry;                 /* of each job */
    double *nominal;                                     /* iterations a second of each job at its best */
    usec_t *work;                                        /* of each job */
    uint32_t speed_type[SKUS_MAX], pairs_type[SKUS_MAX]; /* of each SKU of the cluster */
};
