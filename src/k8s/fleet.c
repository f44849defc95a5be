/* SPDX-License-Identifier: Apache-2.0 */
/* fleet.c - nodes of Kubernetes and virtual clusters as configured, into a core.
 *
 * Nodes are described as a cluster file and read by the reader of those, so that quotas and guarantees mean here what
 * they mean everywhere. What the API server tells anew makes the core anew, with the same jobs in it (core_carry); what
 * cannot be carried is restored from the pods, as after a restart.
 *
 * Pods that are not the core's (other schedulers', or unknown ones) take CPUs and memory from their nodes, and their
 * GPUs are out of order to the core. Constraints on nodes become marks: nodes have a bit for each set of constraints
 * that they meet, jobs name one.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/ledger/host_resources.h"
#include "io/file.h"
#include "io/log.h"
#include "k8s/match.h"
#include "k8s/sched.h"
#include "wire/cluster/cluster.h"
#include "wire/text/json_quick.h"

enum { JOBS_MAX = 1 << 16, MISSING_GPUS = 8, CLUSTER_BYTES_MAX = 1 << 26 };

/* What pods that are not the core's hold of a node. */
struct usage {
    int64_t mcpus, memory;
    uint32_t gpus;              /* of those who do not say which */
    uint64_t devices[256 / 64]; /* of those who do */
};

static const char *label_text(const struct k8s_node *node, const char *key)
{
    const char *text = *key ? json_string_value(json_object_get(node->labels, key)) : NULL;

    return text ? text : "";
}

/* A name of a GPU type, as cluster files take it. */
static const char *type_of(const struct sched *sched, const struct k8s_node *node)
{
    const char *text = label_text(node, sched->conf.type);

    return *text ? text : "gpu";
}

static int compare(const void *x, const void *y, void *arg)
{
    const struct sched *sched = arg;
    const struct k8s_node *a = *(struct k8s_node *const *)x, *b = *(struct k8s_node *const *)y;
    int order = (a->gpus == 0) - (b->gpus == 0);

    if (order == 0)
        order = strcmp(label_text(a, sched->conf.domain), label_text(b, sched->conf.domain));
    if (order == 0)
        order = strcmp(label_text(a, sched->conf.rack), label_text(b, sched->conf.rack));
    return order ? order : strverscmp(a->name, b->name);
}

/* ---- what others use ---- */

static bool in_core(const struct k8s_pod *pod)
{
    return pod->of && pod->of->in_core && pod->of->members[pod->slot].node;
}

static struct usage *usage_of(const struct sched *sched)
{
    struct usage *usage = mem_zalloc(sched->nodes.count + 1, sizeof(*usage));

    for (size_t i = 0; usage && i < sched->nodes.count; i++)
        ((struct k8s_node *)sched->nodes.entries[i].value)->order = (uint32_t)i;
    for (size_t i = 0; usage && i < sched->pods.count; i++) {
        const struct k8s_pod *pod = sched->pods.entries[i].value;
        const struct k8s_node *node = pod->node[0] ? table_get(&sched->nodes, pod->node) : NULL;
        struct usage *to = node ? &usage[node->order] : NULL;

        if (!to || pod_over(pod) || in_core(pod))
            continue;
        to->mcpus += pod->mcpus;
        to->memory += pod->memory;
        if (!pod->placed || !pod_ours(sched, pod))
            to->gpus += pod->gpus;
        for (uint32_t d = 0; pod->placed && pod_ours(sched, pod) && d < pod->device_count; d++)
            if (pod->devices[d] < 256)
                to->devices[pod->devices[d] / 64] |= (uint64_t)1 << pod->devices[d] % 64;
    }
    return usage;
}

/* What the core's own jobs hold there is never described away. */
static struct host_room held_of(const struct sched *sched, const struct k8s_node *node)
{
    const struct ledger *ledger = sched->core ? core_ledger(sched->core) : NULL;
    const struct host *host = ledger && ledger->hosts && node->index != UINT32_MAX ? &ledger->hosts[node->index] : NULL;

    return host ? (struct host_room){ host->used.mcpus + host->leaving.mcpus, host->used.mib + host->leaving.mib }
                : (struct host_room){ 0 };
}

