/* SPDX-License-Identifier: Apache-2.0 */
/* submission_bind.c - what a submission asks of this cluster. What no state of the cluster could ever grant is refused
 * here, with the nearest request that could be granted. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "wire/job/gpu_spec.h"
#include "wire/job/license.h"
#include "wire/job/roles.h"
#include "wire/job/submission.h"
#include "wire/job/submission_internal.h"
#include "wire/job/topology.h"

struct fit {
    const struct submission *s;
    const struct cluster_spec *cluster;
    uint32_t mask;                /* types it may run on */
    int32_t node_gpus;            /* of the largest node of these types */
    int64_t gpus;                 /* of all nodes of these types */
    int32_t rack_gpus;            /* of the largest rack */
    uint32_t node_cpus, node_mib; /* of the largest; 0 = not told */
    bool one_size;                /* all these nodes have as many GPUs */
    int64_t per_node;             /* asked of each node; 0 = free */
    uint32_t part;                /* of a gang on several types */
    struct infeasible *why;
    struct error *err;
};

/* -ERANGE, with the reason code and what would do instead. */
static int never(const struct fit *fit, const char *code, const char *hint, const char *words, ...)
    __attribute__((format(printf, 4, 5)));

static int never(const struct fit *fit, const char *code, const char *hint, const char *words, ...)
{
    char text[320];
    va_list args;

    va_start(args, words);
    (void)vsnprintf(text, sizeof(text), words, args);
    va_end(args);
    if (fit->why) {
        (void)snprintf(fit->why->code, sizeof(fit->why->code), "%s", code);
        (void)snprintf(fit->why->hint, sizeof(fit->why->hint), "%s", hint);
    }
    return error_set(fit->err, -ERANGE, "%s", text);
}

static int invalid(const struct fit *fit, const char *hint, const char *words)
{
    if (fit->why) {
        (void)snprintf(fit->why->code, sizeof(fit->why->code), "InvalidSpec");
        (void)snprintf(fit->why->hint, sizeof(fit->why->hint), "%s", hint);
    }
    return error_set(fit->err, -EINVAL, "%s", words);
}

static const char *type_name(const struct fit *fit)
{
    return fit->s->gpu_selector ? fit->s->gpu_selector : "GPUs";
}

/* "H100:8" of a count. */
static const char *gpus_text(const struct fit *fit, int64_t count, char text[GPU_SELECTOR_MAX + 32])
{
    (void)snprintf(text, GPU_SELECTOR_MAX + 32, "%s%s%lld", fit->s->gpu_selector ? fit->s->gpu_selector : "",
                   fit->s->gpu_selector ? ":" : "", (long long)count);
    return text;
}

static int types_find(struct fit *fit)
{
    const struct cluster_spec *cluster = fit->cluster;
    char known[200] = "", hint[240];

    if (cluster->node_count == 0)
        return never(fit, "Infeasible.NodeSize", "wait until a node has joined: muster nodes",
                     "the cluster has no nodes yet");
    fit->mask = gpu_selector_mask(fit->s->gpu_selector, cluster);
    if (fit->mask)
        return 0;
    for (uint32_t i = 0; i < cluster->sku_count; i++)
        (void)snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", i ? ", " : "",
                       names_get(&cluster->names, cluster->skus[i].name));
    (void)snprintf(hint, sizeof(hint), "this cluster has %s", known);
    return never(fit, "Infeasible.Sku", hint, "no node has GPUs of type '%s'", fit->s->gpu_selector);
}

/* Nodes that it may be on end before this one: those without GPUs too, if it asks for none and for no type of them. */
static uint32_t hosts_end(const struct fit *fit)
{
    bool bare = fit->s->no_gpus && !fit->s->gpu_selector;

    return fit->cluster->node_count + (bare ? fit->cluster->bare_count : 0);
}

