/* SPDX-License-Identifier: Apache-2.0 */
/* entry_json.c - see entry_json.h.
 *
 * Members of an object mostly come in the order of the fields, so the search for a field begins behind the last one.
 */
#include "ctl/log/entry_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_read.h"

char *entry_doc(const json_t *tree)
{
    char *text = json_text(tree, NULL), *own = text ? mem_strdup(text) : NULL;

    free(text); /* jansson's */
    return own;
}

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "no memory for a request");
}

/* The items of a list of texts or numbers; those of a list inside it as if they stood there. */
static size_t items_count(const json_t *list)
{
    size_t count = 0;

    for (size_t i = 0; i < json_array_size(list); i++)
        count += json_is_array(json_array_get(list, i)) ? json_array_size(json_array_get(list, i)) : 1;
    return count;
}

static bool item_take(const struct entry_field *field, const json_t *item, void *at)
{
    struct text_list *texts = at;
    struct number_list *numbers = at;

    if (field->type == FIELD_TEXTS && json_is_string(item))
        texts->items[texts->count++] = entry_text(json_string_value(item));
    else if (field->type == FIELD_NUMBERS && json_is_integer(item))
        numbers->items[numbers->count++] = json_integer_value(item);
    else
        return false;
    return true;
}

static int list_take(const struct entry_field *field, const json_t *value, void *at, struct error *err)
{
    bool is_text = field->type == FIELD_TEXTS;
    void *items = mem_zalloc(items_count(value) + 1, is_text ? sizeof(char *) : sizeof(int64_t));

    if (!items)
        return no_memory(err);
    if (is_text)
        ((struct text_list *)at)->items = items;
    else
        ((struct number_list *)at)->items = items;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);

        if (!item_take(field, item, at) && field->expects)
            return field_refuse(field, err);
        for (size_t k = 0; k < json_array_size(item); k++)
            (void)item_take(field, json_array_get(item, k), at);
    }
    return 0;
}

static int changes_take(const struct entry_field *field, const json_t *value, struct change_list *list,
                        struct error *err)
{
    const char *name;
    json_t *item;

    list->items = mem_zalloc(json_object_size(value) + 1, sizeof(*list->items));
    if (!list->items)
        return no_memory(err);
    json_object_foreach((json_t *)(uintptr_t)value, name, item)
    {
        if (!json_is_string(item) && !json_is_null(item))
            return field_refuse_item(field, name, err);
        list->items[list->count++] = (struct change){ entry_text(name), entry_text(json_string_value(item)) };
    }
    return 0;
}

/* A real number in units; 0: none that could be. */
static int64_t scaled(const struct entry_field *field, const json_t *value)
{
    double number = json_number_value(value) * (double)field->least;

    return number > 0 && number < (double)field->most ? (int64_t)(number + 0.5) : 0;
}

static void word_take(const struct entry_field *field, const json_t *value, struct opt_number *ret)
{
    int word = json_is_string(value) ? field_word_find((enum field_words)field->least, json_string_value(value)) : -1;

    if (word >= 0)
        *ret = (struct opt_number){ GIVEN_VALUE, word };
}

/* Whether the type is one that the field can hold; takes it. */
static bool simple_take(const struct entry_field *field, const json_t *value, void *at)
{
    bool integer = json_is_integer(value), text = json_is_string(value), null = json_is_null(value);

    switch ((int)field->type) {
    case FIELD_NUMBER:
        *(int64_t *)at = json_integer_value(value);
        return integer;
    case FIELD_SCALED:
        *(int64_t *)at = scaled(field, value);
        return true;
    case FIELD_FLAG:
        *(bool *)at = json_is_true(value) || json_is_object(value);
        return true;
    case FIELD_TEXT:
        *(char **)at = entry_text(json_string_value(value));
        return text;
    case FIELD_DOC:
        *(char **)at = entry_doc(value);
        return *(char **)at != NULL;
    case FIELD_OPT_NUMBER:
        if (integer || null || json_is_boolean(value))
            *(struct opt_number *)at = (struct opt_number){ null ? GIVEN_NULL : GIVEN_VALUE,
                                                            integer ? json_integer_value(value) : json_is_true(value) };
        return integer || null || (json_is_boolean(value) && !field->expects);
    case FIELD_OPT_TEXT:
    case FIELD_HIDDEN:
        if (text || null)
            *(struct opt_text *)at =
                (struct opt_text){ null ? GIVEN_NULL : GIVEN_VALUE, entry_text(json_string_value(value)) };
        return text || null;
    default: /* taken elsewhere */
        return false;
    }
}

static int field_take(const struct entry_field *field, const json_t *value, void *record, struct error *err)
{
    void *at = (char *)record + field->offset;

    if (field->type == FIELD_WORD) {
        word_take(field, value, at);
        return 0;
    }
    if (field->type == FIELD_CHANGES)
        return json_is_object(value) ? changes_take(field, value, at, err) : field_refuse(field, err);
    if (field->type == FIELD_TEXTS || field->type == FIELD_NUMBERS) {
        if (!json_is_array(value))
            return field->expects && !json_is_null(value) ? field_refuse(field, err) : 0;
        return list_take(field, value, at, err);
    }
    /* A text with a zero in it is none. */
    if (json_is_string(value) && strlen(json_string_value(value)) != json_string_length(value))
        return field_refuse(field, err);
    if (!simple_take(field, value, at) && field->expects)
        return field_refuse(field, err);
    return 0;
}

