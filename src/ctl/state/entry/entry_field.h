/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* entry_field.h - the types of the fields of log entries and of what a snapshot holds, and what can be done with a
 * record by its list of fields.
 *
 * A record is a struct whose members are declared once, in a list of entry_kinds.h. The list gives the struct and a
 * table of struct entry_field; checking, freeing, encoding, decoding, measuring and printing walk that table.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum {
    ENTRY_VERSION = 2,
    ENTRY_NAME_MAX = 255,
    ENTRY_WORDS_MAX = 65536,
    ENTRY_DOC_MAX = 8 << 20,
    ENTRY_VALUES_MAX = 1 << 20
};

/* An update distinguishes a value that is absent from one that is removed. */
enum given { GIVEN_NOT, GIVEN_NULL, GIVEN_VALUE };

struct opt_number {
    enum given given;
    int64_t value;
};

struct opt_text {
    enum given given;
    char *text; /* owned; only with GIVEN_VALUE */
};

struct text_list {
    char **items; /* owned, as each text is */
    size_t count;
};

struct number_list {
    int64_t *items; /* owned */
    size_t count;
};

/* Names with new values; a name without text is removed. */
struct change_list {
    struct change {
        char *name, *text;
    } * items;
    size_t count;
};

/* least and most are the limits of numbers and of lengths in bytes or items. A text with least > 0 must be there. */
enum field_type {
    FIELD_NUMBER, /* int64_t; 0 is the same as absent */
    FIELD_SCALED, /* int64_t from 0 below `most`; outside, in JSON, a real number of `least` such units */
    FIELD_I16,    /* the same in an integer of that type, of a struct that is more than its fields */
    FIELD_I32,
    FIELD_U8,
    FIELD_U16,
    FIELD_U32,
    FIELD_U64,
    FIELD_FLAG,       /* bool; false is the same as absent */
    FIELD_CHARS,      /* char [most + 1]; any bytes */
    FIELD_RAW,        /* char *, any bytes but zeros; NULL: absent */
    FIELD_TEXT,       /* char *, NULL: absent */
    FIELD_DOC,        /* char *, one JSON document that the log does not look into; NULL: absent */
    FIELD_WORD,       /* struct opt_number: a value of an enum, written by name; `least`: which (enum field_words) */
    FIELD_OPT_NUMBER, /* struct opt_number */
    FIELD_OPT_TEXT,   /* struct opt_text */
    FIELD_HIDDEN,     /* the same, but not printed */
    FIELD_TEXTS,      /* struct text_list */
    FIELD_NUMBERS,    /* struct number_list */
    FIELD_CHANGES,    /* struct change_list */
    FIELD_TYPE_COUNT
};

#define FIELD_C_NUMBER int64_t
#define FIELD_C_SCALED int64_t
#define FIELD_C_FLAG bool
#define FIELD_C_TEXT char *
#define FIELD_C_DOC char *
#define FIELD_C_WORD struct opt_number
#define FIELD_C_OPT_NUMBER struct opt_number
#define FIELD_C_OPT_TEXT struct opt_text
#define FIELD_C_HIDDEN struct opt_text
#define FIELD_C_TEXTS struct text_list
#define FIELD_C_NUMBERS struct number_list
#define FIELD_C_CHANGES struct change_list

enum field_words { WORDS_TASK_STATE, WORDS_BLAME };

/* What went wrong with a task that could not be started, by its agent. */
enum blame { BLAME_SYSTEM, BLAME_USER, BLAME_COUNT };

struct entry_field {
    const char *name; /* outside: the key in JSON, "a.b" for a key of an object; "." for all of the object */
    enum field_type type;
    uint8_t tag;   /* in the durable form; ascending in a list, never used again */
    uint8_t since; /* the version of the durable form that has it first */
    uint16_t offset;
    int64_t least, most;
    const char *expects; /* what a person is told who gives something else; NULL: the limits */
};

struct field_list {
    const struct entry_field *fields;
    size_t count;
};

/* The type of a member that is a number, a flag or characters, for a row of a table. */
#define FIELD_OF(member)                                                                                               \
    _Generic((member), int64_t                                                                                         \
             : FIELD_NUMBER, int16_t                                                                                   \
             : FIELD_I16, int32_t                                                                                      \
             : FIELD_I32, uint8_t                                                                                      \
             : FIELD_U8, uint16_t                                                                                      \
             : FIELD_U16, uint32_t                                                                                     \
             : FIELD_U32, uint64_t                                                                                     \
             : FIELD_U64, bool                                                                                         \
             : FIELD_FLAG, char *                                                                                      \
             : FIELD_CHARS)

/* A whole number, in whatever integer; false: it does not fit. */
bool field_is_number(enum field_type type);
int64_t field_number(enum field_type type, const void *at);
bool field_number_set(enum field_type type, void *at, int64_t value);

const char *field_word(enum field_words which, int64_t value); /* NULL: there is no such value */
int field_word_find(enum field_words which, const char *name); /* -ENOENT */

/* Whether the record holds more than nothing in this field. */
bool field_given(const struct entry_field *field, const void *record);
/* The first value that the declaration does not allow, in words. -EINVAL. */
int record_check(const struct field_list *list, const void *record, struct error *err);
/* "NAME: expected ..." for a value of the wrong type or beyond the limits. -EINVAL. */
int field_refuse(const struct entry_field *field, struct error *err);
int field_refuse_item(const struct entry_field *field, const char *item, struct error *err);
/* Frees what the record owns; it is empty then. */
void record_done(const struct field_list *list, void *record);
/* The same in an empty record; -ENOMEM: part of it, to be freed. */
int record_copy(const struct field_list *list, void *to, const void *from);
/* As one JSON object, for people. */
void record_print(const struct field_list *list, const void *record, struct buf *out);

/* Bytes: entry_codec.c. What is not well-formed, not known or not as it would be written is refused: -EBADMSG. */
size_t record_size(const struct field_list *list, const void *record);
void record_encode(const struct field_list *list, const void *record, struct buf *out);
int record_decode(const struct field_list *list, uint32_t version, const char *data, size_t size, void *record,
                  struct error *err);
