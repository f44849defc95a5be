/* SPDX-License-Identifier: Apache-2.0 */
/* record_list.c - see record_list.h. As bytes: how many, then for each its length and its fields; numbers of four
 * bytes, least significant first. */
#include "ctl/state/entry/record_list.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

enum { NUMBER_BYTES = 4 };

void *record_add(struct record_list *list)
{
    void *block = list->memory, *record;
    int r = mem_grow(&block, &list->capacity, list->count + 1, RECORD_LIST_MAX, list->size);

    list->memory = block;
    if (r < 0)
        return NULL;
    list->count++;
    record = record_at(list, list->count - 1);
    memset(record, 0, list->size);
    return record;
}

void record_remove(struct record_list *list, size_t i)
{
    char *record = record_at(list, i);

    record_done(list->fields, record);
    list->count--;
    memmove(record, record + list->size, (list->count - i) * list->size);
}

void record_list_done(struct record_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        record_done(list->fields, record_at(list, i));
    mem_free(list->memory);
    list->memory = NULL;
    list->count = list->capacity = 0;
}

static void put_number(char *to, size_t value)
{
    for (size_t i = 0; i < NUMBER_BYTES; i++)
        to[i] = (char)(value >> 8 * i);
}

static size_t take_number(const char *from)
{
    size_t value = 0;

    for (size_t i = 0; i < NUMBER_BYTES; i++)
        value |= (size_t)(uint8_t)from[i] << 8 * i;
    return value;
}

void record_list_encode(const struct record_list *list, struct buf *out)
{
    char number[NUMBER_BYTES];

    put_number(number, list->count);
    buf_put(out, number, NUMBER_BYTES);
    for (size_t i = 0; i < list->count; i++) {
        put_number(number, record_size(list->fields, record_at(list, i)));
        buf_put(out, number, NUMBER_BYTES);
        record_encode(list->fields, record_at(list, i), out);
    }
}

int record_list_decode(struct record_list *list, uint32_t version, const char *data, size_t size, size_t *ret_size,
                       struct error *err)
{
    size_t at = NUMBER_BYTES, count = size < at ? 0 : take_number(data);
    int r = size < at ? error_set(err, -EBADMSG, "cut short") : 0;

    for (size_t i = 0; i < count && r == 0; i++) {
        size_t length = size - at < NUMBER_BYTES ? SIZE_MAX : take_number(data + at);
        void *record;

        if (length > size - at || length + NUMBER_BYTES > size - at)
            return error_set(err, -EBADMSG, "cut short");
        record = record_add(list);
        if (!record)
            return error_set(err, -ENOMEM, "no memory");
        r = record_decode(list->fields, version, data + at + NUMBER_BYTES, length, record, err);
        at += NUMBER_BYTES + length;
    }
    *ret_size = at;
    return r;
}
