/* SPDX-License-Identifier: Apache-2.0 */
/* entry_field.c - records by their lists of fields: checked, freed, printed. */
#include "ctl/state/entry/entry_field.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/agent/agent_msg.h"
#include "wire/text/json_write.h"

static const char *const blames[BLAME_COUNT] = { [BLAME_SYSTEM] = "system", [BLAME_USER] = "user" };

const char *field_word(enum field_words which, int64_t value)
{
    int64_t count = which == WORDS_TASK_STATE ? (int64_t)TASK_STATE_COUNT : (int64_t)BLAME_COUNT;

    if (value < 0 || value >= count)
        return NULL;
    return which == WORDS_TASK_STATE ? task_state_name((enum task_state)value) : blames[value];
}

int field_word_find(enum field_words which, const char *name)
{
    if (which == WORDS_TASK_STATE)
        return task_state_find(name);
    for (int i = 0; i < BLAME_COUNT; i++)
        if (strcmp(blames[i], name) == 0)
            return i;
    return -ENOENT;
}

bool field_is_number(enum field_type type)
{
    return type <= FIELD_U64;
}

int64_t field_number(enum field_type type, const void *at)
{
    switch ((int)type) {
    case FIELD_I16:
        return *(const int16_t *)at;
    case FIELD_I32:
        return *(const int32_t *)at;
    case FIELD_U8:
        return *(const uint8_t *)at;
    case FIELD_U16:
        return *(const uint16_t *)at;
    case FIELD_U32:
        return *(const uint32_t *)at;
    case FIELD_U64:
        return (int64_t) * (const uint64_t *)at;
    default: /* NUMBER and SCALED */
        return *(const int64_t *)at;
    }
}

bool field_number_set(enum field_type type, void *at, int64_t value)
{
    switch ((int)type) {
    case FIELD_I16:
        *(int16_t *)at = (int16_t)value;
        break;
    case FIELD_I32:
        *(int32_t *)at = (int32_t)value;
        break;
    case FIELD_U8:
        *(uint8_t *)at = (uint8_t)value;
        break;
    case FIELD_U16:
        *(uint16_t *)at = (uint16_t)value;
        break;
    case FIELD_U32:
        *(uint32_t *)at = (uint32_t)value;
        break;
    case FIELD_U64:
        *(uint64_t *)at = (uint64_t)value;
        break;
    default: /* NUMBER and SCALED */
        *(int64_t *)at = value;
    }
    return field_number(type, at) == value;
}

static const void *field_at(const struct entry_field *field, const void *record)
{
    return (const char *)record + field->offset;
}

bool field_given(const struct entry_field *field, const void *record)
{
    const void *at = field_at(field, record);

    switch (field->type) {
    case FIELD_NUMBER:
    case FIELD_SCALED:
    case FIELD_I16:
    case FIELD_I32:
    case FIELD_U8:
    case FIELD_U16:
    case FIELD_U32:
    case FIELD_U64:
        return field_number(field->type, at) != 0;
    case FIELD_CHARS:
        return *(const char *)at != '\0';
    case FIELD_RAW:
        return *(char *const *)at != NULL;
    case FIELD_FLAG:
        return *(const bool *)at;
    case FIELD_TEXT:
    case FIELD_DOC:
        return *(char *const *)at != NULL;
    case FIELD_WORD:
    case FIELD_OPT_NUMBER:
        return ((const struct opt_number *)at)->given != GIVEN_NOT;
    case FIELD_OPT_TEXT:
    case FIELD_HIDDEN:
        return ((const struct opt_text *)at)->given != GIVEN_NOT;
    case FIELD_TEXTS:
        return ((const struct text_list *)at)->count > 0;
    case FIELD_NUMBERS:
        return ((const struct number_list *)at)->count > 0;
    case FIELD_CHANGES:
        return ((const struct change_list *)at)->count > 0;
    case FIELD_TYPE_COUNT:
        break;
    }
    assert(false);
    return false;
}

int field_refuse(const struct entry_field *field, struct error *err)
{
    if (field->expects)
        return error_set(err, -EINVAL, "%s: %s", field->name, field->expects);
    if (field->type == FIELD_NUMBER || field->type == FIELD_OPT_NUMBER)
        return error_set(err, -EINVAL, "%s: expected a number from %lld to %lld", field->name, (long long)field->least,
                         (long long)field->most);
    return error_set(err, -EINVAL, "%s: expected at most %lld bytes or items", field->name, (long long)field->most);
}

int field_refuse_item(const struct entry_field *field, const char *item, struct error *err)
{
    return error_set(err, -EINVAL, "%s '%.40s': %s", strcmp(field->name, "set") == 0 ? "label" : field->name, item,
                     field->expects ? field->expects : "expected a text, or null");
}

static bool number_good(const struct entry_field *field, const struct opt_number *number)
{
    if (field->type == FIELD_WORD)
        return number->given == GIVEN_NOT ||
               (number->given == GIVEN_VALUE && field_word((enum field_words)field->least, number->value));
    return number->given != GIVEN_VALUE || (number->value >= field->least && number->value <= field->most);
}