static void room_of(const struct sched *sched, const struct k8s_node *node, const struct usage *usage,
                    int64_t *ret_cpus, int64_t *ret_mib)
{
    struct host_room held = held_of(sched, node);
    int64_t cpus = (node->mcpus - usage->mcpus) / 1000, mib = (node->memory - usage->memory) / (1 << 20);

    if (cpus < (held.mcpus + 999) / 1000)
        cpus = (held.mcpus + 999) / 1000;
    if (mib < held.mib)
        mib = held.mib;
    *ret_cpus = cpus < 1 ? 1 : cpus > 65536 ? 65536 : cpus; /* 0 would mean that nothing is known */
    *ret_mib = mib < 1 ? 1 : mib > (1 << 30) ? 1 << 30 : mib;
}

/* ---- the description ---- */

static json_t *node_json(const struct sched *sched, const struct k8s_node *node, const struct usage *usage)
{
    int64_t cpus, mib, sockets = node->gpus >= 4 && node->gpus % 4 == 0 ? 2 : 1;
    json_t *out;

    room_of(sched, node, usage, &cpus, &mib);
    out = json_pack("{s:s, s:i, s:I, s:I, s:I}", "name", node->name, "gpus", (int)node->gpus, "cpus", cpus, "memory",
                    mib, "cpu_jobs", cpus);
    if (node->gpus) {
        /* Pods of two, or of half a node, get GPUs that lie together. */
        (void)json_object_set_new(out, "sockets", json_integer(sockets));
        (void)json_object_set_new(out, "groups", json_integer(sockets == 2 ? node->gpus / 4 : 1));
        (void)json_object_set_new(out, "sku", json_string(type_of(sched, node)));
    }
    return out;
}

/* GPUs of a type that the virtual clusters are owed together. */
static int64_t owed_of(const struct sched *sched, const char *type, size_t types)
{
    const json_t *vcs = json_object_get(sched->conf.settings, "vcs");
    const char *name;
    json_t *vc;
    int64_t sum = 0;

    json_object_foreach((json_t *)(uintptr_t)vcs, name, vc)
    {
        const json_t *quota = json_object_get(vc, "quota");
        const json_t *owed = json_is_object(quota) ? json_object_get(quota, type) : types == 1 ? quota : NULL;

        if (json_is_integer(owed) && json_integer_value(owed) > 0 && json_integer_value(owed) < 1000000)
            sum += json_integer_value(owed);
    }
    return sum;
}

/* A cluster that has lost nodes owes more than it has. What is missing is described as nodes that are down: whoever is
 * owed it waits for nodes, and everybody else is scheduled. */
static json_t *missing_nodes(const struct sched *sched, const json_t *skus, struct k8s_node *const *nodes, size_t count)
{
    json_t *list = json_array(), *value;
    const char *type;
    char name[NAME_MAX_K8S + 32];

    json_object_foreach((json_t *)(uintptr_t)skus, type, value)
    {
        int64_t missing = owed_of(sched, type, json_object_size(skus));

        for (size_t i = 0; i < count; i++)
            if (nodes[i]->gpus && strcmp(type_of(sched, nodes[i]), type) == 0)
                missing -= nodes[i]->gpus;
        for (int64_t n = 0; missing > 0; n++, missing -= MISSING_GPUS) {
            (void)snprintf(name, sizeof(name), "missing.%lld.%.200s", (long long)n, type);
            (void)json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "name", name, "gpus",
                                                        (json_int_t)(missing < MISSING_GPUS ? missing : MISSING_GPUS),
                                                        "sku", type));
        }
    }
    return list;
}

/* Types that the virtual clusters speak of, and that no node has now. */
static void skus_owed(const struct sched *sched, json_t *skus)
{
    const char *name, *type;
    json_t *vc, *owed;

    json_object_foreach(json_object_get(sched->conf.settings, "vcs"), name, vc)
    {
        json_object_foreach(json_object_get(vc, "quota"), type, owed)
        {
            if (!json_object_get(skus, type))
                (void)json_object_set_new(skus, type, json_object());
        }
    }
}

