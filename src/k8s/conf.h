/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* conf.h - what muster-k8s is told in its file (docs/kubernetes.md):
 *
 *   policy: fifo-skip            the policy of virtual clusters that name none
 *   set: {KEY: VALUE}            its settings
 *   vcs: {...}                   virtual clusters as in a cluster file
 *   cluster: FILE                instead of vcs: a cluster file, or HiveD's configuration, that names the nodes
 *   namespaces: {NS: VC}         whose pods are whose
 *   gpu_resources: [NAME, ...]   resources that count as GPUs
 *   labels: {rack: KEY, domain: KEY, type: KEY}
 */
#include "k8s/objects.h"
#include "model/cluster.h"
#include "policy/compose.h"

struct k8s_conf {
    json_t *settings;                                                              /* owned */
    char rack[NAME_MAX_K8S + 1], domain[NAME_MAX_K8S + 1], type[NAME_MAX_K8S + 1]; /* labels of nodes; "" = none */
    char cluster[4096];                                                            /* a file; "" = none */
    struct gpu_resources gpus;
    struct policy_setup common;
};

/* NULL: all as it is by itself. */
int k8s_conf_read(const char *file, struct k8s_conf *ret_conf, struct error *err);
void k8s_conf_done(struct k8s_conf *conf);

/* Policies of the virtual clusters. -EINVAL: one that moves, suspends or shares GPUs, which pods cannot do. */
int k8s_conf_policies(const struct k8s_conf *conf, const struct cluster_spec *cluster, struct policy_setup **ret_setups,
                      struct error *err);
