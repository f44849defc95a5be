/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* record_list.h - lists of records that have a list of fields (entry_field.h): what the registry keeps of settings,
 * and how a snapshot writes it. */
#include <assert.h>

#include "ctl/state/entry/entry_field.h"

struct record_list {
    const struct field_list *fields;
    size_t size;  /* of a record */
    char *memory; /* owned, as what the records point to is */
    size_t count, capacity;
};

enum { RECORD_LIST_MAX = 1 << 24 };

/* The i-th record. It moves when the list grows. */
static inline void *record_at(const struct record_list *list, size_t i)
{
    assert(i < list->count);
    return list->memory + i * list->size;
}

/* For walking: the first record, and the end. */
static inline void *record_first(const struct record_list *list)
{
    return list->memory;
}

static inline void *record_end(const struct record_list *list)
{
    return list->memory ? list->memory + list->count * list->size : NULL;
}

void *record_add(struct record_list *list); /* empty, at the end; NULL: no memory */
void record_remove(struct record_list *list, size_t i);
void record_list_done(struct record_list *list);

/* Both are whole or not at all: -ENOMEM; -EBADMSG. ret_size: how many bytes were the list's. */
void record_list_encode(const struct record_list *list, struct buf *out);
int record_list_decode(struct record_list *list, uint32_t version, const char *data, size_t size, size_t *ret_size,
                       struct error *err);
