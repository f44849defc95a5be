/* SPDX-License-Identifier: Apache-2.0 */
/* http_reply.c - answers: head and body in one write; streams in chunks, as fast as the client reads. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "ctl/http/http_internal.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_write.h"

enum { STREAM_QUEUE_LOW = 65536, HOLD_BYTES = 32768 };
#define HOLD_SPAN (10 * USEC_MSEC) /* nobody who reads with their eyes notices */
#define REPLY_BYTES_MAX ((size_t)64 << 20)

static void header_put(struct request *request, const char *name, const char *value)
{
    buf_text(&request->heads, name);
    buf_put(&request->heads, ": ", 2);
    buf_text(&request->heads, value);
    buf_put(&request->heads, "\r\n", 2);
}

void reply_header(struct request *request, const char *name, const char *format, ...)
{
    char value[1024];
    va_list args;

    if (!strchr(format, '%')) {
        header_put(request, name, format); /* our own words */
        return;
    }
    va_start(args, format);
    (void)vsnprintf(value, sizeof(value), format, args);
    va_end(args);
    /* A line break in a value would be another header. */
    for (char *p = value; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = ' ';
    header_put(request, name, value);
}

void reply_header_number(struct request *request, const char *name, const char *before, int64_t number,
                         const char *behind)
{
    buf_text(&request->heads, name);
    buf_put(&request->heads, ": ", 2);
    buf_text(&request->heads, before);
    json_put_i64(&request->heads, number);
    buf_text(&request->heads, behind);
    buf_put(&request->heads, "\r\n", 2);
}

/* The time changes once a second; so does its text. */
static const char *date_text(void)
{
    static char text[40];
    static time_t last;
    time_t now = (time_t)(clock_now() / USEC_SEC);
    struct tm tm;

    if (now != last) {
        gmtime_r(&now, &tm);
        (void)strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm);
        last = now;
    }
    return text;
}

void client_unhold(struct client *client)
{
    struct http_server *server = client->server;
    struct client **at = &server->holding;

    buf_done(&client->held);
    if (!client->holds)
        return;
    while (*at != client)
        at = &(*at)->next_held;
    *at = client->next_held;
    client->holds = false;
    if (!server->holding && server->release)
        loop_timer_stop(server->release);
}

void client_flush(struct client *client)
{
    if (!client->held.size)
        return;
    net_write(client->conn, client->held.data, client->held.size);
    client_unhold(client);
}

static void client_keep(struct client *client)
{
    struct http_server *server = client->server;

    if (client->holds)
        return;
    if (!server->holding)
        loop_timer_after(server->release, HOLD_SPAN);
    client->holds = true;
    client->next_held = server->holding;
    server->holding = client;
}

void clients_release(void *arg)
{
    struct http_server *server = arg;

    while (server->holding) {
        struct client *client = server->holding;

        client_flush(client);
        client_unhold(client);
    }
}

void client_write(struct client *client, const void *data, size_t size, bool whole)
{
    bool more = client->in.size || client->behind;

    if (client->held.size == 0 && !(whole && more && client->server->release)) {
        net_write(client->conn, data, size);
        return;
    }
    client->held.max = REPLY_BYTES_MAX + 65536 + HOLD_BYTES;
    buf_put(&client->held, data, size);
    if (client->held.error)
        net_close(client->conn);
    else if (whole && more && client->held.size < HOLD_BYTES)
        client_keep(client);
    else
        client_flush(client);
}

static void head_put(struct request *request, struct buf *out, int status, const char *type)
{
    buf_text(out, "HTTP/1.1 ");
    json_put_i64(out, status);
    buf_char(out, ' ');
    buf_text(out, http_status_text(status));
    buf_text(out, "\r\nDate: ");
    buf_text(out, date_text());
    if (type) {
        buf_text(out, "\r\nContent-Type: ");
        buf_text(out, type);
    }
    buf_text(out, "\r\n");
    if (request->heads.size)
        buf_put(out, request->heads.data, request->heads.size);
    buf_text(out, "X-Content-Type-Options: nosniff\r\n");
    if (request->close)
        buf_text(out, "Connection: close\r\n");
}

void reply(struct request *request, int status, const char *type, const void *body, size_t size)
{
    CLEANUP_BUF struct buf out = BUF_INIT(REPLY_BYTES_MAX + 32768);
    struct client *client = request->client;

    if (request->answered || !client)
        return;
    request->answered = true;
    request->status = status;
    head_put(request, &out, status, type);
    if (status != 304 && status != 204) {
        buf_text(&out, "Content-Length: ");
        json_put_i64(&out, (int64_t)size);
        buf_text(&out, "\r\n");
    }
    buf_text(&out, "\r\n");
    if (!request->head_only && size)
        buf_put(&out, body, size);
    if (out.error) {
        net_close(client->conn);
        return;
    }
    request_hold(request);
    client_write(client, out.data, out.size, !request->close);
    if (request->client)
        client_finished(client);
    request_drop(request);
}

void reply_buf(struct request *request, int status, struct buf *body)
{
    if (body->error)
        reply_problem(request, 500, "Internal", NULL, "the answer is too large");
    else
        reply(request, status, "application/json", body->data, body->size);
    buf_done(body);
}