/* UTF-8, as it is asked for when it is read again: what could not be read is not written. */
static bool utf8_good(const char *text)
{
    size_t length = text ? strlen(text) : 0;

    for (size_t at = 0, step; at < length; at += step) {
        step = json_utf8_length(text + at, length - at);
        if (!step)
            return false;
    }
    return true;
}

static bool text_good(const struct entry_field *field, const char *text)
{
    size_t length = text ? strlen(text) : 0;

    return (int64_t)length >= field->least && (int64_t)length <= field->most && utf8_good(text);
}

static bool list_good(const struct entry_field *field, const void *at)
{
    const struct text_list *texts = at;
    const struct change_list *changes = at;

    if (field->type == FIELD_NUMBERS)
        return (int64_t)((const struct number_list *)at)->count <= field->most;
    if (field->type == FIELD_CHANGES) {
        for (size_t i = 0; i < changes->count; i++)
            if (!changes->items[i].name || !utf8_good(changes->items[i].name) || !utf8_good(changes->items[i].text))
                return false;
        return (int64_t)changes->count <= field->most;
    }
    for (size_t i = 0; i < texts->count; i++)
        if (!texts->items[i] || !utf8_good(texts->items[i]))
            return false;
    return (int64_t)texts->count <= field->most;
}

static bool field_good(const struct entry_field *field, const void *record)
{
    const void *at = field_at(field, record);
    const struct opt_text *text = at;

    switch (field->type) {
    case FIELD_NUMBER:
        return *(const int64_t *)at >= field->least && *(const int64_t *)at <= field->most;
    case FIELD_SCALED:
        return *(const int64_t *)at >= 0 && *(const int64_t *)at < field->most;
    case FIELD_I16:
    case FIELD_I32:
    case FIELD_U8:
    case FIELD_U16:
    case FIELD_U32:
    case FIELD_U64:
    case FIELD_CHARS:
    case FIELD_RAW: /* of our own making */
    case FIELD_FLAG:
        return true;
    case FIELD_TEXT:
    case FIELD_DOC:
        return text_good(field, *(char *const *)at);
    case FIELD_WORD:
    case FIELD_OPT_NUMBER:
        return number_good(field, at);
    case FIELD_OPT_TEXT:
        return text->given != GIVEN_VALUE || (text->text && text_good(field, text->text));
    case FIELD_HIDDEN: /* has to be said, and may be empty */
        return text->given == GIVEN_NULL || (text->given == GIVEN_VALUE && text->text &&
                                             (int64_t)strlen(text->text) <= field->most && utf8_good(text->text));
    case FIELD_TEXTS:
    case FIELD_NUMBERS:
    case FIELD_CHANGES:
        return list_good(field, at);
    case FIELD_TYPE_COUNT:
        break;
    }
    assert(false);
    return false;
}

int record_check(const struct field_list *list, const void *record, struct error *err)
{
    for (size_t i = 0; i < list->count; i++)
        if (!field_good(&list->fields[i], record))
            return field_refuse(&list->fields[i], err);
    return 0;
}

static void list_done(const struct entry_field *field, void *at)
{
    struct text_list *texts = at;
    struct number_list *numbers = at;
    struct change_list *changes = at;

    if (field->type == FIELD_NUMBERS) {
        mem_free(numbers->items);
        *numbers = (struct number_list){ 0 };
    } else if (field->type == FIELD_TEXTS) {
        for (size_t i = 0; i < texts->count; i++)
            mem_free(texts->items[i]);
        mem_free(texts->items);
        *texts = (struct text_list){ 0 };
    } else {
        for (size_t i = 0; i < changes->count; i++) {
            mem_free(changes->items[i].name);
            mem_free(changes->items[i].text);
        }
        mem_free(changes->items);
        *changes = (struct change_list){ 0 };
    }
}

void record_done(const struct field_list *list, void *record)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct entry_field *field = &list->fields[i];
        void *at = (char *)record + field->offset;

        if (field->type == FIELD_TEXT || field->type == FIELD_DOC || field->type == FIELD_RAW) {
            mem_free(*(char **)at);
            *(char **)at = NULL;
        } else if (field->type == FIELD_OPT_TEXT || field->type == FIELD_HIDDEN) {
            mem_free(((struct opt_text *)at)->text);
            *(struct opt_text *)at = (struct opt_text){ 0 };
        } else if (field->type >= FIELD_TEXTS) {
            list_done(field, at);
        }
    }
}

static int text_copy(char **to, const char *from)
{
    *to = from ? mem_strdup(from) : NULL;
    return from && !*to ? -ENOMEM : 0;
}

