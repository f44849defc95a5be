/* SPDX-License-Identifier: Apache-2.0 */
/* context.c - see context.h. */
#include "cli/client/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/client/client.h"
#include "io/file.h"
#include "io/local_token.h"
#include "wire/text/json_write.h"
#include "wire/text/suggest.h"
#include "wire/text/yaml_doc.h"

static const char *env(const char *name)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): one thread */

    return value && *value ? value : NULL;
}

char *context_path(void)
{
    const char *base = env("XDG_CONFIG_HOME"), *home = env("HOME");
    char path[4096];

    if (env("MUSTER_CONFIG"))
        return mem_strdup(env("MUSTER_CONFIG"));
    (void)snprintf(path, sizeof(path), "%s%s/muster/config.yaml",
                   base   ? base
                   : home ? home
                          : "",
                   base ? "" : "/.config");
    return mem_strdup(path);
}

static int one_read(struct yaml_doc *doc, yaml_node_t *node, json_t *ret, struct error *err)
{
    struct yaml_key keys[] = { { "url", true, NULL, NULL },
                               { "token", false, NULL, NULL },
                               { "ca", false, NULL, NULL } };
    int r = yaml_keys(doc, node, keys, 3, err);

    for (size_t i = 0; r == 0 && i < 3; i++) {
        const char *text;

        if (!keys[i].value)
            continue;
        r = yaml_name(doc, keys[i].value, keys[i].name, &text, err);
        if (r == 0)
            (void)json_object_set_new(ret, keys[i].name, json_string(text));
    }
    return r;
}

static int file_parse(struct yaml_doc *doc, json_t *file, struct error *err)
{
    struct yaml_key keys[] = { { "current", false, NULL, NULL }, { "contexts", false, NULL, NULL } };
    json_t *contexts = json_object_get(file, "contexts");
    yaml_node_t *key, *value;
    const char *text;
    int r = yaml_keys(doc, yaml_top(doc), keys, 2, err);

    if (r == 0 && keys[0].value) {
        r = yaml_name(doc, keys[0].value, "current", &text, err);
        if (r == 0)
            (void)json_object_set_new(file, "current", json_string(text));
    }
    if (r < 0 || !keys[1].value)
        return r;
    r = yaml_map_check(doc, keys[1].value, "contexts", err);
    for (size_t i = 0; r == 0 && yaml_pair(doc, keys[1].value, i, &key, &value); i++) {
        json_t *one = json_object();

        r = one_read(doc, value, one, err);
        (void)json_object_set_new(contexts, (const char *)key->data.scalar.value, one);
    }
    return r;
}

int context_file_read(json_t **ret_file, struct error *err)
{
    CLEANUP(mem_free) char *path = context_path();
    CLEANUP_BYTES struct bytes bytes = { 0 };
    json_t *file = json_pack("{s:{}}", "contexts");
    struct yaml_doc doc;
    int r;

    if (!path || !file)
        return error_set(err, -ENOMEM, "out of memory");
    if (access(path, F_OK) != 0) {
        *ret_file = file;
        return 0;
    }
    r = file_read(path, YAML_BYTES_MAX, &bytes, err);
    if (r == 0)
        r = yaml_open(path, &bytes, &doc, err);
    if (r == 0) {
        r = file_parse(&doc, file, err);
        yaml_close(&doc);
    }
    if (r < 0)
        json_decref(file);
    else
        *ret_file = file;
    return r;
}

