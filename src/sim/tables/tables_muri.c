/* SPDX-License-Identifier: Apache-2.0 */
/* tables_muri.c - time of an iteration and of its stages by model and GPU count (Muri, SIGCOMM'22).
 *
 * Read from the traces themselves, whose rows carry `iteration_time` and `resource_time_0..2` (storage and CPU, GPU,
 * network) in milliseconds; equal (model, GPU count) are averaged. Between measured GPU counts the times are straight,
 * outside as at the nearest.
 *
 * Two jobs on the same GPUs interleave: while one loads data the other computes, never both on one resource. With the
 * stages a[0..2], b[0..2] and the better shift of b against a by one or two stages, an iteration of both takes the sum
 * over s of max(a[s], b[s + shift]), at least the longer iteration alone; each job's speed is its own iteration time
 * over that.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/tables/tables_csv.h"
#include "sim/world/world_table.h"

enum { STAGES = 3, AT_ITERATION = STAGES };

struct muri {
    struct table table;
    struct grid times; /* at = stage or AT_ITERATION, x = GPUs; milliseconds */
};

static void muri_free(struct table *table)
{
    grid_done(&((struct muri *)table)->times);
    table_done(table);
    mem_free(table);
}

static bool muri_claims(const char *head, const struct names *entries)
{
    (void)entries;
    return head && text_begins(head, "job_id,num_gpu,") && strstr(head, "resource_time_0");
}

enum { C_MODEL, C_GPUS, C_ITERATION, C_STAGE };

static int read_row(struct muri *muri, const struct csv *csv, const struct csv_column *columns, struct error *err)
{
    struct grid_row row = { 0 };
    int64_t gpus;
    int r = table_csv_name(csv, columns[C_MODEL].index, &muri->table.models, &row.model, err);

    if (r == 0)
        r = csv_i64(csv, columns[C_GPUS].index, 1, GANG_GPUS_MAX, &gpus, err);
    if (r < 0)
        return r;
    row.x = (double)gpus;
    for (unsigned i = 0; i <= STAGES; i++) {
        int index = columns[i == AT_ITERATION ? C_ITERATION : C_STAGE + i].index;

        r = table_csv_speed(csv, index, i != AT_ITERATION, &row.y[0], err);
        if (r < 0)
            return r;
        row.at = i;
        r = grid_add(&muri->times, &row);
        if (r < 0)
            return error_set(err, r, "%s: too many rows", csv->file);
    }
    return 0;
}

static int muri_load(const char *path, struct table **ret_table, struct error *err)
{
    struct csv_column columns[] = {
        { "model_name", true, 0 },      { "num_gpu", true, 0 },         { "iteration_time", true, 0 },
        { "resource_time_0", true, 0 }, { "resource_time_1", true, 0 }, { "resource_time_2", true, 0 },
        { "job_id", false, 0 },         { "submit_time", false, 0 },    { "iterations", false, 0 },
        { "batch_size", false, 0 },     { "duration", false, 0 },       { "interval", false, 0 },
        { "priority", false, 0 },
    };
    CLEANUP(table_free) struct table *table = mem_zalloc(1, sizeof(struct muri));
    struct muri *muri = (struct muri *)table;
    struct table_csv file;
    int r;

    if (!table)
        return error_set(err, -ENOMEM, "out of memory");
    table->ops = &table_muri;
    r = table_csv_open(&file, path, columns, sizeof(columns) / sizeof(columns[0]), err);
    if (r < 0)
        return r;
    while ((r = csv_next(&file.csv, err)) > 0) {
        r = read_row(muri, &file.csv, columns, err);
        if (r < 0)
            break;
    }
    table_csv_close(&file);
    if (r < 0)
        return r;
    if (!muri->times.count)
        return error_set(err, -EINVAL, "%s: expected rows after the header, got none", path);
    grid_close(&muri->times);
    *ret_table = take(table);
    return 0;
}

static int muri_find(struct table *table, const struct table_job *job, uint32_t *ret_entry, struct error *err)
{
    struct table_job same = { job->model, 0, job->gpus };

    return table_find(table, &same, ret_entry, err);
}

static double time_of(const struct muri *muri, uint32_t entry, unsigned at, int32_t gpus)
{
    struct grid_row key = { .model = muri->table.entries[entry].model, .at = at, .x = gpus };
    double y[2];

    return grid_at(&muri->times, &key, GRID_FLAT, y) ? y[0] : 0.0;
}

static double muri_speed(const struct table *table, uint32_t entry, const struct table_place *place)
{
    return 1000.0 / time_of((const struct muri *)table, entry, AT_ITERATION, place->shape->gpus);
}

static int64_t muri_iterations(const struct table *table, uint32_t entry)
{
    (void)table;
    (void)entry;
    return 0;
}

static int muri_pair(struct table *table, const uint32_t entries[2], const struct table_place *place,
                     double ret_rates[2])
{
    const struct muri *muri = (const struct muri *)table;
    int32_t gpus = place->shape->gpus;
    double alone[2], stages[2][STAGES], best = -1;

    for (int k = 0; k < 2; k++) {
        alone[k] = time_of(muri, entries[k], AT_ITERATION, gpus);
        for (unsigned s = 0; s < STAGES; s++)
            stages[k][s] = time_of(muri, entries[k], s, gpus);
    }
    for (int shift = 1; shift < STAGES; shift++) {
        double sum = 0;

        for (int s = 0; s < STAGES; s++) {
            double a = stages[0][s], b = stages[1][(s + shift) % STAGES];

            sum += a > b ? a : b;
        }
        if (best < 0 || sum < best)
            best = sum;
    }
    for (int k = 0; k < 2; k++) {
        if (best < alone[k])
            best = alone[k];
    }
    ret_rates[0] = alone[0] / best;
    ret_rates[1] = alone[1] / best;
    return 0;
}

const struct table_ops table_muri = {
    .kind = "muri",
    .holds = "Muri's iteration and stage times, and pairs that interleave",
    .claims = muri_claims,
    .load = muri_load,
    .free = muri_free,
    .find = muri_find,
    .speed = muri_speed,
    .iterations = muri_iterations,
    .pair = muri_pair,
};