static json_t *describe(const struct sched *sched, struct k8s_node *const *nodes, size_t count,
                        const struct usage *usage)
{
    json_t *skus = json_object(), *racks = json_array(), *rack = NULL, *missing, *out;
    const struct k8s_node *last = NULL;

    for (uint32_t s = 0; s < sched->cluster.sku_count; s++)
        (void)json_object_set_new(skus, names_get(&sched->cluster.names, sched->cluster.skus[s].name), json_object());
    for (size_t i = 0; i < count; i++) {
        const char *domain = label_text(nodes[i], sched->conf.domain);

        if (nodes[i]->gpus)
            (void)json_object_set_new(skus, type_of(sched, nodes[i]), json_object());
        if (!rack || strcmp(label_text(last, sched->conf.rack), label_text(nodes[i], sched->conf.rack)) != 0 ||
            strcmp(label_text(last, sched->conf.domain), domain) != 0) {
            rack = json_pack("{s:[]}", "nodes");
            if (*domain)
                (void)json_object_set_new(rack, "domain", json_string(domain));
            (void)json_array_append_new(racks, rack);
        }
        last = nodes[i];
        (void)json_array_append_new(json_object_get(rack, "nodes"), node_json(sched, last, &usage[last->order]));
    }
    skus_owed(sched, skus);
    missing = missing_nodes(sched, skus, nodes, count);
    if (json_array_size(missing))
        (void)json_array_append_new(racks, json_pack("{s:O}", "nodes", missing));
    json_decref(missing);
    out = json_pack("{s:o, s:o}", "skus", skus, "racks", racks);
    if (json_object_size(json_object_get(sched->conf.settings, "vcs")))
        (void)json_object_set(out, "vcs", json_object_get(sched->conf.settings, "vcs"));
    return out;
}

/* Nodes without a type keep those that jobs have; a node that is gone stays while it is used. */
static bool node_counts(const struct sched *sched, const struct k8s_node *node)
{
    const struct ledger *ledger = sched->core ? core_ledger(sched->core) : NULL;

    if (!node->gone)
        return true;
    if (!ledger || node->index == UINT32_MAX)
        return false;
    if (node->index >= ledger->topo.node_count)
        return ledger->hosts && ledger->hosts[node->index].first != HOLD_NONE;
    for (uint32_t g = 0; g < ledger->topo.nodes[node->index].gpus; g++)
        if (ledger->gpus[ledger->topo.nodes[node->index].first_gpu + g].shares != SHARE_NONE)
            return true;
    return false;
}

static struct k8s_node **nodes_sorted(const struct sched *sched, size_t *ret_count)
{
    struct k8s_node **nodes = mem_zalloc(sched->nodes.count + 1, sizeof(*nodes));
    size_t count = 0;

    for (size_t i = 0; nodes && i < sched->nodes.count; i++)
        if (node_counts(sched, sched->nodes.entries[i].value))
            nodes[count++] = sched->nodes.entries[i].value;
    if (nodes)
        qsort_r(nodes, count, sizeof(struct k8s_node *), compare, (void *)(uintptr_t)sched);
    *ret_count = count && nodes[0]->gpus ? count : 0; /* a cluster begins with a GPU */
    return nodes;
}

static int read_described(const struct sched *sched, const struct usage *usage, struct cluster_spec *ret,
                          struct error *err)
{
    struct bytes bytes = { 0 };
    size_t count;
    struct k8s_node **nodes = nodes_sorted(sched, &count);
    json_t *text = nodes ? describe(sched, nodes, count, usage) : NULL;
    int r = text ? 0 : error_set(err, -ENOMEM, "no memory for the cluster");

    if (r == 0 && count == 0)
        r = error_set(err, -ENOENT, "no node has GPUs");
    bytes.data = r == 0 ? json_dumps(text, JSON_INDENT(1)) : NULL;
    if (bytes.data) {
        bytes.size = strlen(bytes.data);
        r = cluster_read_yaml("cluster", &bytes, ret, err);
    }
    free(bytes.data); /* jansson's */
    json_decref(text);
    mem_free(nodes);
    return r;
}

/* A file that names the nodes: CPUs and memory are those of Kubernetes' nodes of the same names. */
static int read_file(const struct sched *sched, const struct usage *usage, struct cluster_spec *ret, struct error *err)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    int r = file_read(sched->conf.cluster, CLUSTER_BYTES_MAX, &bytes, err);

    if (r == 0)
        r = cluster_read_yaml(sched->conf.cluster, &bytes, ret, err);
    for (uint32_t n = 0; r == 0 && n < ret->node_count + ret->bare_count; n++) {
        const struct k8s_node *node = table_get(&sched->nodes, names_get(&ret->names, ret->nodes[n].name));
        int64_t cpus, mib;

        if (!node)
            continue;
        room_of(sched, node, &usage[node->order], &cpus, &mib);
        ret->nodes[n].cpus = (uint32_t)cpus;
        ret->nodes[n].cpu_jobs = (uint32_t)cpus;
        ret->nodes[n].memory_mib = (uint32_t)mib;
    }
    return r;
}

