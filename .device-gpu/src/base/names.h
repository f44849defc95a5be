/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* names.h - strings kept once, spoken of by number.
 *
 * Users, virtual clusters, models and nodes are named in files and counted in the core. Numbers are given in the
 * order of first appearance, so the same input gives the same numbers.
 */
#include <stddef.h>
#include <stdint.h>

#define NAME_NONE UINT32_MAX
#define NAMES_MAX ((size_t)1 << 22)
#define NAME_LENGTH_MAX ((size_t)255)

struct names {
    char **text;     /* owned; text[i] is name i */
    uint32_t *table; /* open addressing, index + 1, 0 = empty */
    size_t count, capacity, table_size;
};

void names_done(struct names *names);

/* The number of `text`, given if new. -ENOMEM, -E2BIG (too many), -ENAMETOOLONG. */
int names_put(struct names *names, const char *text, size_t length, uint32_t *ret_index);

/* The number of `text`, or NAME_NONE. */
uint32_t names_find(const struct names *names, const char *text, size_t length);

/* Borrowed until the table is freed; "" for NAME_NONE. */
const char *names_get(const struct names *names, uint32_t index);
