/* SPDX-License-Identifier: Apache-2.0 */
/* anomaly.c - see anomaly.h: the replays, and what came of them. */
#include "sim/metrics/anomaly_internal.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

enum { SETTINGS_MAX = 256 };

/* Waiting is compared to the millisecond: a pass that follows another comes a microsecond later. */
#define SAME (USEC_SEC / 1000)

static const struct setting own_settings[ANOMALY_KINDS][2] = {
    [ANOMALY_QUOTA] = { { "cells", "off" }, { "borrow", "none" } },
    [ANOMALY_CELLS] = { { "cells", "on" }, { "borrow", "none" } },
    [ANOMALY_LENT] = { { "cells", "on" }, { "borrow", "all" } },
};

const char *anomaly_name(enum anomaly_kind kind)
{
    static const char *const names[ANOMALY_KINDS] = { "quota", "cells", "lent" };

    return names[kind];
}

const char *anomaly_words(enum anomaly_kind kind)
{
    static const char *const words[ANOMALY_KINDS] = { "shared, quotas only", "shared, cells",
                                                      "shared, cells, idle ones lent" };

    return words[kind];
}

/* ---- a cluster of one's own ---- */

static bool has_node(const struct cell_spec *cells, uint32_t type)
{
    for (; type != CELL_NONE; type = cells->types[type].child)
        if (cells->types[type].node)
            return true;
    return false;
}

static uint32_t leaves_of(const struct cell_spec *cells, uint32_t type)
{
    uint32_t leaves = 1;

    for (; cells->types[type].child != CELL_NONE; type = cells->types[type].child)
        leaves *= cells->types[type].child_count;
    return leaves;
}

static uint16_t sku_of(const struct cluster_spec *cluster, uint32_t type)
{
    const struct cell_spec *cells = cluster->cells;
    uint16_t sku = 0;

    while (cells->types[type].child != CELL_NONE)
        type = cells->types[type].child;
    while (sku + 1u < cluster->sku_count && strcmp(names_get(&cluster->names, cluster->skus[sku].name),
                                                   names_get(&cells->names, cells->types[type].name)) != 0)
        sku++;
    return sku;
}

/* The machine a cell is, or the part of one: sockets and groups below it as there are levels. */
static struct node_spec node_of(const struct cluster_spec *cluster, uint32_t type)
{
    const struct cell_type *types = cluster->cells->types;
    struct node_spec node = {
        .sku = sku_of(cluster, type), .gpus = (uint16_t)leaves_of(cluster->cells, type), .sockets = 1, .groups = 1
    };
    uint32_t depth = 0;

    for (uint32_t t = type; types[t].child != CELL_NONE; t = types[t].child)
        depth++;
    if (depth >= 3) {
        node.sockets = (uint16_t)types[type].child_count;
        type = types[type].child;
    }
    for (; depth >= 2 && types[types[type].child].child != CELL_NONE; type = types[type].child)
        node.groups = (uint16_t)(node.groups * types[type].child_count);
    return node;
}

/* Nodes of one granted cell; a cell just above nodes is a rack. */
static void nodes_add(const struct cluster_spec *cluster, uint32_t type, struct cluster_spec *own)
{
    const struct cell_type *t = &cluster->cells->types[type];

    if (t->node || !has_node(cluster->cells, type)) {
        own->nodes[own->node_count] = node_of(cluster, type);
        own->nodes[own->node_count].rack = own->rack_count - 1;
        own->nodes[own->node_count++].domain = own->domain_count - 1;
        return;
    }
    own->rack_count += cluster->cells->types[t->child].node;
    for (uint32_t i = 0; i < t->child_count; i++)
        nodes_add(cluster, t->child, own);
}

/* 0: nodes or less, 1: racks, 2: more. */
static uint32_t kind_of(const struct cell_spec *cells, uint32_t type)
{
    uint32_t kind = 0;

    for (; !cells->types[type].node && has_node(cells, type); type = cells->types[type].child)
        kind++;
    return kind < 2 ? kind : 2;
}

static void grants_add(const struct cluster_spec *cluster, uint32_t vc, uint32_t kind, struct cluster_spec *own)
{
    const struct cell_spec *cells = cluster->cells;
    const char *name = names_get(&cluster->names, cluster->vcs[vc].name);

    for (size_t i = 0; i < cells->grant_count; i++) {
        const struct cell_grant *g = &cells->grants[i];
        uint32_t count = g->pin == CELL_NONE ? g->count : 1;

        if (strcmp(names_get(&cells->names, cells->vcs[g->vc]), name) != 0 || kind_of(cells, g->type) != kind)
            continue;
        for (uint32_t k = 0; k < count; k++) {
            if (kind > 0 && own->node_count == 0)
                own->rack_count = 0; /* no loose nodes, so no rack for them */
            own->domain_count += kind == 2 && own->node_count > 0;
            nodes_add(cluster, g->type, own);
        }
    }
}

