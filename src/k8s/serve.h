/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* serve.h - a small HTTP server beside the client's loop: probes, figures and reasons. */
#include "base/buf.h"
#include "base/error.h"
#include "k8s/client.h"
#include "wire/http/http1.h"

struct serve;

enum { SERVE_CONNS_MAX = 128 };

/* Fills the answer's body; returns the status. JSON, unless *type is set to something else. */
typedef int (*serve_fn)(void *arg, const struct http_message *request, struct buf *body, const char **type);

/* "127.0.0.1:9096", ":9096", "[::1]:0". */
int serve_new(const char *address, serve_fn fn, void *arg, struct serve **ret_serve, struct error *err);
void serve_free(struct serve *serve);
const char *serve_address(const struct serve *serve); /* as bound */

/* Descriptors to wait for; fills at most SERVE_CONNS_MAX + 1. Then what became of them. */
size_t serve_fds(struct serve *serve, struct client_fd *fds);
void serve_turn(struct serve *serve, const struct client_fd *fds, size_t count);
