/* SPDX-License-Identifier: Apache-2.0 */
/* tables_pollux_sim.c - the same files as tables_pollux.c, as the simulator of Pollux (OSDI'21) reckons with them.
 *
 * For comparing job by job; `pollux` is the plainer reading. What differs:
 *
 *   a placement is the GPUs on each node in the order they were given out, most first, up to rotation: 4+3+1 is "143".
 *   One that was not measured is looked up by (nodes, GPUs, batch of a GPU), straight inside the Delaunay cells over
 * the means of all placements and over the scalability file; progress is counted in steps of the smallest batch. A step
 * of a larger batch B is worth (v + s) / (v / (B / B0) + s) of them, with s and v the squared length and the variance
 * of the gradient in that epoch, straight between the batch sizes validated; an epoch ends where the fastest of the
 * validation runs had it; time is whole seconds: an epoch's end is rounded to the nearest, and what was done beyond it
 * is lost; everything happens in ticks of a minute: an end that is rounded back to the tick before it is seen at the
 * next.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/tables/tables_csv.h"
#include "sim/tables/tables_pollux.h"
#include "sim/world/delaunay.h"
#include "sim/world/world_table.h"

enum { DIGITS_MAX = 18, GPUS_BITS = 20, NODES_MOST = 16 };

static const usec_t TICK = 60 * USEC_SEC;

struct scaled {
    uint32_t model;
    struct delaunay_point point;
};

struct pollux_sim {
    struct table table;
    struct grid placements; /* at = digits as in the file, x = local batch, y = step, sync */
    struct grid counts;     /* at = nodes << GPUS_BITS | GPUs; the same */
    struct grid lengths;    /* at = epoch from 1, x = global batch, y = progress, steps */
    struct grid gradients;  /* the same, y = squared length, variance */
    struct scaled *scaled;  /* the scalability files, in order */
    size_t scaled_count, scaled_capacity;
    struct sim_model {
        struct delaunay *cells;
        double batch_min, batch_max, local_max;
        int32_t epochs;
    } * models;
    size_t model_count;
};

static void sim_free(struct table *table)
{
    struct pollux_sim *sim = (struct pollux_sim *)table;

    grid_done(&sim->placements);
    grid_done(&sim->counts);
    grid_done(&sim->lengths);
    grid_done(&sim->gradients);
    for (size_t i = 0; i < sim->model_count && sim->models; i++)
        delaunay_free(sim->models[i].cells);
    mem_free(sim->models);
    mem_free(sim->scaled);
    table_done(table);
    mem_free(table);
}

static bool sim_claims(const char *head, const struct names *entries)
{
    (void)head;
    (void)entries;
    return false; /* only by its name */
}

/* ---- reading ---- */

static int add(struct grid *grid, const struct grid_row *row, const struct csv *csv, struct error *err)
{
    int r = grid_add(grid, row);

    return r < 0 ? error_set(err, r, "%s: too many rows", csv->file) : 0;
}

static int read_placement(struct pollux_sim *sim, const struct csv *csv, int index, struct grid_row row,
                          struct error *err)
{
    const struct csv_field *field = csv_get(csv, index);
    uint64_t gpus = 0;
    int r;

    if (!field || !field->length || field->length > DIGITS_MAX)
        return csv_expected(csv, index, err, "up to %d digits, the GPUs on each node", DIGITS_MAX);
    row.at = 0;
    for (uint32_t i = 0; i < field->length; i++) {
        if (field->text[i] < '1' || field->text[i] > '9')
            return csv_expected(csv, index, err, "digits 1..9, the GPUs on each node");
        row.at = row.at * 10 + (uint64_t)(field->text[i] - '0');
        gpus += (uint64_t)(field->text[i] - '0');
    }
    r = add(&sim->placements, &row, csv, err);
    if (r < 0)
        return r;
    row.at = (uint64_t)field->length << GPUS_BITS | gpus;
    return add(&sim->counts, &row, csv, err);
}

