/* SPDX-License-Identifier: Apache-2.0 */
/* tables_pollux.c - step times by placement and batch size (Pollux, OSDI'21; Sia, SOSP'23, one set a GPU type).
 *
 * `<model>/placements.csv`: time of a step and of the gradient exchange in it for a placement ("24" = two GPUs on one
 * node, four on the next) and a batch size of one GPU. `<model>/scalability.csv`: the same by number of nodes and GPUs.
 * Sia's files end in `-<GPU type>.csv`. `<model>/validation-<B>.csv`: iterations at the end of each epoch with global
 * batch size B. Several folders are joined by '+' (Sia's does not repeat what Pollux' has).
 *
 * A step of a job with global batch B on g GPUs: each GPU has ceil(B / g) samples; more than fit at once, or one GPU
 * with more than the smallest B, are accumulated over several passes, of which only the last exchanges gradients.
 * A placement that was measured (whatever the order of its nodes) counts as it is, straight between batch sizes.
 * Others: straight between the two nearest node counts, in each between the two nearest GPU counts, in each between
 * batch sizes, over the mean of all placements with those counts and the scalability file; beyond the ends as at the
 * end. (The authors interpolate those over Delaunay cells; here neighbours on the grid are used.)
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/tables/tables_csv.h"
#include "sim/tables/tables_pollux.h"
#include "sim/world/world_table.h"

/* Grid keys besides placements, which are their own decimal digits, below 10^18: by (nodes, GPUs). */
#define BY_COUNT ((uint64_t)1 << 62)
enum { DIGITS_MAX = 18, GPUS_BITS = 20 };

struct pollux {
    struct table table;
    struct grid steps; /* at = placement or BY_COUNT | nodes << GPUS_BITS | GPUs; x = local batch; y = step, sync */
    struct grid iterations; /* at = epoch, x = global batch, y = iterations so far */
    struct pollux_model {
        double batch_min; /* smallest global batch validated; 0 = no such file */
        double local_max; /* largest batch of one GPU */
        uint64_t epochs;  /* rows every validation file has */
    } * models;
    size_t model_count;
};

static void pollux_free(struct table *table)
{
    struct pollux *pollux = (struct pollux *)table;

    grid_done(&pollux->steps);
    grid_done(&pollux->iterations);
    mem_free(pollux->models);
    table_done(table);
    mem_free(table);
}

/* Folders only; told apart from others by the models in it. */
static bool pollux_claims(const char *head, const struct names *entries)
{
    (void)head;
    return entries && (names_find(entries, "cifar10", 7) != NAME_NONE || names_find(entries, "traces", 6) != NAME_NONE);
}

static uint64_t by_count(uint64_t nodes, uint64_t gpus)
{
    return BY_COUNT | nodes << GPUS_BITS | gpus;
}

static int add(struct grid *grid, const struct grid_row *row, const struct csv *csv, struct error *err)
{
    int r = grid_add(grid, row);

    return r < 0 ? error_set(err, r, "%s: too many rows", csv->file) : 0;
}

static int digit_compare(const void *left, const void *right)
{
    return *(const char *)left - *(const char *)right;
}

/* "142" -> 124: placements that differ in the order of nodes only are one. */
static int read_placement(const struct csv *csv, int index, uint64_t *ret_at, int64_t *ret_nodes, int64_t *ret_gpus,
                          struct error *err)
{
    const struct csv_field *field = csv_get(csv, index);
    char digits[DIGITS_MAX];
    uint64_t at = 0;
    int64_t gpus = 0;

    if (!field || field->length > DIGITS_MAX)
        return csv_expected(csv, index, err, "up to %d digits, the GPUs on each node", DIGITS_MAX);
    for (uint32_t i = 0; i < field->length; i++) {
        if (field->text[i] < '1' || field->text[i] > '9')
            return csv_expected(csv, index, err, "digits 1..9, the GPUs on each node");
        digits[i] = field->text[i];
        gpus += field->text[i] - '0';
    }
    qsort(digits, field->length, 1, digit_compare);
    for (uint32_t i = 0; i < field->length; i++)
        at = at * 10 + (uint64_t)(digits[i] - '0');
    *ret_at = at;
    *ret_nodes = field->length;
    *ret_gpus = gpus;
    return 0;
}

static int read_step(void *arg, const struct csv *csv, const struct csv_column *columns, struct grid_row row,
                     struct error *err)
{
    struct pollux *pollux = arg;
    int64_t nodes, gpus;
    int r;

