/* SPDX-License-Identifier: Apache-2.0 */
/* tables_servers.c - jobs with parameter servers, by the terms of their step time (Optimus, EuroSys'18, section 3.2).
 *
 * A line a model: `model,mode,th0,th1,th2,th3,th4`. With p servers, w workers and the global batch M a second has
 *
 *   sync   1 / (th0 M/w + th1 + th2 w/p + th3 w + th4 p) steps
 *   async  w / (th0 + th1 w/p + th2 w + th3 p) steps; th4 is not used
 *
 * Placement does not matter here. A job without servers is taken to have one; without a batch size M is 1.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/tables/tables_csv.h"
#include "sim/world/world_table.h"

enum { TERMS = 5 };

struct servers {
    struct table table;
    struct servers_model {
        bool async;
        double theta[TERMS];
    } * models;
    size_t capacity;
};

static void servers_free(struct table *table)
{
    mem_free(((struct servers *)table)->models);
    table_done(table);
    mem_free(table);
}

static bool servers_claims(const char *head, const struct names *entries)
{
    (void)entries;
    return head && text_begins(head, "model,mode,th0,");
}

static int read_row(struct servers *servers, const struct csv *csv, const struct csv_column *columns, struct error *err)
{
    const struct csv_field *mode = csv_get(csv, columns[1].index);
    struct servers_model model = { 0 };
    double sum = 0;
    uint32_t name;
    int r = table_csv_name(csv, columns[0].index, &servers->table.models, &name, err);

    if (r < 0)
        return r;
    model.async = mode && mode->length == 5 && memcmp(mode->text, "async", 5) == 0;
    if (!model.async && !(mode && mode->length == 4 && memcmp(mode->text, "sync", 4) == 0))
        return csv_expected(csv, columns[1].index, err, "sync or async");
    for (int i = 0; i < TERMS; i++) {
        r = table_csv_speed(csv, columns[2 + i].index, true, &model.theta[i], err);
        if (r < 0)
            return r;
        sum += model.async && i == TERMS - 1 ? 0 : model.theta[i];
    }
    if (!(sum > 0))
        return csv_expected(csv, columns[2].index, err, "a step that takes some time");
    r = mem_grow((void **)&servers->models, &servers->capacity, (size_t)name + 1, 1 << 16, sizeof(*servers->models));
    if (r < 0)
        return error_set(err, r, "%s: too many models", csv->file);
    servers->models[name] = model;
    return 0;
}

static int servers_load(const char *path, struct table **ret_table, struct error *err)
{
    struct csv_column columns[] = {
        { "model", true, 0 }, { "mode", true, 0 }, { "th0", true, 0 }, { "th1", true, 0 },
        { "th2", true, 0 },   { "th3", true, 0 },  { "th4", true, 0 },
    };
    CLEANUP(table_free) struct table *table = mem_zalloc(1, sizeof(struct servers));
    struct table_csv file;
    int r;

    if (!table)
        return error_set(err, -ENOMEM, "out of memory");
    table->ops = &table_servers;
    r = table_csv_open(&file, path, columns, sizeof(columns) / sizeof(columns[0]), err);
    if (r < 0)
        return r;
    while ((r = csv_next(&file.csv, err)) > 0) {
        r = read_row((struct servers *)table, &file.csv, columns, err);
        if (r < 0)
            break;
    }
    table_csv_close(&file);
    if (r < 0)
        return r;
    if (!table->models.count)
        return error_set(err, -EINVAL, "%s: expected rows after the header, got none", path);
    *ret_table = take(table);
    return 0;
}

static double servers_speed(const struct table *table, uint32_t entry, const struct table_place *place)
{
    const struct servers_model *model = &((const struct servers *)table)->models[table->entries[entry].model];
    const double *th = model->theta;
    double batch = table->entries[entry].batch ? table->entries[entry].batch : 1;
    double w = place->shape->gpus, p = place->shape->servers > 0 ? place->shape->servers : 1;

    if (model->async)
        return w / (th[0] + th[1] * w / p + th[2] * w + th[3] * p);
    return 1 / (th[0] * batch / w + th[1] + th[2] * w / p + th[3] * w + th[4] * p);
}

const struct table_ops table_servers = {
    .kind = "servers",
    .holds = "step times of jobs with parameter servers, by their terms",
    .claims = servers_claims,
    .load = servers_load,
    .free = servers_free,
    .find = table_find,
    .speed = servers_speed,
};
