/* SPDX-License-Identifier: Apache-2.0 */
/* auth.c - who is asking, and what they may see.
 *
 * A token is 256 random bits; its SHA-256 is what the registry keeps, so that a copy of the state lets nobody in. On a
 * Unix socket the kernel tells the user. With --dev there is one token that is the user musterd runs as; it is in a
 * file that only this user can read (io/local_token.h), and users other than that one and root are refused on the
 * socket. Browsers are kept from lending it to other sites by Host and Origin.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "ctl/daemon/server.h"
#include "ctl/http/oidc.h"
#include "io/pki.h"

#define ACCOUNT_KNOWN (5 * USEC_SEC)

static const char *const role_names[ROLES] = { "nobody", "viewer", "user", "vc-admin", "admin", "agent" };

const char *role_name(enum role role)
{
    return role_names[role];
}

int role_find(const char *name)
{
    for (int i = ROLE_VIEWER; i <= ROLE_ADMIN; i++)
        if (strcmp(name, role_names[i]) == 0)
            return i;
    return -ENOENT;
}

int token_make(char *id, size_t id_size, char *text, size_t text_size, char *hash)
{
    char random[12], secret[48];
    int r = pki_random_text(6, random, sizeof(random));

    if (r == 0)
        r = pki_random_text(32, secret, sizeof(secret));
    if (r < 0)
        return r;
    (void)snprintf(id, id_size, "t%s", random);
    (void)snprintf(text, text_size, "mus_%s", secret);
    pki_sha256(text, strlen(text), hash);
    return 0;
}

static bool is_admin(const struct conf *conf, const char *user)
{
    for (size_t i = 0; i < conf->admin_count; i++)
        if (strcmp(conf->admins[i], user) == 0)
            return true;
    return false;
}

/* The account of a user on this machine, for whoever may start processes. */
static void account_find(struct principal *who)
{
    struct passwd entry, *found = NULL;
    char text[4096];

    if (getpwnam_r(who->user, &entry, text, sizeof(text), &found) == 0 && found) {
        who->uid = found->pw_uid;
        who->gid = found->pw_gid;
        who->has_uid = true;
    }
}

/* The name of an account, "uid7" where it has none. The last one is remembered for a moment: whoever asks much asks
 * again, and to look it up is to read a file or to ask a server. */
static void account_name(uid_t uid, struct principal *who)
{
    static char last[sizeof(who->user)];
    static uid_t last_uid;
    static usec_t until;
    struct passwd entry, *found = NULL;
    usec_t now = clock_now();
    char text[4096];

    if (uid != last_uid || now >= until) {
        if (getpwuid_r(uid, &entry, text, sizeof(text), &found) == 0 && found)
            (void)snprintf(last, sizeof(last), "%s", found->pw_name);
        else
            (void)snprintf(last, sizeof(last), "uid%u", (unsigned)uid);
        last_uid = uid;
        until = now + ACCOUNT_KNOWN;
    }
    memcpy(who->user, last, sizeof(last));
}

/* With --dev jobs run as the user who started it, so that nobody else is let in. */
static bool local_user(const struct server *server, struct principal *who, uid_t uid, gid_t gid)
{
    if (server->dev && uid != 0 && uid != server->uid)
        return false;
    who->uid = uid;
    who->gid = gid;
    who->has_uid = true;
    who->via = "socket";
    account_name(uid, who);
    who->role = uid == 0 || uid == server->uid || is_admin(server->conf, who->user) ? ROLE_ADMIN : ROLE_USER;
    return true;
}

/* "Bearer TEXT" to its token; a join token has the fingerprint of the authority behind a dot. */
static const struct ctl_token *token_find(const struct server *server, const char *header, usec_t now)
{
    const struct registry *registry;
    char hash[65];
    size_t length;

    if (strncasecmp(header, "bearer ", 7) != 0 || !server->batcher)
        return NULL;
    header += 7 + strspn(header + 7, " ");
    length = strcspn(header, ". \t");
    if (length < 16 || length > 256)
        return NULL;
    pki_sha256(header, length, hash);
    registry = server_book(server);
    for (size_t i = 0; i < registry->token_count; i++)
        if (strcmp(registry->tokens[i].hash, hash) == 0)
            return registry->tokens[i].expires == 0 || registry->tokens[i].expires > now ? &registry->tokens[i] : NULL;
    return NULL;
}

/* What a scope leaves of a role: reading, jobs of one's own, or one virtual cluster. */
static enum role role_within(enum role role, const char *scope)
{
    enum role most = strcmp(scope, "read") == 0      ? ROLE_VIEWER
                     : strcmp(scope, "jobs") == 0    ? ROLE_USER
                     : strncmp(scope, "vc:", 3) == 0 ? ROLE_VC_ADMIN
                                                     : ROLE_ADMIN;

    return role > most ? most : role;
}

static bool token_identify(const struct server *server, struct principal *who, const char *header)
{
    const struct ctl_token *token = token_find(server, header, clock_now());
    int role;

    if (!token)
        return false;
    (void)snprintf(who->user, sizeof(who->user), "%s", token->user);
    (void)snprintf(who->scope, sizeof(who->scope), "%s", token->scope);
    (void)snprintf(who->token, sizeof(who->token), "%s", token->id);
    who->until = token->expires;
    who->via = "token";
    if (strcmp(token->role, "join") == 0) {
        who->role = ROLE_AGENT;
        return true;
    }
    role = role_find(token->role);
    if (role < 0)
        return false;
    who->role = (enum role)role;
    who->role = role_within(who->role, token->scope);
    account_find(who);
    return true;
}

