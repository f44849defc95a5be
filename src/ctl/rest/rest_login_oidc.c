/* SPDX-License-Identifier: Apache-2.0 */
/* rest_login_oidc.c - /login/oidc: what an issuer of OpenID Connect says of somebody, for a token of ours.
 *
 * Three ways in. {"id_token"}: somebody has one already. {"device": true}, then {"device_code"} until it is answered:
 * for a terminal; people say yes in a browser anywhere. {"code", "code_verifier", "redirect_uri", "nonce"}: for the
 * dashboard (PKCE). The controller asks the issuer itself: the secret of the client, where it has one, stays with it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/http/jwt.h"
#include "ctl/http/oidc.h"
#include "ctl/rest/rest.h"
#include "io/log.h"

enum { SIGNING_MAX = 64, NONCE_MAX = 128 };
#define DEVICE_GRANT "urn:ietf:params:oauth:grant-type:device_code"

static unsigned int signing; /* under way; one thread */

enum step { STEP_TOKEN, STEP_DEVICE, STEP_POLL, STEP_CODE };

struct signin {
    struct request *request; /* held */
    enum step step;
    bool again; /* the keys were fetched anew for this one */
    char *token;
    char *form; /* for the issuer */
    char nonce[NONCE_MAX];
};

static void signin_end(struct signin *in)
{
    signing--;
    request_drop(in->request);
    if (in->token)
        explicit_bzero(in->token, strlen(in->token));
    mem_free(in->token);
    mem_free(in->form);
    mem_free(in);
}

static struct oidc *oidc_of(const struct signin *in)
{
    return request_server(in->request)->oidc;
}

static void unavailable(struct signin *in, const char *why)
{
    log_err("nobody can sign in by the issuer", "error", why);
    reply_problem(in->request, 503, "LoginUnavailable", "muster login URL --token TOKEN", "%.300s", why);
    signin_end(in);
}

static void judge(struct signin *in);

static void on_again(void *arg, const struct error *err)
{
    struct signin *in = arg;

    if (err)
        unavailable(in, err->text);
    else
        judge(in);
}

/* The token is there: who is it? */
static void judge(struct signin *in)
{
    const struct server *server = request_server(in->request);
    struct oidc_person person;
    struct error err = { 0 };
    int r = oidc_judge(oidc_of(in), in->token, in->nonce[0] ? in->nonce : NULL, &person, &err);

    if (r == -EAGAIN && !in->again) {
        in->again = true;
        oidc_ready(oidc_of(in), true, on_again, in);
        return;
    }
    if (r < 0) {
        log_warn("login refused", "issuer", server->conf->oidc.issuer, "error", err.text);
        reply_problem(in->request, 401, "NotLoggedIn", NULL, "%s", err.text);
    } else {
        log_info("signed in", "user", person.user, "role", role_name(person.role), "by", server->conf->oidc.issuer);
        token_reply(in->request, person.user, role_name(person.role), person.scope,
                    server->conf->oidc.lifetime / USEC_SEC);
    }
    signin_end(in);
}

/* What a device is told to show. */
static void device_tell(struct signin *in, const json_t *answer)
{
    static const char *const names[] = { "device_code", "user_code", "verification_uri", "verification_uri_complete" };
    json_t *out = json_pack("{s:s, s:s}", "apiVersion", "v1", "kind", "DeviceLogin"), *value;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        value = json_object_get(answer, names[i]);
        (void)json_object_set_new(out, names[i], json_is_string(value) ? json_incref(value) : json_null());
    }
    if (!json_is_string(json_object_get(out, "verification_uri"))) /* a name some issuers still use */
        (void)json_object_set(out, "verification_uri", json_object_get(answer, "verification_url"));
    value = json_object_get(answer, "interval");
    (void)json_object_set_new(out, "interval_seconds",
                              json_integer(json_is_integer(value) ? json_integer_value(value) : 5));
    value = json_object_get(answer, "expires_in");
    (void)json_object_set_new(out, "expires_seconds",
                              json_integer(json_is_integer(value) ? json_integer_value(value) : 600));
    reply_header(in->request, "Cache-Control", "no-store");
    reply_tree(in->request, 200, out);
}

static void on_answer(void *arg, int status, json_t *answer, const char *why)
{
    struct signin *in = arg;
    const char *token = json_string_value(json_object_get(answer, "id_token"));
    const char *error = json_string_value(json_object_get(answer, "error"));

    if (!answer) {
        unavailable(in, why ? why : "the issuer did not answer");
        return;
    }
    if (in->step == STEP_DEVICE && status == 200 && json_is_string(json_object_get(answer, "device_code"))) {
        device_tell(in, answer);
    } else if (in->step != STEP_DEVICE && status == 200 && token && strlen(token) <= JWT_BYTES_MAX) {
        in->token = mem_strdup(token);
        if (in->token) {
            judge(in);
            return;
        }
        reply_problem(in->request, 503, "Busy", NULL, "no memory");
    } else if (in->step == STEP_POLL && error &&
               (strcmp(error, "authorization_pending") == 0 || strcmp(error, "slow_down") == 0)) {
        reply_tree(in->request, 202,
                   json_pack("{s:s, s:s, s:s}", "apiVersion", "v1", "kind", "DeviceLogin", "pending", error));
    } else {
        log_warn("login refused", "issuer", request_server(in->request)->conf->oidc.issuer, "error",
                 error ? error : "no id_token in the answer");
        reply_problem(in->request, 401, "NotLoggedIn", NULL, "the issuer says: %.60s", error ? error : "no id_token");
    }
    signin_end(in);
}

