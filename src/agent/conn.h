/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* conn.h - the agent's connection to its controller: TCP, TLS where the URL says https, upgraded HTTP, frames. */
#include <jansson.h>
#include <uv.h>

#include "base/error.h"
#include "io/tls.h"

struct conn;

struct conn_events {
    void (*open)(void *arg);                            /* upgraded: frames may be sent */
    void (*frame)(void *arg, json_t *frame);            /* borrowed */
    void (*closed)(void *arg, const struct error *err); /* told once, last; the connection is gone */
    void *arg;
};

struct conn_target {
    char host[256];
    char port[8];
    char name[256];  /* what its certificate must be for; "": the host */
    char token[128]; /* said where there is no certificate; "": none */
    bool tls;
};

/* "http://HOST:PORT", "https://[V6]:PORT". The port is 7717 when it is not told. */
int conn_target_parse(const char *url, struct conn_target *ret_target, struct error *err);

/* `tls` is borrowed for the life of the connection; NULL for plain. */
int conn_dial(uv_loop_t *loop, const struct conn_target *target, struct tls_context *tls,
              const struct conn_events *events, struct conn **ret_conn, struct error *err);
int conn_send(struct conn *conn, json_t *frame); /* -EPIPE while it is not open; -ENOBUFS: the peer does not read */
int conn_send_all(struct conn *conn, json_t *const *frames, size_t count); /* the same, in one piece */
void conn_close(struct conn *conn);                                        /* closed() follows */
size_t conn_queued(const struct conn *conn);
/* Our address on it, "10.0.0.5". */
int conn_local(const struct conn *conn, char *out, size_t size);
