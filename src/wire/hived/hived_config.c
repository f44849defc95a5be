/* SPDX-License-Identifier: Apache-2.0 */
/* hived_config.c - see hived_config.h: the document and its cell types. */
#include "wire/hived/hived_config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/hived/hived_load.h"

enum { SKU_CPUS_MAX = 1024, SKU_MEMORY_MIB_MAX = 1 << 22 };

const char *hived_text(const yaml_node_t *node)
{
    assert(node);
    return (const char *)node->data.scalar.value;
}

bool hived_is_null(const yaml_node_t *node)
{
    if (!node)
        return true;
    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    return node->data.scalar.length == 0 || strcmp(hived_text(node), "null") == 0 ||
           strcmp(hived_text(node), "~") == 0 || strcmp(hived_text(node), "Null") == 0 ||
           strcmp(hived_text(node), "NULL") == 0;
}

static void warn(struct hived_loader *l, const yaml_node_t *node, const char *key, const char *where)
{
    struct hived_warnings *w = l->warnings;

    if (!w)
        return;
    if (w->count < HIVED_WARNINGS_MAX)
        (void)snprintf(w->text[w->count], sizeof(w->text[0]), "%.60s:%zu:%zu: unknown key '%.40s' in %s is ignored",
                       l->doc.file, node->start_mark.line + 1, node->start_mark.column + 1, key, where);
    w->count++;
}

int hived_keys(struct hived_loader *l, yaml_node_t *map, const char *where, const char *const *known,
               yaml_node_t **values)
{
    yaml_node_t *key, *value;
    size_t count = 0;
    int r;

    for (; known[count]; count++)
        values[count] = NULL;
    if (hived_is_null(map))
        return 0;
    r = yaml_map_check(&l->doc, map, where, l->err);
    if (r < 0)
        return r;
    for (size_t i = 0; yaml_pair(&l->doc, map, i, &key, &value); i++) {
        size_t k = 0;

        while (k < count && strcmp(known[k], hived_text(key)) != 0)
            k++;
        if (k == count)
            warn(l, key, hived_text(key), where);
        else if (!hived_is_null(value))
            values[k] = value;
    }
    return 0;
}

int hived_name(struct hived_loader *l, const yaml_node_t *node, const char *what, uint32_t *ret_name)
{
    const char *name;
    int r = yaml_name(&l->doc, node, what, &name, l->err);

    if (r == 0 && names_put(&l->spec->names, name, strlen(name), ret_name) < 0)
        r = error_set(l->err, -ENOMEM, "%s: out of memory", l->doc.file);
    return r;
}

int hived_grow(struct hived_loader *l, void **block, size_t *capacity, size_t need, size_t size)
{
    int r = mem_grow(block, capacity, need, CELL_PLACES_MAX, size);

    return r == 0 ? 0 : error_set(l->err, r, "%s: %s", l->doc.file, r == -E2BIG ? "too many cells" : "out of memory");
}

uint32_t hived_type_find(const struct hived_loader *l, uint32_t name)
{
    for (size_t i = 0; i < l->spec->type_count; i++)
        if (l->spec->types[i].name == name)
            return (uint32_t)i;
    return CELL_NONE;
}

static int type_add(struct hived_loader *l, const yaml_node_t *node, uint32_t name, uint32_t *ret_type)
{
    struct cell_spec *s = l->spec;
    int r;

    if (s->type_count == CELL_TYPES_MAX)
        return yaml_fail(&l->doc, node, l->err, "more than %d cell types", CELL_TYPES_MAX);
    r = hived_grow(l, (void **)&s->types, &s->type_capacity, s->type_count + 1, sizeof(*s->types));
    if (r < 0)
        return r;
    *ret_type = (uint32_t)s->type_count;
    s->types[s->type_count++] = (struct cell_type){ .name = name, .child = CELL_NONE };
    return 0;
}

/* Names first, so that a type may come before its child; then what they are made of. */
static int types_read(struct hived_loader *l, yaml_node_t *map)
{
    static const char *const known[] = { "childCellType", "childCellNumber", "isNodeLevel", NULL };
    struct cell_spec *s = l->spec;
    yaml_node_t *key, *value, *got[3];
    uint32_t name, type;
    int64_t count;
    int r = yaml_map_check(&l->doc, map, "cellTypes", l->err);

    for (size_t i = 0; r == 0 && yaml_pair(&l->doc, map, i, &key, &value); i++) {
        r = hived_name(l, key, "cell type", &name);
        if (r == 0)
            r = type_add(l, key, name, &type);
        if (r == 0)
            l->type_node[type] = value;
    }
    for (size_t i = 0, named = s->type_count; r == 0 && i < named; i++) {
        value = l->type_node[i];
        r = hived_keys(l, value, "a cell type", known, got);
        if (r == 0 && (!got[0] || !got[1]))
            return yaml_fail(&l->doc, value, l->err, "expected childCellType and childCellNumber");
        if (r == 0)
            r = hived_name(l, got[0], "childCellType", &name);
        if (r == 0)
            r = yaml_i64(&l->doc, got[1], 1, (int64_t)CELL_PLACES_MAX, &count, l->err);
        if (r == 0 && got[2])
            r = yaml_flag(got[2], &s->types[i].node)
                    ? 0
                    : yaml_fail(&l->doc, got[2], l->err, "isNodeLevel: expected true or false");
        if (r < 0)
            return r;
        type = hived_type_find(l, name);
        if (type == CELL_NONE)
            r = type_add(l, got[0], name, &type);
        s->types[i].child = type;
        s->types[i].child_count = (uint32_t)count;
    }
    return r;
}