static void on_ready(void *arg, const struct error *err)
{
    struct signin *in = arg;

    if (err)
        unavailable(in, err->text);
    else if (in->step == STEP_TOKEN)
        judge(in);
    else
        oidc_ask(oidc_of(in), in->step == STEP_DEVICE ? "device_authorization_endpoint" : "token_endpoint", in->form,
                 on_answer, in);
}

/* NAME=VALUE; false: it is not there, or no text. */
static bool form_add(struct buf *out, const json_t *body, const char *name, size_t max)
{
    const char *value = json_string_value(json_object_get(body, name));

    if (!value || !*value || strlen(value) > max)
        return false;
    buf_printf(out, "&%s=", name);
    buf_percent(out, value, "");
    return true;
}

/* Which way in, and what the issuer is asked. -EINVAL. */
static int signin_fill(struct signin *in, const json_t *body)
{
    const struct conf_oidc *conf = &request_server(in->request)->conf->oidc;
    const char *token = json_string_value(json_object_get(body, "id_token"));
    const char *nonce = json_string_value(json_object_get(body, "nonce"));
    struct buf out = BUF_INIT(8192);
    bool good = !nonce || strlen(nonce) < sizeof(in->nonce);

    if (good && token) {
        in->step = STEP_TOKEN;
        good = json_object_size(body) == 1 && strlen(token) <= JWT_BYTES_MAX;
        in->token = mem_strdup(token);
    } else if (good && json_is_true(json_object_get(body, "device"))) {
        in->step = STEP_DEVICE;
        good = json_object_size(body) == 1;
        buf_text(&out, "scope=");
        buf_percent(&out, conf->scope ? conf->scope : "openid profile", "");
    } else if (good && json_object_get(body, "device_code")) {
        in->step = STEP_POLL;
        buf_text(&out, "grant_type=");
        buf_percent(&out, DEVICE_GRANT, "");
        good = json_object_size(body) == 1 && form_add(&out, body, "device_code", 2048);
    } else if (good) {
        in->step = STEP_CODE;
        buf_text(&out, "grant_type=authorization_code");
        good = form_add(&out, body, "code", 2048) && form_add(&out, body, "code_verifier", 128) &&
               form_add(&out, body, "redirect_uri", 512) && nonce && *nonce;
        (void)snprintf(in->nonce, sizeof(in->nonce), "%s", nonce && good ? nonce : "");
    }
    buf_char(&out, '\0');
    if (good && !out.error && (in->step != STEP_TOKEN || in->token)) {
        in->form = out.data;
        return 0;
    }
    buf_done(&out);
    return -EINVAL;
}

void rest_oidc_login(struct request *request)
{
    static const char *const keys[] = { "id_token",      "device",       "device_code", "code",
                                        "code_verifier", "redirect_uri", "nonce",       NULL };
    const struct server *server = request_server(request);
    json_t *body = request_object(request, keys);
    struct signin *in;

    if (!body)
        return;
    if (!server->conf->oidc.issuer)
        reply_problem(request, 501, "NotSupported", "muster login URL --token TOKEN",
                      "this cluster knows no issuer of OpenID Connect (auth.oidc in muster.yaml)");
    else if (!login_whispered(request))
        reply_problem(request, 403, "NotAllowed", NULL, "people sign in over TLS only");
    else if (!server->batcher)
        reply_problem(request, 503, "NotReady", NULL, "the controller is starting");
    else if (signing >= SIGNING_MAX)
        reply_problem(request, 429, "Busy", NULL, "too many are signing in at the same moment");
    in = request->answered ? NULL : mem_zalloc(1, sizeof(*in));
    if (in) {
        in->request = request_hold(request);
        signing++;
        if (signin_fill(in, body) < 0) {
            reply_problem(
                request, 400, "BadRequest", NULL,
                "expected id_token, device: true, device_code, or code with code_verifier, redirect_uri and nonce");
            signin_end(in);
        } else {
            oidc_ready(server->oidc, false, on_ready, in);
        }
    } else if (!request->answered) {
        reply_problem(request, 503, "Busy", NULL, "no memory");
    }
    json_decref(body);
}

static void on_told(void *arg, const struct error *err)
{
    struct request *request = arg;
    const struct server *server = request_server(request);
    const struct conf_oidc *conf = &server->conf->oidc;
    const char *url = oidc_endpoint(server->oidc, "authorization_endpoint");

    if (err)
        reply_problem(request, 503, "LoginUnavailable", NULL, "%s", err->text);
    else
        reply_tree(request, 200,
                   json_pack("{s:s, s:s, s:s, s:s, s:s, s:s?, s:b}", "apiVersion", "v1", "kind", "Issuer", "issuer",
                             conf->issuer, "client_id", conf->client_id, "scope",
                             conf->scope ? conf->scope : "openid profile", "authorization_endpoint", url, "device",
                             oidc_endpoint(server->oidc, "device_authorization_endpoint") != NULL));
    request_drop(request);
}

void rest_oidc_get(struct request *request)
{
    const struct server *server = request_server(request);

    if (!server->conf->oidc.issuer)
        reply_problem(request, 501, "NotSupported", NULL, "this cluster knows no issuer of OpenID Connect");
    else
        oidc_ready(server->oidc, false, on_told, request_hold(request));
}
