/* SPDX-License-Identifier: Apache-2.0 */
/* whatif_plan.c - what is asked for, into policies with their settings and two cluster files: one with the policies
 * that virtual clusters have chosen, for what the cluster does now, and one without, for everything else.
 *
 * Names of files are never taken from a request: what the runs read lies in the folder of the comparison.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/insight/whatif.h"
#include "ctl/log/settings_json.h"
#include "io/file.h"
#include "policy/registry.h"

enum { ADDED_GROUPS_MAX = 16, ADDED_NODES_MAX = 4096, ADDED_GPUS_MAX = 64, VALUE_MAX = 128 };

static int setting_add(struct whatif_policy *policy, const char *key, const char *value, struct error *err)
{
    struct whatif_setting *to = &policy->settings[policy->setting_count];

    if (!value)
        return error_set(err, -EINVAL, "set.%.40s: expected text", key);
    if (*key < 'a' || *key > 'z' || key[strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-_")])
        return error_set(err, -EINVAL, "set: no setting '%.40s'", key);
    if (strchr(value, '/') || strlen(value) > VALUE_MAX)
        return error_set(err, -EINVAL, "set.%.40s: expected a short value; files cannot be named here", key);
    if (policy->setting_count == WHATIF_SETTINGS_MAX)
        return error_set(err, -EINVAL, "set: more than %d settings", WHATIF_SETTINGS_MAX);
    to->key = mem_strdup(key);
    to->value = mem_strdup(value);
    policy->setting_count++;
    return to->key && to->value ? 0 : error_set(err, -ENOMEM, "no memory");
}

static int settings_add(struct whatif_policy *policy, const json_t *set, struct error *err)
{
    const char *key;
    json_t *value;
    int r = 0;

    if (set && !json_is_null(set) && !json_is_object(set))
        return error_set(err, -EINVAL, "set: expected an object of settings");
    json_object_foreach((json_t *)(uintptr_t)set, key, value)
    {
        char number[32];
        const char *text = json_string_value(value);

        if (json_is_integer(value)) {
            (void)snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
            text = number;
        }
        if (r == 0)
            r = setting_add(policy, key, text, err);
    }
    return r;
}

static int policy_read(struct whatif_policy *policy, const json_t *from, const struct server *server, struct error *err)
{
    const struct setting_value *settings = ctl_settings(batcher_ctl(server->batcher));
    const char *name = json_string_value(json_is_object(from) ? json_object_get(from, "policy") : from), *now;
    json_t *set;
    int r;

    if (!name)
        return error_set(err, -EINVAL, "policies: expected names, or {\"policy\": NAME, \"set\": {...}}");
    policy->present = strcmp(name, "present") == 0;
    now = setting_text(setting_find(settings, "policy"));
    policy->label = mem_strdup(name);
    policy->name = mem_strdup(!policy->present ? name : now ? now : server->conf->policy);
    if (!policy->label || !policy->name)
        return error_set(err, -ENOMEM, "no memory");
    if (!policy_find(policy->name))
        return error_set(err, -EINVAL, "policies: no policy '%.40s'; `muster sim policies` lists them", policy->name);
    set = policy->present ? settings_tree(batcher_ctl(server->batcher)) : NULL;
    r = set ? settings_add(policy, json_object_get(set, "set"), err) : 0;
    json_decref(set);
    return r < 0 || !json_is_object(from) ? r : settings_add(policy, json_object_get(from, "set"), err);
}

void whatif_policy_done(struct whatif_policy *policy)
{
    mem_free(policy->label);
    mem_free(policy->name);
    for (size_t i = 0; i < policy->setting_count; i++) {
        mem_free(policy->settings[i].key);
        mem_free(policy->settings[i].value);
    }
    *policy = (struct whatif_policy){ 0 };
}

int whatif_policies(struct whatif *w, const json_t *body, const struct server *server, struct error *err)
{
    const json_t *list = json_object_get(body, "policies"), *one;
    size_t i, count = json_array_size(list);
    int r = 0;

    if (!json_is_array(list) || count == 0 || count > WHATIF_POLICIES_MAX)
        return error_set(err, -EINVAL, "policies: expected a list of 1 to %d; \"present\" is what the cluster does now",
                         WHATIF_POLICIES_MAX);
    json_array_foreach(list, i, one)
    {
        w->policy_count = i + 1;
        r = policy_read(&w->policies[i], one, server, err);
        if (r == 0)
            r = settings_add(&w->policies[i], json_object_get(body, "set"), err);
        if (r < 0)
            break;
    }
    return r;
}

static int group_add(json_t *racks, json_t *skus, const json_t *group, unsigned *number, struct error *err)
{
    int64_t count = json_integer_value(json_object_get(group, "count"));
    int64_t gpus = json_integer_value(json_object_get(group, "gpus"));
    const char *sku = json_string_value(json_object_get(group, "sku"));
    json_t *nodes;

    if (!json_is_object(group) || count < 1 || *number + count > ADDED_NODES_MAX || gpus < 1 || gpus > ADDED_GPUS_MAX ||
        !sku || !*sku || strlen(sku) > 63)
        return error_set(err, -EINVAL,
                         "add_nodes: expected [{\"count\": 2, \"gpus\": 8, \"sku\": \"H100\"}], at most %d nodes of at "
                         "most %d GPUs",
                         ADDED_NODES_MAX, ADDED_GPUS_MAX);
    nodes = json_array();
    for (int64_t i = 0; i < count; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "added%u", ++*number);
        (void)json_array_append_new(nodes, json_pack("{s:s, s:I, s:s}", "name", name, "gpus", gpus, "sku", sku));
    }
    (void)json_array_append_new(racks, json_pack("{s:o}", "nodes", nodes));
    if (!json_object_get(skus, sku))
        (void)json_object_set_new(skus, sku, json_object());
    return 0;
}

static bool node_drop(json_t *racks, const char *name)
{
    json_t *rack, *node;
    size_t r, n;

    json_array_foreach(racks, r, rack) json_array_foreach(json_object_get(rack, "nodes"), n, node)
    {
        const char *have = json_string_value(json_object_get(node, "name"));

        if (!have || strcmp(have, name) != 0)
            continue;
        (void)json_array_remove(json_object_get(rack, "nodes"), n);
        if (json_array_size(json_object_get(rack, "nodes")) == 0)
            (void)json_array_remove(racks, r);
        return true;
    }
    return false;
}

static int capacity_change(json_t *cluster, const json_t *body, struct error *err)
{
    json_t *racks = json_object_get(cluster, "racks"), *skus = json_object_get(cluster, "skus");
    const json_t *add = json_object_get(body, "add_nodes"), *remove = json_object_get(body, "remove_nodes"), *one;
    unsigned number = 0;
    size_t i;
    int r = 0;

    if ((add && !json_is_null(add) && !json_is_array(add)) || json_array_size(add) > ADDED_GROUPS_MAX)
        return error_set(err, -EINVAL, "add_nodes: expected a list of at most %d", ADDED_GROUPS_MAX);
    if (remove && !json_is_null(remove) && !json_is_array(remove))
        return error_set(err, -EINVAL, "remove_nodes: expected a list of names");
    json_array_foreach(remove, i, one)
    {
        const char *name = json_string_value(one);

        if (!name || !node_drop(racks, name))
            return error_set(err, -EINVAL, "remove_nodes: no node '%.60s'", name ? name : "");
    }
    json_array_foreach(add, i, one) if (r == 0) r = group_add(racks, skus, one, &number, err);
    if (r == 0 && json_array_size(racks) == 0)
        return error_set(err, -EINVAL, "the cluster would have no nodes");
    return r;
}

static int cluster_write(const struct whatif *w, const char *name, const json_t *cluster, struct error *err)
{
    char *text = json_dumps(cluster, JSON_INDENT(1)), path[4096];
    int r;

    if (!text)
        return error_set(err, -ENOMEM, "no memory");
    (void)snprintf(path, sizeof(path), "%s/%s", w->folder, name);
    r = file_write_atomic(path, text, strlen(text), err);
    free(text); /* jansson's */
    return r;
}

