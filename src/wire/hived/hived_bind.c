/* SPDX-License-Identifier: Apache-2.0 */
/* hived_bind.c - see hived_bind.h. */
#include "wire/hived/hived_bind.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/text/yaml_doc.h"

enum { BIND_PODS_MAX = 1 << 20, BIND_LEAVES_MAX = 1 << 22 };

struct reader {
    const struct hived_namer *namer;
    struct hived_places *places;
    struct cell_bind bind;
    uint32_t node;
    int32_t index; /* the pod's first device */
    const char *type_text;
    size_t type_length;
    uint32_t type;
    struct error *err;
};

void hived_places_done(struct hived_places *places)
{
    mem_free(places->pods);
    mem_free(places->leaves);
    *places = (struct hived_places){ 0 };
}

static void number_write(struct buf *out, int32_t number)
{
    char digits[16];
    size_t i = sizeof(digits);
    uint32_t left = number < 0 ? 0U - (uint32_t)number : (uint32_t)number;

    do
        digits[--i] = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (number < 0)
        digits[--i] = '-';
    buf_put(out, digits + i, sizeof(digits) - i);
}

/* As it is when no reader could take it for anything but text; else in quotes. */
static void name_write(struct buf *out, const char *name)
{
    bool plain = (*name >= 'A' && *name <= 'Z') || (*name >= 'a' && *name <= 'z');
    static const char *const words[] = { "null", "true", "false", "yes", "no", "on", "off", "y", "n" };

    for (const char *c = name; plain && *c; c++)
        plain = (*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '-' ||
                *c == '_' || *c == '.';
    for (size_t i = 0; plain && i < sizeof(words) / sizeof(words[0]); i++)
        plain = strcasecmp(name, words[i]) != 0;
    if (plain) {
        buf_text(out, name);
        return;
    }
    buf_char(out, '"');
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            buf_char(out, '\\');
        buf_char(out, *name);
    }
    buf_char(out, '"');
}

void hived_bind_write(const struct hived_namer *namer, const struct cell_bind *bind, struct buf *out)
{
    const struct cell_pod_place *own = &bind->pods[bind->pod];
    uint32_t size = 0;

    buf_text(out, "node: ");
    name_write(out, namer->node_name(namer->context, own->node));
    buf_text(out, "\nleafCellIsolation:\n");
    for (uint32_t i = 0; i < own->leaf_count; i++) {
        buf_put(out, "- ", 2);
        number_write(out, bind->leaves[own->leaf_first + i].index);
        buf_char(out, '\n');
    }
    buf_text(out, "cellChain: ");
    name_write(out, namer->type_name(namer->context, bind->chain));
    buf_text(out, "\naffinityGroupBindInfo:\n");
    for (uint32_t p = 0; p < bind->pod_count; p++) {
        const struct cell_pod_place *pod = &bind->pods[p];

        if (p == 0 || pod->leaf_count != size)
            buf_text(out, "- podPlacements:\n");
        size = pod->leaf_count;
        buf_text(out, "  - physicalNode: ");
        name_write(out, namer->node_name(namer->context, pod->node));
        buf_text(out, "\n    physicalLeafCellIndices:\n");
        for (uint32_t i = 0; i < size; i++) {
            buf_put(out, "    - ", 6);
            number_write(out, bind->leaves[pod->leaf_first + i].index);
            buf_char(out, '\n');
        }
        buf_text(out, "    preassignedCellTypes:\n");
        for (uint32_t i = 0; i < size; i++) {
            uint32_t type = bind->leaves[pod->leaf_first + i].preassigned;

            buf_put(out, "    - ", 6);
            name_write(out, type == CELL_NONE || type == CELL_UNKNOWN ? "" : namer->type_name(namer->context, type));
            buf_char(out, '\n');
        }
    }
}

static int pod_add(struct reader *r, uint32_t node)
{
    int e = mem_grow((void **)&r->places->pods, &r->places->pod_capacity, r->bind.pod_count + 1U, BIND_PODS_MAX,
                     sizeof(*r->places->pods));

    if (e == 0)
        r->places->pods[r->bind.pod_count++] = (struct cell_pod_place){ node, r->bind.leaf_count, 0 };
    return e;
}

static int leaf_add(struct reader *r, int32_t index)
{
    int e = mem_grow((void **)&r->places->leaves, &r->places->leaf_capacity, r->bind.leaf_count + 1U, BIND_LEAVES_MAX,
                     sizeof(*r->places->leaves));

    if (e == 0) {
        r->places->leaves[r->bind.leaf_count++] = (struct cell_leaf_place){ index, CELL_NONE };
        r->places->pods[r->bind.pod_count - 1].leaf_count++;
    }
    return e;
}

