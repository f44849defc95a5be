/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_build.c - see cluster_build.h. */
#include "wire/cluster/cluster_build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void cluster_build_done(struct cluster_build *build)
{
    cluster_spec_done(&build->spec);
    names_done(&build->node_names);
    names_done(&build->prefixes);
    mem_free(build->prefix_used);
    mem_free(build->bare);
    *build = (struct cluster_build){ 0 };
}

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

int cluster_build_sku(struct cluster_build *build, const char *name, uint16_t *ret_sku, struct error *err)
{
    struct cluster_spec *spec = &build->spec;
    uint32_t text;

    if (names_put(&spec->names, name, strlen(name), &text) < 0)
        return no_memory(err);
    for (uint32_t i = 0; i < spec->sku_count; i++) {
        if (spec->skus[i].name == text) {
            *ret_sku = (uint16_t)i;
            return 0;
        }
    }
    if (spec->sku_count == SKUS_MAX)
        return error_set(err, -E2BIG, "more than %d GPU types", SKUS_MAX);
    spec->skus[spec->sku_count].name = text;
    *ret_sku = (uint16_t)spec->sku_count++;
    return 0;
}

static int group_check(const struct cluster_build *build, const struct node_group *group, struct error *err)
{
    if (group->bare && group->cpus < 1)
        return error_set(err, -EINVAL, "a node without GPUs is there for its CPUs: 'cpus' is missing");
    if (group->bare && build->spec.bare_count + (size_t)group->count > NODES_MAX)
        return error_set(err, -E2BIG, "more than %zu nodes", NODES_MAX);
    if (group->bare)
        return 0;
    if (group->gpus < 1 || group->gpus > NODE_GPUS_MAX)
        return error_set(err, -EINVAL, "a node has 1 to %d GPUs, not %lld", NODE_GPUS_MAX, (long long)group->gpus);
    if (group->gpus % group->sockets)
        return error_set(err, -EINVAL, "%lld GPUs cannot be shared evenly by %lld sockets", (long long)group->gpus,
                         (long long)group->sockets);
    if (group->gpus / group->sockets % group->groups)
        return error_set(err, -EINVAL, "%lld GPUs of a socket cannot be shared evenly by %lld groups",
                         (long long)(group->gpus / group->sockets), (long long)group->groups);
    if (build->spec.node_count + (size_t)group->count > NODES_MAX)
        return error_set(err, -E2BIG, "more than %zu nodes", NODES_MAX);
    if (build->gpus + (size_t)(group->count * group->gpus) > CLUSTER_GPUS_MAX)
        return error_set(err, -E2BIG, "more than %zu GPUs", CLUSTER_GPUS_MAX);
    return 0;
}

/* Numbers go on where the last group with the same prefix ended. */
static int prefix_find(struct cluster_build *build, const char *prefix, uint32_t **ret_used, struct error *err)
{
    size_t known = build->prefixes.count;
    uint32_t index;

    if (names_put(&build->prefixes, prefix, strlen(prefix), &index) < 0 ||
        mem_grow((void **)&build->prefix_used, &build->prefix_capacity, build->prefixes.count, NAMES_MAX,
                 sizeof(*build->prefix_used)) < 0)
        return no_memory(err);
    if (index == known)
        build->prefix_used[index] = 0;
    *ret_used = &build->prefix_used[index];
    return 0;
}

static int node_add(struct cluster_build *build, const struct node_spec *node, const char *name, bool part,
                    struct error *err)
{
    struct cluster_spec *spec = &build->spec;
    struct node_spec **list = node->gpus ? &spec->nodes : &build->bare;
    uint32_t *count = node->gpus ? &spec->node_count : &spec->bare_count;
    uint32_t index, known = (uint32_t)build->node_names.count;

    if (strlen(name) > NAME_LENGTH_MAX)
        return error_set(err, -EINVAL, "node '%.40s...': a name has at most %zu bytes", name, NAME_LENGTH_MAX);
    if (names_put(&build->node_names, name, strlen(name), &index) < 0)
        return no_memory(err);
    build->twins |= index < known;
    if (index < known && (!part || node->gpus == 0))
        return error_set(err, -EINVAL, "two nodes are called '%.80s'", name);
    if (mem_grow((void **)list, node->gpus ? &build->node_capacity : &build->bare_capacity, *count + (size_t)1,
                 NODES_MAX, sizeof(*node)) < 0)
        return no_memory(err);
    (*list)[*count] = *node;
    if (names_put(&spec->names, name, strlen(name), &(*list)[*count].name) < 0)
        return no_memory(err);
    (*count)++;
    build->gpus += node->gpus;
    return 0;
}

int cluster_build_nodes(struct cluster_build *build, const struct node_group *group, uint32_t rack, uint32_t domain,
                        struct error *err)
{
    const struct node_spec node = {
        .rack = rack,
        .domain = domain,
        .sku = group->sku,
        .gpus = (uint16_t)group->gpus,
        .sockets = (uint16_t)group->sockets,
        .groups = (uint16_t)group->groups,
        .cpus = (uint32_t)group->cpus,
        .memory_mib = group->memory_mib,
        .apart = group->apart,
        .cpu_jobs = (uint32_t)(group->cpu_jobs >= 0 ? group->cpu_jobs
                               : group->bare        ? group->cpus
                               : group->cpus < 4    ? group->cpus / 2
                                                    : group->cpus / 4),
    };
    uint32_t *used = NULL;
    int r = group_check(build, group, err);

