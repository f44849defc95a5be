/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* http_server.h - requests in order, each answered once, whole or as a stream.
 *
 * One connection has one request on its way; what was pipelined behind it waits. A request that is answered later is
 * kept by request_hold(); answering one whose client has left does nothing. Knows HTTP and connections, not what is
 * asked for: that is the handler's.
 */
#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "io/loop.h"
#include "io/net.h"
#include "wire/http/http1.h"

enum { REQUEST_PARAMS_MAX = 4, BODY_BYTES_MAX = 8 << 20, BODY_VALUES_MAX = 200000, BODY_STRANGER_MAX = 65536 };

struct http_server;
struct client;
struct route;
struct request;

/* A body that comes piece by piece. next() appends to `out`: 1 = ask again when that is sent, 0 = that was all,
 * -EAGAIN = nothing now, request_poke() will tell. gone() is called once, at the end or when the client left. */
struct stream_ops {
    int (*next)(void *arg, struct buf *out);
    void (*gone)(void *arg);
};

/* What a connection becomes after "101 Switching Protocols". */
struct upgrade_ops {
    void (*data)(void *arg, const char *data, size_t size);
    void (*drained)(void *arg);
    void (*deadline)(void *arg);
    void (*closed)(void *arg);
};

/* Who is asking; filled by the handler of the server's owner. */
enum role { ROLE_NOBODY, ROLE_VIEWER, ROLE_USER, ROLE_VC_ADMIN, ROLE_ADMIN, ROLE_AGENT, ROLES };

struct principal {
    enum role role;
    char user[64];
    char scope[64]; /* "" = everything the role may; "vc:NAME" of a vc-admin */
    char token[24]; /* id of the token; "" */
    const char *via;
    uid_t uid;
    gid_t gid;
    bool has_uid;
    usec_t until; /* tokens it makes for itself last no longer; 0 = no such end */
};

struct request {
    struct http_server *server;
    struct client *client;              /* NULL: it has left */
    const struct http_message *message; /* until the handler returns, or while held and not answered */
    const struct route *route;
    char *path, *query; /* path unescaped, without the query; query as sent, "" */
    char *cut;          /* the path in pieces, which params point into; room for all of it */
    char *params[REQUEST_PARAMS_MAX];
    char *called; /* owned; params[0] of what is made, which its path does not name */
    struct principal who;
    usec_t began;
    void *owner; /* of the server */
    struct buf heads;
    int status;
    unsigned refs;
    bool answered, head_only, close, streaming;
    char texts[]; /* path, query and cut */
};

struct http_server_config {
    struct http_limits limits;
    usec_t header_time, body_time, idle_time, send_time;
    size_t queue_max;
    void (*handle)(void *arg, struct request *request);
    /* Fills request->who of a request of which only the head is there; false: somebody unknown. NULL: bodies are taken
     * from anybody. Strangers may send BODY_STRANGER_MAX. */
    bool (*identify)(void *arg, struct request *request);
    /* What one user may have at a time; 0 connections: there is no such limit. */
    uint32_t user_connections, user_requests;
    size_t user_bytes;
    /* For statistics; after the last byte was handed over. */
    void (*answered)(void *arg, const struct request *request, usec_t took);
    void *arg;
};

int http_server_new(struct loop *loop, const struct http_server_config *config, struct http_server **ret_server);
/* Closes all connections; frees itself when the last is gone. */
void http_server_stop(struct http_server *server);
/* Another listener whose connections speak HTTP with this server. */
int http_server_listen(struct http_server *server, const struct net_options *options,
                       struct net_listener **ret_listener, struct error *err);
size_t http_server_clients(const struct http_server *server);

/* Counts it as one of request->who. -EUSERS: they have too many on their way, or too many connections. */
int request_admit(struct request *request);
struct request *request_hold(struct request *request);
void request_drop(struct request *request);
struct net_conn *request_conn(const struct request *request); /* NULL: it has left */
/* The job that was submitted last on the same connection, which requests sent along with the submission call `new`. */
void request_made(struct request *request, int64_t job);
int64_t request_new_job(const struct request *request); /* 0: none */
void request_call(struct request *request, const char *name);

/* Answers. A header is added before; the body is copied. */
void reply_header(struct request *request, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void reply_header_number(struct request *request, const char *name, const char *before, int64_t number,
                         const char *behind);
void reply(struct request *request, int status, const char *type, const void *body, size_t size);
void reply_buf(struct request *request, int status, struct buf *body); /* JSON; empties it */
void reply_tree(struct request *request, int status, json_t *tree);    /* takes it */
void reply_stream(struct request *request, int status, const char *type, const struct stream_ops *ops, void *arg);
void request_poke(struct request *request);
/* `protocol` as in the Upgrade header; `heads` are further lines, "" or "Name: value\r\n". What came behind the head is
 * handed to ops->data at once. */
void reply_upgrade(struct request *request, const char *protocol, const char *heads, const struct upgrade_ops *ops,
                   void *arg);

/* problem+json. `code` is for programs ("NotFound"); hint may be NULL. */
void reply_problem(struct request *request, int status, const char *code, const char *hint, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
