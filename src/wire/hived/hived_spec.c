/* SPDX-License-Identifier: Apache-2.0 */
/* hived_spec.c - see hived_spec.h. */
#include "wire/hived/hived_spec.h"

#include <errno.h>
#include <string.h>

#include "wire/text/yaml_doc.h"

#define SPEC_BYTES_MAX ((size_t)1 << 18)

static const char *text_of(const yaml_node_t *node)
{
    return (const char *)node->data.scalar.value;
}

static bool node_is_null(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    return node->data.scalar.length == 0 || strcmp(text_of(node), "null") == 0 || strcmp(text_of(node), "~") == 0;
}

/* The value of a key, NULL when absent or null. */
static yaml_node_t *key_find(struct yaml_doc *doc, yaml_node_t *map, const char *name)
{
    yaml_node_t *key, *value, *found = NULL;

    for (size_t i = 0; yaml_pair(doc, map, i, &key, &value); i++)
        if (key->type == YAML_SCALAR_NODE && strcmp(text_of(key), name) == 0)
            found = node_is_null(value) ? NULL : value;
    return found;
}

static int text_read(struct yaml_doc *doc, yaml_node_t *map, const char *name, char *text, struct error *err)
{
    yaml_node_t *node = key_find(doc, map, name);
    const char *value;
    int r;

    if (!node || (node->type == YAML_SCALAR_NODE && node->data.scalar.length == 0))
        return 0;
    r = yaml_name(doc, node, name, &value, err);
    if (r == 0)
        memcpy(text, value, strlen(value) + 1);
    return r;
}

static int number_read(struct yaml_doc *doc, yaml_node_t *map, const char *name, int64_t min, int64_t *value,
                       struct error *err)
{
    yaml_node_t *node = key_find(doc, map, name);

    return node ? yaml_i64(doc, node, min, INT32_MAX, value, err) : 0;
}

static int flag_read(struct yaml_doc *doc, yaml_node_t *map, const char *name, bool *value, struct error *err)
{
    yaml_node_t *node = key_find(doc, map, name);

    if (!node)
        return 0;
    if (yaml_flag(node, value))
        return 0;
    return yaml_fail(doc, node, err, "%s: expected true or false", name);
}

static int members_read(struct yaml_doc *doc, yaml_node_t *list, struct hived_spec *spec, struct error *err)
{
    yaml_node_t *item;
    int r = 0;

    if (list->type != YAML_SEQUENCE_NODE)
        return yaml_fail(doc, list, err, "members: expected a list");
    spec->member_count = 0;
    for (size_t i = 0; r == 0 && yaml_item(doc, list, i, &item); i++) {
        int64_t pods = 0, leaves = 0;

        if (i == HIVED_MEMBERS_MAX)
            return yaml_fail(doc, item, err, "more than %d members", HIVED_MEMBERS_MAX);
        r = yaml_map_check(doc, item, "a member", err);
        if (r == 0)
            r = number_read(doc, item, "podNumber", 1, &pods, err);
        if (r == 0)
            r = number_read(doc, item, "leafCellNumber", 1, &leaves, err);
        if (r == 0 && (pods == 0 || leaves == 0))
            r = yaml_fail(doc, item, err, "a member needs podNumber and leafCellNumber");
        spec->members[i] = (struct cell_member){ (uint32_t)pods, (uint32_t)leaves };
        spec->member_count = (uint32_t)i + 1;
    }
    return r;
}

static int group_read(struct yaml_doc *doc, yaml_node_t *top, struct hived_spec *spec, struct error *err)
{
    yaml_node_t *group = key_find(doc, top, "affinityGroup"), *members;
    bool member = false;
    int r;

    spec->member_count = 1;
    spec->members[0] = (struct cell_member){ 1, spec->leaves };
    if (!group)
        return 0;
    r = yaml_map_check(doc, group, "affinityGroup", err);
    if (r == 0)
        r = text_read(doc, group, "name", spec->group, err);
    members = r == 0 ? key_find(doc, group, "members") : NULL;
    if (r == 0 && members)
        r = members_read(doc, members, spec, err);
    for (uint32_t i = 0; i < spec->member_count; i++)
        member = member || spec->members[i].leaves == spec->leaves;
    if (r == 0 && !member)
        r = yaml_fail(doc, group, err, "no member has the pod's %u leaf cells", spec->leaves);
    return r;
}

