/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* world_table.h - the contract of a family of measured tables, one file each (tables_<family>.c).
 *
 * A family reads its files as their authors publish them and answers three questions: which rows speak of a job, how
 * fast those say it runs in a placement, and how fast two jobs run that share their GPUs. Cells that were not measured
 * are filled by a rule the family states at its top.
 */
#include <stdint.h>

#include "base/error.h"
#include "base/names.h"
#include "sim/world/world.h"
#include "sim/world/world_grid.h"

/* What a table may know of a job to find its rows. */
struct table_job {
    const char *model; /* "" = not told */
    uint32_t batch;    /* global; 0 = not told */
    int32_t gpus;
};

/* Where a job stands. */
struct table_place {
    const struct world_shape *shape;
    uint32_t type;        /* the table's number for that GPU type */
    int32_t nodes_fewest; /* that could hold so many GPUs of it */
};

struct table;

struct table_ops {
    const char *kind, *holds; /* its name after the colon of `speed=PATH:kind`; what it is in a line */
    bool relative;            /* speeds are relative, not iterations a second */

    /* Is this path one of ours? Only asked when no kind was told. `head`: the first bytes of a file; `entries`: what
     * is in a folder; the other is NULL. */
    bool (*claims)(const char *head, const struct names *entries);
    int (*load)(const char *path, struct table **ret_table, struct error *err);
    void (*free)(struct table *table);

    /* The rows for a job. -ENOENT: the model is not there (the caller lists table->models). */
    int (*find)(struct table *table, const struct table_job *job, uint32_t *ret_entry, struct error *err);

    /* Iterations a second (or relative speed); 0 = the model has no row at all for that GPU type: cannot run there.
     * NULL: this family has pairs only. */
    double (*speed)(const struct table *table, uint32_t entry, const struct table_place *place);

    /* Iterations to the end of a job; 0 = not told. NULL: never told. */
    int64_t (*iterations)(const struct table *table, uint32_t entry);

    /* For a family that counts progress by itself, else all NULL; see world.h. */
    void (*pace_place)(const struct table *table, uint32_t entry, const struct world_shape *shape,
                       struct world_pace *pace);
    bool (*pace_run)(const struct table *table, uint32_t entry, struct world_pace *pace, const usec_t span[2],
                     usec_t *ret_done);
    double (*step_time)(const struct table *table, uint32_t entry, const struct world_shape *shape);
    double (*steps_left)(const struct table *table, uint32_t entry, const struct world_pace *pace);

    /* Speeds of two jobs on the same GPUs, relative to each alone; both 0 = they do not fit together.
     * -ENOENT: not measured. NULL: this family has no pairs. May keep what it computed. */
    int (*pair)(struct table *table, const uint32_t entries[2], const struct table_place *place, double ret_rates[2]);
};

/* What a job was bound to. */
struct table_entry {
    uint32_t model, batch;
};

/* The head of every family's own struct. */
struct table {
    const struct table_ops *ops;
    struct names models;
    struct names types; /* GPU types, as the table calls them; none = it speaks of one type, whatever that is */
    struct table_entry *entries;
    size_t entry_count, entry_capacity;
};

/* The families, closed by NULL. */
extern const struct table_ops *const table_families[];
extern const struct table_ops table_native, table_pairs, table_pollux, table_pollux_sim, table_gavel, table_elasticflow,
    table_chronus, table_lucid, table_muri, table_servers, table_roles;

/* Loads "PATH" or "PATH:kind". */
int table_open(const char *spec, struct table **ret_table, struct error *err);
void table_free(struct table *table);
DEFINE_CLEANUP(struct table *, table_free)

/* The table's type for a GPU of this name: the same letters and digits, or an alias ("aws" is a T4). NAME_NONE. */
uint32_t table_type_find(const struct table *table, const char *sku);

/* For families. Frees what every table has. */
void table_done(struct table *table);

/* The entry of (model, batch), made if new. */
int table_bind(struct table *table, uint32_t model, uint32_t batch, uint32_t *ret_entry);

/* An ordinary find(): the model by name, the batch as told. */
int table_find(struct table *table, const struct table_job *job, uint32_t *ret_entry, struct error *err);

/* "DIR/NAME"; -ENAMETOOLONG. */
int table_path(char path[WORLD_PATH_MAX], const char *dir, const char *name, struct error *err);

/* Measured numbers lie between 1e-12 and 1e12, so that no quotient of two overflows. */
bool table_number_ok(double value);

bool text_ends(const char *text, const char *tail);
bool text_begins(const char *text, const char *head);

struct world_tables {
    struct table *speed, *pairs;                         /* NULL = none */
    uint32_t *speed_entry, *pairs_entry;                 /* of each job */
    double *nominal;                                     /* speed of each job at its best */
    usec_t *work;                                        /* of each job */
    uint32_t speed_type[SKUS_MAX], pairs_type[SKUS_MAX]; /* of each SKU of the cluster */
};
