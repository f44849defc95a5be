/* SPDX-License-Identifier: Apache-2.0 */
/* tables_native.c - muster's own tables: speeds by placement, and pairs on one GPU.
 *
 * Speeds: `model,sku,gpus,nodes,iterations_per_second`; `sku` may be left out when the table is of one GPU type.
 * Between two GPU counts of the same node count the speed is straight; so it is between two node counts. More GPUs
 * than measured are as fast as the most measured, fewer in proportion.
 *
 * Pairs: `model_a,model_b,sku,rate_a,rate_b`, speeds relative to alone; 0,0 = they do not fit together. The pair (b, a)
 * is the same row. A pair without a row is not measured.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/tables/tables_csv.h"
#include "sim/world/world_table.h"

struct native {
    struct table table;
    struct grid grid; /* speeds: at = nodes, x = GPUs. pairs: at = the other model */
};

static struct native *as_native(struct table *table)
{
    return (struct native *)table;
}

static void native_free(struct table *table)
{
    grid_done(&as_native(table)->grid);
    table_done(table);
    mem_free(table);
}

static bool has_line(const char *head, const char *begin)
{
    return head && text_begins(head, begin);
}

static bool speed_claims(const char *head, const struct names *entries)
{
    (void)entries;
    return has_line(head, "model,sku,gpus,nodes,") || has_line(head, "model,gpus,nodes,");
}

static bool pairs_claims(const char *head, const struct names *entries)
{
    (void)entries;
    return has_line(head, "model_a,");
}

/* The GPU type of a row; without the column there are no types. */
static int read_type(struct native *native, const struct csv *csv, int index, uint32_t *ret_type, struct error *err)
{
    *ret_type = 0;
    return index < 0 ? 0 : table_csv_name(csv, index, &native->table.types, ret_type, err);
}

static int read_speed(struct native *native, const struct csv *csv, const struct csv_column *columns, struct error *err)
{
    struct grid_row row = { 0 };
    int64_t gpus, nodes;
    int r;

    r = table_csv_name(csv, columns[0].index, &native->table.models, &row.model, err);
    if (r == 0)
        r = read_type(native, csv, columns[1].index, &row.type, err);
    if (r == 0)
        r = csv_i64(csv, columns[2].index, 1, GANG_GPUS_MAX, &gpus, err);
    if (r == 0)
        r = csv_i64(csv, columns[3].index, 1, gpus, &nodes, err);
    if (r == 0)
        r = table_csv_speed(csv, columns[4].index, false, &row.y[0], err);
    if (r < 0)
        return r;
    row.at = (uint64_t)nodes;
    row.x = (double)gpus;
    r = grid_add(&native->grid, &row);
    return r < 0 ? error_set(err, r, "%s: too many rows", csv->file) : 0;
}

static int read_pair(struct native *native, const struct csv *csv, const struct csv_column *columns, struct error *err)
{
    struct grid_row row = { 0 }, mirror;
    uint32_t other = 0;
    int r;

    r = table_csv_name(csv, columns[0].index, &native->table.models, &row.model, err);
    if (r == 0)
        r = table_csv_name(csv, columns[1].index, &native->table.models, &other, err);
    if (r == 0)
        r = read_type(native, csv, columns[2].index, &row.type, err);
    if (r == 0)
        r = table_csv_speed(csv, columns[3].index, true, &row.y[0], err);
    if (r == 0)
        r = table_csv_speed(csv, columns[4].index, true, &row.y[1], err);
    if (r < 0)
        return r;
    if ((row.y[0] > 0) != (row.y[1] > 0))
        return csv_fail(csv, columns[4].index, -EINVAL, err, "one rate is 0: either both are, or none");
    row.at = other;
    mirror = (struct grid_row){ other, row.type, row.model, 0, { row.y[1], row.y[0] } };
    r = grid_add(&native->grid, &row);
    if (r == 0)
        r = grid_add(&native->grid, &mirror);
    return r < 0 ? error_set(err, r, "%s: too many rows", csv->file) : 0;
}

typedef int (*read_row_fn)(struct native *, const struct csv *, const struct csv_column *, struct error *);

static int load(const char *path, const struct table_ops *ops, struct csv_column columns[5], read_row_fn read_row,
                struct table **ret_table, struct error *err)
{
    CLEANUP(table_free) struct table *table = mem_zalloc(1, sizeof(struct native));
    struct table_csv file;
    int r;

    if (!table)
        return error_set(err, -ENOMEM, "out of memory");
    table->ops = ops;
    r = table_csv_open(&file, path, columns, 5, err);
    if (r < 0)
        return r;
    while ((r = csv_next(&file.csv, err)) > 0) {
        r = read_row(as_native(table), &file.csv, columns, err);
        if (r < 0)
            break;
    }
    table_csv_close(&file);
    if (r < 0)
        return r;
    if (!as_native(table)->grid.count)
        return error_set(err, -EINVAL, "%s: expected rows after the header, got none", path);
    grid_close(&as_native(table)->grid);
    *ret_table = take(table);
    return 0;
}

static int speed_load(const char *path, struct table **ret_table, struct error *err)
{
    struct csv_column columns[] = {
        { "model", true, 0 },
        { "sku", false, 0 },
        { "gpus", true, 0 },
        { "nodes", true, 0 },
        { "iterations_per_second", true, 0 },
    };

    return load(path, &table_native, columns, read_speed, ret_table, err);
}

static int pairs_load(const char *path, struct table **ret_table, struct error *err)
{
    struct csv_column columns[] = {
        { "model_a", true, 0 }, { "model_b", true, 0 }, { "sku", false, 0 },
        { "rate_a", true, 0 },  { "rate_b", true, 0 },
    };

    return load(path, &table_pairs, columns, read_pair, ret_table, err);
}

/* The batch size plays no part. */
static int find(struct table *table, const struct table_job *job, uint32_t *ret_entry, struct error *err)
{
    struct table_job same = { job->model, 0, job->gpus };

    return table_find(table, &same, ret_entry, err);
}

static double speed(const struct table *table, uint32_t entry, const struct table_place *place)
{
    const struct native *native = (const struct native *)table;
    struct grid_row key = { table->entries[entry].model, place->type, place->shape->nodes, place->shape->gpus, { 0 } };
    double y[2];

    return grid_between(&native->grid, &key, GRID_GPUS, y) ? y[0] : 0.0;
}

static int64_t iterations(const struct table *table, uint32_t entry)
{
    (void)table;
    (void)entry;
    return 0;
}

static int pair(struct table *table, const uint32_t entries[2], const struct table_place *place, double ret_rates[2])
{
    const struct native *native = as_native(table);
    struct grid_row key = { table->entries[entries[0]].model, place->type, table->entries[entries[1]].model, 0, { 0 } };

    return grid_at(&native->grid, &key, GRID_FLAT, ret_rates) ? 0 : -ENOENT;
}

const struct table_ops table_native = {
    .kind = "native",
    .holds = "muster's own speeds: model,sku,gpus,nodes,iterations_per_second",
    .claims = speed_claims,
    .load = speed_load,
    .free = native_free,
    .find = find,
    .speed = speed,
    .iterations = iterations,
};

const struct table_ops table_pairs = {
    .kind = "pairs",
    .holds = "muster's own pairs: model_a,model_b,sku,rate_a,rate_b",
    .claims = pairs_claims,
    .load = pairs_load,
    .free = native_free,
    .find = find,
    .pair = pair,
};