/* `pod` of a group: its number, and what each asks for. */
static int group_pod_read(struct yaml_doc *doc, yaml_node_t *pod, struct hived_spec *spec, uint32_t at, bool *seen,
                          struct error *err)
{
    struct hived_group *g = &spec->tree[at];
    yaml_node_t *cells;
    int64_t min = 0, max = 0, number = 0;
    bool current = false;
    int r = yaml_map_check(doc, pod, "pod", err);

    if (r == 0)
        r = number_read(doc, pod, "podMinNumber", 1, &min, err);
    if (r == 0)
        r = number_read(doc, pod, "podMaxNumber", 1, &max, err);
    if (r == 0)
        r = flag_read(doc, pod, "containsCurrentPod", &current, err);
    if (r == 0 && (min == 0 || (max != 0 && max != min)))
        r = yaml_fail(doc, pod, err, "expected podMinNumber, and podMaxNumber the same");
    cells = r == 0 ? key_find(doc, pod, "cellsPerPod") : NULL;
    if (r == 0 && !cells)
        r = yaml_fail(doc, pod, err, "cellsPerPod is missing");
    if (r == 0)
        r = yaml_map_check(doc, cells, "cellsPerPod", err);
    if (r == 0)
        r = text_read(doc, cells, "cellType", g->cell_type, err);
    if (r == 0)
        r = number_read(doc, cells, "cellNumber", 1, &number, err);
    if (r == 0 && (!g->cell_type[0] || number == 0))
        r = yaml_fail(doc, cells, err, "expected cellType and cellNumber");
    if (r == 0 && current && *seen)
        r = yaml_fail(doc, pod, err, "two pods have containsCurrentPod");
    g->pods = (uint32_t)min;
    g->cells = (uint32_t)number;
    if (current) {
        spec->tree_pod = at;
        *seen = true;
    }
    return r;
}

/* A group and those inside it; as deep as there may be groups. */
static int tree_read(struct yaml_doc *doc, yaml_node_t *map, struct hived_spec *spec, uint32_t parent, bool *seen,
                     struct error *err)
{
    uint32_t at = spec->tree_count;
    yaml_node_t *pod, *children, *item;
    int r = yaml_map_check(doc, map, "a pod group", err);

    if (r < 0)
        return r;
    if (at == HIVED_GROUPS_MAX)
        return yaml_fail(doc, map, err, "more than %d pod groups", HIVED_GROUPS_MAX);
    spec->tree_count++;
    spec->tree[at] = (struct hived_group){ .parent = parent };
    r = text_read(doc, map, "withinOneCell", spec->tree[at].within, err);
    pod = r == 0 ? key_find(doc, map, "pod") : NULL;
    if (pod)
        r = group_pod_read(doc, pod, spec, at, seen, err);
    children = r == 0 ? key_find(doc, map, "childGroups") : NULL;
    if (children && children->type != YAML_SEQUENCE_NODE)
        return yaml_fail(doc, children, err, "childGroups: expected a list");
    for (size_t i = 0; r == 0 && children && yaml_item(doc, children, i, &item); i++)
        r = tree_read(doc, item, spec, at, seen, err);
    return r;
}

/* Cells instead of devices: this pod's, and the tree of groups it is in, or itself alone. */
static int version2_read(struct yaml_doc *doc, yaml_node_t *top, struct hived_spec *spec, struct error *err)
{
    yaml_node_t *root = key_find(doc, top, "podRootGroup");
    struct hived_group own = { .parent = CELL_NONE, .pods = 1 };
    int64_t number = 0;
    bool seen = false;
    int r = text_read(doc, top, "cellType", own.cell_type, err);

    if (r == 0)
        r = number_read(doc, top, "cellNumber", 1, &number, err);
    own.cells = (uint32_t)number;
    if (r == 0 && (!own.cell_type[0] || number == 0))
        r = yaml_fail(doc, top, err, "expected cellType and cellNumber");
    if (r < 0)
        return r;
    if (!root) {
        spec->tree[0] = own;
        spec->tree_count = 1;
        return 0;
    }
    r = yaml_map_check(doc, root, "podRootGroup", err);
    if (r == 0)
        r = text_read(doc, root, "name", spec->group, err);
    if (r == 0)
        r = tree_read(doc, root, spec, CELL_NONE, &seen, err);
    if (r == 0 && !seen)
        r = yaml_fail(doc, root, err, "no pod has containsCurrentPod");
    if (r == 0 && (strcmp(spec->tree[spec->tree_pod].cell_type, own.cell_type) != 0 ||
                   spec->tree[spec->tree_pod].cells != own.cells))
        r = yaml_fail(doc, root, err, "the pod with containsCurrentPod asks for other cells than this one");
    return r;
}

