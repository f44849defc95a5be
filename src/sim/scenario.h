/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* scenario.h - everything one run needs, from names and `key=value` settings.
 *
 * A setting belongs to the policy (mode, place, ...), to the world (restart, speed, mtbf, ...) or to the run itself
 * (round, quota, until, infeasible, history); one that nobody knows is an error that lists those there are. A virtual
 * cluster that names its own policy has it with its own settings; all others have the run's.
 */
#include "base/cleanup.h"
#include "policy/registry.h"
#include "sim/driver/driver.h"

struct setting {
    const char *key, *value;
};

struct scenario {
    struct driver_config driver;
    struct cluster_spec cluster; /* a copy whose quotas the settings may have changed; shares names and nodes */
    struct vc_spec *vcs;         /* owned; what cluster.vcs points at */
    struct policy_setup *policies;
    uint32_t *job_vcs, *job_skus;
    bool spreads;                   /* jobs of virtual clusters that are not there go to those that are */
    uint32_t type_skus[32];         /* types of the trace, as masks of the cluster's */
    uint8_t licenses[LICENSES_MAX]; /* of the trace, as numbers of the cluster */
    svc_t *history;                 /* owned; what earlier jobs needed, for orderings that learn */
    size_t history_count;
};

/* What is asked for by name. */
struct scenario_request {
    const char *policy;
    const struct setting *settings;
    size_t count;
};

/* Borrows cluster and trace until scenario_done. -EINVAL, -ENOENT (no such policy or virtual cluster), -ENOMEM. */
int scenario_init(struct scenario *scenario, const struct cluster_spec *cluster, const struct trace *trace,
                  const struct scenario_request *request, struct error *err);
void scenario_done(struct scenario *scenario);

/* Runs it and fills the summary. `seed` replaces the one of the settings. */
int scenario_run(struct scenario *scenario, uint64_t seed, struct run_result *ret_result, struct error *err);