/* ---- constraints as marks ---- */

static int64_t extra_have(const struct k8s_node *node, const char *name)
{
    for (uint32_t i = 0; i < node->extra_count; i++)
        if (strcmp(node->extra[i].name, name) == 0)
            return node->extra[i].milli;
    return 0;
}

static int64_t extra_used(const struct sched *sched, const struct k8s_node *node, const char *name)
{
    int64_t used = 0;

    for (size_t i = 0; i < sched->pods.count; i++) {
        const struct k8s_pod *pod = sched->pods.entries[i].value;
        const char *where = pod->node[0] ? pod->node : pod->of ? pod->of->members[pod->slot].node_name : "";

        for (uint32_t e = 0; !pod_over(pod) && strcmp(where, node->name) == 0 && e < pod->extra_count; e++)
            used += strcmp(pod->extra[e].name, name) == 0 ? pod->extra[e].milli : 0;
    }
    return used;
}

static enum match class_match(const struct sched *sched, const struct node_class *class, const struct k8s_node *node)
{
    enum match match = match_node(class->wants, node);

    for (uint32_t e = 0; match == MATCH_FITS && e < class->extra_count; e++)
        if (extra_used(sched, node, class->extra[e].name) + class->extra[e].milli >
            extra_have(node, class->extra[e].name))
            match = MATCH_EXTRA;
    return match;
}

static uint64_t marks_of(const struct sched *sched, const struct k8s_node *node)
{
    uint64_t marks = 0;

    for (uint32_t c = 0; c < CLASSES_MAX; c++)
        if (sched->classes[c].key && class_match(sched, &sched->classes[c], node) == MATCH_FITS)
            marks |= (uint64_t)1 << c;
    return marks;
}

uint32_t fleet_class(struct sched *sched, const struct k8s_pod *pod)
{
    json_t *all = json_object(), *extra = json_object();
    uint32_t unused = CLASSES_MAX, found = CLASSES_MAX;
    char *text;

    (void)json_object_set(all, "wants", pod->wants);
    for (uint32_t e = 0; e < pod->extra_count; e++)
        if (pod->extra[e].milli)
            (void)json_object_set_new(extra, pod->extra[e].name, json_integer(pod->extra[e].milli));
    (void)json_object_set_new(all, "extra", extra);
    text = json_dumps(all, JSON_SORT_KEYS | JSON_COMPACT);
    for (uint32_t c = 0; text && c < CLASSES_MAX && found == CLASSES_MAX; c++) {
        if (sched->classes[c].key && strcmp(sched->classes[c].key, text) == 0)
            found = c;
        else if (unused == CLASSES_MAX && sched->classes[c].jobs == 0)
            unused = c;
    }
    if (found == CLASSES_MAX && unused != CLASSES_MAX && text) {
        struct node_class *class = &sched->classes[unused];

        mem_free(class->key);
        json_decref(class->wants);
        *class = (struct node_class){ .key = mem_strdup(text),
                                      .wants = json_incref(pod->wants),
                                      .extra_count = pod->extra_count };
        memcpy(class->extra, pod->extra, sizeof(class->extra));
        found = class->key ? unused : CLASSES_MAX;
        sched->nodes_dirty = true;
        sched->rebuild_at = 0;
    }
    json_decref(all);
    free(text); /* jansson's */
    return found;
}

