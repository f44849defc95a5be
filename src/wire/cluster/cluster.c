/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.c - see cluster.h: the short string, and foreign tables.
 *
 *    cluster = group { ("+" | ";") group }
 *    group   = [ NODES "x" GPUS [ ":" SKU ] ] { key ":" value }
 *
 * domains, racks (a domain) and nodes (a rack) multiply. Each group begins new racks; a group that names domains
 * begins new ones, another stays in the last.
 */
#include "wire/cluster/cluster.h"

#include <errno.h>
#include <string.h>

#include "wire/cluster/cluster_build.h"
#include "wire/text/csv.h"
#include "wire/text/decimal.h"
#include "wire/text/size.h"
#include "wire/text/suggest.h"

#define SKU_DEFAULT "gpu"

enum key { DOMAINS, RACKS, NODES, GPUS, SOCKETS, GROUPS, CPUS, CPU_JOBS, SKU, MEMORY, GPU_MEMORY, PREFIX, KEY_COUNT };

static const char *const key_names[KEY_COUNT] = {
    [DOMAINS] = "domains", [RACKS] = "racks",   [NODES] = "nodes",           [GPUS] = "gpus",
    [SOCKETS] = "sockets", [CPUS] = "cpus",     [GROUPS] = "groups",         [SKU] = "sku",
    [MEMORY] = "memory",   [PREFIX] = "prefix", [GPU_MEMORY] = "gpu_memory", [CPU_JOBS] = "cpu_jobs",
};

static const int64_t key_max[KEY_COUNT] = {
    [DOMAINS] = COUNT_MAX,     [RACKS] = COUNT_MAX,      [NODES] = COUNT_MAX, [GPUS] = NODE_GPUS_MAX,
    [SOCKETS] = NODE_GPUS_MAX, [GROUPS] = NODE_GPUS_MAX, [CPUS] = CPUS_MAX,   [CPU_JOBS] = CPUS_MAX,
};

struct text_cluster {
    const char *text, *at;
    struct cluster_build build;
    uint32_t rack, domain; /* next rack, last domain */
    bool any;
};

struct text_group {
    int64_t numbers[KEY_COUNT]; /* 0 = not told */
    char sku[NAME_LENGTH_MAX + 1], prefix[NAME_LENGTH_MAX + 1];
    uint32_t memory_mib, gpu_memory_mib;
    bool bare; /* gpus:0 */
};

static int fail(const struct text_cluster *cluster, const char *at, struct error *err, const char *words)
{
    char shown[SHOWN_MAX];

    return error_set(err, -EINVAL, "cluster '%s': character %zu: %s",
                     suggest_shown(cluster->text, strlen(cluster->text), shown), (size_t)(at - cluster->text) + 1,
                     words);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == ',';
}

static bool is_end(char c)
{
    return c == '\0' || c == '+' || c == ';';
}

static size_t word_length(const char *at)
{
    size_t length = 0;

    while (!is_blank(at[length]) && !is_end(at[length]))
        length++;
    return length;
}

/* The key, also in the singular ("rack:1"); KEY_COUNT when it is none. */
static enum key key_find(const char *at, size_t length)
{
    for (enum key key = 0; key < KEY_COUNT; key++) {
        size_t full = strlen(key_names[key]);
        bool plural = key_names[key][full - 1] == 's';

        if ((length == full || (plural && length + 1 == full)) && memcmp(at, key_names[key], length) == 0)
            return key;
    }
    return KEY_COUNT;
}

static int key_unknown(const struct text_cluster *cluster, const char *at, size_t length, struct error *err)
{
    const char *near = suggest_word(at, length, key_names, KEY_COUNT);
    char words[160], shown[SHOWN_MAX];
    struct buf out = BUF_INIT(sizeof(words) - 1);

    (void)suggest_shown(at, length, shown);
    buf_printf(&out, "unknown key '%s'", shown);
    if (near)
        buf_printf(&out, "; did you mean '%s'?", near);
    (void)fail(cluster, at, err, out.error ? "unknown key" : out.data);
    buf_done(&out);
    return -EINVAL;
}

static int name_read(const struct text_cluster *cluster, const char *at, size_t length, char name[NAME_LENGTH_MAX + 1],
                     struct error *err)
{
    if (length == 0 || length > NAME_LENGTH_MAX)
        return fail(cluster, at, err, "expected a name");
    memcpy(name, at, length);
    name[length] = '\0';
    return 0;
}

static int value_read(const struct text_cluster *cluster, enum key key, const char *at, size_t length,
                      struct text_group *group, struct error *err)
{
    uint32_t *mib = key == MEMORY ? &group->memory_mib : &group->gpu_memory_mib;

    if (group->numbers[key])
        return fail(cluster, at, err, "this key comes twice");
    group->numbers[key] = 1;
    if (key == SKU)
        return name_read(cluster, at, length, group->sku, err);
    if (key == PREFIX)
        return name_read(cluster, at, length, group->prefix, err);
    if (key == MEMORY || key == GPU_MEMORY) {
        if (size_parse_mib(at, length, mib) < 0 || *mib > NODE_MEMORY_MIB_MAX)
            return fail(cluster, at, err, "expected a size such as 32G, whole MiB");
        return 0;
    }
    group->bare |= key == GPUS && length == 1 && *at == '0';
    if (group->bare && key == GPUS)
        return 0; /* the number stays told */
    if (decimal_parse_i64(at, length, &group->numbers[key]) < 0 || group->numbers[key] < 1 ||
        group->numbers[key] > key_max[key])
        return fail(cluster, at, err,
                    key == GPUS ? "expected a number of GPUs, 0 to 256" : "expected a number above 0");
    return 0;
}

