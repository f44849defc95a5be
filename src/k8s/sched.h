/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* sched.h - pods and nodes on one side, the core on the other.
 *
 * The objects come in through sched_pod(), sched_node() and so on, as they were listed or watched; sched_turn() brings
 * the core up to date, steps it, and carries out what it wants: bindings, evictions, conditions, events. Nothing else
 * is kept than what the API server has, so that a restart rebuilds everything from bound pods and their annotations.
 */
#include "core/core.h"
#include "k8s/client.h"
#include "k8s/conf.h"
#include "k8s/table.h"
#include "k8s/watch.h"

enum {
    CLASSES_MAX = 64, /* different constraints on nodes at a time: marks of the core */
    GANG_PODS_MAX = 1024,
    PODS_MAX = 1 << 20,
    REASON_TEXT_MAX = 512,
};

/* Nodes that some pods may be on, and others not. */
struct node_class {
    char *key; /* owned; NULL: free */
    json_t *wants;
    uint32_t extra_count, jobs; /* jobs of the core that use it */
    struct amount extra[EXTRA_MAX];
};

enum member_state {
    MEMBER_WAITING,
    MEMBER_SENT,  /* its binding is under way */
    MEMBER_ASKED, /* nobody knows whether its binding came through: the pod is read */
    MEMBER_BOUND,
    MEMBER_OVER, /* its pod has ended, or is gone */
};

struct member {
    struct workload *workload;
    struct k8s_pod *pod; /* NULL: gone */
    struct k8s_node *node;
    char node_name[NAME_MAX_K8S + 1];
    enum member_state state;
    bool failed, leaving, flight; /* leaving: its eviction was asked for; flight: an answer is outstanding */
    uint32_t tries, bin;
    usec_t try_at;
    uint16_t gpus, devices[DEVICES_MAX];
};

enum workload_state {
    WORKLOAD_REFUSED, /* not in the core; `text` says why */
    WORKLOAD_QUEUED,
    WORKLOAD_BINDING,
    WORKLOAD_RUNNING,
    WORKLOAD_LEAVING, /* its bound pods are being evicted */
};

/* Pods that are one job of the core: a gang, or one pod. */
struct workload {
    int64_t id;
    uint32_t index; /* in sched.workloads */
    struct gang *gang;
    enum workload_state state;
    bool in_core, evict, cancelled, restored; /* evict: with the Eviction API, that respects budgets; else deleted.
                                                 restored: bound before this process led */
    uint32_t slot, gen, vc, class;            /* class: CLASSES_MAX: none */
    uint32_t chunk, bins, member_count, done;
    struct member *members; /* owned */
    struct jobspec spec;
    usec_t retry_at, since;
    bool ok;       /* none of its pods has failed */
    bool torn;     /* caught half bound, and pods that it lacks are gone: to be undone */
    bool blocked;  /* a budget forbids to evict one of its pods */
    char code[40]; /* reason of a refusal: "NoSuchVc" */
    char text[REASON_TEXT_MAX];
};

/* Pods with one mark. */
struct gang {
    char *key; /* owned */
    char namespace[64], name[NAME_MAX_K8S + 1];
    enum gang_mark mark;
    uint32_t least;        /* 0: not known yet */
    struct workload *main; /* the gang as such */
    struct k8s_pod **pods; /* owned: those that are in no workload yet */
    size_t pod_count, pod_capacity;
    uint32_t workloads;
    bool dirty;
    usec_t hold_until;                    /* a binding failed: not before */
    char code[40], text[REASON_TEXT_MAX]; /* why its pods wait before there is a workload */
};

struct sched_counts {
    uint64_t bound, bind_failed, evicted, undone, steps, patches, events, rebuilds, conflicts;
};

