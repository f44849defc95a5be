/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* setting.h - settings of a cluster as people write them (virtual clusters, policy, licences), as a plain tree.
 *
 * They have the keys of the cluster file, whose reader (cluster.h) judges what they mean. Members keep their order:
 * virtual clusters go by it. What a setting points to is its own.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "wire/text/json_write.h"

enum { SETTING_DEPTH_MAX = 24 };

enum setting_kind { SETTING_MAP, SETTING_TEXT, SETTING_NUMBER, SETTING_TRUE, SETTING_NULL, SETTING_OTHER };

struct setting_value {
    char *name; /* its key; NULL: the outermost */
    enum setting_kind kind;
    char *text; /* TEXT: its letters; OTHER (a list, a real, false): as JSON; else NULL */
    int64_t number;
    struct setting_value *members; /* of a MAP */
    size_t count, capacity;
};

/* A JSON document, to be freed with setting_done(). -EINVAL: no object, or too deep. */
int setting_read(const char *doc, struct setting_value *ret, struct error *err);
void setting_done(struct setting_value *setting);
/* An empty mapping. */
void setting_init(struct setting_value *ret);
/* As JSON, under its name. */
void setting_write(const struct setting_value *setting, struct json_write *json);
/* The same as a document of its own, the caller's; NULL: no memory. */
char *setting_doc(const struct setting_value *setting);

/* -ENOMEM: *to is empty. It has no name. */
int setting_copy(const struct setting_value *from, struct setting_value *to);
/* The member of that name; NULL: there is none, or no mapping. */
struct setting_value *setting_find(const struct setting_value *map, const char *name);
/* The member of that name, made where there is none: emptied, and an empty mapping. NULL: no memory. */
struct setting_value *setting_put(struct setting_value *map, const char *name);
void setting_remove(struct setting_value *map, const char *name);
/* A copy of it as the member of that name. -ENOMEM. */
int setting_put_copy(struct setting_value *map, const char *name, const struct setting_value *from);
int setting_put_text(struct setting_value *map, const char *name, const char *text);
int setting_put_number(struct setting_value *map, const char *name, int64_t number);

/* NULL: there is no text. */
const char *setting_text(const struct setting_value *setting);
bool setting_is_map(const struct setting_value *setting);
size_t setting_count(const struct setting_value *setting); /* of members; 0 where it is NULL or no mapping */
