/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cluster_build.h - a cluster put together node by node, whatever the source. */
#include <stdbool.h>

#include "base/error.h"
#include "model/cluster.h"

enum { COUNT_MAX = 1 << 20, NODE_MEMORY_MIB_MAX = 1 << 30, CPUS_MAX = 1 << 16 };

/* Equal nodes. */
struct node_group {
    int64_t count;
    const char *prefix; /* names are prefix0, prefix1, ... counted over the whole cluster */
    const char *name;   /* of a single node, instead; or NULL */
    bool part;          /* a machine of that name may be there already: it has several types of GPUs */
    uint16_t sku;
    int64_t gpus, sockets, groups, cpus;
    int64_t cpu_jobs; /* of the CPUs, for jobs without GPUs; -1 = not told: a quarter; without GPUs all */
    bool bare;        /* it has no GPUs, and says so */
    uint32_t memory_mib;
    bool apart;
};

#define NODE_GROUP_INIT                                                                                                \
    {                                                                                                                  \
        .count = 1, .prefix = "n", .sockets = 1, .groups = 1, .cpu_jobs = -1                                           \
    }

struct cluster_build {
    struct cluster_spec spec;
    size_t node_capacity, bare_capacity, vc_capacity, guarantee_capacity, gpus;
    struct node_spec *bare; /* owned; those without GPUs, which go behind the others */
    struct names node_names, prefixes;
    uint32_t *prefix_used; /* by prefix: numbers given */
    size_t prefix_capacity;
    bool twins; /* some machine is several nodes */
};

void cluster_build_done(struct cluster_build *build);

/* The number of the SKU, made if new. The words of an error have no place in them; the caller adds it. */
int cluster_build_sku(struct cluster_build *build, const char *name, uint16_t *ret_sku, struct error *err);

/* Adds the nodes of the group to that rack and domain, both numbered as the caller likes. */
int cluster_build_nodes(struct cluster_build *build, const struct node_group *group, uint32_t rack, uint32_t domain,
                        struct error *err);

/* A new virtual cluster that is owed nothing and may borrow all; valid until the next one. */
int cluster_build_vc(struct cluster_build *build, const char *name, struct vc_spec **ret_vc, struct error *err);

/* Orders the nodes, numbers racks and domains, checks the quotas, makes the default virtual cluster, hands it over. */
int cluster_build_take(struct cluster_build *build, struct cluster_spec *ret_spec, struct error *err);
