/* SPDX-License-Identifier: Apache-2.0 */
/* hived_spec.c - see hived_spec.h. */
#include "wire/hived_spec.h"

#include <errno.h>
#include <string.h>

#include "wire/yaml_doc.h"

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
    if (node->type == YAML_SCALAR_NODE && (strcmp(text_of(node), "true") == 0 || strcmp(text_of(node), "false") == 0)) {
        *value = *text_of(node) == 't';
        return 0;
    }
    return yaml_fail(doc, node, err, "%s: expected true or false", name);
}

static int members_read(struct yaml_doc *doc, yaml_node_t *list, struct hived_spec *spec, struct error *err)
{
    yaml_node_t *item;
    int r = 0;

    if (list->type != YAML_SEQUENCE_NODE)
        return yaml_fail(doc, list, err, "members: expected a list");
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

static int document_read(struct yaml_doc *doc, struct hived_spec *spec, struct error *err)
{
    yaml_node_t *top = yaml_top(doc);
    int64_t priority = 0, leaves = 0;
    int r = yaml_map_check(doc, top, "the pod's specification", err);

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
        r = number_read(doc, top, "leafCellNumber", 1, &leaves, err);
    if (r == 0 && leaves == 0)
        r = yaml_fail(doc, top, err, "leafCellNumber is missing");
    if (r == 0)
        r = flag_read(doc, top, "lazyPreemptionEnable", &spec->lazy, err);
    if (r == 0)
        r = flag_read(doc, top, "ignoreK8sSuggestedNodes", &spec->ignore_suggested, err);
    spec->priority = (int32_t)priority;
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
