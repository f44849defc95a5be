/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_describe.c - the nodes that have joined and the virtual clusters as configured, written as a cluster file and
 * read by the reader of those, so that a controller understands quotas, guarantees in words and settings exactly as the
 * simulator does.
 *
 * Nodes are ordered by domain, rack and name, numbers in names by value; GPU types keep the numbers they once had.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/settings/cluster_describe.h"
#include "ctl/state/state_internal.h"
#include "wire/cluster/cluster.h"
#include "wire/hived/hived_settings.h"
#include "wire/text/json_write.h"

#define DESCRIPTION_BYTES_MAX ((size_t)64 << 20)

/* "n2" before "n10". */
static int names_compare(const char *a, const char *b)
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

static const char *node_label(const struct ctl_node *node, const char *key)
{
    const char *text = inventory_label(&node->inventory, key);

    return text ? text : "";
}

static int nodes_compare(const void *x, const void *y)
{
    const struct placed_node *a = x, *b = y;
    const struct ctl_node *na = &a->registry->nodes[a->node], *nb = &b->registry->nodes[b->node];
    int order = (na->gpu_count == 0) - (nb->gpu_count == 0); /* those without GPUs come last */

    if (order == 0)
        order = names_compare(node_label(na, "domain"), node_label(nb, "domain"));
    if (order == 0)
        order = names_compare(node_label(na, "rack"), node_label(nb, "rack"));
    return order ? order
                 : names_compare(names_get(&a->registry->node_names, na->name),
                                 names_get(&b->registry->node_names, nb->name));
}

static void node_write(const struct ctl *ctl, struct json_write *json, const struct ctl_node *node, bool resvs)
{
    const struct inventory *inventory = &node->inventory;
    int64_t gpus = node->gpu_count, sockets = inventory_number(inventory->sockets, 1);
    int64_t groups = inventory_number(inventory->groups, 1), cpus = inventory_number(inventory->cpus, 0);
    int64_t memory = inventory_number(inventory->memory_bytes, 0) >> 20;

    if (sockets < 1 || gpus % sockets != 0 || gpus == 0)
        sockets = 1;
    if (groups < 1 || gpus % (sockets * groups) != 0)
        groups = 1;
    json_write_object(json, NULL);
    json_write_text(json, "name", names_get(&ctl->registry.node_names, node->name));
    json_write_i64(json, "gpus", gpus);
    json_write_i64(json, "sockets", sockets);
    json_write_i64(json, "groups", groups);
    if (gpus && inventory->sku)
        json_write_text(json, "sku", inventory->sku);
    if (cpus > 0)
        json_write_i64(json, "cpus", cpus);
    if (*node_label(node, "cpu_jobs") && cpus > 0) {
        int64_t part = strtol(node_label(node, "cpu_jobs"), NULL, 10);

        json_write_i64(json, "cpu_jobs", part < 0 ? 0 : part > cpus ? cpus : part);
    }
    if (memory > 0)
        json_write_i64(json, "memory", memory);
    if (resvs && resv_kept(ctl, node))
        json_write_bool(json, "apart", true); /* no guarantee is made of it meanwhile */
    json_write_close(json);
}

static void sku_write(struct json_write *json, const char *name, int64_t memory)
{
    json_write_object(json, name);
    if (memory > 0)
        json_write_i64(json, "memory", memory);
    json_write_close(json);
}

/* Whether the name is new; it is not any more. */
static bool name_new(struct names *names, const char *name)
{
    size_t before = names->count;
    uint32_t index;

    return names_put(names, name, strlen(name), &index) == 0 && index == before;
}

/* Nodes of HiveD's configuration that have not joined: they are part of the cluster, as racks at the end, and nothing
 * runs on them until they join. */
struct absent {
    struct cell_spec cells;
    uint32_t *places; /* of the cells */
    size_t count;
};

static void absent_done(struct absent *absent)
{
    cell_spec_done(&absent->cells);
    mem_free(absent->places);
}

