/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_yaml.c - see cluster.h: the cluster file, described in docs/cluster-file.md. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/cluster/cluster.h"
#include "wire/cluster/cluster_hived.h"
#include "wire/cluster/cluster_yaml.h"
#include "wire/job/license.h"
#include "wire/text/suggest.h"

#define SKU_DEFAULT "gpu"

enum { TOP_SKUS, TOP_RACKS, TOP_NODES, TOP_VCS, TOP_LICENSES, TOP_PHYSICAL, TOP_VIRTUAL, TOP_COUNT };
enum { RACK_NAME, RACK_DOMAIN, RACK_COUNT_KEY, RACK_NODES, RACK_KEYS };
enum { N_COUNT, N_PREFIX, N_NAME, N_GPUS, N_SKU, N_SOCKETS, N_GROUPS, N_CPUS, N_CPU_JOBS, N_MEMORY, N_APART, N_KEYS };

int cluster_yaml_built(struct file_cluster *file, const yaml_node_t *node, int r, struct error *err)
{
    char words[200];

    if (r >= 0 || !err)
        return r;
    (void)memccpy(words, err->text, '\0', sizeof(words));
    words[sizeof(words) - 1] = '\0';
    (void)yaml_fail(&file->doc, node, err, "%s", words);
    return r;
}

static int skus_read(struct file_cluster *file, yaml_node_t *map, struct error *err)
{
    yaml_node_t *key, *value;
    int r = yaml_map_check(&file->doc, map, "skus", err);

    for (size_t i = 0; r == 0 && yaml_pair(&file->doc, map, i, &key, &value); i++) {
        struct yaml_key keys[] = { { "memory", false, NULL, NULL } };
        const char *name = (const char *)key->data.scalar.value;
        uint16_t sku;

        r = cluster_yaml_built(file, key, cluster_build_sku(&file->build, name, &sku, err), err);
        if (r == 0)
            r = yaml_keys(&file->doc, value, keys, 1, err);
        if (r == 0 && keys[0].value)
            r = yaml_mib(&file->doc, keys[0].value, 1 << 24, &file->build.spec.skus[sku].memory_mib, err);
    }
    file->skus_listed = true;
    return r;
}

int cluster_yaml_sku(struct file_cluster *file, const yaml_node_t *node, uint16_t *ret_sku, struct error *err)
{
    struct cluster_spec *spec = &file->build.spec;
    const char *known[SKUS_MAX], *near, *name;
    char shown[SHOWN_MAX];
    int r = yaml_name(&file->doc, node, "sku", &name, err);

    if (r < 0)
        return r;
    if (!file->skus_listed)
        return cluster_yaml_built(file, node, cluster_build_sku(&file->build, name, ret_sku, err), err);
    for (uint32_t i = 0; i < spec->sku_count; i++) {
        known[i] = names_get(&spec->names, spec->skus[i].name);
        if (strcmp(known[i], name) == 0) {
            *ret_sku = (uint16_t)i;
            return 0;
        }
    }
    near = suggest_word(name, strlen(name), known, spec->sku_count);
    return yaml_fail(&file->doc, node, err, "'%s' is not among the skus%s%s%s",
                     suggest_shown(name, strlen(name), shown), near ? "; did you mean '" : "", near ? near : "",
                     near ? "'?" : "");
}

static int sku_default(struct file_cluster *file, const yaml_node_t *node, uint16_t *ret_sku, struct error *err)
{
    *ret_sku = 0;
    if (file->build.spec.sku_count == 1)
        return 0;
    if (file->build.spec.sku_count > 1)
        return yaml_fail(&file->doc, node, err, "key 'sku' is missing: there are several");
    return cluster_yaml_built(file, node, cluster_build_sku(&file->build, SKU_DEFAULT, ret_sku, err), err);
}

static int optional(struct file_cluster *file, const struct yaml_key *key, int64_t max, int64_t *value,
                    struct error *err)
{
    return key->value ? yaml_i64(&file->doc, key->value, 1, max, value, err) : 0;
}

