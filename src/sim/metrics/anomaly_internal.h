/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* anomaly_internal.h - the files that make up the comparison of a shared cluster with private ones. */
#include "sim/metrics/anomaly.h"

struct anomaly_ask {
    const struct scenario_request *request;
    uint64_t seed;
    const usec_t *alone; /* by job: what it waits alone; -1 = it did not run to its end */
};

int anomaly_replay(const struct cluster_spec *cluster, const struct trace *trace,
                   const struct scenario_request *request, uint64_t seed, struct run_result *ret, struct error *err);
usec_t anomaly_waited(const struct job_result *job);

/* Of all GPUs up to the last submission. */
double anomaly_use(const struct run_result *run, const struct cluster_spec *cluster, const struct trace *trace);

int anomaly_guests(const struct cluster_spec *cluster, const struct trace *trace, const struct anomaly_ask *ask,
                   struct anomaly *a, struct error *err);