/* "16x8" or "16x8:V100". */
static int shape_read(struct text_cluster *cluster, struct text_group *group, struct error *err)
{
    const char *at = cluster->at, *end = at + word_length(at);
    const char *x = memchr(at, 'x', (size_t)(end - at));
    const char *colon = memchr(at, ':', (size_t)(end - at));
    int r;

    if (!x || (colon && colon < x))
        return fail(cluster, at, err, "expected NODESxGPUS such as 3x8, or KEY:VALUE such as nodes:3");
    r = value_read(cluster, NODES, at, (size_t)(x - at), group, err);
    if (r == 0)
        r = value_read(cluster, GPUS, x + 1, (size_t)((colon ? colon : end) - x - 1), group, err);
    if (r == 0 && colon)
        r = value_read(cluster, SKU, colon + 1, (size_t)(end - colon - 1), group, err);
    cluster->at = end;
    return r;
}

static int pair_read(struct text_cluster *cluster, struct text_group *group, struct error *err)
{
    const char *at = cluster->at, *end = at + word_length(at);
    const char *colon = memchr(at, ':', (size_t)(end - at));
    enum key key;

    if (!colon)
        return fail(cluster, at, err, "expected KEY:VALUE such as nodes:3");
    key = key_find(at, (size_t)(colon - at));
    if (key == KEY_COUNT)
        return key_unknown(cluster, at, (size_t)(colon - at), err);
    cluster->at = end;
    return value_read(cluster, key, colon + 1, (size_t)(end - colon - 1), group, err);
}

static void blanks_skip(struct text_cluster *cluster)
{
    while (is_blank(*cluster->at))
        cluster->at++;
}

static int64_t or_one(int64_t number)
{
    return number ? number : 1;
}

static int group_build(struct text_cluster *cluster, const struct text_group *group, struct error *err)
{
    struct node_group nodes = NODE_GROUP_INIT;
    int64_t domains = or_one(group->numbers[DOMAINS]), racks = or_one(group->numbers[RACKS]);
    struct cluster_build *build = &cluster->build;
    int r;

    nodes.count = or_one(group->numbers[NODES]);
    nodes.gpus = group->bare ? 0 : group->numbers[GPUS];
    nodes.bare = group->bare;
    nodes.sockets = or_one(group->numbers[SOCKETS]);
    nodes.groups = or_one(group->numbers[GROUPS]);
    nodes.cpus = group->numbers[CPUS];
    if (group->numbers[CPU_JOBS])
        nodes.cpu_jobs = group->numbers[CPU_JOBS];
    nodes.memory_mib = group->memory_mib;
    if (*group->prefix)
        nodes.prefix = group->prefix;
    if (domains * racks > (int64_t)NODES_MAX / nodes.count) /* each factor is at most COUNT_MAX */
        return error_set(err, -E2BIG, "more than %zu nodes", NODES_MAX);
    r = group->bare ? 0 : cluster_build_sku(build, *group->sku ? group->sku : SKU_DEFAULT, &nodes.sku, err);
    if (r == 0 && group->gpu_memory_mib && !group->bare)
        build->spec.skus[nodes.sku].memory_mib = group->gpu_memory_mib;
    for (int64_t d = 0; r == 0 && d < domains; d++) {
        cluster->domain += cluster->any && (group->numbers[DOMAINS] || d > 0);
        for (int64_t i = 0; r == 0 && i < racks; i++)
            r = cluster_build_nodes(build, &nodes, cluster->rack++, cluster->domain, err);
        cluster->any = true;
    }
    return r;
}

static int group_read(struct text_cluster *cluster, struct error *err)
{
    struct text_group group = { 0 };
    const char *start;
    int r = 0;

    blanks_skip(cluster);
    start = cluster->at;
    if (*start >= '0' && *start <= '9')
        r = shape_read(cluster, &group, err);
    for (blanks_skip(cluster); r == 0 && !is_end(*cluster->at); blanks_skip(cluster))
        r = pair_read(cluster, &group, err);
    if (r < 0)
        return r;
    if (cluster->at == start)
        return fail(cluster, start, err, "expected NODESxGPUS such as 3x8, or KEY:VALUE such as nodes:3");
    if (!group.numbers[GPUS])
        return fail(cluster, start, err, "expected the number of GPUs a node, such as gpus:8");
    r = group_build(cluster, &group, err);
    if (r < 0) {
        char words[ERROR_TEXT_MAX];

        memcpy(words, err ? err->text : "", err ? sizeof(words) : 1);
        (void)fail(cluster, start, err, words);
    }
    return r;
}

int cluster_parse(const char *text, struct cluster_spec *ret_spec, struct error *err)
{
    struct text_cluster cluster = { .text = text, .at = text };
    int r;

    for (;;) {
        r = group_read(&cluster, err);
        if (r < 0 || *cluster.at == '\0')
            break;
        cluster.at++;
    }
    if (r == 0)
        r = cluster_build_take(&cluster.build, ret_spec, err);
    cluster_build_done(&cluster.build);
    return r;
}
