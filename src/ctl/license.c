/* SPDX-License-Identifier: Apache-2.0 */
/* license.c - licences as they are configured, and the numbers that the core knows them by.
 *
 * Jobs speak of licences by number. A name keeps its number while jobs that are not over ask for it, also when it is
 * configured no longer: then none of it can be had, and those that hold some keep them. The number of a name that
 * nobody uses any more is given to the next new one.
 */
#include <errno.h>
#include <string.h>

#include "ctl/part.h"
#include "wire/license.h"

int license_check(const json_t *settings, struct error *err)
{
    json_t *licenses = json_object_get(settings, "licenses"), *count;
    const char *name;

    if (!licenses || json_is_null(licenses))
        return 0;
    if (!json_is_object(licenses))
        return error_set(err, -EINVAL, "licenses: expected names and counts, such as {matlab: 4}");
    if (json_object_size(licenses) > LICENSES_MAX)
        return error_set(err, -EINVAL, "licenses: more than %d kinds", LICENSES_MAX);
    json_object_foreach(licenses, name, count)
    {
        if (!license_name_good(name, strlen(name)))
            return error_set(err, -EINVAL, "licenses: '%.40s': expected letters, digits and -_.@, at most %d", name,
                             LICENSE_NAME_MAX);
        if (!json_is_integer(count) || json_integer_value(count) < 0 || json_integer_value(count) > LICENSE_COUNT_MAX)
            return error_set(err, -EINVAL, "licenses.%s: expected a number from 0 to %d", name, LICENSE_COUNT_MAX);
    }
    return 0;
}

static bool number_used(const struct ctl *ctl, size_t number)
{
    for (size_t i = 0; i < ctl->book.live_count; i++)
        for (uint32_t k = 0; k < ctl->book.live[i]->wants.license_count; k++)
            if (ctl->book.live[i]->wants.licenses[k].license == number)
                return true;
    return false;
}

static bool has(const json_t *names, const char *name)
{
    for (size_t i = 0; i < json_array_size(names); i++)
        if (strcmp(json_string_value(json_array_get(names, i)), name) == 0)
            return true;
    return false;
}

/* The names by number, as they would be under these settings. */
static json_t *numbered(const struct ctl *ctl, const json_t *settings)
{
    json_t *names = json_deep_copy(ctl->book.licenses), *licenses = json_object_get(settings, "licenses"), *count;
    const char *name;
    size_t spare = 0;

    json_object_foreach(licenses, name, count)
    {
        if (has(names, name))
            continue;
        while (spare < json_array_size(names) &&
               (json_object_get(licenses, json_string_value(json_array_get(names, spare))) || number_used(ctl, spare)))
            spare++;
        if (spare < json_array_size(names))
            (void)json_array_set_new(names, spare, json_string(name));
        else
            (void)json_array_append_new(names, json_string(name));
    }
    return names;
}

json_t *license_describe(const struct ctl *ctl, const json_t *settings)
{
    json_t *names = numbered(ctl, settings), *out = json_object(), *name;
    const json_t *licenses = json_object_get(settings, "licenses");
    size_t i;

    json_array_foreach(names, i, name)(void)
        json_object_set_new(out, json_string_value(name),
                            json_integer(json_integer_value(json_object_get(licenses, json_string_value(name)))));
    json_decref(names);
    return out;
}

void license_keep(struct ctl *ctl)
{
    json_t *names = numbered(ctl, ctl->settings);

    json_decref(ctl->book.licenses);
    ctl->book.licenses = names;
}