static int read_scaled(struct pollux_sim *sim, const struct csv *csv, const struct csv_column *columns,
                       const struct grid_row *row, struct error *err)
{
    int64_t nodes, gpus;
    int r = csv_i64(csv, columns[C_NODES].index, 1, GANG_GPUS_MAX, &nodes, err);

    if (r == 0)
        r = csv_i64(csv, columns[C_GPUS].index, nodes, GANG_GPUS_MAX, &gpus, err);
    if (r < 0)
        return r;
    r = mem_grow((void **)&sim->scaled, &sim->scaled_capacity, sim->scaled_count + 1, GRID_ROWS_MAX,
                 sizeof(*sim->scaled));
    if (r < 0)
        return error_set(err, r, "%s: too many rows", csv->file);
    sim->scaled[sim->scaled_count++] =
        (struct scaled){ row->model, { { (double)nodes, (double)gpus, row->x }, { row->y[0], row->y[1] } } };
    return 0;
}

static int read_step(void *arg, const struct csv *csv, const struct csv_column *columns, struct grid_row row,
                     struct error *err)
{
    if (columns[C_PLACEMENT].index >= 0)
        return read_placement(arg, csv, columns[C_PLACEMENT].index, row, err);
    return read_scaled(arg, csv, columns, &row, err);
}

/* Gradients of a first epoch can be enormous. */
static int read_statistic(const struct csv *csv, int index, double *ret_value, struct error *err)
{
    int r = csv_get(csv, index) ? csv_double(csv, index, ret_value, err) : -EINVAL;

    if (r < 0 || !(*ret_value >= 0 && *ret_value <= 1e30))
        return csv_expected(csv, index, err, "a number from 0 to 1e30");
    return 0;
}

static int read_validation(struct pollux_sim *sim, const char *path, struct grid_row row, struct error *err)
{
    struct csv_column columns[] = {
        { "progress", true, 0 }, { "iteration", true, 0 }, { "grad_sqr", true, 0 },
        { "grad_var", true, 0 }, { "metric", false, 0 },
    };
    struct table_csv file;
    int r = table_csv_open(&file, path, columns, sizeof(columns) / sizeof(columns[0]), err);

    if (r < 0)
        return r;
    while ((r = csv_next(&file.csv, err)) > 0) {
        double y[4];

        row.at++;
        r = 0;
        for (int i = 0; i < 4 && r == 0; i++)
            r = read_statistic(&file.csv, columns[i].index, &y[i], err);
        memcpy(row.y, y, sizeof(row.y));
        if (r == 0)
            r = add(&sim->lengths, &row, &file.csv, err);
        memcpy(row.y, y + 2, sizeof(row.y));
        if (r == 0)
            r = add(&sim->gradients, &row, &file.csv, err);
        if (r < 0)
            break;
    }
    table_csv_close(&file);
    return r;
}

static int read_file(void *arg, const struct pollux_file *file, struct error *err)
{
    struct pollux_sim *sim = arg;
    struct grid_row row = { .x = (double)file->batch };

    if (names_put(&sim->table.models, file->model, strlen(file->model), &row.model) < 0)
        return error_set(err, -E2BIG, "%s: too many models, or too long a name", file->path);
    if (file->kind == POLLUX_VALIDATION)
        return read_validation(sim, file->path, row, err);
    if (names_put(&sim->table.types, file->type, strlen(file->type), &row.type) < 0 || row.type > 0)
        return error_set(err, -EINVAL, "%s: pollux-sim takes the tables of one GPU type only", file->path);
    return pollux_steps(file, row, read_step, sim, err);
}

/* ---- making it ready ---- */

