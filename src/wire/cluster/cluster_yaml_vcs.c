/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_yaml_vcs.c - the virtual clusters of a cluster file: what they are owed, in GPUs or in words, and their
 * limits.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/cluster/cluster_cells.h"
#include "wire/cluster/cluster_yaml.h"
#include "wire/cluster/guarantee.h"
#include "wire/cluster/vc_access.h"
#include "wire/text/decimal.h"

enum {
    VC_QUOTA,
    VC_GUARANTEE,
    VC_POLICY,
    VC_OPTIMISE,
    VC_BORROW,
    VC_USER_MAX,
    VC_MIN_RUNTIME,
    VC_CPUS,
    VC_SET,
    VC_PRIORITIES,
    VC_ACCESS,
    VC_KEYS
};

static int quota_read(struct file_cluster *file, yaml_node_t *node, struct vc_spec *vc, struct error *err)
{
    yaml_node_t *key, *value;
    int64_t gpus;
    int r;

    if (node->type == YAML_SCALAR_NODE) {
        if (file->build.spec.sku_count != 1)
            return yaml_fail(&file->doc, node, err, "quota: there are several GPU types; expected {SKU: GPUS, ...}");
        r = yaml_i64(&file->doc, node, 0, CLUSTER_GPUS_MAX, &gpus, err);
        if (r == 0)
            vc->quota[0] = (int32_t)gpus;
        return r;
    }
    r = yaml_map_check(&file->doc, node, "quota", err);
    for (size_t i = 0; r == 0 && yaml_pair(&file->doc, node, i, &key, &value); i++) {
        uint16_t sku;

        file->skus_listed = true; /* all nodes are known by now */
        r = cluster_yaml_sku(file, key, &sku, err);
        if (r == 0)
            r = yaml_i64(&file->doc, value, 0, CLUSTER_GPUS_MAX, &gpus, err);
        if (r == 0)
            vc->quota[sku] = (int32_t)gpus;
    }
    return r;
}

static int no_memory(const struct file_cluster *file, struct error *err)
{
    return error_set(err, -ENOMEM, "%s: out of memory", file->doc.file);
}

/* One GPU type's words: "4 nodes", "1 rack + 16 gpus in 4s". */
static int words_read(struct file_cluster *file, const yaml_node_t *node, struct guarantee part, struct error *err)
{
    struct cluster_build *b = &file->build;
    struct error words = { 0 };
    const char *text;
    size_t at = 0;
    int r = yaml_name(&file->doc, node, "guarantee", &text, err);

    while (r == 0 && (r = guarantee_parse(text, &at, &part, &words)) > 0) {
        if (mem_grow((void **)&b->spec.guarantees, &b->guarantee_capacity, b->spec.guarantee_count + 1,
                     CLUSTER_GUARANTEES_MAX, sizeof(part)) < 0 ||
            mem_grow((void **)&file->places, &file->place_capacity, b->spec.guarantee_count + 1, CLUSTER_GUARANTEES_MAX,
                     sizeof(node)) < 0)
            return no_memory(file, err);
        file->places[b->spec.guarantee_count] = node;
        b->spec.guarantees[b->spec.guarantee_count++] = part;
        r = 0;
    }
    if (words.code)
        return yaml_fail(&file->doc, node, err, "guarantee '%.60s': character %zu: %.100s", text, at + 1, words.text);
    return r;
}

static int guarantee_read(struct file_cluster *file, yaml_node_t *node, uint32_t vc, struct error *err)
{
    struct guarantee part = { .vc = vc };
    yaml_node_t *key, *value;
    int r;

    if (node->type == YAML_SCALAR_NODE) {
        if (file->build.spec.sku_count != 1)
            return yaml_fail(&file->doc, node, err,
                             "guarantee: there are several GPU types; expected {SKU: WORDS, ...}");
        return words_read(file, node, part, err);
    }
    r = yaml_map_check(&file->doc, node, "guarantee", err);
    for (size_t i = 0; r == 0 && yaml_pair(&file->doc, node, i, &key, &value); i++) {
        file->skus_listed = true; /* all nodes are known by now */
        r = cluster_yaml_sku(file, key, &part.sku, err);
        if (r == 0)
            r = words_read(file, value, part, err);
    }
    return r;
}

