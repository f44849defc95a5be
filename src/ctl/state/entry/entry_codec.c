/* SPDX-License-Identifier: Apache-2.0 */
/* entry_codec.c - records and batches as bytes, by their lists of fields.
 *
 *   batch   0xE1, version, time, count, entries
 *   entry   number of its kind, length of the record (4 bytes, least significant first), record
 *   record  fields in the order of their tags: tag * 4 + shape, value; what is absent is left out
 *
 * Numbers are groups of seven bits, least significant first; signed ones with the sign in the lowest bit. A shape is a
 * number, bytes (length first), a null, or a list (count first). There is one way to write a record, and anything else
 * is refused, so what was read is written as the same bytes again.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/entry/entry.h"
#include "wire/text/json_write.h"

enum shape { SHAPE_NUMBER, SHAPE_BYTES, SHAPE_NULL, SHAPE_LIST };
enum { BATCH_MAGIC = 0xE1, LENGTH_BYTES = 4, VARINT_MAX = 10 };

/* Writing. */

static void put_unsigned(struct buf *out, uint64_t value)
{
    char bytes[VARINT_MAX];
    size_t size = 0;

    do {
        bytes[size++] = (char)((value & 127) | (value > 127 ? 128 : 0));
        value >>= 7;
    } while (value);
    buf_put(out, bytes, size);
}

static uint64_t folded(int64_t value)
{
    return ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}

static void put_signed(struct buf *out, int64_t value)
{
    put_unsigned(out, folded(value));
}

static void put_bytes(struct buf *out, const char *text)
{
    size_t length = strlen(text);

    put_unsigned(out, length);
    buf_put(out, text, length);
}

static enum shape shape_of(const struct entry_field *field, const void *at)
{
    switch (field->type) {
    case FIELD_NUMBER:
    case FIELD_SCALED:
    case FIELD_I16:
    case FIELD_I32:
    case FIELD_U8:
    case FIELD_U16:
    case FIELD_U32:
    case FIELD_U64:
    case FIELD_FLAG:
        return SHAPE_NUMBER;
    case FIELD_CHARS:
    case FIELD_RAW:
    case FIELD_TEXT:
    case FIELD_DOC:
        return SHAPE_BYTES;
    case FIELD_WORD:
        return SHAPE_BYTES;
    case FIELD_OPT_NUMBER:
        return ((const struct opt_number *)at)->given == GIVEN_NULL ? SHAPE_NULL : SHAPE_NUMBER;
    case FIELD_OPT_TEXT:
    case FIELD_HIDDEN:
        return ((const struct opt_text *)at)->given == GIVEN_NULL ? SHAPE_NULL : SHAPE_BYTES;
    case FIELD_TEXTS:
    case FIELD_NUMBERS:
    case FIELD_CHANGES:
        return SHAPE_LIST;
    case FIELD_TYPE_COUNT:
        break;
    }
    assert(false);
    return SHAPE_NULL;
}

static void put_list(const struct entry_field *field, const void *at, struct buf *out)
{
    const struct text_list *texts = at;
    const struct number_list *numbers = at;
    const struct change_list *changes = at;

    if (field->type == FIELD_NUMBERS) {
        put_unsigned(out, numbers->count);
        for (size_t i = 0; i < numbers->count; i++)
            put_signed(out, numbers->items[i]);
    } else if (field->type == FIELD_TEXTS) {
        put_unsigned(out, texts->count);
        for (size_t i = 0; i < texts->count; i++)
            put_bytes(out, texts->items[i]);
    } else {
        put_unsigned(out, changes->count);
        for (size_t i = 0; i < changes->count; i++) {
            put_bytes(out, changes->items[i].name);
            buf_char(out, changes->items[i].text ? 1 : 0);
            if (changes->items[i].text)
                put_bytes(out, changes->items[i].text);
        }
    }
}

static void put_value(const struct entry_field *field, const void *at, struct buf *out)
{
    const struct opt_number *number = at;

    switch (field->type) {
    case FIELD_NUMBER:
    case FIELD_SCALED:
    case FIELD_I16:
    case FIELD_I32:
    case FIELD_U8:
    case FIELD_U16:
    case FIELD_U32:
    case FIELD_U64:
        put_signed(out, field_number(field->type, at));
        break;
    case FIELD_CHARS:
        put_bytes(out, at);
        break;
    case FIELD_FLAG:
        put_unsigned(out, 1);
        break;
    case FIELD_RAW:
    case FIELD_TEXT:
    case FIELD_DOC:
        put_bytes(out, *(char *const *)at);
        break;
    case FIELD_WORD:
        put_bytes(out, field_word((enum field_words)field->least, number->value));
        break;
    case FIELD_OPT_NUMBER:
        put_signed(out, number->value);
        break;
    case FIELD_OPT_TEXT:
    case FIELD_HIDDEN:
        put_bytes(out, ((const struct opt_text *)at)->text);
        break;
    case FIELD_TEXTS:
    case FIELD_NUMBERS:
    case FIELD_CHANGES:
        put_list(field, at, out);
        break;
    case FIELD_TYPE_COUNT:
        assert(false);
    }
}