/* Levels and sizes; a type that contains itself has no level. */
static int types_check(struct hived_loader *l)
{
    struct cell_spec *s = l->spec;

    for (size_t i = 0; i < s->type_count; i++) {
        uint64_t leaves = 1;
        uint32_t type = (uint32_t)i, nodes = 0, level = 1;

        for (; s->types[type].child != CELL_NONE; type = s->types[type].child, level++) {
            nodes += s->types[type].node;
            leaves *= s->types[type].child_count;
            if (level == CELL_LEVELS_MAX || leaves > CELL_PLACES_MAX)
                return yaml_fail(&l->doc, l->type_node[i], l->err,
                                 "cell type '%.60s': more than %d levels, too many devices, or it contains itself",
                                 names_get(&s->names, s->types[i].name), CELL_LEVELS_MAX);
        }
        if (nodes > 1)
            return yaml_fail(&l->doc, l->type_node[i], l->err, "cell type '%.60s': two node levels",
                             names_get(&s->names, s->types[i].name));
        if (s->types[i].node && leaves > CELL_NODE_LEAVES_MAX)
            return yaml_fail(&l->doc, l->type_node[i], l->err, "cell type '%.60s': more than %d devices a node",
                             names_get(&s->names, s->types[i].name), CELL_NODE_LEAVES_MAX);
        l->levels[i] = level;
        l->leaves[i] = leaves;
    }
    return 0;
}

/* What a device comes with: `K80: {gpu: 1, cpu: 5, memory: 54Gi}`. */
static int sku_read(struct hived_loader *l, const yaml_node_t *key, yaml_node_t *value)
{
    static const char *const known[] = { "gpu", "cpu", "memory", NULL };
    struct cell_spec *s = l->spec;
    yaml_node_t *got[3];
    int64_t gpu = 1, cpus = 0;
    uint32_t mib = 0, type = 0;
    int r = hived_keys(l, value, "a sku type", known, got);

    if (r == 0 && got[0])
        r = yaml_i64(&l->doc, got[0], 0, 1, &gpu, l->err);
    if (r == 0 && got[1])
        r = yaml_i64(&l->doc, got[1], 0, SKU_CPUS_MAX, &cpus, l->err);
    if (r == 0 && got[2])
        r = yaml_mib(&l->doc, got[2], SKU_MEMORY_MIB_MAX, &mib, l->err);
    while (r == 0 && type < s->type_count && strcmp(names_get(&s->names, s->types[type].name), hived_text(key)) != 0)
        type++;
    if (r < 0)
        return r;
    if (type == s->type_count || s->types[type].child != CELL_NONE) {
        warn(l, key, hived_text(key), "skuTypes, which is no device of cellTypes,");
    } else {
        s->types[type].cpus = (uint32_t)cpus;
        s->types[type].memory_mib = mib;
    }
    return 0;
}

static int skus_read(struct hived_loader *l, yaml_node_t *map)
{
    yaml_node_t *key, *value;
    int r = yaml_map_check(&l->doc, map, "skuTypes", l->err);

    for (size_t i = 0; r == 0 && yaml_pair(&l->doc, map, i, &key, &value); i++)
        r = sku_read(l, key, value);
    return r;
}

static int document_read(struct hived_loader *l)
{
    static const char *const top[] = { "physicalCluster",
                                       "virtualClusters",
                                       "kubeApiServerAddress",
                                       "kubeConfigFilePath",
                                       "webServerAddress",
                                       "forcePodBindThreshold",
                                       "waitingPodSchedulingBlockMilliSec",
                                       NULL };
    static const char *const physical[] = { "cellTypes", "physicalCells", "skuTypes", NULL };
    yaml_node_t *got[7], *cluster[3];
    int64_t number;
    int r = hived_keys(l, yaml_top(&l->doc), "the file", top, got);

    for (int i = 5; r == 0 && i < 7; i++)
        if (got[i])
            r = yaml_i64(&l->doc, got[i], 0, INT32_MAX, &number, l->err);
    if (r == 0)
        r = hived_keys(l, got[0], "physicalCluster", physical, cluster);
    if (r == 0 && got[0] && cluster[0])
        r = types_read(l, cluster[0]);
    if (r == 0 && got[0] && cluster[2])
        r = skus_read(l, cluster[2]);
    if (r == 0)
        r = types_check(l);
    if (r == 0 && got[0] && cluster[1])
        r = hived_places_load(l, cluster[1]);
    if (r == 0 && got[1])
        r = hived_vcs_load(l, got[1]);
    return r;
}

int hived_config_load(const struct yaml_doc *doc, struct cell_spec *ret_spec, struct hived_warnings *warnings,
                      struct error *err)
{
    struct hived_loader *l = mem_zalloc(1, sizeof(*l));
    int r;

    if (!l)
        return error_set(err, -ENOMEM, "%s: out of memory", doc->file);
    l->doc = *doc; /* its nodes are borrowed */
    l->spec = ret_spec;
    l->warnings = warnings;
    l->err = err;
    r = document_read(l);
    if (r < 0)
        cell_spec_done(ret_spec);
    mem_free((void *)l->grant_nodes);
    mem_free(l);
    return r;
}

int hived_config_read(const char *file, const struct bytes *bytes, struct cell_spec *ret_spec,
                      struct hived_warnings *warnings, struct error *err)
{
    struct yaml_doc doc;
    int r = yaml_open(file, bytes, &doc, err);

    if (r < 0)
        return r;
    r = hived_config_load(&doc, ret_spec, warnings, err);
    yaml_close(&doc);
    return r;
}
