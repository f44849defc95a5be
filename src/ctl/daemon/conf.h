/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* conf.h - muster.yaml and conf.d: what musterd is told. muster.yaml(5). */
#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/units.h"

#define CONF_POLICY "fifo-skip" /* where none is told */

enum { CONF_LISTEN_MAX = 8, CONF_ADMINS_MAX = 64 };

enum privacy { PRIVACY_NAMES, PRIVACY_SIZES, PRIVACY_NONE, PRIVACY_COUNT };

/* People whom an issuer of OpenID Connect knows; issuer NULL: none. */
struct conf_oidc {
    char *issuer, *client_id, *secret_file;
    char *audience;   /* whom tokens must be for; NULL: client_id */
    char *ca;         /* authority of the issuer's certificate; NULL: those of the system */
    char *user_claim; /* names people; NULL: only `users` do */
    json_t *users;    /* {"SUBJECT": "NAME"} of this issuer; a subject never becomes another person */
    char *domain;     /* names end in "@domain", which is taken off; NULL: they have none */
    char *groups_claim, *scope;
    json_t *roles; /* {"admin": ["group"], "vc-admin:NAME": [], "user": [], "viewer": []} */
    usec_t lifetime, refresh, skew;
};

/* When jobs of a silent node may start elsewhere (ADR 55). */
enum conf_fence {
    CONF_FENCE_CONFIRM, /* its agent has said that they ended, or a person that the machine is off */
    CONF_FENCE_LEASE,   /* when its lease is over: agents kill their tasks then */
    CONF_FENCE_PROGRAM, /* when a program has switched it off */
    CONF_FENCE_COUNT
};

struct cluster_spec;

struct conf {
    char *cluster, *state, *log;
    char *pam; /* service that judges passwords; NULL: none are taken */
    struct conf_oidc oidc;
    char *notify;                  /* command that tells people; NULL: nobody is told */
    char *listen[CONF_LISTEN_MAX]; /* "ADDRESS:PORT" or "/path" */
    size_t listen_count;
    char *tls_cert, *tls_key, *tls_ca, *tls_ca_key;
    char *secrets_key; /* file of the keys that secrets are sealed with; NULL: STATE/secrets.key */
    int64_t least_uid; /* of accounts that may sign in, root aside */
    char *admins[CONF_ADMINS_MAX];
    size_t admin_count;
    bool anonymous_read, virtual_time, metrics_jobs, metrics_users;
    bool bare_images; /* of emulated nodes, which run jobs with an image without it */
    enum privacy privacy;
    char *policy;                  /* default */
    json_t *vcs;                   /* as in the file; NULL: not told */
    json_t *cells;                 /* physicalCluster and virtualClusters of HiveD's file; NULL: not told */
    struct cluster_spec *vcs_spec; /* what they say, as far as it can be known without nodes; with their places */
    json_t *licenses;              /* likewise */
    usec_t lease, node_timeout, beat, measure_every, grace;
    enum conf_fence fence;
    char *fence_program; /* switches a node off; NULL unless fence is CONF_FENCE_PROGRAM */
    int64_t jobs_max, finished_keep, pending_max, snapshot_every;
    int64_t conns_max, conns_address_max, body_max, sse_max;
    int64_t user_conns_max, user_requests_max, user_bytes_max, user_tokens_max; /* of one user */
    int64_t user_jobs_max, user_held_max, array_max;                            /* likewise; of one array */
    usec_t header_time, body_time, idle_time, send_time;
};

void conf_init(struct conf *conf); /* standard values */
void conf_done(struct conf *conf);

/* The file, then each *.yaml of conf.d beside it, sorted. Errors are FILE:LINE:COLUMN with the line and a caret. */
int conf_read(const char *path, struct conf *conf, struct error *err) __attribute__((warn_unused_result));
/* One text, over what is there. */
int conf_parse(const char *file, const char *text, size_t size, struct conf *conf, struct error *err)
    __attribute__((warn_unused_result));
/* Whether there are such policies and settings of them; by file and line. */
int conf_vcs_check(const struct conf *conf, struct error *err) __attribute__((warn_unused_result));
/* What does not go together. */
int conf_check(const struct conf *conf, struct error *err) __attribute__((warn_unused_result));