static int names_of_nodes(struct file_cluster *file, const struct yaml_key *keys, struct node_group *group,
                          struct error *err)
{
    int r = 0;

    if (keys[N_PREFIX].value)
        r = yaml_name(&file->doc, keys[N_PREFIX].value, "prefix", &group->prefix, err);
    if (r == 0 && keys[N_NAME].value)
        r = yaml_name(&file->doc, keys[N_NAME].value, "name", &group->name, err);
    if (r == 0 && group->name && (group->count > 1 || keys[N_PREFIX].value))
        r = yaml_fail(&file->doc, keys[N_NAME].node, err, "'name' is for one node; several have a 'prefix'");
    return r;
}

static int group_read(struct file_cluster *file, yaml_node_t *map, struct node_group *ret_group, struct error *err)
{
    struct yaml_key keys[N_KEYS] = {
        [N_COUNT] = { .name = "count" },
        [N_PREFIX] = { .name = "prefix" },
        [N_NAME] = { .name = "name" },
        [N_SKU] = { .name = "sku" },
        [N_SOCKETS] = { .name = "sockets" },
        [N_GROUPS] = { .name = "groups" },
        [N_CPUS] = { .name = "cpus" },
        [N_CPU_JOBS] = { .name = "cpu_jobs" },
        [N_MEMORY] = { .name = "memory" },
        [N_APART] = { .name = "apart" },
        [N_GPUS] = { .name = "gpus", .required = true },
    };
    struct node_group group = NODE_GROUP_INIT;
    int r = yaml_keys(&file->doc, map, keys, N_KEYS, err);

    if (r == 0)
        r = optional(file, &keys[N_COUNT], COUNT_MAX, &group.count, err);
    if (r == 0)
        r = names_of_nodes(file, keys, &group, err);
    if (r == 0)
        r = yaml_i64(&file->doc, keys[N_GPUS].value, 0, NODE_GPUS_MAX, &group.gpus, err);
    group.bare = group.gpus == 0;
    if (r == 0 && group.bare && keys[N_SKU].value)
        r = yaml_fail(&file->doc, keys[N_SKU].node, err, "sku: a node with 'gpus: 0' has no type of GPU");
    if (r == 0)
        r = optional(file, &keys[N_SOCKETS], NODE_GPUS_MAX, &group.sockets, err);
    if (r == 0)
        r = optional(file, &keys[N_GROUPS], NODE_GPUS_MAX, &group.groups, err);
    if (r == 0)
        r = optional(file, &keys[N_CPUS], CPUS_MAX, &group.cpus, err);
    if (r == 0 && keys[N_CPU_JOBS].value)
        r = yaml_i64(&file->doc, keys[N_CPU_JOBS].value, 0, CPUS_MAX, &group.cpu_jobs, err);
    if (r == 0 && group.cpu_jobs > group.cpus)
        r = yaml_fail(&file->doc, keys[N_CPU_JOBS].value, err,
                      "cpu_jobs: %lld CPUs for jobs without GPUs, of %lld that the node has", (long long)group.cpu_jobs,
                      (long long)group.cpus);
    if (r == 0 && keys[N_MEMORY].value)
        r = yaml_mib(&file->doc, keys[N_MEMORY].value, NODE_MEMORY_MIB_MAX, &group.memory_mib, err);
    if (r == 0 && keys[N_APART].value && !yaml_flag(keys[N_APART].value, &group.apart))
        r = yaml_fail(&file->doc, keys[N_APART].value, err, "apart: expected true or false");
    if (r == 0 && !group.bare)
        r = keys[N_SKU].value ? cluster_yaml_sku(file, keys[N_SKU].value, &group.sku, err)
                              : sku_default(file, map, &group.sku, err);
    if (r == 0)
        *ret_group = group;
    return r;
}