static int absent_find(const struct ctl *ctl, const struct picture *picture, struct absent *ret)
{
    struct names known = { 0 };
    const struct cell_spec *cells = &ret->cells;
    int r = hived_settings_cells(picture->settings, &ret->cells);

    /* Cells that are refused are described with the rest, and refused there in words. */
    if (r < 0 || cells->place_count == 0)
        return r == -ENOMEM ? r : 0;
    ret->places = mem_zalloc(cells->place_count, sizeof(*ret->places));
    r = ret->places ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < picture->count; i++) {
        const char *name = names_get(&ctl->registry.node_names, ctl->registry.nodes[picture->nodes[i].node].name);
        uint32_t index;

        r = names_put(&known, name, strlen(name), &index);
    }
    for (uint32_t i = 0; r == 0 && i < cells->place_count; i++) {
        const char *name = names_get(&cells->names, cells->places[i].address);

        if (cells->types[cells->places[i].type].node && names_find(&known, name, strlen(name)) == NAME_NONE)
            ret->places[ret->count++] = i;
    }
    names_done(&known);
    return r;
}

/* Types in the order they have in the cluster there is, then new ones as they come. */
static void skus_write(const struct ctl *ctl, struct json_write *json, const struct picture *picture,
                       const struct absent *absent)
{
    const struct placed_node *nodes = picture->nodes;
    struct names known = { 0 };

    json_write_object(json, "skus");
    for (each_record(const struct ctl_sku, sku, &ctl->registry.kept.skus))
        if (name_new(&known, sku->name))
            sku_write(json, sku->name, sku->memory_mib);
    for (size_t i = 0; i < picture->count; i++) {
        const struct ctl_node *node = &ctl->registry.nodes[nodes[i].node];

        if (node->gpu_count && node->inventory.sku && name_new(&known, node->inventory.sku))
            sku_write(json, node->inventory.sku, inventory_number(node->inventory.memory_mib, 0));
    }
    for (size_t i = 0; i < absent->count; i++) {
        const char *device = hived_device_name(&absent->cells, absent->cells.places[absent->places[i]].type);

        if (name_new(&known, device))
            sku_write(json, device, 0);
    }
    json_write_close(json);
    names_done(&known);
}

/* Virtual clusters as a cluster file has them; that one is closed is our own affair. */
static void vcs_write(const struct setting_value *vcs, struct json_write *json)
{
    json_write_object(json, "vcs");
    for (size_t v = 0; v < vcs->count; v++) {
        const struct setting_value *vc = &vcs->members[v];

        if (!setting_is_map(vc)) {
            setting_write(vc, json);
            continue;
        }
        json_write_object(json, vc->name);
        for (size_t i = 0; i < vc->count; i++)
            if (strcmp(vc->members[i].name, "closed") != 0)
                setting_write(&vc->members[i], json);
        json_write_close(json);
    }
    json_write_close(json);
}

/* In the domain of the last rack with GPUs, so that other nodes stay where they are when all are put in order. */
static void absent_write(const struct ctl *ctl, struct json_write *json, const struct picture *picture,
                         const struct absent *absent)
{
    const char *domain = "";

    for (size_t i = 0; i < picture->count && ctl->registry.nodes[picture->nodes[i].node].gpu_count; i++)
        domain = node_label(&ctl->registry.nodes[picture->nodes[i].node], "domain");
    json_write_object(json, NULL);
    if (domain[0])
        json_write_text(json, "domain", domain);
    json_write_array(json, "nodes");
    for (size_t i = 0; i < absent->count; i++)
        hived_node_write(&absent->cells, &absent->cells.places[absent->places[i]], json);
    json_write_close(json);
    json_write_close(json);
}

static void racks_write(const struct ctl *ctl, struct json_write *json, const struct picture *picture,
                        const struct absent *absent)
{
    const char *last_rack = NULL, *last_domain = NULL;

    json_write_array(json, "racks");
    for (size_t i = 0; i < picture->count; i++) {
        const struct ctl_node *node = &ctl->registry.nodes[picture->nodes[i].node];

        if (!last_rack || strcmp(node_label(node, "rack"), last_rack) != 0 ||
            strcmp(node_label(node, "domain"), last_domain) != 0) {
            if (last_rack) {
                json_write_close(json);
                json_write_close(json);
            }
            last_rack = node_label(node, "rack");
            last_domain = node_label(node, "domain");
            json_write_object(json, NULL);
            if (last_domain[0])
                json_write_text(json, "domain", last_domain);
            json_write_array(json, "nodes");
        }
        node_write(ctl, json, node, picture->resvs);
    }
    if (last_rack) {
        json_write_close(json);
        json_write_close(json);
    }
    if (absent->count)
        absent_write(ctl, json, picture, absent);
    json_write_close(json);
}