void record_encode(const struct field_list *list, const void *record, struct buf *out)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct entry_field *field = &list->fields[i];
        const void *at = (const char *)record + field->offset;
        enum shape shape;

        if (!field_given(field, record))
            continue;
        shape = shape_of(field, at);
        put_unsigned(out, (uint64_t)field->tag << 2 | shape);
        if (shape != SHAPE_NULL)
            put_value(field, at, out);
    }
}

/* Measuring. */

static size_t unsigned_size(uint64_t value)
{
    size_t size = 1;

    for (; value > 127; value >>= 7)
        size++;
    return size;
}

static size_t bytes_size(const char *text)
{
    size_t length = strlen(text);

    return unsigned_size(length) + length;
}

static size_t list_size(const struct entry_field *field, const void *at)
{
    const struct text_list *texts = at;
    const struct number_list *numbers = at;
    const struct change_list *changes = at;
    size_t size;

    if (field->type == FIELD_NUMBERS) {
        size = unsigned_size(numbers->count);
        for (size_t i = 0; i < numbers->count; i++)
            size += unsigned_size(folded(numbers->items[i]));
    } else if (field->type == FIELD_TEXTS) {
        size = unsigned_size(texts->count);
        for (size_t i = 0; i < texts->count; i++)
            size += bytes_size(texts->items[i]);
    } else {
        size = unsigned_size(changes->count);
        for (size_t i = 0; i < changes->count; i++)
            size += bytes_size(changes->items[i].name) + 1 +
                    (changes->items[i].text ? bytes_size(changes->items[i].text) : 0);
    }
    return size;
}

static size_t value_size(const struct entry_field *field, const void *at)
{
    switch (field->type) {
    case FIELD_NUMBER:
    case FIELD_SCALED:
    case FIELD_I16:
    case FIELD_I32:
    case FIELD_U8:
    case FIELD_U16:
    case FIELD_U32:
    case FIELD_U64:
        return unsigned_size(folded(field_number(field->type, at)));
    case FIELD_CHARS:
        return bytes_size(at);
    case FIELD_FLAG:
        return 1;
    case FIELD_RAW:
    case FIELD_TEXT:
    case FIELD_DOC:
        return bytes_size(*(char *const *)at);
    case FIELD_WORD:
        return bytes_size(field_word((enum field_words)field->least, ((const struct opt_number *)at)->value));
    case FIELD_OPT_NUMBER:
        return unsigned_size(folded(((const struct opt_number *)at)->value));
    case FIELD_OPT_TEXT:
    case FIELD_HIDDEN:
        return bytes_size(((const struct opt_text *)at)->text);
    case FIELD_TEXTS:
    case FIELD_NUMBERS:
    case FIELD_CHANGES:
        return list_size(field, at);
    case FIELD_TYPE_COUNT:
        break;
    }
    assert(false);
    return 0;
}

size_t record_size(const struct field_list *list, const void *record)
{
    size_t size = 0;

    for (size_t i = 0; i < list->count; i++) {
        const struct entry_field *field = &list->fields[i];
        const void *at = (const char *)record + field->offset;
        enum shape shape;

        if (!field_given(field, record))
            continue;
        shape = shape_of(field, at);
        size += unsigned_size((uint64_t)field->tag << 2 | shape) + (shape == SHAPE_NULL ? 0 : value_size(field, at));
    }
    return size;
}

/* Reading. What is wrong is remembered in `bad`, and zeros are read from there on. */

struct reader {
    const char *at, *end;
    bool bad;
};

static uint64_t take_unsigned(struct reader *in)
{
    uint64_t value = 0;

    for (unsigned shift = 0; !in->bad && in->at < in->end && shift < 64; shift += 7) {
        uint8_t byte = (uint8_t)*in->at++;

        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            in->bad = byte == 0 && shift > 0; /* longer than it has to be */
            return value;
        }
    }
    in->bad = true;
    return 0;
}