/* Which of the two it is depends on whether there are cells. */
enum { BORROW_UNTOLD = -2 };

static int borrow_read(struct file_cluster *file, const yaml_node_t *node, uint32_t vc, struct error *err)
{
    struct vc_spec *spec = &file->build.spec.vcs[vc];
    const char *text = node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : "";
    size_t length = strlen(text);
    int64_t number;

    if (strcmp(text, "all") == 0) {
        spec->borrow_max = -1;
    } else if (strcmp(text, "none") == 0) {
        spec->borrow_max = 0;
    } else if (decimal_parse_i64(text, length, &number) == 0 && number >= 0 && number <= (int64_t)CLUSTER_GPUS_MAX) {
        spec->borrow_max = (int32_t)number;
    } else if (length > 1 && text[length - 1] == '%' && decimal_parse_i64(text, length - 1, &number) == 0 &&
               number >= 0 && number <= 1000000) {
        if (mem_grow((void **)&file->percents, &file->percent_capacity, file->percent_count + 1, VCS_MAX,
                     sizeof(*file->percents)) < 0)
            return no_memory(file, err);
        file->percents[file->percent_count++] = (struct percent){ vc, number };
    } else {
        return yaml_fail(&file->doc, node, err,
                         "borrow: expected none, all, a number of GPUs, or a share such as 50%%");
    }
    return 0;
}

static int limits_read(struct file_cluster *file, const struct yaml_key *keys, struct vc_spec *vc, struct error *err)
{
    const yaml_node_t *node = keys[VC_MIN_RUNTIME].value;
    int64_t gpus;
    int r = 0;

    if (keys[VC_USER_MAX].value) {
        r = yaml_i64(&file->doc, keys[VC_USER_MAX].value, 1, CLUSTER_GPUS_MAX, &gpus, err);
        if (r == 0)
            vc->user_max = (int32_t)gpus;
    }
    if (r == 0 && keys[VC_CPUS].value) {
        r = yaml_i64(&file->doc, keys[VC_CPUS].value, 0, 1 << 30, &gpus, err);
        if (r == 0)
            vc->cpus = (int32_t)gpus;
    }
    if (r == 0 && node &&
        (node->type != YAML_SCALAR_NODE ||
         span_parse((const char *)node->data.scalar.value, node->data.scalar.length, &vc->min_runtime) < 0))
        r = yaml_fail(&file->doc, node, err, "min_runtime: expected a span such as 20m, 2h30m or 1d");
    return r;
}

/* Whether the policy can do so others judge, who know it. */
static int priorities_read(struct file_cluster *file, const yaml_node_t *node, struct vc_spec *vc, struct error *err)
{
    const char *text;
    int r = yaml_name(&file->doc, node, "priorities", &text, err);

    for (uint8_t p = PRIORITIES_WEIGHTS; r == 0 && p < PRIORITIES_COUNT; p++)
        if (strcmp(text, vc_priorities_names[p]) == 0)
            vc->priorities = p;
    if (r == 0 && vc->priorities == PRIORITIES_UNTOLD)
        return yaml_fail(&file->doc, node, err, "priorities: expected strict, weights or off");
    return r;
}

static int text_keep(struct file_cluster *file, const yaml_node_t *node, const char *what, uint32_t *ret_name,
                     struct error *err)
{
    const char *text;
    int r = yaml_name(&file->doc, node, what, &text, err);

    if (r == 0 && names_put(&file->build.spec.names, text, strlen(text), ret_name) < 0)
        r = error_set(err, -ENOMEM, "%s: out of memory", file->doc.file);
    return r;
}

/* Whether there is such a policy others judge, who have not seen the file. */
static int place_keep(struct file_cluster *file, const yaml_node_t *node, uint32_t *ret_place, struct error *err)
{
    char text[NAME_LENGTH_MAX + 1];
    int length = snprintf(text, sizeof(text), "%s:%zu:%zu", file->doc.file, node->start_mark.line + 1,
                          node->start_mark.column + 1);

    if (*ret_place || length >= (int)sizeof(text))
        return 0;
    if (names_put(&file->build.spec.names, text, (size_t)length, ret_place) < 0)
        return error_set(err, -ENOMEM, "%s: out of memory", file->doc.file);
    ++*ret_place;
    return 0;
}