    if (r == 0 && group->name)
        return node_add(build, &node, group->name, group->part, err);
    if (r == 0)
        r = prefix_find(build, group->prefix, &used, err);
    for (int64_t i = 0; r == 0 && i < group->count; i++) {
        char name[NAME_LENGTH_MAX + 16];

        (void)snprintf(name, sizeof(name), "%.*s%u", (int)NAME_LENGTH_MAX, group->prefix, (*used)++);
        r = node_add(build, &node, name, false, err);
    }
    return r;
}

int cluster_build_vc(struct cluster_build *build, const char *name, struct vc_spec **ret_vc, struct error *err)
{
    struct cluster_spec *spec = &build->spec;
    struct vc_spec *vc;

    if (spec->vc_count == VCS_MAX)
        return error_set(err, -E2BIG, "more than %d virtual clusters", VCS_MAX);
    if (mem_grow((void **)&spec->vcs, &build->vc_capacity, spec->vc_count + 1, VCS_MAX, sizeof(*vc)) < 0)
        return no_memory(err);
    vc = &spec->vcs[spec->vc_count];
    *vc = (struct vc_spec){ .policy = NAME_NONE, .borrow_max = -1 };
    if (names_put(&spec->names, name, strlen(name), &vc->name) < 0)
        return no_memory(err);
    spec->vc_count++;
    *ret_vc = vc;
    return 0;
}

struct place {
    uint32_t index; /* of the node, as it came */
    uint32_t rack, domain;
};

static int place_compare(const void *left, const void *right)
{
    const struct place *a = left, *b = right;

    if (a->domain != b->domain)
        return a->domain < b->domain ? -1 : 1;
    if (a->rack != b->rack)
        return a->rack < b->rack ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Domains and racks next to each other, in the order in which they came, numbered without gaps. */
static int nodes_order(struct cluster_spec *spec, const struct node_spec *bare, struct error *err)
{
    struct place *places = mem_zalloc(spec->node_count, sizeof(*places));
    struct node_spec *nodes = mem_zalloc((size_t)spec->node_count + spec->bare_count, sizeof(*nodes));

    if (!places || !nodes) {
        mem_free(places);
        mem_free(nodes);
        return no_memory(err);
    }
    for (uint32_t i = 0; i < spec->node_count; i++)
        places[i] = (struct place){ i, spec->nodes[i].rack, spec->nodes[i].domain };
    qsort(places, spec->node_count, sizeof(*places), place_compare);
    for (uint32_t i = 0; i < spec->node_count; i++) {
        bool new_domain = i == 0 || places[i].domain != places[i - 1].domain;

        spec->domain_count += new_domain;
        spec->rack_count += new_domain || places[i].rack != places[i - 1].rack;
        nodes[i] = spec->nodes[places[i].index];
        nodes[i].domain = spec->domain_count - 1;
        nodes[i].rack = spec->rack_count - 1;
    }
    if (spec->bare_count)
        memcpy(nodes + spec->node_count, bare, spec->bare_count * sizeof(*nodes));
    mem_free(places);
    mem_free(spec->nodes);
    spec->nodes = nodes;
    return 0;
}

/* Nodes that are one machine lead to each other, in a ring. */
static int nodes_twin(struct cluster_spec *spec, struct error *err)
{
    uint32_t *last = mem_zalloc(spec->names.count + 1, sizeof(*last));

    if (!last)
        return no_memory(err);
    for (uint32_t i = 0; i < spec->node_count; i++) {
        struct node_spec *node = &spec->nodes[i];
        struct node_spec *before = last[node->name] ? &spec->nodes[last[node->name] - 1] : NULL;

        if (before) {
            node->twin = before->twin ? before->twin : last[node->name];
            before->twin = i + 1;
        }
        last[node->name] = i + 1;
    }
    mem_free(last);
    return 0;
}

static int quota_settle(struct cluster_build *build, struct error *err)
{
    struct cluster_spec *spec = &build->spec;
    int64_t gpus[SKUS_MAX] = { 0 };
    struct vc_spec *vc;
    int r;

    for (uint32_t i = 0; i < spec->node_count; i++)
        gpus[spec->nodes[i].sku] += spec->nodes[i].gpus;
    if (spec->vc_count == 0) {
        r = cluster_build_vc(build, "default", &vc, err);
        if (r < 0)
            return r;
        for (uint32_t s = 0; s < spec->sku_count; s++)
            vc->quota[s] = (int32_t)gpus[s];
        return 0;
    }
    for (uint32_t s = 0; s < spec->sku_count; s++) {
        int64_t owed = 0;

        for (uint32_t v = 0; v < spec->vc_count; v++)
            owed += spec->vcs[v].quota[s];
        if (owed > gpus[s])
            return error_set(err, -EINVAL, "virtual clusters are owed %lld GPUs of type %s, the cluster has %lld",
                             (long long)owed, names_get(&spec->names, spec->skus[s].name), (long long)gpus[s]);
    }
    return 0;
}

int cluster_build_take(struct cluster_build *build, struct cluster_spec *ret_spec, struct error *err)
{
    int r;

    if (build->spec.node_count == 0)
        return error_set(err, -EINVAL,
                         build->spec.bare_count ? "the cluster has no node with GPUs" : "the cluster has no nodes");
    r = nodes_order(&build->spec, build->bare, err);
    if (r == 0 && build->twins)
        r = nodes_twin(&build->spec, err);
    if (r == 0)
        r = quota_settle(build, err);
    if (r < 0)
        return r;
    *ret_spec = build->spec;
    build->spec = (struct cluster_spec){ 0 };
    return 0;
}