static uint32_t type_find(struct reader *r, const char *text, size_t length)
{
    if (length == 0 || (length == 2 && memcmp(text, "\"\"", 2) == 0))
        return CELL_NONE;
    if (!r->type_text || r->type_length != length || memcmp(r->type_text, text, length) != 0) {
        r->type = r->namer->type_find(r->namer->context, text, length);
        r->type_text = text;
        r->type_length = length;
    }
    return r->type;
}

/* The next line, without its end. */
static bool line_next(const char **at, const char *end, const char **ret_line, size_t *ret_length)
{
    const char *stop;

    if (*at >= end)
        return false;
    stop = memchr(*at, '\n', (size_t)(end - *at));
    stop = stop ? stop : end;
    *ret_line = *at;
    *ret_length = (size_t)(stop - *at);
    *at = stop + 1;
    return true;
}

static bool line_starts(const char *line, size_t length, const char *words, size_t size)
{
    return length >= size && memcmp(line, words, size) == 0;
}
#define STARTS(words) line_starts(line, length, words, sizeof(words) - 1)
#define REST(words) line + sizeof(words) - 1, length - (sizeof(words) - 1)

static bool number_parse(const char *text, size_t length, int32_t *ret_number)
{
    bool minus = length > 0 && *text == '-';
    int64_t number = 0;

    for (size_t i = minus; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || number > INT32_MAX)
            return false;
        number = number * 10 + (text[i] - '0');
    }
    *ret_number = (int32_t)(minus ? -number : number);
    return length > minus && number <= INT32_MAX;
}

static bool node_parse(struct reader *r, const char *text, size_t length, uint32_t *ret_node)
{
    return length > 0 && *text != '"' && *text != '\'' &&
           r->namer->node_find(r->namer->context, text, length, ret_node) == 0;
}

enum part { PART_OWN, PART_INDICES, PART_TYPES };

/* One line of what hived_bind_write() writes; false: not such a line. */
static bool line_read(struct reader *r, const char *line, size_t length, enum part *part, uint32_t *typed)
{
    int32_t number;
    uint32_t node;

    if (*part == PART_INDICES && STARTS("    - "))
        return number_parse(REST("    - "), &number) && leaf_add(r, number) == 0;
    if (*part == PART_TYPES && STARTS("    - ")) {
        if (*typed >= r->bind.leaf_count || (length > 8 && line[6] == '"'))
            return false;
        r->places->leaves[(*typed)++].preassigned = type_find(r, REST("    - "));
        return true;
    }
    if (*part == PART_OWN && STARTS("- ") && r->index < 0)
        return number_parse(REST("- "), &r->index);
    if (*part == PART_OWN && STARTS("- ") && !STARTS("- p"))
        return true;
    if (STARTS("  - physicalNode: "))
        return node_parse(r, REST("  - physicalNode: "), &node) && pod_add(r, node) == 0;
    if (STARTS("    physicalLeafCellIndices:") && r->bind.pod_count > 0) {
        *part = PART_INDICES;
        return length == sizeof("    physicalLeafCellIndices:") - 1;
    }
    if (STARTS("    preassignedCellTypes:")) {
        *part = PART_TYPES;
        return length == sizeof("    preassignedCellTypes:") - 1;
    }
    if (STARTS("cellChain: ")) {
        r->bind.chain = type_find(r, REST("cellChain: "));
        return length > 11 && (line[11] != '"' || length == 13);
    }
    if (STARTS("node: "))
        return node_parse(r, REST("node: "), &r->node);
    return STARTS("- podPlacements:") || STARTS("leafCellIsolation:") || STARTS("affinityGroupBindInfo:");
}

static bool lines_read(struct reader *r, const char *text, size_t size)
{
    const char *at = text, *end = text + size, *line;
    enum part part = PART_OWN;
    uint32_t typed = 0;
    size_t length;

    while (line_next(&at, end, &line, &length))
        if (!line_read(r, line, length, &part, &typed))
            return false;
    return typed == r->bind.leaf_count && r->node != CELL_NONE && r->index >= 0 && r->bind.pod_count > 0;
}

static const char *scalar(const yaml_node_t *node)
{
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : "";
}

static yaml_node_t *key_find(struct yaml_doc *doc, yaml_node_t *map, const char *name)
{
    yaml_node_t *key, *value;

    for (size_t i = 0; map && map->type == YAML_MAPPING_NODE && yaml_pair(doc, map, i, &key, &value); i++)
        if (strcmp(scalar(key), name) == 0)
            return value;
    return NULL;
}

/* Item i of a list; false behind the last, and when it is no list. */
static bool item_at(struct yaml_doc *doc, yaml_node_t *list, size_t i, yaml_node_t **ret_item)
{
    return list && list->type == YAML_SEQUENCE_NODE && yaml_item(doc, list, i, ret_item);
}