static int make_cells(struct pollux_sim *sim, uint32_t m, struct error *err)
{
    struct delaunay_point *points = mem_zalloc(sim->counts.count + sim->scaled_count, sizeof(*points));
    size_t count = 0;
    int r;

    if (!points)
        return error_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < sim->counts.count; i++) {
        const struct grid_row *row = &sim->counts.rows[i];

        if (row->model == m)
            points[count++] = (struct delaunay_point){ { (double)(row->at >> GPUS_BITS),
                                                         (double)(row->at & ((1 << GPUS_BITS) - 1)), row->x },
                                                       { row->y[0], row->y[1] } };
    }
    for (size_t i = 0; i < sim->scaled_count; i++)
        if (sim->scaled[i].model == m)
            points[count++] = sim->scaled[i].point;
    r = delaunay_new(points, count, &sim->models[m].cells, err);
    mem_free(points);
    return r;
}

static int make_model(struct pollux_sim *sim, uint32_t m, struct error *err)
{
    struct sim_model *model = &sim->models[m];
    const char *name = names_get(&sim->table.models, m);
    size_t first, here;
    const struct grid_row *rows = grid_curve(&sim->lengths, m, 0, 1, &first);
    int r;

    if (!first)
        return error_set(err, -EINVAL, "%s: expected validation-<batch>.csv files beside its tables", name);
    model->batch_min = rows[0].x;
    model->batch_max = rows[first - 1].x;
    for (uint64_t epoch = 1; epoch < INT32_MAX; epoch++) {
        grid_curve(&sim->lengths, m, 0, epoch, &here);
        if (here < first)
            break;
        model->epochs = (int32_t)epoch;
    }
    for (size_t i = 0; i < sim->placements.count; i++)
        if (sim->placements.rows[i].model == m && sim->placements.rows[i].x > model->local_max)
            model->local_max = sim->placements.rows[i].x;
    if (model->local_max > pollux_local_max(name))
        model->local_max = pollux_local_max(name);
    r = make_cells(sim, m, err);
    return r < 0 ? error_prefix(err, r, "%s", name) : 0;
}

static int sim_load(const char *path, struct table **ret_table, struct error *err)
{
    CLEANUP(table_free) struct table *table = mem_zalloc(1, sizeof(struct pollux_sim));
    struct pollux_sim *sim = (struct pollux_sim *)table;
    int r;

    if (!table)
        return error_set(err, -ENOMEM, "out of memory");
    table->ops = &table_pollux_sim;
    r = pollux_files(path, read_file, sim, err);
    if (r < 0)
        return r;
    if (!sim->placements.count)
        return error_set(err, -EINVAL, "%s: expected folders <model>/ with placements.csv, found none", path);
    grid_close(&sim->placements);
    grid_close(&sim->counts);
    grid_close(&sim->lengths);
    grid_close(&sim->gradients);
    sim->models = mem_zalloc(table->models.count, sizeof(*sim->models));
    if (!sim->models)
        return error_set(err, -ENOMEM, "out of memory");
    sim->model_count = table->models.count;
    for (uint32_t m = 0; m < sim->model_count && r == 0; m++)
        r = make_model(sim, m, err);
    if (r < 0)
        return r;
    *ret_table = take(table);
    return 0;
}

/* ---- asking ---- */

static const struct sim_model *model_of(const struct table *table, uint32_t entry)
{
    return &((const struct pollux_sim *)table)->models[table->entries[entry].model];
}

static double batch_of(const struct table *table, uint32_t entry)
{
    uint32_t batch = table->entries[entry].batch;

    return batch ? batch : model_of(table, entry)->batch_min;
}

/* Between the two validated batch sizes around; outside, as at the end. */
static double validated(const struct grid *grid, uint32_t model, uint64_t epoch, double batch, int which)
{
    size_t count, i = 0;
    const struct grid_row *rows = grid_curve(grid, model, 0, epoch, &count);

    if (!count)
        return 0;
    while (i + 1 < count && rows[i + 1].x <= batch)
        i++;
    if (batch <= rows[i].x || i + 1 == count)
        return rows[i].y[which];
    return ((batch - rows[i].x) * rows[i + 1].y[which] + (rows[i + 1].x - batch) * rows[i].y[which]) /
           (rows[i + 1].x - rows[i].x);
}

