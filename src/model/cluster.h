/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cluster.h - what a cluster is made of, as files and agents describe it.
 *
 * Plain data: racks hold nodes, nodes hold GPUs of one type (SKU), virtual clusters own a quota of them. The core
 * builds its cell tree from this; wire/ fills it from YAML or from a short string.
 */
#include <stdint.h>

#include "base/names.h"
#include "base/units.h"
#include "model/cell.h"
#include "model/jobspec.h"

enum {
    SKUS_MAX = 16,
    VCS_MAX = 1024,
    NODE_GPUS_MAX = 256,
    PARAMS_MAX = 32,
};
#define NODES_MAX ((size_t)1 << 20)
#define CLUSTER_GPUS_MAX ((size_t)1 << 22)
#define CLUSTER_GUARANTEES_MAX ((size_t)1 << 16)

struct sku_spec {
    uint32_t name;       /* cluster_spec.names */
    uint32_t memory_mib; /* of one GPU; 0 = not told */
};

struct node_spec {
    uint32_t name;
    uint32_t rack;    /* dense, 0.. ; racks are numbered in the order of their nodes */
    uint32_t domain;  /* dense, 0.. ; a rack lies in one domain */
    uint16_t sku;     /* index into skus */
    uint16_t gpus;    /* 1..NODE_GPUS_MAX */
    uint16_t sockets; /* >= 1, divides gpus */
    uint16_t groups;  /* PCIe switches or NVLink groups a socket, >= 1; sockets * groups divides gpus */
    uint32_t cpus;    /* 0 = not told */
    uint32_t memory_mib;
    uint64_t marks;    /* what jobs may ask of nodes, a bit each; who describes the cluster knows what they mean */
    uint8_t kept;      /* only for jobs that say the same number; 0 = for those that say none */
    uint32_t cpu_jobs; /* of its CPUs, those that jobs without GPUs may hold; memory likewise in proportion */
    bool apart;        /* its GPUs are part of nobody's guarantee */
    uint32_t twin;     /* 1 + the next node that is the same machine, the last leads to the first; 0 = it is one node */
};

/* One `key=value`, as written; whoever owns the key checks the value. */
struct param_text {
    uint32_t key, value; /* names */
};

/* What the priority of a job is worth inside its virtual cluster. */
enum vc_priorities {
    PRIORITIES_UNTOLD,  /* strict where guarantees are cells and the policy can, else weights */
    PRIORITIES_WEIGHTS, /* a higher one comes first, and preempts where the policy's own order does */
    PRIORITIES_STRICT,  /* a higher one comes first, and preempts lower ones under every policy that can */
    PRIORITIES_OFF,     /* nothing: the policy's own order alone */
    PRIORITIES_COUNT
};

extern const char *const vc_priorities_names[PRIORITIES_COUNT];

struct vc_spec {
    uint32_t name;
    uint32_t policy;         /* a name, or NAME_NONE: the cluster's default */
    uint32_t place;          /* 1 + a name: where in which file that, or else a setting, is written; 0 = nowhere */
    int32_t quota[SKUS_MAX]; /* whole GPUs of each SKU it is owed */
    int32_t borrow_max;      /* whole GPUs beyond the quota; -1 = as many as are idle */
    int32_t user_max;        /* GPUs that one user may have here at a time; 0 = no limit */
    int32_t cpus;            /* that its jobs without GPUs are owed; more of them run while CPUs are idle */
    usec_t min_runtime;      /* a job is not stopped for another's sake before; 0 = no such promise */
    uint8_t priorities;      /* enum vc_priorities */
    uint32_t param_count;
    struct param_text params[PARAMS_MAX];
};

/* Licences of one kind: counted for the whole cluster, of no node. */
struct license_spec {
    uint32_t name;
    uint32_t count; /* 0: none may be had any more; jobs that hold some keep them */
};

/* What a virtual cluster is guaranteed of one GPU type, in words: "4 nodes", "16 gpus in 4s". */
enum guarantee_unit {
    GUARANTEE_GPUS,
    GUARANTEE_GROUPS,
    GUARANTEE_SOCKETS,
    GUARANTEE_NODES,
    GUARANTEE_RACKS,
    GUARANTEE_DOMAINS,
    GUARANTEE_UNITS
};

struct guarantee {
    uint32_t vc, count;
    uint16_t sku;
    uint16_t together; /* of GPUs: so many in one cell; 0: in the largest cells that make them up */
    uint8_t unit;
};

struct cluster_spec {
    struct names names;
    uint32_t sku_count, node_count, rack_count, domain_count, vc_count;
    struct sku_spec skus[SKUS_MAX];
    struct node_spec *nodes;      /* owned; sorted so that a rack's and a domain's nodes are contiguous */
    uint32_t bare_count;          /* nodes without GPUs, behind those: for jobs without GPUs, in no rack */
    struct vc_spec *vcs;          /* owned; at least one. None in the file: one, "default", owed everything */
    struct guarantee *guarantees; /* owned; in the order of the file. Their GPUs are in the quotas as well */
    uint32_t guarantee_count;
    uint32_t license_count;
    struct license_spec licenses[LICENSES_MAX];
    struct cell_spec *cells; /* owned; the same as cells, when the file gives guarantees or is HiveD's; else NULL */
};

void cluster_spec_done(struct cluster_spec *spec);
