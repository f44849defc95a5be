/* SPDX-License-Identifier: Apache-2.0 */
/* rest_secrets.c - secrets of the caller, which are never shown again, and webhooks. */
#include <string.h>

#include "base/alloc.h"

#include "ctl/insight/notify.h"
#include "ctl/rest/rest.h"
#include "io/seal.h"

void rest_secrets_list(struct request *request)
{
    const struct registry *registry = server_book(request_server(request));
    struct buf out = BUF_INIT((size_t)1 << 20);
    struct json_write json;

    list_begin(&json, &out, "SecretList");
    for (each_record(const struct entry_secret, secret, &registry->kept.secrets)) {
        if (strcmp(secret->user, request->who.user) != 0)
            continue;
        json_write_object(&json, NULL);
        json_write_text(&json, "name", secret->name);
        json_write_close(&json);
    }
    list_end(&json, NULL);
    reply_buf(request, 200, &out);
}

enum { SECRET_MAX = 65536 };

/* What is kept of it; false: answered. */
static bool value_seal(struct request *request, json_t *body)
{
    const struct server *server = request_server(request);
    const json_t *value = json_object_get(body, "value");
    CLEANUP(mem_free) char *sealed = NULL;

    if (!json_is_string(value) || json_string_length(value) > SECRET_MAX)
        reply_problem(request, 400, "BadRequest", NULL, "value: expected a text of at most %d bytes", SECRET_MAX);
    else if (!server->secret_keys)
        reply_problem(request, 503, "NotReady", NULL,
                      "the controller has no key to keep secrets with; its log says why");
    else if (seal_text(server->secret_keys, request->who.user, request->params[0], json_string_value(value), &sealed) <
             0)
        reply_problem(request, 503, "Busy", NULL, "no memory");
    else
        (void)json_object_set_new(body, "value", json_string(sealed));
    return !request->answered;
}

void rest_secret_put(struct request *request)
{
    static const char *const keys[] = { "value", NULL };
    json_t *body = request_object(request, keys);

    if (!body)
        return;
    if (!value_seal(request, body)) {
        json_decref(body);
        return;
    }
    (void)json_object_set_new(body, "user", json_string(request->who.user));
    (void)json_object_set_new(body, "name", json_string(request->params[0]));
    request_offer_json(request, ENTRY_SECRET, body, offered_nothing);
}

void rest_secret_delete(struct request *request)
{
    request_offer(request,
                  &(struct entry){ .kind = ENTRY_SECRET,
                                   .secret = { .user = entry_text(request->who.user),
                                               .name = entry_text(request->params[0]),
                                               .value = { .given = GIVEN_NULL } } },
                  offered_nothing);
}

void rest_webhooks_list(struct request *request)
{
    const struct server *server = request_server(request);
    struct notify_counts counts;
    json_t *items = json_array();

    for (each_record(const struct entry_hook, hook, &server_book(server)->kept.hooks)) {
        json_t *kinds = json_array();

        for (size_t i = 0; i < hook->kinds.count; i++)
            (void)json_array_append_new(kinds, json_string(hook->kinds.items[i]));
        (void)json_array_append_new(items,
                                    json_pack("{s:s, s:s, s:o}", "id", hook->id, "to", hook->to, "kinds", kinds));
    }
    notify_count(server->notify, &counts);
    reply_tree(request, 200,
               json_pack("{s:s, s:s, s:o, s:n, s:b, s:I, s:I, s:I}", "apiVersion", "v1", "kind", "WebhookList", "items",
                         items, "next", "enabled", server->conf->notify != NULL, "sent", (json_int_t)counts.sent,
                         "failed", (json_int_t)counts.failed, "dropped", (json_int_t)counts.dropped));
}

void rest_webhooks_add(struct request *request)
{
    static const char *const keys[] = { "to", "kinds", NULL };
    json_t *body = request_object(request, keys);
    char id[24], text[256], hash[65];

    if (!body)
        return;
    if (!request_server(request)->conf->notify) {
        reply_problem(request, 409, "Conflict", "notify: /usr/share/muster/notify in muster.yaml",
                      "this cluster tells nobody: notify has no command");
        json_decref(body);
        return;
    }
    if (token_make(id, sizeof(id), text, sizeof(text), hash) < 0) {
        reply_problem(request, 503, "Busy", NULL, "no random numbers");
        json_decref(body);
        return;
    }
    (void)json_object_set_new(body, "id", json_string(id));
    request_offer_json(request, ENTRY_HOOK, body, offered_nothing);
}

void rest_webhooks_remove(struct request *request)
{
    request_offer(
        request,
        &(struct entry){ .kind = ENTRY_HOOK, .hook = { .id = entry_text(request->params[0]), .remove = true } },
        offered_nothing);
}
