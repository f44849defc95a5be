/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* client.h - requests to the API server, many at a time on one thread, over libcurl (opened at run time).
 *
 * Whoever asks is called back from client_turn(), which also waits for other descriptors. A token that is in a file is
 * read again every minute: service accounts' tokens are replaced while they are in use.
 */
#include <jansson.h>
#include <stdbool.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/units.h"

struct client;

struct client_config {
    const char *server;               /* "https://10.0.0.1:443" */
    const char *ca_file;              /* NULL: the system's authorities */
    const char *token_file;           /* NULL: none */
    const char *cert_file, *key_file; /* NULL: none */
    int parallel;                     /* connections at most */
};

struct client_reply {
    int status;         /* 0: no answer came; `text` says why */
    const json_t *body; /* NULL: none, or not JSON */
    const char *text;
};

enum { CLIENT_BODY_MAX = 64 << 20, CLIENT_LINE_MAX = 4 << 20 };

struct client_call {
    const char *method; /* "GET" */
    const char *path;   /* "/api/v1/pods?limit=500" */
    const char *type;   /* of the body; NULL: application/json */
    json_t *body;       /* taken; NULL: none */
    usec_t limit;       /* 0: ten seconds */
    /* A stream: called with each line as it comes. NULL: an ordinary answer. False ends the request: its answer has
     * status 0. */
    bool (*line)(void *arg, const char *text, size_t size);
    void (*done)(void *arg, const struct client_reply *reply); /* may be NULL */
    void *arg;
};

struct client_fd {
    int fd;
    short events, revents; /* POLLIN, POLLOUT */
};

int client_new(const struct client_config *config, struct client **ret_client, struct error *err);
/* Requests under way are dropped without an answer. */
void client_free(struct client *client);
DEFINE_CLEANUP(struct client *, client_free)

/* -ENOMEM, -E2BIG with words; `done` is not called then. */
int client_send(struct client *client, const struct client_call *call, struct error *err);

/* Waits until something came, or so long; calls what is to be called. */
void client_turn(struct client *client, struct client_fd *fds, size_t count, usec_t wait);

size_t client_pending(const struct client *client);
