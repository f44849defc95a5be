/* SPDX-License-Identifier: Apache-2.0 */
/* license.c - see license.h. */
#include "wire/job/license.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "wire/job/submission.h"
#include "wire/text/decimal.h"

bool license_name_good(const char *name, size_t length)
{
    static const char others[] = "-_.@";

    if (length == 0 || length > LICENSE_NAME_MAX || !isalnum((unsigned char)*name))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && (name[i] == '\0' || !strchr(others, name[i])))
            return false;
    return true;
}

int license_parse(const char *text, size_t length, size_t *ret_name_length, uint32_t *ret_count)
{
    const char *colon = memchr(text, ':', length);
    size_t name = colon ? (size_t)(colon - text) : length;
    int64_t count = 1;

    if (!license_name_good(text, name) || (colon && decimal_parse_i64(colon + 1, length - name - 1, &count) < 0) ||
        count < 1 || count > LICENSE_COUNT_MAX)
        return -EINVAL;
    *ret_name_length = name;
    *ret_count = (uint32_t)count;
    return 0;
}

int licenses_read_yaml(struct yaml_doc *doc, yaml_node_t *map, int (*put)(void *arg, const char *name, uint32_t count),
                       void *arg, struct error *err)
{
    yaml_node_t *key, *value;
    int r = yaml_map_check(doc, map, "licenses", err);

    for (size_t i = 0; r == 0 && yaml_pair(doc, map, i, &key, &value); i++) {
        const char *name = (const char *)key->data.scalar.value;
        int64_t count = 0;

        if (!license_name_good(name, strlen(name)))
            return yaml_fail(doc, key, err, "licenses: expected names of letters, digits and -_.@, at most %d",
                             LICENSE_NAME_MAX);
        if (i == LICENSES_MAX)
            return yaml_fail(doc, key, err, "licenses: more than %d kinds", LICENSES_MAX);
        r = yaml_i64(doc, value, 0, LICENSE_COUNT_MAX, &count, err);
        if (r == 0 && put(arg, name, (uint32_t)count) < 0)
            r = error_set(err, -ENOMEM, "%s: out of memory", doc->file);
    }
    return r;
}

int license_add(struct jobspec *spec, struct names *names, const char *name, size_t length, uint32_t count)
{
    uint32_t number, at;
    int r = names_put(names, name, length, &number);

    if (r < 0)
        return r;
    if (number >= LICENSES_MAX || spec->license_count == LICENSE_NEEDS_MAX)
        return -E2BIG;
    for (at = spec->license_count; at > 0 && spec->licenses[at - 1].license >= number; at--) {
        if (spec->licenses[at - 1].license == number)
            return -EEXIST;
        spec->licenses[at] = spec->licenses[at - 1];
    }
    spec->licenses[at] = (struct license_need){ count, (uint8_t)number };
    spec->license_count++;
    return 0;
}

void license_list(const struct cluster_spec *cluster, struct buf *out)
{
    for (uint32_t i = 0; i < cluster->license_count; i++)
        if (cluster->licenses[i].count)
            buf_printf(out, "%s%s (%u)", out->size ? ", " : "", names_get(&cluster->names, cluster->licenses[i].name),
                       cluster->licenses[i].count);
}

uint32_t license_find(const struct cluster_spec *cluster, const char *name)
{
    for (uint32_t i = 0; i < cluster->license_count; i++)
        if (strcmp(names_get(&cluster->names, cluster->licenses[i].name), name) == 0)
            return i;
    return LICENSES_MAX;
}

uint32_t license_count(const struct submission *s, size_t i)
{
    int64_t count = 0;

    (void)decimal_parse_i64(s->licenses[i].value, strlen(s->licenses[i].value), &count);
    return (uint32_t)count;
}
