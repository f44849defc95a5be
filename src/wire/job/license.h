/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* license.h - licences as people write them: NAME or NAME:COUNT. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/cluster.h"
#include "wire/text/yaml_doc.h"

struct submission;

enum { LICENSE_NAME_MAX = 63 };
#define LICENSE_WORDS "NAME or NAME:COUNT, such as matlab:2"

/* A count goes up to LICENSE_COUNT_MAX; one where none is told. -EINVAL. */
int license_parse(const char *text, size_t length, size_t *ret_name_length, uint32_t *ret_count);

/* Letters, digits and - _ . @, beginning with a letter or a digit. */
bool license_name_good(const char *name, size_t length);

/* {NAME: COUNT}: calls `put` for each, at most LICENSES_MAX times; it fails for want of memory only. -EINVAL. */
int licenses_read_yaml(struct yaml_doc *doc, yaml_node_t *map, int (*put)(void *arg, const char *name, uint32_t count),
                       void *arg, struct error *err);

/* One more of a trace's, whose names are in `names`. -EEXIST: it has that already; -E2BIG, -ENOMEM. */
int license_add(struct jobspec *spec, struct names *names, const char *name, size_t length, uint32_t count);

/* "matlab (4), foo (2)", those that can be had; nothing where there are none. */
void license_list(const struct cluster_spec *cluster, struct buf *out);

/* The number of that name, LICENSES_MAX where nobody counts it. */
uint32_t license_find(const struct cluster_spec *cluster, const char *name);

/* So many of the i-th kind that the submission names. */
uint32_t license_count(const struct submission *s, size_t i);
