/* SPDX-License-Identifier: Apache-2.0 */
/* conf.c - see conf.h. */
#include "k8s/conf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "io/file.h"
#include "policy/registry.h"
#include "wire/text/yaml_json.h"

enum { CONF_BYTES_MAX = 1 << 22 };

static int keys_check(const json_t *settings, struct error *err)
{
    static const char *const keys[] = { "policy", "set", "vcs", "cluster", "namespaces", "gpu_resources", "labels" };
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)settings, key, value)
    {
        bool known = false;

        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
            known |= strcmp(keys[i], key) == 0;
        if (!known)
            return error_set(err, -EINVAL,
                             "%.80s: no such key; there are policy, set, vcs, cluster, namespaces, "
                             "gpu_resources and labels",
                             key);
    }
    if (json_object_get(settings, "vcs") && json_object_get(settings, "cluster"))
        return error_set(err, -EINVAL,
                         "cluster: the file tells the virtual clusters as well; expected no vcs beside it");
    return 0;
}

static int text_read(char *to, size_t size, const json_t *value, const char *key, struct error *err)
{
    if (!value)
        return 0;
    if (!json_is_string(value) || json_string_length(value) >= size)
        return error_set(err, -EINVAL, "%s: expected a text of at most %zu bytes", key, size - 1);
    memcpy(to, json_string_value(value), json_string_length(value) + 1);
    return 0;
}

static int labels_read(struct k8s_conf *conf, struct error *err)
{
    const json_t *labels = json_object_get(conf->settings, "labels");
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)labels, key, value)
    {
        char *to = strcmp(key, "rack") == 0     ? conf->rack
                   : strcmp(key, "domain") == 0 ? conf->domain
                   : strcmp(key, "type") == 0   ? conf->type
                                                : NULL;

        if (!to)
            return error_set(err, -EINVAL, "labels: %.80s: expected rack, domain or type", key);
        if (text_read(to, NAME_MAX_K8S + 1, value, key, err) < 0)
            return -EINVAL;
    }
    return 0;
}

static int gpus_read(struct k8s_conf *conf, struct error *err)
{
    const json_t *list = json_object_get(conf->settings, "gpu_resources");
    json_t *value;
    size_t i;

    if (!list)
        return 0;
    if (!json_is_array(list) || json_array_size(list) < 1 || json_array_size(list) > GPU_RESOURCES_MAX)
        return error_set(err, -EINVAL, "gpu_resources: expected a list of 1 to %d names", GPU_RESOURCES_MAX);
    conf->gpus.count = 0;
    json_array_foreach((json_t *)(uintptr_t)list, i, value)
    {
        if (text_read(conf->gpus.name[conf->gpus.count], sizeof(conf->gpus.name[0]), value, "gpu_resources", err) < 0)
            return -EINVAL;
        conf->gpus.count++;
    }
    return 0;
}

static int policy_read(struct k8s_conf *conf, struct error *err)
{
    const json_t *policy = json_object_get(conf->settings, "policy");
    const char *name = policy ? json_string_value(policy) : "fifo-skip", *key;
    json_t *value;
    int r = name ? policy_parse(name, &conf->common, err) : -ENOENT;

    if (r == -ENOENT)
        return error_set(err, -EINVAL, "policy: no policy '%s'; 'muster sim policies' lists them", name ? name : "");
    for (int turn = 0; turn < 3; turn++)
        json_object_foreach(json_object_get(conf->settings, "set"), key, value)
        {
            char number[32];
            const char *text = json_string_value(value);

            (void)snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
            if (policy_turn(key) == turn && r == 0)
                r = policy_set(&conf->common, key, text ? text : number, err);
            if (r == -ENOENT)
                r = error_set(err, -EINVAL, "set: no setting '%.80s' of policy '%s'", key, name);
        }
    return r;
}

static int read_all(struct k8s_conf *conf, const char *file, struct error *err)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    int r = file ? file_read(file, CONF_BYTES_MAX, &bytes, err) : 0;

    if (r == 0 && bytes.size)
        r = yaml_to_json(file, &bytes, &conf->settings, err);
    if (r == 0 && !conf->settings)
        conf->settings = json_object();
    if (r < 0)
        return r;
    if (!json_is_object(conf->settings))
        return error_set(err, -EINVAL, "expected keys and values");
    r = keys_check(conf->settings, err);
    if (r == 0)
        r = text_read(conf->cluster, sizeof(conf->cluster), json_object_get(conf->settings, "cluster"), "cluster", err);
    if (r == 0)
        r = labels_read(conf, err);
    if (r == 0)
        r = gpus_read(conf, err);
    return r == 0 ? policy_read(conf, err) : r;
}

int k8s_conf_read(const char *file, struct k8s_conf *ret_conf, struct error *err)
{
    struct k8s_conf *conf = mem_zalloc(1, sizeof(*conf));
    int r;

    if (!conf)
        return error_set(err, -ENOMEM, "no memory for the configuration");
    *conf = (struct k8s_conf){ .type = "nvidia.com/gpu.product",
                               .gpus = { .name = { "nvidia.com/gpu", "amd.com/gpu" }, .count = 2 } };
    r = read_all(conf, file, err);
    if (r < 0) {
        k8s_conf_done(conf);
        if (file && err && strncmp(err->text, file, strlen(file)) != 0)
            r = error_prefix(err, r, "%s", file);
    } else {
        *ret_conf = *conf;
    }
    mem_free(conf);
    return r;
}

void k8s_conf_done(struct k8s_conf *conf)
{
    json_decref(conf->settings);
    conf->settings = NULL;
}

/* Pods run from their start to their end, on GPUs of their own. */
static int setup_check(const struct policy_setup *setup, const char *vc, struct error *err)
{
    const struct planner_ops *planner = setup->planner;

    if (setup->tune_count || planner->tunes || planner->splices || planner->limit || planner->batches ||
        planner->profiles || planner->idles || planner->sizes)
        return error_set(err, -EINVAL,
                         "vcs: %s: policy %s suspends, moves, resizes, measures or shares running jobs, which pods "
                         "cannot do",
                         vc, planner->name);
    return 0;
}

int k8s_conf_policies(const struct k8s_conf *conf, const struct cluster_spec *cluster, struct policy_setup **ret_setups,
                      struct error *err)
{
    struct policy_setup *setups = mem_zalloc(cluster->vc_count, sizeof(*setups));
    int r = setups ? 0 : error_set(err, -ENOMEM, "no memory for policies");

    for (uint32_t v = 0; r == 0 && v < cluster->vc_count; v++) {
        r = policy_compose(&cluster->vcs[v], &cluster->names, &conf->common, &setups[v], err);
        if (r == 0)
            r = setup_check(&setups[v], names_get(&cluster->names, cluster->vcs[v].name), err);
    }
    if (r < 0)
        mem_free(setups);
    else
        *ret_setups = setups;
    return r;
}