/* One group of nodes, or a list of groups, into one rack. */
static int nodes_read(struct file_cluster *file, yaml_node_t *node, uint32_t rack, uint32_t domain, struct error *err)
{
    struct node_group group;
    yaml_node_t *item = node;
    int r = 0;

    if (node->type == YAML_MAPPING_NODE) {
        r = group_read(file, node, &group, err);
        return r < 0
                   ? r
                   : cluster_yaml_built(file, node, cluster_build_nodes(&file->build, &group, rack, domain, err), err);
    }
    if (node->type != YAML_SEQUENCE_NODE || !yaml_item(&file->doc, node, 0, &item))
        return yaml_fail(&file->doc, node, err, "nodes: expected a mapping or a list of mappings");
    for (size_t i = 0; r == 0 && yaml_item(&file->doc, node, i, &item); i++) {
        r = group_read(file, item, &group, err);
        if (r == 0)
            r = cluster_yaml_built(file, item, cluster_build_nodes(&file->build, &group, rack, domain, err), err);
    }
    return r;
}

static int domain_find(struct file_cluster *file, const yaml_node_t *node, uint32_t *ret_domain, struct error *err)
{
    const char *name = ""; /* racks that name none share one */
    int r = node ? yaml_name(&file->doc, node, "domain", &name, err) : 0;

    if (r == 0 && names_put(&file->domains, name, strlen(name), ret_domain) < 0)
        r = error_set(err, -ENOMEM, "%s: out of memory", file->doc.file);
    return r;
}

static int rack_name_check(struct file_cluster *file, const struct yaml_key *keys, int64_t count, struct error *err)
{
    const char *name;
    uint32_t index, known = (uint32_t)file->racks.count;
    int r;

    if (!keys[RACK_NAME].value)
        return 0;
    r = yaml_name(&file->doc, keys[RACK_NAME].value, "name", &name, err);
    if (r < 0)
        return r;
    if (count > 1)
        return yaml_fail(&file->doc, keys[RACK_NAME].node, err, "'name' is for one rack, 'count' makes %lld",
                         (long long)count);
    if (names_put(&file->racks, name, strlen(name), &index) < 0)
        return error_set(err, -ENOMEM, "%s: out of memory", file->doc.file);
    if (index < known)
        return yaml_fail(&file->doc, keys[RACK_NAME].value, err, "two racks are called '%.80s'", name);
    return 0;
}

static int rack_read(struct file_cluster *file, yaml_node_t *map, struct error *err)
{
    struct yaml_key keys[RACK_KEYS] = {
        [RACK_NAME] = { .name = "name" },
        [RACK_DOMAIN] = { .name = "domain" },
        [RACK_COUNT_KEY] = { .name = "count" },
        [RACK_NODES] = { .name = "nodes", .required = true },
    };
    int64_t count = 1;
    uint32_t domain = 0;
    int r = yaml_keys(&file->doc, map, keys, RACK_KEYS, err);

    if (r == 0)
        r = optional(file, &keys[RACK_COUNT_KEY], COUNT_MAX, &count, err);
    if (r == 0)
        r = rack_name_check(file, keys, count, err);
    if (r == 0)
        r = domain_find(file, keys[RACK_DOMAIN].value, &domain, err);
    for (int64_t i = 0; r == 0 && i < count; i++)
        r = nodes_read(file, keys[RACK_NODES].value, file->rack++, domain, err);
    return r;
}

static int racks_read(struct file_cluster *file, yaml_node_t *list, struct error *err)
{
    yaml_node_t *item;
    int r = 0;

    if (list->type != YAML_SEQUENCE_NODE || !yaml_item(&file->doc, list, 0, &item))
        return yaml_fail(&file->doc, list, err, "racks: expected a list of racks");
    for (size_t i = 0; r == 0 && yaml_item(&file->doc, list, i, &item); i++)
        r = rack_read(file, item, err);
    return r;
}

static int license_put(void *arg, const char *name, uint32_t count)
{
    struct cluster_spec *spec = arg;

    spec->licenses[spec->license_count].count = count;
    return names_put(&spec->names, name, strlen(name), &spec->licenses[spec->license_count++].name);
}

