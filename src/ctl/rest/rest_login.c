/* SPDX-License-Identifier: Apache-2.0 */
/* rest_login.c - POST /login: a user's name and password, judged by PAM, for a token.
 *
 * Only over TLS, or on the Unix socket, or with --dev on the loopback: a password is never read from a wire in the
 * clear. A few at a time; each check is a process of its own (pam.h), so a slow module delays nobody else.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ctl/http/pam.h"
#include "ctl/rest/rest.h"
#include "io/child.h"
#include "io/log.h"
#include "io/net.h"

enum { LOGINS_MAX = 8, LOGIN_OUT_MAX = 4096, LOGIN_DAYS = 30 };
#define LOGIN_WALL (20 * USEC_SEC)

static unsigned int logins; /* that are being checked; one thread */

struct login {
    struct request *request; /* held */
    char user[64];
    int64_t seconds;
};

static bool is_admin(const struct server *server, const char *user)
{
    for (size_t i = 0; i < server->conf->admin_count; i++)
        if (strcmp(server->conf->admins[i], user) == 0)
            return true;
    return false;
}

static void on_checked(void *arg, const struct child_end *end)
{
    struct login *login = arg;
    const struct server *server = request_server(login->request);

    logins--;
    if (end->code == PAM_CHECK_GOOD && !end->signal && !end->why) {
        token_reply(login->request, login->user, is_admin(server, login->user) ? "admin" : "user", "", login->seconds);
    } else if (end->code == PAM_CHECK_WRONG && !end->signal && !end->why) {
        log_warn("login refused", "user", login->user);
        reply_problem(login->request, 401, "NotLoggedIn", NULL, "that user and password do not go together");
    } else {
        log_err("login cannot be checked", "user", login->user, "why", end->why ? end->why : end->err);
        reply_problem(login->request, 503, "LoginUnavailable", "muster login URL --token TOKEN",
                      "passwords cannot be checked now; the controller's log says why");
    }
    request_drop(login->request);
    mem_free(login);
}

static int login_check(struct login *login, const char *password, struct error *err)
{
    struct server *server = request_server(login->request);
    const char *argv[] = { "/proc/self/exe", "login-check", server->conf->pam, NULL };
    char text[PAM_CHECK_BYTES];
    struct child_spec spec = { .argv = argv,
                               .in = text,
                               .limits = { .wall = LOGIN_WALL, .out_max = LOGIN_OUT_MAX },
                               .done = on_checked,
                               .arg = login };
    struct child *child;
    int r;

    spec.in_size = (size_t)snprintf(text, sizeof(text), "%s\n%s", login->user, password);
    r = child_start(server->loop, &spec, &child, err);
    explicit_bzero(text, sizeof(text));
    return r;
}

bool login_whispered(const struct request *request)
{
    const struct net_conn *conn = request_conn(request);

    return conn && (net_secure(conn) || strcmp(net_peer(conn), "unix") == 0 || request_server(request)->dev);
}

static bool password_good(const char *user, const char *password)
{
    return user && *user && password && *password && strlen(user) < sizeof(((struct login *)NULL)->user) &&
           strlen(password) < PAM_CHECK_BYTES / 2 && !strpbrk(user, "\n/ ") && !strchr(password, '\n');
}

/* The link that musterd --dev prints: its code is exchanged once, for the token that it prints too. */
void rest_login_once(struct request *request)
{
    static const char *const keys[] = { "code", NULL };
    struct server *server = request_server(request);
    json_t *body = request_object(request, keys);
    const char *code = json_string_value(json_object_get(body, "code"));
    size_t length = strlen(server->dev_code);

    if (!body)
        return;
    if (!code || length == 0 || strlen(code) != length || CRYPTO_memcmp(code, server->dev_code, length) != 0) {
        reply_problem(request, 401, "NotLoggedIn", "paste the token that musterd --dev prints",
                      "this link was used, or is not of this controller");
    } else {
        explicit_bzero(server->dev_code, sizeof(server->dev_code));
        reply_header(request, "Cache-Control", "no-store");
        reply_tree(request, 201,
                   json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:n}", "apiVersion", "v1", "kind", "Token", "id",
                             "dev", "token", server->dev_token, "user", server->user, "role", role_name(ROLE_ADMIN),
                             "scope", "", "expires_time"));
    }
    json_decref(body);
}

void rest_login(struct request *request)
{
    static const char *const keys[] = { "user", "password", "expires_seconds", NULL };
    struct server *server = request_server(request);
    struct error err = { 0 };
    struct login *login;
    json_t *body = request_object(request, keys);
    const char *user = json_string_value(json_object_get(body, "user"));
    const char *password = json_string_value(json_object_get(body, "password"));
    const json_t *span = json_object_get(body, "expires_seconds");
    int64_t seconds = json_is_integer(span) ? json_integer_value(span) : LOGIN_DAYS * 86400;

    if (!body)
        return;
    if (!server->conf->pam)
        reply_problem(request, 501, "NotSupported", "muster token new --user NAME; muster login URL --token TOKEN",
                      "this cluster takes tokens, not passwords (auth.pam in muster.yaml)");
    else if (!login_whispered(request))
        reply_problem(request, 403, "NotAllowed", NULL, "a password is taken over TLS only");
    else if (!password_good(user, password))
        reply_problem(request, 400, "BadRequest", NULL, "expected user and password");
    else if (seconds < 60 || seconds > LOGIN_DAYS * 86400)
        reply_problem(request, 400, "BadRequest", NULL, "expires_seconds: from 60 to %d days", LOGIN_DAYS);
    else if (logins >= LOGINS_MAX)
        reply_problem(request, 429, "Busy", NULL, "too many are logging in at the same moment");
    login = request->answered ? NULL : mem_zalloc(1, sizeof(*login));
    if (login) {
        login->request = request_hold(request);
        login->seconds = seconds;
        (void)snprintf(login->user, sizeof(login->user), "%s", user);
        logins++;
        if (login_check(login, password, &err) < 0)
            on_checked(login, &(struct child_end){ .code = PAM_CHECK_BROKEN, .err = err.text });
    } else if (!request->answered) {
        reply_problem(request, 503, "Busy", NULL, "no memory");
    }
    json_decref(body);
}
