/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - see client.h. Over curl's multi interface: its poll is the loop of the whole program. */
#include "k8s/client.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "io/clock.h"
#include "io/file.h"
#include "io/lib.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_read.h"

enum { FDS_MAX = 256, TOKEN_BYTES_MAX = 1 << 16 };
#define LIMIT_STANDARD (10 * USEC_SEC)
#define TOKEN_AGE USEC_MIN

#define CURL_FILE "libcurl.so.4"
#define CURL_CALLS(X)                                                                                                  \
    X(curl_easy_init)                                                                                                  \
    X(curl_easy_setopt)                                                                                                \
    X(curl_easy_getinfo)                                                                                               \
    X(curl_easy_strerror)                                                                                              \
    X(curl_easy_cleanup)                                                                                               \
    X(curl_slist_append)                                                                                               \
    X(curl_slist_free_all)                                                                                             \
    X(curl_multi_init)                                                                                                 \
    X(curl_multi_setopt)                                                                                               \
    X(curl_multi_add_handle)                                                                                           \
    X(curl_multi_remove_handle)                                                                                        \
    X(curl_multi_perform)                                                                                              \
    X(curl_multi_poll)                                                                                                 \
    X(curl_multi_info_read)                                                                                            \
    X(curl_multi_cleanup)                                                                                              \
    X(curl_global_init)

static struct {
    CURL_CALLS(LIB_FIELD)
} curl;
static const char *const curl_names[] = { CURL_CALLS(LIB_NAME) };

struct request {
    struct client *client;
    struct request *prev, *next;
    CURL *easy;
    struct curl_slist *heads;
    struct client_call call; /* path and body are not used any more */
    struct buf body, in;     /* what is sent; the answer, or the line that has begun */
    char failure[CURL_ERROR_SIZE];
    bool stopped;
};

struct client {
    struct client_config config; /* texts are owned */
    CURLM *multi;
    struct request *first;
    size_t pending;
    char *bearer; /* "Authorization: Bearer ..." */
    usec_t bearer_at;
};

static char *copy(const char *text)
{
    return text ? mem_strdup(text) : NULL;
}

int client_new(const struct client_config *config, struct client **ret_client, struct error *err)
{
    struct client *client;
    int r = lib_open(CURL_FILE, curl_names, LIB_COUNT(curl_names), &curl, err);

    if (r < 0)
        return r;
    client = mem_zalloc(1, sizeof(*client));
    if (!client)
        return error_set(err, -ENOMEM, "no memory for the client");
    client->config = (struct client_config){ copy(config->server),    copy(config->ca_file),  copy(config->token_file),
                                             copy(config->cert_file), copy(config->key_file), config->parallel };
    client->multi = curl.curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl.curl_multi_init() : NULL;
    if (!client->multi || !client->config.server) {
        client_free(client);
        return error_set(err, -ENOMEM, "no memory for the client");
    }
    (void)curl.curl_multi_setopt(client->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)config->parallel);
    *ret_client = client;
    return 0;
}

static void request_free(struct request *request)
{
    struct client *client = request->client;

    if (request->easy) {
        (void)curl.curl_multi_remove_handle(client->multi, request->easy);
        curl.curl_easy_cleanup(request->easy);
    }
    curl.curl_slist_free_all(request->heads);
    buf_done(&request->body);
    buf_done(&request->in);
    if (request->prev)
        request->prev->next = request->next;
    else if (client->first == request)
        client->first = request->next;
    if (request->next)
        request->next->prev = request->prev;
    mem_free(request);
}

void client_free(struct client *client)
{
    if (!client)
        return;
    while (client->first)
        request_free(client->first);
    if (client->multi)
        (void)curl.curl_multi_cleanup(client->multi);
    mem_free((char *)(uintptr_t)client->config.server);
    mem_free((char *)(uintptr_t)client->config.ca_file);
    mem_free((char *)(uintptr_t)client->config.token_file);
    mem_free((char *)(uintptr_t)client->config.cert_file);
    mem_free((char *)(uintptr_t)client->config.key_file);
    mem_free(client->bearer);
    mem_free(client);
}

