/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/log/settings_json.h"

#include <string.h>

#include "base/alloc.h"
#include "wire/hived/hived_settings.h"
#include "wire/text/json_read.h"

#define DESCRIPTION_BYTES_MAX ((size_t)64 << 20)

json_t *setting_tree(const struct setting_value *setting)
{
    char *doc = setting_doc(setting);
    json_t *tree = NULL;

    if (doc && json_read("settings", doc, strlen(doc), &tree, NULL) < 0)
        tree = NULL;
    mem_free(doc);
    return tree;
}

json_t *settings_tree(const struct ctl *ctl)
{
    return setting_tree(ctl_settings(ctl));
}

json_t *describe_tree(const struct ctl *ctl)
{
    CLEANUP_BUF struct buf text = BUF_INIT(DESCRIPTION_BYTES_MAX);
    json_t *tree = NULL;

    if (ctl_describe(ctl, &text) < 0 || json_read("cluster", text.data, text.size, &tree, NULL) < 0)
        return NULL;
    return tree;
}

static bool vc_closed(const json_t *vc)
{
    return json_is_true(json_object_get(vc, "closed"));
}

void settings_arrange(const json_t *was, json_t *settings, bool stay)
{
    json_t *had = json_object_get(was, "vcs"), *want = json_object_get(settings, "vcs"), *out, *value;
    const char *name;

    if (!json_is_object(had) || (want && !json_is_object(want)))
        return;
    if (!want && (hived_settings_any(was) || json_object_size(had) > (json_object_get(had, "default") != NULL))) {
        /* Nothing is said of virtual clusters, and there are others than the one that everybody has: they stay. */
        (void)json_object_set_new(settings, "vcs", json_deep_copy(had));
        hived_settings_keep(was, settings);
        return;
    }
    if (!want)
        return;
    out = json_object();
    json_object_foreach(had, name, value)
    {
        json_t *own = json_object_get(want, name);

        if (own || stay || vc_closed(value))
            (void)json_object_set(out, name, own ? own : value);
    }
    json_object_foreach(want, name, value)
    {
        if (!json_object_get(out, name))
            (void)json_object_set(out, name, value);
    }
    (void)json_object_set_new(settings, "vcs", out);
}