int anomaly_private(const struct cluster_spec *cluster, uint32_t vc, struct cluster_spec *ret_cluster)
{
    struct cluster_spec own = { .sku_count = cluster->sku_count, .rack_count = 1, .domain_count = 1, .vc_count = 1 };
    int64_t gpus = 0;
    int r = 0;

    for (uint32_t s = 0; s < cluster->sku_count && r == 0; s++) {
        const char *name = names_get(&cluster->names, cluster->skus[s].name);

        gpus += cluster->vcs[vc].quota[s];
        own.skus[s] = cluster->skus[s];
        r = names_put(&own.names, name, strlen(name), &own.skus[s].name);
    }
    own.nodes = mem_zalloc((size_t)gpus + 1, sizeof(*own.nodes));
    own.vcs = mem_zalloc(1, sizeof(*own.vcs));
    if (!own.nodes || !own.vcs || r < 0) {
        cluster_spec_done(&own);
        return -ENOMEM;
    }
    for (uint32_t kind = 0; kind < 3; kind++)
        grants_add(cluster, vc, kind, &own);
    own.vcs[0] = cluster->vcs[vc];
    own.vcs[0].borrow_max = 0;
    r = names_put(&own.names, "own", 3, &own.vcs[0].name);
    if (r == 0 && cluster->vcs[vc].policy != NAME_NONE) {
        const char *policy = names_get(&cluster->names, cluster->vcs[vc].policy);

        r = names_put(&own.names, policy, strlen(policy), &own.vcs[0].policy);
    }
    for (uint32_t i = 0; r == 0 && i < own.vcs[0].param_count; i++) {
        const struct param_text *p = &cluster->vcs[vc].params[i];
        const char *key = names_get(&cluster->names, p->key), *value = names_get(&cluster->names, p->value);

        r = names_put(&own.names, key, strlen(key), &own.vcs[0].params[i].key);
        if (r == 0)
            r = names_put(&own.names, value, strlen(value), &own.vcs[0].params[i].value);
    }
    for (uint32_t n = 0; n < own.node_count; n++)
        own.nodes[n].name = own.vcs[0].name;
    if (r < 0) {
        cluster_spec_done(&own);
        return r;
    }
    *ret_cluster = own;
    return 0;
}

/* ---- replays ---- */

int anomaly_replay(const struct cluster_spec *cluster, const struct trace *trace,
                   const struct scenario_request *request, uint64_t seed, struct run_result *ret, struct error *err)
{
    struct scenario scenario;
    int r = scenario_init(&scenario, cluster, trace, request, err);

    if (r < 0)
        return r;
    scenario.driver.keep_series = true;
    r = scenario_run(&scenario, seed, ret, err);
    ret->cluster = cluster;
    scenario_done(&scenario);
    return r;
}

usec_t anomaly_waited(const struct job_result *job)
{
    usec_t sum = 0;

    for (int i = 0; i < REASON_COUNT; i++)
        sum += job->waited[i];
    return sum;
}

/* GPU-seconds held up to an instant. */
static double held_until(const struct run_result *run, usec_t end)
{
    double held = 0;

    for (size_t i = 0; i < run->timeline.count; i++) {
        usec_t from = run->timeline.start + (usec_t)i * run->timeline.width;

        if (from + run->timeline.width <= end)
            held += run->timeline.bins[i].held;
        else if (from < end)
            held += run->timeline.bins[i].held * (double)(end - from) / (double)run->timeline.width;
    }
    return held / (double)MGPU_ONE / (double)USEC_SEC;
}

double anomaly_use(const struct run_result *run, const struct cluster_spec *cluster, const struct trace *trace)
{
    usec_t end = trace->jobs[trace->count - 1].spec.submit;
    double span = (double)(end - trace->jobs[0].spec.submit) / (double)USEC_SEC, gpus = 0;

    for (uint32_t n = 0; n < cluster->node_count; n++)
        gpus += cluster->nodes[n].gpus;
    return span > 0 ? held_until(run, end) / gpus / span : 0;
}

