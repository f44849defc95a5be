/* SPDX-License-Identifier: Apache-2.0 */
/* tables_chronus.c - what spreading a job over nodes costs (Chronus, SoCC'21: placement_slowdown.json).
 *
 * `{model: {gpus: {nodes: speed relative to one node}}}`. The speed is taken at the measured GPU count nearest to the
 * job's (the smaller of two equally near), straight between measured node counts and beyond them as at the last. More
 * or fewer GPUs than asked for count in proportion. A job of one GPU is never spread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/tables/tables_json.h"
#include "sim/world/world_table.h"

struct chronus {
    struct table table;
    struct grid grid; /* at = GPUs, x = nodes */
};

static void chronus_free(struct table *table)
{
    grid_done(&((struct chronus *)table)->grid);
    table_done(table);
    mem_free(table);
}

static bool chronus_claims(const char *head, const struct names *entries)
{
    (void)entries;
    return head && *head == '{' && !strstr(head, "\"null\"");
}

static int read_count(const char *file, const char *path, const char *key, long *ret_count, struct error *err)
{
    char *end;
    long count = strtol(key, &end, 10);

    if (end == key || *end || count < 1 || count > GANG_GPUS_MAX)
        return error_set(err, -EINVAL, "%s: %s: expected a count as key, got '%s'", file, path, key);
    *ret_count = count;
    return 0;
}

static int read_model(void *arg, const char *file, const char *model, json_t *sizes, struct error *err)
{
    struct chronus *chronus = arg;
    struct grid_row row = { 0 };
    const char *gpus_key, *nodes_key;
    json_t *spread, *value;
    long gpus, nodes;
    char path[320];
    int r = json_need(file, model, sizes, JSON_OBJECT, err);

    if (r == 0 && names_put(&chronus->table.models, model, strlen(model), &row.model) < 0)
        r = error_set(err, -E2BIG, "%s: '%.64s': too many models, or too long a name", file, model);
    if (r < 0)
        return r;
    json_object_foreach(sizes, gpus_key, spread)
    {
        snprintf(path, sizeof(path), "%.200s.%.64s", model, gpus_key);
        r = json_need(file, path, spread, JSON_OBJECT, err);
        if (r == 0)
            r = read_count(file, path, gpus_key, &gpus, err);
        if (r < 0)
            return r;
        json_object_foreach(spread, nodes_key, value)
        {
            r = json_number(file, path, value, &row.y[0], err);
            if (r == 0)
                r = read_count(file, path, nodes_key, &nodes, err);
            if (r == 0 && !table_number_ok(row.y[0]))
                r = json_expected(file, path, value, "a number from 1e-12 to 1e12", err);
            if (r < 0)
                return r;
            row.at = (uint64_t)gpus;
            row.x = (double)nodes;
            r = grid_add(&chronus->grid, &row);
            if (r < 0)
                return error_set(err, r, "%s: too many numbers", file);
        }
    }
    return 0;
}

static int read_all(struct chronus *chronus, const char *path, struct error *err)
{
    int r = table_json_each(path, read_model, chronus, err);

    if (r == 0 && !chronus->grid.count)
        return error_set(err, -EINVAL, "%s: expected speeds by model, GPUs and nodes, got none", path);
    return r;
}

static int chronus_load(const char *path, struct table **ret_table, struct error *err)
{
    CLEANUP(table_free) struct table *table = mem_zalloc(1, sizeof(struct chronus));
    int r;

    if (!table)
        return error_set(err, -ENOMEM, "out of memory");
    table->ops = &table_chronus;
    r = read_all((struct chronus *)table, path, err);
    if (r < 0)
        return r;
    grid_close(&((struct chronus *)table)->grid);
    *ret_table = take(table);
    return 0;
}

static int chronus_find(struct table *table, const struct table_job *job, uint32_t *ret_entry, struct error *err)
{
    struct table_job same = { job->model, 0, job->gpus };

    return table_find(table, &same, ret_entry, err);
}

static double chronus_speed(const struct table *table, uint32_t entry, const struct table_place *place)
{
    const struct chronus *chronus = (const struct chronus *)table;
    struct grid_row key = { .model = table->entries[entry].model, .x = place->shape->nodes };
    uint64_t around[2];
    double part, y[2];

    if (place->shape->nodes < 2)
        return place->shape->gpus;
    if (!grid_around(&chronus->grid, key.model, 0, (uint64_t)place->shape->gpus, around, &part))
        return place->shape->gpus;
    key.at = part <= 0.5 ? around[0] : around[1];
    if (!grid_at(&chronus->grid, &key, GRID_FLAT, y))
        return place->shape->gpus;
    return y[0] * place->shape->gpus;
}

const struct table_ops table_chronus = {
    .kind = "chronus",
    .holds = "Chronus' slowdown of jobs spread over nodes",
    .relative = true,
    .claims = chronus_claims,
    .load = chronus_load,
    .free = chronus_free,
    .find = chronus_find,
    .speed = chronus_speed,
};