/* Lines of a stream, as they are whole. */
static bool take_lines(struct request *request)
{
    struct buf *in = &request->in;
    size_t begin = 0;

    while (!request->stopped && begin < in->size) {
        char *end = memchr(in->data + begin, '\n', in->size - begin);

        if (!end)
            break;
        if (end > in->data + begin)
            request->stopped =
                !request->call.line(request->call.arg, in->data + begin, (size_t)(end - in->data) - begin);
        begin = (size_t)(end - in->data) + 1;
    }
    memmove(in->data, in->data + begin, in->size - begin);
    in->size -= begin;
    return !request->stopped;
}

static size_t on_data(const char *data, size_t size, size_t count, void *arg)
{
    struct request *request = arg;
    long status = 0;

    buf_put(&request->in, data, size * count);
    if (request->in.error)
        return 0;
    (void)curl.curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    /* What is not a stream of objects is an error in words, kept for `done`. */
    if (request->call.line && status == 200 && !take_lines(request))
        return 0;
    return size * count;
}

static void bearer_read(struct client *client)
{
    struct bytes bytes = { 0 };
    struct error err = { 0 };
    usec_t now = clock_now();

    if (!client->config.token_file || (client->bearer && now < client->bearer_at + TOKEN_AGE))
        return;
    client->bearer_at = now;
    if (file_read(client->config.token_file, TOKEN_BYTES_MAX, &bytes, &err) < 0)
        return; /* the old one may still do */
    bytes.data[strcspn(bytes.data, "\r\n")] = '\0';
    mem_free(client->bearer);
    client->bearer = mem_zalloc(strlen(bytes.data) + 32, 1);
    if (client->bearer)
        (void)sprintf(client->bearer, "Authorization: Bearer %s", bytes.data);
    bytes_done(&bytes);
}

static void head_add(struct request *request, const char *text)
{
    struct curl_slist *heads = curl.curl_slist_append(request->heads, text);

    if (heads)
        request->heads = heads;
}

static void request_secure(struct request *request)
{
    const struct client_config *config = &request->client->config;

    if (config->ca_file)
        (void)curl.curl_easy_setopt(request->easy, CURLOPT_CAINFO, config->ca_file);
    if (config->cert_file)
        (void)curl.curl_easy_setopt(request->easy, CURLOPT_SSLCERT, config->cert_file);
    if (config->key_file)
        (void)curl.curl_easy_setopt(request->easy, CURLOPT_SSLKEY, config->key_file);
}

static void request_set(struct request *request, const char *url)
{
    const struct client_call *call = &request->call;
    usec_t limit = call->limit ? call->limit : LIMIT_STANDARD;
    CURL *easy = request->easy;
    char type[96];

    (void)curl.curl_easy_setopt(easy, CURLOPT_URL, url);
    (void)curl.curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl.curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl.curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl.curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl.curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(limit / USEC_MSEC));
    (void)curl.curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
    (void)curl.curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, request->failure);
    (void)curl.curl_easy_setopt(easy, CURLOPT_PRIVATE, request);
    (void)curl.curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data);
    (void)curl.curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
    (void)curl.curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
    head_add(request, "Accept: application/json");
    head_add(request, "User-Agent: muster-k8s/" MUSTER_VERSION);
    head_add(request, "Expect:");
    if (request->body.size) {
        (void)snprintf(type, sizeof(type), "Content-Type: %.64s", call->type ? call->type : "application/json");
        head_add(request, type);
        (void)curl.curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body.data);
        (void)curl.curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)request->body.size);
    }
    if (request->client->bearer)
        head_add(request, request->client->bearer);
    (void)curl.curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->heads);
    request_secure(request);
}

