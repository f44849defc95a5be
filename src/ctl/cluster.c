/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.c - nodes that have joined and virtual clusters as configured, into a core.
 *
 * The description is written as a cluster file and read by the reader of those, so that a controller understands
 * quotas, guarantees in words and settings exactly as the simulator does. Nodes are ordered by domain, rack and name,
 * numbers in names by value; GPU types and virtual clusters keep the numbers they once had.
 */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/snap.h"
#include "ctl/part.h"
#include "wire/cluster.h"

/* "n2" before "n10". */
static int natural(const char *a, const char *b)
{
    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            size_t zeros_a = strspn(a, "0"), zeros_b = strspn(b, "0");
            size_t digits_a = strspn(a + zeros_a, "0123456789"), digits_b = strspn(b + zeros_b, "0123456789");
            int order;

            if (digits_a != digits_b)
                return digits_a < digits_b ? -1 : 1;
            order = strncmp(a + zeros_a, b + zeros_b, digits_a);
            if (order != 0)
                return order;
            if (zeros_a != zeros_b)
                return zeros_a < zeros_b ? -1 : 1;
            a += zeros_a + digits_a;
            b += zeros_b + digits_b;
            continue;
        }
        if (*a != *b)
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        a++;
        b++;
    }
    return *a ? 1 : *b ? -1 : 0;
}

static const char *label(const struct book_node *node, const char *key)
{
    const char *text = json_string_value(json_object_get(json_object_get(node->inventory, "labels"), key));

    return text ? text : "";
}

struct sorted {
    const struct book *book;
    uint32_t node;
};

static int compare(const void *x, const void *y)
{
    const struct sorted *a = x, *b = y;
    const struct book_node *na = &a->book->nodes[a->node], *nb = &b->book->nodes[b->node];
    int order = (na->gpu_count == 0) - (nb->gpu_count == 0); /* those without GPUs come last */

    if (order == 0)
        order = natural(label(na, "domain"), label(nb, "domain"));
    if (order == 0)
        order = natural(label(na, "rack"), label(nb, "rack"));
    return order ? order
                 : natural(names_get(&a->book->node_names, na->name), names_get(&b->book->node_names, nb->name));
}

static int64_t number(const json_t *object, const char *key, int64_t standard)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) ? json_integer_value(value) : standard;
}

static json_t *node_json(const struct ctl *ctl, const struct book_node *node, bool resvs)
{
    int64_t gpus = node->gpu_count, sockets = number(node->inventory, "sockets", 1);
    int64_t groups = number(node->inventory, "groups", 1);
    json_t *out;

    if (sockets < 1 || gpus % sockets != 0 || gpus == 0)
        sockets = 1;
    if (groups < 1 || gpus % (sockets * groups) != 0)
        groups = 1;
    out = json_pack("{s:s, s:I, s:I, s:I}", "name", names_get(&ctl->book.node_names, node->name), "gpus", gpus,
                    "sockets", sockets, "groups", groups);
    if (gpus)
        (void)json_object_set(out, "sku", json_object_get(node->inventory, "sku"));
    if (number(node->inventory, "cpus", 0) > 0)
        (void)json_object_set_new(out, "cpus", json_integer(number(node->inventory, "cpus", 0)));
    if (*label(node, "cpu_jobs") && number(node->inventory, "cpus", 0) > 0) {
        int64_t part = strtol(label(node, "cpu_jobs"), NULL, 10), all = number(node->inventory, "cpus", 0);

        (void)json_object_set_new(out, "cpu_jobs", json_integer(part < 0 ? 0 : part > all ? all : part));
    }
    if (number(node->inventory, "memory_bytes", 0) >> 20 > 0)
        (void)json_object_set_new(out, "memory", json_integer(number(node->inventory, "memory_bytes", 0) >> 20));
    if (resvs && resv_kept(ctl, node))
        (void)json_object_set_new(out, "apart", json_true()); /* no guarantee is made of it meanwhile */
    return out;
}