static int64_t take_signed(struct reader *in)
{
    uint64_t value = take_unsigned(in);

    return (int64_t)(value >> 1 ^ (value & 1 ? UINT64_MAX : 0));
}

/* How many of something that takes a byte at least. */
static size_t take_count(struct reader *in)
{
    uint64_t count = take_unsigned(in);

    if (in->bad || count > (size_t)(in->end - in->at)) {
        in->bad = true;
        return 0;
    }
    return (size_t)count;
}

/* Without zeros; NULL: bad. */
static char *take_raw(struct reader *in)
{
    size_t length = take_count(in);
    char *text = in->bad ? NULL : mem_zalloc(length + 1, 1);

    if (!text || memchr(in->at, '\0', length)) {
        in->bad = true;
        mem_free(text);
        return NULL;
    }
    if (length)
        memcpy(text, in->at, length);
    in->at += length;
    return text;
}

/* The same in UTF-8. */
static char *take_text(struct reader *in)
{
    char *text = take_raw(in);
    size_t length = text ? strlen(text) : 0;

    for (size_t at = 0, step; at < length && !in->bad; at += step) {
        step = json_utf8_length(text + at, length - at);
        in->bad = step == 0;
    }
    return text;
}

static void take_chars(const struct entry_field *field, struct reader *in, char *at)
{
    char *text = take_raw(in);
    size_t length = text ? strlen(text) : 0;

    in->bad |= (int64_t)length > field->most;
    if (!in->bad)
        memcpy(at, text, length + 1);
    mem_free(text);
}

/* A list is filled item by item, so that half of one can be freed. */
static void take_list(const struct entry_field *field, struct reader *in, void *at)
{
    size_t count = take_count(in);
    struct text_list *texts = at;
    struct number_list *numbers = at;
    struct change_list *changes = at;
    size_t each = field->type == FIELD_NUMBERS ? sizeof(*numbers->items)
                  : field->type == FIELD_TEXTS ? sizeof(*texts->items)
                                               : sizeof(*changes->items);
    void *items = in->bad || count == 0 ? NULL : mem_zalloc(count, each);

    if (!items) {
        in->bad = true;
        return;
    }
    if (field->type == FIELD_NUMBERS) {
        numbers->items = items;
        while (numbers->count < count && !in->bad)
            numbers->items[numbers->count++] = take_signed(in);
    } else if (field->type == FIELD_TEXTS) {
        texts->items = items;
        while (texts->count < count && !in->bad)
            texts->items[texts->count++] = take_text(in);
    } else {
        changes->items = items;
        while (changes->count < count && !in->bad) {
            struct change *change = &changes->items[changes->count++];
            uint64_t given;

            change->name = take_text(in);
            given = take_unsigned(in);
            in->bad |= given > 1;
            if (given == 1)
                change->text = take_text(in);
        }
    }
}

static void take_word(const struct entry_field *field, struct reader *in, struct opt_number *ret)
{
    char *name = take_text(in);
    int value = name ? field_word_find((enum field_words)field->least, name) : -1;

    in->bad |= value < 0;
    *ret = (struct opt_number){ GIVEN_VALUE, value < 0 ? 0 : value };
    mem_free(name);
}

static void take_value(const struct entry_field *field, struct reader *in, enum shape shape, void *at)
{
    bool null = shape == SHAPE_NULL;

    switch (field->type) {
    case FIELD_NUMBER:
    case FIELD_SCALED:
    case FIELD_I16:
    case FIELD_I32:
    case FIELD_U8:
    case FIELD_U16:
    case FIELD_U32:
    case FIELD_U64:
        in->bad |= !field_number_set(field->type, at, take_signed(in));
        break;
    case FIELD_CHARS:
        take_chars(field, in, at);
        break;
    case FIELD_RAW:
        *(char **)at = take_raw(in);
        break;
    case FIELD_FLAG:
        *(bool *)at = true;
        in->bad |= take_unsigned(in) != 1;
        break;
    case FIELD_TEXT:
    case FIELD_DOC:
        *(char **)at = take_text(in);
        break;
    case FIELD_WORD:
        take_word(field, in, at);
        break;
    case FIELD_OPT_NUMBER:
        *(struct opt_number *)at =
            null ? (struct opt_number){ .given = GIVEN_NULL } : (struct opt_number){ GIVEN_VALUE, take_signed(in) };
        break;
    case FIELD_OPT_TEXT:
    case FIELD_HIDDEN:
        *(struct opt_text *)at =
            null ? (struct opt_text){ .given = GIVEN_NULL } : (struct opt_text){ GIVEN_VALUE, take_text(in) };
        break;
    case FIELD_TEXTS:
    case FIELD_NUMBERS:
    case FIELD_CHANGES:
        take_list(field, in, at);
        break;
    case FIELD_TYPE_COUNT:
        assert(false);
    }
}

