/* SPDX-License-Identifier: Apache-2.0 */
/* rest_admin.c - the controller itself: version, health, people and tokens, joining nodes, configuration, scheduler. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/feed.h"
#include "ctl/links.h"
#include "ctl/rest.h"
#include "ctl/stats.h"
#include "io/file.h"
#include "io/log.h"
#include "io/pki.h"
#include "policy/registry.h"
#include "wire/decimal.h"

void rest_version(struct request *request)
{
    struct server *server = request_server(request);

    reply_tree(request, 200,
               json_pack("{s:s, s:s, s:s, s:s, s:s, s:[s,s,s,s], s:b}", "apiVersion", "v1", "kind", "Version",
                         "version", MUSTER_VERSION, "api", "v1", "cluster", server->conf->cluster, "features", "events",
                         "plan", "why", "exec", "dev", server->dev));
}

void rest_health(struct request *request)
{
    reply(request, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

void rest_ready(struct request *request)
{
    struct server *server = request_server(request);

    if (server->drive && !server->stopping)
        reply(request, 200, "text/plain; charset=utf-8", "ready\n", 6);
    else
        reply_problem(request, 503, "NotReady", NULL, server->stopping ? "stopping" : "starting");
}

void rest_whoami(struct request *request)
{
    const struct principal *who = &request->who;

    reply_tree(request, 200,
               json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:s, s:o}", "apiVersion", "v1", "kind", "Principal", "user",
                         who->user, "uid", who->has_uid ? json_integer(who->uid) : json_null(), "role",
                         role_name(who->role), "scope", who->scope, "via", who->via, "token",
                         who->token[0] ? json_string(who->token) : json_null()));
}

/* Tokens. People have their own; admins see and make everybody's. */

