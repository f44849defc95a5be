/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* client.h - requests to the controller: HTTP, HTTPS, or the Unix socket.
 *
 * Where it is: --url, then MUSTER_URL, then the context of the configuration file (--context, MUSTER_CONTEXT, or its
 * `current`), then the Unix socket of this machine, then http://127.0.0.1:7717. The token: MUSTER_TOKEN, or the
 * context's. A socket is written unix:/path.
 */
#include <jansson.h>

#include "cli/cli.h"

#define CLIENT_SOCKET "/run/muster/musterd.sock"
#define CLIENT_LOCAL "http://127.0.0.1:7717"
enum { CLIENT_PORT = 7717 };

struct client;

struct answer {
    int status;
    json_t *json; /* NULL when it was no JSON */
    char *text;   /* all of it, ends in '\0' */
    size_t size;
    char etag[64];
};

void answer_done(struct answer *answer);

int client_new(const struct command_args *args, struct client **ret_client, struct problem *problem);
void client_free(struct client *client);
const char *client_url(const struct client *client);
/* The command prints what it is answered and ends: JSON is never freed from here on. */
void client_once(struct client *client);
/* A GET that will follow the next request, the last of them the last of all: sent together with it, answered when it is
 * asked for. /jobs/new is the job that the next request submits; it is asked for by its number. */
void client_ahead(struct client *client, const char *path);
/* No request follows the next one, so that the controller need not keep the connection. */
void client_last(struct client *client);
bool client_met(const struct client *client); /* it was answered at least once */

/* One request below /api/v1 (a path from "/" goes there; "//x" is /x itself). Zero, or the exit code with *problem
 * filled: unreachable, or what the controller answered with a status of 400 and above. */
int client_call(struct client *client, const char *method, const char *path, json_t *body, struct answer *ret_answer,
                struct problem *problem);
/* The same with a body that is not ours to understand, and further headers ("K: v", NULL at the end). */
struct client_request {
    const char *method, *path, *type, *body;
    const char *const *headers;
};
int client_send(struct client *client, const struct client_request *request, struct answer *ret_answer,
                struct problem *problem);

/* Reads an endless answer: `got` is called with what has come; non-zero from it ends the reading. */
typedef int (*client_got_fn)(void *arg, const char *data, size_t size);
int client_stream(struct client *client, const char *path, const char *const *headers, client_got_fn got, void *arg,
                  struct problem *problem);

/* A header of the answer that is being streamed or has been read last: "" when it was not there. */
const char *client_header(const struct client *client, const char *name);

/* A list, page by page, as one array. */
int client_list(struct client *client, const char *path, json_t **ret_items, struct problem *problem);

/* Text fit for a query or a path. Owned by the caller. */
char *client_quote(const char *text);

/* A connection of its own that becomes something else; see cmd_exec.c. The client's, until it is freed. */
struct channel;
int client_connect(struct client *client, struct channel **ret_channel, const char **ret_token,
                   struct problem *problem);

static inline void cleanup_client_free(struct client **client)
{
    client_free(*client);
}
#define CLEANUP_ANSWER __attribute__((cleanup(answer_done)))

/* Finds the number of a job: id, ID_INDEX, ID.RANK, ID@ATTEMPT or a name. */
struct job_ref_text {
    int64_t id;
    int rank, attempt; /* -1 = not said */
};
/* The jobs of an array, ascending by index; an empty list where there is no such array. */
int client_array(struct client *client, int64_t id, json_t **ret_jobs, struct problem *problem);
int client_job(struct client *client, const char *text, struct job_ref_text *ret, struct problem *problem);
/* The same for what is done to whole jobs: a task or an attempt is refused, not taken for its job. */
int client_whole_job(struct client *client, const char *text, struct job_ref_text *ret, struct problem *problem);
