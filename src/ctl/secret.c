/* SPDX-License-Identifier: Apache-2.0 */
/* secret.c - secrets of users, and where events are told (webhooks).
 *
 * A secret is written once, never shown again, and reaches the nodes of jobs that ask for it by name, in the order that
 * launches them. At rest it is as safe as the folder of the state and its backups are.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/part.h"

enum { SECRETS_MAX = 100, SECRET_BYTES_MAX = 65536, HOOKS_MAX = 100 };

static int wrong(struct entry_result *ret, int code)
{
    (void)snprintf(ret->reason, sizeof(ret->reason), "%s", code == -ENOENT ? "NotFound" : "InvalidSpec");
    return ret->code = code;
}

int secret_check(const struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    const char *user = json_string_value(json_object_get(body, "user"));
    const char *name = json_string_value(json_object_get(body, "name"));
    const json_t *value = json_object_get(body, "value"), *had = user ? json_object_get(ctl->book.secrets, user) : NULL;

    if (!user || !*user || !name || !*name || strlen(name) > 63 || strchr("0123456789", *name) ||
        name[strspn(name, letters)] || strncmp(name, "MUSTER_", 7) == 0) {
        (void)error_set(&ret->text, -EINVAL, "name: a secret is named like a variable, such as HF_TOKEN");
        return wrong(ret, -EINVAL);
    }
    if (json_is_null(value) && !json_object_get(had, name)) {
        (void)error_set(&ret->text, -ENOENT, "no secret '%s'", name);
        return wrong(ret, -ENOENT);
    }
    if (!json_is_null(value) && (!json_is_string(value) || json_string_length(value) > SECRET_BYTES_MAX ||
                                 strlen(json_string_value(value)) != json_string_length(value))) {
        (void)error_set(&ret->text, -EINVAL, "value: a text of at most %d bytes", SECRET_BYTES_MAX);
        return wrong(ret, -EINVAL);
    }
    if (!json_is_null(value) && !json_object_get(had, name) && json_object_size(had) >= SECRETS_MAX) {
        (void)error_set(&ret->text, -EINVAL, "%s has %d secrets already, the limit", user, SECRETS_MAX);
        return wrong(ret, -EINVAL);
    }
    return 0;
}

void secret_apply(struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    const char *user = json_string_value(json_object_get(body, "user"));
    const char *name = json_string_value(json_object_get(body, "name"));
    const json_t *value = json_object_get(body, "value");
    json_t *mine;

    if (secret_check(ctl, body, ret) < 0)
        return;
    mine = json_object_get(ctl->book.secrets, user);
    if (!mine) {
        mine = json_object();
        (void)json_object_set_new(ctl->book.secrets, user, mine);
    }
    if (json_is_null(value))
        (void)json_object_del(mine, name);
    else
        (void)json_object_set_new(mine, name, json_string(json_string_value(value)));
    if (json_object_size(mine) == 0)
        (void)json_object_del(ctl->book.secrets, user);
}

const char *secret_missing(const struct ctl *ctl, const char *user, const struct submission *s)
{
    const json_t *mine = json_object_get(ctl->book.secrets, user);

    for (size_t i = 0; i < s->secret_count; i++)
        if (!json_object_get(mine, s->secrets[i]))
            return s->secrets[i];
    return NULL;
}

json_t *secret_of(const struct ctl *ctl, const struct book_job *job)
{
    const json_t *mine = json_object_get(ctl->book.secrets, names_get(&ctl->book.users, job->user));
    json_t *out = job->spec->secret_count ? json_object() : NULL;

    for (size_t i = 0; out && i < job->spec->secret_count; i++) {
        json_t *value = json_object_get(mine, job->spec->secrets[i]);

        if (value) /* it may have been removed since */
            (void)json_object_set(out, job->spec->secrets[i], value);
    }
    return out;
}

static size_t hook_find(const struct ctl *ctl, const char *id)
{
    size_t i = 0;

    while (i < json_array_size(ctl->book.hooks) &&
           strcmp(json_string_value(json_object_get(json_array_get(ctl->book.hooks, i), "id")), id) != 0)
        i++;
    return i;
}

int hook_check(const struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    const char *id = json_string_value(json_object_get(body, "id"));
    const char *to = json_string_value(json_object_get(body, "to"));
    const json_t *kinds = json_object_get(body, "kinds"), *kind;
    size_t i;

    if (!id || !*id) {
        (void)error_set(&ret->text, -EINVAL, "hook: expected an id");
        return wrong(ret, -EINVAL);
    }
    if (json_is_true(json_object_get(body, "remove"))) {
        if (hook_find(ctl, id) < json_array_size(ctl->book.hooks))
            return 0;
        (void)error_set(&ret->text, -ENOENT, "no webhook '%s'", id);
        return wrong(ret, -ENOENT);
    }
    if (!to || strlen(to) > 2000 ||
        (strncmp(to, "http://", 7) != 0 && strncmp(to, "https://", 8) != 0 && strncmp(to, "mailto:", 7) != 0)) {
        (void)error_set(&ret->text, -EINVAL, "to: expected http://, https:// or mailto:");
        return wrong(ret, -EINVAL);
    }
    json_array_foreach((json_t *)(uintptr_t)kinds, i, kind)
    {
        if (json_is_string(kind))
            continue;
        (void)error_set(&ret->text, -EINVAL, "kinds: expected beginnings of kinds, such as \"job.ended\" or \"node.\"");
        return wrong(ret, -EINVAL);
    }
    if (json_array_size(ctl->book.hooks) >= HOOKS_MAX) {
        (void)error_set(&ret->text, -EINVAL, "there are %d webhooks already, the limit", HOOKS_MAX);
        return wrong(ret, -EINVAL);
    }
    return 0;
}

void hook_apply(struct ctl *ctl, const json_t *body, struct entry_result *ret)
{
    const json_t *kinds = json_object_get(body, "kinds");

    if (hook_check(ctl, body, ret) < 0)
        return;
    if (json_is_true(json_object_get(body, "remove"))) {
        (void)json_array_remove(ctl->book.hooks, hook_find(ctl, json_string_value(json_object_get(body, "id"))));
        return;
    }
    (void)json_array_append_new(ctl->book.hooks,
                                json_pack("{s:s, s:s, s:o}", "id", json_string_value(json_object_get(body, "id")), "to",
                                          json_string_value(json_object_get(body, "to")), "kinds",
                                          kinds ? json_deep_copy(kinds) : json_array()));
}
