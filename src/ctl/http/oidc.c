/* SPDX-License-Identifier: Apache-2.0 */
/* oidc.c - see oidc.h. */
#include "ctl/http/oidc.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/http/fetch.h"
#include "ctl/http/jwt.h"
#include "io/child.h"
#include "io/file.h"
#include "io/log.h"
#include "wire/text/json_read.h"

enum { FETCHES_MAX = 32, SECRET_MAX = 512 };
#define KEYS_AGE USEC_HOUR
#define FETCH_WALL (12 * USEC_SEC)

struct fetch {
    struct oidc *oidc;
    struct child *child;
    struct fetch *next;
    oidc_answer_fn then;
    void *arg;
};

struct waiter {
    struct waiter *next;
    oidc_ready_fn then;
    void *arg;
};

struct oidc {
    struct server *server;
    json_t *document;
    struct jwks *keys;
    struct fetch *fetches; /* under way */
    unsigned int fetch_count;
    struct waiter *waiters;
    bool fetching;
    usec_t fetched, tried;
};

int oidc_new(struct server *server, struct oidc **ret_oidc)
{
    *ret_oidc = mem_zalloc(1, sizeof(**ret_oidc));
    if (!*ret_oidc)
        return -ENOMEM;
    (*ret_oidc)->server = server;
    return 0;
}

void oidc_stop(struct oidc *oidc)
{
    while (oidc && oidc->fetches) {
        struct fetch *fetch = oidc->fetches;

        oidc->fetches = fetch->next;
        child_abandon(fetch->child);
        mem_free(fetch);
    }
}

void oidc_free(struct oidc *oidc)
{
    if (!oidc)
        return;
    while (oidc->waiters) {
        struct waiter *waiter = oidc->waiters;

        oidc->waiters = waiter->next;
        mem_free(waiter);
    }
    json_decref(oidc->document);
    jwks_free(oidc->keys);
    mem_free(oidc);
}

static const struct conf_oidc *told(const struct oidc *oidc)
{
    return &oidc->server->conf->oidc;
}

const char *oidc_endpoint(const struct oidc *oidc, const char *name)
{
    const char *url = json_string_value(json_object_get(oidc->document, name));

    return url && fetch_url_good(url) ? url : NULL;
}

/* "STATUS\nJSON" of the process; its words otherwise. */
static void on_fetched(void *arg, const struct child_end *end)
{
    struct fetch *fetch = arg, **at = &fetch->oidc->fetches;
    const char *body = strchr(end->out, '\n');
    struct error err = { 0 };
    json_t *json = NULL;
    int status = 0;

    while (*at && *at != fetch)
        at = &(*at)->next;
    if (*at)
        *at = fetch->next;
    fetch->oidc->fetch_count--;
    if (end->code || end->signal || end->why || !body || sscanf(end->out, "%d", &status) != 1)
        (void)error_set(&err, -EIO, "%.200s",
                        end->why                            ? end->why
                        : strchr(end->err, '\n') > end->err ? end->err
                                                            : "the issuer did not answer");
    else if (json_read("answer", body + 1, end->out_size - (size_t)(body + 1 - end->out), &json, &err) == 0 &&
             !json_is_object(json))
        (void)error_set(&err, -EBADMSG, "the issuer's answer is no JSON object");
    err.text[strcspn(err.text, "\n")] = '\0';
    fetch->then(fetch->arg, status, err.code ? NULL : json, err.code ? err.text : NULL);
    json_decref(json);
    mem_free(fetch);
}

static void fetch_start(struct oidc *oidc, const char *text, oidc_answer_fn then, void *arg)
{
    const char *argv[] = { "/proc/self/exe", "fetch", told(oidc)->ca, NULL };
    struct fetch *fetch =
        oidc->fetch_count < FETCHES_MAX && strlen(text) <= CHILD_IN_MAX ? mem_zalloc(1, sizeof(*fetch)) : NULL;
    struct child_spec spec = { .argv = argv,
                               .in = text,
                               .in_size = strlen(text),
                               .limits = { .wall = FETCH_WALL, .out_max = FETCH_BYTES_MAX + 64 },
                               .done = on_fetched,
                               .arg = fetch };
    struct error err = { 0 };

    if (!fetch) {
        then(arg, 0, NULL, strlen(text) > CHILD_IN_MAX ? "the question is too long" : "too many are signing in now");
        return;
    }
    *fetch = (struct fetch){ .oidc = oidc, .then = then, .arg = arg };
    if (child_start(oidc->server->loop, &spec, &fetch->child, &err) < 0) {
        mem_free(fetch);
        then(arg, 0, NULL, err.text);
        return;
    }
    fetch->next = oidc->fetches;
    oidc->fetches = fetch;
    oidc->fetch_count++;
}

