/* SPDX-License-Identifier: Apache-2.0 */
/* scenario.c - see scenario.h. */
#include "sim/scenario.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "policy/compose.h"
#include "sim/history.h"
#include "sim/metrics/metrics.h"
#include "wire/text/decimal.h"
#include "wire/text/suggest.h"

static int unknown_policy(const char *name, struct error *err)
{
    const char *names[64];
    size_t count = 0;
    const char *near;

    while (count < 64 && policy_at(count)) {
        names[count] = policy_at(count)->name;
        count++;
    }
    near = suggest_word(name, strlen(name), names, count);
    return error_set(err, -ENOENT, "no policy '%s'%s%s%s; 'muster sim policies' lists them", name,
                     near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int unknown_key(const struct policy_setup *setup, const char *key, struct error *err)
{
    char keys[256], world[512] = "";

    policy_keys(setup, keys, sizeof(keys));
    for (const struct world_param *p = world_params; p->name; p++) {
        size_t have = strlen(world);

        (void)snprintf(world + have, sizeof(world) - have, "%s%s", have ? ", " : "", p->name);
    }
    return error_set(
        err, -EINVAL,
        "no setting '%s'; the policy has %s; the world %s; the run round, quota, cells, borrow, until, infeasible, "
        "unknown-vc, reload, carry, history",
        key, keys, world);
}

/* Everybody owed everything: the switch that turns capacity queues into one shared queue a virtual cluster. */
static void quotas_off(struct scenario *s)
{
    int32_t all[SKUS_MAX] = { 0 };

    for (uint32_t n = 0; n < s->cluster.node_count; n++)
        all[s->cluster.nodes[n].sku] += s->cluster.nodes[n].gpus;
    for (uint32_t v = 0; v < s->cluster.vc_count; v++)
        memcpy(s->vcs[v].quota, all, sizeof(all));
    s->cluster.cells = NULL; /* nobody is guaranteed anything */
}

/* A setting of the run itself. -ENOENT if it is none. */
static int set_run(struct scenario *s, const char *key, const char *value, struct error *err)
{
    if (strcmp(key, "round") == 0 || strcmp(key, "until") == 0) {
        usec_t span;
        int r = world_parse_span(value, &span, err);

        if (r < 0)
            return error_prefix(err, r, "%s", key);
        *(strcmp(key, "round") == 0 ? &s->driver.round : &s->driver.until) = span;
        return 0;
    }
    if (strcmp(key, "reload") == 0 || strcmp(key, "carry") == 0) {
        int64_t every;

        if (decimal_parse_i64(value, strlen(value), &every) < 0 || every < 0 || every > INT32_MAX)
            return error_set(err, -EINVAL, "%s: expected a number of instants, got '%s'", key, value);
        *(key[0] == 'r' ? &s->driver.reload_every : &s->driver.carry_every) = (uint32_t)every;
        return 0;
    }
    if (strcmp(key, "quota") == 0) {
        if (strcmp(value, "off") == 0)
            quotas_off(s);
        else if (strcmp(value, "on") != 0)
            return error_set(err, -EINVAL, "quota: expected on or off, got '%s'", value);
        return 0;
    }
    if (strcmp(key, "cells") == 0) {
        if (strcmp(value, "off") == 0)
            s->cluster.cells = NULL; /* what is guaranteed is owed in number, not in shape */
        else if (strcmp(value, "on") != 0)
            return error_set(err, -EINVAL, "cells: expected on or off, got '%s'", value);
        return 0;
    }
    if (strcmp(key, "borrow") == 0) {
        if (strcmp(value, "none") != 0 && strcmp(value, "all") != 0)
            return error_set(err, -EINVAL, "borrow: expected none or all, got '%s'", value);
        for (uint32_t v = 0; v < s->cluster.vc_count; v++)
            s->vcs[v].borrow_max = strcmp(value, "none") == 0 ? 0 : -1;
        return 0;
    }
    if (strcmp(key, "infeasible") == 0) {
        if (strcmp(value, "skip") != 0 && strcmp(value, "error") != 0)
            return error_set(err, -EINVAL, "infeasible: expected error or skip, got '%s'", value);
        s->driver.skip_infeasible = strcmp(value, "skip") == 0;
        return 0;
    }
    if (strcmp(key, "history") == 0) {
        int r;

        mem_free(s->history);
        s->history = NULL;
        r = history_read(value, &s->history, &s->history_count, err);
        return r == -ENOENT ? -EINVAL : r; /* there is such a setting, but no such file */
    }
    return -ENOENT;
}

/* What becomes of jobs whose virtual cluster the cluster has not. -ENOENT if it is another setting. */
static int set_unknown_vc(struct scenario *s, const char *key, const char *value, struct error *err)
{
    if (strcmp(key, "unknown-vc") != 0)
        return -ENOENT;
    if (strcmp(value, "spread") != 0 && strcmp(value, "error") != 0)
        return error_set(err, -EINVAL, "unknown-vc: expected error or spread, got '%s'", value);
    s->spreads = strcmp(value, "spread") == 0;
    return 0;
}

static int set_one(struct scenario *s, struct policy_setup *setup, const char *key, const char *value,
                   struct error *err)
{
    int r = strcmp(key, "vc") == 0 ? 0 : policy_set(setup, key, value, err);

    if (r == -ENOENT)
        r = set_run(s, key, value, err);
    if (r == -ENOENT)
        r = set_unknown_vc(s, key, value, err);
    if (r == -ENOENT)
        r = world_config_set(&s->driver.world, key, value, err);
    if (r == -ENOENT)
        r = unknown_key(setup, key, err);
    return r;
}

/* The policy of one virtual cluster: its own with its own settings, or the run's. */
static int setup_vc(struct scenario *s, uint32_t v, const struct policy_setup *common, struct error *err)
{
    const struct vc_spec *vc = &s->vcs[v];
    const char *own = vc->policy == NAME_NONE ? NULL : names_get(&s->cluster.names, vc->policy);
    struct policy_setup known;
    int r;

    if (own && policy_parse(own, &known, NULL) == -ENOENT) {
        r = unknown_policy(own, err);
        r = error_prefix(err, r, "vcs.%s", names_get(&s->cluster.names, vc->name));
    } else {
        r = policy_compose(vc, &s->cluster.names, common, &s->policies[v], err);
    }
    return r < 0 && vc->place ? error_prefix(err, r, "%s", names_get(&s->cluster.names, vc->place - 1)) : r;
}

/* "NAME=POLICY[,KEY=VALUE...]": a virtual cluster's policy, in place of what its file says. */
static int override_vc(struct scenario *s, const char *text, struct error *err)
{
    char copy[256], *save = NULL, *name, *policy;
    uint32_t v = 0;
    int r;

    (void)snprintf(copy, sizeof(copy), "%s", text);
    name = strtok_r(copy, "=", &save);
    policy = strtok_r(NULL, ",", &save);
    if (strlen(text) >= sizeof(copy) || !name || !policy)
        return error_set(err, -EINVAL, "vc: expected NAME=POLICY[,KEY=VALUE...], got '%.80s'", text);
    while (v < s->cluster.vc_count && strcmp(names_get(&s->cluster.names, s->vcs[v].name), name) != 0)
        v++;
    if (v == s->cluster.vc_count)
        return error_set(err, -ENOENT, "vc: the cluster has no virtual cluster '%s'", name);
    r = policy_parse(policy, &s->policies[v], err);
    if (r == -ENOENT)
        return unknown_policy(policy, err);
    for (char *pair; r == 0 && (pair = strtok_r(NULL, ",", &save));) {
        char *equals = strchr(pair, '=');

        if (!equals)
            return error_set(err, -EINVAL, "vc: expected KEY=VALUE, got '%s'", pair);
        *equals = '\0';
        r = policy_set(&s->policies[v], pair, equals + 1, err);
        if (r == -ENOENT)
            r = error_set(err, -EINVAL, "vc: policy '%s' has no setting '%s'", policy, pair);
    }
    return r;
}

/* Hands the history to whoever learns from one. */
static int give_history(struct scenario *s, struct error *err)
{
    bool taken = !s->history;

    for (uint32_t v = 0; v < s->cluster.vc_count; v++) {
        if (!s->policies[v].order->learn)
            continue;
        s->policies[v].history = s->history;
        s->policies[v].history_count = s->history_count;
        taken = true;
    }
    return taken ? 0 : error_set(err, -EINVAL, "history: this policy does not learn from one; gittins does, and las");
}

static const char *job_label(const struct trace *trace, const struct jobspec *spec, char text[32])
{
    if (trace->ids.count && (uint64_t)spec->id < trace->ids.count)
        return names_get(&trace->ids, (uint32_t)spec->id);
    (void)snprintf(text, 32, "%lld", (long long)spec->id);
    return text;
}

/* The virtual cluster a job names; the only one there is, whatever it names. */
static int map_vcs(struct scenario *s, const struct trace *trace, struct error *err)
{
    for (size_t i = 0; i < trace->count && s->cluster.vc_count > 1; i++) {
        const struct jobspec *spec = &trace->jobs[i].spec;
        const char *name = names_get(&trace->vcs, spec->vc);
        uint32_t v = 0;
        char text[32];

        while (v < s->cluster.vc_count && strcmp(names_get(&s->cluster.names, s->vcs[v].name), name) != 0)
            v++;
        if (v == s->cluster.vc_count && s->spreads)
            v = *name ? spec->vc % s->cluster.vc_count : 0;
        if (v == s->cluster.vc_count)
            return trace_fail(trace, i,
                              error_set(err, -ENOENT, "job %s: the cluster has no virtual cluster '%s' [NoSuchVc]",
                                        job_label(trace, spec, text), name),
                              err);
        s->job_vcs[i] = v;
    }
    return 0;
}

/* Types the jobs name, as types of this cluster; names are compared without regard to case. */
static int map_skus(struct scenario *s, const struct trace *trace, struct error *err)
{
    for (uint32_t t = 0; t < trace->skus.count && t < 32; t++)
        for (uint32_t c = 0; c < s->cluster.sku_count; c++)
            if (strcasecmp(names_get(&trace->skus, t), names_get(&s->cluster.names, s->cluster.skus[c].name)) == 0)
                s->type_skus[t] |= 1u << c;
    for (size_t i = 0; i < trace->count; i++) {
        const struct jobspec *spec = &trace->jobs[i].spec;
        uint32_t mask = 0;
        char text[32];

        if (!spec->sku_mask)
            continue;
        for (uint32_t t = 0; t < trace->skus.count && t < 32; t++)
            mask |= spec->sku_mask >> t & 1 ? s->type_skus[t] : 0;
        if (!mask && !s->driver.skip_infeasible)
            return trace_fail(trace, i,
                              error_set(err, -ERANGE, "job %s: no node has a GPU type it asks for [Infeasible.Sku]",
                                        job_label(trace, spec, text)),
                              err);
        /* A bit beyond the cluster's types: nothing it may use, which the core refuses. */
        s->job_skus[i] = mask ? mask : 1u << 31;
    }
    return 0;
}

/* Licences the jobs name, as numbers of this cluster's. */
static int map_licenses(struct scenario *s, const struct trace *trace, struct error *err)
{
    for (uint32_t t = 0; t < trace->licenses.count && t < LICENSES_MAX; t++) {
        const char *name = names_get(&trace->licenses, t);
        uint32_t c = 0;

        while (c < s->cluster.license_count &&
               strcmp(names_get(&s->cluster.names, s->cluster.licenses[c].name), name) != 0)
            c++;
        if (c == s->cluster.license_count && !s->driver.skip_infeasible)
            return error_set(err, -ERANGE,
                             "jobs ask for licence '%s'; the cluster file counts none of that name "
                             "[Infeasible.License]",
                             name);
        s->licenses[t] = (uint8_t)(c < s->cluster.license_count ? c : LICENSES_MAX);
    }
    return 0;
}

static int allocate(struct scenario *s, const struct cluster_spec *cluster, const struct trace *trace,
                    struct error *err)
{
    s->vcs = mem_zalloc(cluster->vc_count, sizeof(*s->vcs));
    s->policies = mem_zalloc(cluster->vc_count, sizeof(*s->policies));
    s->job_vcs = mem_zalloc(trace->count, sizeof(*s->job_vcs));
    s->job_skus = mem_zalloc(trace->count, sizeof(*s->job_skus));
    if (!s->vcs || !s->policies || !s->job_vcs || !s->job_skus)
        return error_set(err, -ENOMEM, "no memory for %zu jobs", trace->count);
    memcpy(s->vcs, cluster->vcs, cluster->vc_count * sizeof(*s->vcs));
    s->cluster.vcs = s->vcs;
    return 0;
}

int scenario_init(struct scenario *s, const struct cluster_spec *cluster, const struct trace *trace,
                  const struct scenario_request *request, struct error *err)
{
    struct policy_setup common;
    int r = policy_parse(request->policy, &common, err);

    *s = (struct scenario){ .cluster = *cluster };
    if (r == -ENOENT)
        return unknown_policy(request->policy, err);
    if (r < 0)
        return r;
    world_config_init(&s->driver.world);
    r = allocate(s, cluster, trace, err);
    for (int turn = 0; turn < 3; turn++)
        for (size_t i = 0; i < request->count && r == 0; i++)
            if (policy_turn(request->settings[i].key) == turn)
                r = set_one(s, &common, request->settings[i].key, request->settings[i].value, err);
    for (uint32_t v = 0; v < cluster->vc_count && r == 0; v++)
        r = setup_vc(s, v, &common, err);
    for (size_t i = 0; i < request->count && r == 0; i++)
        if (strcmp(request->settings[i].key, "vc") == 0)
            r = override_vc(s, request->settings[i].value, err);
    if (r == 0)
        r = give_history(s, err);
    if (r == 0)
        r = map_vcs(s, trace, err);
    if (r == 0)
        r = map_skus(s, trace, err);
    if (r == 0)
        r = map_licenses(s, trace, err);
    if (r < 0) {
        scenario_done(s);
        return r;
    }
    s->driver.trace = trace;
    s->driver.cluster = &s->cluster;
    s->driver.policies = s->policies;
    s->driver.job_vcs = s->job_vcs;
    s->driver.job_skus = s->job_skus;
    s->driver.type_skus = s->type_skus;
    s->driver.licenses = s->licenses;
    return 0;
}

void scenario_done(struct scenario *s)
{
    mem_free(s->vcs);
    mem_free(s->policies);
    mem_free(s->job_vcs);
    mem_free(s->job_skus);
    mem_free(s->history);
    *s = (struct scenario){ 0 };
}

int scenario_run(struct scenario *s, uint64_t seed, struct run_result *ret_result, struct error *err)
{
    int r;

    s->driver.cluster = &s->cluster;
    s->driver.seed = s->driver.world.seed = seed;
    r = driver_run(&s->driver, ret_result, err);
    if (r < 0)
        return r;
    r = metrics_compute(ret_result);
    return r < 0 ? error_set(err, r, "no memory for the metrics") : 0;
}
