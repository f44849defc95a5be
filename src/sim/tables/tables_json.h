/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* tables_json.h - a JSON file whose top is an object of tables, for the families that have such files. */
#include "wire/text/json_read.h"

typedef int (*table_json_fn)(void *arg, const char *file, const char *key, json_t *value, struct error *err);

/* Reads the file and calls `fn` for each of its keys, in their order. */
int table_json_each(const char *path, table_json_fn fn, void *arg, struct error *err)
    __attribute__((warn_unused_result));