/* Types in the order they have in the cluster there is, then new ones as they come. */
static json_t *skus_json(const struct ctl *ctl, const struct sorted *nodes, size_t count)
{
    json_t *skus = json_object();

    for (uint32_t s = 0; s < ctl->cluster.sku_count; s++)
        (void)json_object_set_new(skus, names_get(&ctl->cluster.names, ctl->cluster.skus[s].name),
                                  ctl->cluster.skus[s].memory_mib
                                      ? json_pack("{s:i}", "memory", (int)ctl->cluster.skus[s].memory_mib)
                                      : json_object());
    for (size_t i = 0; i < count; i++) {
        const json_t *inventory = ctl->book.nodes[nodes[i].node].inventory;
        const char *sku = json_string_value(json_object_get(inventory, "sku"));

        if (ctl->book.nodes[nodes[i].node].gpu_count && !json_object_get(skus, sku))
            (void)json_object_set_new(skus, sku,
                                      number(inventory, "memory_mib", 0) > 0
                                          ? json_pack("{s:I}", "memory", number(inventory, "memory_mib", 0))
                                          : json_object());
    }
    return skus;
}

/* Virtual clusters as a cluster file has them; that one is closed is our own affair. */
static json_t *vcs_json(const json_t *vcs)
{
    json_t *out = json_deep_copy(vcs), *vc;
    const char *name;

    json_object_foreach(out, name, vc)(void) json_object_del(vc, "closed");
    return out;
}

/* What is described: settings, nodes in their order, and whether reservations take some of these. */
struct picture {
    const json_t *settings;
    const struct sorted *nodes;
    size_t count;
    bool resvs;
};

static json_t *describe(const struct ctl *ctl, const struct picture *picture)
{
    const struct sorted *nodes = picture->nodes;
    size_t count = picture->count;
    json_t *racks = json_array(), *rack = NULL, *out, *licenses, *vcs = json_object_get(picture->settings, "vcs");
    const char *last_rack = NULL, *last_domain = NULL;

    for (size_t i = 0; i < count; i++) {
        const struct book_node *node = &ctl->book.nodes[nodes[i].node];

        if (!rack || strcmp(label(node, "rack"), last_rack) != 0 || strcmp(label(node, "domain"), last_domain) != 0) {
            last_rack = label(node, "rack");
            last_domain = label(node, "domain");
            rack = json_pack("{s:[]}", "nodes");
            if (last_domain[0])
                (void)json_object_set_new(rack, "domain", json_string(last_domain));
            (void)json_array_append_new(racks, rack);
        }
        (void)json_array_append_new(json_object_get(rack, "nodes"), node_json(ctl, node, picture->resvs));
    }
    out = json_pack("{s:o, s:o}", "skus", skus_json(ctl, nodes, count), "racks", racks);
    if (json_object_size(vcs) > 0)
        (void)json_object_set_new(out, "vcs", vcs_json(vcs));
    licenses = license_describe(ctl, picture->settings);
    if (json_object_size(licenses) > 0)
        (void)json_object_set(out, "licenses", licenses);
    json_decref(licenses);
    return out;
}

/* Whether jobs may be there: a node without GPUs has to tell its CPUs. */
bool node_takes_jobs(const struct book_node *node)
{
    return node->joined && !node->forgotten && (node->gpu_count > 0 || number(node->inventory, "cpus", 0) > 0);
}

/* The nodes that are part of the cluster, in its order; none, before there is one with GPUs. */
static struct sorted *sort_nodes(const struct ctl *ctl, size_t *ret_count)
{
    struct sorted *nodes = mem_zalloc(ctl->book.node_count + 1, sizeof(*nodes));
    size_t count = 0;

    for (uint32_t n = 0; nodes && n < ctl->book.node_count; n++)
        if (node_takes_jobs(&ctl->book.nodes[n]))
            nodes[count++] = (struct sorted){ &ctl->book, n };
    if (nodes)
        qsort(nodes, count, sizeof(*nodes), compare);
    *ret_count = count && ctl->book.nodes[nodes[0].node].gpu_count ? count : 0;
    return nodes;
}

json_t *ctl_describe(const struct ctl *ctl)
{
    size_t count;
    struct sorted *nodes = sort_nodes(ctl, &count);
    json_t *out = nodes ? describe(ctl, &(struct picture){ ctl->settings, nodes, count, true }) : NULL;

    mem_free(nodes);
    return out;
}