static int list_copy(const struct entry_field *field, void *to, const void *from)
{
    const struct text_list *texts = from;
    const struct number_list *numbers = from;
    const struct change_list *changes = from;
    struct text_list *new_texts = to;
    struct number_list *new_numbers = to;
    struct change_list *new_changes = to;
    int r = 0;

    if (field->type == FIELD_NUMBERS && numbers->count) {
        new_numbers->items = mem_zalloc(numbers->count, sizeof(*numbers->items));
        if (!new_numbers->items)
            return -ENOMEM;
        memcpy(new_numbers->items, numbers->items, numbers->count * sizeof(*numbers->items));
        new_numbers->count = numbers->count;
    } else if (field->type == FIELD_TEXTS && texts->count) {
        new_texts->items = mem_zalloc(texts->count, sizeof(*texts->items));
        while (r == 0 && new_texts->items && new_texts->count < texts->count) {
            r = text_copy(&new_texts->items[new_texts->count], texts->items[new_texts->count]);
            new_texts->count++;
        }
        r = new_texts->items ? r : -ENOMEM;
    } else if (field->type == FIELD_CHANGES && changes->count) {
        new_changes->items = mem_zalloc(changes->count, sizeof(*changes->items));
        while (r == 0 && new_changes->items && new_changes->count < changes->count) {
            struct change *change = &new_changes->items[new_changes->count];

            r = text_copy(&change->name, changes->items[new_changes->count].name);
            if (r == 0)
                r = text_copy(&change->text, changes->items[new_changes->count].text);
            new_changes->count++;
        }
        r = new_changes->items ? r : -ENOMEM;
    }
    return r;
}

int record_copy(const struct field_list *list, void *to, const void *from)
{
    int r = 0;

    for (size_t i = 0; i < list->count && r == 0; i++) {
        const struct entry_field *field = &list->fields[i];
        void *at = (char *)to + field->offset;
        const void *source = field_at(field, from);

        if (field_is_number(field->type))
            (void)field_number_set(field->type, at, field_number(field->type, source));
        else if (field->type == FIELD_FLAG)
            *(bool *)at = *(const bool *)source;
        else if (field->type == FIELD_CHARS)
            memcpy(at, source, (size_t)field->most + 1);
        else if (field->type == FIELD_TEXT || field->type == FIELD_DOC || field->type == FIELD_RAW)
            r = text_copy(at, *(char *const *)source);
        else if (field->type == FIELD_WORD || field->type == FIELD_OPT_NUMBER)
            *(struct opt_number *)at = *(const struct opt_number *)source;
        else if (field->type >= FIELD_TEXTS)
            r = list_copy(field, at, source);
        else {
            ((struct opt_text *)at)->given = ((const struct opt_text *)source)->given;
            r = text_copy(&((struct opt_text *)at)->text, ((const struct opt_text *)source)->text);
        }
    }
    return r;
}

static void print_list(const struct entry_field *field, const void *at, struct json_write *json)
{
    const struct text_list *texts = at;
    const struct number_list *numbers = at;
    const struct change_list *changes = at;

    if (field->type == FIELD_CHANGES) {
        json_write_object(json, field->name);
        for (size_t i = 0; i < changes->count; i++)
            if (changes->items[i].text)
                json_write_text(json, changes->items[i].name, changes->items[i].text);
            else
                json_write_null(json, changes->items[i].name);
    } else {
        json_write_array(json, field->name);
        for (size_t i = 0; field->type == FIELD_NUMBERS && i < numbers->count; i++)
            json_write_i64(json, NULL, numbers->items[i]);
        for (size_t i = 0; field->type == FIELD_TEXTS && i < texts->count; i++)
            json_write_text(json, NULL, texts->items[i]);
    }
    json_write_close(json);
}

static void print_opt(const struct entry_field *field, const void *at, struct json_write *json)
{
    const struct opt_number *number = at;
    const struct opt_text *text = at;
    bool is_text = field->type == FIELD_OPT_TEXT || field->type == FIELD_HIDDEN;

    if ((is_text ? text->given : number->given) == GIVEN_NULL)
        json_write_null(json, field->name);
    else if (field->type == FIELD_HIDDEN)
        json_write_text(json, field->name, "(hidden)");
    else if (is_text)
        json_write_text(json, field->name, text->text);
    else if (field->type == FIELD_WORD)
        json_write_text(json, field->name, field_word((enum field_words)field->least, number->value));
    else
        json_write_i64(json, field->name, number->value);
}

void record_print(const struct field_list *list, const void *record, struct buf *out)
{
    struct json_write json;

    json_write_init(&json, out, false);
    json_write_object(&json, NULL);
    for (size_t i = 0; i < list->count; i++) {
        const struct entry_field *field = &list->fields[i];
        const void *at = field_at(field, record);

        if (!field_given(field, record))
            continue;
        if (field_is_number(field->type))
            json_write_i64(&json, field->name, field_number(field->type, at));
        else if (field->type == FIELD_FLAG)
            json_write_bool(&json, field->name, true);
        else if (field->type == FIELD_CHARS)
            json_write_text(&json, field->name, at);
        else if (field->type == FIELD_TEXT || field->type == FIELD_RAW)
            json_write_text(&json, field->name, *(char *const *)at);
        else if (field->type == FIELD_DOC)
            json_write_raw(&json, field->name, *(char *const *)at, strlen(*(char *const *)at));
        else if (field->type >= FIELD_TEXTS)
            print_list(field, at, &json);
        else
            print_opt(field, at, &json);
    }
    json_write_close(&json);
}