int client_send(struct client *client, const struct client_call *call, struct error *err)
{
    struct request *request = mem_zalloc(1, sizeof(*request));
    CLEANUP_BUF struct buf url = BUF_INIT(1 << 16);

    if (!request) {
        json_decref(call->body);
        return error_set(err, -ENOMEM, "no memory for a request");
    }
    *request = (struct request){ .client = client, .call = *call, .body = BUF_INIT(CLIENT_BODY_MAX) };
    request->in.max = call->line ? CLIENT_LINE_MAX : CLIENT_BODY_MAX;
    if (call->body)
        json_put(&request->body, call->body);
    json_decref(call->body);
    request->call.body = NULL;
    request->call.path = NULL;
    buf_printf(&url, "%s%s", client->config.server, call->path);
    buf_char(&url, '\0');
    bearer_read(client);
    request->easy = curl.curl_easy_init();
    if (!request->easy || url.error || request->body.error) {
        request_free(request);
        return error_set(err, -ENOMEM, "no memory for a request");
    }
    request_set(request, url.data);
    if (curl.curl_multi_add_handle(client->multi, request->easy) != CURLM_OK) {
        request_free(request);
        return error_set(err, -ENOMEM, "no memory for a request");
    }
    request->next = client->first;
    if (client->first)
        client->first->prev = request;
    client->first = request;
    client->pending++;
    return 0;
}

static void request_finish(struct request *request, CURLcode code)
{
    struct client_reply reply = { .text = "" };
    struct client_call call = request->call;
    json_t *body = NULL;
    long status = 0;

    (void)curl.curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    buf_char(&request->in, '\0');
    /* A stream that was whole until its end, or was ended by its reader, is no failure of the server's. */
    if (code == CURLE_OK && request->in.data) {
        reply.status = (int)status;
        if (request->in.size > 1 && !(call.line && status == 200) &&
            json_quick_read(request->in.data, request->in.size - 1, &body) < 0 &&
            json_read("answer", request->in.data, request->in.size - 1, &body, NULL) < 0)
            body = NULL;
        reply.text = request->in.data;
    } else {
        reply.text = request->failure[0] ? request->failure : curl.curl_easy_strerror(code);
    }
    reply.body = body;
    request->client->pending--;
    /* It may ask again at once, which is why the request is out of the way only afterwards. */
    if (call.done)
        call.done(call.arg, &reply);
    json_decref(body);
    request_free(request);
}

void client_turn(struct client *client, struct client_fd *fds, size_t count, usec_t wait)
{
    struct curl_waitfd wanted[FDS_MAX];
    unsigned n = count > FDS_MAX ? FDS_MAX : (unsigned)count;
    int running, left;
    CURLMsg *message;

    for (unsigned i = 0; i < n; i++)
        wanted[i] = (struct curl_waitfd){ .fd = fds[i].fd,
                                          .events = (short)((fds[i].events & POLLIN ? CURL_WAIT_POLLIN : 0) |
                                                            (fds[i].events & POLLOUT ? CURL_WAIT_POLLOUT : 0)) };
    (void)curl.curl_multi_perform(client->multi, &running);
    (void)curl.curl_multi_poll(client->multi, wanted, n, (int)((wait + USEC_MSEC - 1) / USEC_MSEC), NULL);
    for (unsigned i = 0; i < n; i++)
        fds[i].revents = (short)((wanted[i].revents & CURL_WAIT_POLLIN ? POLLIN : 0) |
                                 (wanted[i].revents & CURL_WAIT_POLLOUT ? POLLOUT : 0));
    (void)curl.curl_multi_perform(client->multi, &running);
    while ((message = curl.curl_multi_info_read(client->multi, &left))) {
        char *private = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        (void)curl.curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
        request_finish((struct request *)(void *)private, message->data.result);
    }
}

size_t client_pending(const struct client *client)
{
    return client->pending;
}