/* Progress at which the first of the validation runs had so many epochs. */
static double progress_at(const struct pollux_sim *sim, uint32_t model, int32_t epoch)
{
    size_t count;
    const struct grid_row *rows = grid_curve(&sim->lengths, model, 0, (uint64_t)epoch, &count);
    double least = count ? rows[0].y[0] : 0;

    for (size_t i = 1; i < count; i++)
        if (rows[i].y[0] < least)
            least = rows[i].y[0];
    return least;
}

static double round_up(double value)
{
    return ceil(value - 1e-8);
}

/* How the batch is cut: samples a GPU has at once, and passes besides the last. */
static void cut_batch(const struct sim_model *model, double batch, int32_t gpus, bool twice, double ret[2])
{
    double local = round_up(batch / gpus), more = round_up(local / model->local_max) - 1;

    if (gpus == 1 && more < 1 && twice)
        more = 1;
    ret[0] = fmin(round_up(local / (more + 1)), floor(model->batch_max / (gpus * (more + 1))));
    ret[1] = more;
}

/* The least of its rotations: the smallest come last, so they come first and the others as they are. */
static uint64_t placement_of(const struct world_shape *shape)
{
    int nodes = shape->nodes, smallest = nodes;
    uint64_t at = 0;

    if (nodes < 1 || nodes > WORLD_PARTS_MAX || shape->parts[0] > 9)
        return 0;
    while (smallest > 0 && shape->parts[smallest - 1] == shape->parts[nodes - 1])
        smallest--;
    for (int i = 0; i < nodes; i++)
        at = at * 10 + shape->parts[(smallest + i) % nodes];
    return at;
}

/* Seconds of a pass with, and of the exchange in it. */
static void step_at(const struct pollux_sim *sim, uint32_t model, const struct world_shape *shape, double local,
                    double ret_y[2])
{
    double at[3] = { shape->nodes < NODES_MOST ? shape->nodes : NODES_MOST, shape->gpus, local };
    uint64_t placement = placement_of(shape);
    size_t count = 0, i = 0;
    const struct grid_row *rows = placement ? grid_curve(&sim->placements, model, 0, placement, &count) : NULL;

    if (!count) {
        struct grid_row key = { .model = model, .x = local };
        uint64_t near[2];
        double part;

        if (delaunay_at(sim->models[model].cells, at, ret_y))
            return;
        /* Outside of all that was measured: as at the nearest counts. */
        grid_around(&sim->counts, model, 0, (uint64_t)shape->nodes << GPUS_BITS | (uint64_t)shape->gpus, near, &part);
        key.at = near[0];
        grid_at(&sim->counts, &key, GRID_FLAT, ret_y);
        return;
    }
    while (i + 2 < count && rows[i + 1].x < local)
        i++;
    for (int k = 0; k < 2; k++) {
        const struct grid_row *a = &rows[i], *b = count > 1 ? &rows[i + 1] : a;
        double x = local < rows[0].x ? rows[0].x : local > rows[count - 1].x ? rows[count - 1].x : local;

        ret_y[k] = a == b ? a->y[k] : (b->y[k] - a->y[k]) / (b->x - a->x) * (x - a->x) + a->y[k];
    }
}

static double whole_step(const struct table *table, uint32_t entry, const struct world_shape *shape,
                         const double cut[2])
{
    double y[2];

    step_at((const struct pollux_sim *)table, table->entries[entry].model, shape, cut[0], y);
    return y[0] + (y[0] - y[1]) * cut[1];
}

static void sim_pace_place(const struct table *table, uint32_t entry, const struct world_shape *shape,
                           struct world_pace *pace)
{
    const struct sim_model *model = model_of(table, entry);
    double batch = batch_of(table, entry), cut[2];

