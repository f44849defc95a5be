/* SPDX-License-Identifier: Apache-2.0 */
/* conf.c - muster.yaml, section by section, each a table of keys. */
#include "ctl/daemon/conf.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/http/fetch.h"
#include "io/dir.h"
#include "io/file.h"
#include "io/log.h"
#include "policy/compose.h"
#include "policy/registry.h"
#include "wire/cluster/cluster_vcs.h"
#include "wire/hived/hived_settings.h"
#include "wire/job/license.h"
#include "wire/job/submission.h"
#include "wire/text/duration.h"
#include "wire/text/yaml_doc.h"

enum value_kind { VALUE_TEXT, VALUE_COUNT, VALUE_SPAN, VALUE_SIZE, VALUE_TREE };

/* A scalar key and where its value goes. */
struct scalar {
    const char *name;
    enum value_kind kind;
    void *to;
    int64_t min, max;
};

static const char *const privacy_names[PRIVACY_COUNT] = { "names", "sizes", "none" };

void conf_init(struct conf *conf)
{
    *conf = (struct conf){
        .lease = 120 * USEC_SEC,
        .node_timeout = 15 * USEC_SEC,
        .measure_every = USEC_MIN,
        .beat = 5 * USEC_SEC,
        .grace = 30 * USEC_SEC,
        .jobs_max = 1 << 17,
        .finished_keep = 10000,
        .pending_max = 20000,
        .snapshot_every = 50000,
        .conns_max = 10000,
        .conns_address_max = 1000,
        .body_max = 4 << 20,
        .sse_max = 256,
        .user_conns_max = 1000,
        .user_requests_max = 500,
        .user_bytes_max = 64 << 20,
        .user_tokens_max = 1000,
        .least_uid = 1000,
        .user_jobs_max = 100000,
        .user_held_max = 256 << 20,
        .array_max = SUBMISSION_ARRAY_MAX,
        .header_time = 10 * USEC_SEC,
        .body_time = 60 * USEC_SEC,
        .idle_time = 75 * USEC_SEC,
        .send_time = 30 * USEC_SEC,
        .oidc = { .lifetime = 12 * USEC_HOUR, .refresh = 30 * USEC_SEC, .skew = USEC_MIN },
    };
}

static void vcs_spec_free(struct cluster_spec *spec)
{
    if (spec)
        cluster_spec_done(spec);
    mem_free(spec);
}

void conf_done(struct conf *conf)
{
    char **texts[] = { &conf->cluster,
                       &conf->state,
                       &conf->log,
                       &conf->tls_cert,
                       &conf->tls_key,
                       &conf->tls_ca,
                       &conf->tls_ca_key,
                       &conf->secrets_key,
                       &conf->policy,
                       &conf->notify,
                       &conf->fence_program,
                       &conf->pam,
                       &conf->oidc.issuer,
                       &conf->oidc.client_id,
                       &conf->oidc.secret_file,
                       &conf->oidc.audience,
                       &conf->oidc.ca,
                       &conf->oidc.user_claim,
                       &conf->oidc.domain,
                       &conf->oidc.groups_claim,
                       &conf->oidc.scope };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        mem_free(take(*texts[i]));
    for (size_t i = 0; i < conf->listen_count; i++)
        mem_free(conf->listen[i]);
    for (size_t i = 0; i < conf->admin_count; i++)
        mem_free(conf->admins[i]);
    json_decref(conf->vcs);
    json_decref(conf->cells);
    vcs_spec_free(conf->vcs_spec);
    json_decref(conf->licenses);
    json_decref(conf->oidc.roles);
    json_decref(conf->oidc.users);
    *conf = (struct conf){ 0 };
}

static int text_set(char **to, const char *text)
{
    char *copy = mem_strdup(text);

    if (!copy)
        return -ENOMEM;
    mem_free(*to);
    *to = copy;
    return 0;
}

