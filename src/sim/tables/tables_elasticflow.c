/* SPDX-License-Identifier: Apache-2.0 */
/* tables_elasticflow.c - iterations a second by model, global batch size and GPU count (ElasticFlow, ASPLOS'23).
 *
 * A folder `throughputs_A100/` with one `<model>.csv` each, or a folder with several such folders, one GPU type each.
 * Placement is not in the table: it was the best. Cells that are empty, 0 or nan were not run and are left out; then,
 * and between measured GPU counts and batch sizes, the value is straight between the neighbours; below the smallest
 * GPU count in proportion, beyond the ends of the batch sizes as at the end. A job that tells no batch size gets the
 * smallest.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/dir.h"
#include "sim/tables/tables_csv.h"
#include "sim/world/world_table.h"

struct elasticflow {
    struct table table;
    struct grid grid; /* at = batch, x = GPUs */
};

static void ef_free(struct table *table)
{
    grid_done(&((struct elasticflow *)table)->grid);
    table_done(table);
    mem_free(table);
}

static bool ef_claims(const char *head, const struct names *entries)
{
    (void)head;
    for (size_t i = 0; entries && i < entries->count; i++) {
        const char *name = names_get(entries, (uint32_t)i);

        if (text_begins(name, "throughputs_"))
            return true;
    }
    return false;
}

static bool is_blank(const struct csv_field *field)
{
    return !field || (field->length == 3 && strncasecmp(field->text, "nan", 3) == 0);
}

/* A row: the batch size, then a speed for each GPU count in the header. */
static int read_row(struct elasticflow *ef, const struct csv *csv, const int64_t *gpus, struct grid_row row,
                    struct error *err)
{
    int64_t batch;
    int r = csv_i64(csv, 0, 1, UINT32_MAX, &batch, err);

    row.at = (uint64_t)batch;
    for (size_t i = 1; r == 0 && i < csv->count; i++) {
        if (is_blank(csv_get(csv, (int)i)))
            continue;
        r = table_csv_speed(csv, (int)i, true, &row.y[0], err);
        row.x = (double)gpus[i];
        if (r == 0 && row.y[0] > 0 && grid_add(&ef->grid, &row) < 0)
            r = error_set(err, -ENOMEM, "%s: too many numbers", csv->file);
    }
    return r;
}

static int read_rows(struct elasticflow *ef, struct csv *csv, struct grid_row row, struct error *err)
{
    int64_t gpus[CSV_FIELDS_MAX] = { 0 };
    size_t count;
    int r = csv_next(csv, err);

    if (r < 0)
        return r;
    if (r == 0 || csv->count < 2 || csv->fields[0].length != strlen("global_batch_size") ||
        memcmp(csv->fields[0].text, "global_batch_size", csv->fields[0].length) != 0)
        return error_set(err, -EINVAL, "%s:1:1: expected a header 'global_batch_size,1,2,...'", csv->file);
    count = csv->count;
    for (size_t i = 1; i < count; i++) {
        r = csv_i64(csv, (int)i, 1, GANG_GPUS_MAX, &gpus[i], err);
        if (r < 0)
            return r;
    }
    while ((r = csv_next(csv, err)) > 0) {
        if (csv->count != count)
            return error_set(err, -EINVAL, "%s:%u:1: expected %zu fields, as in the header, got %zu", csv->file,
                             csv->record, count, csv->count);
        r = read_row(ef, csv, gpus, row, err);
        if (r < 0)
            return r;
    }
    return r;
}

static int read_model(struct elasticflow *ef, const char *path, const char *file_name, uint32_t type, struct error *err)
{
    struct grid_row row = { .type = type };
    struct table_csv file = { 0 };
    int r;

    r = names_put(&ef->table.models, file_name, strlen(file_name) - strlen(".csv"), &row.model);
    if (r < 0)
        return error_set(err, r, "%s: too many models", path);
    r = table_csv_read(&file, path, err);
    if (r < 0)
        return r;
    r = read_rows(ef, &file.csv, row, err);
    table_csv_close(&file);
    return r;
}

/* The GPU type is what follows the last '_' of the folder's name. */
static int read_folder(struct elasticflow *ef, const char *dir, struct error *err)
{
    const char *mark = strrchr(dir, '_');
    struct names entries = { 0 };
    char path[WORLD_PATH_MAX];
    uint32_t type;
    size_t length = mark ? strcspn(mark + 1, "/") : 0;
    int r;

    if (!length)
        return error_set(err, -EINVAL, "%s: expected a folder named throughputs_<GPU type>", dir);
    r = names_put(&ef->table.types, mark + 1, length, &type);
    if (r < 0)
        return error_set(err, r, "%s: too many GPU types", dir);
    r = dir_list(dir, &entries, err);
    for (size_t i = 0; r == 0 && i < entries.count; i++) {
        const char *name = names_get(&entries, (uint32_t)i);

        if (!text_ends(name, ".csv"))
            continue;
        r = table_path(path, dir, name, err);
        if (r == 0)
            r = read_model(ef, path, name, type, err);
    }
    names_done(&entries);
    return r;
}

static int read_all(struct elasticflow *ef, const char *dir, struct error *err)
{
    struct names entries = { 0 };
    char path[WORLD_PATH_MAX];
    bool nested = false;
    int r = dir_list(dir, &entries, err);

    for (size_t i = 0; r == 0 && i < entries.count; i++) {
        const char *name = names_get(&entries, (uint32_t)i);

        if (!text_begins(name, "throughputs_"))
            continue;
        nested = true;
        r = table_path(path, dir, name, err);
        if (r == 0)
            r = read_folder(ef, path, err);
    }
    names_done(&entries);
    return r == 0 && !nested ? read_folder(ef, dir, err) : r;
}

static int ef_load(const char *path, struct table **ret_table, struct error *err)
{
    CLEANUP(table_free) struct table *table = mem_zalloc(1, sizeof(struct elasticflow));
    struct elasticflow *ef = (struct elasticflow *)table;
    int r;

    if (!table)
        return error_set(err, -ENOMEM, "out of memory");
    table->ops = &table_elasticflow;
    r = read_all(ef, path, err);
    if (r < 0)
        return r;
    if (!ef->grid.count)
        return error_set(err, -EINVAL, "%s: expected speeds in <model>.csv, got none", path);
    grid_close(&ef->grid);
    *ret_table = take(table);
    return 0;
}

static double ef_speed(const struct table *table, uint32_t entry, const struct table_place *place)
{
    const struct elasticflow *ef = (const struct elasticflow *)table;
    const struct table_entry *bound = &table->entries[entry];
    struct grid_row key = { bound->model, place->type, bound->batch, place->shape->gpus, { 0 } };
    double y[2];

    return grid_between(&ef->grid, &key, GRID_GPUS, y) ? y[0] : 0.0;
}

static int64_t ef_iterations(const struct table *table, uint32_t entry)
{
    (void)table;
    (void)entry;
    return 0;
}

const struct table_ops table_elasticflow = {
    .kind = "elasticflow",
    .holds = "ElasticFlow's throughputs by model, batch size and GPU count",
    .claims = ef_claims,
    .load = ef_load,
    .free = ef_free,
    .find = table_find,
    .speed = ef_speed,
    .iterations = ef_iterations,
};