    if (columns[C_PLACEMENT].index >= 0) {
        r = read_placement(csv, columns[C_PLACEMENT].index, &row.at, &nodes, &gpus, err);
        if (r == 0)
            r = add(&pollux->steps, &row, csv, err);
    } else {
        r = csv_i64(csv, columns[C_NODES].index, 1, GANG_GPUS_MAX, &nodes, err);
        if (r == 0)
            r = csv_i64(csv, columns[C_GPUS].index, nodes, GANG_GPUS_MAX, &gpus, err);
    }
    if (r < 0)
        return r;
    row.at = by_count((uint64_t)nodes, (uint64_t)gpus);
    return add(&pollux->steps, &row, csv, err);
}

static int read_validation(struct pollux *pollux, const char *path, struct grid_row row, struct error *err)
{
    struct csv_column columns[] = {
        { "iteration", true, 0 }, { "progress", false, 0 }, { "metric", false, 0 },
        { "grad_sqr", false, 0 }, { "grad_var", false, 0 },
    };
    struct table_csv file;
    int r = table_csv_open(&file, path, columns, sizeof(columns) / sizeof(columns[0]), err);

    if (r < 0)
        return r;
    while ((r = csv_next(&file.csv, err)) > 0) {
        row.at++;
        r = table_csv_speed(&file.csv, columns[0].index, false, &row.y[0], err);
        if (r == 0)
            r = add(&pollux->iterations, &row, &file.csv, err);
        if (r < 0)
            break;
    }
    table_csv_close(&file);
    return r;
}

/* Files without a tag are of Pollux' own T4, which Sia calls aws. */
static int read_file(void *arg, const struct pollux_file *file, struct error *err)
{
    struct pollux *pollux = arg;
    struct grid_row row = { 0 };

    if (names_put(&pollux->table.models, file->model, strlen(file->model), &row.model) < 0)
        return error_set(err, -E2BIG, "%s: too many models, or too long a name", file->path);
    if (file->kind == POLLUX_VALIDATION) {
        row.x = (double)file->batch;
        return read_validation(pollux, file->path, row, err);
    }
    if (names_put(&pollux->table.types, file->type, strlen(file->type), &row.type) < 0)
        return error_set(err, -E2BIG, "%s: too many GPU types, or too long a name", file->path);
    return pollux_steps(file, row, read_step, pollux, err);
}

static void sum_up(struct pollux *pollux)
{
    for (size_t i = 0; i < pollux->steps.count; i++) {
        const struct grid_row *row = &pollux->steps.rows[i];

        if (row->x > pollux->models[row->model].local_max)
            pollux->models[row->model].local_max = row->x;
    }
    for (uint32_t m = 0; m < pollux->model_count; m++)
        if (pollux->models[m].local_max > pollux_local_max(names_get(&pollux->table.models, m)))
            pollux->models[m].local_max = pollux_local_max(names_get(&pollux->table.models, m));
    /* Sorted by epoch: the last one that has as many batch sizes as the first has is the end of all. */
    for (uint32_t m = 0; m < pollux->model_count; m++) {
        struct pollux_model *model = &pollux->models[m];
        size_t first, here;
        const struct grid_row *rows = grid_curve(&pollux->iterations, m, 0, 1, &first);

        model->batch_min = first ? rows->x : 0;
        for (uint64_t epoch = 1; first; epoch++) {
            grid_curve(&pollux->iterations, m, 0, epoch, &here);
            if (here < first)
                break;
            model->epochs = epoch;
        }
    }
}

static int read_all(struct pollux *pollux, const char *paths, struct error *err)
{
    int r = pollux_files(paths, read_file, pollux, err);

    if (r == 0 && !pollux->steps.count)
        r = error_set(err, -EINVAL, "%s: expected folders <model>/ with placements.csv, found none", paths);
    return r;
}

static int pollux_load(const char *path, struct table **ret_table, struct error *err)
{
    CLEANUP(table_free) struct table *table = mem_zalloc(1, sizeof(struct pollux));
    struct pollux *pollux = (struct pollux *)table;
    int r;

    if (!table)
        return error_set(err, -ENOMEM, "out of memory");
    table->ops = &table_pollux;
    r = read_all(pollux, path, err);
    if (r < 0)
        return r;
    grid_close(&pollux->steps);
    grid_close(&pollux->iterations);
    pollux->model_count = table->models.count;
    pollux->models = mem_zalloc(pollux->model_count, sizeof(*pollux->models));
    if (!pollux->models)
        return error_set(err, -ENOMEM, "out of memory");
    sum_up(pollux);
    *ret_table = take(table);
    return 0;
}