/* One value a line: who reads it says by the line what is wrong. */
static int describe(const struct ctl *ctl, const struct picture *picture, struct buf *out)
{
    const struct setting_value *vcs = setting_find(picture->settings, "vcs");
    struct absent absent = { 0 };
    struct json_write json;
    int r = absent_find(ctl, picture, &absent);

    json_write_init(&json, out, true);
    json.narrow = true;
    json_write_object(&json, NULL);
    skus_write(ctl, &json, picture, &absent);
    racks_write(ctl, &json, picture, &absent);
    if (setting_count(vcs) > 0)
        vcs_write(vcs, &json);
    license_write(ctl, picture->settings, &json);
    hived_settings_write(picture->settings, &json);
    json_write_close(&json);
    absent_done(&absent);
    return r < 0 ? r : out->error;
}

/* Whether jobs may be there: a node without GPUs has to tell its CPUs. */
bool node_takes_jobs(const struct ctl_node *node)
{
    return node->joined && !node->forgotten && (node->gpu_count > 0 || inventory_number(node->inventory.cpus, 0) > 0);
}

struct placed_node *nodes_sort(const struct ctl *ctl, size_t *ret_count)
{
    struct placed_node *nodes = mem_zalloc(ctl->registry.node_count + 1, sizeof(*nodes));
    size_t count = 0;

    for (uint32_t n = 0; nodes && n < ctl->registry.node_count; n++)
        if (node_takes_jobs(&ctl->registry.nodes[n]))
            nodes[count++] = (struct placed_node){ &ctl->registry, n };
    if (nodes)
        qsort(nodes, count, sizeof(*nodes), nodes_compare);
    *ret_count = count && ctl->registry.nodes[nodes[0].node].gpu_count ? count : 0;
    return nodes;
}

int ctl_describe(const struct ctl *ctl, struct buf *out)
{
    size_t count;
    struct placed_node *nodes = nodes_sort(ctl, &count);
    int r;

    if (!nodes)
        return -ENOMEM;
    r = describe(ctl, &(struct picture){ &ctl->settings, nodes, count, true }, out);
    mem_free(nodes);
    return r;
}

enum { DEPTH_MAX = 12 };

/* The keys that lead to a line of text which describe() wrote: it indents by one, and has a line a member. */
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

uint32_t placed_number(const struct cluster_spec *cluster, const struct placed_node *nodes, size_t i)
{
    size_t with = 0;

    if (nodes[i].registry->nodes[nodes[i].node].gpu_count)
        return (uint32_t)i;
    while (with < i && nodes[with].registry->nodes[nodes[with].node].gpu_count)
        with++;
    return cluster->node_count + (uint32_t)(i - with);
}

int cluster_described(const struct ctl *ctl, const struct picture *picture, struct cluster_spec *ret, struct error *err)
{
    CLEANUP_BUF struct buf text = BUF_INIT(DESCRIPTION_BYTES_MAX);
    struct bytes bytes;
    int r;

    if (describe(ctl, picture, &text) < 0)
        return error_set(err, -ENOMEM, "no memory for the cluster");
    bytes = (struct bytes){ text.data, text.size };
    r = cluster_read_yaml("cluster", &bytes, ret, err);
    if (r < 0)
        r = tell_by_keys(text.data, r, err);
    for (size_t i = 0; r == 0 && i < picture->count && i < ret->node_count + ret->bare_count; i++) {
        const struct ctl_node *from = &ctl->registry.nodes[picture->nodes[i].node];
        struct node_spec *node = &ret->nodes[placed_number(ret, picture->nodes, i)];

        node->marks = where_marks(ctl, from);
        node->kept = picture->resvs ? resv_kept(ctl, from) : 0;
    }
    return r;
}
