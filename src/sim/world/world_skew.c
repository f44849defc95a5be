/* SPDX-License-Identifier: Apache-2.0 */
/* world_skew.c - how much of a model its largest tensor is, for jobs that do not say: what a profiler would find.
 *
 * By order: what the job says; `tensors=FILE`, the sizes of a model's tensors, or of the messages of one iteration as
 * they were seen on the wire, one a line; else what a table of speeds has measured: a model that loses a tenth or more
 * of its speed when its gang stands on one node more than it needs counts as one large tensor, another as many small
 * ones. Else nothing is known.
 */
#include <errno.h>

#include "base/alloc.h"
#include "sim/tables/tables_csv.h"
#include "sim/world/world_internal.h"

static const double SENSITIVE = 0.10;

enum { SKEW_ALL = 1000, SKEW_LEAST = 1 };

struct tensors {
    double largest, all;
};

static int read_tensors(struct world *world, struct tensors *sums, struct error *err)
{
    struct csv_column columns[] = { { "model", true, 0 }, { "bytes", true, 0 } };
    struct table_csv file;
    int r = table_csv_open(&file, world->config.tensors, columns, 2, err);

    if (r < 0)
        return r;
    while ((r = csv_next(&file.csv, err)) > 0) {
        const struct csv_field *model = csv_get(&file.csv, columns[0].index);
        uint32_t name = model ? names_find(&world->trace->models, model->text, model->length) : NAME_NONE;
        double bytes;

        r = table_csv_speed(&file.csv, columns[1].index, false, &bytes, err);
        if (r < 0)
            break;
        if (name == NAME_NONE)
            continue; /* a model that nobody trains here */
        sums[name].all += bytes;
        if (bytes > sums[name].largest)
            sums[name].largest = bytes;
    }
    table_csv_close(&file);
    return r;
}

int world_skew_init(struct world *world, struct error *err)
{
    size_t count = world->trace->models.count;
    struct tensors *sums;
    int r;

    if (!world->config.tensors[0])
        return 0;
    sums = mem_zalloc(count + 1, sizeof(*sums));
    world->skews = mem_zalloc(count + 1, sizeof(*world->skews));
    r = sums && world->skews ? read_tensors(world, sums, err) : error_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < count && r == 0; i++) {
        double part = sums[i].all > 0 ? sums[i].largest / sums[i].all * SKEW_ALL + 0.5 : 0;

        world->skews[i] = (uint16_t)(part < SKEW_LEAST && sums[i].all > 0 ? SKEW_LEAST : part);
    }
    mem_free(sums);
    return r < 0 ? error_prefix(err, r, "tensors") : 0;
}

void world_skew_done(struct world *world)
{
    mem_free(world->skews);
    world->skews = NULL;
}

/* Of its speed on the fewest nodes, what it loses on one more. */
static double spread_loss(const struct world *world, uint32_t job)
{
    int32_t gpus = world->trace->jobs[job].spec.gpus;
    struct world_shape packed = world_shape_best(world, gpus, 0), spread = packed;
    double together, apart;

    packed.servers = spread.servers = world->trace->jobs[job].spec.servers;
    together = (double)world_rate(world, job, &packed, NULL, 0);

    spread.nodes = (uint16_t)(packed.nodes + 1);
    spread.node_gpus_max = (gpus + packed.nodes) / spread.nodes;
    spread.node_gpus_min = gpus / spread.nodes;
    for (int i = 0; i < WORLD_PARTS_MAX; i++)
        spread.parts[i] = i < spread.nodes ? world_part(gpus / spread.nodes + (i < gpus % spread.nodes)) : 0;
    apart = (double)world_rate(world, job, &spread, NULL, 0);
    return together > 0 ? 1 - apart / together : 0;
}

uint16_t world_skew(const struct world *world, uint32_t job)
{
    const struct jobspec *spec = &world->trace->jobs[job].spec;

    if (spec->skew_permille)
        return spec->skew_permille;
    if (world->skews && spec->model != NAME_NONE && world->skews[spec->model])
        return world->skews[spec->model];
    if (!world->tables.speed || world_paces(world) || spec->gpus < 2 || !world->node_gpus_max[0])
        return 0;
    return spread_loss(world, job) >= SENSITIVE ? SKEW_ALL : SKEW_LEAST;
}
