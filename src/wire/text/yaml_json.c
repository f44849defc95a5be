/* SPDX-License-Identifier: Apache-2.0 */
/* yaml_json.c - see yaml_json.h. */
#include "wire/text/yaml_json.h"

#include <errno.h>
#include <string.h>

#include "wire/text/decimal.h"

enum { VALUES_MAX = 200000, DEPTH_MAX = 32 };

/* Aliases become copies here, so the number of values is limited. */
struct yaml_tree {
    struct yaml_doc *doc;
    size_t values;
    int depth;
    bool numbers; /* whole numbers are numbers */
    struct error *err;
};

static int tree_of(struct yaml_tree *tree, yaml_node_t *node, json_t **ret_json);

static int scalar_of(struct yaml_tree *tree, const yaml_node_t *node, json_t **ret_json)
{
    const char *text = (const char *)node->data.scalar.value;
    int64_t number;
    bool plain = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;

    if (memchr(text, '\0', node->data.scalar.length))
        return yaml_fail(tree->doc, node, tree->err, "a text cannot hold the character 0");
    if (plain && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0))
        *ret_json = json_boolean(text[0] == 't');
    else if (plain && (strcmp(text, "") == 0 || strcmp(text, "~") == 0 || strcmp(text, "null") == 0))
        *ret_json = json_null();
    else if (plain && tree->numbers && decimal_parse_i64(text, node->data.scalar.length, &number) == 0)
        *ret_json = json_integer(number);
    else
        *ret_json = json_stringn(text, node->data.scalar.length);
    return *ret_json ? 0 : error_set(tree->err, -ENOMEM, "out of memory");
}

static int map_of(struct yaml_tree *tree, yaml_node_t *node, json_t **ret_json)
{
    json_t *map = json_object();
    yaml_node_t *key, *value;
    int r = map ? yaml_map_check(tree->doc, node, "here", tree->err) : -ENOMEM;

    for (size_t i = 0; r == 0 && yaml_pair(tree->doc, node, i, &key, &value); i++) {
        json_t *part = NULL;

        r = tree_of(tree, value, &part);
        if (r == 0 && json_object_set_new(map, (const char *)key->data.scalar.value, part) < 0)
            r = error_set(tree->err, -ENOMEM, "out of memory");
    }
    if (r < 0)
        json_decref(map);
    else
        *ret_json = map;
    return r;
}

static int list_of(struct yaml_tree *tree, yaml_node_t *node, json_t **ret_json)
{
    json_t *list = json_array();
    yaml_node_t *item;
    int r = list ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && yaml_item(tree->doc, node, i, &item); i++) {
        json_t *part = NULL;

        r = tree_of(tree, item, &part);
        if (r == 0 && json_array_append_new(list, part) < 0)
            r = error_set(tree->err, -ENOMEM, "out of memory");
    }
    if (r < 0)
        json_decref(list);
    else
        *ret_json = list;
    return r;
}

static int tree_of(struct yaml_tree *tree, yaml_node_t *node, json_t **ret_json)
{
    int r;

    if (++tree->values > VALUES_MAX)
        return yaml_fail(tree->doc, node, tree->err, "more than %d values", VALUES_MAX);
    if (tree->depth == DEPTH_MAX)
        return yaml_fail(tree->doc, node, tree->err, "more than %d levels", DEPTH_MAX);
    tree->depth++;
    if (node->type == YAML_MAPPING_NODE)
        r = map_of(tree, node, ret_json);
    else if (node->type == YAML_SEQUENCE_NODE)
        r = list_of(tree, node, ret_json);
    else
        r = scalar_of(tree, node, ret_json);
    tree->depth--;
    return r;
}

int yaml_tree_at(struct yaml_doc *doc, yaml_node_t *node, json_t **ret_json, struct error *err)
{
    struct yaml_tree tree = { .doc = doc, .err = err };

    return tree_of(&tree, node, ret_json);
}

int yaml_tree(struct yaml_doc *doc, json_t **ret_json, struct error *err)
{
    struct yaml_tree tree = { .doc = doc, .err = err };

    return tree_of(&tree, yaml_top(doc), ret_json);
}

int yaml_to_json(const char *file, const struct bytes *bytes, json_t **ret_json, struct error *err)
{
    struct yaml_doc doc;
    struct yaml_tree tree = { .doc = &doc, .err = err, .numbers = true };
    int r = yaml_open(file, bytes, &doc, err);

    if (r < 0)
        return r;
    r = tree_of(&tree, yaml_top(&doc), ret_json);
    yaml_close(&doc);
    return r;
}