/* YAML as JSON: numbers and switches where they look like it, else texts. */
static json_t *tree_of(struct yaml_doc *doc, yaml_node_t *node, int depth)
{
    yaml_node_t *key, *value;
    json_t *tree;

    if (depth > 8)
        return NULL;
    if (node->type == YAML_MAPPING_NODE) {
        tree = json_object();
        for (size_t i = 0; tree && yaml_pair(doc, node, i, &key, &value); i++)
            if (key->type != YAML_SCALAR_NODE ||
                json_object_set_new(tree, (const char *)key->data.scalar.value, tree_of(doc, value, depth + 1)) < 0) {
                json_decref(tree);
                return NULL;
            }
        return tree;
    }
    if (node->type == YAML_SEQUENCE_NODE) {
        tree = json_array();
        for (size_t i = 0; tree && yaml_item(doc, node, i, &value); i++)
            if (json_array_append_new(tree, tree_of(doc, value, depth + 1)) < 0) {
                json_decref(tree);
                return NULL;
            }
        return tree;
    }
    if (node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
        const char *text = (const char *)node->data.scalar.value;
        char *end;
        long long number = strtoll(text, &end, 10);

        if (*text && *end == '\0')
            return json_integer(number);
        if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
            return json_boolean(text[0] == 't');
    }
    return node->type == YAML_SCALAR_NODE
               ? json_stringn((const char *)node->data.scalar.value, node->data.scalar.length)
               : NULL;
}

/* A mapping or a list, in place of what there was. */
static int tree_read(struct yaml_doc *doc, yaml_node_t *node, const struct scalar *what, struct error *err)
{
    json_t *tree = tree_of(doc, node, 0), **to = what->to;

    if (!tree)
        return yaml_fail(doc, node, err, "%s: too deep, or a key that is no text", what->name);
    json_decref(*to);
    *to = tree;
    return 0;
}

static int scalar_read(struct yaml_doc *doc, yaml_node_t *node, const struct scalar *what, struct error *err)
{
    const char *text;
    uint64_t size;
    usec_t span;
    int r = what->kind == VALUE_TREE ? tree_read(doc, node, what, err) : yaml_name(doc, node, what->name, &text, err);

    if (r < 0)
        return r;
    switch (what->kind) {
    case VALUE_TREE:
        return 0;
    case VALUE_TEXT:
        r = text_set(what->to, text);
        return r < 0 ? error_set(err, r, "out of memory") : 0;
    case VALUE_COUNT:
        return yaml_i64(doc, node, what->min, what->max, what->to, err);
    case VALUE_SPAN:
        if (duration_parse(text, strlen(text), &span) < 0)
            return yaml_fail(doc, node, err, "%s: '%s' is not a span of time like 90s, 5m or 2h", what->name, text);
        if (span < what->min || span > what->max)
            return yaml_fail(doc, node, err, "%s: must be from %lld ms to %lld s", what->name,
                             (long long)(what->min / USEC_MSEC), (long long)(what->max / USEC_SEC));
        *(usec_t *)what->to = span;
        return 0;
    case VALUE_SIZE:
        if (size_parse_bytes(text, strlen(text), &size) < 0 || size < (uint64_t)what->min || size > (uint64_t)what->max)
            return yaml_fail(doc, node, err, "%s: expected a size like 4M, at most %lld MiB", what->name,
                             (long long)(what->max >> 20));
        *(int64_t *)what->to = (int64_t)size;
        return 0;
    }
    return 0;
}

enum { SECTION_KEYS_MAX = 24 };

/* A mapping of scalars. */
static int section_read(struct yaml_doc *doc, yaml_node_t *map, const struct scalar *table, size_t count,
                        struct error *err)
{
    struct yaml_key keys[SECTION_KEYS_MAX + 1] = { 0 };
    int r;

