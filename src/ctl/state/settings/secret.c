/* SPDX-License-Identifier: Apache-2.0 */
/* secret.c - secrets of users, and where events are told (webhooks).
 *
 * A secret is written once, never shown again, and reaches the nodes of jobs that ask for it by name, in the order that
 * launches them. At rest it is as safe as the folder of the state and its backups are.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"

enum { SECRETS_MAX = 100, SECRET_BYTES_MAX = 65536, HOOKS_MAX = 100 };

static int wrong(struct entry_result *ret, int code)
{
    (void)snprintf(ret->reason, sizeof(ret->reason), "%s", code == -ENOENT ? "NotFound" : "InvalidSpec");
    return ret->code = code;
}

/* The number of a user's secret in the list; its count: none. ret_count: how many the user has. */
static size_t secret_find(const struct record_list *list, const char *user, const char *name, size_t *ret_count)
{
    size_t found = list->count, count = 0;

    for (size_t i = 0; i < list->count; i++) {
        const struct entry_secret *secret = record_at(list, i);

        if (strcmp(secret->user, user) != 0)
            continue;
        count++;
        if (strcmp(secret->name, name) == 0)
            found = i;
    }
    if (ret_count)
        *ret_count = count;
    return found;
}

int secret_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    const struct record_list *list = &ctl->registry.kept.secrets;
    const char *user = entry->secret.user, *name = entry->secret.name;
    bool gone = entry->secret.value.given == GIVEN_NULL, had;
    size_t count;

    if (!user || !*user || !name || !*name || strchr("0123456789", *name) || name[strspn(name, letters)] ||
        strncmp(name, "MUSTER_", 7) == 0) {
        (void)error_set(&ret->text, -EINVAL, "name: a secret is named like a variable, such as HF_TOKEN");
        return wrong(ret, -EINVAL);
    }
    had = secret_find(list, user, name, &count) < list->count;
    if (gone && !had) {
        (void)error_set(&ret->text, -ENOENT, "no secret '%s'", name);
        return wrong(ret, -ENOENT);
    }
    if (!gone && !had && count >= SECRETS_MAX) {
        (void)error_set(&ret->text, -EINVAL, "%s has %d secrets already, the limit", user, SECRETS_MAX);
        return wrong(ret, -EINVAL);
    }
    return 0;
}

void secret_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    struct record_list *list = &ctl->registry.kept.secrets;
    size_t i = secret_find(list, entry->secret.user, entry->secret.name, NULL);
    struct entry_secret *secret;

    if (entry->secret.value.given == GIVEN_NULL) {
        record_remove(list, i);
        return;
    }
    secret = i < list->count ? record_at(list, i) : record_add(list);
    if (secret)
        record_done(list->fields, secret);
    if (!secret || record_copy(list->fields, secret, &entry->secret) < 0)
        ret->code = error_set(&ret->text, -ENOMEM, "no memory for a secret");
    if (secret && ret->code < 0)
        record_remove(list, i);
}

const char *secret_missing(const struct ctl *ctl, const char *user, const struct submission *s)
{
    const struct record_list *list = &ctl->registry.kept.secrets;

    for (size_t i = 0; i < s->secret_count; i++)
        if (secret_find(list, user, s->secrets[i], NULL) == list->count)
            return s->secrets[i];
    return NULL;
}

struct order_secret *secret_of(const struct ctl *ctl, const struct ctl_job *job, size_t *ret_count)
{
    const struct record_list *list = &ctl->registry.kept.secrets;
    const char *user = names_get(&ctl->registry.users, job->user);
    struct order_secret *out = job->spec->secret_count ? mem_zalloc(job->spec->secret_count, sizeof(*out)) : NULL;

    *ret_count = 0;
    for (size_t i = 0; out && i < job->spec->secret_count; i++) {
        size_t at = secret_find(list, user, job->spec->secrets[i], NULL);

        if (at < list->count) /* it may have been removed since */
            out[(*ret_count)++] =
                (struct order_secret){ job->spec->secrets[i],
                                       ((const struct entry_secret *)record_at(list, at))->value.text };
    }
    return out;
}

static size_t hook_find(const struct ctl *ctl, const char *id)
{
    const struct record_list *list = &ctl->registry.kept.hooks;
    size_t i = 0;

    while (i < list->count && strcmp(((const struct entry_hook *)record_at(list, i))->id, id) != 0)
        i++;
    return i;
}

int hook_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret)
{
    const char *id = entry->hook.id, *to = entry->hook.to;

    if (!id || !*id) {
        (void)error_set(&ret->text, -EINVAL, "hook: expected an id");
        return wrong(ret, -EINVAL);
    }
    if (entry->hook.remove) {
        if (hook_find(ctl, id) < ctl->registry.kept.hooks.count)
            return 0;
        (void)error_set(&ret->text, -ENOENT, "no webhook '%s'", id);
        return wrong(ret, -ENOENT);
    }
    if (!to || (strncmp(to, "http://", 7) != 0 && strncmp(to, "https://", 8) != 0 && strncmp(to, "mailto:", 7) != 0)) {
        (void)error_set(&ret->text, -EINVAL, "to: expected http://, https:// or mailto:");
        return wrong(ret, -EINVAL);
    }
    if (ctl->registry.kept.hooks.count >= HOOKS_MAX) {
        (void)error_set(&ret->text, -EINVAL, "there are %d webhooks already, the limit", HOOKS_MAX);
        return wrong(ret, -EINVAL);
    }
    return 0;
}

void hook_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    struct record_list *list = &ctl->registry.kept.hooks;
    struct entry_hook *hook;

    if (entry->hook.remove) {
        record_remove(list, hook_find(ctl, entry->hook.id));
        return;
    }
    hook = record_add(list);
    if (!hook || record_copy(list->fields, hook, &entry->hook) < 0)
        ret->code = error_set(&ret->text, -ENOMEM, "no memory for a webhook");
    if (hook && ret->code < 0)
        record_remove(list, list->count - 1);
}
