/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_csv.c - see cluster.h: clusters in tables of others. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/cluster/cluster.h"
#include "wire/cluster/cluster_build.h"
#include "wire/text/csv.h"

enum { SWITCHES, SWITCH_NODES, NODE_GPUS, NODE_CPUS, NODE_MEMORY, SHAPE_COUNT };
enum { SERIAL, CPU_MILLI, MEMORY_MIB, GPU, MODEL, LIST_COUNT };

/* Tiresias: a switch is a rack; memory in GiB. */
static const struct csv_column shape_columns[SHAPE_COUNT] = {
    [SWITCHES] = { "num_switch", true, 0 },      [SWITCH_NODES] = { "num_node_p_switch", true, 0 },
    [NODE_GPUS] = { "num_gpu_p_node", true, 0 }, [NODE_CPUS] = { "num_cpu_p_node", false, 0 },
    [NODE_MEMORY] = { "mem_p_node", false, 0 },
};

static const struct csv_column list_columns[LIST_COUNT] = {
    [SERIAL] = { "sn", true, 0 }, [CPU_MILLI] = { "cpu_milli", false, 0 }, [MEMORY_MIB] = { "memory_mib", false, 0 },
    [GPU] = { "gpu", true, 0 },   [MODEL] = { "model", true, 0 },
};

_Static_assert((int)SHAPE_COUNT >= (int)LIST_COUNT, "room for either table");

struct table_cluster {
    struct csv csv;
    struct csv_column columns[SHAPE_COUNT];
    struct cluster_build build;
    uint32_t rack;
};

static int number(struct table_cluster *table, int column, int64_t min, int64_t max, int64_t *ret_value,
                  struct error *err)
{
    int at = table->columns[column].index;

    if (min == 0 && !csv_get(&table->csv, at))
        return 0;
    return csv_i64(&table->csv, at, min, max, ret_value, err);
}

static int built(struct table_cluster *table, int r, struct error *err)
{
    return r < 0 ? error_prefix(err, r, "%s:%u:1", table->csv.file, table->csv.record) : 0;
}

static int shape_row(struct table_cluster *table, struct error *err)
{
    struct node_group group = NODE_GROUP_INIT;
    int64_t racks = 0, memory_gib = 0;
    int r = number(table, SWITCHES, 1, COUNT_MAX, &racks, err);

    if (r == 0)
        r = number(table, SWITCH_NODES, 1, COUNT_MAX, &group.count, err);
    if (r == 0)
        r = number(table, NODE_GPUS, 1, NODE_GPUS_MAX, &group.gpus, err);
    if (r == 0)
        r = number(table, NODE_CPUS, 0, CPUS_MAX, &group.cpus, err);
    if (r == 0)
        r = number(table, NODE_MEMORY, 0, NODE_MEMORY_MIB_MAX >> 10, &memory_gib, err);
    if (r < 0)
        return r;
    group.memory_mib = (uint32_t)memory_gib << 10;
    r = built(table, cluster_build_sku(&table->build, "gpu", &group.sku, err), err);
    for (int64_t i = 0; r == 0 && i < racks; i++)
        r = built(table, cluster_build_nodes(&table->build, &group, table->rack++, 0, err), err);
    return r;
}

/* Copies a field as a name. */
static int name_copy(struct table_cluster *table, int column, char name[NAME_LENGTH_MAX + 1], struct error *err)
{
    int at = table->columns[column].index;
    const struct csv_field *field = csv_get(&table->csv, at);

    if (!field || field->length > NAME_LENGTH_MAX || memchr(field->text, '\0', field->length))
        return csv_expected(&table->csv, at, err, "a name");
    memcpy(name, field->text, field->length);
    name[field->length] = '\0';
    return 0;
}

static int list_row(struct table_cluster *table, struct error *err)
{
    struct node_group group = NODE_GROUP_INIT;
    char name[NAME_LENGTH_MAX + 1], model[NAME_LENGTH_MAX + 1];
    int64_t cpu_milli = 0, memory_mib = 0;
    int r = csv_i64(&table->csv, table->columns[GPU].index, 0, NODE_GPUS_MAX, &group.gpus, err);

    if (r < 0 || group.gpus == 0)
        return r;
    r = number(table, CPU_MILLI, 0, (int64_t)CPUS_MAX * 1000, &cpu_milli, err);
    if (r == 0)
        r = number(table, MEMORY_MIB, 0, NODE_MEMORY_MIB_MAX, &memory_mib, err);
    if (r == 0)
        r = name_copy(table, SERIAL, name, err);
    if (r == 0)
        r = name_copy(table, MODEL, model, err);
    if (r < 0)
        return r;
    group.name = name;
    group.cpus = cpu_milli / 1000;
    group.memory_mib = (uint32_t)memory_mib;
    r = built(table, cluster_build_sku(&table->build, model, &group.sku, err), err);
    if (r == 0)
        r = built(table, cluster_build_nodes(&table->build, &group, 0, 0, err), err);
    return r;
}

static int table_read(struct table_cluster *table, bool is_list, struct error *err)
{
    const struct csv_column *columns = is_list ? list_columns : shape_columns;
    size_t count = is_list ? LIST_COUNT : SHAPE_COUNT;
    int r;

    memcpy(table->columns, columns, count * sizeof(*columns));
    r = csv_header(&table->csv, table->columns, count, err);
    while (r == 0) {
        r = csv_next(&table->csv, err);
        if (r <= 0)
            break;
        r = is_list ? list_row(table, err) : shape_row(table, err);
    }
    return r;
}

int cluster_read_csv(const char *file, const struct bytes *bytes, struct cluster_spec *ret_spec, struct error *err)
{
    struct table_cluster *table = mem_zalloc(1, sizeof(*table));
    int r;

    if (!table)
        return error_set(err, -ENOMEM, "%s: out of memory", file);
    csv_init(&table->csv, file, bytes->data, bytes->size, ',');
    r = table_read(table, bytes->size > 3 && memcmp(bytes->data, "sn,", 3) == 0, err);
    if (r == 0) {
        r = cluster_build_take(&table->build, ret_spec, err);
        if (r < 0)
            (void)error_prefix(err, r, "%s", file);
    }
    csv_done(&table->csv);
    cluster_build_done(&table->build);
    mem_free(table);
    return r;
}
