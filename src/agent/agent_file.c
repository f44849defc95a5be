/* SPDX-License-Identifier: Apache-2.0 */
/* agent_file.c - see agent_file.h. */
#include "agent/agent_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/gpu_runtime.h"
#include "io/file.h"
#include "wire/text/duration.h"
#include "wire/text/size.h"
#include "wire/text/yaml_doc.h"

#define PATH_USUAL "/etc/muster/agent.yaml"

enum {
    K_URL,
    K_NODE,
    K_STATE,
    K_ADDRESS,
    K_TLS_NAME,
    K_LABELS,
    K_CGROUP,
    K_PRIVATE_TMP,
    K_ALLOW_ROOT,
    K_LEAST_UID,
    K_LOG_MAX,
    K_OUTPUT_MAX,
    K_REBOOT,
    K_GPU_RUNTIME,
    K_NO_NEW_PRIVS,
    K_START_LIMIT,
    K_EMULATED_GPUS,
    K_COUNT
};

struct place {
    struct agent_file *file;
    size_t used;
};

/* Keeps a copy; NULL when there is no room. */
static const char *keep(struct place *place, const char *text)
{
    size_t size = strlen(text) + 1;
    char *at = place->file->text + place->used;

    if (size > sizeof(place->file->text) - place->used)
        return NULL;
    memcpy(at, text, size);
    place->used += size;
    return at;
}

static int text_take(struct yaml_doc *doc, const struct yaml_key *key, struct place *place, const char **value,
                     struct error *err)
{
    const char *text;
    int r;

    if (!key->value || *value)
        return 0;
    r = yaml_name(doc, key->value, key->name, &text, err);
    if (r < 0)
        return r;
    *value = keep(place, text);
    return *value ? 0 : yaml_fail(doc, key->value, err, "%s: too long", key->name);
}

/* One of some words; its number. find(): -ENOENT for any other. */
static int word_take(struct yaml_doc *doc, const struct yaml_key *key, int (*find)(const char *word), int *value,
                     struct error *err)
{
    const char *text;
    int r;

    if (!key->value)
        return 0;
    r = yaml_name(doc, key->value, key->name, &text, err);
    if (r < 0)
        return r;
    r = find(text);
    if (r < 0)
        return yaml_fail(doc, key->value, err, "%s: expected %s", key->name,
                         find == gpu_runtime_find ? "shared, all or off" : "true or false");
    *value = r;
    return 0;
}

static int flag_find(const char *word)
{
    return strcmp(word, "true") == 0 ? 1 : strcmp(word, "false") == 0 ? 0 : -ENOENT;
}

static int size_take(struct yaml_doc *doc, const struct yaml_key *key, uint64_t *value, struct error *err)
{
    const char *text;
    uint32_t mib;
    int r;

    if (!key->value || *value)
        return 0;
    r = yaml_name(doc, key->value, key->name, &text, err);
    if (r < 0)
        return r;
    if (size_parse_mib(text, strlen(text), &mib) < 0)
        return yaml_fail(doc, key->value, err, "%s: expected a size, such as 64M", key->name);
    *value = (uint64_t)mib << 20;
    return 0;
}

static int span_take(struct yaml_doc *doc, const struct yaml_key *key, usec_t *value, struct error *err)
{
    const char *text;
    usec_t span;
    int r;

    if (!key->value)
        return 0;
    r = yaml_name(doc, key->value, key->name, &text, err);
    if (r < 0)
        return r;
    if (duration_parse(text, strlen(text), &span) < 0 || span < USEC_SEC || span > USEC_DAY)
        return yaml_fail(doc, key->value, err, "%s: expected a span of time from 1s to 1d", key->name);
    *value = span;
    return 0;
}

static int labels_take(struct yaml_doc *doc, const struct yaml_key *key, struct place *place, const char **value,
                       struct error *err)
{
    char list[1024] = "";
    yaml_node_t *name, *text;
    int r;

    if (!key->value || *value)
        return 0;
    r = yaml_map_check(doc, key->value, "labels", err);
    for (size_t i = 0; r == 0 && yaml_pair(doc, key->value, i, &name, &text); i++) {
        const char *k, *v;

        r = yaml_name(doc, name, "label", &k, err);
        if (r == 0)
            r = yaml_name(doc, text, k, &v, err);
        if (r == 0 && (strpbrk(k, "=,") || strchr(v, ',') || strlen(list) + strlen(k) + strlen(v) + 3 > sizeof(list)))
            r = yaml_fail(doc, name, err, "labels: too long, or with '=' or ','");
        if (r == 0)
            (void)snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s=%s", list[0] ? "," : "", k, v);
    }
    if (r < 0)
        return r;
    *value = keep(place, list);
    return *value ? 0 : yaml_fail(doc, key->value, err, "labels: too long");
}