    for (size_t i = 0; i < count; i++)
        keys[i].name = table[i].name;
    r = yaml_keys(doc, map, keys, count, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (keys[i].value)
            r = scalar_read(doc, keys[i].value, &table[i], err);
    return r;
}

/* A key that takes several texts. */
struct texts {
    const char *name;
    char **to;
    size_t *count, max;
};

/* One text or a list of them, in place of what there was. */
static int texts_read(struct yaml_doc *doc, yaml_node_t *node, const struct texts *what, struct error *err)
{
    yaml_node_t *item = node;
    const char *text;
    int r = 0;

    for (; *what->count; --*what->count)
        mem_free(take(what->to[*what->count - 1]));
    for (size_t i = 0; node->type == YAML_SEQUENCE_NODE ? yaml_item(doc, node, i, &item) : i == 0; i++) {
        if (i == what->max)
            return yaml_fail(doc, item, err, "%s: more than %zu", what->name, what->max);
        r = yaml_name(doc, item, what->name, &text, err);
        if (r == 0)
            r = text_set(&what->to[i], text) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
        if (r < 0)
            return r;
        *what->count = i + 1;
    }
    return 0;
}

/* Roles that groups of the issuer give. */
static int oidc_roles_check(struct yaml_doc *doc, yaml_node_t *at, const json_t *roles, struct error *err)
{
    const char *role;
    json_t *groups, *group;
    size_t i;

    if (roles && !json_is_object(roles))
        return yaml_fail(doc, at, err, "oidc: roles: expected {ROLE: [GROUP, ...]}");
    json_object_foreach((json_t *)(uintptr_t)roles, role, groups)
    {
        if (strcmp(role, "admin") != 0 && strcmp(role, "user") != 0 && strcmp(role, "viewer") != 0 &&
            (strncmp(role, "vc-admin:", 9) != 0 || !role[9] || strlen(role) > 64))
            return yaml_fail(doc, at, err, "oidc: roles: expected admin, vc-admin:NAME, user or viewer, got '%.60s'",
                             role);
        if (!json_is_array(groups))
            return yaml_fail(doc, at, err, "oidc: roles: %.60s: expected a list of groups", role);
        json_array_foreach(groups, i, group) if (!json_is_string(group)) return yaml_fail(
            doc, at, err, "oidc: roles: %.60s: expected names of groups, in quotes where they look like numbers", role);
    }
    return 0;
}

static int oidc_users_check(struct yaml_doc *doc, yaml_node_t *at, const json_t *users, struct error *err)
{
    const char *subject;
    json_t *name;

    if (!json_is_object(users))
        return yaml_fail(doc, at, err, "oidc: users: expected {SUBJECT: NAME}");
    json_object_foreach((json_t *)(uintptr_t)users, subject, name) if (!json_is_string(name)) return yaml_fail(
        doc, at, err, "oidc: users: %.60s: expected the name of a user", subject);
    return 0;
}

static int oidc_read(struct yaml_doc *doc, yaml_node_t *map, struct conf_oidc *oidc, struct error *err)
{
    const struct scalar table[] = { { "issuer", VALUE_TEXT, &oidc->issuer, 0, 0 },
                                    { "client_id", VALUE_TEXT, &oidc->client_id, 0, 0 },
                                    { "client_secret_file", VALUE_TEXT, &oidc->secret_file, 0, 0 },
                                    { "audience", VALUE_TEXT, &oidc->audience, 0, 0 },
                                    { "ca", VALUE_TEXT, &oidc->ca, 0, 0 },
                                    { "user_claim", VALUE_TEXT, &oidc->user_claim, 0, 0 },
                                    { "users", VALUE_TREE, &oidc->users, 0, 0 },
                                    { "user_domain", VALUE_TEXT, &oidc->domain, 0, 0 },
                                    { "groups_claim", VALUE_TEXT, &oidc->groups_claim, 0, 0 },
                                    { "scope", VALUE_TEXT, &oidc->scope, 0, 0 },
                                    { "roles", VALUE_TREE, &oidc->roles, 0, 0 },
                                    { "lifetime", VALUE_SPAN, &oidc->lifetime, USEC_MIN, 30 * USEC_DAY },
                                    { "refresh", VALUE_SPAN, &oidc->refresh, USEC_SEC, USEC_DAY },
                                    { "skew", VALUE_SPAN, &oidc->skew, 0, 10 * USEC_MIN } };
    int r = section_read(doc, map, table, sizeof(table) / sizeof(table[0]), err);

    if (r == 0 && (!oidc->issuer || !oidc->client_id))
        return yaml_fail(doc, map, err, "oidc: expected issuer and client_id");
    if (r == 0 && !oidc->users && !oidc->user_claim)
        return yaml_fail(
            doc, map, err,
            "oidc: expected users: {SUBJECT: NAME}, or user_claim: preferred_username, if nobody can choose "
            "their own at this issuer");
    if (r == 0 && oidc->users)
        r = oidc_users_check(doc, map, oidc->users, err);
    if (r == 0 && (!fetch_url_good(oidc->issuer) || strpbrk(oidc->issuer, "?#")))
        return yaml_fail(doc, map, err, "oidc: issuer: expected https://..., as its tokens name it");
    return r == 0 ? oidc_roles_check(doc, map, oidc->roles, err) : r;
}

static int auth_read(struct yaml_doc *doc, yaml_node_t *map, struct conf *conf, struct error *err)
{
    struct yaml_key keys[] = { { .name = "admins" }, { .name = "anonymous" }, { .name = "privacy" },
                               { .name = "pam" },    { .name = "oidc" },      { .name = "least_uid" } };
    const char *text;
    int r = yaml_keys(doc, map, keys, 6, err);

    if (r == 0 && keys[4].value)
        r = oidc_read(doc, keys[4].value, &conf->oidc, err);
    if (r == 0 && keys[5].value)
        r = yaml_i64(doc, keys[5].value, 0, INT32_MAX, &conf->least_uid, err);
    if (r == 0 && keys[3].value)
        r = scalar_read(doc, keys[3].value, &(struct scalar){ "pam", VALUE_TEXT, &conf->pam, 0, 0 }, err);
    if (r == 0 && keys[0].value)
        r = texts_read(doc, keys[0].value,
                       &(struct texts){ "admins", conf->admins, &conf->admin_count, CONF_ADMINS_MAX }, err);
    if (r == 0 && keys[1].value) {
        r = yaml_name(doc, keys[1].value, "anonymous", &text, err);
        if (r == 0 && strcmp(text, "read") != 0 && strcmp(text, "none") != 0)
            return yaml_fail(doc, keys[1].value, err, "anonymous: expected read or none");
        if (r == 0)
            conf->anonymous_read = strcmp(text, "read") == 0;
    }
    if (r == 0 && keys[2].value) {
        int found = -1;

        r = yaml_name(doc, keys[2].value, "privacy", &text, err);
        for (int i = 0; r == 0 && i < PRIVACY_COUNT; i++)
            if (strcmp(text, privacy_names[i]) == 0)
                found = i;
        if (r == 0 && found < 0)
            return yaml_fail(doc, keys[2].value, err, "privacy: expected names, sizes or none");
        if (r == 0)
            conf->privacy = (enum privacy)found;
    }
    return r;
}

static int vcs_read(struct yaml_doc *doc, yaml_node_t *map, struct conf *conf, struct error *err)
{
    struct cluster_spec *spec = mem_zalloc(1, sizeof(*spec));
    int r = spec ? cluster_vcs_read(doc, map, spec, err) : error_set(err, -ENOMEM, "out of memory");

    if (r == 0)
        r = tree_read(doc, map, &(struct scalar){ "vcs", VALUE_TREE, &conf->vcs, 0, 0 }, err);
    if (r < 0) {
        vcs_spec_free(spec);
        return r;
    }
    vcs_spec_free(conf->vcs_spec);
    conf->vcs_spec = spec;
    return 0;
}

static void cells_warn(const char *words)
{
    log_warn("configuration of HiveD's", "warning", words);
}

/* HiveD's configuration, as a file of conf.d or among the keys of ours. */
static int cells_read(const struct yaml_doc *doc, struct conf *conf, struct error *err)
{
    json_decref(conf->cells);
    conf->cells = json_object();
    return conf->cells ? hived_settings_read(doc, conf->cells, cells_warn, err)
                       : error_set(err, -ENOMEM, "out of memory");
}

static int license_put(void *arg, const char *name, uint32_t count)
{
    return json_object_set_new(arg, name, json_integer(count));
}

static int licenses_read(struct yaml_doc *doc, yaml_node_t *map, struct conf *conf, struct error *err)
{
    json_decref(conf->licenses);
    conf->licenses = json_object();
    return licenses_read_yaml(doc, map, license_put, conf->licenses, err);
}

static int policy_read(struct yaml_doc *doc, yaml_node_t *node, struct conf *conf, struct error *err)
{
    const char *text;
    int r = yaml_name(doc, node, "policy", &text, err);

    if (r < 0)
        return r;
    if (!policy_known(text))
        return yaml_fail(doc, node, err, "policy: there is no '%s'; `muster sim run --help` lists them", text);
    return text_set(&conf->policy, text) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
}

enum {
    K_CLUSTER,
    K_STATE,
    K_LOG,
    K_LISTEN,
    K_TLS,
    K_AUTH,
    K_POLICY,
    K_VCS,
    K_LICENSES,
    K_LEASE,
    K_LIMITS,
    K_METRICS,
    K_NOTIFY,
    K_SECRETS_KEY,
    K_PHYSICAL,
    K_VIRTUAL,
    K_HIVED, /* what HiveD's file has for Kubernetes, which is not for a controller */
    K_COUNT = K_HIVED + 5
};

/* Which figures without a bound are told as well. */
static int metrics_read(struct yaml_doc *doc, yaml_node_t *node, struct conf *conf, struct error *err)
{
    yaml_node_t *item = node;
    const char *text;

    conf->metrics_jobs = conf->metrics_users = false;
    for (size_t i = 0; node->type == YAML_SEQUENCE_NODE ? yaml_item(doc, node, i, &item) : i == 0; i++) {
        int r = yaml_name(doc, item, "metrics", &text, err);

        if (r < 0)
            return r;
        if (strcmp(text, "jobs") != 0 && strcmp(text, "users") != 0)
            return yaml_fail(doc, item, err, "metrics: expected jobs or users");
        *(text[0] == 'j' ? &conf->metrics_jobs : &conf->metrics_users) = true;
    }
    return 0;
}

/* confirm, lease or the path of a program. */
static int fence_read(struct yaml_doc *doc, yaml_node_t *node, struct conf *conf, struct error *err)
{
    const char *text;
    int r = yaml_name(doc, node, "fence", &text, err);

    if (r < 0)
        return r;
    mem_free(conf->fence_program);
    conf->fence_program = NULL;
    if (text[0] == '/') {
        conf->fence = CONF_FENCE_PROGRAM;
        return text_set(&conf->fence_program, text) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
    }
    if (strcmp(text, "confirm") != 0 && strcmp(text, "lease") != 0)
        return yaml_fail(doc, node, err, "fence: expected confirm, lease, or the path of a program, from /");
    conf->fence = text[0] == 'c' ? CONF_FENCE_CONFIRM : CONF_FENCE_LEASE;
    return 0;
}

static int lease_read(struct yaml_doc *doc, yaml_node_t *map, struct conf *conf, struct error *err)
{
    const struct scalar spans[] = { { "time", VALUE_SPAN, &conf->lease, USEC_SEC, USEC_DAY },
                                    { "node_timeout", VALUE_SPAN, &conf->node_timeout, USEC_SEC / 10, USEC_DAY },
                                    { "beat", VALUE_SPAN, &conf->beat, USEC_SEC / 20, USEC_HOUR },
                                    { "measure", VALUE_SPAN, &conf->measure_every, USEC_SEC, USEC_HOUR },
                                    { "grace", VALUE_SPAN, &conf->grace, 0, USEC_DAY } };
    enum { SPANS = sizeof(spans) / sizeof(spans[0]) };
    struct yaml_key keys[SPANS + 1] = { 0 };
    int r;

    for (size_t i = 0; i < SPANS; i++)
        keys[i].name = spans[i].name;
    keys[SPANS].name = "fence";
    r = yaml_keys(doc, map, keys, SPANS + 1, err);
    for (size_t i = 0; r == 0 && i < SPANS; i++)
        if (keys[i].value)
            r = scalar_read(doc, keys[i].value, &spans[i], err);
    if (r == 0 && keys[SPANS].value)
        r = fence_read(doc, keys[SPANS].value, conf, err);
    return r;
}

static int sections_read(struct yaml_doc *doc, struct yaml_key *keys, struct conf *conf, struct error *err)
{
    const struct scalar tls[] = { { "cert", VALUE_TEXT, &conf->tls_cert, 0, 0 },
                                  { "key", VALUE_TEXT, &conf->tls_key, 0, 0 },
                                  { "ca", VALUE_TEXT, &conf->tls_ca, 0, 0 },
                                  { "ca_key", VALUE_TEXT, &conf->tls_ca_key, 0, 0 } };
    const struct scalar limits[] = {
        { "jobs", VALUE_COUNT, &conf->jobs_max, 1, 1 << 24 },
        { "finished", VALUE_COUNT, &conf->finished_keep, 1, 1 << 24 },
        { "pending", VALUE_COUNT, &conf->pending_max, 1, 1 << 24 },
        { "snapshot_every", VALUE_COUNT, &conf->snapshot_every, 100, 1 << 30 },
        { "connections", VALUE_COUNT, &conf->conns_max, 1, 1 << 20 },
        { "connections_per_address", VALUE_COUNT, &conf->conns_address_max, 1, 1 << 20 },
        { "body", VALUE_SIZE, &conf->body_max, 65536, 64 << 20 },
        { "connections_per_user", VALUE_COUNT, &conf->user_conns_max, 1, 1 << 20 },
        { "requests_per_user", VALUE_COUNT, &conf->user_requests_max, 1, 1 << 20 },
        { "bytes_per_user", VALUE_SIZE, &conf->user_bytes_max, 1 << 20, 1 << 30 },
        { "tokens_per_user", VALUE_COUNT, &conf->user_tokens_max, 1, 65536 },
        { "jobs_per_user", VALUE_COUNT, &conf->user_jobs_max, 1, 1 << 24 },
        { "held_per_user", VALUE_SIZE, &conf->user_held_max, 1 << 20, (int64_t)1 << 40 },
        { "array", VALUE_COUNT, &conf->array_max, 1, SUBMISSION_ARRAY_MAX },
        { "event_streams", VALUE_COUNT, &conf->sse_max, 1, 1 << 16 },
        { "header_time", VALUE_SPAN, &conf->header_time, USEC_SEC / 10, USEC_HOUR },
        { "body_time", VALUE_SPAN, &conf->body_time, USEC_SEC / 10, USEC_HOUR },
        { "idle_time", VALUE_SPAN, &conf->idle_time, USEC_SEC / 10, USEC_DAY },
        { "send_time", VALUE_SPAN, &conf->send_time, USEC_SEC / 10, USEC_HOUR },
    };
    int r = 0;

    static_assert(sizeof(limits) / sizeof(limits[0]) <= SECTION_KEYS_MAX, "the longest of the sections");
    if (keys[K_LISTEN].value)
        r = texts_read(doc, keys[K_LISTEN].value,
                       &(struct texts){ "listen", conf->listen, &conf->listen_count, CONF_LISTEN_MAX }, err);
    if (r == 0 && keys[K_TLS].value)
        r = section_read(doc, keys[K_TLS].value, tls, sizeof(tls) / sizeof(tls[0]), err);
    if (r == 0 && keys[K_AUTH].value)
        r = auth_read(doc, keys[K_AUTH].value, conf, err);
    if (r == 0 && keys[K_POLICY].value)
        r = policy_read(doc, keys[K_POLICY].value, conf, err);
    if (r == 0 && keys[K_VCS].value)
        r = vcs_read(doc, keys[K_VCS].value, conf, err);
    if (r == 0 && keys[K_LICENSES].value)
        r = licenses_read(doc, keys[K_LICENSES].value, conf, err);
    if (r == 0 && keys[K_NOTIFY].value)
        r = scalar_read(doc, keys[K_NOTIFY].value, &(struct scalar){ "notify", VALUE_TEXT, &conf->notify, 0, 0 }, err);
    if (r == 0 && keys[K_NOTIFY].value && conf->notify[0] != '/')
        r = yaml_fail(doc, keys[K_NOTIFY].value, err, "notify: expected the path of a command, from /");
    if (r == 0 && keys[K_SECRETS_KEY].value)
        r = scalar_read(doc, keys[K_SECRETS_KEY].value,
                        &(struct scalar){ "secrets_key", VALUE_TEXT, &conf->secrets_key, 0, 0 }, err);
    if (r == 0 && keys[K_METRICS].value)
        r = metrics_read(doc, keys[K_METRICS].value, conf, err);
    if (r == 0 && keys[K_LEASE].value)
        r = lease_read(doc, keys[K_LEASE].value, conf, err);
    if (r == 0 && keys[K_LIMITS].value)
        r = section_read(doc, keys[K_LIMITS].value, limits, sizeof(limits) / sizeof(limits[0]), err);
    return r;
}

int conf_parse(const char *file, const char *text, size_t size, struct conf *conf, struct error *err)
{
    static const char *const names[K_COUNT] = { "cluster",
                                                "state",
                                                "log",
                                                "listen",
                                                "tls",
                                                "auth",
                                                "policy",
                                                "vcs",
                                                "licenses",
                                                "lease",
                                                "limits",
                                                "metrics",
                                                "notify",
                                                "secrets_key",
                                                "physicalCluster",
                                                "virtualClusters",
                                                "kubeApiServerAddress",
                                                "kubeConfigFilePath",
                                                "webServerAddress",
                                                "forcePodBindThreshold",
                                                "waitingPodSchedulingBlockMilliSec" };
    const struct scalar top[] = { { "cluster", VALUE_TEXT, &conf->cluster, 0, 0 },
                                  { "state", VALUE_TEXT, &conf->state, 0, 0 },
                                  { "log", VALUE_TEXT, &conf->log, 0, 0 } };
    struct bytes bytes = { (char *)(uintptr_t)text, size };
    struct yaml_key keys[K_COUNT] = { 0 };
    struct yaml_doc doc;
    int r = yaml_open(file, &bytes, &doc, err);

    if (r < 0)
        return r;
    for (int i = 0; i < K_COUNT; i++)
        keys[i].name = names[i];
    r = yaml_keys(&doc, yaml_top(&doc), keys, K_COUNT, err);
    for (size_t i = 0; r == 0 && i < 3; i++)
        if (keys[i].value)
            r = scalar_read(&doc, keys[i].value, &top[i], err);
    if (r == 0 && keys[K_LOG].value && log_level_find(conf->log) < 0)
        r = yaml_fail(&doc, keys[K_LOG].value, err, "log: expected err, warn, info or debug");
    if (r == 0)
        r = sections_read(&doc, keys, conf, err);
    if (r == 0 && (keys[K_PHYSICAL].value || keys[K_VIRTUAL].value))
        r = cells_read(&doc, conf, err);
    yaml_close(&doc);
    return r;
}

static int file_parse(const char *path, struct conf *conf, struct error *err)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    int r = file_read(path, YAML_BYTES_MAX, &bytes, err);

