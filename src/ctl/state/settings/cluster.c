/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.c - nodes that have joined and virtual clusters as configured (cluster_describe.c), into a core. GPU types
 * and virtual clusters keep the numbers they once had. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/snapshot/snapshot.h"
#include "ctl/state/settings/cluster_describe.h"
#include "ctl/state/state_internal.h"

/* Types keep their numbers, also when the nodes that have them are gone: the core has them so, and so has its snapshot.
 */
static void skus_keep(struct ctl *ctl)
{
    struct record_list *skus = &ctl->registry.kept.skus;

    record_list_done(skus);
    for (uint32_t s = 0; s < ctl->cluster.sku_count; s++) {
        struct ctl_sku *sku = record_add(skus);

        if (!sku)
            abort(); /* the core has it by its number */
        sku->name = entry_text(names_get(&ctl->cluster.names, ctl->cluster.skus[s].name));
        sku->memory_mib = ctl->cluster.skus[s].memory_mib;
    }
}

/* Guarantees come first: should reservations stand in their way by now (nodes were taken away), those have to wait. */
static int read_cluster(const struct ctl *ctl, const struct setting_value *settings, const struct placed_node *nodes,
                        size_t count, struct cluster_spec *ret, struct error *err)
{
    if (cluster_described(ctl, &(struct picture){ settings, nodes, count, true }, ret, NULL) == 0)
        return 0;
    return cluster_described(ctl, &(struct picture){ settings, nodes, count, false }, ret, err);
}

static int policies_compose(const struct ctl *ctl, const struct setting_value *settings,
                            const struct cluster_spec *cluster, struct policy_setup **ret, struct error *err)
{
    const char *name = setting_text(setting_find(settings, "policy"));
    const struct setting_value *set = setting_find(settings, "set");
    struct policy_setup common, *setups;
    int r = policy_parse(name ? name : ctl->config.policy, &common, err);

    if (r == -ENOENT)
        return error_set(err, -ENOENT, "policy: no policy '%s'; 'muster sim policies' lists them", name);
    if (r < 0)
        return error_prefix(err, r, "policy");
    for (int turn = 0; turn < 3; turn++)
        for (size_t i = 0; i < setting_count(set); i++) {
            const char *key = set->members[i].name, *value = setting_text(&set->members[i]);

            if (policy_turn(key) == turn && r == 0)
                r = policy_set(&common, key, value ? value : "", err);
            if (r == -ENOENT)
                r = error_set(err, -EINVAL, "set: no setting '%s' of policy '%s'", key,
                              name ? name : ctl->config.policy);
        }
    if (r < 0)
        return r;
    setups = mem_zalloc(cluster->vc_count, sizeof(*setups));
    if (!setups)
        return error_set(err, -ENOMEM, "no memory for policies");
    for (uint32_t v = 0; r == 0 && v < cluster->vc_count; v++)
        r = policy_compose(&cluster->vcs[v], &cluster->names, &common, &setups[v], err);
    if (r < 0) {
        mem_free(setups);
        return r;
    }
    *ret = setups;
    return 0;
}

static int by_number(const void *x, const void *y)
{
    const struct placed_node *a = x, *b = y;
    uint32_t one = a->registry->nodes[a->node].core_node, other = b->registry->nodes[b->node].core_node;

    return one < other ? -1 : one > other;
}

/* The nodes that were in the core, in its order. Not those that the registry would make one of: nodes without GPUs may
 * wait for it to be made anew, and the last one with GPUs stays in it when it is forgotten. */
static struct placed_node *known_nodes(const struct ctl *ctl, size_t *ret_count)
{
    struct placed_node *nodes = mem_zalloc(ctl->registry.node_count + 1, sizeof(*nodes));
    size_t count = 0;

    for (uint32_t n = 0; nodes && n < ctl->registry.node_count; n++)
        if (ctl->registry.nodes[n].core_node != UINT32_MAX)
            nodes[count++] = (struct placed_node){ &ctl->registry, n };
    if (nodes)
        qsort(nodes, count, sizeof(*nodes), by_number);
    *ret_count = count;
    return nodes;
}

