/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - see names.h. FNV-1a over an open-addressing table that is at most half full. */
#include "base/names.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"

static uint64_t hash(const char *text, size_t length)
{
    uint64_t h = 0xcbf29ce484222325ULL;

    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3ULL;
    return h;
}

/* The table position that holds `text`, or the empty one where it would go. */
static size_t probe(const struct names *names, const char *text, size_t length)
{
    size_t mask = names->table_size - 1;
    size_t at = (size_t)hash(text, length) & mask;

    while (names->table[at]) {
        const char *known = names->text[names->table[at] - 1];

        if (strncmp(known, text, length) == 0 && known[length] == '\0')
            break;
        at = (at + 1) & mask;
    }
    return at;
}

static int table_grow(struct names *names)
{
    size_t size = names->table_size ? names->table_size * 2 : 64;
    uint32_t *old = names->table;
    uint32_t *table;

    if (names->count * 2 < names->table_size)
        return 0;
    table = mem_zalloc(size, sizeof(*table));
    if (!table)
        return -ENOMEM;
    names->table = table;
    names->table_size = size;
    for (size_t i = 0; i < names->count; i++)
        table[probe(names, names->text[i], strlen(names->text[i]))] = (uint32_t)i + 1;
    mem_free(old);
    return 0;
}

void names_done(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        mem_free(names->text[i]);
    mem_free(names->text);
    mem_free(names->table);
    *names = (struct names){ 0 };
}

int names_put(struct names *names, const char *text, size_t length, uint32_t *ret_index)
{
    size_t at;
    char *copy;
    int r;

    if (length > NAME_LENGTH_MAX || memchr(text, '\0', length))
        return -ENAMETOOLONG;
    r = table_grow(names);
    if (r < 0)
        return r;
    at = probe(names, text, length);
    if (names->table[at]) {
        *ret_index = names->table[at] - 1;
        return 0;
    }
    r = mem_grow((void **)&names->text, &names->capacity, names->count + 1, NAMES_MAX, sizeof(*names->text));
    if (r < 0)
        return r;
    copy = mem_zalloc(length + 1, 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, text, length);
    names->text[names->count] = copy;
    names->table[at] = (uint32_t)++names->count;
    *ret_index = (uint32_t)names->count - 1;
    return 0;
}

uint32_t names_find(const struct names *names, const char *text, size_t length)
{
    size_t at;

    if (!names->table_size || length > NAME_LENGTH_MAX)
        return NAME_NONE;
    at = probe(names, text, length);
    return names->table[at] ? names->table[at] - 1 : NAME_NONE;
}

const char *names_get(const struct names *names, uint32_t index)
{
    if (index == NAME_NONE)
        return "";
    assert(index < names->count);
    return names->text[index];
}