/* Whether a name in Host or Origin means this machine. */
static bool names_loopback(const char *host)
{
    static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };

    for (size_t i = 0; i < 3; i++) {
        size_t length = strlen(names[i]);

        if (strncasecmp(host, names[i], length) == 0 && (host[length] == ':' || host[length] == '\0'))
            return true;
    }
    return false;
}

static bool browser_may(const struct request *request)
{
    const char *host = http_header(request->message, "host"), *origin = http_header(request->message, "origin");

    if (host && !names_loopback(host))
        return false;
    if (!origin)
        return true;
    if (strncasecmp(origin, "http://", 7) != 0)
        return false;
    return host && strcasecmp(origin + 7, host) == 0;
}

/* The token of --dev. */
static bool dev_identify(const struct server *server, const struct request *request, const char *header,
                         struct principal *who)
{
    size_t length = strlen(server->dev_token);

    if (!server->dev || length == 0 || strncasecmp(header, "bearer ", 7) != 0)
        return false;
    header += 7 + strspn(header + 7, " ");
    if (strlen(header) != length || CRYPTO_memcmp(header, server->dev_token, length) != 0 ||
        !net_peer_loopback(request_conn(request)) || !browser_may(request))
        return false;
    *who = (struct principal){ .role = ROLE_ADMIN, .uid = server->uid, .gid = server->gid, .has_uid = true };
    who->via = "dev";
    (void)snprintf(who->user, sizeof(who->user), "%s", server->user);
    return true;
}

/* A node that was forgotten, or whose certificate was revoked, and that has not joined since. */
static bool certificate_barred(const struct server *server, const struct net_conn *conn, const char *name)
{
    const struct ctl_node *node = server->batcher ? registry_node_find(server_book(server), name) : NULL;

    return node && node->barred && net_peer_since(conn) + PKI_BACKDATED <= node->barred;
}

bool auth_identify(struct server *server, struct request *request)
{
    const char *header = http_header(request->message, "authorization");
    struct net_conn *conn = request_conn(request);
    struct principal *who = &request->who;
    const char *name = net_peer_name(conn);
    uid_t uid;
    gid_t gid;

    *who = (struct principal){ .via = "none" };
    if (name) {
        if (certificate_barred(server, conn, name))
            return false;
        (void)snprintf(who->user, sizeof(who->user), "%s", name);
        who->role = ROLE_AGENT;
        who->via = "certificate";
        return true;
    }
    if (header && server->conf->oidc.issuer && strncasecmp(header, "bearer ", 7) == 0 &&
        oidc_resembles(header + 7 + strspn(header + 7, " "))) {
        if (!oidc_identify(server->oidc, header + 7 + strspn(header + 7, " "), who))
            return false;
        account_find(who);
        return true;
    }
    if (header)
        return dev_identify(server, request, header, who) || token_identify(server, who, header);
    if (net_peer_user(conn, &uid, &gid))
        return local_user(server, who, uid, gid);
    if (server->conf->anonymous_read) {
        who->role = ROLE_VIEWER;
        who->via = "anonymous";
        return true;
    }
    return false;
}

static bool vc_matches(const struct principal *who, const struct ctl_job *job, const struct cluster_spec *cluster)
{
    return who->role == ROLE_VC_ADMIN && strncmp(who->scope, "vc:", 3) == 0 && job->vc < cluster->vc_count &&
           strcmp(who->scope + 3, names_get(&cluster->names, cluster->vcs[job->vc].name)) == 0;
}

bool auth_governs(const struct principal *who, const struct registry *registry, const struct ctl_job *job,
                  const struct cluster_spec *cluster)
{
    if (who->role == ROLE_ADMIN)
        return true;
    if (who->role < ROLE_USER || who->role == ROLE_AGENT)
        return false;
    return strcmp(names_get(&registry->users, job->user), who->user) == 0 || vc_matches(who, job, cluster);
}

bool auth_sees(const struct principal *who, const struct registry *registry, const struct ctl_job *job,
               const struct cluster_spec *cluster)
{
    return auth_governs(who, registry, job, cluster) ||
           (who->role == ROLE_VIEWER && who->token[0] &&
            strcmp(names_get(&registry->users, job->user), who->user) == 0);
}

bool auth_sees_record(const struct principal *who, const json_t *record)
{
    const char *user = json_string_value(json_object_get(record, "user"));
    const char *vc = json_string_value(json_object_get(record, "vc"));

    if (who->role == ROLE_ADMIN)
        return true;
    if (who->role < ROLE_VIEWER || who->role == ROLE_AGENT || (who->role == ROLE_VIEWER && !who->token[0]))
        return false;
    return (user && strcmp(user, who->user) == 0) ||
           (who->role == ROLE_VC_ADMIN && vc && strncmp(who->scope, "vc:", 3) == 0 && strcmp(who->scope + 3, vc) == 0);
}
