/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* fuzz_cluster.h - what must hold of any cluster that was accepted. */
#include "fuzz.h"
#include "model/cluster.h"

static inline void cluster_check(int r, struct cluster_spec *spec, const struct error *err)
{
    int64_t gpus[SKUS_MAX] = { 0 }, owed[SKUS_MAX] = { 0 };

    if (r < 0) {
        fuzz_check_error(r, err);
        CHECK(!spec->nodes);
        return;
    }
    CHECK(spec->node_count > 0 && spec->node_count <= NODES_MAX);
    CHECK(spec->vc_count > 0 && spec->vc_count <= VCS_MAX);
    CHECK(spec->sku_count > 0 && spec->sku_count <= SKUS_MAX);
    for (uint32_t i = 0; i < spec->node_count; i++) {
        const struct node_spec *node = &spec->nodes[i], *before = i ? node - 1 : node;

        CHECK(node->gpus >= 1 && node->gpus <= NODE_GPUS_MAX && node->sku < spec->sku_count);
        CHECK(node->sockets >= 1 && node->groups >= 1 && node->gpus % (node->sockets * node->groups) == 0);
        CHECK(node->rack - before->rack <= 1 && node->domain - before->domain <= 1);
        CHECK(node->domain == before->domain || node->rack != before->rack);
        CHECK(*names_get(&spec->names, node->name));
        gpus[node->sku] += node->gpus;
    }
    CHECK(spec->nodes[spec->node_count - 1].rack + 1 == spec->rack_count);
    CHECK(spec->nodes[spec->node_count - 1].domain + 1 == spec->domain_count);
    for (uint32_t v = 0; v < spec->vc_count; v++)
        for (uint32_t s = 0; s < SKUS_MAX; s++)
            owed[s] += spec->vcs[v].quota[s];
    for (uint32_t s = 0; s < SKUS_MAX; s++)
        CHECK(owed[s] <= gpus[s]);
    cluster_spec_done(spec);
}