static void sizes_find(struct fit *fit)
{
    const struct cluster_spec *cluster = fit->cluster;
    uint32_t rack = UINT32_MAX;
    int32_t in_rack = 0;

    fit->one_size = true;
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        const struct node_spec *node = &cluster->nodes[i];

        if (!(fit->mask >> node->sku & 1))
            continue;
        if (node->rack != rack) {
            rack = node->rack;
            in_rack = 0;
        }
        in_rack += node->gpus;
        fit->rack_gpus = in_rack > fit->rack_gpus ? in_rack : fit->rack_gpus;
        fit->one_size = fit->one_size && (fit->node_gpus == 0 || fit->node_gpus == node->gpus);
        fit->node_gpus = node->gpus > fit->node_gpus ? node->gpus : fit->node_gpus;
        fit->node_cpus = node->cpus > fit->node_cpus ? node->cpus : fit->node_cpus;
        fit->node_mib = node->memory_mib > fit->node_mib ? node->memory_mib : fit->node_mib;
        fit->gpus += node->gpus;
    }
    for (uint32_t i = cluster->node_count; i < hosts_end(fit); i++) {
        const struct node_spec *node = &cluster->nodes[i];

        fit->node_cpus = node->cpus > fit->node_cpus ? node->cpus : fit->node_cpus;
        fit->node_mib = node->memory_mib > fit->node_mib ? node->memory_mib : fit->node_mib;
    }
}

/* What is written down, understood, and not there to be had. */
static int unsupported(const struct fit *fit)
{
    const struct submission *s = fit->s;

    if (s->topo_level && topology_find(s->topo_level, strlen(s->topo_level)) == WITHIN_ANY)
        return invalid(fit, TOPOLOGY_WORDS, "topology: no such level");
    return 0;
}

/* On one node, or not at all: as if one node had been asked for. */
static bool whole_node(const struct submission *s)
{
    return s->topo_must && s->topo_level && topology_find(s->topo_level, strlen(s->topo_level)) == WITHIN_NODE;
}

/* GPUs of a cell of that level on this node. */
static uint32_t cell_gpus(const struct node_spec *node, uint8_t level)
{
    if (level == WITHIN_NODE)
        return node->gpus;
    return level == WITHIN_SOCKET ? node->gpus / node->sockets : (uint32_t)node->gpus / node->sockets / node->groups;
}

/* Whole cells: what that comes to in GPUs is the cluster's to say, if it is the same everywhere. */
static int cells_find(struct fit *fit, struct jobspec *spec)
{
    uint16_t count = 0;
    uint32_t size = 0;

    if (cells_parse(fit->s->cells, strlen(fit->s->cells), &spec->unit, &count) < 0)
        return invalid(fit, "such as socket:2", "cells: expected LEVEL:COUNT");
    for (uint32_t n = 0; n < fit->cluster->node_count; n++) {
        const struct node_spec *node = &fit->cluster->nodes[n];

        if (!(fit->mask >> node->sku & 1))
            continue;
        if (size && size != cell_gpus(node, spec->unit))
            return invalid(fit, "name the type of GPU", "cells: nodes differ in how many GPUs such a part has");
        size = cell_gpus(node, spec->unit);
    }
    if ((int64_t)size * count > GANG_GPUS_MAX)
        return invalid(fit, "ask for fewer", "cells: too many GPUs");
    spec->per_unit = (uint16_t)size;
    spec->share = MGPU_ONE;
    spec->gpus = spec->gpus_min = spec->gpus_max = (int32_t)(size * count);
    return 0;
}

/* CPUs and memory that it is to have on a node, and with each GPU there. The agent fences what it has on a node. */
static void host_find(const struct fit *fit, struct jobspec *spec)
{
    const struct submission *s = fit->s;
    int64_t here = fit->per_node ? fit->per_node : spec->gpus < fit->node_gpus ? spec->gpus : fit->node_gpus;
    int64_t tasks = s->tasks_per_node      ? s->tasks_per_node
                    : s->tasks && s->nodes ? (s->tasks + s->nodes - 1) / s->nodes
                                           : 1;
    int64_t cpus = s->cpus ? s->cpus : (int64_t)s->cpus_per_task * tasks;
    uint64_t mib = s->memory ? s->memory >> 20 : (s->memory_per_gpu >> 20) * (uint64_t)here;

    if (spec->gpus == 0 || here < 1)
        here = 1;
    spec->mcpus = (uint32_t)((cpus * 1000 + here - 1) / here);
    mib = (mib + (uint64_t)here - 1) / (uint64_t)here;
    spec->host_mib = mib > UINT32_MAX ? UINT32_MAX : (uint32_t)mib;
}