void oidc_ask(struct oidc *oidc, const char *endpoint, const char *form, oidc_answer_fn then, void *arg)
{
    CLEANUP_BYTES struct bytes secret = { 0 };
    struct buf out = BUF_INIT(CHILD_IN_MAX + 1);
    const char *url = oidc_endpoint(oidc, endpoint);
    struct error err = { 0 };

    if (!url) {
        char why[128];

        (void)snprintf(why, sizeof(why), "the issuer has no %s", endpoint);
        then(arg, 0, NULL, why);
        return;
    }
    buf_printf(&out, "%s\n%s&client_id=", url, form);
    buf_percent(&out, told(oidc)->client_id, "");
    if (told(oidc)->secret_file) {
        if (file_read(told(oidc)->secret_file, SECRET_MAX, &secret, &err) < 0) {
            log_err("the secret of the OpenID Connect client cannot be read", "error", err.text);
            buf_done(&out);
            then(arg, 0, NULL, "the controller cannot read its secret");
            return;
        }
        secret.data[strcspn(secret.data, "\r\n")] = '\0';
        buf_text(&out, "&client_secret=");
        buf_percent(&out, secret.data, "");
        explicit_bzero(secret.data, secret.size);
    }
    buf_char(&out, '\0');
    fetch_start(oidc, out.error ? "" : out.data, then, arg);
    if (!out.error)
        explicit_bzero(out.data, out.size);
    buf_done(&out);
}

static void ready_tell(struct oidc *oidc, const struct error *err)
{
    struct waiter *waiters = oidc->waiters;

    oidc->fetching = false;
    oidc->waiters = NULL;
    if (err)
        log_warn("the issuer's keys were not read", "issuer", told(oidc)->issuer, "error", err->text);
    while (waiters) {
        struct waiter *waiter = waiters;

        waiters = waiter->next;
        waiter->then(waiter->arg, oidc->keys ? NULL : err); /* old keys are better than none */
        mem_free(waiter);
    }
}

static void on_keys(void *arg, int status, json_t *answer, const char *why)
{
    struct oidc *oidc = arg;
    struct jwks *keys = NULL;
    struct error err = { 0 };
    char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;

    if (!text || status != 200)
        (void)error_set(&err, -EIO, "keys: %s", why ? why : "the issuer does not give them");
    else if (jwks_parse(text, strlen(text), &keys, &err) == 0) {
        jwks_free(oidc->keys);
        oidc->keys = keys;
        oidc->fetched = clock_now();
    }
    free(text); /* jansson's */
    ready_tell(oidc, err.code ? &err : NULL);
}

static void on_document(void *arg, int status, json_t *answer, const char *why)
{
    struct oidc *oidc = arg;
    const char *issuer = json_string_value(json_object_get(answer, "issuer"));
    struct error err = { 0 };
    char text[2048];

    if (!answer || status != 200)
        (void)error_set(&err, -EIO, "%s", why ? why : "the issuer has no /.well-known/openid-configuration");
    else if (!issuer || strcmp(issuer, told(oidc)->issuer) != 0)
        (void)error_set(&err, -EBADMSG, "its document is of the issuer '%.200s'", issuer ? issuer : "");
    if (err.code) {
        ready_tell(oidc, &err);
        return;
    }
    json_decref(oidc->document);
    oidc->document = json_incref(answer);
    if (!oidc_endpoint(oidc, "jwks_uri") || strlen(oidc_endpoint(oidc, "jwks_uri")) > sizeof(text) - 2) {
        (void)error_set(&err, -EBADMSG, "its document names no jwks_uri that can be asked");
        ready_tell(oidc, &err);
        return;
    }
    (void)snprintf(text, sizeof(text), "%s\n", oidc_endpoint(oidc, "jwks_uri"));
    fetch_start(oidc, text, on_keys, oidc);
}