    cut_batch(model, batch, shape->gpus, batch > model->batch_min, cut);
    pace->batch = (int32_t)(shape->gpus * cut[0] * (cut[1] + 1));
    pace->step_time = whole_step(table, entry, shape, cut);
}

/* What a second is worth in this epoch. */
static double worth(const struct table *table, uint32_t entry, const struct world_pace *pace)
{
    const struct pollux_sim *sim = (const struct pollux_sim *)table;
    uint32_t model = table->entries[entry].model;
    double scale = pace->batch / sim->models[model].batch_min;
    double square = validated(&sim->gradients, model, (uint64_t)pace->epoch + 1, pace->batch, 0);
    double spread = validated(&sim->gradients, model, (uint64_t)pace->epoch + 1, pace->batch, 1);

    return (spread + square > 0 ? (spread + square) / (spread / scale + square) : 1) / pace->step_time;
}

static bool sim_pace_run(const struct table *table, uint32_t entry, struct world_pace *pace, const usec_t span[2],
                         usec_t *ret_done)
{
    const struct pollux_sim *sim = (const struct pollux_sim *)table;
    const struct sim_model *model = model_of(table, entry);
    usec_t now = span[0];

    assert(pace->step_time > 0);
    while (now < span[1] && pace->epoch < model->epochs) {
        usec_t end = now - now % TICK + TICK, begin = now;
        double next, speed, seconds;

        end = end < span[1] ? end : span[1];
        while (now < end && pace->epoch < model->epochs) {
            speed = worth(table, entry, pace);
            next = progress_at(sim, table->entries[entry].model, pace->epoch + 1);
            seconds = (double)(end - now) / (double)USEC_SEC;
            if (pace->progress + speed * seconds < next) {
                pace->progress += speed * seconds;
                now = end;
                break;
            }
            now += (usec_t)rint((next - pace->progress) / speed) * USEC_SEC;
            pace->progress = next;
            pace->epoch++;
        }
        if (pace->epoch == model->epochs) {
            *ret_done = now > begin || begin % TICK ? now : now + 1;
            return true;
        }
    }
    return false;
}

/* As the scheduler of that simulator reckons: on one GPU always in two passes. */
static double sim_step_time(const struct table *table, uint32_t entry, const struct world_shape *shape)
{
    double cut[2];

    cut_batch(model_of(table, entry), batch_of(table, entry), shape->gpus, true, cut);
    return whole_step(table, entry, shape, cut);
}

static double steps_at(const struct table *table, uint32_t entry, int32_t epoch)
{
    const struct pollux_sim *sim = (const struct pollux_sim *)table;

    return validated(&sim->lengths, table->entries[entry].model, (uint64_t)epoch, batch_of(table, entry), 1);
}

/* Counted from the end of the epoch under way; in the last, one. */
static double sim_steps_left(const struct table *table, uint32_t entry, const struct world_pace *pace)
{
    int32_t epochs = model_of(table, entry)->epochs;

    return pace->epoch >= epochs - 1 ? 1 : steps_at(table, entry, epochs) - steps_at(table, entry, pace->epoch + 1);
}

static double sim_speed(const struct table *table, uint32_t entry, const struct table_place *place)
{
    struct world_pace pace;

    sim_pace_place(table, entry, place->shape, &pace);
    return pace.step_time > 0 ? 1 / pace.step_time : 0;
}

static int64_t sim_iterations(const struct table *table, uint32_t entry)
{
    return (int64_t)(steps_at(table, entry, model_of(table, entry)->epochs) + 0.5);
}

const struct table_ops table_pollux_sim = {
    .kind = "pollux-sim",
    .holds = "the tables of Pollux as its simulator reckons with them",
    .claims = sim_claims,
    .load = sim_load,
    .free = sim_free,
    .find = table_find,
    .speed = sim_speed,
    .iterations = sim_iterations,
    .pace_place = sim_pace_place,
    .pace_run = sim_pace_run,
    .step_time = sim_step_time,
    .steps_left = sim_steps_left,
};
