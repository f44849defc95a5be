/* SPDX-License-Identifier: Apache-2.0 */
/* rest_tokens.c - /tokens: users manage their own, administrators all of them. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/rest/rest.h"
#include "io/file.h"
#include "io/pki.h"
#include "wire/text/hostlist.h"

#define REJOIN_TIME USEC_HOUR

void rest_tokens_list(struct request *request)
{
    const struct registry *registry = server_book(request_server(request));
    struct buf out = BUF_INIT((size_t)16 << 20);
    struct json_write json;

    list_begin(&json, &out, "TokenList");
    for (size_t i = 0; i < registry->token_count; i++) {
        const struct ctl_token *token = &registry->tokens[i];

        if (request->who.role != ROLE_ADMIN && strcmp(token->user, request->who.user) != 0)
            continue;
        json_write_object(&json, NULL);
        json_write_text(&json, "id", token->id);
        json_write_text(&json, "user", token->user);
        json_write_text(&json, "role", token->role);
        json_write_text(&json, "scope", token->scope);
        put_time(&json, "created_time", token->created);
        put_time(&json, "expires_time", token->expires);
        if (token->nodes)
            json_write_i64(&json, "nodes", token->nodes);
        json_write_close(&json);
    }
    list_end(&json, NULL);
    reply_buf(request, 200, &out);
}

/* What was made is told once, when it is durable. */
struct new_token {
    struct request *request;
    char id[24], text[256], user[64], role[16], scope[64];
    usec_t expires;
    int64_t nodes; /* that may join by it */
};

static void on_token(void *arg, const struct entry_result *result)
{
    struct new_token *token = arg;
    struct buf out = BUF_INIT(65536);
    struct json_write json;

    if (result->code < 0) {
        reply_refused(token->request, result);
    } else {
        json_write_init(&json, &out, false);
        json_write_object(&json, NULL);
        json_write_text(&json, "apiVersion", "v1");
        json_write_text(&json, "kind", "Token");
        json_write_text(&json, "id", token->id);
        json_write_text(&json, "token", token->text);
        json_write_text(&json, "user", token->user);
        json_write_text(&json, "role", token->role);
        json_write_text(&json, "scope", token->scope);
        put_time(&json, "expires_time", token->expires);
        json_write_close(&json);
        reply_header(token->request, "Cache-Control", "no-store");
        reply_buf(token->request, 201, &out);
    }
    request_drop(token->request);
    explicit_bzero(token, sizeof(*token));
    mem_free(token);
}

/* How many nodes may join by it: one, unless told. */
static int64_t nodes_of(const json_t *body, bool join)
{
    const json_t *nodes = json_object_get(body, "nodes");

    return nodes ? json_integer_value(nodes) : join;
}

/* Nobody but an admin hands on more than he has: who is bound to something hands on that, or reading. */
static bool scope_hands(const struct principal *who, const char *scope)
{
    return who->role == ROLE_ADMIN || !who->scope[0] || strcmp(scope, who->scope) == 0 || strcmp(scope, "read") == 0;
}

/* What lets somebody in for a while makes nothing that lets the same one in for longer: a sign-in ends when it said it
 * would, and a token that was stolen cannot be renewed. An admin decides about others. */
static bool expiry_hands(struct request *request, const struct new_token *token, bool told)
{
    const struct principal *who = &request->who;
    usec_t left = who->until - clock_now();

    if (who->until == 0 || (token->expires && token->expires <= who->until) ||
        (who->role == ROLE_ADMIN && (strcmp(token->role, "join") == 0 || strcmp(token->user, who->user) != 0)))
        return true;
    if (told)
        reply_problem(request, 403, "NotAllowed", "sign in again, or ask an admin",
                      "your own token is good for %lld seconds more; it hands on no longer time",
                      (long long)(left / USEC_SEC));
    return false;
}

