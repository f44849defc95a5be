/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* json_write.h - JSON written straight into a buffer, without a tree.
 *
 * Commas, colons and line breaks are put by the writer; the caller opens, closes and puts values. Inside an object
 * every value has a key, inside an array the key is NULL. Numbers are written with the fewest digits that read back as
 * the same double; what is not finite becomes null. Bytes that are not UTF-8 become U+FFFD.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum { JSON_DEPTH_MAX = 60 };

struct json_write {
    struct buf *out; /* borrowed */
    bool pretty;     /* one value a line, two blanks a level */
    bool narrow;     /* one of them; to be set behind json_write_init() */
    uint32_t depth;
    uint64_t started; /* bit d: level d has a value already */
    uint64_t objects; /* bit d: level d is an object */
};

void json_write_init(struct json_write *json, struct buf *out, bool pretty);
void json_write_object(struct json_write *json, const char *key);
void json_write_array(struct json_write *json, const char *key);
void json_write_close(struct json_write *json); /* the innermost object or array */
void json_write_text(struct json_write *json, const char *key, const char *text);
void json_write_bytes(struct json_write *json, const char *key, const char *text, size_t length);
void json_write_i64(struct json_write *json, const char *key, int64_t value);
void json_write_u64(struct json_write *json, const char *key, uint64_t value);
void json_write_double(struct json_write *json, const char *key, double value);
void json_write_bool(struct json_write *json, const char *key, bool value);
void json_write_null(struct json_write *json, const char *key);
/* A value that is JSON already. */
void json_write_raw(struct json_write *json, const char *key, const char *text, size_t length);

/* Length of the UTF-8 sequence at `text`, of which `left` bytes, at least one, are there; 0 when it is not one. */
size_t json_utf8_length(const char *text, size_t left);
/* The first byte from `at` on that does not stand for itself in a string: a quote, a backslash, a control character,
 * one of several that make a character; `end` when there is none. */
const char *json_plain_end(const char *at, const char *end);

/* The pieces, for writers of their own: a quoted string, numbers, those of doubles with the fewest digits; a key with
 * its colon, and the comma before it where it is not the first of its object. */
void json_put_string(struct buf *out, const char *text, size_t length);
void json_put_key(struct buf *out, const char *key, size_t length, bool first);
void json_put_i64(struct buf *out, int64_t value);
void json_put_double(struct buf *out, double value);
