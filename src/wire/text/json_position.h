/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* json_position.h - where in a JSON text a value is, which the tree that was read does not know. */
#include <stdbool.h>
#include <stddef.h>

struct json_hop {
    const char *key; /* of an object, or NULL: */
    size_t index;    /* of an array */
};

struct json_position {
    size_t line, column; /* from 1; bytes */
};

/* The place of the value at the end of the path. A text that does not have it gives the last value that it has. */
struct json_position json_position_find(const char *text, size_t size, const struct json_hop *path, size_t hops);
