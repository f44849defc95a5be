/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - see table.h. Open addressing over a dense array; the slots are rebuilt when half of them are taken. */
#include "k8s/table.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

static uint64_t key_hash(const char *key)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */

    for (; *key; key++)
        hash = (hash ^ (uint8_t)*key) * 0x100000001b3u;
    return hash ^ hash >> 29;
}

void table_done(struct table *table)
{
    for (size_t i = 0; i < table->count; i++)
        mem_free(table->entries[i].key);
    mem_free(table->entries);
    mem_free(table->slots);
    *table = (struct table)TABLE_INIT(table->max);
}

/* The slot of the key, or the free one where it would be. */
static size_t slot_find(const struct table *table, const char *key, uint64_t hash)
{
    size_t at = hash & (table->slot_count - 1);

    while (table->slots[at]) {
        const struct table_entry *entry = &table->entries[table->slots[at] - 1];

        if (entry->hash == hash && strcmp(entry->key, key) == 0)
            break;
        at = (at + 1) & (table->slot_count - 1);
    }
    return at;
}

void *table_get(const struct table *table, const char *key)
{
    size_t slot = table->slot_count ? slot_find(table, key, key_hash(key)) : 0;

    return table->slot_count && table->slots[slot] ? table->entries[table->slots[slot] - 1].value : NULL;
}

static int slots_grow(struct table *table)
{
    size_t count = table->slot_count ? table->slot_count * 2 : 64;
    uint32_t *slots = mem_zalloc(count, sizeof(*slots));

    if (!slots)
        return -ENOMEM;
    mem_free(table->slots);
    table->slots = slots;
    table->slot_count = count;
    for (size_t i = 0; i < table->count; i++)
        slots[slot_find(table, table->entries[i].key, table->entries[i].hash)] = (uint32_t)(i + 1);
    return 0;
}

int table_put(struct table *table, const char *key, void *value)
{
    uint64_t hash = key_hash(key);
    void *block = table->entries;
    size_t slot;
    char *copy;
    int r;

    if (table->count * 2 >= table->slot_count) {
        r = slots_grow(table);
        if (r < 0)
            return r;
    }
    slot = slot_find(table, key, hash);
    if (table->slots[slot]) {
        table->entries[table->slots[slot] - 1].value = value;
        return 0;
    }
    r = mem_grow(&block, &table->capacity, table->count + 1, table->max, sizeof(*table->entries));
    table->entries = block;
    if (r < 0)
        return r;
    copy = mem_strdup(key);
    if (!copy)
        return -ENOMEM;
    table->entries[table->count++] = (struct table_entry){ copy, value, hash };
    table->slots[slot] = (uint32_t)table->count;
    return 0;
}

/* Closes the gap that an emptied slot leaves in the chains that run over it. */
static void slots_close(struct table *table, size_t hole)
{
    size_t mask = table->slot_count - 1;

    table->slots[hole] = 0;
    for (size_t at = (hole + 1) & mask; table->slots[at]; at = (at + 1) & mask) {
        size_t home = table->entries[table->slots[at] - 1].hash & mask;

        if (((at - home) & mask) >= ((at - hole) & mask)) {
            table->slots[hole] = table->slots[at];
            table->slots[at] = 0;
            hole = at;
        }
    }
}

void *table_remove(struct table *table, const char *key)
{
    size_t slot = table->slot_count ? slot_find(table, key, key_hash(key)) : 0, entry;
    void *value;

    if (!table->slot_count || !table->slots[slot])
        return NULL;
    entry = table->slots[slot] - 1;
    value = table->entries[entry].value;
    mem_free(table->entries[entry].key);
    table->entries[entry].key = NULL;
    slots_close(table, slot);
    table->count--;
    if (entry != table->count) {
        struct table_entry last = table->entries[table->count];

        slot = slot_find(table, last.key, last.hash);
        table->entries[entry] = last;
        table->slots[slot] = (uint32_t)(entry + 1);
    }
    return value;
}
