/* SPDX-License-Identifier: Apache-2.0 */
/* http_server.c - connections that speak HTTP/1.1.
 *
 *   idle ──first byte──► head ──► body ──► answering ──► idle (keep-alive) or closed
 *                                              │
 *                                              └──► streaming ──► idle or closed;  upgraded ──► closed
 *
 * Answers with further requests behind them wait a moment for the answers to those: what was asked in one piece is,
 * where it is quick, answered in one. Each arrow into a state sets its deadline. Bytes that arrive while a request is
 * being answered wait in `in`; beyond IN_BYTES_MAX reading stops.
 */
#include "ctl/http/http_server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "ctl/http/http_internal.h"

enum { IN_BYTES_MAX = 65536, IN_PAUSE = 32768, OUT_HIGH = 262144 };
/* What one turn of the loop spends on requests beyond the first of each client. */
#define TURN_TIME (4 * USEC_MSEC)

static const struct net_events client_events;
static void on_again(void *arg);

static void on_turn(void *arg)
{
    struct http_server *server = arg;

    server->turn++;
    server->turn_began = 0;
}

int http_server_new(struct loop *loop, const struct http_server_config *config, struct http_server **ret_server)
{
    struct http_server *server = mem_zalloc(1, sizeof(*server));

    if (!server)
        return -ENOMEM;
    server->loop = loop;
    server->config = *config;
    if (loop_timer_new(loop, on_again, server, &server->again) < 0 ||
        loop_timer_new(loop, clients_release, server, &server->release) < 0) {
        loop_timer_free(server->again);
        mem_free(server);
        return -ENOMEM;
    }
    (void)loop_each_turn(loop, on_turn, server);
    *ret_server = server;
    return 0;
}

static void server_maybe_free(struct http_server *server)
{
    if (server->stopping && server->count == 0)
        mem_free(server);
}

void http_server_stop(struct http_server *server)
{
    if (!server)
        return;
    server->stopping = true;
    loop_timer_free(take(server->again));
    loop_timer_free(take(server->release));
    for (struct client *client = server->clients, *next; client; client = next) {
        next = client->next;
        net_close(client->conn);
    }
    server_maybe_free(server);
}

size_t http_server_clients(const struct http_server *server)
{
    return server->count;
}

static void *on_accept(void *arg, struct net_conn *conn)
{
    struct http_server *server = arg;
    struct http_limits limits;
    struct client *client;

    if (server->stopping)
        return NULL;
    client = mem_zalloc(1, sizeof(*client));
    if (!client)
        return NULL;
    limits = server->config.limits;
    limits.body_free = BODY_STRANGER_MAX;
    limits.body_ask = account_body_ask;
    limits.body_arg = client;
    client->server = server;
    if (http_reader_new(HTTP_REQUESTS, &limits, &client->reader) < 0) {
        mem_free(client);
        return NULL;
    }
    client->conn = conn;
    client->in.max = IN_BYTES_MAX + 65536;
    client->next = server->clients;
    if (client->next)
        client->next->prev = client;
    server->clients = client;
    server->count++;
    net_deadline(conn, server->config.header_time);
    return client;
}

int http_server_listen(struct http_server *server, const struct net_options *options,
                       struct net_listener **ret_listener, struct error *err)
{
    struct net_options mine = *options;

    mine.accept = on_accept;
    mine.arg = server;
    mine.events = &client_events;
    mine.queue_max = server->config.queue_max;
    return net_listen(server->loop, &mine, ret_listener, err);
}

/* Requests. */

struct request *request_hold(struct request *request)
{
    request->refs++;
    return request;
}

void request_drop(struct request *request)
{
    if (!request || --request->refs > 0)
        return;
    mem_free(request->called);
    buf_done(&request->heads);
    mem_free(request);
}

struct net_conn *request_conn(const struct request *request)
{
    return request->client ? request->client->conn : NULL;
}

void request_made(struct request *request, int64_t job)
{
    if (request->client)
        request->client->made = job;
}

int64_t request_new_job(const struct request *request)
{
    return request->client ? request->client->made : 0;
}

void request_call(struct request *request, const char *name)
{
    mem_free(request->called);
    request->called = request->params[0] = mem_strdup(name);
}

static struct request *request_new(struct client *client)
{
    const struct http_message *m = http_reader_message(client->reader);
    const char *mark = strchrnul(m->target, '?'), *query = mark + (*mark == '?');
    size_t length = (size_t)(mark - m->target), query_length = strlen(query);
    struct request *request = mem_zalloc(1, sizeof(*request) + 2 * (length + 1) + query_length + 1);