/* A job without GPUs: a task on each of its nodes. */
static int tasks_bind(struct fit *fit, struct jobspec *spec)
{
    int64_t nodes = 0;
    char hint[128];

    host_find(fit, spec);
    spec->tasks = fit->s->nodes ? fit->s->nodes : 1;
    spec->share = MGPU_ONE;
    spec->per_node = 1;
    for (uint32_t n = 0; n < hosts_end(fit); n++) {
        const struct node_spec *node = &fit->cluster->nodes[n];
        bool typed = n >= fit->cluster->node_count || (fit->mask >> node->sku & 1);
        uint64_t mib = node->cpus ? (uint64_t)node->memory_mib * node->cpu_jobs / node->cpus : 0;

        nodes += typed && spec->mcpus <= node->cpu_jobs * 1000 && (node->memory_mib == 0 || spec->host_mib <= mib);
    }
    if (spec->tasks <= nodes)
        return 0;
    (void)snprintf(hint, sizeof(hint), "ask for fewer CPUs or less memory, or set cpu_jobs of the nodes");
    return never(fit, "Infeasible.NodeSize", hint,
                 "%lld nodes take jobs without GPUs of %u CPUs and %uM of memory; %d were asked for", (long long)nodes,
                 spec->mcpus / 1000, spec->host_mib, spec->tasks);
}

/* GPUs of the whole job and, where the number of nodes is told, of each node. */
static int shape_find(struct fit *fit, struct jobspec *spec)
{
    const struct submission *s = fit->s;
    int32_t nodes = s->nodes, nodes_max = s->nodes ? s->nodes_max : 0;
    int64_t gpus = s->gpus ? s->gpus : 1, gpus_max = s->gpus ? s->gpus_max : 1;
    bool per_node = s->gpus_per_node || s->gpus == 0;
    char words[160];

    if (s->cells)
        return cells_find(fit, spec);
    if (nodes == 0 && (s->gpus_per_node || (whole_node(s) && s->gpu_share == MGPU_ONE)))
        nodes = nodes_max = 1;
    if (s->exclusive) {
        if (!fit->one_size)
            return invalid(fit, "name the type of GPU: its nodes are all alike", "exclusive: nodes differ in size");
        if (nodes == 0)
            nodes = nodes_max = (int32_t)((gpus + fit->node_gpus - 1) / (fit->node_gpus ? fit->node_gpus : 1));
        gpus = gpus_max = fit->node_gpus;
        per_node = true;
    }
    spec->share = s->exclusive ? MGPU_ONE : s->gpu_share;
    if (nodes && nodes_max > nodes && !per_node) {
        nodes = nodes_max = 0; /* a fixed number of GPUs on as many nodes as it takes */
    } else if (nodes && !per_node) {
        if (gpus % nodes || gpus_max % nodes) {
            (void)snprintf(words, sizeof(words), "%lld GPUs cannot be shared out evenly to %d nodes",
                           (long long)(gpus % nodes ? gpus : gpus_max), nodes);
            return invalid(fit, "leave the number of nodes out, or ask for GPUs of each node", words);
        }
        gpus /= nodes;
        gpus_max /= nodes;
        per_node = true;
    }
    if (nodes && gpus_max > gpus && nodes_max > nodes)
        return invalid(fit, "give a range for one of them", "the number of nodes and their GPUs cannot both be ranges");
    fit->per_node = nodes && gpus == gpus_max && spec->share == MGPU_ONE ? gpus : 0;
    gpus *= nodes && per_node ? nodes : 1;
    gpus_max *= nodes && per_node ? nodes_max : 1;
    if (gpus_max > GANG_GPUS_MAX) {
        (void)snprintf(words, sizeof(words), "a job has at most %d GPUs", GANG_GPUS_MAX);
        return invalid(fit, "ask for fewer", words);
    }
    spec->gpus = spec->gpus_min = (int32_t)gpus; /* a rigid policy starts it with the least */
    spec->gpus_max = (int32_t)gpus_max;
    return 0;
}

/* Groups that are parallel within the model divide the gang. */
static int parallel_check(const struct fit *fit, const struct jobspec *spec)
{
    int64_t tensor = spec->tp ? spec->tp : 1, pipeline = spec->pp ? spec->pp : 1;
    char words[128];

    if (spec->gpus % (tensor * pipeline) == 0)
        return 0;
    (void)snprintf(words, sizeof(words), "%d GPUs are no multiple of %lld tensor-parallel ranks x %lld stages",
                   spec->gpus, (long long)tensor, (long long)pipeline);
    return invalid(fit, "ask for a multiple of parallel.tensor x parallel.pipeline GPUs", words);
}