/* Whom and what the new token is for; -EINVAL or -EPERM, answered. */
static int token_fill(struct request *request, json_t *body, struct new_token *token)
{
    const char *user = json_string_value(json_object_get(body, "user"));
    const char *role = json_string_value(json_object_get(body, "role"));
    const char *scope = json_string_value(json_object_get(body, "scope"));
    json_t *span = json_object_get(body, "expires_seconds");
    bool join = json_is_true(json_object_get(body, "join")), admin = request->who.role == ROLE_ADMIN;
    int64_t seconds = json_is_integer(span) ? json_integer_value(span) : join ? 3600 : 90 * 86400;

    (void)snprintf(token->user, sizeof(token->user), "%s", user ? user : request->who.user);
    (void)snprintf(token->role, sizeof(token->role), "%s",
                   join   ? "join"
                   : role ? role
                          : role_name(request->who.role > ROLE_USER ? ROLE_USER : request->who.role));
    (void)snprintf(token->scope, sizeof(token->scope), "%s", scope ? scope : admin ? "" : request->who.scope);
    token->nodes = nodes_of(body, join);
    token->expires = seconds ? clock_now() + seconds * USEC_SEC : 0;
    if (!join && role_find(token->role) < 0)
        reply_problem(request, 400, "BadRequest", NULL, "role: expected viewer, user, vc-admin or admin");
    else if (seconds < 0 || seconds > (int64_t)3650 * 86400 || (seconds == 0 && !admin))
        reply_problem(request, 400, "BadRequest", NULL, "expires_seconds: from 1 to ten years");
    else if (json_object_get(body, "nodes") && (!join || token->nodes < 1 || token->nodes > JOIN_NODES_MAX))
        reply_problem(request, 400, "BadRequest", NULL, "nodes: from 1 to %d, with join", JOIN_NODES_MAX);
    else if (scope && strcmp(scope, "read") != 0 && strcmp(scope, "jobs") != 0 && strncmp(scope, "vc:", 3) != 0 &&
             *scope)
        reply_problem(request, 400, "BadRequest", NULL, "scope: expected read, jobs or vc:NAME");
    else if (!admin && (join || (user && strcmp(user, request->who.user) != 0) ||
                        (role && role_find(role) > (int)request->who.role)))
        reply_problem(request, 403, "NotAllowed", NULL,
                      "only an admin makes tokens for nodes, for others or with more rights");
    else if (!scope_hands(&request->who, token->scope) ||
             (!admin && role_find(token->role) == ROLE_VC_ADMIN && strncmp(token->scope, "vc:", 3) == 0 &&
              strcmp(token->scope, request->who.scope) != 0))
        reply_problem(request, 403, "NotAllowed", NULL, "your token is for %.60s; it hands on that, or reading",
                      request->who.scope[0] ? request->who.scope : "no virtual cluster");
    else if (!expiry_hands(request, token, span != NULL))
        token->expires = request->who.until;
    return request->answered ? -EINVAL : 0;
}

static int name_good(void *arg, const char *pattern)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._*?";

    (void)arg;
    return *pattern && strspn(pattern, letters) == strlen(pattern) ? 0 : -EINVAL;
}

/* The names of nodes that may join by it, kept as its scope; -EINVAL, answered. */
static int names_fill(struct request *request, const json_t *body, struct new_token *token)
{
    const json_t *told = json_object_get(body, "names");
    const char *names = json_string_value(told);

    if (strcmp(token->role, "join") == 0)
        token->scope[0] = '\0';
    if (!told)
        return 0;
    if (strcmp(token->role, "join") != 0 || !names || strlen(names) + strlen(JOIN_NAMES) >= sizeof(token->scope) ||
        hostlist_each(names, name_good, NULL, NULL) < 0) {
        reply_problem(request, 400, "BadRequest", NULL,
                      "names: expected at most %zu letters like gpu[01-04] or gpu*, with join",
                      sizeof(token->scope) - strlen(JOIN_NAMES) - 1);
        return -EINVAL;
    }
    (void)snprintf(token->scope, sizeof(token->scope), JOIN_NAMES "%s", names);
    return 0;
}

/* Nodes learn whom to trust from the token itself. */
static void pin_add(const struct server *server, char *text, size_t size)
{
    CLEANUP_BYTES struct bytes ca = { 0 };
    char sum[PKI_FINGERPRINT_MAX];
    size_t length = strlen(text);

    if (server->conf->tls_ca && file_read(server->conf->tls_ca, 1 << 20, &ca, NULL) == 0 &&
        pki_fingerprint(ca.data, sum, NULL) == 0)
        (void)snprintf(text + length, size - length, ".%s", sum);
}

/* How many a user has that are good; there may be as many more on their way as they may have requests. */
static int64_t tokens_of(const struct registry *registry, const char *user, usec_t now)
{
    int64_t count = 0;

    for (size_t i = 0; i < registry->token_count; i++)
        count += strcmp(registry->tokens[i].user, user) == 0 &&
                 (registry->tokens[i].expires == 0 || registry->tokens[i].expires > now);
    return count;
}

