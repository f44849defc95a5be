/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/cluster/setting.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_read.h"

#define SETTING_MEMBERS_MAX ((size_t)1 << 20)
#define SETTING_BYTES_MAX ((size_t)16 << 20)

void setting_init(struct setting_value *ret)
{
    *ret = (struct setting_value){ .kind = SETTING_MAP };
}

/* All but its name. */
static void setting_empty(struct setting_value *setting)
{
    for (size_t i = 0; i < setting->count; i++)
        setting_done(&setting->members[i]);
    mem_free(setting->members);
    mem_free(setting->text);
    *setting = (struct setting_value){ .name = setting->name, .kind = SETTING_MAP };
}

void setting_done(struct setting_value *setting)
{
    setting_empty(setting);
    mem_free(setting->name);
    setting_init(setting);
}

struct setting_value *setting_find(const struct setting_value *map, const char *name)
{
    for (size_t i = 0; map && i < map->count; i++)
        if (strcmp(map->members[i].name, name) == 0)
            return &map->members[i];
    return NULL;
}

struct setting_value *setting_put(struct setting_value *map, const char *name)
{
    struct setting_value *member = setting_find(map, name);
    void *block = map->members;
    int r;

    if (member) {
        setting_empty(member);
        return member;
    }
    r = mem_grow(&block, &map->capacity, map->count + 1, SETTING_MEMBERS_MAX, sizeof(*map->members));
    map->members = block;
    if (r < 0)
        return NULL;
    member = &map->members[map->count];
    setting_init(member);
    member->name = mem_strdup(name);
    if (!member->name)
        return NULL;
    map->count++;
    return member;
}

void setting_remove(struct setting_value *map, const char *name)
{
    struct setting_value *member = setting_find(map, name);
    size_t at;

    if (!member)
        return;
    at = (size_t)(member - map->members);
    setting_done(member);
    map->count--;
    memmove(member, member + 1, (map->count - at) * sizeof(*member));
}

/* Into one that is empty; its name stays. */
static int value_copy(const struct setting_value *from, struct setting_value *to)
{
    int r = 0;

    to->kind = from->kind;
    to->number = from->number;
    to->text = from->text ? mem_strdup(from->text) : NULL;
    if (from->text && !to->text)
        return -ENOMEM;
    for (size_t i = 0; i < from->count && r == 0; i++) {
        struct setting_value *member = setting_put(to, from->members[i].name);

        r = member ? value_copy(&from->members[i], member) : -ENOMEM;
    }
    return r;
}

int setting_copy(const struct setting_value *from, struct setting_value *to)
{
    int r;

    setting_init(to);
    r = value_copy(from, to);
    if (r < 0)
        setting_done(to);
    return r;
}

int setting_put_copy(struct setting_value *map, const char *name, const struct setting_value *from)
{
    struct setting_value *member = setting_put(map, name);

    return member ? value_copy(from, member) : -ENOMEM;
}

int setting_put_text(struct setting_value *map, const char *name, const char *text)
{
    struct setting_value *member = setting_put(map, name);

    if (!member)
        return -ENOMEM;
    member->text = mem_strdup(text);
    member->kind = SETTING_TEXT;
    return member->text ? 0 : -ENOMEM;
}

int setting_put_number(struct setting_value *map, const char *name, int64_t number)
{
    struct setting_value *member = setting_put(map, name);

    if (!member)
        return -ENOMEM;
    member->kind = SETTING_NUMBER;
    member->number = number;
    return 0;
}

/* Into one that is empty. */
static int value_read(const json_t *tree, struct setting_value *to, int depth, struct error *err)
{
    const char *name;
    json_t *value;
    char *text;
    int r = 0;

    if (depth > SETTING_DEPTH_MAX)
        return error_set(err, -EINVAL, "config: more than %d levels", SETTING_DEPTH_MAX);
    if (json_is_object(tree)) {
        json_object_foreach((json_t *)(uintptr_t)tree, name, value)
        {
            struct setting_value *member = r == 0 ? setting_put(to, name) : NULL;

            if (r == 0)
                r = member ? value_read(value, member, depth + 1, err)
                           : error_set(err, -ENOMEM, "no memory for settings");
        }
        return r;
    }
    to->number = json_integer_value(tree);
    to->kind = json_is_string(tree)    ? SETTING_TEXT
               : json_is_integer(tree) ? SETTING_NUMBER
               : json_is_true(tree)    ? SETTING_TRUE
               : json_is_null(tree)    ? SETTING_NULL
                                       : SETTING_OTHER;
    if (to->kind == SETTING_TEXT) {
        to->text = mem_strdup(json_string_value(tree));
    } else if (to->kind == SETTING_OTHER) {
        text = json_text(tree, NULL);
        to->text = text ? mem_strdup(text) : NULL;
        free(text); /* jansson's */
    }
    return (to->kind == SETTING_TEXT || to->kind == SETTING_OTHER) && !to->text
               ? error_set(err, -ENOMEM, "no memory for settings")
               : 0;
}

int setting_read(const char *doc, struct setting_value *ret, struct error *err)
{
    json_t *tree = NULL;
    int r = doc ? json_read("config", doc, strlen(doc), &tree, err) : 0;

    setting_init(ret);
    if (r == 0 && !json_is_object(tree))
        r = error_set(err, -EINVAL, "config: expected an object");
    if (r == 0)
        r = value_read(tree, ret, 0, err);
    json_decref(tree);
    if (r < 0)
        setting_done(ret);
    return r;
}

void setting_write(const struct setting_value *setting, struct json_write *json)
{
    switch (setting->kind) {
    case SETTING_MAP:
        json_write_object(json, setting->name);
        for (size_t i = 0; i < setting->count; i++)
            setting_write(&setting->members[i], json);
        json_write_close(json);
        break;
    case SETTING_TEXT:
        json_write_text(json, setting->name, setting->text);
        break;
    case SETTING_NUMBER:
        json_write_i64(json, setting->name, setting->number);
        break;
    case SETTING_TRUE:
        json_write_bool(json, setting->name, true);
        break;
    case SETTING_NULL:
        json_write_null(json, setting->name);
        break;
    case SETTING_OTHER:
        json_write_raw(json, setting->name, setting->text, strlen(setting->text));
        break;
    }
}

char *setting_doc(const struct setting_value *setting)
{
    CLEANUP_BUF struct buf text = BUF_INIT(SETTING_BYTES_MAX);
    struct setting_value unnamed = *setting;
    struct json_write json;

    unnamed.name = NULL;
    json_write_init(&json, &text, false);
    setting_write(&unnamed, &json);
    return text.error ? NULL : mem_strdup(text.data);
}

const char *setting_text(const struct setting_value *setting)
{
    return setting && setting->kind == SETTING_TEXT ? setting->text : NULL;
}

bool setting_is_map(const struct setting_value *setting)
{
    return setting && setting->kind == SETTING_MAP;
}

size_t setting_count(const struct setting_value *setting)
{
    return setting_is_map(setting) ? setting->count : 0;
}