/* The field that a key means, from `from` on and round; the count: none. */
static size_t field_find(const struct field_list *list, const char *key, size_t from)
{
    for (size_t i = 0; i < list->count; i++) {
        size_t at = from + i < list->count ? from + i : from + i - list->count;

        if (list->fields[at].name[0] == key[0] && strcmp(list->fields[at].name, key) == 0)
            return at;
    }
    return list->count;
}

/* Members of an object whose fields are called "KEY.MEMBER". */
static int group_take(const struct field_list *list, const char *key, const json_t *object, void *record,
                      struct error *err)
{
    size_t length = strlen(key);
    int r = 0;

    for (size_t i = 0; i < list->count && r == 0; i++) {
        const struct entry_field *field = &list->fields[i];
        const json_t *value;

        if (field->name[0] != key[0] || strncmp(field->name, key, length) != 0 || field->name[length] != '.')
            continue;
        value = json_object_get(object, field->name + length + 1);
        if (value)
            r = field_take(field, value, record, err);
    }
    return r;
}

static int object_take(const struct field_list *list, const json_t *body, void *record, struct error *err)
{
    const char *key;
    json_t *value;
    size_t next = 0;
    int r;

    if (list->fields[0].name[0] == '.')
        return field_take(&list->fields[0], body, record, err);
    json_object_foreach((json_t *)(uintptr_t)body, key, value)
    {
        size_t at = field_find(list, key, next);

        if (at < list->count) {
            next = at + 1;
            r = field_take(&list->fields[at], value, record, err);
            if (r < 0)
                return r;
        }
        if (json_is_object(value) && (at == list->count || list->fields[at].type == FIELD_FLAG)) {
            r = group_take(list, key, value, record, err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

int record_from_json(const struct field_list *list, const json_t *object, void *record, struct error *err)
{
    int r = object_take(list, object, record, err);

    return r < 0 ? r : record_check(list, record, err);
}

void entry_predict(struct entry_submit *submit, const json_t *predicted)
{
    (void)group_take(entry_fields(ENTRY_SUBMIT), "predicted", predicted, submit, NULL);
}

/* The ends of tasks of roles: [[role, index, exit, signal], ...]. What is none of these is passed over. */
static int ends_take(const json_t *list, struct entry_report *report, struct error *err)
{
    size_t size = json_array_size(list);

    if (size == 0)
        return 0;
    report->ended_roles.items = mem_zalloc(size, sizeof(char *));
    report->ended_values.items = mem_zalloc(size * 3, sizeof(int64_t));
    if (!report->ended_roles.items || !report->ended_values.items)
        return no_memory(err);
    for (size_t i = 0; i < size; i++) {
        const json_t *end = json_array_get(list, i);

        if (!json_is_string(json_array_get(end, 0)) || !json_is_integer(json_array_get(end, 1)) ||
            !json_is_integer(json_array_get(end, 2)) || !json_is_integer(json_array_get(end, 3)))
            continue;
        report->ended_roles.items[report->ended_roles.count++] = entry_text(json_string_value(json_array_get(end, 0)));
        for (size_t k = 1; k <= 3; k++)
            report->ended_values.items[report->ended_values.count++] = json_integer_value(json_array_get(end, k));
    }
    return 0;
}

static bool percent_good(const json_t *used, const char *key)
{
    double value = json_number_value(json_object_get(used, key));

    return value >= 0 && value <= 100;
}

/* A node may say anything: what cannot be is not noted. */
static void used_check(const json_t *used, struct entry_report *report)
{
    if (!percent_good(used, "util") || !percent_good(used, "util_dev"))
        report->used_samples = 0;
}

int entry_from_json(enum entry_kind kind, const json_t *body, struct entry *ret, struct error *err)
{
    struct error own;
    int r;

    err = err ? err : &own;
    entry_init(ret, kind);
    if (!json_is_object(body))
        return error_set(err, -EINVAL, "%s: expected an object", entry_name(kind));
    r = object_take(entry_fields(kind), body, entry_record(ret), err);
    if (r == 0 && kind == ENTRY_REPORT) {
        used_check(json_object_get(body, "used"), &ret->report);
        r = ends_take(json_object_get(body, "ended"), &ret->report, err);
    }
    return r < 0 ? r : entry_check(ret, err);
}

int batch_from_json(const char *data, size_t size, usec_t *ret_at, struct entry **ret_entries, size_t *ret_count,
                    struct error *err)
{
    json_t *batch = NULL, *list;
    struct entry *entries;
    size_t count;
    int r = json_read("log", data, size, &batch, err);

    list = json_object_get(batch, "e");
    count = json_array_size(list);
    entries = r == 0 ? mem_zalloc(count + 1, sizeof(*entries)) : NULL;
    if (r == 0 && !entries)
        r = no_memory(err);
    for (*ret_count = 0; r == 0 && *ret_count < count; ++*ret_count) {
        const json_t *pair = json_array_get(list, *ret_count);
        const char *name = json_string_value(json_array_get(pair, 0));
        int kind = entry_find(name ? name : "");

        if (kind < 0)
            r = error_set(err, -EPROTONOSUPPORT, "an entry '%.40s' of another version", name ? name : "");
        else
            r = entry_from_json((enum entry_kind)kind, json_array_get(pair, 1), &entries[*ret_count], err);
    }
    *ret_at = json_integer_value(json_object_get(batch, "at"));
    json_decref(batch);
    if (r < 0)
        entries_free(entries, entries ? *ret_count : 0);
    else
        *ret_entries = entries;
    return r;
}