/* GPUs in use while somebody waits, of all there are. */
static double use_while_waiting(const struct run_result *run)
{
    double held = 0, total = 0;

    for (size_t i = 0; i < run->timeline.count; i++) {
        const struct timebin *bin = &run->timeline.bins[i];

        if (bin->waiting_min == 0)
            continue;
        held += bin->held;
        total += bin->total;
    }
    return total > 0 ? held / total : (double)NAN;
}

struct private_run {
    const struct scenario_request *request;
    uint64_t seed;
    usec_t *waits;   /* by job of the whole trace; -1 = it did not run to its end */
    uint32_t *stops; /* the same: how often it was stopped */
    usec_t end;
    double held;
};

static uint32_t vc_of(const struct cluster_spec *cluster, const struct trace *trace, const struct jobspec *spec)
{
    const char *name = names_get(&trace->vcs, spec->vc);

    for (uint32_t v = 0; v < cluster->vc_count; v++)
        if (strcmp(names_get(&cluster->names, cluster->vcs[v].name), name) == 0)
            return v;
    return cluster->vc_count;
}

/* Replays the jobs of one virtual cluster on what it is guaranteed. Names are shared with the whole trace. */
static int replay_alone(const struct cluster_spec *cluster, const struct trace *trace, uint32_t vc,
                        struct private_run *all, struct error *err)
{
    struct trace part = *trace;
    struct cluster_spec own = { 0 };
    struct run_result result = { 0 };
    int r = anomaly_private(cluster, vc, &own);

    part.jobs = mem_zalloc(trace->count, sizeof(*part.jobs));
    part.count = 0;
    if (r < 0 || !part.jobs) {
        mem_free(part.jobs);
        return error_set(err, -ENOMEM, "no memory for %zu jobs", trace->count);
    }
    for (size_t i = 0; i < trace->count; i++)
        if (vc_of(cluster, trace, &trace->jobs[i].spec) == vc)
            part.jobs[part.count++] = trace->jobs[i];
    if (part.count && own.node_count)
        r = anomaly_replay(&own, &part, all->request, all->seed, &result, err);
    for (size_t i = 0, k = 0; r == 0 && result.jobs && i < trace->count; i++)
        if (vc_of(cluster, trace, &trace->jobs[i].spec) == vc) {
            all->waits[i] = result.jobs[k].outcome == OUTCOME_DONE ? anomaly_waited(&result.jobs[k]) : -1;
            all->stops[i] = result.jobs[k].preemptions;
            k++;
        }
    if (r == 0)
        all->held += held_until(&result, all->end);
    run_result_done(&result);
    cluster_spec_done(&own);
    mem_free(part.jobs);
    return r;
}

static void row_add(struct anomaly_row *row, const struct anomaly *a, size_t job, const struct private_run *private)
{
    usec_t alone = private->waits[job];

    row->jobs++;
    row->alone += (double)alone / (double)USEC_SEC;
    for (int k = 0; k < ANOMALY_KINDS; k++) {
        usec_t wait = anomaly_waited(&a->runs[k].jobs[job]);
        double more = (double)(wait - alone) / (double)USEC_SEC;

        row->kinds[k].wait += (double)wait / (double)USEC_SEC;
        if (wait <= alone + SAME)
            continue;
        row->kinds[k].longer++;
        row->kinds[k].stopped += a->runs[k].jobs[job].preemptions > private->stops[job];
        row->kinds[k].excess += more;
        if (more > row->kinds[k].worst)
            row->kinds[k].worst = more;
    }
}

/* Jobs that ran to their end everywhere are compared. */
static void compare(struct anomaly *a, const struct cluster_spec *cluster, const struct trace *trace,
                    const struct private_run *alone)
{
    for (size_t i = 0; i < trace->count; i++) {
        uint32_t vc = vc_of(cluster, trace, &trace->jobs[i].spec);
        bool all = alone->waits[i] >= 0 && vc < cluster->vc_count;

        for (int k = 0; k < ANOMALY_KINDS; k++)
            all = all && a->runs[k].jobs[i].outcome == OUTCOME_DONE;
        if (!all)
            continue;
        row_add(&a->rows[vc], a, i, alone);
        row_add(&a->rows[a->count], a, i, alone);
    }
    for (uint32_t v = 0; v < cluster->vc_count; v++)
        for (uint32_t s = 0; s < cluster->sku_count; s++) {
            a->rows[v].gpus += (uint64_t)cluster->vcs[v].quota[s];
            a->rows[a->count].gpus += (uint64_t)cluster->vcs[v].quota[s];
        }
}