int record_decode(const struct field_list *list, uint32_t version, const char *data, size_t size, void *record,
                  struct error *err)
{
    struct reader in = { data, data + size, false };
    size_t next = 0;

    while (in.at < in.end) {
        uint64_t key = take_unsigned(&in);
        const struct entry_field *field;
        void *at;

        while (next < list->count && list->fields[next].tag < key >> 2)
            next++;
        if (in.bad || next == list->count || list->fields[next].tag != key >> 2)
            return error_set(err, -EBADMSG, "field %llu is not known, or not in its place",
                             (unsigned long long)(key >> 2));
        field = &list->fields[next++];
        at = (char *)record + field->offset;
        if (field->since > version)
            return error_set(err, -EBADMSG, "%s: no field of version %u", field->name, version);
        take_value(field, &in, (enum shape)(key & 3), at);
        if (in.bad || !field_given(field, record) || shape_of(field, at) != (key & 3))
            return error_set(err, -EBADMSG, "%s: not a value of this field", field->name);
    }
    return record_check(list, record, err) < 0 ? -EBADMSG : 0;
}

/* Batches. */

void batch_encode_begin(struct buf *out, usec_t at, size_t count)
{
    buf_char(out, (char)BATCH_MAGIC);
    put_unsigned(out, ENTRY_VERSION);
    put_signed(out, at);
    put_unsigned(out, count);
}

void batch_encode_entry(struct buf *out, const struct entry *entry)
{
    size_t start, size;

    put_unsigned(out, entry_number(entry->kind));
    start = out->size;
    buf_put(out, (const char[LENGTH_BYTES]){ 0 }, LENGTH_BYTES);
    record_encode(entry_fields(entry->kind), entry_record_of(entry), out);
    if (out->error)
        return;
    size = out->size - start - LENGTH_BYTES;
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        out->data[start + i] = (char)(size >> 8 * i);
}

bool batch_is(const char *data, size_t size)
{
    return size > 0 && (uint8_t)data[0] == BATCH_MAGIC;
}

static int entry_decode(struct reader *in, uint32_t version, struct entry *ret, struct error *err)
{
    int kind = entry_of_number(take_unsigned(in));
    size_t size = 0;

    if (in->bad || kind < 0 || in->end - in->at < LENGTH_BYTES)
        return error_set(err, -EBADMSG, "an entry of no known kind");
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        size |= (size_t)(uint8_t)*in->at++ << 8 * i;
    if (size > (size_t)(in->end - in->at))
        return error_set(err, -EBADMSG, "%s: cut short", entry_name((enum entry_kind)kind));
    ret->kind = (enum entry_kind)kind;
    in->at += size;
    if (record_decode(entry_fields(ret->kind), version, in->at - size, size, entry_record(ret), err) < 0)
        return error_prefix(err, -EBADMSG, "%s", entry_name(ret->kind));
    return 0;
}

int batch_decode(const char *data, size_t size, usec_t *ret_at, struct entry **ret_entries, size_t *ret_count,
                 struct error *err)
{
    struct reader in = { data, data + size, false };
    struct entry *entries = NULL;
    uint64_t version;
    size_t count;
    int r = 0;

    if (!batch_is(data, size))
        return error_set(err, -EBADMSG, "not a batch");
    in.at++;
    version = take_unsigned(&in);
    if (!in.bad && version > ENTRY_VERSION)
        return error_set(err, -EPROTONOSUPPORT, "written by a newer version: form %llu, this one reads up to %d",
                         (unsigned long long)version, ENTRY_VERSION);
    *ret_at = take_signed(&in);
    count = take_count(&in);
    entries = in.bad || version == 0 ? NULL : mem_zalloc(count + 1, sizeof(*entries));
    if (!entries)
        return error_set(err, -EBADMSG, "damaged at its beginning");
    for (*ret_count = 0; r == 0 && *ret_count < count; ++*ret_count)
        r = entry_decode(&in, (uint32_t)version, &entries[*ret_count], err);
    if (r == 0 && in.at != in.end)
        r = error_set(err, -EBADMSG, "bytes after its last entry");
    if (r < 0) {
        entries_free(entries, *ret_count);
        return r;
    }
    *ret_entries = entries;
    return 0;
}
