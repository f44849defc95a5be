/* SPDX-License-Identifier: Apache-2.0 */
/* tables_gavel.c - throughputs alone, spread and in pairs on three GPU types (Gavel, OSDI'20).
 *
 * `{gpu: {job: {"null": alone, other job: [this, the other]}}}`; a job is "('<Model> (batch size B)', N)" with N GPUs,
 * or without N in the older table; `gpu` may end in `_unconsolidated`. A job's model is the quoted text, or its first
 * part with the batch size told apart (global, or else of one GPU).
 *
 * Spread means on more nodes than it needs. Not measured: N between two is straight, more than the largest as fast as
 * that, fewer than the smallest in proportion; a 0 alone (it did not run) is left out; spread without numbers is as
 * alone. Pairs are of two jobs of the same N; the nearest N measured counts, the smaller of two equally near.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/tables/tables_json.h"
#include "sim/world/world_table.h"

enum { PACKED, SPREAD };
static const char unconsolidated[] = "_unconsolidated";

struct gavel {
    struct table table;
    struct grid alone; /* at = PACKED or SPREAD, x = GPUs */
    struct grid pairs; /* at = the other model, x = GPUs; relative to alone */
};

/* A job of the table: its model and how many GPUs. */
struct gavel_job {
    uint32_t model;
    long gpus;
};

static void gavel_free(struct table *table)
{
    grid_done(&((struct gavel *)table)->alone);
    grid_done(&((struct gavel *)table)->pairs);
    table_done(table);
    mem_free(table);
}

static bool gavel_claims(const char *head, const struct names *entries)
{
    (void)entries;
    return head && *head == '{' && strstr(head, "\"null\"");
}

/* "('ResNet-18 (batch size 16)', 2)", or just what is between the quotes. */
static int read_job(struct gavel *gavel, const char *file, const char *key, struct gavel_job *ret_job,
                    struct error *err)
{
    const char *name = key, *end = key + strlen(key);
    char *rest;
    int r;

    ret_job->gpus = 1;
    if (text_begins(key, "('")) {
        name = key + 2;
        end = strstr(name, "', ");
        if (!end)
            return error_set(err, -EINVAL, "%s: expected a job such as ('<model>', <gpus>), got '%.100s'", file, key);
        ret_job->gpus = strtol(end + 3, &rest, 10);
        if (strcmp(rest, ")") != 0 || ret_job->gpus < 1 || ret_job->gpus > GANG_GPUS_MAX)
            return error_set(err, -EINVAL, "%s: expected a job such as ('<model>', <gpus>), got '%.100s'", file, key);
    }
    r = names_put(&gavel->table.models, name, (size_t)(end - name), &ret_job->model);
    return r < 0 ? error_set(err, r, "%s: '%.100s': too many models, or too long a name", file, key) : 0;
}

static int read_number(const char *file, const char *key, const json_t *json, double *ret_value, struct error *err)
{
    int r = json_number(file, key, json, ret_value, err);

    if (r == 0 && *ret_value != 0 && !table_number_ok(*ret_value))
        r = json_expected(file, key, json, "0 or a number from 1e-12 to 1e12", err);
    return r;
}

/* Pairs of one job: [its speed, the other's]. `gpu` gives the speed alone of both. */
static int read_pairs(struct gavel *gavel, const char *file, json_t *gpu, const char *key, struct grid_row row,
                      struct error *err)
{
    json_t *job = json_object_get(gpu, key), *pair, *alone = json_object_get(job, "null");
    const char *other_key;
    struct gavel_job other;
    int r = 0;

    json_object_foreach(job, other_key, pair)
    {
        json_t *other_alone = json_object_get(json_object_get(gpu, other_key), "null");

        if (pair == alone)
            continue;
        if (!json_is_array(pair) || json_array_size(pair) != 2)
            return json_expected(file, key, pair, "a pair of speeds", err);
        r = read_number(file, key, json_array_get(pair, 0), &row.y[0], err);
        if (r == 0)
            r = read_number(file, key, json_array_get(pair, 1), &row.y[1], err);
        if (r == 0)
            r = read_job(gavel, file, other_key, &other, err);
        if (r < 0)
            return r;
        if (other.gpus != (long)row.x || !(json_number_value(alone) > 0) || !(json_number_value(other_alone) > 0))
            continue;
        row.at = other.model;
        row.y[0] /= json_number_value(alone);
        row.y[1] /= json_number_value(other_alone);
        r = grid_add(&gavel->pairs, &row);
        if (r < 0)
            return error_set(err, r, "%s: too many numbers", file);
    }
    return 0;
}

