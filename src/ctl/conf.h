/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* conf.h - muster.yaml and conf.d: what musterd is told. muster.yaml(5). */
#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/units.h"

enum { CONF_LISTEN_MAX = 8, CONF_ADMINS_MAX = 64 };

enum privacy { PRIVACY_NAMES, PRIVACY_SIZES, PRIVACY_NONE, PRIVACY_COUNT };

/* People whom an issuer of OpenID Connect knows; issuer NULL: none. */
struct conf_oidc {
    char *issuer, *client_id, *secret_file;
    char *audience;   /* whom tokens must be for; NULL: client_id */
    char *ca;         /* authority of the issuer's certificate; NULL: those of the system */
    char *user_claim; /* NULL: preferred_username */
    char *domain;     /* names end in "@domain", which is taken off; NULL: they have none */
    char *groups_claim, *scope;
    json_t *roles; /* {"admin": ["group"], "vc-admin:NAME": [], "user": [], "viewer": []} */
    usec_t lifetime, refresh, skew;
};

struct conf {
    char *cluster, *state, *log;
    char *pam; /* service that judges passwords; NULL: none are taken */
    struct conf_oidc oidc;
    char *notify;                  /* command that tells people; NULL: nobody is told */
    char *listen[CONF_LISTEN_MAX]; /* "ADDRESS:PORT" or "/path" */
    size_t listen_count;
    char *tls_cert, *tls_key, *tls_ca, *tls_ca_key;
    char *admins[CONF_ADMINS_MAX];
    size_t admin_count;
    bool anonymous_read, virtual_time, metrics_jobs, metrics_users;
    enum privacy privacy;
    char *policy;     /* default */
    json_t *vcs;      /* as in the file; NULL: not told */
    json_t *licenses; /* likewise */
    usec_t lease, node_timeout, beat, grace;
    int64_t jobs_max, finished_keep, pending_max, snapshot_every;
    int64_t conns_max, conns_address_max, body_max, sse_max;
    usec_t header_time, body_time, idle_time, send_time;
};

void conf_init(struct conf *conf); /* standard values */
void conf_done(struct conf *conf);

/* The file, then each *.yaml of conf.d beside it, sorted. Errors are FILE:LINE:COLUMN with the line and a caret. */
int conf_read(const char *path, struct conf *conf, struct error *err) __attribute__((warn_unused_result));
/* One text, over what is there. */
int conf_parse(const char *file, const char *text, size_t size, struct conf *conf, struct error *err)
    __attribute__((warn_unused_result));
/* What does not go together. */
int conf_check(const struct conf *conf, struct error *err) __attribute__((warn_unused_result));