void oidc_ready(struct oidc *oidc, bool anew, oidc_ready_fn then, void *arg)
{
    static const struct error busy = { .code = -EAGAIN, .text = "no memory" };
    const char *issuer = told(oidc)->issuer;
    usec_t now = clock_now();
    struct waiter *waiter;
    char text[2048];
    bool old = !oidc->keys || now - oidc->fetched > KEYS_AGE || anew;

    if (!oidc->fetching && (!old || (oidc->tried && now - oidc->tried < told(oidc)->refresh && oidc->keys))) {
        then(arg, NULL);
        return;
    }
    waiter = mem_zalloc(1, sizeof(*waiter));
    if (!waiter) {
        then(arg, &busy);
        return;
    }
    *waiter = (struct waiter){ oidc->waiters, then, arg };
    oidc->waiters = waiter;
    if (oidc->fetching)
        return;
    oidc->fetching = true;
    oidc->tried = now;
    (void)snprintf(text, sizeof(text), "%.1500s%s.well-known/openid-configuration\n", issuer,
                   issuer[strlen(issuer) - 1] == '/' ? "" : "/");
    fetch_start(oidc, text, on_document, oidc);
}

/* A name that is mapped belongs to that subject alone. */
static bool name_free(const struct conf_oidc *conf, const char *user)
{
    const char *subject;
    json_t *name;

    json_object_foreach(conf->users, subject, name) if (strcmp(json_string_value(name), user) == 0) return false;
    return true;
}

/* Of no account of the machine's own: daemons have those. */
static int account_check(const char *user, int64_t least, struct error *err)
{
    struct passwd entry, *found = NULL;
    char text[4096];

    if (strcmp(user, "root") == 0 || strcmp(user, "muster") == 0 ||
        (getpwnam_r(user, &entry, text, sizeof(text), &found) == 0 && found &&
         (found->pw_uid == 0 || found->pw_uid < least)))
        return error_set(err, -EACCES, "'%s' does not sign in this way", user);
    return 0;
}

/* A name of ours out of the token: never root's, nothing a path or a table could stumble over. A subject that the
 * configuration maps has that name whatever else the token says. */
static int user_read(const struct conf_oidc *conf, const json_t *claims, char *user, size_t size, struct error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *subject = json_string_value(json_object_get(claims, "sub")), *claim = conf->user_claim;
    const char *mapped = subject ? json_string_value(json_object_get(conf->users, subject)) : NULL;
    const char *name = claim ? json_string_value(json_object_get(claims, claim)) : NULL;
    size_t length = name ? strlen(name) : 0;

    if (mapped && strlen(mapped) < size) {
        (void)snprintf(user, size, "%s", mapped);
        return 0;
    }
    if (!claim)
        return error_set(err, -EACCES, "the subject '%.60s' is nobody here (auth.oidc.users)", subject ? subject : "");
    if (!name)
        return error_set(err, -EACCES, "the token has no '%.60s'", claim);
    if (strcmp(claim, "email") == 0 && !json_is_true(json_object_get(claims, "email_verified")))
        return error_set(err, -EACCES, "the issuer has not verified that address");
    if (conf->domain) {
        size_t tail = strlen(conf->domain) + 1;

        if (length <= tail || name[length - tail] != '@' || strcmp(name + length - tail + 1, conf->domain) != 0)
            return error_set(err, -EACCES, "'%.60s' is not of %.60s", name, conf->domain);
        length -= tail;
    }
    if (length == 0 || length >= size || length > 32 || strspn(name, letters) < length || strchr("-.", name[0]))
        return error_set(err, -EACCES, "'%.60s' cannot be the name of a user here", name);
    (void)snprintf(user, size, "%.*s", (int)length, name);
    return name_free(conf, user) ? 0 : error_set(err, -EACCES, "'%s' is another subject's (auth.oidc.users)", user);
}