static int doc_take(struct yaml_doc *doc, struct agent_file *file, struct agent_config *config, struct error *err)
{
    struct yaml_key keys[K_COUNT] = { [K_URL] = { .name = "url" },
                                      [K_NODE] = { .name = "node" },
                                      [K_STATE] = { .name = "state" },
                                      [K_ADDRESS] = { .name = "address" },
                                      [K_TLS_NAME] = { .name = "tls_name" },
                                      [K_LABELS] = { .name = "labels" },
                                      [K_CGROUP] = { .name = "cgroup" },
                                      [K_PRIVATE_TMP] = { .name = "private_tmp" },
                                      [K_ALLOW_ROOT] = { .name = "allow_root" },
                                      [K_LEAST_UID] = { .name = "least_uid" },
                                      [K_LOG_MAX] = { .name = "log_max" },
                                      [K_OUTPUT_MAX] = { .name = "output_max" },
                                      [K_REBOOT] = { .name = "reboot" },
                                      [K_GPU_RUNTIME] = { .name = "gpu_runtime" },
                                      [K_START_LIMIT] = { .name = "start_limit" },
                                      [K_NO_NEW_PRIVS] = { .name = "no_new_privs" },
                                      [K_EMULATED_GPUS] = { .name = "emulated_gpus" } };
    struct place place = { .file = file };
    int root = config->allow_root, no_new_privs = !config->allow_new_privs;
    int r = yaml_keys(doc, yaml_top(doc), keys, K_COUNT, err);

    if (r == 0)
        r = text_take(doc, &keys[K_URL], &place, &config->url, err);
    if (r == 0)
        r = text_take(doc, &keys[K_NODE], &place, &config->node, err);
    if (r == 0)
        r = text_take(doc, &keys[K_STATE], &place, &config->state, err);
    if (r == 0)
        r = text_take(doc, &keys[K_ADDRESS], &place, &config->address, err);
    if (r == 0)
        r = text_take(doc, &keys[K_TLS_NAME], &place, &config->tls_name, err);
    if (r == 0)
        r = labels_take(doc, &keys[K_LABELS], &place, &config->labels, err);
    if (r == 0)
        r = text_take(doc, &keys[K_CGROUP], &place, &config->cgroup, err);
    if (r == 0 && config->private_tmp < 0)
        r = word_take(doc, &keys[K_PRIVATE_TMP], flag_find, &config->private_tmp, err);
    if (r == 0)
        r = word_take(doc, &keys[K_ALLOW_ROOT], flag_find, &root, err);
    if (r == 0)
        r = size_take(doc, &keys[K_LOG_MAX], &config->log_max, err);
    if (r == 0)
        r = size_take(doc, &keys[K_OUTPUT_MAX], &config->output_max, err);
    if (r == 0)
        r = text_take(doc, &keys[K_REBOOT], &place, &config->reboot, err);
    if (r == 0 && config->gpu_runtime < 0)
        r = word_take(doc, &keys[K_GPU_RUNTIME], gpu_runtime_find, &config->gpu_runtime, err);
    if (r == 0)
        r = span_take(doc, &keys[K_START_LIMIT], &config->start_limit, err);
    if (r == 0)
        r = word_take(doc, &keys[K_NO_NEW_PRIVS], flag_find, &no_new_privs, err);
    /* A flag of the command line wins, and with it the defaults of a node that is only emulated. */
    config->real_defaults = keys[K_EMULATED_GPUS].value && !config->fake;
    if (r == 0)
        r = text_take(doc, &keys[K_EMULATED_GPUS], &place, &config->fake, err);
    if (r == 0 && keys[K_LEAST_UID].value)
        r = yaml_i64(doc, keys[K_LEAST_UID].value, 0, INT32_MAX, &config->least_uid, err);
    config->allow_root = root;
    config->allow_new_privs = !no_new_privs;
    return r;
}

int agent_file_read(const char *path, struct agent_file *file, struct agent_config *config, struct error *err)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    struct yaml_doc doc;
    int r;

    if (!path && access(PATH_USUAL, F_OK) < 0)
        return 0;
    path = path ? path : PATH_USUAL;
    r = file_read(path, YAML_BYTES_MAX, &bytes, err);
    if (r < 0)
        return r;
    r = yaml_open(path, &bytes, &doc, err);
    if (r < 0)
        return r;
    r = doc_take(&doc, file, config, err);
    yaml_close(&doc);
    return r;
}