static int document_read(struct yaml_doc *doc, struct hived_spec *spec, struct error *err)
{
    yaml_node_t *top = yaml_top(doc);
    int64_t priority = 0, leaves = 0;
    char version[NAME_LENGTH_MAX + 1] = "";
    int r = yaml_map_check(doc, top, "the pod's specification", err);

    if (r == 0)
        r = text_read(doc, top, "version", version, err);
    if (r == 0 && version[0] && strcmp(version, "v1") != 0 && strcmp(version, "v2") != 0)
        r = yaml_fail(doc, top, err, "version: expected v1 or v2");

    if (r == 0)
        r = text_read(doc, top, "virtualCluster", spec->vc, err);
    if (r == 0 && !spec->vc[0])
        r = yaml_fail(doc, top, err, "virtualCluster is missing");
    if (r == 0)
        r = text_read(doc, top, "pinnedCellId", spec->pin, err);
    if (r == 0)
        r = text_read(doc, top, "leafCellType", spec->leaf_type, err);
    if (r == 0)
        r = number_read(doc, top, "priority", CELL_PRIORITY_OPP, &priority, err);
    if (r == 0 && priority > CELL_PRIORITY_MAX)
        r = yaml_fail(doc, top, err, "priority is not in -1..%d", CELL_PRIORITY_MAX);
    if (r == 0)
        r = flag_read(doc, top, "lazyPreemptionEnable", &spec->lazy, err);
    if (r == 0)
        r = flag_read(doc, top, "ignoreK8sSuggestedNodes", &spec->ignore_suggested, err);
    spec->priority = (int32_t)priority;
    if (r == 0 && strcmp(version, "v2") == 0)
        return version2_read(doc, top, spec, err);
    if (r == 0)
        r = number_read(doc, top, "leafCellNumber", 1, &leaves, err);
    if (r == 0 && leaves == 0)
        r = yaml_fail(doc, top, err, "leafCellNumber is missing");
    spec->leaves = (uint32_t)leaves;
    return r < 0 ? r : group_read(doc, top, spec, err);
}

/* Words of old clients, wherever they stand, as HiveD does it. */
static void words_translate(const struct bytes *text, struct buf *out)
{
    static const char *const words[][2] = { { "gpuType", "leafCellType" }, { "gpuNumber", "leafCellNumber" } };
    size_t i = 0;

    while (i < text->size) {
        size_t w = 0;

        while (w < 2 &&
               (text->size - i < strlen(words[w][0]) || memcmp(text->data + i, words[w][0], strlen(words[w][0])) != 0))
            w++;
        if (w < 2)
            buf_text(out, words[w][1]);
        else
            buf_char(out, text->data[i]);
        i += w < 2 ? strlen(words[w][0]) : 1;
    }
}

int hived_spec_read(const char *label, const struct bytes *text, struct hived_spec *ret_spec, struct error *err)
{
    CLEANUP_BUF struct buf buf = BUF_INIT(SPEC_BYTES_MAX);
    CLEANUP_BYTES struct bytes bytes = { 0 };
    struct yaml_doc doc;
    int r;

    *ret_spec = (struct hived_spec){ .ignore_suggested = true };
    words_translate(text, &buf);
    r = buf_take(&buf, &bytes, err);
    if (r == 0)
        r = yaml_open(label, &bytes, &doc, err);
    if (r < 0)
        return r;
    r = document_read(&doc, ret_spec, err);
    yaml_close(&doc);
    return r;
}
