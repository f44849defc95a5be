/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* json_read.h - JSON text to a jansson tree, and checked ways into it.
 *
 * Grammar errors read "FILE:LINE:COLUMN: ...". jansson keeps no positions in its tree, so errors of meaning name the
 * value by its path: "FILE: v100.'LM (batch size 5)'.null: expected a number, got a string".
 */
#include <jansson.h>
#include <stddef.h>

#include "base/error.h"

/* Duplicate keys are refused. Give the result back with json_decref(). */
int json_read(const char *file, const char *data, size_t size, json_t **ret_json, struct error *err)
    __attribute__((warn_unused_result));

/* The same of what somebody sent, and -E2BIG where it may have more than so many values: counted by its commas and
 * brackets before a tree is made. */
int json_read_within(const char *file, const char *data, size_t size, size_t values_max, json_t **ret_json,
                     struct error *err) __attribute__((warn_unused_result));

/* "expected WHAT, got a string", with `file` and `path` before it. Returns -EINVAL. */
int json_expected(const char *file, const char *path, const json_t *got, const char *what, struct error *err);

/* 0 when `json` is of that type; what it is called in errors comes from the type. */
int json_need(const char *file, const char *path, const json_t *json, json_type type, struct error *err)
    __attribute__((warn_unused_result));

/* A finite number, whole or not. */
int json_number(const char *file, const char *path, const json_t *json, double *ret_value, struct error *err)
    __attribute__((warn_unused_result));

static inline void cleanup_json_decref(json_t **json)
{
    json_decref(*json);
}