enum { DEPTH_MAX = 12 };

/* The keys that lead to a line of text which json_dumps() wrote: it indents by one, and has a line a member. */
static void keys_to(const char *text, size_t line, char *ret_path, size_t size)
{
    const char *keys[DEPTH_MAX] = { NULL }, *at = text;
    size_t depth = 0, used = 0;

    for (size_t n = 1; at && *at && n <= line; n++) {
        const char *end = strchr(at, '\n');

        depth = strspn(at, " ");
        if (depth < DEPTH_MAX)
            keys[depth] = at[depth] == '"' ? at + depth + 1 : NULL;
        at = end ? end + 1 : NULL;
    }
    ret_path[0] = '\0';
    for (size_t d = 1; d <= depth && d < DEPTH_MAX && used < size; d++)
        if (keys[d])
            used += (size_t)snprintf(ret_path + used, size - used, "%s%.*s", used ? "." : "",
                                     (int)strcspn(keys[d], "\""), keys[d]);
}

/* Nobody wrote the text that was read: what is wrong is told by the keys that lead there, not by its line. */
static int tell_by_keys(const char *text, int code, struct error *err)
{
    char path[256], words[sizeof(err->text)];
    size_t line, column, name;
    int begin = 0;

    if (!err || sscanf(err->text, "cluster:%zu:%zu: %n", &line, &column, &begin) != 2 || begin == 0)
        return code;
    keys_to(text, line, path, sizeof(path));
    (void)snprintf(words, sizeof(words), "%.*s", (int)strcspn(err->text + begin, "\n"), err->text + begin);
    name = strcspn(words, ":");
    if (words[name] == ':' && strlen(path) > name && strncmp(path + strlen(path) - name, words, name) == 0)
        return error_set(err, code, "%s%s", path, words + name); /* it names the last key itself */
    return error_set(err, code, "%s%s%s", path, path[0] ? ": " : "", words);
}

static int read_described(const struct ctl *ctl, const struct picture *picture, struct cluster_spec *ret,
                          struct error *err)
{
    json_t *text = describe(ctl, picture);
    struct bytes bytes = { .data = json_dumps(text, JSON_INDENT(1)) };
    int r;

    json_decref(text);
    if (!bytes.data)
        return error_set(err, -ENOMEM, "no memory for the cluster");
    bytes.size = strlen(bytes.data);
    r = cluster_read_yaml("cluster", &bytes, ret, err);
    if (r < 0)
        r = tell_by_keys(bytes.data, r, err);
    free(bytes.data); /* jansson's */
    for (size_t i = 0; r == 0 && i < picture->count && i < ret->node_count + ret->bare_count; i++) {
        ret->nodes[i].marks = where_marks(ctl, &ctl->book.nodes[picture->nodes[i].node]);
        ret->nodes[i].kept = picture->resvs ? resv_kept(ctl, &ctl->book.nodes[picture->nodes[i].node]) : 0;
    }
    return r;
}

/* Guarantees come first: should reservations stand in their way by now (nodes were taken away), those have to wait. */
static int read_cluster(const struct ctl *ctl, const json_t *settings, const struct sorted *nodes, size_t count,
                        struct cluster_spec *ret, struct error *err)
{
    if (read_described(ctl, &(struct picture){ settings, nodes, count, true }, ret, NULL) == 0)
        return 0;
    return read_described(ctl, &(struct picture){ settings, nodes, count, false }, ret, err);
}

static int compose(const struct ctl *ctl, const json_t *settings, const struct cluster_spec *cluster,
                   struct policy_setup **ret, struct error *err)
{
    const char *name = json_string_value(json_object_get(settings, "policy")), *key;
    struct policy_setup common, *setups;
    json_t *value;
    int r = policy_parse(name ? name : ctl->config.policy, &common, err);