/* The nodes that the cluster is made of. Where none with GPUs is left the core stays as it was, and so do its nodes:
 * what is set then is set for those, or a snapshot would speak of one cluster and hold the core of another. */
static struct placed_node *cluster_nodes(const struct ctl *ctl, size_t *ret_count)
{
    struct placed_node *nodes = nodes_sort(ctl, ret_count);

    if (!nodes || *ret_count > 0 || !ctl->core)
        return nodes;
    mem_free(nodes);
    return known_nodes(ctl, ret_count);
}

/* Virtual clusters there are must stay, in their order: jobs speak of them by number. */
static int same_vcs(const struct cluster_spec *was, const struct cluster_spec *now, struct error *err)
{
    for (uint32_t v = 0; v < was->vc_count; v++) {
        const char *name = names_get(&was->names, was->vcs[v].name);

        if (v >= now->vc_count || strcmp(name, names_get(&now->names, now->vcs[v].name)) != 0)
            return error_set(err, -EINVAL,
                             "vcs: '%s' must stay where it is; give it no guarantee if nobody is to use it", name);
    }
    return 0;
}

int cluster_try(const struct ctl *ctl, const struct setting_value *settings, struct error *err)
{
    struct cluster_spec cluster = { 0 };
    struct policy_setup *policies = NULL;
    size_t count;
    struct placed_node *nodes = cluster_nodes(ctl, &count);
    int r = nodes ? license_check(settings, err) : error_set(err, -ENOMEM, "no memory for the cluster");

    if (r == 0 && count > 0) {
        r = cluster_described(ctl, &(struct picture){ settings, nodes, count, true }, &cluster, err);
        /* A controller that had only the virtual cluster "default" may be given others in its place. */
        if (r == 0 && setting_count(setting_find(&ctl->settings, "vcs")) > 0)
            r = same_vcs(&ctl->cluster, &cluster, err);
        if (r == 0)
            r = policies_compose(ctl, settings, &cluster, &policies, err);
    }
    mem_free(nodes);
    mem_free(policies);
    cluster_spec_done(&cluster);
    return r;
}

int cluster_try_node(struct ctl *ctl, struct ctl_node *node, const struct inventory *inventory, struct error *err)
{
    struct cluster_spec cluster = { 0 };
    struct policy_setup *policies = NULL;
    struct ctl_node was = *node;
    size_t count;
    struct placed_node *nodes;
    int r;

    node->inventory = *inventory;
    node->gpu_count = (uint16_t)inventory->gpu_count;
    node->joined = true;
    node->forgotten = false;
    nodes = cluster_nodes(ctl, &count);
    r = nodes ? 0 : error_set(err, -ENOMEM, "no memory for the cluster");
    if (r == 0 && count > 0)
        r = read_cluster(ctl, &ctl->settings, nodes, count, &cluster, err);
    if (r == 0 && count > 0)
        r = policies_compose(ctl, &ctl->settings, &cluster, &policies, err);
    *node = was;
    mem_free(nodes);
    mem_free(policies);
    cluster_spec_done(&cluster);
    return r;
}

uint32_t cluster_vc(const struct ctl *ctl, const char *name)
{
    for (uint32_t v = 0; v < ctl->cluster.vc_count; v++)
        if (strcmp(names_get(&ctl->cluster.names, ctl->cluster.vcs[v].name), name) == 0)
            return v;
    return UINT32_MAX;
}