/* The token is filled, but for its text: it is made, and told when it is durable. */
static void token_offer(struct request *request, struct new_token *token)
{
    struct server *server = request_server(request);
    struct entry_result refused = { 0 };
    char hash[65];
    struct entry entry;

    if (token && tokens_of(server_book(server), token->user, clock_now()) >= server->conf->user_tokens_max) {
        reply_problem(request, 429, "TooManyTokens", "muster token list; muster token revoke ID",
                      "%.60s has %lld tokens, the most one user may have (limits.tokens_per_user)", token->user,
                      (long long)server->conf->user_tokens_max);
        mem_free(token);
        return;
    }
    if (!token || token_make(token->id, sizeof(token->id), token->text, sizeof(token->text), hash) < 0) {
        reply_problem(request, 503, "Busy", NULL, "no memory or no random numbers");
        mem_free(token);
        return;
    }
    if (strcmp(token->role, "join") == 0)
        pin_add(server, token->text, sizeof(token->text));
    token->request = request_hold(request);
    entry = (struct entry){ .kind = ENTRY_TOKEN,
                            .token = { .id = entry_text(token->id),
                                       .hash = entry_text(hash),
                                       .user = entry_text(token->user),
                                       .role = entry_text(token->role),
                                       .scope = entry_text(token->scope),
                                       .expires = token->expires,
                                       .nodes = token->nodes } };
    if (batcher_offer(server->batcher, &entry, on_token, token, &refused) < 0)
        on_token(token, &refused);
}

void rest_tokens_add(struct request *request)
{
    static const char *const keys[] = { "user", "role", "scope", "expires_seconds", "join", "nodes", "names", NULL };
    json_t *body = request_object(request, keys);
    struct new_token *token = body ? mem_zalloc(1, sizeof(*token)) : NULL;

    if (!body)
        return;
    if (token && (token_fill(request, body, token) < 0 || names_fill(request, body, token) < 0))
        mem_free(token);
    else
        token_offer(request, token);
    json_decref(body);
}

/* A token by which one node may take its own place again: its machine was reinstalled, or its certificate is over. */
void rest_node_rejoin(struct request *request)
{
    const struct ctl_node *node = registry_node_find(server_book(request_server(request)), request->params[0]);
    struct new_token *token;

    if (!node || node->forgotten) {
        reply_problem(request, 404, "NotFound", "muster token new --join, for a new node", "no node %.80s",
                      request->params[0]);
        return;
    }
    token = mem_zalloc(1, sizeof(*token));
    if (token) {
        (void)snprintf(token->user, sizeof(token->user), "%s", request->who.user);
        (void)snprintf(token->role, sizeof(token->role), "join");
        if ((size_t)snprintf(token->scope, sizeof(token->scope), JOIN_AGAIN "%s", request->params[0]) >=
            sizeof(token->scope)) {
            mem_free(token);
            reply_problem(request, 409, "Conflict", "muster node forget --revoke, then join",
                          "the name of this node is too long for that");
            return;
        }
        token->expires = clock_now() + REJOIN_TIME;
        token->nodes = 1;
    }
    token_offer(request, token);
}

void token_reply(struct request *request, const char *user, const char *role, const char *scope, int64_t seconds)
{
    struct new_token *token = mem_zalloc(1, sizeof(*token));

    if (token) {
        (void)snprintf(token->user, sizeof(token->user), "%s", user);
        (void)snprintf(token->role, sizeof(token->role), "%s", role);
        (void)snprintf(token->scope, sizeof(token->scope), "%s", scope);
        token->expires = clock_now() + seconds * USEC_SEC;
    }
    token_offer(request, token);
}

/* Whoever has a token may end that one; users their own, admins everybody's. */
static bool may_end(const struct principal *who, const struct ctl_token *token)
{
    if (who->token[0] && strcmp(who->token, token->id) == 0)
        return true;
    return who->role == ROLE_ADMIN || (who->role >= ROLE_USER && strcmp(token->user, who->user) == 0);
}

void rest_tokens_remove(struct request *request)
{
    const struct registry *registry = server_book(request_server(request));

    for (size_t i = 0; i < registry->token_count; i++)
        if (strcmp(registry->tokens[i].id, request->params[0]) == 0 && may_end(&request->who, &registry->tokens[i])) {
            request_offer(request,
                          &(struct entry){ .kind = ENTRY_UNTOKEN, .untoken = { .id = entry_text(request->params[0]) } },
                          offered_nothing);
            return;
        }
    if (request->who.role < ROLE_USER)
        reply_problem(request, 403, "NotAllowed", NULL, "your role (%s) ends no token but its own",
                      role_name(request->who.role));
    else
        reply_problem(request, 404, "NotFound", NULL, "no token %.40s", request->params[0]);
}
