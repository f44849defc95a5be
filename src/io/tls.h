/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* tls.h - TLS 1.3 as bytes in, bytes out; the caller moves them. For both ends.
 *
 * A session is fed what came from the network and drained of what goes there after every call. A server asks clients
 * for a certificate and takes none for an answer; tls_peer_name() tells who it was.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/units.h"

struct tls_context;
struct tls_session;

/* Files in PEM. A server's `ca` is the authority whose clients it knows (NULL: it asks for no certificate); a client's
 * is the one it trusts (NULL: those of the system). A client's cert and key may be NULL. */
struct tls_files {
    const char *cert, *key, *ca;
};

int tls_server_new(const struct tls_files *files, struct tls_context **ret_context, struct error *err);
int tls_client_new(const struct tls_files *files, struct tls_context **ret_context, struct error *err);
void tls_context_free(struct tls_context *context);

/* `host`: what the server's certificate must be for; "" takes any host with a certificate of the authority. Servers
 * pass NULL. */
int tls_session_new(struct tls_context *context, const char *host, struct tls_session **ret_session, struct error *err);
void tls_session_free(struct tls_session *session);

/* Bytes from the network. */
int tls_feed(struct tls_session *session, const void *data, size_t size, struct error *err);
/* Plain bytes: > 0, 0 when there are none now, -EPIPE at the end, -EPROTO with words. Goes on with the handshake. */
int tls_read(struct tls_session *session, void *data, size_t size, struct error *err);
/* All of it is taken; -EAGAIN while the handshake is under way. */
int tls_write(struct tls_session *session, const void *data, size_t size, struct error *err);
/* Bytes for the network; returns how many were put into `data`. */
size_t tls_drain(struct tls_session *session, void *data, size_t size);
size_t tls_pending(const struct tls_session *session);
void tls_bye(struct tls_session *session);

bool tls_ready(const struct tls_session *session); /* the handshake is done */
/* Common name of the peer's verified certificate; NULL. */
const char *tls_peer_name(const struct tls_session *session);
usec_t tls_peer_since(const struct tls_session *session); /* from when on its certificate is good; 0 */