static int node_check(const struct fit *fit, const struct jobspec *spec)
{
    const struct submission *s = fit->s;
    char hint[256], text[GPU_SELECTOR_MAX + 32];
    uint64_t memory = s->memory;

    if (fit->per_node > fit->node_gpus) {
        int32_t nodes = (spec->gpus + fit->node_gpus - 1) / (fit->node_gpus ? fit->node_gpus : 1);

        (void)snprintf(hint, sizeof(hint), "use -N%d --gpus-per-node=%s", nodes,
                       gpus_text(fit, (spec->gpus + nodes - 1) / nodes, text));
        return never(fit, "Infeasible.NodeSize", hint, "no node has %lld %s; the largest has %d",
                     (long long)fit->per_node, type_name(fit), fit->node_gpus);
    }
    if (fit->node_cpus && s->cpus > (int64_t)fit->node_cpus) {
        (void)snprintf(hint, sizeof(hint), "ask for at most %u CPUs a node", fit->node_cpus);
        return never(fit, "Infeasible.NodeSize", hint, "no node has %d CPUs; the largest has %u", s->cpus,
                     fit->node_cpus);
    }
    if (s->memory_per_gpu && fit->per_node)
        memory = s->memory_per_gpu * (uint64_t)fit->per_node;
    if (fit->node_mib && memory >> 20 > fit->node_mib) {
        /* In GiB where they still differ: people ask in those. */
        bool large = fit->node_mib >= 10240 && memory >> 30 > fit->node_mib >> 10;
        const char *unit = large ? "G" : "M";
        uint32_t most = large ? fit->node_mib >> 10 : fit->node_mib;

        (void)snprintf(hint, sizeof(hint), "ask for at most %u%s a node", most, unit);
        return never(fit, "Infeasible.NodeSize", hint, "no node has %llu%s of memory; the largest has %u%s",
                     (unsigned long long)(large ? memory >> 30 : memory >> 20), unit, most, unit);
    }
    return 0;
}

static int cluster_check(const struct fit *fit, const struct jobspec *spec)
{
    const struct cluster_spec *cluster = fit->cluster;
    char hint[256], text[GPU_SELECTOR_MAX + 32];
    int64_t fits = fit->gpus;

    if (fit->per_node) { /* whole nodes of that size */
        fits = 0;
        for (uint32_t i = 0; i < cluster->node_count; i++)
            if (fit->mask >> cluster->nodes[i].sku & 1)
                fits += cluster->nodes[i].gpus / fit->per_node * fit->per_node;
    }
    if (spec->gpus_min <= fits)
        return 0;
    (void)snprintf(hint, sizeof(hint), "use -G %s or fewer%s", gpus_text(fit, fit->gpus, text),
                   fits < fit->gpus ? ", and leave the number of nodes out" : "");
    return never(fit, fit->per_node && spec->gpus_min <= fit->gpus ? "Infeasible.NodeSize" : "Infeasible.Sku", hint,
                 "the cluster has %lld %s in all%s; %d were asked for", (long long)fits, type_name(fit),
                 fit->per_node ? " in that shape" : "", spec->gpus_min);
}

static int quota_check(const struct fit *fit, const struct jobspec *spec)
{
    const struct cluster_spec *cluster = fit->cluster;
    const char *vc = fit->s->vc;
    int64_t most = 0;
    char hint[256], known[160] = "";
    uint32_t i = 0;

    if (!vc)
        return 0;
    while (i < cluster->vc_count && strcmp(names_get(&cluster->names, cluster->vcs[i].name), vc) != 0)
        i++;
    if (i == cluster->vc_count) {
        for (i = 0; i < cluster->vc_count; i++)
            (void)snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", i ? ", " : "",
                           names_get(&cluster->names, cluster->vcs[i].name));
        (void)snprintf(hint, sizeof(hint), "there are: %s", known);
        return never(fit, "NoSuchVc", hint, "no virtual cluster '%s'", vc);
    }
    if (cluster->vcs[i].borrow_max < 0 || spec->klass == CLASS_OPPORTUNISTIC)
        return 0;
    for (uint32_t k = 0; k < cluster->sku_count; k++)
        if (fit->mask >> k & 1)
            most += cluster->vcs[i].quota[k];
    most += cluster->vcs[i].borrow_max;
    if (spec->gpus_min <= most)
        return 0;
    (void)snprintf(hint, sizeof(hint), "ask for at most %lld, or -q oppo", (long long)most);
    return never(fit, "Infeasible.Quota", hint,
                 "vc %s may hold %lld %s at most, borrowed ones included; %d were asked for", vc, (long long)most,
                 type_name(fit), spec->gpus_min);
}