void fleet_eligible(const struct sched *sched, const struct k8s_pod *pod, char *text, size_t size)
{
    struct node_class class = { .wants = pod->wants, .extra_count = pod->extra_count };
    uint32_t count[MATCH_COUNT] = { 0 }, closed = 0, small = 0;
    int used;

    memcpy(class.extra, pod->extra, sizeof(class.extra));
    for (size_t i = 0; i < sched->nodes.count; i++) {
        const struct k8s_node *node = sched->nodes.entries[i].value;
        enum match match = class_match(sched, &class, node);

        if (match == MATCH_FITS && (!node->ready || node->closed || node->gone))
            closed++;
        else if (match == MATCH_FITS &&
                 (node->gpus < pod->gpus || node->mcpus < pod->mcpus || node->memory < pod->memory))
            small++;
        else
            count[match]++;
    }
    used = snprintf(text, size, "%u of %zu nodes could have it", count[MATCH_FITS], sched->nodes.count);
    for (int m = MATCH_FITS + 1; m < MATCH_COUNT; m++)
        if (count[m] && used > 0 && (size_t)used < size)
            used += snprintf(text + used, size - (size_t)used, "; %u have %s", count[m], match_text((enum match)m));
    if (small && used > 0 && (size_t)used < size)
        used += snprintf(text + used, size - (size_t)used, "; %u are too small", small);
    if (closed && used > 0 && (size_t)used < size)
        (void)snprintf(text + used, size - (size_t)used, "; %u are not ready or cordoned", closed);
}

bool fleet_extra_fits(const struct sched *sched, const struct workload *workload, char *text, size_t size)
{
    for (uint32_t m = 0; m < workload->member_count; m++) {
        const struct member *member = &workload->members[m];

        for (uint32_t e = 0; member->pod && e < member->pod->extra_count; e++) {
            const struct amount *extra = &member->pod->extra[e];
            const struct k8s_node *node = table_get(&sched->nodes, member->node_name);

            if (node && extra_used(sched, node, extra->name) > extra_have(node, extra->name)) {
                (void)snprintf(text, size, "node %s has not enough of %s for its pods of the gang", node->name,
                               extra->name);
                return false;
            }
        }
    }
    return true;
}

uint32_t fleet_vc(const struct sched *sched, const char *name)
{
    for (uint32_t v = 0; v < sched->cluster.vc_count; v++)
        if (strcmp(names_get(&sched->cluster.names, sched->cluster.vcs[v].name), name) == 0)
            return v;
    return UINT32_MAX;
}

/* ---- into a core ---- */

/* New numbers of the old core's GPUs, and of its nodes without any. */
static uint32_t *map_gpus(const struct sched *sched, const struct cluster_spec *cluster)
{
    const struct topo *old = &core_ledger(sched->core)->topo;
    uint32_t places = old->gpu_count + old->host_count - old->node_count, first = 0;
    uint32_t *map = mem_zalloc((size_t)places + 1, sizeof(*map));

    for (uint32_t g = 0; map && g < places; g++)
        map[g] = UINT32_MAX;
    for (uint32_t n = 0; map && n < cluster->node_count + cluster->bare_count; n++) {
        const struct k8s_node *node = table_get(&sched->nodes, names_get(&cluster->names, cluster->nodes[n].name));
        uint32_t was = node ? node->index : sched->conf.cluster[0] ? n : UINT32_MAX;

        for (uint32_t g = 0; was < old->node_count && g < cluster->nodes[n].gpus && g < old->nodes[was].gpus; g++)
            map[old->nodes[was].first_gpu + g] = first + g;
        if (was != UINT32_MAX && was >= old->node_count && was < old->host_count && cluster->nodes[n].gpus == 0)
            map[old->gpu_count + was - old->node_count] = n;
        first += cluster->nodes[n].gpus;
    }
    return map;
}

static int build(const struct sched *sched, const struct cluster_spec *cluster, const struct policy_setup *policies,
                 struct core **ret, struct error *err)
{
    struct core_config config = { .limits = { .jobs = JOBS_MAX }, .seed = 1, .policies = policies };
    uint32_t *map;
    int r;

    if (!sched->core)
        return core_new(cluster, &config, ret, err);
    map = map_gpus(sched, cluster);
    if (!map)
        return error_set(err, -ENOMEM, "no memory for the cluster");
    r = core_carry(sched->core, cluster, &config, map, ret, err);
    mem_free(map);
    return r;
}