    return r < 0 ? r : conf_parse(path, bytes.data, bytes.size, conf, err);
}

int conf_read(const char *path, struct conf *conf, struct error *err)
{
    struct names names = { 0 };
    char folder[4096];
    const char *slash = strrchr(path, '/');
    int r = file_parse(path, conf, err);

    if (r < 0)
        return r;
    (void)snprintf(folder, sizeof(folder) - 300, "%.*sconf.d", slash ? (int)(slash - path + 1) : 0, path);
    if (!dir_is(folder))
        return 0;
    r = dir_list(folder, &names, err);
    for (uint32_t i = 0; r == 0 && i < names.count; i++) {
        const char *name = names_get(&names, i), *dot = strrchr(name, '.');
        char file[4400];

        if (!dot || strcmp(dot, ".yaml") != 0)
            continue;
        (void)snprintf(file, sizeof(file), "%s/%s", folder, name);
        r = file_parse(file, conf, err);
    }
    names_done(&names);
    return r;
}

int conf_vcs_check(const struct conf *conf, struct error *err)
{
    const struct cluster_spec *spec = conf->vcs_spec;
    struct policy_setup common, setup;
    int r = policy_parse(conf->policy ? conf->policy : CONF_POLICY, &common, err);

    if (r < 0)
        return error_prefix(err, -EINVAL, "policy");
    for (uint32_t v = 0; spec && v < spec->vc_count; v++) {
        const struct vc_spec *vc = &spec->vcs[v];

        if (policy_compose(vc, &spec->names, &common, &setup, err) < 0)
            return vc->place ? error_prefix(err, -EINVAL, "%s", names_get(&spec->names, vc->place - 1)) : -EINVAL;
    }
    return 0;
}

int conf_check(const struct conf *conf, struct error *err)
{
    if (conf->listen_count == 0)
        return error_set(err, -EINVAL, "listen: nothing to listen on");
    if (conf->beat * 2 > conf->node_timeout)
        return error_set(err, -EINVAL, "lease: node_timeout must be at least two beats");
    if (conf->node_timeout > conf->lease)
        return error_set(err, -EINVAL, "lease: node_timeout must not be longer than time");
    if (!conf->tls_cert != !conf->tls_key)
        return error_set(err, -EINVAL, "tls: cert and key go together");
    for (size_t i = 0; i < conf->listen_count; i++)
        if (conf->listen[i][0] != '/' && !conf->tls_cert && strncmp(conf->listen[i], "127.", 4) != 0 &&
            strncmp(conf->listen[i], "localhost:", 10) != 0 && strncmp(conf->listen[i], "[::1]:", 6) != 0)
            return error_set(err, -EINVAL, "listen: %s is reachable from elsewhere, which needs tls (`musterd init`)",
                             conf->listen[i]);
    return conf_vcs_check(conf, err);
}