/* What keeps it from being preempted. Opportunistic jobs use what others are owed, who have it back at once. */
static int terms_bind(const struct fit *fit, struct jobspec *spec)
{
    const struct submission *s = fit->s;

    spec->retries = s->retries;
    spec->no_requeue = !s->requeue;
    spec->retry_on_count = (uint8_t)s->retry_on_count;
    for (size_t i = 0; i < s->retry_on_count; i++)
        spec->retry_on[i] = (uint8_t)s->retry_on[i];
    spec->preempt = (uint8_t)s->preempt;
    spec->min_runtime = s->min_runtime;
    if (spec->klass != CLASS_OPPORTUNISTIC || jobspec_keeps(spec) == 0)
        return 0;
    return never(fit, "NotAllowed", "leave it out, or submit it with another priority than oppo",
                 "an opportunistic job is preempted as soon as others are owed its GPUs; it cannot have %s",
                 spec->preempt == PREEMPT_NEVER ? "preempt: never" : "min_runtime");
}

/* Licences by number, ascending: what is not counted cannot be had, nor more than there are. */
static int licenses_bind(const struct fit *fit, struct jobspec *spec)
{
    CLEANUP_BUF struct buf known = BUF_INIT(200);
    const struct submission *s = fit->s;
    uint64_t wanted[LICENSES_MAX] = { 0 };
    char hint[256];

    license_list(fit->cluster, &known);
    if (known.size)
        (void)snprintf(hint, sizeof(hint), "there are: %.*s%s", (int)known.size, known.data,
                       known.error ? ", ..." : "");
    else
        (void)snprintf(hint, sizeof(hint), "the configuration counts none: licenses: {NAME: COUNT}");
    for (size_t i = 0; i < s->license_count; i++) {
        uint32_t number = license_find(fit->cluster, s->licenses[i].key), count = license_count(s, i);

        if (number == LICENSES_MAX || fit->cluster->licenses[number].count == 0)
            return never(fit, "Infeasible.License", hint, "no licence '%s' is counted in this cluster",
                         s->licenses[i].key);
        if (count > fit->cluster->licenses[number].count)
            return never(fit, "Infeasible.License", hint, "there are %u licences '%s'; %u were asked for",
                         fit->cluster->licenses[number].count, s->licenses[i].key, count);
        wanted[number] = count;
    }
    for (uint32_t i = 0; i < LICENSES_MAX; i++)
        if (wanted[i])
            spec->licenses[spec->license_count++] = (struct license_need){ (uint32_t)wanted[i], (uint8_t)i };
    return 0;
}

/* Nodes with so many GPUs of the types it may have. */
static int64_t nodes_with(void *arg, int32_t gpus)
{
    const struct fit *fit = arg;
    int64_t count = 0;

    for (uint32_t i = 0; i < fit->cluster->node_count; i++)
        count += (fit->mask >> fit->cluster->nodes[i].sku & 1) && fit->cluster->nodes[i].gpus >= gpus;
    return count;
}

/* A job of several roles is bound as the gang of like nodes that it comes to. */
static int roles_bind(struct fit *fit, struct submission *flat)
{
    int r = roles_flatten(fit->s, fit->part, fit->node_gpus, nodes_with, fit, flat);

    if (r == -ERANGE)
        return never(fit, "Infeasible.NodeSize",
                     "give tasks with GPUs the same number each, or numbers of tasks that fill like nodes",
                     "the %u GPUs of its roles do not fill nodes of this cluster evenly",
                     roles_part_gpus(fit->s, fit->part));
    return r < 0 ? error_set(fit->err, r, "no memory for roles") : 0;
}

/* Types and nodes that the job, or a part of it, may have. */
static int fit_find(struct fit *fit)
{
    int r = types_find(fit);

    if (r < 0)
        return r;
    sizes_find(fit);
    if (fit->node_gpus < 1)
        return never(fit, "Infeasible.Sku", "muster gpus tells what there is", "no node has %s", type_name(fit));
    return 0;
}

/* GPUs, nodes, CPUs and memory, as far as this cluster could ever give them. */
static int size_bind(struct fit *fit, struct jobspec *spec)
{
    int r = shape_find(fit, spec);

    if (r == 0)
        r = parallel_check(fit, spec);
    if (r == 0)
        r = node_check(fit, spec);
    if (r == 0)
        r = cluster_check(fit, spec);
    if (r == 0)
        r = quota_check(fit, spec);
    if (r == 0) {
        spec->per_node = (uint16_t)fit->per_node; /* at most the GPUs of a node */
        host_find(fit, spec);
    }
    return r;
}