int whatif_clusters(const struct whatif *w, const json_t *body, const struct server *server, struct error *err)
{
    json_t *cluster = describe_tree(batcher_ctl(server->batcher)), *vcs = json_object_get(body, "vcs"), *vc;
    const char *name;
    int r;

    if (!cluster)
        return error_set(err, -ENOMEM, "no memory for the cluster");
    if (vcs && !json_is_null(vcs) && !json_is_object(vcs))
        r = error_set(err, -EINVAL, "vcs: expected an object as in the configuration");
    else
        r = capacity_change(cluster, body, err);
    if (json_object_size(vcs) > 0)
        (void)json_object_set_new(cluster, "vcs", json_deep_copy(vcs));
    if (r == 0)
        r = cluster_write(w, "cluster.yaml", cluster, err);
    vcs = json_deep_copy(json_object_get(cluster, "vcs"));
    json_object_foreach(vcs, name, vc)
    {
        (void)json_object_del(vc, "policy");
        (void)json_object_del(vc, "set");
        (void)json_object_del(vc, "optimise");
    }
    if (vcs)
        (void)json_object_set_new(cluster, "vcs", vcs);
    if (r == 0)
        r = cluster_write(w, "cluster-plain.yaml", cluster, err);
    json_decref(cluster);
    return r;
}
