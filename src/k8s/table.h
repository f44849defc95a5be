/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* table.h - objects by name ("namespace/name"), in a hash table that grows up to a limit.
 *
 * Keys are copied. The order of an iteration is the order of insertion as long as nothing is removed; whoever needs an
 * order sorts.
 */
#include <stddef.h>
#include <stdint.h>

struct table_entry {
    char *key; /* owned; NULL: free */
    void *value;
    uint64_t hash;
};

struct table {
    struct table_entry *entries; /* owned; dense */
    uint32_t *slots;             /* owned; 1 + an entry, or 0 */
    size_t count, capacity, slot_count, max;
};

#define TABLE_INIT(most)                                                                                               \
    {                                                                                                                  \
        .max = (most)                                                                                                  \
    }

void table_done(struct table *table); /* values are the caller's */
void *table_get(const struct table *table, const char *key);
/* 0; -ENOMEM; -E2BIG: the limit. Replaces the value that is there. */
int table_put(struct table *table, const char *key, void *value) __attribute__((warn_unused_result));
/* The value that was there; NULL. The last entry takes its place. */
void *table_remove(struct table *table, const char *key);
