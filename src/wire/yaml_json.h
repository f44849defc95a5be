/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* yaml_json.h - a YAML document as a tree of JSON values.
 *
 * Texts stay texts, whatever they look like, but for plain true, false and null: readers accept numbers as text.
 * Aliases become copies; their number and depth are limited.
 */
#include <jansson.h>

#include "wire/yaml_doc.h"

int yaml_tree(struct yaml_doc *doc, json_t **ret_json, struct error *err);

/* The whole of it at once; whole numbers become numbers. */
int yaml_to_json(const char *file, const struct bytes *bytes, json_t **ret_json, struct error *err);