/* [pack, migrate] or one word: the setting of the same name. */
static int optimise_read(struct file_cluster *file, yaml_node_t *node, struct vc_spec *vc, struct error *err)
{
    struct param_text *param = &vc->params[vc->param_count++];
    char text[256] = "";
    yaml_node_t *item;
    int r = names_put(&file->build.spec.names, "optimise", 8, &param->key) < 0 ? no_memory(file, err) : 0;

    if (r < 0 || node->type != YAML_SEQUENCE_NODE)
        return r < 0 ? r : text_keep(file, node, "optimise", &param->value, err);
    for (size_t i = 0; yaml_item(&file->doc, node, i, &item); i++) {
        const char *name;
        size_t have = strlen(text);

        r = yaml_name(&file->doc, item, "optimise", &name, err);
        if (r < 0)
            return r;
        if (have + strlen(name) + 2 > sizeof(text))
            return yaml_fail(&file->doc, node, err, "optimise: the list is too long");
        (void)snprintf(text + have, sizeof(text) - have, "%s%s", have ? "," : "", name);
    }
    if (!text[0])
        memcpy(text, "none", 5);
    return names_put(&file->build.spec.names, text, strlen(text), &param->value) < 0 ? no_memory(file, err) : 0;
}

static int set_read(struct file_cluster *file, yaml_node_t *map, struct vc_spec *vc, struct error *err)
{
    yaml_node_t *key, *value;
    int r = yaml_map_check(&file->doc, map, "set", err);

    for (size_t i = 0; r == 0 && yaml_pair(&file->doc, map, i, &key, &value); i++) {
        struct param_text *param = &vc->params[vc->param_count];

        if (vc->param_count == PARAMS_MAX)
            return yaml_fail(&file->doc, key, err, "more than %d settings", PARAMS_MAX);
        r = text_keep(file, key, "set", &param->key, err);
        if (r == 0)
            r = text_keep(file, value, "set", &param->value, err);
        vc->param_count++;
    }
    return r;
}

/* Either GPUs or words; the words become GPUs when the nodes are in order. */
static int owed_read(struct file_cluster *file, const struct yaml_key *keys, const yaml_node_t *map, uint32_t vc,
                     struct error *err)
{
    if (!keys[VC_QUOTA].value == !keys[VC_GUARANTEE].value)
        return yaml_fail(&file->doc, keys[VC_GUARANTEE].node ? keys[VC_GUARANTEE].node : map, err,
                         "expected either 'quota' or 'guarantee'");
    if (keys[VC_GUARANTEE].value)
        return guarantee_read(file, keys[VC_GUARANTEE].value, vc, err);
    return quota_read(file, keys[VC_QUOTA].value, &file->build.spec.vcs[vc], err);
}

int cluster_yaml_vcs(struct file_cluster *file, yaml_node_t *map, struct error *err)
{
    yaml_node_t *key, *value;
    int r = yaml_map_check(&file->doc, map, "vcs", err);

    for (size_t i = 0; r == 0 && yaml_pair(&file->doc, map, i, &key, &value); i++) {
        struct yaml_key keys[VC_KEYS] = {
            [VC_QUOTA] = { .name = "quota" },
            [VC_GUARANTEE] = { .name = "guarantee" },
            [VC_POLICY] = { .name = "policy" },
            [VC_OPTIMISE] = { .name = "optimise" },
            [VC_BORROW] = { .name = "borrow" },
            [VC_USER_MAX] = { .name = "max_user_gpus" },
            [VC_MIN_RUNTIME] = { .name = "min_runtime" },
            [VC_CPUS] = { .name = "cpus" },
            [VC_SET] = { .name = "set" },
            [VC_PRIORITIES] = { .name = "priorities" },
            [VC_ACCESS] = { .name = "access" },
        };
        struct vc_spec *vc;

        r = cluster_yaml_built(file, key,
                               cluster_build_vc(&file->build, (const char *)key->data.scalar.value, &vc, err), err);
        if (r == 0)
            r = yaml_keys(&file->doc, value, keys, VC_KEYS, err);
        if (r == 0)
            r = owed_read(file, keys, value, (uint32_t)i, err);
        if (r == 0 && keys[VC_POLICY].value)
            r = text_keep(file, keys[VC_POLICY].value, "policy", &vc->policy, err);
        for (int k = VC_POLICY; r == 0 && k <= VC_PRIORITIES; k++)
            if (keys[k].value && (k == VC_POLICY || k == VC_OPTIMISE || k == VC_SET || k == VC_PRIORITIES))
                r = place_keep(file, keys[k].value, &vc->place, err);
        if (r == 0 && keys[VC_OPTIMISE].value)
            r = optimise_read(file, keys[VC_OPTIMISE].value, vc, err);
        if (r == 0)
            vc->borrow_max = BORROW_UNTOLD;
        if (r == 0 && keys[VC_BORROW].value)
            r = borrow_read(file, keys[VC_BORROW].value, (uint32_t)i, err);
        if (r == 0)
            r = limits_read(file, keys, vc, err);
        if (r == 0 && keys[VC_PRIORITIES].value)
            r = priorities_read(file, keys[VC_PRIORITIES].value, vc, err);
        if (r == 0 && keys[VC_ACCESS].value)
            r = vc_access_read(&file->doc, keys[VC_ACCESS].value, err);
        if (r == 0 && keys[VC_SET].value)
            r = set_read(file, keys[VC_SET].value, vc, err);
    }
    return r;
}