    if (r == -ENOENT)
        return error_set(err, -ENOENT, "policy: no policy '%s'; 'muster sim policies' lists them", name);
    if (r < 0)
        return error_prefix(err, r, "policy");
    for (int turn = 0; turn < 3; turn++)
        json_object_foreach(json_object_get(settings, "set"), key, value)
        {
            if (policy_turn(key) == turn && r == 0)
                r = policy_set(&common, key, json_string_value(value) ? json_string_value(value) : "", err);
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

int cluster_try(const struct ctl *ctl, json_t *settings, struct error *err)
{
    struct cluster_spec cluster = { 0 };
    struct policy_setup *policies = NULL;
    size_t count;
    struct sorted *nodes = sort_nodes(ctl, &count);
    int r = nodes ? license_check(settings, err) : error_set(err, -ENOMEM, "no memory for the cluster");

    if (r == 0 && count > 0) {
        r = read_described(ctl, &(struct picture){ settings, nodes, count, true }, &cluster, err);
        /* A controller that had only the virtual cluster "default" may be given others in its place. */
        if (r == 0 && json_object_size(json_object_get(ctl->settings, "vcs")) > 0)
            r = same_vcs(&ctl->cluster, &cluster, err);
        if (r == 0)
            r = compose(ctl, settings, &cluster, &policies, err);
    }
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
static uint32_t *map_gpus(const struct ctl *ctl, const struct sorted *nodes, size_t count)
{
    const struct topo *old = ctl->core ? &ctl_ledger(ctl)->topo : NULL;
    uint32_t places = old ? old->gpu_count + old->host_count - old->node_count : 0;
    uint32_t *map = mem_zalloc((size_t)places + 1, sizeof(*map)), first = 0;

    if (!map)
        return NULL;
    for (uint32_t g = 0; g < places; g++)
        map[g] = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct book_node *node = &ctl->book.nodes[nodes[i].node];

        for (uint32_t g = 0; old && node->core_node != UINT32_MAX && g < node->gpu_count; g++)
            if (g < old->nodes[node->core_node].gpus)
                map[old->nodes[node->core_node].first_gpu + g] = first + g;
        first += node->gpu_count;
        if (old && node->gpu_count == 0 && node->core_node != UINT32_MAX && node->core_node >= old->node_count)
            map[old->gpu_count + node->core_node - old->node_count] = (uint32_t)i;
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

int cluster_carry(const struct ctl *ctl, const json_t *settings, struct cluster_spec *ret_cluster,
                  struct policy_setup **ret_policies, struct core **ret_core, struct error *err)
{
    size_t count;
    struct sorted *nodes = sort_nodes(ctl, &count);
    uint32_t *map = NULL;
    int r = nodes ? 0 : error_set(err, -ENOMEM, "no memory for the cluster");

    if (r == 0)
        r = read_cluster(ctl, settings, nodes, count, ret_cluster, err);
    if (r == 0)
        r = compose(ctl, settings, ret_cluster, ret_policies, err);
    if (r == 0)
        r = (map = map_gpus(ctl, nodes, count)) ? build_core(ctl, ret_cluster, *ret_policies, map, ret_core, err)
                                                : error_set(err, -ENOMEM, "no memory for the cluster");
    mem_free(map);
    mem_free(nodes);
    return r;
}

int cluster_rebuild(struct ctl *ctl, struct error *err)
{
    struct cluster_spec cluster = { 0 };
    struct policy_setup *policies = NULL;
    struct core *core = NULL;
    uint32_t *map = NULL;
    size_t count;
    struct sorted *nodes = sort_nodes(ctl, &count);
    int r = nodes ? 0 : -ENOMEM;

    ctl->cluster_dirty = false;
    if (count == 0) {
        mem_free(nodes);
        return r;
    }
    ctl_step(ctl); /* a core is carried with nothing offered */
    if (r == 0)
        r = read_cluster(ctl, ctl->settings, nodes, count, &cluster, err);
    if (r == 0)
        r = compose(ctl, ctl->settings, &cluster, &policies, err);
    if (r == 0)
        r = (map = map_gpus(ctl, nodes, count)) ? build_core(ctl, &cluster, policies, map, &core, err) : -ENOMEM;
    if (r == 0) {
        struct policy_setup *before = ctl->policies;
        uint32_t vcs = ctl->cluster.vc_count;

        core_free(ctl->core);
        cluster_spec_done(&ctl->cluster);
        ctl->core = core;
        license_keep(ctl);
        ctl->offered++; /* it is to be planned anew, whether or not somebody says something */
        ctl->cluster = cluster;
        ctl->policies = policies;
        for (uint32_t n = 0; n < ctl->book.node_count; n++)
            ctl->book.nodes[n].core_node = UINT32_MAX;
        for (size_t i = 0; i < count; i++)
            ctl->book.nodes[nodes[i].node].core_node = (uint32_t)i;
        for (size_t i = 0; i < count; i++)
            node_tell(ctl, &ctl->book.nodes[nodes[i].node]);
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

static int by_number(const void *x, const void *y)
{
    const struct sorted *a = x, *b = y;
    uint32_t one = a->book->nodes[a->node].core_node, other = b->book->nodes[b->node].core_node;

    return one < other ? -1 : one > other;
}

/* The nodes that were in the core, in its order. Not those that the book would make one of: nodes without GPUs may wait
 * for it to be made anew, and the last one with GPUs stays in it when it is forgotten. */
static struct sorted *known_nodes(const struct ctl *ctl, size_t *ret_count)
{
    struct sorted *nodes = mem_zalloc(ctl->book.node_count + 1, sizeof(*nodes));
    size_t count = 0;

    for (uint32_t n = 0; nodes && n < ctl->book.node_count; n++)
        if (ctl->book.nodes[n].core_node != UINT32_MAX)
            nodes[count++] = (struct sorted){ &ctl->book, n };
    if (nodes)
        qsort(nodes, count, sizeof(*nodes), by_number);
    *ret_count = count;
    return nodes;
}

/* The core of a snapshot, on the cluster that the book describes. */
int cluster_restore(struct ctl *ctl, const void *data, size_t size, struct error *err)
{
    struct core_config config = { .limits = { .jobs = ctl->config.jobs_max }, .seed = 1 };
    size_t count;
    struct sorted *nodes = known_nodes(ctl, &count);
    int r = nodes ? 0 : error_set(err, -ENOMEM, "no memory for the cluster");

    if (r == 0 && count > 0)
        r = read_cluster(ctl, ctl->settings, nodes, count, &ctl->cluster, err);
    if (r == 0 && count > 0)
        r = compose(ctl, ctl->settings, &ctl->cluster, &ctl->policies, err);
    config.policies = ctl->policies;
    if (r == 0 && count > 0 && size > 0)
        r = core_load(&ctl->cluster, &config, data, size, &ctl->core, err);
    mem_free(nodes);
    return r;
}

/* Health as the book knows it against health as the core has it. */
void node_tell(struct ctl *ctl, struct book_node *node)
{
    const struct node *in_core;
    bool up = node->joined && !node->silent && !node->lost && !node->drained, closed = !up && !node->lost;
    int r = 0;

    if (!ctl->core || node->core_node == UINT32_MAX)
        return;
    in_core = &ctl_ledger(ctl)->topo.nodes[node->core_node];
    if (in_core->up != up || (!up && in_core->closed != closed))
        r = ctl_offer(ctl, &(struct event){ .kind = EVENT_NODE, .target = node->core_node, .up = up, .value = closed },
                      NULL, NULL);
    for (uint32_t g = 0; r == 0 && g < node->gpu_count && g < in_core->gpus; g++) {
        const struct gpu *gpu = &ctl_ledger(ctl)->gpus[in_core->first_gpu + g];
        /* A GPU that is only to be drained keeps the job it has. */
        bool bad = !node->gpus[g].ok || ((node->gpus[g].drained || node->gpus[g].foreign) && gpu->shares == SHARE_NONE);

        if (bad != gpu->bad && (bad || (node->gpus[g].ok && !node->gpus[g].drained && !node->gpus[g].foreign)))
            r = ctl_offer(ctl, &(struct event){ .kind = EVENT_GPU, .target = in_core->first_gpu + g, .up = !bad }, NULL,
                          NULL);
    }
    assert(r == 0);
}
