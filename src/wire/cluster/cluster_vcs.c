/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/cluster/cluster_vcs.h"

#include <string.h>

#include "base/alloc.h"
#include "wire/cluster/cluster_yaml.h"

/* The types that one virtual cluster is owed something of, if they are told. */
static int skus_take(struct file_cluster *file, yaml_node_t *vc, struct error *err)
{
    yaml_node_t *key, *value, *sku, *gpus;
    uint16_t number;
    int r = 0;

    for (size_t i = 0; r == 0 && vc->type == YAML_MAPPING_NODE && yaml_pair(&file->doc, vc, i, &key, &value); i++) {
        const char *name = key->type == YAML_SCALAR_NODE ? (const char *)key->data.scalar.value : "";

        if (value->type != YAML_MAPPING_NODE || (strcmp(name, "quota") != 0 && strcmp(name, "guarantee") != 0))
            continue;
        for (size_t k = 0; r == 0 && yaml_pair(&file->doc, value, k, &sku, &gpus); k++)
            r = cluster_yaml_sku(file, sku, &number, err);
    }
    return r;
}

int cluster_vcs_read(const struct yaml_doc *doc, yaml_node_t *map, struct cluster_spec *ret_spec, struct error *err)
{
    struct file_cluster file = { .doc = *doc }; /* its nodes are borrowed */
    yaml_node_t *key, *value;
    uint16_t sku;
    int r = yaml_map_check(&file.doc, map, "vcs", err);

    for (size_t i = 0; r == 0 && yaml_pair(&file.doc, map, i, &key, &value); i++)
        r = skus_take(&file, value, err);
    if (r == 0 && file.build.spec.sku_count == 0)
        r = cluster_build_sku(&file.build, "any", &sku, err);
    if (r == 0)
        r = cluster_yaml_vcs(&file, map, err);
    if (r == 0) {
        *ret_spec = file.build.spec;
        file.build.spec = (struct cluster_spec){ 0 };
    }
    cluster_build_done(&file.build);
    mem_free(file.places);
    mem_free(file.percents);
    return r;
}
