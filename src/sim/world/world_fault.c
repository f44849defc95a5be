/* SPDX-License-Identifier: Apache-2.0 */
/* world_fault.c - nodes and GPUs that go down and come back.
 *
 * Every unit has a clock and a random stream of its own, fixed by (seed, unit): up for an exponential time of mean
 * mtbf, down for one of mean mttr, and so on. So adding a node changes nothing for the others. A heap gives the next
 * change of all; so it does for changes that come from a file (`at,node,gpu,state`). Node and GPU clocks know nothing
 * of each other: a GPU is usable when both are up.
 */
#include <errno.h>

#include "base/alloc.h"
#include "sim/tables/tables_csv.h"
#include "sim/world/world_internal.h"
#include "sim/world/world_math.h"

enum { STREAM_NODE = 0x4e4f4445, STREAM_GPU = 0x475055 };

/* One change that is due. With a random clock the unit is put back with its next one. */
struct due {
    usec_t at;
    uint32_t node, gpu;
    struct rng rng;
    bool up;
};

struct fault_clock {
    struct due *heap;
    size_t count, capacity;
    bool listed; /* from a file: each change happens once */
};

static bool before(const struct due *a, const struct due *b)
{
    if (a->at != b->at)
        return a->at < b->at;
    if (a->node != b->node)
        return a->node < b->node;
    return a->gpu != b->gpu ? a->gpu < b->gpu : a->up < b->up;
}

static void sink(struct fault_clock *clock, size_t at, struct due due)
{
    struct due *heap = clock->heap;

    for (;;) {
        size_t child = at * 2 + 1;

        if (child >= clock->count)
            break;
        if (child + 1 < clock->count && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &due))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = due;
}

static usec_t later(usec_t at, usec_t span)
{
    return __builtin_add_overflow(at, span, &at) ? USEC_NEVER : at;
}

static int push(struct fault_clock *clock, const struct due *due)
{
    int r = mem_grow((void **)&clock->heap, &clock->capacity, clock->count + 1, CLUSTER_GPUS_MAX + NODES_MAX,
                     sizeof(*clock->heap));

    if (r < 0)
        return r;
    clock->heap[clock->count++] = *due;
    return 0;
}

static int push_unit(struct fault_clock *clock, const struct world *world, uint32_t node, uint32_t gpu)
{
    bool whole = gpu == WORLD_WHOLE_NODE;
    struct due due = { .node = node, .gpu = gpu };
    uint64_t index = whole ? node : ((uint64_t)node << 16) + gpu;

    due.rng = math_stream(world->config.seed, whole ? STREAM_NODE : STREAM_GPU, index);
    due.at = math_exponential(&due.rng, whole ? world->config.mtbf : world->config.gpu_mtbf);
    return push(clock, &due);
}

/* The first of the nodes that are this one's machine. */
static uint32_t node_first(const struct cluster_spec *cluster, uint32_t node)
{
    uint32_t first = node;

    for (uint32_t n = node; cluster->nodes[n].twin && cluster->nodes[n].twin - 1 != node;) {
        n = cluster->nodes[n].twin - 1;
        first = n < first ? n : first;
    }
    return first;
}

static int push_units(struct fault_clock *clock, const struct world *world)
{
    const struct cluster_spec *cluster = world->cluster;

    for (uint32_t node = 0; node < cluster->node_count + cluster->bare_count; node++) {
        /* A machine that is several nodes fails once. */
        if (world->config.mtbf && node_first(cluster, node) == node) {
            int r = push_unit(clock, world, node, WORLD_WHOLE_NODE);

            if (r < 0)
                return r;
        }
        for (uint32_t gpu = 0; world->config.gpu_mtbf && gpu < cluster->nodes[node].gpus; gpu++) {
            int r = push_unit(clock, world, node, gpu);

            if (r < 0)
                return r;
        }
    }
    return 0;
}

static uint32_t node_find(const struct cluster_spec *cluster, const struct csv_field *field)
{
    uint32_t name = names_find(&cluster->names, field->text, field->length);

    for (uint32_t i = 0; name != NAME_NONE && i < cluster->node_count + cluster->bare_count; i++) {
        if (cluster->nodes[i].name == name)
            return i;
    }
    return NAME_NONE;
}

/* GPUs of the machine are counted on from one of its nodes to the next. */
static int64_t machine_gpus(const struct cluster_spec *cluster, uint32_t first)
{
    int64_t gpus = cluster->nodes[first].gpus;

    for (uint32_t n = cluster->nodes[first].twin; n && n - 1 != first; n = cluster->nodes[n - 1].twin)
        gpus += cluster->nodes[n - 1].gpus;
    return gpus;
}

enum { C_AT, C_NODE, C_GPU, C_STATE };

