/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* policy_play.h - one virtual cluster, one policy, one trace: what the tests of policies share. */
#include <stdio.h>

#include "base/alloc.h"
#include "policy/registry.h"
#include "sim/driver/driver.h"
#include "sim/gen/gen.h"
#include "sim/metrics/metrics.h"
#include "wire/cluster/cluster.h"

struct setting {
    const char *key, *value;
};

/* A run on one virtual cluster. `restart` in seconds. */
struct play {
    const char *cluster, *policy;
    struct setting settings[6];
    int64_t restart;
    uint32_t reload;
    driver_instant_fn on_instant;
    void *arg;
    driver_decision_fn on_decision;
    const svc_t *history;
    size_t history_count;
    int64_t until;                    /* seconds; 0 = to the end */
    const struct policy_setup *setup; /* instead of `policy` and `settings`; NULL = those */
    struct setting world[6];
    uint64_t seed; /* 0 = 1 */
    uint32_t carry;
    bool bars; /* as for a report */
    const struct driver_event *script;
    size_t script_count;
    const uint32_t *skus; /* types each job may run on; NULL = any */
};

static inline struct run_result play(const struct play *p, const struct trace *trace)
{
    struct cluster_spec cluster = { 0 };
    struct run_result result = { 0 };
    struct policy_setup setup;
    struct error err = { 0 };
    struct driver_config config = { .trace = trace,
                                    .cluster = &cluster,
                                    .policies = p->setup ? p->setup : &setup,
                                    .seed = p->seed ? p->seed : 1,
                                    .until = p->until * USEC_SEC,
                                    .reload_every = p->reload,
                                    .carry_every = p->carry,
                                    .keep_series = p->bars,
                                    .script = p->script,
                                    .script_count = p->script_count,
                                    .job_skus = p->skus,
                                    .on_instant = p->on_instant,
                                    .on_instant_arg = p->arg,
                                    .on_decision = p->on_decision,
                                    .on_decision_arg = p->arg };
    uint32_t *vcs = mem_zalloc(trace->count, sizeof(*vcs));
    char restart[32];

    assert_non_null(vcs);
    config.job_vcs = vcs;
    if (!p->setup)
        assert_int_equal(policy_parse(p->policy, &setup, &err), 0);
    for (int i = 0; i < 6 && p->settings[i].key; i++)
        assert_int_equal(policy_set(&setup, p->settings[i].key, p->settings[i].value, &err), 0);
    setup.history = p->history;
    setup.history_count = p->history_count;
    world_config_init(&config.world);
    config.world.seed = config.seed;
    for (int i = 0; i < 6 && p->world[i].key; i++)
        assert_int_equal(world_config_set(&config.world, p->world[i].key, p->world[i].value, &err), 0);
    (void)snprintf(restart, sizeof(restart), "%llds", (long long)p->restart);
    if (p->restart)
        assert_int_equal(world_config_set(&config.world, "restart", restart, &err), 0);
    assert_int_equal(cluster_parse(p->cluster, &cluster, &err), 0);
    if (driver_run(&config, &result, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(metrics_compute(&result), 0);
    mem_free(vcs);
    cluster_spec_done(&cluster);
    result.cluster = NULL; /* it was borrowed */
    return result;
}

static inline void make(const char *shape, struct trace *trace)
{
    struct error err = { 0 };

    memset(trace, 0, sizeof(*trace));
    assert_int_equal(gen_trace(shape, &(struct gen_config){ .seed = 1 }, trace, &err), 0);
}

/* The job may be changed until the next one is added. */
static inline struct trace_job *add_job(struct trace *trace, int64_t submit, int32_t gpus, int64_t run)
{
    struct trace_job job = { .spec = { .id = (int64_t)trace->count,
                                       .submit = submit * USEC_SEC,
                                       .user = NAME_NONE,
                                       .vc = NAME_NONE,
                                       .model = NAME_NONE,
                                       .gpus = gpus,
                                       .share = MGPU_ONE,
                                       .gpus_min = gpus,
                                       .gpus_max = gpus },
                             .truth = { .duration = run * USEC_SEC } };

    assert_int_equal(trace_add(trace, &job), 0);
    return &trace->jobs[trace->count - 1];
}
