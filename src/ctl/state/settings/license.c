/* SPDX-License-Identifier: Apache-2.0 */
/* license.c - licences as they are configured, and the numbers that the core knows them by.
 *
 * Jobs speak of licences by number. A name keeps its number while jobs that are not over ask for it, also when it is
 * configured no longer: then none of it can be had, and those that hold some keep them. The number of a name that
 * nobody uses any more is given to the next new one.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"
#include "wire/job/license.h"

int license_check(const struct setting_value *settings, struct error *err)
{
    const struct setting_value *licenses = setting_find(settings, "licenses");

    if (!licenses || licenses->kind == SETTING_NULL)
        return 0;
    if (!setting_is_map(licenses))
        return error_set(err, -EINVAL, "licenses: expected names and counts, such as {matlab: 4}");
    if (licenses->count > LICENSES_MAX)
        return error_set(err, -EINVAL, "licenses: more than %d kinds", LICENSES_MAX);
    for (size_t i = 0; i < licenses->count; i++) {
        const struct setting_value *one = &licenses->members[i];

        if (!license_name_good(one->name, strlen(one->name)))
            return error_set(err, -EINVAL, "licenses: '%.40s': expected letters, digits and -_.@, at most %d",
                             one->name, LICENSE_NAME_MAX);
        if (one->kind != SETTING_NUMBER || one->number < 0 || one->number > LICENSE_COUNT_MAX)
            return error_set(err, -EINVAL, "licenses.%s: expected a number from 0 to %d", one->name, LICENSE_COUNT_MAX);
    }
    return 0;
}

static bool number_used(const struct ctl *ctl, size_t number)
{
    const struct ctl_job *job;

    for (size_t i = 0; (job = registry_next(&ctl->registry, &i));)
        for (uint32_t k = 0; k < job->wants.license_count; k++)
            if (job->wants.licenses[k].license == number)
                return true;
    return false;
}

static bool has(const struct record_list *names, const char *name)
{
    for (each_record(const struct ctl_license, license, names))
        if (strcmp(license->name, name) == 0)
            return true;
    return false;
}

/* The names by number, as they would be under these settings. The caller's. */
static struct record_list numbered(const struct ctl *ctl, const struct setting_value *settings)
{
    const struct record_list *had = &ctl->registry.kept.licenses;
    struct record_list names = { .fields = had->fields, .size = had->size };
    const struct setting_value *licenses = setting_find(settings, "licenses");
    struct ctl_license *license;
    size_t spare = 0;

    for (size_t i = 0; i < had->count; i++)
        if ((license = record_add(&names)) != NULL)
            license->name = entry_text(((const struct ctl_license *)record_at(had, i))->name);
    for (size_t i = 0; i < setting_count(licenses); i++) {
        const char *name = licenses->members[i].name;

        if (has(&names, name))
            continue;
        while (spare < names.count && (setting_find(licenses, ((struct ctl_license *)record_at(&names, spare))->name) ||
                                       number_used(ctl, spare)))
            spare++;
        license = spare < names.count ? record_at(&names, spare) : record_add(&names);
        if (!license)
            break;
        mem_free(license->name);
        license->name = entry_text(name);
    }
    return names;
}

void license_write(const struct ctl *ctl, const struct setting_value *settings, struct json_write *json)
{
    struct record_list names = numbered(ctl, settings);
    const struct setting_value *licenses = setting_find(settings, "licenses");

    if (names.count)
        json_write_object(json, "licenses");
    for (each_record(const struct ctl_license, license, &names)) {
        const struct setting_value *count = setting_find(licenses, license->name);

        json_write_i64(json, license->name, count ? count->number : 0);
    }
    if (names.count)
        json_write_close(json);
    record_list_done(&names);
}

void license_keep(struct ctl *ctl)
{
    struct record_list names = numbered(ctl, &ctl->settings);

    record_list_done(&ctl->registry.kept.licenses);
    ctl->registry.kept.licenses = names;
}