static int run_kinds(struct anomaly *a, const struct cluster_spec *cluster, const struct trace *trace,
                     const struct scenario_request *request, uint64_t seed, struct error *err)
{
    struct setting settings[SETTINGS_MAX + 2];
    int r = 0;

    if (request->count > SETTINGS_MAX)
        return error_set(err, -EINVAL, "more than %d settings", SETTINGS_MAX);
    memcpy(settings, request->settings, request->count * sizeof(*settings));
    for (int k = 0; r == 0 && k < ANOMALY_KINDS; k++) {
        struct scenario_request one = { request->policy, settings, request->count + 2 };

        memcpy(settings + request->count, own_settings[k], sizeof(own_settings[k]));
        r = anomaly_replay(cluster, trace, &one, seed, &a->runs[k], err);
        if (r < 0)
            r = error_prefix(err, r, "%s", anomaly_words((enum anomaly_kind)k));
    }
    return r;
}

/* With cells, and nobody borrows but opportunistic jobs. */
static int run_guests(struct anomaly *a, const struct cluster_spec *cluster, const struct trace *trace,
                      const struct anomaly_ask *ask, struct error *err)
{
    struct setting settings[SETTINGS_MAX + 2];
    struct scenario_request one = { ask->request->policy, settings, ask->request->count + 2 };

    a->with_guests = true;
    memcpy(settings, ask->request->settings, ask->request->count * sizeof(*settings));
    memcpy(settings + ask->request->count, own_settings[ANOMALY_CELLS], sizeof(own_settings[ANOMALY_CELLS]));
    return anomaly_guests(cluster, trace, &(struct anomaly_ask){ &one, ask->seed, ask->alone }, a, err);
}

static void use_compute(struct anomaly *a, const struct cluster_spec *cluster, const struct trace *trace,
                        const struct private_run *alone)
{
    double span = (double)(alone->end - trace->jobs[0].spec.submit) / (double)USEC_SEC, gpus = 0;

    for (uint32_t n = 0; n < cluster->node_count; n++)
        gpus += cluster->nodes[n].gpus;
    if (span <= 0)
        return;
    a->use_alone = alone->held / gpus / span;
    for (int k = 0; k < ANOMALY_KINDS; k++) {
        a->use[k] = held_until(&a->runs[k], alone->end) / gpus / span;
        a->use_waiting[k] = use_while_waiting(&a->runs[k]);
    }
}

int anomaly_run(const struct cluster_spec *cluster, const struct trace *trace, const struct scenario_request *request,
                uint64_t seed, struct anomaly *ret_anomaly, struct error *err)
{
    struct anomaly a = { .count = cluster->vc_count };
    struct private_run alone = { .request = request, .seed = seed };
    int r;

    if (!cluster->cells)
        return error_set(err, -EINVAL, "the cluster guarantees no cells; 'guarantee' of a virtual cluster does");
    if (trace->count == 0)
        return error_set(err, -EINVAL, "the trace is empty");
    a.rows = mem_zalloc(a.count + 1, sizeof(*a.rows));
    alone.waits = mem_zalloc(trace->count, sizeof(*alone.waits));
    alone.stops = mem_zalloc(trace->count, sizeof(*alone.stops));
    alone.end = trace->jobs[trace->count - 1].spec.submit;
    r = a.rows && alone.waits && alone.stops ? 0 : error_set(err, -ENOMEM, "no memory for %zu jobs", trace->count);
    for (size_t i = 0; r == 0 && i < trace->count; i++)
        alone.waits[i] = -1;
    for (uint32_t v = 0; r == 0 && v < cluster->vc_count; v++)
        r = replay_alone(cluster, trace, v, &alone, err);
    if (r == 0)
        r = run_kinds(&a, cluster, trace, request, seed, err);
    if (r == 0 && ret_anomaly->with_guests)
        r = run_guests(&a, cluster, trace, &(struct anomaly_ask){ request, seed, alone.waits }, err);
    if (r == 0) {
        compare(&a, cluster, trace, &alone);
        use_compute(&a, cluster, trace, &alone);
        *ret_anomaly = a;
    } else {
        anomaly_done(&a);
    }
    mem_free(alone.waits);
    mem_free(alone.stops);
    return r;
}

void anomaly_done(struct anomaly *a)
{
    for (int k = 0; k < ANOMALY_KINDS; k++)
        run_result_done(&a->runs[k]);
    mem_free(a->rows);
    *a = (struct anomaly){ 0 };
}
