/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* net.h - listeners and connections: TCP with or without TLS, and Unix sockets.
 *
 * A connection hands over plain bytes as they come and takes plain bytes to send; what the kernel does not take at once
 * is queued, up to a limit. One deadline a connection, set again by its user. Closing is told exactly once.
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/units.h"
#include "io/loop.h"
#include "io/tls.h"

struct net_conn;
struct net_listener;

struct net_events {
    void (*data)(void *arg, const char *data, size_t size);
    void (*drained)(void *arg);  /* all that was queued is written; NULL: not wanted */
    void (*deadline)(void *arg); /* NULL: close */
    void (*ended)(void *arg);    /* the peer will send no more; NULL: close */
    void (*closed)(void *arg);   /* the last call; the connection is gone afterwards */
};

struct net_options {
    const char *address;      /* "HOST:PORT", "[V6]:PORT", ":PORT", or "/path" of a Unix socket */
    struct tls_context *tls;  /* NULL: plain */
    size_t conns_max;         /* of this listener; more are closed at once */
    size_t conns_address_max; /* from one address; Unix sockets are not counted */
    size_t queue_max;         /* bytes to send that wait on one connection; more closes it */
    usec_t handshake;         /* for TLS */
    unsigned socket_mode;     /* of a Unix socket */
    /* A new connection, ready to talk. Returns the `arg` of its events; NULL refuses it. */
    void *(*accept)(void *arg, struct net_conn *conn);
    void *arg;
    const struct net_events *events;
};

int net_listen(struct loop *loop, const struct net_options *options, struct net_listener **ret_listener,
               struct error *err);
void net_listener_close(struct net_listener *listener); /* its connections go on */
/* "127.0.0.1:7717" as bound, the port filled in; the path. */
const char *net_listener_address(const struct net_listener *listener);
size_t net_listener_conns(const struct net_listener *listener);
/* TLS with another context from now on. The old one is the caller's to keep while connections use it. */
void net_listener_tls(struct net_listener *listener, struct tls_context *tls);
/* Connections refused for a limit so far. */
uint64_t net_listener_refused(const struct net_listener *listener);

/* Copies what cannot be sent now. Fails only by closing, which is told later. */
void net_write(struct net_conn *conn, const void *data, size_t size);
size_t net_queued(const struct net_conn *conn);
void net_read_pause(struct net_conn *conn);
void net_read_resume(struct net_conn *conn);
void net_deadline(struct net_conn *conn, usec_t span); /* 0: none */
void net_close(struct net_conn *conn);                 /* now; closed() follows */
void net_finish(struct net_conn *conn, usec_t span);   /* when all is sent, or the span is over */
/* The peer has said that it sends nothing more: on a Unix socket net_finish() need not wait for it to close. */
void net_last(struct net_conn *conn);

const char *net_peer(const struct net_conn *conn);                               /* "10.0.0.7", "unix" */
bool net_peer_loopback(const struct net_conn *conn);                             /* 127/8, ::1 */
bool net_peer_user(const struct net_conn *conn, uid_t *ret_uid, gid_t *ret_gid); /* Unix sockets */
usec_t net_peer_since(const struct net_conn *conn);     /* from when on its certificate is good; 0 */
const char *net_peer_name(const struct net_conn *conn); /* of its certificate; NULL */
bool net_secure(const struct net_conn *conn);           /* TLS */
