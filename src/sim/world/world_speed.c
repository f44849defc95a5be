/* SPDX-License-Identifier: Apache-2.0 */
/* world_speed.c - how fast a job runs where it was put and beside whom.
 *
 * Progress is counted in microseconds of nominal run time: alone, on the GPUs asked for, in the best placement, on the
 * fastest GPU type the job may use. A rate is what a real microsecond is worth in that currency. Doubles appear only
 * in products and quotients (no libm), so the rounded rate is the same on every machine.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "model/splice.h"
#include "sim/world/world_coord.h"
#include "sim/world/world_internal.h"
#include "sim/world/world_math.h"

#define RATE_MAX (1000 * PPM_ONE)
#define WORK_MAX ((double)(100LL * 366 * USEC_DAY))

/* "a, b, c and 7 more": what an error message lists. */
static const char *list_names(const struct names *names, char *text, size_t size)
{
    size_t shown = names->count < 12 ? names->count : 12;

    *text = '\0';
    for (size_t i = 0; i < shown; i++)
        snprintf(text + strlen(text), size - strlen(text), "%s%s", i ? ", " : "", names_get(names, (uint32_t)i));
    if (shown < names->count)
        snprintf(text + strlen(text), size - strlen(text), " and %zu more", names->count - shown);
    return text;
}

/* The rows of every job. One look-up a distinct (model, batch) would do; families keep their own small cache. */
static int bind_jobs(const struct world *world, struct table *table, uint32_t **ret_entries, struct error *err)
{
    const struct trace *trace = world->trace;
    uint32_t *entries = mem_zalloc(trace->count, sizeof(*entries));
    char known[256], label[WORLD_LABEL_MAX];

    if (!entries)
        return error_set(err, -ENOMEM, "out of memory");
    *ret_entries = entries;
    for (size_t i = 0; i < trace->count; i++) {
        const struct jobspec *spec = &trace->jobs[i].spec;
        struct table_job job = { names_get(&trace->models, spec->model), spec->batch, spec->gpus };
        int r = spec->gpus ? table->ops->find(table, &job, &entries[i], err) : 0; /* no table knows of CPUs */

        if (r == -ENOENT)
            return error_set(err, -EINVAL, "%s: the %s table knows no model '%s' (known: %s)",
                             world_job_label(world, i, label), table->ops->kind, job.model,
                             list_names(&table->models, known, sizeof(known)));
        if (r < 0)
            return error_prefix(err, r, "%s", world_job_label(world, i, label));
    }
    return 0;
}

static int bind_types(const struct world *world, const struct table *table, uint32_t types[SKUS_MAX], struct error *err)
{
    const struct cluster_spec *cluster = world->cluster;
    char known[256];

    for (uint32_t i = 0; i < cluster->sku_count; i++) {
        const char *sku = names_get(&cluster->names, cluster->skus[i].name);

        types[i] = 0;
        if (!table->types.count)
            continue;
        types[i] = table_type_find(table, sku);
        /* A cluster of one nameless type takes the table's only one. */
        if (types[i] == NAME_NONE && table->types.count == 1 && cluster->sku_count == 1)
            types[i] = 0;
        if (types[i] == NAME_NONE)
            return error_set(err, -EINVAL, "GPU type '%s' of the cluster is not in the %s table (known: %s)", sku,
                             table->ops->kind, list_names(&table->types, known, sizeof(known)));
    }
    return 0;
}

/* Iterations a second at best: over the GPU types the cluster has and the job allows. On a type it allows and cannot
 * run on it would hold GPUs for ever, so that is an error. */
static int nominal_speed(const struct world *world, uint32_t job, double *ret_speed, struct error *err)
{
    const struct world_tables *tables = &world->tables;
    const struct jobspec *spec = &world->trace->jobs[job].spec;
    char label[WORLD_LABEL_MAX];
    double best = 0;

    for (uint16_t sku = 0; sku < world->cluster->sku_count; sku++) {
        struct world_shape shape = world_shape_best(world, spec->gpus, sku);
        struct table_place place = { &shape, tables->speed_type[sku], shape.nodes };
        double speed;

        shape.servers = spec->servers;
        if (!world->node_gpus_max[sku] || !world_sku_allowed(world, job, sku))
            continue;
        speed = tables->speed->ops->speed(tables->speed, tables->speed_entry[job], &place);
        if (!(speed > 0))
            return error_set(err, -EINVAL,
                             "%s: the %s table has no speed for '%s' on GPU type '%s'; say which types it may use "
                             "(column sku)",
                             world_job_label(world, job, label), tables->speed->ops->kind,
                             names_get(&world->trace->models, spec->model),
                             names_get(&world->cluster->names, world->cluster->skus[sku].name));
        if (speed > best)
            best = speed;
    }
    if (!(best > 0))
        return error_set(err, -EINVAL, "%s: the cluster has none of the GPU types it may use",
                         world_job_label(world, job, label));
    *ret_speed = best;
    return 0;
}