/* The number of a SKU, by its name among the cell types. */
static uint32_t sku_of(const struct cluster_spec *spec, const struct cell_spec *cells, uint32_t type)
{
    const char *name;
    uint32_t sku = 0;

    while (cells->types[type].child != CELL_NONE)
        type = cells->types[type].child;
    name = names_get(&cells->names, cells->types[type].name);
    while (strcmp(names_get(&spec->names, spec->skus[sku].name), name) != 0)
        sku++;
    return sku;
}

static void quotas_set(struct cluster_spec *spec)
{
    const struct cell_spec *cells = spec->cells;

    for (uint32_t v = 0; v < spec->vc_count; v++)
        memset(spec->vcs[v].quota, 0, sizeof(spec->vcs[v].quota));
    for (size_t i = 0; i < cells->grant_count; i++) {
        const struct cell_grant *g = &cells->grants[i];
        uint32_t gpus = g->count;

        for (uint32_t type = g->type; cells->types[type].child != CELL_NONE; type = cells->types[type].child)
            gpus *= cells->types[type].child_count;
        spec->vcs[g->vc].quota[sku_of(spec, cells, g->type)] += (int32_t)gpus;
    }
}

static int cells_settle(struct file_cluster *file, struct cluster_spec *spec, struct error *err)
{
    struct cell_spec *cells = mem_zalloc(1, sizeof(*cells));
    uint32_t which = CELL_NONE;
    int r;

    if (!cells)
        return no_memory(file, err);
    spec->cells = cells;
    r = cluster_cells(spec, cells, NULL, &which, err);
    if (r < 0)
        return cluster_yaml_built(file, which == CELL_NONE ? yaml_top(&file->doc) : file->places[which], r, err);
    quotas_set(spec);
    return 0;
}

static int64_t owed(const struct vc_spec *vc)
{
    int64_t gpus = 0;

    for (uint32_t s = 0; s < SKUS_MAX; s++)
        gpus += vc->quota[s];
    return gpus;
}

int cluster_yaml_settle(struct file_cluster *file, struct cluster_spec *spec, struct error *err)
{
    int r = spec->guarantee_count > 0 ? cells_settle(file, spec, err) : 0;

    /* Beside cells only opportunistic jobs use what others leave idle, unless told: then nobody waits longer than in a
     * cluster of its own. Who is owed nothing has nothing else. */
    for (uint32_t v = 0; r == 0 && v < spec->vc_count; v++)
        if (spec->vcs[v].borrow_max == BORROW_UNTOLD)
            spec->vcs[v].borrow_max = spec->cells && owed(&spec->vcs[v]) > 0 ? 0 : -1;
    for (size_t i = 0; r == 0 && i < file->percent_count; i++) {
        struct vc_spec *vc = &spec->vcs[file->percents[i].vc];
        int64_t gpus = muldiv_floor(owed(vc), file->percents[i].percent, 100);

        vc->borrow_max = gpus > (int64_t)CLUSTER_GPUS_MAX ? (int32_t)CLUSTER_GPUS_MAX : (int32_t)gpus;
    }
    if (r < 0)
        cluster_spec_done(spec);
    return r;
}