/* New numbers of the old core's GPUs, and of its nodes without any. */
static uint32_t *map_gpus(const struct ctl *ctl, const struct cluster_spec *cluster, const struct placed_node *nodes,
                          size_t count)
{
    const struct topo *old = ctl->core ? &ctl_ledger(ctl)->topo : NULL;
    uint32_t places = old ? old->gpu_count + old->host_count - old->node_count : 0;
    uint32_t *map = mem_zalloc((size_t)places + 1, sizeof(*map)), first = 0;

    if (!map)
        return NULL;
    for (uint32_t g = 0; g < places; g++)
        map[g] = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct ctl_node *node = &ctl->registry.nodes[nodes[i].node];

        for (uint32_t g = 0; old && node->core_node != UINT32_MAX && g < node->gpu_count; g++)
            if (g < old->nodes[node->core_node].gpus)
                map[old->nodes[node->core_node].first_gpu + g] = first + g;
        first += node->gpu_count;
        if (old && node->gpu_count == 0 && node->core_node != UINT32_MAX && node->core_node >= old->node_count)
            map[old->gpu_count + node->core_node - old->node_count] = placed_number(cluster, nodes, i);
    }
    return map;
}

static int build_core(const struct ctl *ctl, const struct cluster_spec *cluster, const struct policy_setup *policies,
                      const uint32_t *map, struct core **ret, struct error *err)
{
    struct core_config config = { .limits = { .jobs = ctl->config.jobs_max }, .seed = 1, .policies = policies };

    if (ctl->core)
        return core_carry(ctl->core, cluster, &config, map, ret, err);
    return core_new(cluster, &config, ret, err);
}

int cluster_carry(const struct ctl *ctl, const struct setting_value *settings, struct cluster_spec *ret_cluster,
                  struct policy_setup **ret_policies, struct core **ret_core, struct error *err)
{
    size_t count;
    struct placed_node *nodes = cluster_nodes(ctl, &count);
    uint32_t *map = NULL;
    int r = nodes ? 0 : error_set(err, -ENOMEM, "no memory for the cluster");

    if (r == 0)
        r = read_cluster(ctl, settings, nodes, count, ret_cluster, err);
    if (r == 0)
        r = policies_compose(ctl, settings, ret_cluster, ret_policies, err);
    if (r == 0)
        r = (map = map_gpus(ctl, ret_cluster, nodes, count))
                ? build_core(ctl, ret_cluster, *ret_policies, map, ret_core, err)
                : error_set(err, -ENOMEM, "no memory for the cluster");
    mem_free(map);
    mem_free(nodes);
    return r;
}

/* Nodes that HiveD's configuration has and that have not joined are broken ones, as they are to HiveD. */
static void absent_tell(struct ctl *ctl)
{
    uint32_t with = 0;
    int r = 0;

    for (uint32_t n = 0; n < ctl->registry.node_count; n++)
        with += ctl->registry.nodes[n].core_node < ctl->cluster.node_count;
    for (uint32_t n = with; r == 0 && n < ctl->cluster.node_count; n++)
        if (ctl_ledger(ctl)->topo.nodes[n].up)
            r = ctl_offer(ctl, &(struct event){ .kind = EVENT_NODE, .target = n, .up = false }, NULL, NULL);
    assert(r == 0);
}

int cluster_rebuild(struct ctl *ctl, struct error *err)
{
    struct cluster_spec cluster = { 0 };
    struct policy_setup *policies = NULL;
    struct core *core = NULL;
    uint32_t *map = NULL;
    size_t count;
    struct placed_node *nodes = cluster_nodes(ctl, &count);
    int r = nodes ? 0 : -ENOMEM;

    ctl->cluster_dirty = false;
    if (count == 0) {
        mem_free(nodes);
        return r;
    }
    ctl_step(ctl); /* a core is carried with nothing offered */
    if (r == 0)
        r = read_cluster(ctl, &ctl->settings, nodes, count, &cluster, err);
    if (r == 0)
        r = policies_compose(ctl, &ctl->settings, &cluster, &policies, err);
    if (r == 0)
        r = (map = map_gpus(ctl, &cluster, nodes, count)) ? build_core(ctl, &cluster, policies, map, &core, err)
                                                          : -ENOMEM;
    if (r == 0) {
        struct policy_setup *before = ctl->policies;
        uint32_t vcs = ctl->cluster.vc_count;

        core_free(ctl->core);
        cluster_spec_done(&ctl->cluster);
        ctl->core = core;
        ctl->steps++; /* nothing was told to this one yet */
        license_keep(ctl);
        ctl->offered++; /* it is to be planned anew, whether or not somebody says something */
        ctl->cluster = cluster;
        ctl->policies = policies;
        skus_keep(ctl);
        for (uint32_t n = 0; n < ctl->registry.node_count; n++)
            ctl->registry.nodes[n].core_node = UINT32_MAX;
        for (size_t i = 0; i < count; i++)
            ctl->registry.nodes[nodes[i].node].core_node = placed_number(&ctl->cluster, nodes, i);
        for (size_t i = 0; i < count; i++)
            node_tell(ctl, &ctl->registry.nodes[nodes[i].node]);
        absent_tell(ctl);
        turns_end(ctl, before, vcs);
        mem_free(before);
    } else {
        cluster_spec_done(&cluster);
        mem_free(policies);
    }
    mem_free(map);
    mem_free(nodes);
    return r;
}

