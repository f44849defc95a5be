/* SPDX-License-Identifier: Apache-2.0 */
/* conn.c - see conn.h.
 *
 *   look-up --> connect --> (TLS handshake) --> upgrade --> frames
 *
 * Every step has the same deadline; a failure anywhere closes, and closing is told once with the words of the first
 * failure. Plain connections are for the loopback only: a controller elsewhere must prove who it is.
 */
#include "agent/conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/local_token.h"
#include "wire/agent/agent_msg.h"
#include "wire/http/http1.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_read.h"

enum { READ_BYTES = 65536, DIAL_MS = 15000, QUEUE_MAX = 64 << 20 };

struct conn {
    uv_loop_t *loop;
    struct conn_target target;
    struct conn_events events;
    struct tls_context *tls;
    struct tls_session *session;
    uv_getaddrinfo_t look;
    uv_connect_t connect;
    uv_tcp_t tcp;
    uv_timer_t timer;
    bool tcp_open, timer_open, looking, asked, open, closing;
    int handles;
    size_t queued;
    struct http_reader *http;
    struct frame_reader frames;
    struct error err;
};

struct write_request {
    uv_write_t write;
    struct conn *conn;
    size_t size;
    char data[];
};

int conn_target_parse(const char *url, struct conn_target *ret_target, struct error *err)
{
    struct conn_target t = { .port = "7717" };
    const char *p = url, *end, *port = NULL;

    if (strncmp(p, "https://", 8) == 0)
        t.tls = true;
    else if (strncmp(p, "http://", 7) != 0)
        return error_set(err, -EINVAL, "'%s': expected http://HOST:PORT or https://HOST:PORT", url);
    p += t.tls ? 8 : 7;
    end = p + strcspn(p, "/");
    if (*p == '[') {
        const char *bracket = memchr(p, ']', (size_t)(end - p));

        if (!bracket)
            return error_set(err, -EINVAL, "'%s': no ']' after the address", url);
        (void)snprintf(t.host, sizeof(t.host), "%.*s", (int)(bracket - p - 1), p + 1);
        port = bracket[1] == ':' ? bracket + 2 : NULL;
    } else {
        const char *colon = memchr(p, ':', (size_t)(end - p));

        (void)snprintf(t.host, sizeof(t.host), "%.*s", (int)((colon ? colon : end) - p), p);
        port = colon ? colon + 1 : NULL;
    }
    if (port)
        (void)snprintf(t.port, sizeof(t.port), "%.*s", (int)(end - port), port);
    if (!t.host[0] || strspn(t.port, "0123456789") != strlen(t.port) || !t.port[0])
        return error_set(err, -EINVAL, "'%s': expected http://HOST:PORT or https://HOST:PORT", url);
    *ret_target = t;
    return 0;
}

static void conn_fail(struct conn *conn, int code, const char *words)
{
    if (!conn->err.code)
        (void)error_set(&conn->err, code, "%s", words);
    conn_close(conn);
}

static void conn_finish(struct conn *conn)
{
    if (conn->handles > 0 || conn->looking)
        return;
    conn->events.closed(conn->events.arg, &conn->err);
    tls_session_free(conn->session);
    http_reader_free(conn->http);
    frame_reader_done(&conn->frames);
    mem_free(conn);
}

static void on_closed(uv_handle_t *handle)
{
    struct conn *conn = handle->data;

    conn->handles--;
    conn_finish(conn);
}

void conn_close(struct conn *conn)
{
    if (conn->closing)
        return;
    conn->closing = true;
    if (conn->looking)
        (void)uv_cancel((uv_req_t *)&conn->look);
    if (conn->tcp_open)
        uv_close((uv_handle_t *)&conn->tcp, on_closed);
    if (conn->timer_open)
        uv_close((uv_handle_t *)&conn->timer, on_closed);
}

static void on_written(uv_write_t *write, int status)
{
    struct write_request *request = (struct write_request *)write;
    struct conn *conn = request->conn;

    conn->queued -= request->size;
    mem_free(request);
    if (status < 0 && status != UV_ECANCELED)
        conn_fail(conn, status, uv_strerror(status));
}