void reply_tree(struct request *request, int status, json_t *tree)
{
    char *text = tree ? json_text(tree, NULL) : NULL;

    if (text)
        reply(request, status, "application/json", text, strlen(text));
    else
        reply_problem(request, 500, "Internal", NULL, "out of memory");
    free(text);
    json_decref(tree);
}

void reply_problem(struct request *request, int status, const char *code, const char *hint, const char *format, ...)
{
    CLEANUP_BUF struct buf body = BUF_INIT(65536);
    struct json_write json;
    char detail[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(detail, sizeof(detail), format, args);
    va_end(args);
    json_write_init(&json, &body, false);
    json_write_object(&json, NULL);
    json_write_text(&json, "type", "about:blank");
    json_write_text(&json, "title", http_status_text(status));
    json_write_i64(&json, "status", status);
    json_write_text(&json, "detail", detail);
    json_write_text(&json, "code", code);
    json_write_array(&json, "hints");
    if (hint && *hint)
        json_write_text(&json, NULL, hint);
    json_write_close(&json);
    json_write_array(&json, "errors");
    json_write_close(&json);
    json_write_close(&json);
    if (status == 401)
        reply_header(request, "WWW-Authenticate", "Bearer");
    if (status == 429 || status == 503)
        reply_header(request, "Retry-After", "1");
    reply(request, status, "application/problem+json", body.data, body.size);
}

/* One piece of a stream, with what stands before it and, behind the last, the end: one write. */
static void piece_write(struct client *client, const struct buf *piece, bool last)
{
    CLEANUP_BUF struct buf out = BUF_INIT(REPLY_BYTES_MAX + 32768 + 64);

    buf_put(&out, client->lead.data, client->lead.size);
    buf_done(&client->lead);
    if (piece->size && client->chunked)
        buf_printf(&out, "%zx\r\n", piece->size);
    buf_put(&out, piece->data, piece->size);
    if (piece->size && client->chunked)
        buf_text(&out, "\r\n");
    if (last && client->chunked)
        buf_text(&out, "0\r\n\r\n");
    if (out.error)
        net_close(client->conn);
    else
        client_write(client, out.data, out.size, last && !client->request->close);
}

/* Asks for pieces while the client keeps up. */
void client_stream(struct client *client)
{
    struct request *request = client->request;

    if (client->streaming_now || !client->stream)
        return;
    client->streaming_now = true;
    request_hold(request);
    while (request->client && client->stream && net_queued(client->conn) < STREAM_QUEUE_LOW) {
        CLEANUP_BUF struct buf out = BUF_INIT(REPLY_BYTES_MAX);
        int r = client->stream->next(client->stream_arg, &out);

        if ((r < 0 && r != -EAGAIN) || out.error) {
            net_close(client->conn);
            break;
        }
        piece_write(client, &out, r == 0);
        if (r == 0 && request->client) {
            client->streaming_now = false;
            client_finished(client);
            request_drop(request);
            return;
        }
        if (r == -EAGAIN)
            break;
    }
    if (request->client) {
        client->streaming_now = false;
        /* Somebody who reads nothing for send_time is gone. */
        if (net_queued(client->conn))
            net_deadline(client->conn, client->server->config.send_time);
    }
    request_drop(request);
}

void reply_stream(struct request *request, int status, const char *type, const struct stream_ops *ops, void *arg)
{
    CLEANUP_BUF struct buf out = BUF_INIT(32768);
    struct client *client = request->client;

    if (request->answered || !client) {
        if (ops->gone)
            ops->gone(arg);
        return;
    }
    request->answered = request->streaming = true;
    request->status = status;
    client->chunked = request->message->minor == 1;
    request->close |= !client->chunked;
    head_put(request, &out, status, type);
    if (client->chunked)
        buf_text(&out, "Transfer-Encoding: chunked\r\n");
    buf_text(&out, "\r\n");
    client->stream = ops;
    client->stream_arg = arg;
    if (!request->head_only) {
        buf_done(&client->lead);
        client->lead = out;
        out = (struct buf){ 0 };
        client_stream(client);
        return;
    }
    client_write(client, out.data, out.size, false);
    if (request->client)
        client_finished(client);
}

void request_poke(struct request *request)
{
    if (request->client && request->client->stream && net_queued(request->client->conn) < STREAM_QUEUE_LOW)
        client_stream(request->client);
}

void reply_upgrade(struct request *request, const char *protocol, const char *heads, const struct upgrade_ops *ops,
                   void *arg)
{
    CLEANUP_BUF struct buf out = BUF_INIT(32768);
    struct client *client = request->client;

    if (request->answered || !client) {
        ops->closed(arg);
        return;
    }
    request->answered = true;
    request->status = 101;
    client->upgraded = ops;
    client->upgraded_arg = arg;
    buf_printf(&out, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s\r\n", protocol,
               heads);
    net_deadline(client->conn, 0);
    net_read_resume(client->conn);
    client_write(client, out.data, out.size, false);
    if (client->in.size && !client->closing) {
        struct buf in = client->in;

        client->in = (struct buf)BUF_INIT(in.max);
        ops->data(arg, in.data, in.size);
        buf_done(&in);
    }
}
