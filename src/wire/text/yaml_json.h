/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* yaml_json.h - a YAML document as a tree of JSON values.
 *
 * Texts stay texts, whatever they look like, but for plain true, false and null: readers accept numbers as text.
 * Aliases become copies; their number and depth are limited.
 */
#include <jansson.h>

#include "wire/text/yaml_doc.h"

/* The tree of one node. */
int yaml_tree_at(struct yaml_doc *doc, yaml_node_t *node, json_t **ret_json, struct error *err);

int yaml_tree(struct yaml_doc *doc, json_t **ret_json, struct error *err);

/* The whole of it at once; whole numbers become numbers. */
int yaml_to_json(const char *file, const struct bytes *bytes, json_t **ret_json, struct error *err);