static int cluster_read(struct file_cluster *file, struct cluster_spec *ret_spec, struct error *err)
{
    struct yaml_key keys[TOP_COUNT] = {
        [TOP_SKUS] = { .name = "skus" },
        [TOP_RACKS] = { .name = "racks" },
        [TOP_NODES] = { .name = "nodes" },
        [TOP_VCS] = { .name = "vcs" },
        [TOP_LICENSES] = { .name = "licenses" },
        [TOP_PHYSICAL] = { .name = "physicalCluster" },
        [TOP_VIRTUAL] = { .name = "virtualClusters" },
    };
    yaml_node_t *top = yaml_top(&file->doc);
    int r = yaml_keys(&file->doc, top, keys, TOP_COUNT, err);

    if (r == 0 && keys[TOP_SKUS].value)
        r = skus_read(file, keys[TOP_SKUS].value, err);
    if (r == 0 && !keys[TOP_RACKS].value == !keys[TOP_NODES].value)
        r = yaml_fail(&file->doc, keys[TOP_NODES].node ? keys[TOP_NODES].node : top, err,
                      "expected either 'racks' or 'nodes'");
    if (r == 0 && keys[TOP_RACKS].value)
        r = racks_read(file, keys[TOP_RACKS].value, err);
    if (r == 0 && keys[TOP_NODES].value)
        r = nodes_read(file, keys[TOP_NODES].value, file->rack++, 0, err);
    if (r == 0 && keys[TOP_VCS].value)
        r = cluster_yaml_vcs(file, keys[TOP_VCS].value, err);
    if (r == 0 && keys[TOP_LICENSES].value)
        r = licenses_read_yaml(&file->doc, keys[TOP_LICENSES].value, license_put, &file->build.spec, err);
    if (r == 0)
        r = cluster_yaml_built(file, keys[TOP_VCS].node ? keys[TOP_VCS].node : top,
                               cluster_build_take(&file->build, ret_spec, err), err);
    if (r == 0 && keys[TOP_PHYSICAL].value)
        r = cluster_hived_cells(file, keys[TOP_PHYSICAL].value, keys[TOP_VCS].value != NULL, ret_spec, err);
    return r < 0 ? r : cluster_yaml_settle(file, ret_spec, err);
}

/* Told apart by a key that only one of the two has. A file that describes its nodes itself may have HiveD's cells too.
 */
static bool is_hived(struct yaml_doc *doc)
{
    yaml_node_t *top = yaml_top(doc), *key, *value;
    bool cells = false, nodes = false;

    for (size_t i = 0; top->type == YAML_MAPPING_NODE && yaml_pair(doc, top, i, &key, &value); i++) {
        const char *name = key->type == YAML_SCALAR_NODE ? (const char *)key->data.scalar.value : "";

        cells |= strcmp(name, "physicalCluster") == 0 || strcmp(name, "virtualClusters") == 0;
        nodes |= strcmp(name, "racks") == 0 || strcmp(name, "nodes") == 0;
    }
    return cells && !nodes;
}

bool cluster_is_hived(const char *file, const struct bytes *bytes)
{
    struct yaml_doc doc;
    bool hived = true; /* what cannot be read at all is told as such by either reader */

    if (yaml_open(file, bytes, &doc, NULL) == 0) {
        hived = is_hived(&doc);
        yaml_close(&doc);
    }
    return hived;
}

int cluster_read_yaml(const char *file_name, const struct bytes *bytes, struct cluster_spec *ret_spec,
                      struct error *err)
{
    struct file_cluster file = { 0 };
    int r = yaml_open(file_name, bytes, &file.doc, err);

    if (r < 0)
        return r;
    if (is_hived(&file.doc)) {
        yaml_close(&file.doc);
        return cluster_read_hived(file_name, bytes, ret_spec, err);
    }
    r = cluster_read(&file, ret_spec, err);
    yaml_close(&file.doc);
    cluster_build_done(&file.build);
    names_done(&file.racks);
    names_done(&file.domains);
    mem_free(file.places);
    mem_free(file.percents);
    return r;
}