struct sched {
    struct client *client;
    struct k8s_conf conf;
    const char *name, *identity;                           /* spec.schedulerName; of this process */
    struct table nodes, pods, groups, sizes, ranks, gangs; /* groups: PodGroups; sizes: Jobs, JobSets; ranks: classes */
    struct node_class classes[CLASSES_MAX];
    struct workload **workloads; /* owned */
    size_t workload_count, workload_capacity;
    struct workload **by_slot; /* of the core; owned */
    size_t slot_capacity;
    struct cluster_spec cluster;
    struct policy_setup *policies;
    struct core *core;         /* NULL: no nodes yet */
    struct k8s_node **by_node; /* of the core's nodes; owned */
    uint32_t by_node_count;
    bool leading, nodes_dirty, usage_dirty, ranks_dirty, offered;
    int64_t next_id;
    uint64_t generation, sweep;      /* sweep: of the list under way */
    usec_t now, stepped, rebuild_at; /* stepped: the last instant of the core */
    uint32_t flights, tells;         /* bindings and evictions under way; conditions and events */
    size_t tell_at;
    char broken[REASON_TEXT_MAX]; /* why there is no cluster as configured */
    struct sched_counts counts;
};

int sched_init(struct sched *sched, struct client *client, const struct k8s_conf *conf, struct error *err);
void sched_done(struct sched *sched);

/* sched_feed.c: objects as they come */
void sched_pod(void *arg, enum watch_event event, const json_t *object);
void sched_node(void *arg, enum watch_event event, const json_t *object);
void sched_group(void *arg, enum watch_event event, const json_t *object);
void sched_size(void *arg, enum watch_event event, const json_t *object);
void sched_rank(void *arg, enum watch_event event, const json_t *object);
void sched_begin(void *arg);
void sched_pods_synced(void *arg);
void sched_nodes_synced(void *arg);
bool pod_ours(const struct sched *sched, const struct k8s_pod *pod);
bool pod_over(const struct k8s_pod *pod);

/* This process leads from now on: the state is rebuilt. */
int sched_lead(struct sched *sched, struct error *err);
/* Does what is due; returns when to be called again. */
usec_t sched_turn(struct sched *sched, usec_t now);

/* fleet.c: the cluster */
int fleet_rebuild(struct sched *sched, bool restore, struct error *err);
void fleet_health(struct sched *sched);
/* A mark for those constraints; CLASSES_MAX: too many different ones. */
uint32_t fleet_class(struct sched *sched, const struct k8s_pod *pod);
void fleet_eligible(const struct sched *sched, const struct k8s_pod *pod, char *text, size_t size);
uint32_t fleet_vc(const struct sched *sched, const char *name);
bool fleet_extra_fits(const struct sched *sched, const struct workload *workload, char *text, size_t size);

/* gangs.c: pods to workloads */
void gang_add(struct sched *sched, struct k8s_pod *pod);
void gang_remove(struct sched *sched, struct k8s_pod *pod);
void gang_gather(struct sched *sched, struct gang *gang);
struct gang *gang_of(struct sched *sched, const struct k8s_pod *pod);
struct workload *workload_new(struct sched *sched, struct gang *gang, struct k8s_pod *const *pods, size_t count);
void workload_free(struct sched *sched, struct workload *workload);
uint32_t workload_vc(const struct sched *sched, const struct workload *workload);
void workload_cancel(struct sched *sched, struct workload *workload); /* that waits */
void workload_submit(struct sched *sched, struct workload *workload);
void workload_refuse(struct sched *sched, struct workload *workload, const char *code, const char *text);
int32_t priority_rank(const struct sched *sched, const struct k8s_pod *pod);

/* bind.c: what the core wants done */
void effects_apply(struct sched *sched, const struct outbox *out);
void member_pod_changed(struct sched *sched, struct member *member);
void member_pod_gone(struct sched *sched, struct member *member);
usec_t workload_turn(struct sched *sched, struct workload *workload);
void workload_leave(struct sched *sched, struct workload *workload, bool evict);
void sched_offer(struct sched *sched, const struct event *event);

/* restore.c */
extern const struct planner_ops planner_restore;
int restore_workloads(struct sched *sched, struct error *err);

/* why.c */
void why_turn(struct sched *sched);
/* Why the pod waits, in one line; code: "InsufficientGpus". */
void why_pod(const struct sched *sched, const struct k8s_pod *pod, char code[40], char *text, size_t size);