static int resolve_work(struct world *world, uint32_t job, struct error *err)
{
    struct world_tables *tables = &world->tables;
    const struct table_ops *ops = tables->speed->ops;
    const struct trace_job *record = &world->trace->jobs[job];
    int64_t iterations = record->truth.iterations;
    char label[WORLD_LABEL_MAX];
    double speed = 0, work;
    int r;

    if (record->spec.gpus == 0) {
        tables->nominal[job] = 1;
        tables->work[job] = record->truth.duration;
        return record->truth.duration > 0
                   ? 0
                   : error_set(err, -EINVAL, "%s: has no duration", world_job_label(world, job, label));
    }
    r = nominal_speed(world, job, &speed, err);
    if (r < 0)
        return r;
    tables->nominal[job] = speed;
    if (!iterations && ops->iterations)
        iterations = ops->iterations(tables->speed, tables->speed_entry[job]);
    if (!iterations || ops->relative) {
        tables->work[job] = record->truth.duration;
    } else {
        work = (double)iterations / speed * (double)USEC_SEC + 0.5;
        if (!(work < WORK_MAX))
            return error_set(err, -ERANGE, "%s: %lld iterations at %g a second take over a century",
                             world_job_label(world, job, label), (long long)iterations, speed);
        tables->work[job] = work < 1 ? 1 : (usec_t)work;
    }
    if (tables->work[job] <= 0)
        return error_set(err, -EINVAL, "%s: has neither a duration nor iterations", world_job_label(world, job, label));
    return 0;
}