/* One part of a gang on several types, beside what was bound of it so far. */
static int side_bind(const struct submission *s, const struct fit *first, uint32_t part, struct jobspec *spec)
{
    struct fit fit = { .cluster = first->cluster, .why = first->why, .err = first->err, .part = part };
    struct jobspec alone = { .klass = spec->klass };
    struct submission typed = *s, flat;
    uint32_t taken = spec->sku_mask;
    int r;

    typed.gpu_selector = roles_part_type(s, part);
    fit.s = &typed;
    r = fit_find(&fit);
    for (uint32_t i = 0; i < spec->side_count; i++)
        taken |= spec->sides[i].sku_mask;
    if (r == 0 && (fit.mask & taken))
        return invalid(&fit, "name one type for each", "roles on several types of GPU have no type in common");
    fit.s = s;
    if (r == 0)
        r = roles_bind(&fit, &flat);
    if (r < 0)
        return r;
    flat.gpu_selector = typed.gpu_selector;
    fit.s = &flat;
    r = size_bind(&fit, &alone);
    if (r == 0)
        spec->sides[spec->side_count++] = (struct gang_side){ .gpus = alone.gpus,
                                                              .sku_mask = fit.mask,
                                                              .mcpus = alone.mcpus,
                                                              .host_mib = alone.host_mib,
                                                              .per_node = alone.per_node };
    return r;
}

/* The other parts of a gang on several types. `s` has the roles. */
static int sides_bind(const struct submission *s, const struct fit *first, struct jobspec *spec)
{
    uint32_t parts = s->role_count ? roles_parts(s) : 1;
    int r = 0;

    if (parts > 1 && (s->topo_level || s->exclusive || s->tensor > 1 || s->pipeline > 1))
        return invalid(first, "leave topology, exclusive and parallel out",
                       "roles on several types of GPU have whole GPUs anywhere");
    for (uint32_t part = 1; part < parts && r == 0; part++)
        r = side_bind(s, first, part, spec);
    return r;
}

int submission_bind(const struct submission *s, const struct cluster_spec *cluster, struct jobspec *ret_spec,
                    struct infeasible *why, struct error *err)
{
    struct fit fit = { .s = s, .cluster = cluster, .why = why, .err = err };
    struct jobspec spec = { .user = NAME_NONE, .vc = NAME_NONE, .model = NAME_NONE };
    const struct submission *whole = s;
    struct submission flat;
    int r;

    if (why)
        *why = (struct infeasible){ 0 };
    r = unsupported(&fit);
    if (r == 0)
        r = fit_find(&fit);
    if (r < 0)
        return r;
    if (s->role_count) {
        r = roles_bind(&fit, &flat);
        if (r < 0)
            return r;
        fit.s = s = &flat;
    }
    spec.sku_mask = s->gpu_selector ? fit.mask : 0;
    spec.time_limit = spec.estimate = s->time;
    spec.priority = (int16_t)s->priority;
    spec.klass = (uint8_t)(s->priority < 0 ? CLASS_OPPORTUNISTIC : CLASS_GUARANTEED);
    spec.tier = (uint8_t)s->tier;
    spec.tp = (uint16_t)s->tensor;
    spec.pp = (uint16_t)s->pipeline;
    /* Nodes have no device proxy that would share a GPU among ranks unseen: a job that bears it says so. */
    spec.splice_max = (uint16_t)(s->splice ? s->splice : 1);
    if (s->deadline) {
        spec.deadlines[0] = (struct deadline){ s->deadline, 10 };
        spec.deadline_count = 1;
    }
    training_bind(s, &spec);
    r = terms_bind(&fit, &spec);
    if (r == 0)
        r = licenses_bind(&fit, &spec);
    if (r < 0)
        return r;
    if (s->no_gpus) {
        r = tasks_bind(&fit, &spec);
        if (r == 0)
            r = quota_check(&fit, &spec);
        if (r == 0)
            *ret_spec = spec;
        return r;
    }
    if (s->topo_level && !whole_node(s)) {
        spec.within = topology_find(s->topo_level, strlen(s->topo_level));
        spec.within_must = s->topo_must;
    }
    r = size_bind(&fit, &spec);
    if (r == 0)
        r = sides_bind(whole, &fit, &spec);
    if (r == 0)
        *ret_spec = spec;
    return r;
}