static int read_gpu(void *arg, const char *file, const char *name, json_t *gpu, struct error *err)
{
    struct gavel *gavel = arg;
    bool spread = text_ends(name, unconsolidated);
    size_t length = strlen(name) - (spread ? strlen(unconsolidated) : 0);
    struct grid_row row = { .at = spread ? SPREAD : PACKED };
    struct gavel_job who;
    const char *key;
    json_t *job;
    int r = json_need(file, name, gpu, JSON_OBJECT, err);

    if (r == 0 && names_put(&gavel->table.types, name, length, &row.type) < 0)
        r = error_set(err, -E2BIG, "%s: '%.64s': too many GPU types, or too long a name", file, name);
    if (r < 0)
        return r;
    json_object_foreach(gpu, key, job)
    {
        json_t *alone = json_object_get(job, "null");

        r = json_need(file, key, job, JSON_OBJECT, err);
        if (r == 0)
            r = read_job(gavel, file, key, &who, err);
        if (r == 0 && alone)
            r = read_number(file, key, alone, &row.y[0], err);
        row.model = who.model;
        row.x = (double)who.gpus;
        if (r == 0 && alone && row.y[0] > 0 && grid_add(&gavel->alone, &row) < 0)
            r = error_set(err, -ENOMEM, "%s: too many numbers", file);
        if (r == 0 && !spread)
            r = read_pairs(gavel, file, gpu, key, (struct grid_row){ who.model, row.type, 0, row.x, { 0 } }, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_all(struct gavel *gavel, const char *path, struct error *err)
{
    int r = table_json_each(path, read_gpu, gavel, err);

    if (r == 0 && !gavel->alone.count)
        return error_set(err, -EINVAL, "%s: expected speeds by GPU type and job, got none", path);
    return r;
}

static int gavel_load(const char *path, struct table **ret_table, struct error *err)
{
    CLEANUP(table_free) struct table *table = mem_zalloc(1, sizeof(struct gavel));
    int r;

    if (!table)
        return error_set(err, -ENOMEM, "out of memory");
    table->ops = &table_gavel;
    r = read_all((struct gavel *)table, path, err);
    if (r < 0)
        return r;
    grid_close(&((struct gavel *)table)->alone);
    grid_close(&((struct gavel *)table)->pairs);
    *ret_table = take(table);
    return 0;
}

static int gavel_find(struct table *table, const struct table_job *job, uint32_t *ret_entry, struct error *err)
{
    uint32_t batches[] = { job->batch, job->batch / (uint32_t)job->gpus };
    struct table_job named = { job->model, 0, job->gpus };
    char model[NAME_LENGTH_MAX + 32];
    int r = table_find(table, &named, ret_entry, err);

    named.model = model;
    for (size_t i = 0; r == -ENOENT && i < 2; i++) {
        snprintf(model, sizeof(model), "%s (batch size %u)", job->model, batches[i]);
        r = table_find(table, &named, ret_entry, err);
    }
    return r;
}

static double gavel_speed(const struct table *table, uint32_t entry, const struct table_place *place)
{
    const struct gavel *gavel = (const struct gavel *)table;
    struct grid_row key = { table->entries[entry].model, place->type, PACKED, place->shape->gpus, { 0 } };
    double y[2];

    if (place->shape->nodes > place->nodes_fewest)
        key.at = SPREAD;
    if (grid_at(&gavel->alone, &key, GRID_GPUS, y))
        return y[0];
    key.at = PACKED;
    return grid_at(&gavel->alone, &key, GRID_GPUS, y) ? y[0] : 0.0;
}

static int64_t gavel_iterations(const struct table *table, uint32_t entry)
{
    (void)table;
    (void)entry;
    return 0;
}

/* The row with the nearest GPU count: pairs are facts of a count, nothing lies between "fits" and "does not". */
static const struct grid_row *nearest(const struct gavel *gavel, uint32_t model, uint32_t type, uint32_t other,
                                      int32_t gpus)
{
    size_t count;
    const struct grid_row *rows = grid_curve(&gavel->pairs, model, type, other, &count), *best = rows;

    for (size_t i = 1; i < count; i++) {
        double was = best->x > gpus ? best->x - gpus : gpus - best->x;
        double is = rows[i].x > gpus ? rows[i].x - gpus : gpus - rows[i].x;

        if (is < was)
            best = &rows[i];
    }
    return best;
}

static int gavel_pair(struct table *table, const uint32_t entries[2], const struct table_place *place,
                      double ret_rates[2])
{
    const struct gavel *gavel = (const struct gavel *)table;
    uint32_t a = table->entries[entries[0]].model, b = table->entries[entries[1]].model;
    const struct grid_row *row = nearest(gavel, a, place->type, b, place->shape->gpus);

    if (row) {
        ret_rates[0] = row->y[0];
        ret_rates[1] = row->y[1];
        return 0;
    }
    row = nearest(gavel, b, place->type, a, place->shape->gpus);
    if (!row)
        return -ENOENT;
    ret_rates[0] = row->y[1];
    ret_rates[1] = row->y[0];
    return 0;
}

const struct table_ops table_gavel = {
    .kind = "gavel",
    .holds = "Gavel's throughputs alone, spread and in pairs",
    .claims = gavel_claims,
    .load = gavel_load,
    .free = gavel_free,
    .find = gavel_find,
    .speed = gavel_speed,
    .iterations = gavel_iterations,
    .pair = gavel_pair,
};
