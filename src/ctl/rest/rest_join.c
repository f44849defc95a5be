/* SPDX-License-Identifier: Apache-2.0 */
/* rest_join.c - POST /join: signs the certificate request of a node. The use of its token is made durable first.
 *
 * A token is good for new nodes, of the names it was made for. The name of a node that there is already is given only
 * for a token of POST /nodes/NAME/rejoin: certificates that the node had before are revoked, durably, before there is
 * another. That one is made a second later: certificates count in whole seconds, and it must be newer than the
 * revocation.
 */
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/daemon/links.h"
#include "ctl/rest/rest.h"
#include "io/file.h"
#include "io/log.h"
#include "io/pki.h"
#include "wire/text/hostlist.h"

#define NEWER (1100 * USEC_MSEC)

struct joining {
    struct request *request;
    char *csr;
    struct loop_timer *timer; /* until the certificate is newer than the revocation */
    char node[256];
    bool known; /* there is a node of that name: its certificates are to be revoked */
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

static void join_end(struct joining *joining)
{
    loop_timer_free(joining->timer);
    request_drop(joining->request);
    mem_free(joining->csr);
    mem_free(joining);
}

static void on_newer(void *arg)
{
    struct joining *joining = arg;

    if (request_conn(joining->request))
        join_sign(joining);
    join_end(joining);
}

static void on_revoked(void *arg, const struct entry_result *result)
{
    struct joining *joining = arg;
    struct server *server = request_server(joining->request);

    /* -ENOENT: it was forgotten meanwhile, which revokes as well. */
    if (result->code < 0 && result->code != -ENOENT) {
        reply_refused(joining->request, result);
    } else if (loop_timer_new(server->loop, on_newer, joining, &joining->timer) < 0) {
        reply_problem(joining->request, 503, "Busy", NULL, "out of memory");
    } else {
        links_drop(server->links, joining->node);
        loop_timer_after(joining->timer, NEWER);
        return;
    }
    join_end(joining);
}

static void on_join(void *arg, const struct entry_result *result)
{
    struct joining *joining = arg;
    struct entry_result refused = { 0 };

    if (result->code == 0 && joining->known) {
        const struct entry entry = { .kind = ENTRY_FORGET,
                                     .forget = { .node = entry_text(joining->node), .revoke = true } };

        if (batcher_offer(request_server(joining->request)->batcher, &entry, on_revoked, joining, &refused) < 0)
            on_revoked(joining, &refused);
        return;
    }
    if (result->code < 0)
        reply_problem(joining->request, 401, "NotLoggedIn", NULL, "the token is unknown, used or has expired");
    else if (request_conn(joining->request))
        join_sign(joining);
    join_end(joining);
}

/* Names of nodes go into certificates, paths and host files. */
static bool node_name_good(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

    return name && *name && strlen(name) <= 63 && strspn(name, letters) == strlen(name) && name[0] != '.' &&
           name[0] != '-';
}

struct name_search {
    const char *name;
    bool found;
};

static int name_match(void *arg, const char *pattern)
{
    struct name_search *search = arg;

    search->found = search->found || fnmatch(pattern, search->name, FNM_NOESCAPE) == 0;
    return 0;
}

/* Is the token good for that name? If not, it is answered. *ret_known: there is a node of that name. */
static bool name_granted(struct request *request, const char *name, bool *ret_known)
{
    const struct ctl_node *node = registry_node_find(server_book(request_server(request)), name);
    const char *scope = request->who.scope;
    size_t rejoin = strlen(JOIN_AGAIN), names = strlen(JOIN_NAMES);
    struct name_search search = { .name = name, .found = strncmp(scope, JOIN_NAMES, names) != 0 };

    *ret_known = node && !node->forgotten;
    if (strncmp(scope, JOIN_AGAIN, rejoin) == 0) {
        if (strcmp(scope + rejoin, name) == 0)
            return true;
        reply_problem(request, 403, "NotAllowed", NULL, "this token is for the node %.63s", scope + rejoin);
        return false;
    }
    if (!search.found && hostlist_each(scope + names, name_match, &search, NULL) == 0 && !search.found) {
        reply_problem(request, 403, "NotAllowed", "an admin: muster token new --join --names NAMES",
                      "this token is for nodes named %.60s", scope + names);
        return false;
    }
    if (search.found && !*ret_known && !links_connected(request_server(request)->links, name))
        return true;
    reply_problem(request, 409, "Conflict", "an admin: muster node rejoin NAME",
                  "a node of that name is here; another machine does not take its place");
    return false;
}

void rest_join(struct request *request)
{
    static const char *const keys[] = { "node", "csr", NULL };
    struct server *server = request_server(request);
    struct entry_result refused = { 0 };
    struct joining *joining;
    bool known;
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
    if (!name_granted(request, json_string_value(json_object_get(body, "node")), &known)) {
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
    joining->known = known;
    (void)snprintf(joining->node, sizeof(joining->node), "%s", json_string_value(json_object_get(body, "node")));
    json_decref(body);
    if (batcher_offer(server->batcher,
                      &(struct entry){ .kind = ENTRY_UNTOKEN,
                                       .untoken = { .id = entry_text(request->who.token), .joined = true } },
                      on_join, joining, &refused) < 0)
        on_join(joining, &refused);
}