static int read_fault(const struct world *world, const struct csv *csv, const struct csv_column *columns,
                      struct due *ret_due, struct error *err)
{
    static const char *const states[] = { "down", "up" };
    const struct csv_field *node = csv_get(csv, columns[C_NODE].index);
    int64_t gpu = 0;
    uint8_t state;
    int r;

    if (!csv_get(csv, columns[C_AT].index))
        return csv_expected(csv, columns[C_AT].index, err, "seconds");
    if (!node || (ret_due->node = node_find(world->cluster, node)) == NAME_NONE)
        return csv_expected(csv, columns[C_NODE].index, err, "a node of the cluster");
    r = csv_usec(csv, columns[C_AT].index, USEC_SEC, &ret_due->at, err);
    ret_due->gpu = WORLD_WHOLE_NODE;
    if (r == 0 && csv_get(csv, columns[C_GPU].index)) {
        r = csv_i64(csv, columns[C_GPU].index, 0, machine_gpus(world->cluster, ret_due->node) - 1, &gpu, err);
        for (; r == 0 && gpu >= world->cluster->nodes[ret_due->node].gpus;
             ret_due->node = world->cluster->nodes[ret_due->node].twin - 1)
            gpu -= world->cluster->nodes[ret_due->node].gpus;
        ret_due->gpu = (uint32_t)gpu;
    }
    if (r == 0)
        r = csv_word(csv, columns[C_STATE].index, states, 2, &state, err);
    if (r == 0)
        ret_due->up = state;
    return r;
}

static int push_file(struct fault_clock *clock, const struct world *world, struct error *err)
{
    struct csv_column columns[] = {
        [C_AT] = { "at", true, 0 },
        [C_NODE] = { "node", true, 0 },
        [C_GPU] = { "gpu", false, 0 },
        [C_STATE] = { "state", true, 0 },
    };
    struct table_csv file;
    int r = table_csv_open(&file, world->config.faults, columns, sizeof(columns) / sizeof(columns[0]), err);

    if (r < 0)
        return r;
    while ((r = csv_next(&file.csv, err)) > 0) {
        struct due due = { 0 };

        r = read_fault(world, &file.csv, columns, &due, err);
        if (r < 0)
            break;
        r = push(clock, &due);
        if (r < 0) {
            error_set(err, r, "%s: too many faults", world->config.faults);
            break;
        }
    }
    table_csv_close(&file);
    clock->listed = true;
    return r;
}

int world_fault_init(struct world *world, struct error *err)
{
    const struct world_config *config = &world->config;
    int r;

    if (!config->mtbf && !config->gpu_mtbf && !config->faults[0])
        return 0;
    if (config->faults[0] && (config->mtbf || config->gpu_mtbf))
        return error_set(err, -EINVAL, "faults: failures come from the file or from mtbf and gpu-mtbf, not from both");
    if (config->mtbf && !config->mttr)
        return error_set(err, -EINVAL, "mttr: 0 is too short with mtbf set");
    if (config->gpu_mtbf && !config->gpu_mttr)
        return error_set(err, -EINVAL, "gpu-mttr: 0 is too short with gpu-mtbf set");
    world->faults = mem_zalloc(1, sizeof(*world->faults));
    if (!world->faults)
        return error_set(err, -ENOMEM, "out of memory");
    if (config->faults[0]) {
        r = push_file(world->faults, world, err);
        if (r < 0)
            return error_prefix(err, r, "faults");
    } else {
        r = push_units(world->faults, world);
        if (r < 0)
            return error_set(err, r, "out of memory");
    }
    for (size_t i = world->faults->count / 2; i-- > 0;)
        sink(world->faults, i, world->faults->heap[i]);
    return 0;
}

void world_fault_done(struct world *world)
{
    if (world->faults)
        mem_free(world->faults->heap);
    mem_free(world->faults);
    world->faults = NULL;
}

bool world_next_fault(struct world *world, usec_t from, struct world_fault *ret_fault)
{
    struct fault_clock *clock = world->faults;
    const struct world_config *config = &world->config;
    struct due due;
    usec_t mean;

    if (!clock || !clock->count || clock->heap[0].at == USEC_NEVER)
        return false;
    due = clock->heap[0];
    *ret_fault =
        (struct world_fault){ .at = due.at > from ? due.at : from, .node = due.node, .gpu = due.gpu, .up = due.up };
    if (clock->listed) {
        due = clock->heap[--clock->count];
        if (clock->count)
            sink(clock, 0, due);
        return true;
    }
    if (due.gpu == WORLD_WHOLE_NODE)
        mean = due.up ? config->mtbf : config->mttr;
    else
        mean = due.up ? config->gpu_mtbf : config->gpu_mttr;
    due.up = !due.up;
    due.at = later(due.at, math_exponential(&due.rng, mean));
    sink(clock, 0, due);
    return true;
}