    if (!request)
        return NULL;
    request->refs = 1;
    request->heads.max = 16384;
    request->path = request->texts;
    request->cut = request->path + length + 1;
    request->query = request->cut + length + 1;
    memcpy(request->path, m->target, length);
    memcpy(request->query, query, query_length);
    request->server = client->server;
    request->client = client;
    request->message = m;
    request->began = clock_now();
    request->head_only = strcmp(m->method, "HEAD") == 0;
    request->close = !m->keep_alive || client->server->stopping;
    if (!m->keep_alive)
        net_last(client->conn);
    return request;
}

/* The connection's side of a request is over. */
static void client_release(struct client *client)
{
    struct request *request = take(client->request);

    if (!request)
        return;
    account_request_over(client);
    account_body_over(client);
    if (client->stream) {
        const struct stream_ops *ops = take(client->stream);

        if (ops->gone)
            ops->gone(client->stream_arg);
    }
    request->client = NULL;
    request->message = NULL;
    request_drop(request);
}

/* A request was answered whole: on to the next, or the end. */
void client_finished(struct client *client)
{
    struct request *request = client->request;
    struct http_server *server = client->server;
    bool close = request->close || (client->half_closed && !client->feeding && client->in.size == 0);

    client->finished = client->handling;
    if (client->handling)
        return;

    if (server->config.answered)
        server->config.answered(server->config.arg, request, clock_now() - request->began);
    client_release(client);
    if (close) {
        client->closing = true;
        client_flush(client);
        net_finish(client->conn, server->config.send_time);
        return;
    }
    http_reader_next(client->reader);
    net_deadline(client->conn, net_queued(client->conn) ? server->config.send_time : server->config.idle_time);
    if (!client->feeding)
        client_more(client);
}

static void client_request(struct client *client)
{
    struct http_server *server = client->server;

    client->request = request_new(client);
    if (!client->request) {
        net_close(client->conn);
        return;
    }
    net_deadline(client->conn, 0);
    /* What the handler reads of the request stays until it returns, though it may have answered. */
    client->handling = true;
    server->config.handle(server->config.arg, client->request);
    client->handling = false;
    if (client->finished)
        client_finished(client);
}

/* A request that cannot be read: told why, and that was it. */
static void client_refuse(struct client *client, int status, const char *why)
{
    struct request *request = mem_zalloc(1, sizeof(*request));

    client->closing = true;
    if (!request) {
        net_close(client->conn);
        return;
    }
    request->refs = 1;
    request->heads.max = 16384;
    request->server = client->server;
    request->client = client;
    request->began = clock_now();
    request->close = true;
    client->request = request;
    reply_problem(request, status,
                  status == 408   ? "TooSlow"
                  : status == 401 ? "NotLoggedIn"
                  : status == 429 ? "TooManyOfYours"
                  : status == 400 ? "BadRequest"
                                  : "TooLarge",
                  NULL, "%s", why);
}

/* Whether its next request may be looked at: not while it leaves its answers unread; and beyond the first of a turn, of
 * whoever it belongs to, only while the turn is young, so that others do not wait for who asks much. */
static bool client_may(struct client *client)
{
    struct http_server *server = client->server;
    uint64_t *taken_in = client->account ? &client->account->taken_in : &client->taken_in;
    usec_t now = clock_now();

    if (net_queued(client->conn) >= OUT_HIGH)
        return false;
    if (server->turn_began == 0)
        server->turn_began = now;
    if (*taken_in != server->turn || now - server->turn_began < TURN_TIME) {
        *taken_in = server->turn;
        return true;
    }
    client->again = true;
    /* Not at once: a timer without a span would come again before anybody else is looked at. */
    loop_timer_after(client->server->again, USEC_MSEC);
    return false;
}

/* Feeds bytes until they are used up or a request is on its way; returns how many were used. */
static size_t client_feed(struct client *client, const char *data, size_t size)
{
    size_t at = 0, used;
    struct error err;
    int r;

    while (at < size && !client->request && !client->closing && client_may(client)) {
        bool fresh = http_reader_idle(client->reader), heading = !http_reader_in_body(client->reader);

        r = http_reader_feed(client->reader, data + at, size - at, &used, &err);
        at += used;
        if (r < 0) {
            client_refuse(client, http_reader_refusal(client->reader), err.text);
            return size;
        }
        if (r == 1) {
            client->behind = size - at;
            client_request(client);
            client->behind = 0;
            continue;
        }
        if (http_reader_expects(client->reader))
            client_write(client, "HTTP/1.1 100 Continue\r\n\r\n", 25, false);
        /* One deadline for the whole head, one for the whole body: dripping bytes does not move it. */
        if (heading && http_reader_in_body(client->reader))
            net_deadline(client->conn, client->server->config.body_time);
        else if (fresh)
            net_deadline(client->conn, client->server->config.header_time);
    }
    return at;
}

