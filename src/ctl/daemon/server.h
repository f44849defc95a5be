/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* server.h - what the parts of musterd's outside share: the loop, the batcher, who is connected, what was counted.
 *
 * One struct, owned by main.c. Handlers of routes read the registry through the batcher and change through
 * batcher_offer().
 */
#include "ctl/daemon/conf.h"
#include "ctl/http/http_server.h"
#include "ctl/log/batcher.h"
#include "ctl/state/registry.h"

struct feed;
struct links;
struct stats;
struct forecast;
struct watch;
struct selfcheck;
struct notify;
struct waits;
struct whatifs;
struct estimates;
struct oidc;

enum { LISTENERS_MAX = 8 };

struct server {
    struct loop *loop;
    struct conf *conf;
    struct batcher *batcher; /* NULL until the store is loaded */
    struct store *store;
    bool store_full;
    char store_damaged[ERROR_TEXT_MAX]; /* what a scrub found; "": nothing */
    struct http_server *http;
    struct net_listener *listeners[LISTENERS_MAX];
    size_t listener_count;
    struct tls_context *tls;
    struct feed *feed;   /* events and who listens */
    struct links *links; /* agents that are connected */
    struct stats *stats;
    struct forecast *forecast;
    struct watch *watch; /* figures over time */
    struct selfcheck *selfcheck;
    struct notify *notify;
    struct waits *waits;           /* requests that wait for a job */
    struct estimates *estimates;   /* what new jobs will need */
    struct past *past;             /* jobs the registry no longer has */
    struct whatifs *whatifs;       /* comparisons of policies on the cluster's own history */
    struct oidc *oidc;             /* an issuer that knows people */
    struct seal_keys *secret_keys; /* that secrets of users are sealed with; NULL: none could be read or made */
    struct fence *fence;           /* switches silent nodes off */
    struct loop_timer *wake;
    usec_t wake_at;                              /* what it is set to; 0: it is not */
    int (*reload)(void *arg, struct error *err); /* the configuration anew; NULL: there is no file */
    void *reload_arg;
    usec_t started;
    bool dev, stopping;
    char dev_token[64]; /* of whoever started it with --dev */
    char dev_code[48];  /* of the link that opens the dashboard once; "": it was used */
    uid_t uid;          /* musterd's own */
    gid_t gid;
    char user[64];
};

static inline const struct registry *server_book(const struct server *server)
{
    return ctl_registry(batcher_ctl(server->batcher));
}

/* Routes. */
enum access {
    ACCESS_OPEN,  /* anybody */
    ACCESS_READ,  /* viewers too */
    ACCESS_USER,  /* who may have jobs */
    ACCESS_ADMIN, /* admins */
    ACCESS_JOIN,  /* with a join token */
    ACCESS_AGENT, /* a node with its certificate */
};

struct route {
    const char *method, *path; /* "/jobs/{id}/why", below /api/v1 unless it begins with "//" (then from the top) */
    void (*handle)(struct request *request);
    enum access access;
    bool bare; /* needs no batcher */
};

extern const struct route routes[];
extern const size_t route_count;

static inline struct server *request_server(const struct request *request)
{
    return request->owner;
}

/* The handler of all requests. */
void route_handle(void *arg, struct request *request);
/* Who asks, of a head alone. */
bool route_identify(void *arg, struct request *request);
/* The route for a method and path, params filled (borrowed pieces of `path`, which is cut up); NULL with 404 or 405. */
const struct route *route_find(const char *method, char *path, char **params, int *ret_status, char *allow,
                               size_t allow_size);

/* auth.c */
/* Fills request->who; false: there are credentials and they are wrong, or none where some are needed. */
bool auth_identify(struct server *server, struct request *request);
bool auth_sees(const struct principal *who, const struct registry *registry, const struct ctl_job *job,
               const struct cluster_spec *cluster);
/* The same of a job as the store has it. */
bool auth_sees_record(const struct principal *who, const json_t *record);
bool auth_governs(const struct principal *who, const struct registry *registry, const struct ctl_job *job,
                  const struct cluster_spec *cluster);
const char *role_name(enum role role);
int role_find(const char *name); /* -ENOENT */
/* A new token: id, text to hand out, hash to keep. */
int token_make(char *id, size_t id_size, char *text, size_t text_size, char *hash);

/* answer.c: what handlers have in common. */
/* An entry was refused: the problem that says so. */
void reply_refused(struct request *request, const struct entry_result *result);
/* The status and the code that it is answered with. */
int refusal_status(const struct entry_result *result, const char **ret_code);
/* Reads the body as a JSON object with known keys only (NULL-terminated list); answers and returns NULL if it is not.
 */
json_t *request_object(struct request *request, const char *const *keys);
/* Query values. false: not there. Bad ones are answered: then *ret_bad is set. */
bool query_text(struct request *request, const char *name, char *out, size_t size);
/* Words of some length, however they are escaped. 0: not told, 1: they are there; too many are refused, since a filter
 * that is left out takes all: -EINVAL, answered. */
int query_word(struct request *request, const char *key, char *word, size_t size);
int query_i64(struct request *request, const char *name, int64_t min, int64_t max, int64_t *value);
bool query_flag(struct request *request, const char *name);
int query_time(struct request *request, const char *name, usec_t *value);
/* Refuses query parameters that are not in the list. */
bool query_known(struct request *request, const char *const *names);
/* All elements of an array that are known, over or not, by index. The list is the caller's (mem_free). */
size_t array_elements(const struct registry *registry, int64_t id, const struct ctl_job ***ret_list);
/* {id} as a job; answers 404 and returns NULL. Array elements: "12_3". */
const struct ctl_job *request_job(struct request *request);