void rest_tokens_list(struct request *request)
{
    const struct book *book = server_book(request_server(request));
    struct buf out = BUF_INIT((size_t)16 << 20);
    struct json_write json;

    list_begin(&json, &out, "TokenList");
    for (size_t i = 0; i < book->token_count; i++) {
        const struct book_token *token = &book->tokens[i];

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

/* The token is filled, but for its text: it is made, and told when it is durable. */
static void token_offer(struct request *request, struct new_token *token)
{
    struct server *server = request_server(request);
    struct entry_result refused = { 0 };
    char hash[65];
    json_t *body;

    if (!token || token_make(token->id, sizeof(token->id), token->text, sizeof(token->text), hash) < 0) {
        reply_problem(request, 503, "Busy", NULL, "no memory or no random numbers");
        mem_free(token);
        return;
    }
    if (strcmp(token->role, "join") == 0)
        pin_add(server, token->text, sizeof(token->text));
    token->request = request_hold(request);
    body = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "id", token->id, "hash", hash, "user", token->user, "role",
                     token->role, "scope", token->scope, "expires", (json_int_t)token->expires, "nodes",
                     (json_int_t)token->nodes);
    if (drive_offer(server->drive, ENTRY_TOKEN, body, on_token, token, &refused) < 0)
        on_token(token, &refused);
}

void rest_tokens_add(struct request *request)
{
    static const char *const keys[] = { "user", "role", "scope", "expires_seconds", "join", "nodes", NULL };
    json_t *body = request_object(request, keys);
    struct new_token *token = body ? mem_zalloc(1, sizeof(*token)) : NULL;

    if (!body)
        return;
    if (token && token_fill(request, body, token) < 0)
        mem_free(token);
    else
        token_offer(request, token);
    json_decref(body);
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
static bool may_end(const struct principal *who, const struct book_token *token)
{
    if (who->token[0] && strcmp(who->token, token->id) == 0)
        return true;
    return who->role == ROLE_ADMIN || (who->role >= ROLE_USER && strcmp(token->user, who->user) == 0);
}

void rest_tokens_remove(struct request *request)
{
    const struct book *book = server_book(request_server(request));

    for (size_t i = 0; i < book->token_count; i++)
        if (strcmp(book->tokens[i].id, request->params[0]) == 0 && may_end(&request->who, &book->tokens[i])) {
            request_offer(request, ENTRY_UNTOKEN, json_pack("{s:s}", "id", request->params[0]), offered_nothing);
            return;
        }
    if (request->who.role < ROLE_USER)
        reply_problem(request, 403, "NotAllowed", NULL, "your role (%s) ends no token but its own",
                      role_name(request->who.role));
    else
        reply_problem(request, 404, "NotFound", NULL, "no token %.40s", request->params[0]);
}

/* A node joins: that use of its token is counted first, durably; then its request is signed. */

struct joining {
    struct request *request;
    char *csr;
    char node[256];
};

static void join_sign(struct joining *joining)
{
    struct server *server = request_server(joining->request);
    CLEANUP_BYTES struct bytes ca = { 0 }, key = { 0 }, cert = { 0 };
    struct pki_sign how = { .name = joining->node, .days = 3650 };
    char alt[300];
    struct error err;
    int r = file_read(server->conf->tls_ca, 1 << 20, &ca, &err);

    if (r == 0)
        r = file_read(server->conf->tls_ca_key, 1 << 20, &key, &err);
    if (r == 0) {
        (void)snprintf(alt, sizeof(alt), "DNS:%s", joining->node);
        how.ca_pem = ca.data;
        how.ca_key_pem = key.data;
        how.alt = alt;
        r = pki_sign(joining->csr, &how, &cert, &err);
    }
    if (key.data)
        explicit_bzero(key.data, key.size);
    if (r < 0) {
        log_warn("join refused", "node", joining->node, "error", err.text);
        reply_problem(joining->request, r == -EBADMSG ? 400 : 500, r == -EBADMSG ? "BadRequest" : "Internal", NULL,
                      "%s", err.text);
        return;
    }
    log_info("node joined", "node", joining->node, "from", net_peer(request_conn(joining->request)));
    reply_tree(joining->request, 200,
               json_pack("{s:s, s:s, s:s, s:s}", "cluster", server->conf->cluster, "node", joining->node, "certificate",
                         cert.data, "ca", ca.data));
}

static void on_join(void *arg, const struct entry_result *result)
{
    struct joining *joining = arg;

    if (result->code < 0)
        reply_problem(joining->request, 401, "NotLoggedIn", NULL, "the token is unknown, used or has expired");
    else if (request_conn(joining->request))
        join_sign(joining);
    request_drop(joining->request);
    mem_free(joining->csr);
    mem_free(joining);
}

/* Names of nodes go into certificates, paths and host files. */
static bool node_name_good(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

    return name && *name && strlen(name) <= 63 && strspn(name, letters) == strlen(name) && name[0] != '.' &&
           name[0] != '-';
}

void rest_join(struct request *request)
{
    static const char *const keys[] = { "node", "csr", NULL };
    struct server *server = request_server(request);
    struct entry_result refused = { 0 };
    struct joining *joining;
    json_t *body;

    if (!server->conf->tls_ca || !server->conf->tls_ca_key || !net_secure(request_conn(request))) {
        reply_problem(request, 409, "Conflict", NULL,
                      "nodes join over TLS, at a controller with an authority of its own");
        return;
    }
    body = request_object(request, keys);
    if (!body)
        return;
    if (!node_name_good(json_string_value(json_object_get(body, "node"))) ||
        !json_is_string(json_object_get(body, "csr"))) {
        reply_problem(request, 400, "BadRequest", NULL, "expected node (letters, digits, - . _) and csr (PEM)");
        json_decref(body);
        return;
    }
    if (links_connected(server->links, json_string_value(json_object_get(body, "node")))) {
        reply_problem(request, 409, "Conflict", "an admin: DELETE /nodes/NAME?revoke=1, then join again",
                      "a node of that name is here; another machine does not take its place");
        json_decref(body);
        return;
    }
    joining = mem_zalloc(1, sizeof(*joining));
    if (joining)
        joining->csr = mem_strdup(json_string_value(json_object_get(body, "csr")));
    if (!joining || !joining->csr) {
        mem_free(joining);
        json_decref(body);
        reply_problem(request, 503, "Busy", NULL, "out of memory");
        return;
    }
    joining->request = request_hold(request);
    (void)snprintf(joining->node, sizeof(joining->node), "%s", json_string_value(json_object_get(body, "node")));
    json_decref(body);
    if (drive_offer(server->drive, ENTRY_UNTOKEN, json_pack("{s:s, s:b}", "id", request->who.token, "joined", 1),
                    on_join, joining, &refused) < 0)
        on_join(joining, &refused);
}

/* The scheduler. */

/* All that wait, as lists have them: also those that a gate keeps out of the core. */
static int64_t pending_count(const struct book *book)
{
    int64_t count = 0;

    for (size_t i = 0; i < book->live_count; i++)
        count += book->live[i]->phase == PHASE_JOB_PENDING;
    return count;
}

void rest_scheduler_get(struct request *request)
{
    struct server *server = request_server(request);
    struct ctl *ctl = drive_ctl(server->drive);
    struct buf out = BUF_INIT((size_t)1 << 20);
    const struct policy *policy;
    struct json_write json;
    struct scene scene;

    scene_fill(&scene, request);
    json_write_init(&json, &out, false);
    json_write_object(&json, NULL);
    json_write_text(&json, "apiVersion", "v1");
    json_write_text(&json, "kind", "Scheduler");
    json_write_bool(&json, "paused", scene.book->paused);
    json_write_text(&json, "policy", policy_now(server));
    json_write_u64(&json, "seq", ctl_seq(ctl));
    json_write_i64(&json, "waiting", pending_count(scene.book));
    json_write_i64(&json, "running", scene.core ? core_running(scene.core) : 0);
    json_write_u64(&json, "decisions", scene.core ? core_decisions(scene.core) : 0);
    json_write_i64(&json, "agents", (int64_t)links_count(server->links));
    json_write_i64(&json, "clients", (int64_t)http_server_clients(server->http));
    put_time(&json, "started_time", server->started);
    put_time(&json, "last_time", ctl_now(ctl));
    json_write_array(&json, "policies");
    for (size_t i = 0; (policy = policy_at(i)) != NULL; i++) {
        json_write_object(&json, NULL);
        json_write_text(&json, "name", policy->name);
        json_write_text(&json, "summary", policy->summary);
        json_write_close(&json);
    }
    json_write_close(&json);
    json_write_close(&json);
    reply_buf(request, 200, &out);
}

static void offered_scheduler(struct request *request, const struct entry_result *result)
{
    if (result->code < 0)
        reply_refused(request, result);
    else
        rest_scheduler_get(request);
}

/* Another policy, of one virtual cluster or of those that name none. All else stays as it is configured. */
static void policy_offer(struct request *request, const char *policy, const char *vc)
{
    struct server *server = request_server(request);
    json_t *settings = json_deep_copy(ctl_settings(drive_ctl(server->drive)));
    json_t *vcs = json_object_get(settings, "vcs"), *one = vc ? json_object_get(vcs, vc) : NULL;

    if (!settings)
        settings = json_object();
    if (vc && !one && (json_object_size(vcs) > 0 || strcmp(vc, "default") != 0)) {
        reply_problem(request, 404, "NoSuchVc", NULL, "no virtual cluster %.60s", vc);
        json_decref(settings);
        return;
    }
    (void)json_object_set_new(one ? one : settings, "policy", json_string(policy));
    request_offer(request, ENTRY_CONFIG, settings, offered_scheduler);
}

void rest_scheduler_patch(struct request *request)
{
    static const char *const keys[] = { "paused", "policy", "vc", NULL };
    json_t *body = request_object(request, keys), *paused;
    const char *policy, *vc;

    if (!body)
        return;
    paused = json_object_get(body, "paused");
    policy = json_string_value(json_object_get(body, "policy"));
    vc = json_string_value(json_object_get(body, "vc"));
    if (json_is_boolean(paused)) {
        request_offer(request, ENTRY_PAUSE,
                      json_pack("{s:b, s:s}", "paused", json_is_true(paused), "by", request->who.user),
                      offered_scheduler);
    } else if (policy && policy_known(policy)) {
        policy_offer(request, policy, vc);
    } else {
        reply_problem(request, 400, "BadRequest", "muster sim policies lists them",
                      policy ? "policy: there is no '%.40s'" : "expected paused or policy", policy ? policy : "");
    }
    json_decref(body);
}

void rest_scheduler_trace(struct request *request)
{
    int64_t id = 0;

    if (decimal_parse_i64(request->params[0], strlen(request->params[0]), &id) < 0)
        reply_problem(request, 404, "NotFound", NULL, "no job %.40s", request->params[0]);
    else
        feed_trace(request_server(request)->feed, request, id);
}

void rest_events(struct request *request)
{
    static const char *const known[] = { "since", "kinds", "job", NULL };
    int64_t job = 0;

    if (query_known(request, known) && query_i64(request, "job", 1, INT64_MAX, &job) == 0)
        feed_reply(request_server(request)->feed, request, job);
}