/* The digits of a shape in ascending order. 0: more nodes, or more GPUs on one, than a key can tell. */
static uint64_t placement_of(const struct world_shape *shape)
{
    uint64_t at = 0;

    if (shape->nodes < 1 || shape->nodes > WORLD_PARTS_MAX || shape->node_gpus_max > 9)
        return 0;
    for (int i = shape->nodes; i-- > 0;)
        at = at * 10 + shape->parts[i];
    return at;
}

/* Along the GPU counts measured with one node count. */
static bool step_at_nodes(const struct grid *steps, struct grid_row key, uint64_t nodes, uint64_t gpus, double ret_y[2])
{
    uint64_t around[2];
    double part, y[2];

    if (!grid_around(steps, key.model, key.type, by_count(nodes, gpus), around, &part))
        return false;
    for (int i = 0; i < 2; i++) {
        /* A neighbour may belong to other nodes: then there is none on that side. */
        if (around[i] < by_count(nodes, 0) || around[i] > by_count(nodes, (1 << GPUS_BITS) - 1))
            around[i] = 0;
    }
    if (!around[0] && !around[1])
        return false;
    key.at = around[0] ? around[0] : around[1];
    if (!grid_at(steps, &key, GRID_FLAT, ret_y))
        return false;
    key.at = around[1];
    if (around[0] && around[1] && around[0] != around[1] && grid_at(steps, &key, GRID_FLAT, y)) {
        ret_y[0] += part * (y[0] - ret_y[0]);
        ret_y[1] += part * (y[1] - ret_y[1]);
    }
    return true;
}

/* Between node counts: the nearest with numbers on either side. */
static bool step_by_count(const struct grid *steps, struct grid_row key, uint64_t nodes, uint64_t gpus, double ret_y[2])
{
    uint64_t low = nodes, high = nodes;
    double y[2], part;

    while (low > 0 && !step_at_nodes(steps, key, low, gpus, ret_y))
        low--;
    if (low == nodes)
        return true;
    while (high < nodes + 256 && !step_at_nodes(steps, key, high, gpus, y))
        high++;
    if (high == nodes + 256)
        return low > 0;
    if (!low) {
        memcpy(ret_y, y, sizeof(y));
        return true;
    }
    part = (double)(nodes - low) / (double)(high - low);
    ret_y[0] += part * (y[0] - ret_y[0]);
    ret_y[1] += part * (y[1] - ret_y[1]);
    return true;
}

static int64_t ceil_div(double a, double b)
{
    int64_t q = (int64_t)(a / b);

    return (double)q * b < a ? q + 1 : q;
}

static double pollux_speed(const struct table *table, uint32_t entry, const struct table_place *place)
{
    const struct pollux *pollux = (const struct pollux *)table;
    const struct table_entry *bound = &table->entries[entry];
    const struct pollux_model *model = &pollux->models[bound->model];
    double batch = bound->batch ? bound->batch : model->batch_min > 0 ? model->batch_min : model->local_max;
    int64_t local = ceil_div(batch, place->shape->gpus);
    int64_t passes = ceil_div((double)local, model->local_max);
    struct grid_row key = { .model = bound->model, .type = place->type };
    double y[2];

    if (place->shape->gpus == 1 && model->batch_min > 0 && batch > model->batch_min && passes < 2)
        passes = 2;
    key.x = (double)ceil_div((double)local, (double)passes);
    key.at = placement_of(place->shape);
    if (!(key.at && grid_at(&pollux->steps, &key, GRID_FLAT, y)) &&
        !step_by_count(&pollux->steps, key, place->shape->nodes, (uint64_t)place->shape->gpus, y))
        return 0.0;
    return 1.0 / (y[0] + (double)(passes - 1) * (y[0] > y[1] ? y[0] - y[1] : 0.0));
}

/* At the last epoch all batch sizes have; straight between batch sizes. */
static int64_t pollux_iterations(const struct table *table, uint32_t entry)
{
    const struct pollux *pollux = (const struct pollux *)table;
    const struct table_entry *bound = &table->entries[entry];
    const struct pollux_model *model = &pollux->models[bound->model];
    struct grid_row key = { .model = bound->model, .at = model->epochs };
    double y[2];

    key.x = bound->batch ? bound->batch : model->batch_min;
    return grid_at(&pollux->iterations, &key, GRID_FLAT, y) ? (int64_t)(y[0] + 0.5) : 0;
}

const struct table_ops table_pollux = {
    .kind = "pollux",
    .holds = "step times of Pollux and Sia by placement and batch size",
    .claims = pollux_claims,
    .load = pollux_load,
    .free = pollux_free,
    .find = table_find,
    .speed = pollux_speed,
    .iterations = pollux_iterations,
};
