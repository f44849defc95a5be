/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - see client.h. Bodies are limited, redirects are not followed, certificates are checked; MUSTER_CACERT
 * names an authority of the cluster's own. One connection serves all requests of a command. */
#include "cli/client/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/client/arena.h"
#include "cli/client/channel.h"
#include "cli/client/context.h"
#include "io/local_token.h"
#include "wire/http/http1.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_read.h"

/* An answer must be whole within ANSWER_MS. In a stream something comes every 15 seconds, if only a comment: silence
 * for longer means that nobody is there. */
enum {
    BODY_MAX = 256 << 20,
    READ_BYTES = 65536,
    ANSWER_MS = 120000,
    SILENCE_MS = 120000,
    START_MS = 2000,
    TOKEN_MS = 100
};
enum { AHEAD_MAX = 2, AHEAD_BYTES = 256 };

struct client {
    struct context context;
    struct channel *channel; /* NULL: not connected */
    struct http_reader *reader;
    client_got_fn got; /* of a stream */
    void *got_arg;
    int got_result;
    bool used; /* a request was answered on this connection */
    bool met;
    bool once; /* answers are kept until the end: arena.h */
    bool last; /* no request follows the next one */
    /* GETs that go with the next request: not sent yet, or sent and their answers to come. */
    char ahead[AHEAD_MAX][AHEAD_BYTES];
    int ahead_count;
    bool ahead_sent;
    size_t rest_at, rest; /* of `in`: came behind an answer */
    char *in;             /* READ_BYTES, never cleared: most answers fill little of it */
};

void answer_done(struct answer *answer)
{
    json_decref(answer->json);
    mem_free(answer->text);
    *answer = (struct answer){ 0 };
}

const char *client_url(const struct client *client)
{
    return client->context.url;
}

bool client_met(const struct client *client)
{
    return client->met;
}

void client_once(struct client *client)
{
    client->once = true;
    arena_use();
}

void client_last(struct client *client)
{
    client->last = true;
}

void client_ahead(struct client *client, const char *path)
{
    if (!client->ahead_sent && client->ahead_count < AHEAD_MAX && strlen(path) < AHEAD_BYTES)
        (void)snprintf(client->ahead[client->ahead_count++], AHEAD_BYTES, "%s", path);
}

const char *client_header(const struct client *client, const char *name)
{
    const char *value = client->reader ? http_header(http_reader_message(client->reader), name) : NULL;

    return value ? value : "";
}

int client_new(const struct command_args *args, struct client **ret_client, struct problem *problem)
{
    struct client *client = mem_zalloc(1, sizeof(*client));
    struct error err = { 0 };
    int r;

    if (client)
        client->in = mem_resize(NULL, READ_BYTES, 1);
    if (!client || !client->in) {
        client_free(client);
        return problem_set(problem, CODE_FAILED, "", "out of memory");
    }
    r = context_load(args_value(args, "url"), args_value(args, "context"), &client->context, &err);
    if (r < 0) {
        client_free(client);
        return problem_set(problem, cli_exit_of(r), "", "%s", err.text);
    }
    *ret_client = client;
    return 0;
}

void client_free(struct client *client)
{
    if (!client)
        return;
    channel_close(client->channel);
    http_reader_free(client->reader);
    mem_free(client->in);
    mem_free(client);
}

char *client_quote(const char *text)
{
    struct buf out = BUF_INIT(strlen(text) * 3 + 1);

    buf_percent(&out, text, ",");
    buf_char(&out, '\0');
    if (!out.error)
        return out.data;
    buf_done(&out);
    return NULL;
}

static bool url_local(const char *url)
{
    return strncmp(url, "unix:", 5) == 0 || strstr(url, "127.0.0.1") || strstr(url, "localhost");
}

static int unreachable(const struct client *client, const struct error *err, struct problem *problem)
{
    const char *url = client->context.url;
    bool local = url_local(url), refused = err->code == -ECONNREFUSED || err->code == -ENOENT;

    (void)problem_set(problem, CODE_UNREACHABLE, "Unreachable", "no answer from the controller at %s: %s", url,
                      err->text);
    if (err->code == -EPROTO)
        problem_hint(problem,
                     "MUSTER_CACERT=/path/to/ca.pem names the authority of this cluster; musterd prints where it is");
    else if (strncmp(url, "http://", 7) == 0 && !refused && err->code != -ETIMEDOUT)
        problem_hint(problem, "a controller with TLS answers at https://%s", url + 7);
    else if (local)
        problem_hint(
            problem,
            "start one: musterd --dev --fake 4x8:H100    or tell where it is: export MUSTER_URL=https://HOST:7717");
    else
        problem_hint(problem, "is it running there? muster doctor looks; MUSTER_URL and --url say where it is");
    return CODE_UNREACHABLE;
}