static int pod_read(struct reader *r, struct yaml_doc *doc, yaml_node_t *pod)
{
    yaml_node_t *node = key_find(doc, pod, "physicalNode"), *types = key_find(doc, pod, "preassignedCellTypes");
    yaml_node_t *indices = key_find(doc, pod, "physicalLeafCellIndices"), *item;
    uint32_t number = CELL_NONE, first = r->bind.leaf_count;
    int64_t index;
    int e;

    if (!indices)
        indices = key_find(doc, pod, "physicalGpuIndices");
    if (!node || !*scalar(node))
        return yaml_fail(doc, pod, r->err, "physicalNode is missing");
    e = r->namer->node_find(r->namer->context, scalar(node), strlen(scalar(node)), &number);
    if (e == 0)
        e = pod_add(r, number);
    for (size_t i = 0; e == 0 && item_at(doc, indices, i, &item); i++) {
        e = yaml_i64(doc, item, 0, INT32_MAX, &index, r->err);
        if (e == 0)
            e = leaf_add(r, (int32_t)index);
    }
    for (size_t i = 0; e == 0 && item_at(doc, types, i, &item) && first + i < r->bind.leaf_count; i++)
        if (*scalar(item))
            r->places->leaves[first + i].preassigned =
                r->namer->type_find(r->namer->context, scalar(item), strlen(scalar(item)));
    if (e == 0 && first == r->bind.leaf_count)
        return yaml_fail(doc, pod, r->err, "physicalLeafCellIndices is empty");
    return e;
}

static int document_read(struct reader *r, struct yaml_doc *doc)
{
    yaml_node_t *top = yaml_top(doc), *node = key_find(doc, top, "node"), *item, *pod;
    yaml_node_t *own = key_find(doc, top, "leafCellIsolation"), *groups = key_find(doc, top, "affinityGroupBindInfo");
    const char *chain = scalar(key_find(doc, top, "cellChain"));
    int64_t index;
    int e;

    if (!own)
        own = key_find(doc, top, "gpuIsolation");
    if (!*scalar(node) || !item_at(doc, own, 0, &item))
        return yaml_fail(doc, top, r->err, "node or leafCellIsolation is missing");
    e = r->namer->node_find(r->namer->context, scalar(node), strlen(scalar(node)), &r->node);
    if (e == 0)
        e = yaml_i64(doc, item, 0, INT32_MAX, &index, r->err);
    if (e < 0)
        return e;
    r->index = (int32_t)index;
    r->bind.chain = *chain ? r->namer->type_find(r->namer->context, chain, strlen(chain)) : CELL_UNKNOWN;
    for (size_t i = 0; e == 0 && item_at(doc, groups, i, &item); i++) {
        yaml_node_t *pods = key_find(doc, item, "podPlacements");

        for (size_t k = 0; e == 0 && item_at(doc, pods, k, &pod); k++)
            e = pod_read(r, doc, pod);
    }
    return e;
}

/* Which of the gang's places is this pod's: that on its node with its first device. */
static int own_find(struct reader *r)
{
    for (uint32_t p = 0; p < r->bind.pod_count; p++) {
        const struct cell_pod_place *pod = &r->places->pods[p];

        for (uint32_t i = 0; pod->node == r->node && i < pod->leaf_count; i++) {
            if (r->places->leaves[pod->leaf_first + i].index == r->index) {
                r->bind.pod = p;
                return 0;
            }
        }
    }
    return error_set(r->err, -EINVAL, "the pod is not among the places of its gang");
}

int hived_bind_read(const struct hived_namer *namer, const char *text, size_t size, struct hived_places *places,
                    struct cell_bind *ret_bind, struct error *err)
{
    struct reader r = { .namer = namer, .places = places, .node = CELL_NONE, .index = -1, .err = err };
    struct yaml_doc doc;
    int e = 0;

    if (!lines_read(&r, text, size)) {
        CLEANUP_BUF struct buf copy = BUF_INIT(YAML_BYTES_MAX);
        CLEANUP_BYTES struct bytes bytes = { 0 };

        r = (struct reader){ .namer = namer, .places = places, .node = CELL_NONE, .index = -1, .err = err };
        buf_put(&copy, text, size);
        e = buf_take(&copy, &bytes, err);
        if (e == 0)
            e = yaml_open("pod-bind-info", &bytes, &doc, err);
        if (e < 0)
            return e;
        e = document_read(&r, &doc);
        yaml_close(&doc);
    }
    if (e == 0)
        e = own_find(&r);
    if (e < 0)
        return e;
    r.bind.pods = places->pods;
    r.bind.leaves = places->leaves;
    *ret_bind = r.bind;
    return 0;
}
