/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* objects.h - what the scheduler needs of Kubernetes' objects, decoded from JSON within limits.
 *
 * Objects come from the API server, but their texts were written by users: lengths and counts are checked, and what
 * does not decode is refused with words.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/units.h"

enum {
    NAME_MAX_K8S = 253,
    EXTRA_MAX = 8,       /* extended resources that a pod asks for */
    NODE_EXTRA_MAX = 16, /* and that a node has */
    DEVICES_MAX = 64,    /* of one pod */
};

/* Names of resources that count as GPUs; the first that a node or a pod has. */
#define GPU_RESOURCES_MAX 4
struct gpu_resources {
    char name[GPU_RESOURCES_MAX][NAME_MAX_K8S + 1];
    uint32_t count;
};

struct amount {
    char name[NAME_MAX_K8S + 1];
    int64_t milli;
};

enum pod_phase { POD_PENDING, POD_RUNNING, POD_SUCCEEDED, POD_FAILED, POD_UNKNOWN };

/* Which mark names the gang; the first that is there. */
enum gang_mark {
    GANG_NONE,       /* the pod alone */
    GANG_SCHEDULING, /* spec.schedulingGroup */
    GANG_COSCHED,    /* label scheduling.x-k8s.io/pod-group */
    GANG_VOLCANO,    /* annotation scheduling.k8s.io/group-name */
    GANG_KUEUE,      /* label kueue.x-k8s.io/pod-group-name */
    GANG_HIVED,      /* annotation of HiveD */
    GANG_JOBSET,     /* label jobset.sigs.k8s.io/jobset-name */
    GANG_JOB,        /* its owner, an indexed Job */
    GANG_MARKS
};
const char *gang_mark_name(enum gang_mark mark);

struct k8s_pod {
    char name[NAME_MAX_K8S + 1], namespace[64], uid[64];
    char node[NAME_MAX_K8S + 1];                            /* "": not bound */
    char scheduler[NAME_MAX_K8S + 1], vc[NAME_MAX_K8S + 1]; /* vc: asked for by the pod, or "" */
    char gang[NAME_MAX_K8S + 1];                            /* name of its gang inside the namespace */
    enum gang_mark mark;
    uint32_t gang_pods; /* that its own marks tell; 0 = not told */
    enum pod_phase phase;
    bool deleting, gated, opportunistic;
    int32_t priority;
    bool priority_hived;            /* it is HiveD's, -1..1000, and no value of a priority class */
    int64_t created, deadline_span; /* microseconds; activeDeadlineSeconds, 0 = none */
    uint32_t gpus;
    int64_t mcpus, memory; /* thousandths of CPUs; bytes */
    uint32_t extra_count;
    struct amount extra[EXTRA_MAX];
    json_t *wants;   /* owned: {nodeSelector, affinity, tolerations}, those that are there */
    json_t *refused; /* owned: a text, why it cannot be scheduled by us; NULL */
    bool placed;     /* its annotation tells its devices: */
    uint32_t device_count;
    uint16_t devices[DEVICES_MAX];
    json_t *plan;               /* owned: where the rest of its gang goes, if it was bound first; NULL */
    bool whole;                 /* its gang was bound whole once */
    bool hived;                 /* it has HiveD's annotation and wants its isolation told */
    char sku[NAME_MAX_K8S + 1]; /* GPU type HiveD's annotation asks for, or "" */
    uint64_t seen;
    char told[40]; /* the reason that it was told, and when */
    usec_t told_at;
    struct workload *of; /* the scheduler's own: what it is part of, and where in that */
    uint32_t slot;
};

struct k8s_node {
    char name[NAME_MAX_K8S + 1];
    bool ready, closed;       /* closed: cordoned */
    bool gone;                /* deleted, and kept while pods are on it */
    uint32_t gpus, gpus_good; /* capacity; allocatable */
    int64_t mcpus, memory;    /* allocatable */
    uint32_t extra_count;
    struct amount extra[NODE_EXTRA_MAX];
    json_t *labels; /* owned */
    json_t *taints; /* owned; may be NULL */
    uint64_t seen;
    uint32_t index; /* in the core; UINT32_MAX: not in it */
    uint32_t order; /* among those that are known, while something is counted */
};

/* All read a whole object as the API server sends it. -EINVAL with words, and then nothing is to be freed. */
int pod_decode(const json_t *object, const struct gpu_resources *gpus, struct k8s_pod *ret_pod, struct error *err);
void pod_done(struct k8s_pod *pod);
int node_decode(const json_t *object, const struct gpu_resources *gpus, struct k8s_node *ret_node, struct error *err);
void node_done(struct k8s_node *node);

/* PodGroup of any of the three kinds: the least number of its pods; 0: they are independent. */
int pod_group_decode(const json_t *object, uint32_t *ret_least, struct error *err);

/* A text at "a/b/c" below the object; "" when it is not there. */
const char *json_at_text(const json_t *object, const char *path);
const json_t *json_at(const json_t *object, const char *path);