/* From now on the nodes have these numbers. */
static int nodes_number(struct sched *sched)
{
    uint32_t count = sched->cluster.node_count + sched->cluster.bare_count;
    struct k8s_node **by_node = mem_zalloc((size_t)count + 1, sizeof(*by_node));

    if (!by_node)
        return -ENOMEM;
    for (size_t i = 0; i < sched->nodes.count; i++)
        ((struct k8s_node *)sched->nodes.entries[i].value)->index = UINT32_MAX;
    for (uint32_t n = 0; n < count; n++) {
        by_node[n] = table_get(&sched->nodes, names_get(&sched->cluster.names, sched->cluster.nodes[n].name));
        if (by_node[n])
            by_node[n]->index = n;
    }
    mem_free(sched->by_node);
    sched->by_node = by_node;
    sched->by_node_count = count;
    return 0;
}

/* Nodes that are gone, and that nobody is on any more. */
static void nodes_forget(struct sched *sched)
{
    for (size_t i = 0; i < sched->nodes.count;) {
        struct k8s_node *node = sched->nodes.entries[i].value;

        if (node->gone && node->index == UINT32_MAX) {
            (void)table_remove(&sched->nodes, node->name);
            node_done(node);
            mem_free(node);
        } else {
            i++;
        }
    }
}

int fleet_rebuild(struct sched *sched, bool restore, struct error *err)
{
    struct cluster_spec cluster = { 0 };
    struct policy_setup *policies = NULL;
    struct core *core = NULL;
    struct usage *usage = usage_of(sched);
    int r = usage ? 0 : error_set(err, -ENOMEM, "no memory for the cluster");

    if (r == 0)
        r = sched->conf.cluster[0] ? read_file(sched, usage, &cluster, err)
                                   : read_described(sched, usage, &cluster, err);
    for (uint32_t n = 0; r == 0 && n < cluster.node_count + cluster.bare_count; n++) {
        const struct k8s_node *node = table_get(&sched->nodes, names_get(&cluster.names, cluster.nodes[n].name));

        cluster.nodes[n].marks = node ? marks_of(sched, node) : 0;
    }
    if (r == 0)
        r = k8s_conf_policies(&sched->conf, &cluster, &policies, err);
    for (uint32_t v = 0; r == 0 && restore && v < cluster.vc_count; v++)
        policies[v].planner = &planner_restore;
    if (r == 0)
        r = build(sched, &cluster, policies, &core, err);
    mem_free(usage);
    if (r < 0) {
        cluster_spec_done(&cluster);
        mem_free(policies);
        return r;
    }
    core_free(sched->core);
    cluster_spec_done(&sched->cluster);
    mem_free(sched->policies);
    sched->core = core;
    sched->cluster = cluster;
    sched->policies = policies;
    sched->offered = true; /* it is to be planned anew */
    sched->counts.rebuilds++;
    sched->generation++;
    r = nodes_number(sched);
    nodes_forget(sched);
    return r;
}

/* ---- health ---- */

/* GPUs of the node that nobody of the core's is to be given. Those of its own jobs stay theirs. */
static void gpus_health(struct sched *sched, const struct k8s_node *node, const struct usage *usage)
{
    const struct ledger *ledger = core_ledger(sched->core);
    const struct node *in_core = &ledger->topo.nodes[node->index];
    uint32_t missing = usage->gpus + (node->gpus > node->gpus_good ? node->gpus - node->gpus_good : 0);

    for (uint32_t g = in_core->gpus; g-- > 0;) {
        const struct gpu *gpu = &ledger->gpus[in_core->first_gpu + g];
        bool told = usage->devices[g / 64] >> g % 64 & 1, bad;

        if (gpu->shares != SHARE_NONE)
            continue;
        bad = told || missing > 0;
        missing -= !told && missing > 0;
        if (bad != gpu->bad)
            sched_offer(sched, &(struct event){ .kind = EVENT_GPU, .target = in_core->first_gpu + g, .up = !bad });
    }
}

/* Of a machine that is no node of Kubernetes, or not ready, or cordoned, what runs there may end. */
void fleet_health(struct sched *sched)
{
    struct usage *usage = usage_of(sched);
    const struct topo *topo = &core_ledger(sched->core)->topo;

    for (uint32_t n = 0; usage && n < topo->host_count; n++) {
        const struct k8s_node *node = sched->by_node[n];
        bool up = node && node->ready && !node->closed && !node->gone;

        if (topo->nodes[n].up != up)
            sched_offer(sched, &(struct event){ .kind = EVENT_NODE, .target = n, .up = up, .value = !up });
        if (node && n < topo->node_count)
            gpus_health(sched, node, &usage[node->order]);
    }
    mem_free(usage);
}