int context_file_write(json_t *file, struct error *err)
{
    CLEANUP(mem_free) char *path = context_path();
    CLEANUP_BUF struct buf out = BUF_INIT(1 << 20);
    const char *name, *current = json_string_value(json_object_get(file, "current"));
    json_t *one;
    mode_t before;
    int r;

    if (current) {
        buf_text(&out, "current: ");
        json_put_string(&out, current, strlen(current));
        buf_char(&out, '\n');
    }
    buf_text(&out, json_object_size(json_object_get(file, "contexts")) ? "contexts:\n" : "contexts: {}\n");
    json_object_foreach(json_object_get(file, "contexts"), name, one)
    {
        char *text = json_dumps(one, JSON_COMPACT);

        buf_text(&out, "  ");
        json_put_string(&out, name, strlen(name));
        buf_printf(&out, ": %s\n", text ? text : "{}");
        mem_free(text);
    }
    if (!path || out.error)
        return error_set(err, -ENOMEM, "out of memory");
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0700) < 0 && errno != EEXIST) {
            r = error_set(err, -errno, "%s: cannot be made", path);
            *slash = '/';
            return r;
        }
        *slash = '/';
    }
    before = umask(077);
    r = file_write_atomic(path, out.data, out.size, err);
    (void)umask(before);
    return r;
}

static void field_copy(char *to, size_t size, json_t *one, const char *key)
{
    const char *text = json_string_value(json_object_get(one, key));

    if (text)
        (void)snprintf(to, size, "%s", text);
}

static int from_file(const char *name, struct context *context, struct error *err)
{
    json_t *file = NULL, *one;
    const char *current;
    int r = context_file_read(&file, err);

    if (r < 0)
        return r;
    current = name ? name : json_string_value(json_object_get(file, "current"));
    one = current ? json_object_get(json_object_get(file, "contexts"), current) : NULL;
    if (name && !one) {
        char shown[SHOWN_MAX];

        r = error_set(err, -ENOENT, "no context '%s'; `muster context` lists them",
                      suggest_shown(name, strlen(name), shown));
    } else if (one) {
        (void)snprintf(context->name, sizeof(context->name), "%s", current);
        field_copy(context->url, sizeof(context->url), one, "url");
        field_copy(context->token, sizeof(context->token), one, "token");
        field_copy(context->ca, sizeof(context->ca), one, "ca");
        context->from = "context";
    }
    json_decref(file);
    return r;
}

static int url_check(const char *url, const char *from, struct error *err)
{
    char shown[SHOWN_MAX];

    if (strlen(url) > 250 ||
        (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0 && strncmp(url, "unix:/", 6) != 0))
        return error_set(err, -EINVAL, "%s: expected http://HOST:PORT, https://HOST:PORT or unix:/PATH, got '%s'", from,
                         suggest_shown(url, strlen(url), shown));
    return 0;
}

/* Where the controller is when nobody says it: the one that is installed here, or one that this user has started. */
static void url_standard(char *out, size_t size)
{
    char path[128];

    if (access(CLIENT_SOCKET, F_OK) == 0)
        (void)snprintf(out, size, "unix:" CLIENT_SOCKET);
    else if (local_token_socket(CLIENT_PORT, path, sizeof(path)) == 0 && access(path, F_OK) == 0)
        (void)snprintf(out, size, "unix:%s", path);
    else
        (void)snprintf(out, size, "%s", CLIENT_LOCAL);
}

int context_load(const char *url, const char *name, struct context *ret_context, struct error *err)
{
    struct context context = { .from = "default" };
    const char *told = url ? url : env("MUSTER_URL"), *from = url ? "--url" : "MUSTER_URL";
    int r;

    if (told && !name) {
        r = url_check(told, from, err);
        if (r < 0)
            return r;
        (void)snprintf(context.url, sizeof(context.url), "%s", told);
        context.from = from;
    } else {
        r = from_file(name ? name : env("MUSTER_CONTEXT"), &context, err);
        if (r < 0)
            return r;
        if (!context.url[0])
            url_standard(context.url, sizeof(context.url));
    }
    if (env("MUSTER_TOKEN"))
        (void)snprintf(context.token, sizeof(context.token), "%s", env("MUSTER_TOKEN"));
    else if (!context.token[0]) {
        context.local = true;
        (void)local_token_of_url(context.url, context.token, sizeof(context.token));
    }
    *ret_context = context;
    return 0;
}
