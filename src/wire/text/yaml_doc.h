/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* yaml_doc.h - YAML as nodes with places, for configuration files.
 *
 * One document a file, at most YAML_BYTES_MAX bytes, YAML_DEPTH_MAX levels, YAML_ANCHORS_MAX anchors and
 * YAML_VALUES_MAX values. An alias is the node it names, shared, never a copy; but it counts as all that it stands for,
 * and may not stand for what it is in. Keys that come twice and keys nobody knows are refused. Errors are
 *
 *     FILE:LINE:COLUMN: what is wrong
 *       the line
 *       ^
 */
#include <stdbool.h>
#include <stdint.h>
#include <yaml.h>

#include "base/buf.h"

#define YAML_BYTES_MAX ((size_t)1 << 20)
enum { YAML_DEPTH_MAX = 32, YAML_ANCHORS_MAX = 1000, YAML_VALUES_MAX = 400000 };

struct yaml_doc {
    const char *file; /* borrowed, as the text is, until yaml_close() */
    const char *text;
    size_t size;
    yaml_document_t document;
};

/* A key a mapping may have. Filled by yaml_keys(): NULL = it is not there. */
struct yaml_key {
    const char *name;
    bool required;
    yaml_node_t *node, *value;
};

int yaml_open(const char *file, const struct bytes *bytes, struct yaml_doc *doc, struct error *err)
    __attribute__((warn_unused_result));
/* The same of what somebody sent: fewer values, so that it takes little time whatever it says. */
int yaml_open_within(const char *file, const struct bytes *bytes, size_t values_max, struct yaml_doc *doc,
                     struct error *err) __attribute__((warn_unused_result));
void yaml_close(struct yaml_doc *doc);

/* The outermost node; never NULL after yaml_open(). */
yaml_node_t *yaml_top(struct yaml_doc *doc);

/* An error at a node, with the line and a caret. Returns -EINVAL. */
int yaml_fail(const struct yaml_doc *doc, const yaml_node_t *node, struct error *err, const char *words, ...)
    __attribute__((format(printf, 4, 5)));

/* Finds the values of known keys in a mapping. */
int yaml_keys(struct yaml_doc *doc, yaml_node_t *map, struct yaml_key *keys, size_t count, struct error *err)
    __attribute__((warn_unused_result));

/* A mapping whose keys are names of the user's: checks that it is one and that no key comes twice. */
int yaml_map_check(struct yaml_doc *doc, yaml_node_t *map, const char *what, struct error *err)
    __attribute__((warn_unused_result));

/* Pair i of a mapping, item i of a sequence; false behind the last. */
bool yaml_pair(struct yaml_doc *doc, yaml_node_t *map, size_t i, yaml_node_t **ret_key, yaml_node_t **ret_value);
bool yaml_item(struct yaml_doc *doc, yaml_node_t *list, size_t i, yaml_node_t **ret_item);

/* A name: not empty, at most NAME_LENGTH_MAX bytes, none of them a control character. Ends in '\0'. */
int yaml_name(struct yaml_doc *doc, const yaml_node_t *node, const char *what, const char **ret_name, struct error *err)
    __attribute__((warn_unused_result));

int yaml_i64(struct yaml_doc *doc, const yaml_node_t *node, int64_t min, int64_t max, int64_t *ret_value,
             struct error *err) __attribute__((warn_unused_result));

/* A truth value in one of the words YAML 1.1 has for it; false: it is not one. */
bool yaml_flag(const yaml_node_t *node, bool *ret_value);

/* A size in MiB: a bare number is MiB; K, M, G, T are binary. Below one MiB is refused. */
int yaml_mib(struct yaml_doc *doc, const yaml_node_t *node, int64_t max, uint32_t *ret_mib, struct error *err)
    __attribute__((warn_unused_result));