static bool group_of(const json_t *claims, const char *claim, const char *group)
{
    const json_t *groups = json_object_get(claims, claim), *item;
    size_t i;

    if (json_is_string(groups))
        return strcmp(json_string_value(groups), group) == 0;
    json_array_foreach(groups, i,
                       item) if (json_is_string(item) && strcmp(json_string_value(item), group) == 0) return true;
    return false;
}

/* The highest role that one of the groups gives; users, where no group was named for them. */
static void role_read(const struct conf *conf, const json_t *claims, struct oidc_person *person)
{
    const char *claim = conf->oidc.groups_claim ? conf->oidc.groups_claim : "groups", *name;
    json_t *groups, *item;
    size_t i;

    person->role = json_object_get(conf->oidc.roles, "user") ? ROLE_NOBODY : ROLE_USER;
    json_object_foreach(conf->oidc.roles, name, groups)
    {
        const char *vc = strchr(name, ':');
        enum role role = vc ? ROLE_VC_ADMIN : (enum role)role_find(name);

        json_array_foreach(groups, i, item)
        {
            if (role <= person->role || !group_of(claims, claim, json_string_value(item)))
                continue;
            person->role = role;
            (void)snprintf(person->scope, sizeof(person->scope), "%s%.58s", vc ? "vc:" : "", vc ? vc + 1 : "");
        }
    }
    for (i = 0; i < conf->admin_count; i++)
        if (strcmp(conf->admins[i], person->user) == 0) {
            person->role = ROLE_ADMIN;
            person->scope[0] = '\0';
        }
}

int oidc_judge(struct oidc *oidc, const char *token, const char *nonce, struct oidc_person *ret, struct error *err)
{
    const struct conf_oidc *conf = told(oidc);
    struct jwt_expect expect = { .issuer = conf->issuer,
                                 .audience = conf->audience ? conf->audience : conf->client_id,
                                 .nonce = nonce,
                                 .now = clock_now(),
                                 .skew = conf->skew };
    json_t *claims = NULL;
    int r;

    *ret = (struct oidc_person){ 0 };
    if (!oidc->keys)
        return error_set(err, -EAGAIN, "the issuer's keys are not known yet");
    r = jwt_verify(oidc->keys, token, strlen(token), &claims, err);
    if (r == 0)
        r = jwt_check(claims, &expect, err);
    if (r == 0)
        r = user_read(conf, claims, ret->user, sizeof(ret->user), err);
    if (r == 0)
        r = account_check(ret->user, oidc->server->conf->least_uid, err);
    if (r == 0) {
        role_read(oidc->server->conf, claims, ret);
        ret->expires = (usec_t)(json_number_value(json_object_get(claims, "exp")) * 1e6);
        if (ret->role == ROLE_NOBODY)
            r = error_set(err, -EACCES, "%s is in no group that may use this cluster", ret->user);
    }
    json_decref(claims);
    return r == -ENOKEY ? -EAGAIN : r;
}

bool oidc_resembles(const char *token)
{
    const char *dot = strchr(token, '.');

    return dot && strncmp(token, "eyJ", 3) == 0 && strchr(dot + 1, '.');
}

static void on_background(void *arg, const struct error *err)
{
    (void)arg;
    (void)err; /* it is in the log */
}

bool oidc_identify(struct oidc *oidc, const char *token, struct principal *who)
{
    struct oidc_person person;
    struct error err = { 0 };
    int r;

    if (strlen(token) > JWT_BYTES_MAX)
        return false;
    r = oidc_judge(oidc, token, NULL, &person, &err);
    if (r == -EAGAIN || (oidc->keys && clock_now() - oidc->fetched > KEYS_AGE))
        oidc_ready(oidc, r == -EAGAIN, on_background, NULL);
    if (r < 0) {
        log_info("a token of the issuer was refused", "error", err.text);
        return false;
    }
    (void)snprintf(who->user, sizeof(who->user), "%s", person.user);
    (void)snprintf(who->scope, sizeof(who->scope), "%s", person.scope);
    (void)snprintf(who->token, sizeof(who->token), "oidc");
    who->role = person.role;
    who->until = clock_now() + told(oidc)->lifetime; /* as by POST /login/oidc */
    who->via = "oidc";
    return true;
}
