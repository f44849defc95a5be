/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* lib.h - libraries that few runs need are opened when they are: a program that is started for a moment should not pay
 * for loading what it does not call.
 *
 *   #define CALLS(X) X(json_object) X(json_array)
 *   static struct { CALLS(LIB_FIELD) } json;
 *   static const char *const names[] = { CALLS(LIB_NAME) };
 *   lib_open("libjansson.so.4", names, LIB_COUNT(names), &json, err)
 */
#include <stddef.h>

#include "base/error.h"

#define LIB_FIELD(name) __typeof__(&name) name;
#define LIB_NAME(name) #name,
#define LIB_COUNT(names) (sizeof(names) / sizeof((names)[0]))

/* Fills the functions of `table` in the order of the names; does nothing when that was done. Any thread. -ENOENT: it is
 * not installed; -ENOSYS: it is another version. It stays open. */
int lib_open(const char *file, const char *const *names, size_t count, void *table, struct error *err);
