/* SPDX-License-Identifier: Apache-2.0 */
/* entry.c - the kinds of entries by number and name, and their lists of fields as tables. */
#include "ctl/state/entry/entry.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"
#include "wire/text/json_write.h"

#define FIELD(record, type, member, name, tag, since, least, most, expects)                                            \
    { name, FIELD_##type, tag, since, (uint16_t)offsetof(record, member), least, most, expects },
#define X(code, name, fields, number, check, apply)                                                                    \
    static const struct entry_field name##_fields[] = { fields(FIELD, struct entry_##name) };
ENTRIES(X)
#undef X
#undef FIELD

static const struct entry_row rows[ENTRY_COUNT] = {
#define X(code, name, fields, number, check, apply)                                                                    \
    [ENTRY_##                                                                                                          \
        code] = { #name, number, { name##_fields, sizeof(name##_fields) / sizeof(name##_fields[0]) }, check, apply },
    ENTRIES(X)
#undef X
};

const struct entry_row *entry_row(enum entry_kind kind)
{
    assert(kind < ENTRY_COUNT);
    return &rows[kind];
}

const char *entry_name(enum entry_kind kind)
{
    assert(kind < ENTRY_COUNT);
    return rows[kind].name;
}

int entry_find(const char *name)
{
    for (int i = 0; i < ENTRY_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0)
            return i;
    return -ENOENT;
}

uint32_t entry_number(enum entry_kind kind)
{
    assert(kind < ENTRY_COUNT);
    return (uint32_t)rows[kind].number;
}

int entry_of_number(uint64_t number)
{
    for (int i = 0; i < ENTRY_COUNT; i++)
        if ((uint64_t)rows[i].number == number)
            return i;
    return -ENOENT;
}

const struct field_list *entry_fields(enum entry_kind kind)
{
    assert(kind < ENTRY_COUNT);
    return &rows[kind].fields;
}

void *entry_record(struct entry *entry)
{
    return &entry->submit; /* all records begin where the union does */
}

const void *entry_record_of(const struct entry *entry)
{
    return &entry->submit;
}

char *entry_text(const char *text)
{
    return text ? mem_strdup(text) : NULL;
}

void entry_init(struct entry *ret, enum entry_kind kind)
{
    memset(ret, 0, sizeof(*ret)); /* all members of the union, whatever their size */
    ret->kind = kind;
}

struct entry entry_of_job(enum entry_kind kind, int64_t job, const char *by)
{
    struct entry entry;

    assert(kind >= ENTRY_CANCEL && kind <= ENTRY_SET);
    entry_init(&entry, kind);
    entry.hold.job = job;
    entry.hold.by = entry_text(by);
    return entry;
}

int entry_check(const struct entry *entry, struct error *err)
{
    return record_check(entry_fields(entry->kind), entry_record_of(entry), err);
}

void entry_print(const struct entry *entry, struct buf *out)
{
    buf_char(out, '[');
    json_put_string(out, entry_name(entry->kind), strlen(entry_name(entry->kind)));
    buf_char(out, ',');
    record_print(entry_fields(entry->kind), entry_record_of(entry), out);
    buf_char(out, ']');
}

size_t entry_size(const struct entry *entry)
{
    return record_size(entry_fields(entry->kind), entry_record_of(entry));
}

void entry_done(struct entry *entry)
{
    record_done(entry_fields(entry->kind), entry_record(entry));
    ctl_spec_drop(entry->spec);
    entry->spec = NULL;
}

void entries_free(struct entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++)
        entry_done(&entries[i]);
    mem_free(entries);
}