/* What waited behind the request that was answered. */
void client_more(struct client *client)
{
    client->feeding = true;
    while (client->in.size && !client->request && !client->closing && !client->upgraded && client_may(client)) {
        struct buf in = client->in;
        size_t used;

        client->in = (struct buf)BUF_INIT(in.max);
        used = client_feed(client, in.data, in.size);
        if (used < in.size && !client->closing)
            buf_put(&client->in, in.data + used, in.size - used);
        buf_done(&in);
    }
    client->feeding = false;
    if (client->closing)
        return;
    if (client->half_closed && client->in.size == 0 && !client->request && !client->upgraded) {
        client->closing = true; /* all is answered; what is begun will not be ended */
        client_flush(client);
        net_finish(client->conn, client->server->config.send_time);
    } else if (client->in.size < IN_PAUSE) {
        net_read_resume(client->conn);
    }
}

/* The next turn, for those that were held back. */
static void on_again(void *arg)
{
    struct http_server *server = arg;

    on_turn(server);
    for (struct client *client = server->clients; client; client = client->next) {
        if (client->again) {
            client->again = false;
            if (!client->request)
                client_more(client);
        }
    }
}

static void on_data(void *arg, const char *data, size_t size)
{
    struct client *client = arg;
    size_t used = 0;

    if (client->upgraded) {
        client->upgraded->data(client->upgraded_arg, data, size);
        return;
    }
    if (client->closing)
        return;
    if (!client->request && client->in.size == 0) {
        client->feeding = true;
        used = client_feed(client, data, size);
        client->feeding = false;
        if (client->upgraded && used < size) {
            client->upgraded->data(client->upgraded_arg, data + used, size - used);
            return;
        }
    }
    if (used == size || client->closing)
        return;
    if (client->in.size + size - used > IN_BYTES_MAX + 65536) {
        net_close(client->conn);
        return;
    }
    buf_put(&client->in, data + used, size - used);
    if (client->in.size > IN_PAUSE)
        net_read_pause(client->conn);
    if (!client->request)
        client_more(client);
}

static void on_drained(void *arg)
{
    struct client *client = arg;

    if (client->upgraded) {
        if (client->upgraded->drained)
            client->upgraded->drained(client->upgraded_arg);
    } else if (client->stream) {
        net_deadline(client->conn, 0);
        client_stream(client);
    } else if (!client->request) {
        if (http_reader_idle(client->reader))
            net_deadline(client->conn, client->server->config.idle_time);
        if (client->in.size && !client->feeding)
            client_more(client);
    }
}

static void on_deadline(void *arg)
{
    struct client *client = arg;

    if (client->upgraded) {
        if (client->upgraded->deadline)
            client->upgraded->deadline(client->upgraded_arg);
        else
            net_close(client->conn);
    } else if (!client->request && !http_reader_idle(client->reader) && net_queued(client->conn) == 0) {
        client_refuse(client, 408, "the request did not arrive in time");
    } else {
        net_close(client->conn);
    }
}

/* The peer has sent its last byte. Requests on their way, or not looked at yet, are answered; one that streams has
 * nobody to read it. */
static void on_ended(void *arg)
{
    struct client *client = arg;

    if (client->upgraded || client->stream || (!client->request && client->in.size == 0))
        net_close(client->conn);
    else
        client->half_closed = true;
}

static void on_closed(void *arg)
{
    struct client *client = arg;
    struct http_server *server = client->server;

    client->closing = true;
    if (client->upgraded)
        client->upgraded->closed(client->upgraded_arg);
    client_release(client);
    account_leave(client);
    if (client->prev)
        client->prev->next = client->next;
    else
        server->clients = client->next;
    if (client->next)
        client->next->prev = client->prev;
    server->count--;
    http_reader_free(client->reader);
    buf_done(&client->in);
    buf_done(&client->lead);
    client_unhold(client);
    mem_free(client);
    server_maybe_free(server);
}

static const struct net_events client_events = {
    .data = on_data,
    .drained = on_drained,
    .deadline = on_deadline,
    .ended = on_ended,
    .closed = on_closed,
};