/* The exit code of a status of HTTP; docs/rest.md. */
static int exit_of_status(int status)
{
    switch (status) {
    case 400:
    case 413:
    case 414:
    case 431:
        return CODE_USAGE;
    case 401:
    case 403:
        return CODE_DENIED;
    case 404:
        return CODE_NOT_FOUND;
    case 409:
    case 412:
        return CODE_CONFLICT;
    case 422:
        return CODE_REFUSED;
    case 429:
    case 503:
    case 504:
        return CODE_UNREACHABLE;
    default:
        return CODE_FAILED;
    }
}

static const char *text_of(json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    return text ? text : "";
}

/* What a problem+json says, or the status where there is none. */
static int refused(const struct client *client, const struct answer *answer, struct problem *problem)
{
    json_t *hints = json_object_get(answer->json, "hints"), *errors = json_object_get(answer->json, "errors"), *item;
    const char *detail = text_of(answer->json, "detail");
    size_t i;

    (void)problem_set(problem, exit_of_status(answer->status), text_of(answer->json, "code"), "%s",
                      *detail ? detail : text_of(answer->json, "title"));
    problem->status = answer->status;
    if (!problem->text[0])
        (void)snprintf(problem->text, sizeof(problem->text), "the controller at %s answered %d", client->context.url,
                       answer->status);
    json_array_foreach(errors, i, item)
    {
        const char *path = text_of(item, "path"), *message = text_of(item, "message");
        size_t used = strlen(problem->text);

        if (*message && !strstr(problem->text, message))
            (void)snprintf(problem->text + used, sizeof(problem->text) - used, "%s%s%s%s", used ? "; " : "", path,
                           *path ? ": " : "", message);
    }
    json_array_foreach(hints, i, item) if (json_is_string(item)) problem_hint(problem, "%s", json_string_value(item));
    if (answer->status == 401 && problem->hint_count == 0)
        problem_hint(problem, "muster login URL keeps a token; or export MUSTER_TOKEN=...");
    return problem->exit;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void disconnect(struct client *client)
{
    if (client->ahead_sent)
        client->ahead_count = 0;
    client->ahead_sent = false;
    client->rest = 0;
    channel_close(client->channel);
    client->channel = NULL;
    client->used = false;
}

/* A new connection has a reader of its own: the old one may have stopped anywhere. */
static int connected(struct client *client, struct error *err)
{
    const struct http_limits limits = {
        .target_max = 8192, .head_bytes_max = 65536, .head_count_max = 100, .body_max = BODY_MAX
    };
    const char *ca = getenv("MUSTER_CACERT"); /* NOLINT(concurrency-mt-unsafe): one thread */
    struct http_reader *reader = NULL;

    if (client->channel)
        return 0;
    if (http_reader_new(HTTP_RESPONSES, &limits, &reader) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    http_reader_free(client->reader);
    client->reader = reader;
    return channel_open(client->context.url, ca ? ca : client->context.ca, &client->channel, err);
}

/* Waits for the connection; interrupts of a person end it as an error. */
static int channel_wait(struct client *client, short events, int64_t until, struct error *err)
{
    struct pollfd wait = { .fd = channel_fd(client->channel), .events = events };
    int64_t left = until - now_ms();
    int n = left > 0 ? poll(&wait, 1, (int)left) : 0;

    if (n < 0)
        return error_set(err, -errno, "%s", strerror(errno));
    return n ? 0 : error_set(err, -ETIMEDOUT, "Timeout was reached");
}

static void head_put(const struct client *client, const struct client_request *request, struct buf *out)
{
    const char *path = request->path;
    const char *const *more = request->headers;
    char host[CHANNEL_HOST_MAX];

    channel_host(client->context.url, host);
    buf_printf(out, "%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: muster/" MUSTER_VERSION "\r\n", request->method,
               path[1] == '/' ? "" : "/api/v1", path[1] == '/' ? path + 1 : path, host);
    if (client->context.token[0])
        buf_printf(out, "Authorization: Bearer %s\r\n", client->context.token);
    if (request->type)
        buf_printf(out, "Content-Type: %s\r\n", request->type);
    if (request->body || strcmp(request->method, "GET") != 0)
        buf_printf(out, "Content-Length: %zu\r\n", request->body ? strlen(request->body) : 0);
    if (client->last)
        buf_text(out, "Connection: close\r\n");
    for (; more && *more; more++)
        buf_printf(out, "%s\r\n", *more);
    buf_text(out, "\r\n");
    buf_text(out, request->body ? request->body : "");
}

static int request_put(struct client *client, const struct buf *out, int64_t until, struct error *err)
{
    size_t sent = 0;

    while (sent < out->size) {
        ssize_t n = channel_send(client->channel, out->data + sent, out->size - sent);
        int r = n == -EAGAIN ? channel_wait(client, POLLOUT, until, err) : 0;

        if (r < 0 || (n < 0 && n != -EAGAIN && n != -EINTR))
            return r < 0 ? r : error_set(err, (int)n, "%s", strerror((int)-n));
        sent += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* What has come of a stream goes on; 1: its reader had enough. */
static int stream_pass(struct client *client)
{
    const struct http_message *m = http_reader_message(client->reader);
    const char *data;
    size_t size;

    if (!client->got || m->status == 0 || m->status >= 400)
        return 0;
    http_reader_drain(client->reader, &data, &size);
    if (size)
        client->got_result = client->got(client->got_arg, data, size);
    return client->got_result ? 1 : 0;
}

/* Bytes until the answer is whole: 0; 1 when the reader of a stream had enough. */
static int answer_read(struct client *client, int64_t until, struct error *err)
{
    for (;;) {
        size_t used = 0, at = client->rest ? client->rest_at : 0;
        ssize_t n = client->rest ? (ssize_t)client->rest : channel_recv(client->channel, client->in, READ_BYTES);
        int r;

        client->rest = 0;

        if (n == -EAGAIN) {
            r = channel_wait(client, POLLIN, until, err);
            if (r < 0)
                return r;
            continue;
        }
        if (n < 0)
            return error_set(err, (int)n, "%s", strerror((int)-n));
        if (client->got)
            until = now_ms() + SILENCE_MS;
        r = n > 0 ? http_reader_feed(client->reader, client->in + at, (size_t)n, &used, err)
                  : http_reader_end(client->reader, err);
        if (r < 0)
            return r;
        if (stream_pass(client))
            return 1;
        if (r == 1) {
            client->rest_at = at + used;
            client->rest = n > 0 ? (size_t)n - used : 0;
            return 0;
        }
        if (n == 0)
            return error_set(err, -EPIPE, "the connection was closed");
    }
}

/* /jobs/new and what follows is the same as /jobs/NUMBER and that: one job was submitted here. */
static bool path_same(const char *ahead, const char *path)
{
    static const char job[] = "/jobs/", made[] = "/jobs/new";

    if (strncmp(ahead, made, strlen(made)) != 0 || strncmp(path, job, strlen(job)) != 0)
        return strcmp(ahead, path) == 0;
    path += strlen(job);
    return strcmp(ahead + strlen(made), path + strspn(path, "0123456789")) == 0;
}

/* What is to be sent; nothing where it went with the request before. A connection on which the answer to something else
 * comes next is of no use. */
static int request_text(struct client *client, const struct client_request *request, struct buf *out)
{
    static const char *const close[] = { "Connection: close", NULL }; /* it is nearly always the last */

    if (client->ahead_sent && !request->body && path_same(client->ahead[0], request->path)) {
        client->ahead_count--;
        memmove(client->ahead[0], client->ahead[1], sizeof(client->ahead) - AHEAD_BYTES);
        client->ahead_sent = client->ahead_count > 0;
        return 0;
    }
    if (client->ahead_sent)
        disconnect(client);
    head_put(client, request, out);
    for (int i = 0; i < client->ahead_count; i++) {
        const bool last = i == client->ahead_count - 1;
        const struct client_request next = { "GET", client->ahead[i], NULL, NULL, last ? close : NULL };

        head_put(client, &next, out);
        client->ahead_sent = true;
    }
    return out->error;
}

/* A controller of this machine that was started a moment ago is waited for, as in `musterd --dev & muster nodes`. True:
 * after a while, to be tried again. */
static bool start_wait(const struct client *client, int code, int64_t started)
{
    if (client->met || (code != -ECONNREFUSED && code != -ENOENT) || !url_local(client->context.url) ||
        now_ms() - started > START_MS)
        return false;
    (void)poll(NULL, 0, 100);
    return true;
}

/* A `musterd --dev` that has just begun to listen makes its token then, so it could not be found before. */
static int token_renew(struct client *client, const struct client_request *request, struct buf *out)
{
    if (!client->context.local)
        return 0;
    (void)poll(NULL, 0, TOKEN_MS);
    (void)local_token_of_url(client->context.url, client->context.token, sizeof(client->context.token));
    client->ahead_sent = false; /* nothing was sent yet */
    buf_clear(out);
    return request_text(client, request, out);
}

/* One request and its answer. A connection that was kept may have been closed meanwhile: then once more on a new one.
 * What was asked for in vain was not begun, or carries a key that tells that it was. */
static int exchange(struct client *client, const struct client_request *request, struct error *err)
{
    int64_t until = now_ms() + (client->got ? SILENCE_MS : ANSWER_MS);
    CLEANUP_BUF struct buf out = BUF_INIT(BODY_MAX);
    int64_t started = now_ms();
    bool kept, close;
    int r;

    do {
        /* Before there is a connection: the controller wakes once, for both. */
        buf_clear(&out);
        if (request_text(client, request, &out) < 0)
            return error_set(err, -ENOMEM, "out of memory");
        kept = client->used;
        if (kept)
            http_reader_next(client->reader);
        client->got_result = 0;
        r = connected(client, err);
        while (r < 0 && start_wait(client, r, started)) {
            r = connected(client, err);
            if (r == 0 && token_renew(client, request, &out) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        }
        if (r == 0)
            r = request_put(client, &out, until, err);
        if (r == 0)
            r = answer_read(client, until, err);
        close = r != 0 || !http_reader_message(client->reader)->keep_alive;
        if (r < 0 && !http_reader_idle(client->reader))
            kept = false; /* the answer had begun */
        client->used = r == 0;
        client->met |= r == 0;
        if (close)
            disconnect(client);
    } while (r < 0 && r != -ETIMEDOUT && r != -EINTR && kept);
    return r;
}

/* Takes what was read over. */
static int answer_take(struct client *client, struct answer *answer, struct problem *problem)
{
    const struct http_message *m = http_reader_message(client->reader);
    struct error err = { 0 };
    int r;

    *answer = (struct answer){ .status = m->status, .size = m->body_size };
    (void)snprintf(answer->etag, sizeof(answer->etag), "%.60s", client_header(client, "ETag"));
    answer->text = mem_zalloc(m->body_size + 1, 1);
    if (!answer->text)
        return problem_set(problem, CODE_FAILED, "", "the answer: out of memory");
    memcpy(answer->text, m->body ? m->body : "", m->body_size);
    if (m->body_size && strstr(client_header(client, "Content-Type"), "json") &&
        (client->once ? arena_read(answer->text, m->body_size, &answer->json, &err)
                      : json_read("answer", answer->text, m->body_size, &answer->json, &err)) < 0)
        answer->json = NULL;
    if (answer->status < 400)
        return 0;
    r = refused(client, answer, problem);
    answer_done(answer);
    return r;
}

int client_send(struct client *client, const struct client_request *request, struct answer *ret_answer,
                struct problem *problem)
{
    struct error err = { 0 };

    client->got = NULL;
    if (exchange(client, request, &err) < 0)
        return unreachable(client, &err, problem);
    return answer_take(client, ret_answer, problem);
}

int client_call(struct client *client, const char *method, const char *path, json_t *body, struct answer *ret_answer,
                struct problem *problem)
{
    char *text = body ? json_text(body, NULL) : NULL;
    struct client_request request = { method, path, body ? "application/json" : NULL, text, NULL };
    int r;

    if (body && !text)
        return problem_set(problem, CODE_FAILED, "", "out of memory");
    r = client_send(client, &request, ret_answer, problem);
    mem_free(text);
    return r;
}

int client_stream(struct client *client, const char *path, const char *const *headers, client_got_fn got, void *arg,
                  struct problem *problem)
{
    const struct client_request request = { "GET", path, NULL, NULL, headers };
    struct answer answer = { 0 };
    struct error err = { 0 };
    int r;

    client->got = got;
    client->got_arg = arg;
    r = exchange(client, &request, &err);
    client->got = NULL;
    if (r == 1)
        return 0; /* the reader had enough */
    if (r < 0)
        return unreachable(client, &err, problem);
    r = answer_take(client, &answer, problem);
    answer_done(&answer);
    return r;
}

int client_list(struct client *client, const char *path, json_t **ret_items, struct problem *problem)
{
    json_t *items = json_array();
    char next[300] = "";

    do {
        CLEANUP_ANSWER struct answer answer = { 0 };
        char page[4096];
        const char *cursor;
        char *quoted = client_quote(next);
        int r;

        /* Long lists in few pages; the others come as they are. */
        (void)snprintf(page, sizeof(page), "%s%s%s%s%s", path, strchr(path, '?') ? "&" : "?",
                       strncmp(path, "/jobs?", 6) == 0 ? "limit=10000" : "", next[0] ? "&cursor=" : "",
                       next[0] ? quoted : "");
        mem_free(quoted);
        r = client_call(client, "GET", page, NULL, &answer, problem);
        if (r) {
            json_decref(items);
            return r;
        }
        (void)json_array_extend(items, json_object_get(answer.json, "items"));
        cursor = json_string_value(json_object_get(answer.json, "next"));
        (void)snprintf(next, sizeof(next), "%s", cursor && !strstr(path, "limit=") ? cursor : "");
    } while (next[0]);
    *ret_items = items;
    return 0;
}

int client_connect(struct client *client, struct channel **ret_channel, const char **ret_token, struct problem *problem)
{
    struct error err = { 0 };

    disconnect(client);
    if (connected(client, &err) < 0)
        return unreachable(client, &err, problem);
    *ret_channel = client->channel;
    *ret_token = client->context.token;
    return 0;
}