static int init_speed(struct world *world, struct error *err)
{
    struct world_tables *tables = &world->tables;
    size_t count = world->trace->count;
    int r;

    r = table_open(world->config.speed, &tables->speed, err);
    if (r < 0)
        return r;
    if (!tables->speed->ops->speed)
        return error_set(err, -EINVAL, "a %s table has pairs only: use pairs=", tables->speed->ops->kind);
    if (world_paces(world) && (world->config.keep != KEEP_ALL || world->config.mtbf || world->config.gpu_mtbf ||
                               world->config.faults[0] || world->config.pairs[0]))
        return error_set(err, -EINVAL, "a %s table goes with neither faults nor pairs nor lost progress",
                         tables->speed->ops->kind);
    r = bind_types(world, tables->speed, tables->speed_type, err);
    if (r < 0)
        return r;
    r = bind_jobs(world, tables->speed, &tables->speed_entry, err);
    if (r < 0)
        return r;
    tables->nominal = mem_zalloc(count, sizeof(*tables->nominal));
    tables->work = mem_zalloc(count, sizeof(*tables->work));
    if (!tables->nominal || !tables->work)
        return error_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < count; i++) {
        r = resolve_work(world, (uint32_t)i, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int init_pairs(struct world *world, struct error *err)
{
    struct world_tables *tables = &world->tables;
    int r;

    r = table_open(world->config.pairs, &tables->pairs, err);
    if (r < 0)
        return r;
    if (!tables->pairs->ops->pair)
        return error_set(err, -EINVAL, "a %s table has no pairs", tables->pairs->ops->kind);
    r = bind_types(world, tables->pairs, tables->pairs_type, err);
    if (r < 0)
        return r;
    return bind_jobs(world, tables->pairs, &tables->pairs_entry, err);
}

/* Without a table of speeds a job must say how long it runs. */
static int check_durations(const struct world *world, struct error *err)
{
    char label[WORLD_LABEL_MAX];

    for (size_t i = 0; i < world->trace->count; i++) {
        if (world->trace->jobs[i].truth.duration <= 0)
            return error_set(err, -EINVAL, "%s: has no duration; a table of speeds is needed (--set speed=)",
                             world_job_label(world, i, label));
    }
    return 0;
}

int world_speed_init(struct world *world, struct error *err)
{
    int r = 0;

    if (world->config.speed[0]) {
        r = init_speed(world, err);
        if (r < 0)
            return error_prefix(err, r, "speed");
    } else {
        r = check_durations(world, err);
        if (r < 0)
            return r;
    }
    if (world->config.pairs[0]) {
        r = init_pairs(world, err);
        if (r < 0)
            return error_prefix(err, r, "pairs");
    }
    return r;
}

void world_speed_done(struct world *world)
{
    struct world_tables *tables = &world->tables;

    table_free(tables->speed);
    table_free(tables->pairs);
    mem_free(tables->speed_entry);
    mem_free(tables->pairs_entry);
    mem_free(tables->nominal);
    mem_free(tables->work);
    *tables = (struct world_tables){ 0 };
}

usec_t world_work(const struct world *world, uint32_t job)
{
    assert(job < world->trace->count);
    return world->tables.work ? world->tables.work[job] : world->trace->jobs[job].truth.duration;
}

double world_batch_speed(const struct world *world, uint32_t job)
{
    return world->tables.nominal ? world->tables.nominal[job] : 1.0;
}

/* Speed in this placement over nominal speed. Without a table: in proportion to the GPUs. */
static double placement_rate(const struct world *world, uint32_t job, const struct world_shape *shape)
{
    const struct world_tables *tables = &world->tables;
    const struct jobspec *spec = &world->trace->jobs[job].spec;
    struct table_place place;

    /* Its workers take turns: whatever the table says of smaller worlds. */
    if (shape->spliced)
        return (double)splice_rate(spec, shape->gpus, world->config.splice_loss) / (double)PPM_ONE;
    if (!tables->speed)
        return shape->gpus == spec->gpus ? 1.0 : (double)shape->gpus / (double)spec->gpus;
    place = (struct table_place){ shape, tables->speed_type[shape->sku],
                                  world_nodes_fewest(world, shape->gpus, shape->sku) };
    return tables->speed->ops->speed(tables->speed, tables->speed_entry[job], &place) / tables->nominal[job];
}

/* What is left of a job's speed beside one other. */
static double pair_rate(const struct world *world, uint32_t job, uint32_t other, const struct world_shape *shape)
{
    const struct world_tables *tables = &world->tables;
    uint32_t entries[2] = { tables->pairs_entry[job], tables->pairs_entry[other] };
    struct table_place place = { shape, tables->pairs_type[shape->sku],
                                 world_nodes_fewest(world, shape->gpus, shape->sku) };
    double rates[2];

    if (tables->pairs->ops->pair(tables->pairs, entries, &place, rates) < 0)
        return 0.5; /* not measured: as if they took turns */
    return rates[0] > 0 && rates[1] > 0 ? rates[0] : 0.0;
}

/* A job and those that share its GPUs with a coordinator between them: the owner has what the guest that hurts it most
 * leaves, a guest what it finds with the busiest of its owners, in turns with the other guests. PPM_ONE: no such. */
static double coordinated_rate(const struct world *world, uint32_t job, const struct world_shape *shape,
                               const struct world_neighbour *neighbours, size_t count)
{
    ppm_t least = PPM_ONE;
    size_t guests = 1;

    for (size_t i = 0; i < count; i++)
        guests += neighbours[i].is == BESIDE_FELLOW;
    for (size_t i = 0; i < count; i++) {
        bool owner = neighbours[i].is == BESIDE_GUEST;
        uint32_t jobs[2] = { owner ? job : neighbours[i].job, owner ? neighbours[i].job : job };
        ppm_t rates[2];

        if (neighbours[i].is < BESIDE_GUEST)
            continue;
        world_beside(world, jobs, shape, owner ? 1 : guests, rates);
        least = rates[!owner] < least ? rates[!owner] : least;
    }
    return (double)least / (double)PPM_ONE;
}

/* Two guests that do not fit together take turns, one in host memory; nobody else is stopped by that. */
static double beside_rate(const struct world *world, uint32_t job, const struct world_neighbour *other,
                          const struct world_shape *shape)
{
    double rate = pair_rate(world, job, other->job, shape);

    return other->is == BESIDE_FELLOW && !(rate > 0) ? 0.5 : rate;
}

/* Beside others: the measured pairs, one factor each; without a table only what is promised twice slows down. */
static double neighbour_rate(const struct world *world, uint32_t job, const struct world_shape *shape,
                             const struct world_neighbour *neighbours, size_t count)
{
    int64_t promised = world->trace->jobs[job].spec.share, used = world->trace->jobs[job].spec.utilisation;
    double rate = 1.0;
    bool told = used > 0;

    for (size_t i = 0; i < count; i++)
        if (neighbours[i].is >= BESIDE_GUEST)
            return coordinated_rate(world, job, shape, neighbours, count);
    for (size_t i = 0; i < count; i++) {
        assert(neighbours[i].job < world->trace->count);
        promised += neighbours[i].share;
        used += world->trace->jobs[neighbours[i].job].spec.utilisation;
        told &= world->trace->jobs[neighbours[i].job].spec.utilisation > 0;
        if (world->tables.pairs)
            rate *= beside_rate(world, job, &neighbours[i], shape);
    }
    /* Shares by utilisation: together they have one GPU, and beyond that each gets its part. */
    if (!world->tables.pairs && world->config.share_gpus && told)
        return used > 100 ? 100.0 / (double)used : 1.0;
    if (!world->tables.pairs && promised > MGPU_ONE)
        rate = (double)MGPU_ONE / (double)promised;
    return rate;
}

bool world_paces(const struct world *world)
{
    return world->tables.speed && world->tables.speed->ops->pace_run;
}

void world_pace_place(const struct world *world, uint32_t job, const struct world_shape *shape, struct world_pace *pace)
{
    const struct world_tables *tables = &world->tables;

    tables->speed->ops->pace_place(tables->speed, tables->speed_entry[job], shape, pace);
}

bool world_pace_run(const struct world *world, uint32_t job, struct world_pace *pace, const usec_t span[2],
                    usec_t *ret_done)
{
    const struct world_tables *tables = &world->tables;

    return tables->speed->ops->pace_run(tables->speed, tables->speed_entry[job], pace, span, ret_done);
}

double world_step_time(const struct world *world, uint32_t job, int32_t gpus)
{
    const struct world_tables *tables = &world->tables;
    struct world_shape shape = world_shape_best(world, gpus, 0);

    return tables->speed->ops->step_time(tables->speed, tables->speed_entry[job], &shape);
}

double world_steps_left(const struct world *world, uint32_t job, const struct world_pace *pace)
{
    const struct world_tables *tables = &world->tables;

    return tables->speed->ops->steps_left(tables->speed, tables->speed_entry[job], pace);
}

ppm_t world_rate(const struct world *world, uint32_t job, const struct world_shape *shape,
                 const struct world_neighbour *neighbours, size_t neighbour_count)
{
    const struct world_config *config = &world->config;
    struct world_shape best;
    double rate;

    assert(job < world->trace->count);
    if (world_paces(world))
        return PPM_ONE;
    if (!shape) {
        best = world_shape_best(world, world->trace->jobs[job].spec.gpus, 0);
        best.servers = world->trace->jobs[job].spec.servers;
        shape = &best;
    }
    assert(shape->sku < SKUS_MAX);
    rate = placement_rate(world, job, shape);
    if (config->slowdown == SLOWDOWN_PHILLY && shape->nodes > world_nodes_fewest(world, shape->gpus, shape->sku))
        rate *= 0.85;
    if (neighbour_count)
        rate *= neighbour_rate(world, job, shape, neighbours, neighbour_count);
    if (config->checkpoint && config->cost[WORLD_CHECKPOINT])
        rate *= (double)config->checkpoint / (double)(config->checkpoint + config->cost[WORLD_CHECKPOINT]);
    if (!(rate > 0))
        return 0;
    rate = rate * (double)PPM_ONE + 0.5;
    if (rate >= (double)RATE_MAX)
        return RATE_MAX;
    return rate < 1 ? 1 : (ppm_t)rate;
}

enum { STREAM_SLOW = 0x534c4f57 };

ppm_t world_gpu_speed(const struct world *world, uint32_t gpu)
{
    struct rng rng;

    if (!world->config.slow)
        return PPM_ONE;
    rng = math_stream(world->config.seed, STREAM_SLOW, gpu);
    return rng_below(&rng, (uint64_t)PPM_ONE) < (uint64_t)world->config.slow ? world->config.slow_speed : PPM_ONE;
}
