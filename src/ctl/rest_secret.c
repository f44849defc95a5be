/* SPDX-License-Identifier: Apache-2.0 */
/* rest_secret.c - secrets of the caller, which are never shown again, and webhooks. */
#include <string.h>

#include "ctl/notify.h"
#include "ctl/rest.h"

void rest_secrets_list(struct request *request)
{
    const struct book *book = server_book(request_server(request));
    struct buf out = BUF_INIT((size_t)1 << 20);
    struct json_write json;
    json_t *value;
    const char *name;

    list_begin(&json, &out, "SecretList");
    json_object_foreach(json_object_get(book->secrets, request->who.user), name, value)
    {
        json_write_object(&json, NULL);
        json_write_text(&json, "name", name);
        json_write_close(&json);
    }
    list_end(&json, NULL);
    reply_buf(request, 200, &out);
}

void rest_secret_put(struct request *request)
{
    static const char *const keys[] = { "value", NULL };
    json_t *body = request_object(request, keys);

    if (!body)
        return;
    if (!json_is_string(json_object_get(body, "value"))) {
        reply_problem(request, 400, "BadRequest", NULL, "value: expected a text");
        json_decref(body);
        return;
    }
    (void)json_object_set_new(body, "user", json_string(request->who.user));
    (void)json_object_set_new(body, "name", json_string(request->params[0]));
    request_offer(request, ENTRY_SECRET, body, offered_nothing);
}

void rest_secret_delete(struct request *request)
{
    request_offer(request, ENTRY_SECRET,
                  json_pack("{s:s, s:s, s:n}", "user", request->who.user, "name", request->params[0], "value"),
                  offered_nothing);
}

void rest_webhooks_list(struct request *request)
{
    const struct server *server = request_server(request);
    struct notify_counts counts;

    notify_count(server->notify, &counts);
    reply_tree(request, 200,
               json_pack("{s:s, s:s, s:O, s:n, s:b, s:I, s:I, s:I}", "apiVersion", "v1", "kind", "WebhookList", "items",
                         server_book(server)->hooks, "next", "enabled", server->conf->notify != NULL, "sent",
                         (json_int_t)counts.sent, "failed", (json_int_t)counts.failed, "dropped",
                         (json_int_t)counts.dropped));
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
    request_offer(request, ENTRY_HOOK, body, offered_nothing);
}

void rest_webhooks_remove(struct request *request)
{
    request_offer(request, ENTRY_HOOK, json_pack("{s:s, s:b}", "id", request->params[0], "remove", 1), offered_nothing);
}