static int raw_write(struct conn *conn, const char *data, size_t size)
{
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)data, (unsigned int)size);
    struct write_request *request;
    int n = conn->queued ? UV_EAGAIN : uv_try_write((uv_stream_t *)&conn->tcp, &buf, 1);

    if (n < 0 && n != UV_EAGAIN)
        return n;
    n = n < 0 ? 0 : n;
    if ((size_t)n == size)
        return 0;
    size -= (size_t)n;
    if (conn->queued + size > QUEUE_MAX)
        return -ENOBUFS;
    request = mem_zalloc(1, sizeof(*request) + size);
    if (!request)
        return -ENOMEM;
    request->conn = conn;
    request->size = size;
    memcpy(request->data, data + n, size);
    buf = uv_buf_init(request->data, (unsigned int)size);
    conn->queued += size;
    n = uv_write(&request->write, (uv_stream_t *)&conn->tcp, &buf, 1, on_written);
    if (n < 0) {
        conn->queued -= size;
        mem_free(request);
    }
    return n;
}

static int session_drain(struct conn *conn)
{
    char data[16384];
    size_t n;
    int r = 0;

    while (r == 0 && (n = tls_drain(conn->session, data, sizeof(data))) > 0)
        r = raw_write(conn, data, n);
    return r;
}

static int plain_write(struct conn *conn, const char *data, size_t size)
{
    struct error err = { 0 };
    int r;

    if (!conn->session)
        return raw_write(conn, data, size);
    r = tls_write(conn->session, data, size, &err);
    return r < 0 ? r : session_drain(conn);
}

static int upgrade_ask(struct conn *conn)
{
    const char *token = conn->target.token;
    char text[768];
    int n = snprintf(text, sizeof(text),
                     "GET /agent/v1 HTTP/1.1\r\nHost: %s:%s\r\nConnection: Upgrade\r\nUpgrade: muster-agent\r\n"
                     "%s%s%s\r\n",
                     conn->target.host, conn->target.port, *token ? "Authorization: Bearer " : "", token,
                     *token ? "\r\n" : "");

    conn->asked = true;
    return plain_write(conn, text, (size_t)n);
}

/* Bytes of the answer; returns how many belong to it. */
static int upgrade_take(struct conn *conn, const char *data, size_t size, size_t *ret_used)
{
    const struct http_message *m;
    char words[128];
    int r = http_reader_feed(conn->http, data, size, ret_used, &conn->err);

    if (r <= 0)
        return r;
    m = http_reader_message(conn->http);
    if (m->status != 101) {
        (void)snprintf(words, sizeof(words), "the controller answered %d %s", m->status, http_status_text(m->status));
        return error_set(&conn->err, -EPROTO, "%s", words);
    }
    conn->open = true;
    (void)uv_timer_stop(&conn->timer);
    conn->events.open(conn->events.arg);
    return 0;
}

static int frames_take(struct conn *conn, const char *data, size_t size)
{
    const char *text;
    size_t length;
    int r = frame_reader_feed(&conn->frames, data, size, &conn->err);

    while (r >= 0 && !conn->closing && (r = frame_reader_next(&conn->frames, &text, &length, &conn->err)) == 1) {
        json_t *frame = NULL;

        r = json_read("frame", text, length, &frame, &conn->err);
        if (r == 0 && !json_is_object(frame))
            r = error_set(&conn->err, -EBADMSG, "a frame that is no object");
        if (r == 0)
            conn->events.frame(conn->events.arg, frame);
        json_decref(frame);
    }
    return r;
}

static int plain_take(struct conn *conn, const char *data, size_t size)
{
    size_t used = 0;
    int r = 0;

    if (!conn->open)
        r = upgrade_take(conn, data, size, &used);
    if (r < 0 || !conn->open || used == size)
        return r;
    return frames_take(conn, data + used, size - used);
}

static int session_take(struct conn *conn, const char *data, size_t size)
{
    static char plain[READ_BYTES];
    int n, r = tls_feed(conn->session, data, size, &conn->err);

    while (r >= 0 && !conn->closing && (n = tls_read(conn->session, plain, sizeof(plain), &conn->err)) != 0) {
        if (n < 0)
            return n;
        r = plain_take(conn, plain, (size_t)n);
    }
    if (r >= 0 && !conn->closing)
        r = session_drain(conn);
    if (r >= 0 && !conn->closing && tls_ready(conn->session) && !conn->asked)
        r = upgrade_ask(conn);
    return r;
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    /* One for all: what is read is taken before the next read. Agents share one thread. */
    static char in[READ_BYTES];

    (void)handle;
    (void)size;
    *buf = uv_buf_init(in, sizeof(in));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct conn *conn = stream->data;
    int r;

    if (n == 0)
        return;
    if (n < 0) {
        conn_fail(conn, (int)n, n == UV_EOF ? "the controller closed the connection" : uv_strerror((int)n));
        return;
    }
    r = conn->session ? session_take(conn, buf->base, (size_t)n) : plain_take(conn, buf->base, (size_t)n);
    if (r < 0)
        conn_fail(conn, r, strerror(-r));
}