/* The core of a snapshot, on the cluster that the registry describes. */
int cluster_restore(struct ctl *ctl, const void *data, size_t size, struct error *err)
{
    struct core_config config = { .limits = { .jobs = ctl->config.jobs_max }, .seed = 1 };
    size_t count;
    struct placed_node *nodes = known_nodes(ctl, &count);
    int r = nodes ? 0 : error_set(err, -ENOMEM, "no memory for the cluster");

    if (r == 0 && count > 0)
        r = read_cluster(ctl, &ctl->settings, nodes, count, &ctl->cluster, err);
    if (r == 0 && count > 0)
        skus_keep(ctl); /* a snapshot of before they were in it goes by its nodes */
    if (r == 0 && count > 0)
        r = policies_compose(ctl, &ctl->settings, &ctl->cluster, &ctl->policies, err);
    config.policies = ctl->policies;
    if (r == 0 && count > 0 && size > 0)
        r = core_load(&ctl->cluster, &config, data, size, &ctl->core, err);
    mem_free(nodes);
    return r;
}

/* What the core has of the node, or will have after its next step, is told_up, told_closed and told_bad from now on. */
void node_told(const struct ctl *ctl, struct ctl_node *node)
{
    const struct node *in_core = &ctl_ledger(ctl)->topo.nodes[node->core_node];

    if (node->told_step == ctl->steps)
        return;
    node->told_step = ctl->steps;
    node->told_up = in_core->up;
    node->told_closed = in_core->closed;
    for (uint32_t g = 0; g < node->gpu_count && g < in_core->gpus; g++)
        node->gpus[g].told_bad = ctl_ledger(ctl)->gpus[in_core->first_gpu + g].bad;
}

/* Health as the registry knows it against health as the core has it; of several changes before its next step, the last
 * one counts. */
void node_tell(struct ctl *ctl, struct ctl_node *node)
{
    const struct node *in_core;
    bool up = node->joined && !node->silent && !node->lost && !node->drained, closed = !up && !node->lost;
    int r = 0;

    if (!ctl->core || node->core_node == UINT32_MAX)
        return;
    node_told(ctl, node);
    in_core = &ctl_ledger(ctl)->topo.nodes[node->core_node];
    if (node->told_up != up || (!up && node->told_closed != closed))
        r = ctl_offer(ctl, &(struct event){ .kind = EVENT_NODE, .target = node->core_node, .up = up, .value = closed },
                      NULL, NULL);
    node->told_up = up;
    node->told_closed = closed;
    for (uint32_t g = 0; r == 0 && g < node->gpu_count && g < in_core->gpus; g++) {
        bool out = node->gpus[g].drained || node->gpus[g].foreign;
        /* A GPU that is only to be drained keeps the job it has. */
        bool bad = !node->gpus[g].ok || (out && ctl_ledger(ctl)->gpus[in_core->first_gpu + g].shares == SHARE_NONE);

        if (bad == node->gpus[g].told_bad || (!bad && out))
            continue;
        r = ctl_offer(ctl, &(struct event){ .kind = EVENT_GPU, .target = in_core->first_gpu + g, .up = !bad }, NULL,
                      NULL);
        node->gpus[g].told_bad = bad;
    }
    assert(r == 0);
}