static void on_connect(uv_connect_t *connect, int status)
{
    struct conn *conn = connect->data;
    int r = status;

    /* Another process that takes the port when the controller has gone would give us orders. */
    if (r == 0 && !conn->session && !local_port_ours((unsigned int)strtoul(conn->target.port, NULL, 10))) {
        conn_fail(conn, -EPERM,
                  "another user listens at this port, or nobody any more; https:// is for controllers of others");
        return;
    }
    if (r == 0)
        r = uv_tcp_nodelay(&conn->tcp, 1);
    if (r == 0)
        r = uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read);
    if (r == 0)
        r = conn->session ? session_take(conn, "", 0) : upgrade_ask(conn);
    if (r < 0 && !conn->closing)
        conn_fail(conn, r, uv_strerror(r));
}

static bool loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static void on_address(uv_getaddrinfo_t *look, int status, struct addrinfo *list)
{
    struct conn *conn = look->data;
    int r = status;

    conn->looking = false;
    if (conn->closing) {
        uv_freeaddrinfo(list);
        conn_finish(conn);
        return;
    }
    if (r == 0 && !conn->tls && !loopback(list->ai_addr)) {
        conn_fail(conn, -EPERM, "http:// is for the loopback only; use https://");
    } else if (r == 0) {
        r = uv_tcp_connect(&conn->connect, &conn->tcp, list->ai_addr, on_connect);
    }
    uv_freeaddrinfo(list);
    if (r < 0)
        conn_fail(conn, r, uv_strerror(r));
}

static void on_late(uv_timer_t *timer)
{
    conn_fail(timer->data, -ETIMEDOUT, "no connection in time");
}

int conn_dial(uv_loop_t *loop, const struct conn_target *target, struct tls_context *tls,
              const struct conn_events *events, struct conn **ret_conn, struct error *err)
{
    const struct http_limits limits = HTTP_LIMITS_STANDARD;
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct conn *conn = mem_zalloc(1, sizeof(*conn));
    int r;

    if (!conn)
        return error_set(err, -ENOMEM, "no memory");
    *conn = (struct conn){ .loop = loop, .target = *target, .events = *events, .tls = tls };
    frame_reader_init(&conn->frames, FRAME_BYTES_MAX);
    r = http_reader_new(HTTP_RESPONSES, &limits, &conn->http);
    if (r == 0 && tls)
        r = tls_session_new(tls, target->name[0] ? target->name : target->host, &conn->session, err);
    if (r < 0) {
        http_reader_free(conn->http);
        mem_free(conn);
        return error_set(err, r, "no memory for a connection");
    }
    (void)uv_tcp_init(loop, &conn->tcp);
    (void)uv_timer_init(loop, &conn->timer);
    conn->tcp.data = conn->timer.data = conn->look.data = conn->connect.data = conn;
    conn->tcp_open = conn->timer_open = true;
    conn->handles = 2;
    (void)uv_timer_start(&conn->timer, on_late, DIAL_MS, 0);
    *ret_conn = conn;
    r = uv_getaddrinfo(loop, &conn->look, on_address, target->host, target->port, &hints);
    if (r < 0)
        conn_fail(conn, r, uv_strerror(r));
    else
        conn->looking = true;
    return 0;
}

int conn_send_all(struct conn *conn, json_t *const *frames, size_t count)
{
    CLEANUP_BUF struct buf out = BUF_INIT(count * (FRAME_BYTES_MAX + 64));
    int r = 0;

    if (!conn->open || conn->closing)
        return -EPIPE;
    for (size_t i = 0; r == 0 && i < count; i++) {
        char *text = json_text(frames[i], NULL);

        if (!text)
            return -ENOMEM;
        r = frame_write(&out, text, strlen(text), NULL);
        mem_free(text);
    }
    if (r == 0)
        r = plain_write(conn, out.data, out.size);
    if (r < 0)
        conn_fail(conn, r, strerror(-r));
    return r;
}

int conn_send(struct conn *conn, json_t *frame)
{
    return conn_send_all(conn, &frame, 1);
}

size_t conn_queued(const struct conn *conn)
{
    return conn->queued;
}

int conn_local(const struct conn *conn, char *out, size_t size)
{
    struct sockaddr_storage address;
    int length = sizeof(address), r = uv_tcp_getsockname(&conn->tcp, (struct sockaddr *)&address, &length);

    if (r < 0)
        return r;
    if (address.ss_family == AF_INET)
        return uv_ip4_name((const struct sockaddr_in *)&address, out, size);
    return uv_ip6_name((const struct sockaddr_in6 *)&address, out, size);
}
